"""`mmlp info`, which needs no JAX and so answers at once; and how results are printed."""

import json
import math
from pathlib import Path
from typing import Any

from mmlp.cli.arguments import Info, option_names
from mmlp.serialization import header
from mmlp.terminal import escape_controls


def execute(command: Info) -> int:
    show(summary(command.model), as_json=command.json)
    return 0


def summary(path: Path) -> dict:
    """What a model file is, by its header."""
    about = header.about(path, _by_loading)
    for name in ("verbose", "warm_start"):  # how, not what, was learnt
        about["settings"].pop(name, None)
    return {"model": str(path), **about}


def _by_loading(path: Path) -> dict:
    from mmlp.estimators import model_files  # with all that it needs

    return model_files.about(model_files.load(path))


def show(entries: dict, *, as_json: bool) -> None:
    """Print entries on stdout: as JSON, with null for numbers that are not finite, or in lines.

    Names may come from a file: what would control the terminal is escaped.
    """
    if as_json:
        print(json.dumps(_as_json(entries), allow_nan=False))
        return
    options = option_names()
    width = max(map(len, entries))
    for name, value in entries.items():
        if isinstance(value, dict):
            value = ", ".join(
                f"{options.get(key, key)}={item}" for key, item in value.items()
            )
        elif isinstance(value, list):
            value = ", ".join(value)
        text = f"{value:.4g}" if isinstance(value, float) else str(value)
        line = f"{name.replace('_', ' '):{width}}  {text}"
        print(escape_controls(line).replace("\n", r"\n"))


def _as_json(value: Any) -> Any:
    """Return the value with None for each number in it that is not finite, which JSON lacks."""
    if isinstance(value, dict):
        return {name: _as_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
