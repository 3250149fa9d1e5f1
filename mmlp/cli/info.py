"""`mmlp info`, which needs no JAX and so answers at once, and the printing of results."""

import json
import math
from pathlib import Path
from typing import Any

from mmlp.cli.arguments import Info, option_names
from mmlp.serialization import header
from mmlp.terminal import escape_controls

# Parameters that say how a model was trained to report, not what was trained.
UNSHOWN_PARAMETERS = ("verbose", "warm_start")


def execute(command: Info) -> int:
    """Print what a model file is."""
    print_entries(summarize_model(command.model), as_json=command.json)
    return 0


def summarize_model(path: Path) -> dict[str, Any]:
    """Return the kind, columns, size and settings of a model, from the header of its file."""
    summary = header.summarize_estimator(path, _summarize_by_loading)
    for name in UNSHOWN_PARAMETERS:
        summary["settings"].pop(name, None)
    return {"model": str(path), **summary}


def _summarize_by_loading(path: Path) -> dict[str, Any]:
    """Summarize a file from before headers had a summary; this imports JAX."""
    from mmlp.estimators import model_files

    return model_files.about(model_files.load(path))


def print_entries(entries: dict[str, Any], *, as_json: bool) -> None:
    """Print names and values on stdout, as JSON or in aligned lines.

    JSON has null for numbers that are not finite. Names may come from a file: what
    would control the terminal is escaped.
    """
    if as_json:
        print(json.dumps(_replace_non_finite(entries), allow_nan=False))
        return
    width = max(len(name) for name in entries)
    for name, value in entries.items():
        label = name.replace("_", " ").ljust(width)
        line = f"{label}  {_format_value(value)}"
        print(escape_controls(line).replace("\n", r"\n"))


def _format_value(value: Any) -> str:
    if isinstance(value, dict):
        options = option_names()
        items = [f"{options.get(key, key)}={item}" for key, item in value.items()]
        return ", ".join(items)
    if isinstance(value, list):
        return ", ".join(value)
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


def _replace_non_finite(value: Any) -> Any:
    """Replace each number that is not finite, which JSON lacks, by None."""
    if isinstance(value, dict):
        return {name: _replace_non_finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_non_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
