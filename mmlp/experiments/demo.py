"""The tour: covariance matrices, regression with full covariance, a VAE of digits; then one page.

python -m mmlp.experiments.demo [--quick] [--out demo]      or: mmlp demo
"""

import argparse
import time
import warnings
from pathlib import Path

from sklearn.exceptions import ConvergenceWarning

from mmlp.experiments.harness.run import perform, settings_of
from mmlp.experiments.tour import covariances, regression, vae
from mmlp.experiments.tour.tables import text
from mmlp.pages.page import BOLD, Heading

HEADING = Heading(
    "A tour of matrix-mlp",
    "Networks whose output is a covariance: learn covariance matrices, predict with full error "
    "covariance, model a density. One seed, a small run each; " + BOLD,
    "What was run",
)
PROGRAM = "python -m mmlp.experiments.demo"
PARTS = {"demo-covariances": covariances, "demo-regression": regression, "demo-vae": vae}


def take(out: Path, *, quick: bool) -> None:
    """Run the parts, print their tables, and write one page into `out`."""
    how = {"quick": quick, "out": out, "heading": HEADING, "program": PROGRAM}
    start = time.perf_counter()
    for number, (name, part) in enumerate(PARTS.items(), 1):
        print(f"[{number}/{len(PARTS)}] {part.TITLE}", flush=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the tour is short on purpose
            settings = settings_of(part.Settings, quick=quick)
            record = perform(name, part, settings, **how)
        print("\n".join(f"\n{text(table)}\n" for table in record["result"]["tables"]), flush=True)
    page = (out / "index.html").resolve().as_uri()
    print(f"{time.perf_counter() - start:.0f} s; open {page}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog=PROGRAM, description="Take the tour.")
    parser.add_argument("--quick", action="store_true", help="train for a moment only")
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder of the page")
    take(**vars(parser.parse_args()))
