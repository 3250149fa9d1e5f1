"""The tour: covariance matrices, regression with full covariance, a VAE of digits; then one page.

mmlp demo [--quick] [--out demo]
"""

import time
import warnings
from pathlib import Path

from sklearn.exceptions import ConvergenceWarning

from mmlp.demo import covariances, regression, vae
from mmlp.demo.tables import text
from mmlp.reporting.records import make_settings, run_and_record
from mmlp.reporting.results_page import Heading

HEADING = Heading(
    "A tour of matrix-mlp",
    "Networks whose output is a covariance: learn covariance matrices, predict with full error "
    "covariance, model a density. One seed, a small run each.",
    "What was run",
)
PARTS = {
    "demo-covariances": covariances,
    "demo-regression": regression,
    "demo-vae": vae,
}


def take_tour(out: Path, *, quick: bool) -> None:
    """Run the three parts, print their tables, and write one page.

    Parameters
    ----------
    out : the folder of the page, its records and its pictures
    quick : whether to train for a moment only
    """
    start = time.perf_counter()
    for number, (name, part) in enumerate(PARTS.items(), 1):
        print(f"[{number}/{len(PARTS)}] {part.TITLE}", flush=True)
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", ConvergenceWarning
            )  # the tour is short on purpose
            record = run_and_record(
                name,
                part,
                make_settings(part.Settings, quick=quick),
                quick=quick,
                out=out,
                heading=HEADING,
                program="mmlp demo",
            )
        tables = [f"\n{text(table)}\n" for table in record["result"]["tables"]]
        print("\n".join(tables), flush=True)
    page = (out / "index.html").resolve().as_uri()
    print(f"{time.perf_counter() - start:.0f} s; open {page}")
