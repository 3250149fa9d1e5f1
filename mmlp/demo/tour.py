"""The tour: covariance matrices, regression with full covariance, a density of digits.

Each part is an experiment as `mmlp.reporting.records` describes it.
"""

import time
import warnings
from pathlib import Path

from sklearn.exceptions import ConvergenceWarning

from mmlp.demo import covariances, digits, robot_arm
from mmlp.demo.text_table import format_for_terminal
from mmlp.reporting.records import make_settings, run_and_record
from mmlp.reporting.results_page import Heading

HEADING = Heading(
    title="A tour of matrix-mlp",
    about=(
        "Networks whose output is a covariance: learn covariance matrices, predict "
        "with full error covariance, model a density. Each part is a small run with "
        "one seed."
    ),
    contents_title="What was run",
)
PARTS = {
    "demo-covariances": covariances,
    "demo-regression": robot_arm,
    "demo-vae": digits,
}


def take_tour(out: Path, *, quick: bool) -> None:
    """Run the three parts, print their tables, and write one page.

    Parameters
    ----------
    out : Path
        Folder of the page, its records and its figures.
    quick : bool
        Whether to train for a few epochs only.
    """
    start = time.perf_counter()
    for number, (name, part) in enumerate(PARTS.items(), 1):
        print(f"[{number}/{len(PARTS)}] {part.TITLE}", flush=True)
        with warnings.catch_warnings():
            # The runs of the tour are short on purpose.
            warnings.simplefilter("ignore", ConvergenceWarning)
            record = run_and_record(
                name,
                part,
                make_settings(part.Settings, quick=quick),
                quick=quick,
                out=out,
                heading=HEADING,
                program="mmlp demo",
            )
        for table in record["result"]["tables"]:
            print(f"\n{format_for_terminal(table)}\n", flush=True)

    seconds = time.perf_counter() - start
    page = (out / "index.html").resolve().as_uri()
    print(f"{seconds:.0f} s; open {page}")
