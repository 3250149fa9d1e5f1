"""Run experiments by name: one with an option for each of its settings, or several in turn.

An experiment is a module of this package as `mmlp.reporting.records` describes it.
"""

import argparse
import dataclasses
import importlib
import sys
import traceback
import types
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mmlp.reporting.records import make_settings, option_name, run_and_record
from mmlp.reporting.results_page import Heading
from reproduction.harness.targets import TARGETS

PAPER = Heading(
    "The paper's results, reproduced",
    "The results of “Constructing the Matrix Multilayer Perceptron and its Application "
    "to the VAE” (Taghia, Bånkestad, Lindsten and Schön, 2019) beside those that "
    "matrix-mlp obtains. Each section shows the command that made it. A number with ± is "
    "a mean and its standard error over seeds.",
    "The paper's claims",
)


def run_one(name: str, argv: Sequence[str]) -> dict[str, Any]:
    """Run one experiment, with an option for each of its settings; tuples have commas.

    Parameters
    ----------
    name : the experiment
    argv : the options, such as `["--seeds", "5", "--out", "folder"]`

    Returns
    -------
    dict
        The record that was written.
    """
    experiment = find_experiment(name)
    kind = experiment.Settings
    program = f"python -m reproduction {name}"
    parser = argparse.ArgumentParser(prog=program, description=kind.__doc__)
    add_common_options(parser)
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        options = _argument_options(hints[field.name])
        parser.add_argument(
            option_name(field.name), help=f"default: {field.default}", **options
        )

    values = vars(parser.parse_args(argv))
    quick = values.pop("quick")
    out = values.pop("out")
    try:
        settings = make_settings(kind, quick=quick, **values)
    except ValueError as error:
        parser.error(str(error))
    return _perform(name, experiment, settings, quick=quick, out=out)


def run_several(
    targets: Sequence[str],
    *,
    quick: bool = False,
    out: Path = Path("report"),
    **settings: Any,
) -> int:
    """Run experiments one after the other, and return 1 if one of them failed, otherwise 0.

    Parameters
    ----------
    targets : names, or "all"
    quick : whether to run them with their quick settings
    out : the folder of the results
    **settings : passed on to the experiments that have such settings

    Notes
    -----
    An experiment that fails, such as for want of data, is named on stderr, and the others run.
    """
    names = TARGETS if "all" in targets else tuple(dict.fromkeys(targets))
    failed = []
    for number, name in enumerate(names, 1):
        print(f"[{number}/{len(names)}] {name}", flush=True)
        try:
            experiment = find_experiment(name)
            fields = {field.name for field in dataclasses.fields(experiment.Settings)}
            known = {key: value for key, value in settings.items() if key in fields}
            chosen = make_settings(experiment.Settings, quick=quick, **known)
            _perform(name, experiment, chosen, quick=quick, out=out)
        except (
            Exception
        ) as error:  # whatever it is, the other experiments are worth running
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


def add_common_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that every run of experiments has."""
    parser.add_argument(
        "--quick", action="store_true", help="a small run, to see that it works"
    )
    parser.add_argument(
        "-o", "--out", type=Path, default=Path("report"), help="folder of the results"
    )


def _perform(
    name: str, experiment: Any, settings: Any, *, quick: bool, out: Path
) -> dict[str, Any]:
    """Run an experiment and add it to the page of the paper's results."""
    return run_and_record(
        name,
        experiment,
        settings,
        quick=quick,
        out=out,
        heading=PAPER,
        program=f"python -m reproduction {name}",
        order=TARGETS,
    )


def _argument_options(hint: Any) -> dict[str, Any]:
    """How argparse reads a field: int, float, str, Path, bool, a tuple of these; or None."""
    if isinstance(hint, types.UnionType):
        hint = next(
            part for part in typing.get_args(hint) if part is not types.NoneType
        )
    if hint is bool:
        return {"action": argparse.BooleanOptionalAction}
    if typing.get_origin(hint) is tuple:
        convert = typing.get_args(hint)[0]
        return {"type": lambda text: tuple(convert(part) for part in text.split(","))}
    return {"type": hint}
