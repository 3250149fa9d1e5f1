"""Run the paper's experiments, one after the other, into one folder with one page.

    python -m mmlp.experiments.reproduce {all,NAME...} [--quick] [--out report] [--seeds N] [--data DIR]

A target that fails, such as for want of data, is named, the others go on, and the exit status is 1.
"""

import argparse
import dataclasses
import importlib
import sys
import traceback
from pathlib import Path
from types import ModuleType

from mmlp.experiments.harness import run as _run
from mmlp.pages import page as report

TARGETS = (
    report.ORDER
)  # each is a module with Settings, run and draw, dashes written as underscores


def main(argv: list[str] | None = None) -> int:
    """Run the targets; gives 0 if all of them ended well, 1 if one failed."""
    parser = argparse.ArgumentParser(
        prog="python -m mmlp.experiments.reproduce", description="Reproduce the paper's results."
    )
    choices = ("all", *TARGETS)
    parser.add_argument(
        "targets",
        nargs="+",
        choices=choices,
        metavar="TARGET",
        help=f"one or more of {', '.join(choices)}",
    )
    parser.add_argument(
        "--quick", action="store_true", help="small runs, to see that everything works"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("report"), help="folder of the results and of index.html"
    )
    parser.add_argument("--seeds", type=int, help="number of seeds, where an experiment has them")
    parser.add_argument(
        "--data", type=Path, help="folder of the data, where an experiment needs them"
    )
    options = parser.parse_args(argv)
    if options.seeds is not None and options.seeds < 1:
        parser.error(f"--seeds must be at least 1, got {options.seeds}")

    names = TARGETS if "all" in options.targets else tuple(dict.fromkeys(options.targets))
    failed = []
    for number, name in enumerate(names, 1):
        print(f"[{number}/{len(names)}] {name}", flush=True)
        try:
            reproduce(name, options)
        except Exception as error:  # whatever it is, the other targets are worth their numbers
            if not isinstance(error, ValueError | OSError):
                traceback.print_exc()
            failed.append(name)
            print(
                f"{name} failed: {' '.join(str(error).split()) or type(error).__name__}",
                file=sys.stderr,
                flush=True,
            )
    if failed:
        print(f"{len(failed)} of {len(names)} targets failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def load(name: str) -> ModuleType:
    """The module of a target; the others are not imported."""
    return importlib.import_module(f"mmlp.experiments.{name.replace('-', '_')}")


def reproduce(name: str, options: argparse.Namespace) -> dict:
    """Run one target; it is passed those of `seeds` and `data` that it has settings for."""
    module = load(name)
    fields = {field.name for field in dataclasses.fields(module.Settings)}
    argv = ["--out", str(options.out), *(["--quick"] if options.quick else [])]
    for option in ("seeds", "data"):
        value = getattr(options, option)
        if value is not None and option in fields:
            argv += [f"--{option}", str(value)]
    return _run.main(name, module.Settings, module.run, module.draw, argv)


if __name__ == "__main__":
    sys.exit(main())
