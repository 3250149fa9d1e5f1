"""The tour: covariance matrices from inputs, regression with full covariance, a VAE of digits; then one page to open.

python -m mmlp.experiments.demo [--quick] [--out demo]      or: mmlp demo
"""

import argparse
import time
import warnings
from pathlib import Path

from sklearn.exceptions import ConvergenceWarning

from mmlp.experiments.harness.run import perform, settings_of
from mmlp.experiments.tour import core as _tour
from mmlp.experiments.tour import covariances as demo_covariances
from mmlp.experiments.tour import regression as demo_regression
from mmlp.experiments.tour import vae as demo_vae
from mmlp.pages.page import BOLD, Heading

HEADING = Heading(
    "A tour of matrix-mlp",
    "Networks whose output is a covariance: learn covariance matrices, predict with full error "
    "covariance, model a density. One seed, a small run each; " + BOLD,
    "What was run",
)
PARTS = {
    "demo-covariances": demo_covariances,
    "demo-regression": demo_regression,
    "demo-vae": demo_vae,
}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m mmlp.experiments.demo", description="Take the tour."
    )
    parser.add_argument(
        "--quick", action="store_true", help="train for a moment only, to see that it works"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("demo"), help="folder of the page and its pictures"
    )
    options = parser.parse_args(argv)
    start = time.perf_counter()
    for number, (name, part) in enumerate(PARTS.items(), 1):
        print(f"[{number}/{len(PARTS)}] {part.TITLE}", flush=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the tour is short on purpose
            settings = settings_of(part.Settings, quick=options.quick)
            how = {"quick": options.quick, "out": options.out, "heading": HEADING}
            record = perform(name, part, settings, **how)
        print(
            "\n".join(f"\n{_tour.text(table)}\n" for table in record["result"]["tables"]),
            flush=True,
        )
    print(
        f"{time.perf_counter() - start:.0f} s; open {(options.out / 'index.html').resolve().as_uri()}"
    )


if __name__ == "__main__":
    main()
