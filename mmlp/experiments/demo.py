"""The tour: covariance matrices from inputs, regression with full covariance, a VAE of digits; then one page to open.

python -m mmlp.experiments.demo [--quick] [--out demo]      or: mmlp demo
"""

import argparse
import time
import warnings
from pathlib import Path

from sklearn.exceptions import ConvergenceWarning

from mmlp.experiments.harness import run as _run
from mmlp.experiments.tour import core as _tour
from mmlp.experiments.tour import covariances as demo_covariances
from mmlp.experiments.tour import regression as demo_regression
from mmlp.experiments.tour import vae as demo_vae

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
    start, flags = (
        time.perf_counter(),
        ["--out", str(options.out), *(["--quick"] if options.quick else [])],
    )
    for number, (name, part) in enumerate(PARTS.items(), 1):
        print(f"[{number}/{len(PARTS)}] {part.TITLE}", flush=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the tour is short on purpose
            record = _run.main(name, part.Settings, part.run, part.draw, flags)
        print(
            "\n".join(f"\n{_tour.text(table)}\n" for table in record["result"]["tables"]),
            flush=True,
        )
    print(
        f"{time.perf_counter() - start:.0f} s; open {(options.out / 'index.html').resolve().as_uri()}"
    )


if __name__ == "__main__":
    main()
