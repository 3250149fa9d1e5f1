"""The summary of a fitted estimator in the header of its file.

It needs neither JAX nor scikit-learn.
"""

import json
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mmlp.errors import FileError
from mmlp.serialization import files

# Far more than `save` writes, far less than the recursion limit of Python.
MAX_DEPTH_OF_SETTINGS = 20


def read_estimator(path: Path) -> tuple[dict[str, np.ndarray], dict]:
    """Return arrays and metadata of a file that `save` of an estimator wrote.

    Raises
    ------
    ValueError
        If it is another file, or a damaged one.
    """
    arrays, metadata = files.read(path)
    files.check_version(path, metadata)
    kind = metadata.get("kind")
    if kind == "estimator":
        return arrays, metadata

    content = "the state of a training run"
    python_remedy = "give a file that `save` of an estimator or `mmlp fit` wrote"
    if kind == "model":
        content = "a network"
        python_remedy = "read it with `mmlp.load`"
    raise FileError(
        path,
        f"holds {content}, not a fitted model",
        call="estimators.load",
        remedy="give a file that `mmlp fit` wrote",
        python_remedy=python_remedy,
    )


def summarize_estimator(
    path: Path, summarize_old_file: Callable[[Path], dict]
) -> dict[str, Any]:
    """Return the kind, columns, epochs, weights and settings of an estimator in a file.

    Nothing in the file is built or run, and nothing in it is trusted: whatever it
    holds, the result has the types below, or a `ValueError` tells what is wrong.

    Parameters
    ----------
    path : Path
        The file.
    summarize_old_file : callable
        Called with the path of a file without the entry "about"; returns this entry.

    Returns
    -------
    dict
        `kind` (str), `inputs` and, if there are any, `left_out` and `targets` (lists of
        str), `decimal` and `thousands` (str), `rank` (int, of a covariance of low
        rank), `epochs` and `weights` (int), `settings` (dict of plain values).

    Raises
    ------
    ValueError
        If the file is no estimator, or its header makes no sense.
    """
    arrays, metadata = read_estimator(path)
    if "about" in metadata:
        about = metadata["about"]
    else:
        about = summarize_old_file(path)
    try:
        return _summarize(arrays, metadata, about)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"{path} is damaged: its header makes no sense, {error!r:.200}. Use an "
            "older copy."
        ) from None


def _summarize(
    arrays: dict[str, np.ndarray], metadata: dict, about: Any
) -> dict[str, Any]:
    """Return the summary of a header; raise some error if it makes no sense."""
    fitted = _check_type(metadata, "fitted", dict)
    _check_type({"about": about}, "about", dict)
    n_features = _check_count(fitted, "n_features_in_")
    n_targets = _check_count(about, "n_targets")
    inputs = _column_names(fitted, "feature_names_in_", "x", n_features)
    targets = _column_names(fitted, "target_names_", "y", n_targets)
    history = _check_type(_check_type(fitted, "history_", dict), "history", dict)
    used, left_out = _split_left_out(inputs, fitted)

    summary: dict[str, Any] = {
        "kind": _check_type(about, "kind", str),
        "inputs": used,
    }
    if left_out:
        summary["left_out"] = left_out
    if targets:
        summary["targets"] = targets
    summary.update(_separators(fitted))
    if about.get("rank") is not None:
        summary["rank"] = _check_count(about, "rank")
    summary["epochs"] = len(_check_type(history, "loss", list))
    summary["weights"] = sum(array.size for array in arrays.values())
    summary["settings"] = _settings(metadata)
    return summary


def _split_left_out(inputs: list[str], fitted: dict) -> tuple[list[str], list[str]]:
    """Separate the names of inputs that the model uses from those that it does not."""
    if fitted.get("columns_") is None:  # a model of numbers alone
        return inputs, []
    columns = _check_type(_check_type(fitted, "columns_", dict), "columns", dict)
    kinds = _check_type(columns, "kinds", list)
    used = []
    left_out = []
    for name, kind in zip(inputs, kinds, strict=True):
        if kind["kind"] == "left out":
            left_out.append(name)
        else:
            used.append(name)
    return used, left_out


def _separators(fitted: dict) -> dict[str, str]:
    """Return the separators within numbers that the user gave to `mmlp fit`."""
    if fitted.get("number_format_") is None:
        return {}
    number_format = _check_type(fitted, "number_format_", dict)
    return {
        name: _check_type(number_format, name, str)
        for name in ("decimal", "thousands")
        if number_format.get(name) is not None
    }


def read_plain_values(node: dict, depth: int = 0) -> Any:
    """Return the plain values that `serialization.describe` has described.

    >>> read_plain_values({"dict": {"sizes": {"tuple": [{"value": 3}]}}})
    {'sizes': (3,)}
    """
    if depth > MAX_DEPTH_OF_SETTINGS:
        raise ValueError("its settings are nested too deeply")
    ((kind, content),) = node.items()
    if kind == "dict":
        return {
            name: read_plain_values(child, depth + 1) for name, child in content.items()
        }
    if kind in ("tuple", "list"):
        children = [read_plain_values(child, depth + 1) for child in content]
        return tuple(children) if kind == "tuple" else children
    is_plain = isinstance(content, bool | int | float | str | types.NoneType)
    if kind != "value" or not is_plain:
        raise ValueError(f"a {kind:.80} among its settings")
    return content


def _settings(metadata: dict) -> dict[str, Any]:
    """Return the arguments that the estimator was made with."""
    settings = read_plain_values(_check_type(metadata, "params", dict))
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
