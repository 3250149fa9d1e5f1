"""One experiment is one script: a frozen dataclass of settings, flags made from it, one JSON out, figures from the JSON."""

import argparse
import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from mmlp._version import __version__


def main(name: str, settings: type, run: Callable[[Any], dict], draw: Callable[[dict, Path], None], argv=None) -> dict:
    """Parse the flags, run, write OUT/NAME.json, draw the figures into OUT and print the verdict.

    `settings.QUICK` holds what `--quick` changes. A tuple is given as numbers separated by commas.
    """
    parser = argparse.ArgumentParser(prog=f"python -m mmlp.experiments.{name}", description=settings.__doc__)
    parser.add_argument("--quick", action="store_true", help="a small run, to see that it works")
    parser.add_argument("--out", type=Path, default=Path("report"), help="folder of the JSON and the figures")
    for field in dataclasses.fields(settings):
        example = field.default
        convert = _tuple_of(type(example[0])) if isinstance(example, tuple) else type(example)
        flag = "--" + field.name.replace("_", "-")
        parser.add_argument(flag, type=convert, default=None, help=f"default: {example}")
    flags = vars(parser.parse_args(argv))
    quick, out = flags.pop("quick"), flags.pop("out")
    values = (settings.QUICK if quick else {}) | {key: value for key, value in flags.items() if value is not None}

    chosen, start = settings(**values), time.perf_counter()
    result = run(chosen)
    record = {
        "experiment": name,
        "settings": dataclasses.asdict(chosen),
        "versions": {"mmlp": __version__, "jax": jax.__version__},
        "device": jax.devices()[0].device_kind,
        "seconds": round(time.perf_counter() - start, 1),
        "result": result,
    }
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{name}.json"
    path.write_text(json.dumps(record) + "\n")
    draw(json.loads(path.read_text()), out)
    if "verdict" in result:
        print(result["verdict"])
    print(f"{path}: {record['seconds']} s")
    return record


def _tuple_of(convert: type) -> Callable[[str], tuple]:
    return lambda text: tuple(convert(part) for part in text.split(","))
