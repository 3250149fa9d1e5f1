"""How an experiment is run: settings in; one JSON, its figures and the page of all results out.

An experiment is a module with a frozen dataclass `Settings`, whose `QUICK` holds what `--quick`
changes, a function `run(settings) -> result`, and, if the result has figures, `draw(record, out)`,
which reads the JSON only. `mmlp.pages.page` lists the entries of a result that the page shows.
`python -m mmlp.experiments.NAME` (`main`) and `mmlp reproduce` (`reproduce`) both end in `perform`.
"""

import argparse
import dataclasses
import datetime
import importlib.metadata
import json
import os
import platform
import shlex
import sys
import time
import traceback
import types
import typing
from collections.abc import Sequence
from pathlib import Path

import jax
import jax.numpy as jnp

from mmlp._version import __version__
from mmlp.checkpoint import atomic
from mmlp.experiments.harness.targets import TARGETS
from mmlp.pages import page

PAPER = page.Heading(
    "The paper&rsquo;s results, reproduced",
    f"""What <em>Constructing the Matrix Multilayer Perceptron and its Application to the VAE</em>
(Taghia, Bånkestad, Lindsten and Schön, 2019) reports, beside what matrix-mlp obtains. Each section
was made by the command that it shows. A number with ± is a mean and its standard error over seeds;
{page.BOLD}""",
    "The paper&rsquo;s claims",
)


def main(name: str, argv: Sequence[str] | None = None) -> dict:
    """`python -m mmlp.experiments.NAME`: a flag for each setting, tuples separated by commas."""
    experiment = find(name)
    kind, program = experiment.Settings, f"python -m {experiment.__name__}"
    parser = argparse.ArgumentParser(prog=program, description=kind.__doc__)
    parser.add_argument("--quick", action="store_true", help="a small run, to see that it works")
    parser.add_argument("--out", type=Path, default=Path("report"), help="folder of the results")
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        text = f"default: {field.default}"
        parser.add_argument(_flag(field.name), help=text, **_option(hints[field.name]))
    given = vars(parser.parse_args(argv))
    where = {"quick": given.pop("quick"), "out": given.pop("out")}
    try:
        settings = settings_of(kind, quick=where["quick"], **given)
    except ValueError as error:
        parser.error(str(error))
    return perform(name, experiment, settings, **where)


def reproduce(targets: Sequence[str], *, quick=False, out=Path("report"), **given) -> int:
    """Run these targets, or "all", one after the other; gives 1 if one failed, otherwise 0.

    Each is passed those of `given` that it has settings for. One that fails, such as for want of
    data, is named, and the others go on.
    """
    names, failed = TARGETS if "all" in targets else tuple(dict.fromkeys(targets)), []
    for number, name in enumerate(names, 1):
        print(f"[{number}/{len(names)}] {name}", flush=True)
        try:
            experiment = find(name)
            fields = {field.name for field in dataclasses.fields(experiment.Settings)}
            known = {key: value for key, value in given.items() if key in fields}
            settings = settings_of(experiment.Settings, quick=quick, **known)
            perform(name, experiment, settings, quick=quick, out=out)
        except Exception as error:  # whatever it is, the other targets are worth their numbers
            if not isinstance(error, ValueError | OSError):
                traceback.print_exc()
            failed.append(name)
            reason = " ".join(str(error).split()) or type(error).__name__
            print(f"{name} failed: {reason}", file=sys.stderr, flush=True)
    if failed:
        print(f"{len(failed)} of {len(names)} targets failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def find(name: str) -> typing.Any:
    """The module of an experiment."""
    return importlib.import_module(f"mmlp.experiments.{name.replace('-', '_')}")


def settings_of(kind: typing.Any, *, quick: bool = False, **given) -> typing.Any:
    """The defaults of this kind, then what `--quick` changes, then what is given (not None)."""
    given = {key: value for key, value in given.items() if value is not None}
    for count in ("seeds", "duel", "jobs"):
        if given.get(count, 1) < 1:
            raise ValueError(f"--{count} must be at least 1, got {given[count]}.")
    return kind(**((kind.QUICK if quick else {}) | given))


def perform(name, experiment, settings, *, quick, out: Path, heading=PAPER, program="") -> dict:
    """Run an experiment, write OUT/NAME.json, its figures and OUT/index.html, print the verdicts.

    `program` is the command without its flags, if it is not the experiment's own. A path is
    recorded as DIR: where the files of one machine lie is nobody else's concern.
    """
    out.mkdir(parents=True, exist_ok=True)  # before the work: a folder may be impossible to make
    start = time.perf_counter()
    result = experiment.run(settings)
    record = {
        "experiment": name,
        "command": _command(program or f"python -m {experiment.__name__}", settings, quick),
        "quick": quick,
        "settings": {key: _placed(value) for key, value in dataclasses.asdict(settings).items()},
        "versions": versions(),
        "device": device(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "seconds": round(time.perf_counter() - start, 1),
        "result": result,
    }
    path = out / f"{name}.json"
    atomic.replace_file(path, (json.dumps(record) + "\n").encode())
    if result.get("figures"):
        experiment.draw(json.loads(path.read_text()), out)
    if reason := page.build(out, heading, TARGETS).get(path.name):
        reason += " (see mmlp/pages/page.py)"
        raise ValueError(f"the result of {name} does not fit the page: {reason}")
    for claim in result.get("claims", []):
        print(f"{claim['verdict']}: {claim['claim']} {claim.get('evidence', '')}".rstrip())
    print(f"{path}: {record['seconds']} s; page: {out / 'index.html'}")
    return record


def versions() -> dict[str, str]:
    """What the numbers may depend on."""
    names = ("jax", "jaxlib", "equinox", "optax", "numpy")
    libraries = {name: importlib.metadata.version(name) for name in names}
    return {"mmlp": __version__, **libraries, "python": platform.python_version()}


def device() -> str:
    """Where this process computes, and the precision."""
    first, cpu = jax.devices()[0], f"CPU ({platform.machine()}, {os.cpu_count()} cores)"
    return f"{cpu if first.platform == 'cpu' else first.device_kind}, {jnp.result_type(float)}"


def _option(hint) -> dict[str, typing.Any]:
    """How argparse reads a field: int, float, str, Path, bool, a tuple of one; or None."""
    if isinstance(hint, types.UnionType):
        hint = next(part for part in typing.get_args(hint) if part is not types.NoneType)
    if hint is bool:
        return {"action": argparse.BooleanOptionalAction}
    if typing.get_origin(hint) is tuple:
        convert = typing.get_args(hint)[0]
        return {"type": lambda text: tuple(convert(part) for part in text.split(","))}
    return {"type": hint}


def _command(program: str, settings: typing.Any, quick: bool) -> str:
    """What to type for these settings."""
    words = [*program.split(), *(["--quick"] if quick else [])]
    start = settings_of(type(settings), quick=quick)
    for name, value in vars(settings).items():
        if value == getattr(start, name):
            continue
        if isinstance(value, bool):
            words.append(_flag(name if value else f"no-{name}"))
        else:
            text = ",".join(map(str, value)) if isinstance(value, tuple) else str(_placed(value))
            words += [_flag(name), text]
    return shlex.join(words)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _placed(value: typing.Any) -> typing.Any:
    return "DIR" if isinstance(value, Path) else value
