"""Run experiments and write a page that shows the paper's values beside those obtained.

    python -m reproduction example1 density --quick
    python -m reproduction all --data DIR
    python -m reproduction frey --keep DIR        one experiment takes all of its settings

The results go into the folder `report` (or `--out`): a JSON file for each experiment, its figures,
and `index.html`.
"""

import argparse
import difflib
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path

from mmlp.cli import interrupts
from reproduction.harness.run import add_common_options, run_one, run_several
from reproduction.harness.targets import TARGETS

EPILOG = f"""targets: {", ".join(TARGETS)}, or all.
`python -m reproduction TARGET --help` lists the settings of one target."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiments that are named before the first option; return the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    targets = list(itertools.takewhile(lambda word: not word.startswith("-"), words))
    options = words[len(targets) :]
    parser = _make_parser()
    for target in targets:
        if target not in (*TARGETS, "all"):
            parser.error(_describe_unknown(target))

    if len(targets) == 1 and targets != ["all"]:
        run_one(targets[0], options)
        return 0
    values = vars(parser.parse_args(options))
    if not targets:
        parser.error(
            "name what to reproduce, such as `python -m reproduction all --quick`"
        )
    if values["seeds"] is not None and values["seeds"] < 1:
        parser.error(f"--seeds must be at least 1, got {values['seeds']}.")
    return run_several(targets, **values)


def _make_parser() -> argparse.ArgumentParser:
    """Make the parser of several targets: only options that many of them have."""
    parser = argparse.ArgumentParser(
        prog="python -m reproduction",
        usage="python -m reproduction TARGET [TARGET ...] [options]",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_common_options(parser)
    parser.add_argument(
        "--seeds", type=int, help="runs with different seeds, where there are any"
    )
    parser.add_argument(
        "--data", type=Path, help="folder of the data, where they are needed"
    )
    return parser


def _describe_unknown(target: str) -> str:
    close = difflib.get_close_matches(target, [*TARGETS, "all"], 1)
    remedy = (
        f"did you mean {close[0]}?" if close else f"use {', '.join(TARGETS)} or all."
    )
    return f"there is no target {target}; {remedy}"


if __name__ == "__main__":
    interrupts.watch()  # Ctrl-C ends it with one line
    sys.exit(main())
