"""`mmlp info`, which needs no JAX and so answers at once; and how results are printed."""

import json
import math
from pathlib import Path

from mmlp.checkpoint import header
from mmlp.cli.arguments import Info
from mmlp.cli.messages import SETTINGS


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
    from mmlp.estimators import saved  # with all that it needs

    return saved.about(saved.load(path))


def show(entries: dict, *, as_json: bool) -> None:
    """On stdout: JSON, where null stands for what is not finite, or a line for each entry."""
    if as_json:
        numbers = {name: value for name, value in entries.items() if isinstance(value, float)}
        lost = {name: None for name, value in numbers.items() if not math.isfinite(value)}
        print(json.dumps(entries | lost, allow_nan=False))
        return
    width = max(map(len, entries))
    for name, value in entries.items():
        if isinstance(value, dict):
            value = ", ".join(f"{SETTINGS.get(key, key)}={item}" for key, item in value.items())
        elif isinstance(value, list):
            value = ", ".join(value)
        text = f"{value:.4g}" if isinstance(value, float) else value
        print(f"{name.replace('_', ' '):{width}}  {text}")
