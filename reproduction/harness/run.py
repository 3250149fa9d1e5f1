"""Run an experiment with an option for each of its settings, or several in turn.

An experiment is a module of this package as `mmlp.reporting.records` describes it.
"""

import dataclasses
import importlib
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mmlp.cli.dataclass_parser import option, parse_fields
from mmlp.reporting.records import make_settings, run_and_record
from mmlp.reporting.results_page import Heading
from reproduction.harness.targets import TARGETS

PROGRAM = "python -m reproduction"

PAGE_HEADING = Heading(
    "The paper's results, reproduced",
    "The results of “Constructing the Matrix Multilayer Perceptron and its Application "
    "to the VAE” (Taghia, Bånkestad, Lindsten and Schön, 2019) beside those that "
    "matrix-mlp obtains. Each section shows the command that made it. A number with ± "
    "is a mean and its standard error over seeds.",
    "The paper's claims",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of every run of experiments."""

    quick: bool = option(False, help="A small run, to see that it works.")
    out: Path = option(
        Path("report"), metavar="FOLDER", short="-o", help="Folder of the results."
    )


@dataclasses.dataclass(frozen=True)
class Run:
    """One experiment with its settings.

    Parameters
    ----------
    name : str
        The target.
    settings : object
        An instance of the experiment's `Settings`.
    quick : bool
        Whether the settings are those of a quick run.
    out : Path
        The folder of the results.
    """

    name: str
    settings: Any
    quick: bool
    out: Path

    def perform(self) -> dict[str, Any]:
        """Run the experiment, add it to the page of results, and return its record."""
        return run_and_record(
            self.name,
            find_experiment(self.name),
            self.settings,
            quick=self.quick,
            out=self.out,
            heading=PAGE_HEADING,
            program=f"{PROGRAM} {self.name}",
            order=TARGETS,
        )


def parse_run(name: str, argv: Sequence[str]) -> Run:
    """Parse the options of one experiment, which has one for each setting.

    The items of a tuple are separated by commas.

    Parameters
    ----------
    name : str
        The target.
    argv : sequence of str
        The options, such as `["--seeds", "5", "--out", "folder"]`.

    Returns
    -------
    Run

    Raises
    ------
    ValueError
        If an option is wrong.
    """
    settings_class = find_experiment(name).Settings
    values = parse_fields(argv, [settings_class, RunOptions], f"{PROGRAM} {name}")
    quick = values.pop("quick", False)
    out = values.pop("out", RunOptions.out)
    settings = make_settings(settings_class, quick=quick, **values)
    return Run(name, settings, quick, out)


def run_one(name: str, argv: Sequence[str]) -> dict[str, Any]:
    """Run one experiment with options as `parse_run` reads them; return its record."""
    return parse_run(name, argv).perform()


def run_several(
    targets: Sequence[str],
    *,
    quick: bool = False,
    out: Path = RunOptions.out,
    **settings: Any,
) -> int:
    """Run experiments one after the other; return 1 if one of them failed, else 0.

    Parameters
    ----------
    targets : sequence of str
        Names of experiments, or "all".
    quick : bool, default=False
        Run them with their quick settings.
    out : Path, default="report"
        The folder of the results.
    **settings
        Settings for the experiments that have them.

    Returns
    -------
    int

    Notes
    -----
    An experiment that fails, for example because its data are missing, is reported on
    stderr, and the others run.
    """
    names = TARGETS if "all" in targets else tuple(dict.fromkeys(targets))
    failed = []
    for number, name in enumerate(names, 1):
        print(f"[{number}/{len(names)}] {name}", flush=True)
        try:
            settings_class = find_experiment(name).Settings
            fields = {field.name for field in dataclasses.fields(settings_class)}
            changes = {key: value for key, value in settings.items() if key in fields}
            experiment_settings = make_settings(settings_class, quick=quick, **changes)
            Run(name, experiment_settings, quick, out).perform()
        except Exception as error:
            # Whatever it is, the other experiments are worth running.
            if not isinstance(error, ValueError | OSError):
                traceback.print_exc()
            failed.append(name)
            reason = " ".join(str(error).split()) or type(error).__name__
            print(f"{name} failed: {reason}", file=sys.stderr, flush=True)
    if failed:
        print(
            f"{len(failed)} of {len(names)} targets failed: {', '.join(failed)}",
            file=sys.stderr,
        )
    return 1 if failed else 0


def find_experiment(name: str) -> Any:
    """Return the module of an experiment, such as `reproduction.example1_mlp`."""
    return importlib.import_module(f"reproduction.{name.replace('-', '_')}")
