"""Run experiments and write a page that shows the paper's values beside those obtained.

    python -m reproduction example1 density --quick
    python -m reproduction all --data DIR
    python -m reproduction frey --keep DIR

A single experiment has an option for each of its settings.
The results go into the folder `report` (or `--out`): a JSON file for each experiment,
its figures, and `index.html`.
"""

import dataclasses
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path

from mmlp.cli import interrupts
from mmlp.cli.dataclass_parser import join_words, option, parse_fields, suggest
from reproduction.harness.run import PROGRAM, RunOptions, parse_run, run_several
from reproduction.harness.targets import TARGETS

STATUS_WRONG_ARGUMENTS = 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class SharedOptions(RunOptions):
    seeds: int | None = option(
        None, lowest=1, help="Runs with different seeds, where there are any."
    )
    data: Path | None = option(
        None, metavar="DIR", help="Folder of the data, where they are needed."
    )


# The docstring is the text of `--help`.
SharedOptions.__doc__ = f"""{__doc__}
Targets: {", ".join(TARGETS)}, or all.
`{PROGRAM} TARGET --help` lists the settings of one target."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiments that are named before the first option.

    Parameters
    ----------
    argv : sequence of str, optional
        Targets, then options; by default those of this process.

    Returns
    -------
    int
        The exit status: 0 on success, 1 if an experiment failed, 2 for a wrong
        argument.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    targets = list(itertools.takewhile(lambda word: not word.startswith("-"), words))
    options = words[len(targets) :]
    is_single = len(targets) == 1 and targets != ["all"]
    try:
        check_targets(targets)
        if is_single:
            run = parse_run(targets[0], options)
        else:
            values = parse_fields(options, [SharedOptions], f"{PROGRAM} TARGETS")
        # This comes after parsing, so that `--help` needs no target.
        if not targets:
            raise ValueError(
                f"name at least one target, such as `{PROGRAM} all --quick`."
            )
    except ValueError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return STATUS_WRONG_ARGUMENTS

    if is_single:
        run.perform()
        return 0
    return run_several(targets, **values)


def check_targets(targets: Sequence[str]) -> None:
    """Refuse a target that does not exist."""
    known = [*TARGETS, "all"]
    for target in targets:
        if target not in known:
            hint = suggest(target, known) or f"; use {join_words(known)}."
            raise ValueError(f"there is no target {target}{hint}")


if __name__ == "__main__":
    interrupts.watch()  # Ctrl-C ends it with one line
    sys.exit(main())
