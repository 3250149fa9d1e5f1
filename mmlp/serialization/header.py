"""What the file of a fitted estimator says of itself; it needs no JAX and no scikit-learn."""

import json
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mmlp.errors import FileError
from mmlp.serialization import files

MAX_DEPTH_OF_SETTINGS = (
    20  # far more than `save` writes, far less than Python's recursion
)


def read_estimator(path: Path) -> tuple[dict[str, np.ndarray], dict]:
    """Arrays and metadata of a file that `save` of an estimator wrote."""
    arrays, metadata = files.read(path)
    files.check_version(path, metadata)
    if metadata.get("kind") != "estimator":
        network = metadata.get("kind") == "model"
        content = "a network" if network else "the state of a training run"
        raise FileError(
            path,
            f"holds {content}, not a fitted model",
            call="estimators.load",
            remedy="give a file that `mmlp fit` wrote",
            python_remedy="read it with `mmlp.load`"
            if network
            else "give a file that `save` of an estimator or `mmlp fit` wrote",
        )
    return arrays, metadata


def about(path: Path, otherwise: Callable[[Path], dict]) -> dict[str, Any]:
    """Return the kind, columns, epochs, weights and settings of an estimator in a file.

    Nothing in the file is built or run, and nothing in it is believed: whatever it holds, the
    result has the types below, or a `ValueError` tells what is wrong.

    Parameters
    ----------
    path : Path
        The file.
    otherwise : callable
        Finds the entry "about" of a file from before there was one.

    Returns
    -------
    dict
        `kind` (str), `inputs` and, if there are any, `targets` (lists of str), `rank` (int, of a
        covariance of low rank), `epochs` and `weights` (int), `settings` (dict of plain values).

    Raises
    ------
    ValueError
        If the file is no estimator, or its header makes no sense.
    """
    arrays, metadata = read_estimator(path)
    summary = metadata["about"] if "about" in metadata else otherwise(path)
    try:
        fitted = _check_type(metadata, "fitted", dict)
        _check_type({"about": summary}, "about", dict)
        n_features = _check_count(fitted, "n_features_in_")
        n_targets = _check_count(summary, "n_targets")
        inputs = _column_names(fitted, "feature_names_in_", "x", n_features)
        targets = _column_names(fitted, "target_names_", "y", n_targets)
        history = _check_type(_check_type(fitted, "history_", dict), "history", dict)
        used, left_out = _split_left_out(inputs, fitted)
        result: dict[str, Any] = {
            "kind": _check_type(summary, "kind", str),
            "inputs": used,
        }
        if left_out:
            result["left_out"] = left_out
        if targets:
            result["targets"] = targets
        result |= _separators(fitted)
        if summary.get("rank") is not None:
            result["rank"] = _check_count(summary, "rank")
        result["epochs"] = len(_check_type(history, "loss", list))
        result["weights"] = sum(array.size for array in arrays.values())
        result["settings"] = _settings(metadata)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        why = f"its header makes no sense, {error!r:.200}"
        raise ValueError(f"{path} is damaged: {why}. Use an older copy.") from None
    return result


def _split_left_out(inputs: list[str], fitted: dict) -> tuple[list[str], list[str]]:
    """Split the names of inputs into those that the model uses and those that it does not."""
    if fitted.get("columns_") is None:  # a model of numbers alone
        return inputs, []
    columns = _check_type(_check_type(fitted, "columns_", dict), "columns", dict)
    unused = [
        kind["kind"] == "left out" for kind in _check_type(columns, "kinds", list)
    ]
    named = list(zip(inputs, unused, strict=True))
    return [name for name, out in named if not out], [
        name for name, out in named if out
    ]


def _separators(fitted: dict) -> dict[str, str]:
    """Return the separators within numbers that the user gave to `mmlp fit`."""
    if fitted.get("number_format_") is None:
        return {}
    number_format = _check_type(fitted, "number_format_", dict)
    given = [
        name for name in ("decimal", "thousands") if number_format.get(name) is not None
    ]
    return {name: _check_type(number_format, name, str) for name in given}


def plain(node: dict, depth: int = 0) -> Any:
    """A description by `checkpoint.describe` of plain values, as these values.

    >>> plain({"dict": {"sizes": {"tuple": [{"value": 3}]}}})
    {'sizes': (3,)}
    """
    if depth > MAX_DEPTH_OF_SETTINGS:
        raise ValueError("its settings are nested too deeply")
    ((kind, content),) = node.items()
    if kind == "dict":
        return {name: plain(child, depth + 1) for name, child in content.items()}
    if kind in ("tuple", "list"):
        children = [plain(child, depth + 1) for child in content]
        return tuple(children) if kind == "tuple" else children
    if kind != "value" or not isinstance(
        content, bool | int | float | str | types.NoneType
    ):
        raise ValueError(f"a {kind:.80} among its settings")
    return content


def _settings(metadata: dict) -> dict[str, Any]:
    """Return the arguments that the estimator was made with."""
    settings = plain(_check_type(metadata, "params", dict))
    if not isinstance(settings, dict):
        raise TypeError(f"its settings are {settings!r:.80}")
    return settings


def _check_type(entries: dict, name: str, kind: type) -> Any:
    """Return an entry of a header if it is there and of this type."""
    value = entries[name]
    if type(value) is not kind:
        raise TypeError(f"its {name} is {value!r:.80}")
    return value


def _check_count(entries: dict, name: str) -> int:
    """Return an entry of a header that counts something."""
    count = _check_type(entries, name, int)
    if count < 0:
        raise ValueError(f"its {name} is {count!r:.80}")
    return count


def _column_names(fitted: dict, entry: str, letter: str, count: int) -> list[str]:
    """Return the names of `count` columns; those of arrays are x0, x1, ..."""
    names = fitted.get(entry)
    if names:
        if type(names) is not list or not all(type(name) is str for name in names):
            raise TypeError(f"its {entry} is {names!r:.80}")
        return names
    # A small file can claim any count, but every column takes space in it.
    if count > len(json.dumps(fitted)):
        raise ValueError(f"it claims {count!r:.80} columns, more than it has bytes")
    return [f"{letter}{i}" for i in range(count)]
