"""A fitted estimator as one file, and back.

A file with a right checksum may still have been written by something else. Whatever it holds, what
comes out of `load` can predict: numbers and networks are checked against each other, the networks
by tracing them, which computes nothing.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from mmlp import serialization
from mmlp.argument_checks import check_size
from mmlp.errors import FileError
from mmlp.estimators.cross_fitting import Scaling
from mmlp.serialization import files, header
from mmlp.tables.encoder import TableEncoder
from mmlp.tables.number_format import NumberFormat
from mmlp.training.forks import check_not_forked

NAMES = ("feature_names_in_", "target_names_")  # of columns, where there are any
CLASSES: dict[str, Any] = {}  # of estimators, by name; each enters itself


def kinds(having: str = "fit") -> dict[str, Any]:
    """The estimators that have this method, by their words of `mmlp fit`."""
    found = [cls for cls in CLASSES.values() if hasattr(cls, having)]
    return {
        cls.kind: cls for cls in reversed(found)
    }  # the first of a kind, not its subclasses


def save(estimator, path: str | os.PathLike, **names: Sequence[str]) -> None:
    """Write a fitted estimator: arguments, numbers, networks and, given or its own, `NAMES`."""
    name = type(estimator).__name__
    arrays, content = serialization.pack_model(estimator.models_, f"{name}.save")
    params = {name: _builtin(value) for name, value in estimator.get_params().items()}
    params["dtype"] = np.dtype(estimator.dtype).name
    if isinstance(estimator.random_state, np.random.RandomState):
        params["random_state"] = None
    numbers = (*estimator._numbers, "n_features_in_")
    fitted = {name: _plain(getattr(estimator, name)) for name in numbers}
    names = {
        name: getattr(estimator, name) for name in NAMES if hasattr(estimator, name)
    } | names
    fitted |= {name: list(words) for name, words in names.items()}
    if hasattr(estimator, "number_format_"):
        fitted["number_format_"] = estimator.number_format_.to_json()
    metadata = {"kind": "estimator", "version": files.VERSION, "estimator": name}
    metadata["about"] = about(estimator)
    metadata |= {"params": serialization.describe(params, "", {}), "fitted": fitted}
    files.write(Path(path), arrays, metadata | content)


def about(estimator) -> dict:
    """What `serialization.header` cannot know without the class."""
    sizes = {
        "n_targets": estimator.n_targets,
        "rank": getattr(estimator, "rank_", None),
    }
    return {"kind": estimator.kind, **sizes}


def load(path: str | os.PathLike) -> Any:
    """The fitted estimator that `save` wrote, of whichever kind; nothing in the file is run."""
    check_not_forked("estimators.load")
    path = Path(path)
    call = "estimators.load"
    arrays, metadata = header.read_estimator(path)
    kind = metadata.get("estimator")
    if not isinstance(kind, str) or kind not in CLASSES:
        raise FileError(path, f"holds a {kind!r:.80}, which is unknown here", call=call)
    fitted, needed = metadata.get("fitted"), (*CLASSES[kind]._numbers, "n_features_in_")
    if isinstance(fitted, dict):
        absent = CLASSES[kind]._absent_in_old_files
        fitted = {name: _plain(value) for name, value in absent.items()} | fitted
    missing = [
        name for name in needed if isinstance(fitted, dict) and name not in fitted
    ]
    if missing:
        problem = f"has no {missing[0]}: another version wrote it"
        raise FileError(path, problem, call=call, remedy="fit again")
    models = serialization.unpack_model(path, arrays, metadata)
    try:
        return _restored(CLASSES[kind], metadata["params"], fitted, models)
    except (
        Exception
    ) as error:  # a network with another one's fields may fail in any way
        understood = isinstance(error, ValueError)
        reason = (
            str(error) if understood else f"its header makes no sense, {error!r:.200}"
        )
        problem = f"is damaged: {reason.removesuffix('.')}"
        raise FileError(path, problem, call=call, remedy="use an older copy") from None


def _restored(kind, params, fitted, models):
    """The estimator of these arguments, numbers and networks, checked against each other."""
    arguments: Any = serialization.build(params, {})
    _check_params(arguments)
    estimator = kind(**arguments)
    if estimator.dtype not in ("float32", "float64"):
        raise ValueError(f"its dtype is {estimator.dtype!r:.80}")
    for name in (*kind._numbers, "n_features_in_"):
        setattr(estimator, name, _from_plain(fitted[name]))
        if name.endswith("history_"):
            _check_history(getattr(estimator, name), name)
    estimator.models_ = models
    p = check_size(estimator.n_features_in_, "n_features_in_")
    check_scaling(estimator.input_, "input_", estimator._width)
    for path, leaf in jax.tree_util.tree_flatten_with_path(models)[0]:
        if eqx.is_inexact_array(leaf) and not np.isfinite(np.asarray(leaf)).all():
            raise ValueError(f"its weights {jax.tree_util.keystr(path)} are not finite")
    estimator._check_fitted()
    for name, size in zip(NAMES, (p, estimator.n_targets), strict=True):
        words = fitted.get(name, [""] * size)
        if not isinstance(words, list) or [*map(type, words)] != [str] * size:
            raise ValueError(f"its {name} are not {size} names")
        if name in fitted:
            setattr(estimator, name, np.array(words, object))
    if "number_format_" in fitted:
        estimator.number_format_ = NumberFormat(**fitted["number_format_"])
    return estimator


def _plain(value):
    """As JSON: numbers, and arrays as nested lists under a key that says so."""
    if isinstance(value, Scaling):
        return {"scaling": [x.tolist() for x in value]}
    if isinstance(value, TableEncoder):
        return {"columns": value.to_json()}
    if isinstance(value, dict):
        return {"history": {name: np.asarray(x).tolist() for name, x in value.items()}}
    if isinstance(value, np.ndarray):
        return {"array": value.tolist()}
    return _builtin(value)


def _from_plain(value):
    """The inverse of `_plain`."""
    match value:
        case {"scaling": [mean, scale]}:
            return Scaling(np.asarray(mean, np.float64), np.asarray(scale, np.float64))
        case {"columns": dict(columns)}:
            return TableEncoder.from_json(columns)
        case {"history": dict(columns)}:
            return {name: np.asarray(x) for name, x in columns.items()}
        case {"array": list(rows)}:
            return np.asarray(rows)
    return value


def _builtin(value):
    """A parameter of NumPy's types as Python's, which JSON knows."""
    if isinstance(value, tuple | list):
        return type(value)(_builtin(item) for item in value)
    return value.item() if isinstance(value, np.generic) else value


def _check_params(params) -> None:
    """Arguments as `save` writes them: plain values by name."""

    def is_plain(value) -> bool:
        if isinstance(value, tuple | list):
            return all(map(is_plain, value))
        return value is None or isinstance(value, bool | int | float | str)

    if not isinstance(params, dict):
        raise ValueError(f"its arguments are {params!r:.80}")
    wrong = {name: value for name, value in params.items() if not is_plain(value)}
    if wrong:
        raise ValueError(f"it has the arguments {wrong!r:.80}")


def _check_history(value, name: str) -> None:
    """Numbers over epochs: `loss`, and whatever else."""
    arrays = list(value.values()) if isinstance(value, dict) else []
    right = all(x.ndim in (1, 2) and x.dtype.kind in "biuf" and len(x) for x in arrays)
    if not right or "loss" not in value or len({len(x) for x in arrays}) > 1:
        raise ValueError(f"its {name} does not hold the losses over epochs")


def check_scaling(value, name: str, size: int) -> None:
    """A `Scaling` of `size` columns."""
    right = isinstance(value, Scaling) and all(is_finite(x, (size,)) for x in value)
    if not (right and (value.scale > 0).all()):
        columns = f"each of {size} columns"
        raise ValueError(f"its {name} is not a mean and a positive scale for {columns}")


def check_number(value, name: str, lowest: float, highest: float) -> None:
    """A number from `lowest` to `highest`."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (number and lowest <= value <= highest):
        needed = f"a number from {lowest:g} to {highest:g}"
        raise ValueError(f"its {name} is {value!r:.80}, not {needed}")


def is_finite(value, shape: tuple[int, ...]) -> bool:
    number = isinstance(value, np.ndarray) and value.dtype.kind in "iuf"
    return number and value.shape == shape and bool(np.isfinite(value).all())
