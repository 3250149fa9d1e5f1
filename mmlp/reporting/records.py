"""Run an experiment and record its result: a JSON file, its figures, and a page.

An experiment is a module (or any object) with

- `Settings`, a frozen dataclass; its class variable `QUICK` holds the settings that a
  quick run changes,
- `run(settings) -> result`, a dictionary; `mmlp.reporting.results_page` lists the
  entries that the page shows,
- `draw(record, out)`, if the result has figures. It draws them from the record alone.
"""

import dataclasses
import datetime
import importlib.metadata
import json
import os
import platform
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from mmlp import atomic_files
from mmlp._version import __version__
from mmlp.reporting.results_page import Heading, write_results_page

# Results may depend on the versions of these libraries.
LIBRARIES = ("jax", "jaxlib", "equinox", "optax", "numpy")
# Settings that must be at least one, in the experiments that have them.
POSITIVE_SETTINGS = ("seeds", "jobs")


def make_settings(settings_class: type, *, quick: bool = False, **changes: Any) -> Any:
    """Return the settings of an experiment.

    Parameters
    ----------
    settings_class : type
        The `Settings` of the experiment.
    quick : bool, default=False
        Whether to start from its quick settings, `settings_class.QUICK`.
    **changes
        Further settings. Those that are None keep their default.

    Returns
    -------
    settings_class

    Raises
    ------
    ValueError
        If a number of seeds or jobs is below one.
    """
    changes = {name: value for name, value in changes.items() if value is not None}
    for name in POSITIVE_SETTINGS:
        if changes.get(name, 1) < 1:
            raise ValueError(f"--{name} must be at least 1, got {changes[name]}.")
    quick_changes = settings_class.QUICK if quick else {}
    return settings_class(**(quick_changes | changes))


def run_and_record(
    name: str,
    experiment: Any,
    settings: Any,
    *,
    quick: bool,
    out: Path,
    heading: Heading,
    program: str,
    order: Sequence[str] = (),
) -> dict[str, Any]:
    """Run an experiment and write OUT/NAME.json, its figures and OUT/index.html.

    The verdicts are printed.

    Parameters
    ----------
    name : str
        Name of the experiment, of its file and of its section of the page.
    experiment : module or object
        An experiment as described at the top of this module.
    settings : experiment.Settings
    quick : bool
        Whether these are quick settings, which the page warns about.
    out : Path
        Folder of the results. It is created if necessary.
    heading : Heading
        Title and introduction of the page.
    program : str
        The command that runs the experiment, without its options.
    order : sequence of str, default=()
        Names of the experiments that come first on the page.

    Returns
    -------
    dict
        The content of the file. A path among the settings is recorded as DIR, because
        it says nothing outside this machine.

    Raises
    ------
    ValueError
        If the page cannot show the result.
    """
    # The folder comes first: a long run must not fail at its end for want of one.
    out.mkdir(parents=True, exist_ok=True)

    start = time.perf_counter()
    result = experiment.run(settings)
    seconds = round(time.perf_counter() - start, 1)

    entries = dataclasses.asdict(settings).items()
    record = {
        "experiment": name,
        "command": format_command(program, settings, quick=quick),
        "quick": quick,
        "settings": {field: _hide_path(value) for field, value in entries},
        "versions": list_versions(),
        "device": describe_device(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "seconds": seconds,
        "result": result,
    }
    path = out / f"{name}.json"
    atomic_files.replace_file(path, (json.dumps(record) + "\n").encode())
    if result.get("figures"):
        experiment.draw(json.loads(path.read_text()), out)

    skipped = write_results_page(out, heading, order)
    if path.name in skipped:
        raise ValueError(
            f"the result of {name} does not fit the page: {skipped[path.name]} (see "
            "mmlp/reporting/results_page.py)"
        )
    for claim in result.get("claims", []):
        line = f"{claim['verdict']}: {claim['claim']} {claim.get('evidence', '')}"
        print(line.rstrip())
    print(f"{path}: {seconds} s; page: {out / 'index.html'}")
    return record


def list_versions() -> dict[str, str]:
    """Return the versions of this package, of its main libraries, and of Python."""
    libraries = {name: importlib.metadata.version(name) for name in LIBRARIES}
    return {"mmlp": __version__, **libraries, "python": platform.python_version()}


def describe_device() -> str:
    """Return the device on which this process computes, and its precision."""
    device = jax.devices()[0]
    name = device.device_kind
    if device.platform == "cpu":
        name = f"CPU ({platform.machine()}, {os.cpu_count()} cores)"
    return f"{name}, {jnp.result_type(float)}"


def format_command(program: str, settings: Any, *, quick: bool) -> str:
    """Return the command that repeats a run, with options for changed settings."""
    words = program.split()
    if quick:
        words.append("--quick")
    default = make_settings(type(settings), quick=quick)
    for name, value in vars(settings).items():
        if value == getattr(default, name):
            continue
        if isinstance(value, bool):
            words.append(option_name(name if value else f"no-{name}"))
        elif isinstance(value, tuple):
            words += [option_name(name), ",".join(map(str, value))]
        else:
            words += [option_name(name), str(_hide_path(value))]
    return shlex.join(words)


def option_name(field: str) -> str:
    """Return the command-line option of a setting.

    >>> option_name("batch_size")
    '--batch-size'
    """
    return "--" + field.replace("_", "-")


def _hide_path(value: Any) -> Any:
    """Return "DIR" for a path, and any other value as it is."""
    return "DIR" if isinstance(value, Path) else value
