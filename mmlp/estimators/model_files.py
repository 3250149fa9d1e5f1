"""Save a fitted estimator to one file, and load it.

A file with a correct checksum may still have been written by something else. Whatever
it holds, an estimator that `load` returns can predict: numbers and networks are checked
against each other, and the networks are traced, which computes nothing.
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
from mmlp.estimators.scaling import Scaling
from mmlp.serialization import files, header
from mmlp.tables.encoder import TableEncoder
from mmlp.tables.number_format import NumberFormat
from mmlp.training.forks import check_not_forked

# Attributes with names of columns, which not every estimator has.
NAME_ATTRIBUTES = ("feature_names_in_", "target_names_")

# The classes of estimators, by name; each registers itself.
CLASSES: dict[str, Any] = {}


def kinds(having: str = "fit") -> dict[str, Any]:
    """Return the estimators that have a method, by their names in `mmlp fit`."""
    classes = [cls for cls in CLASSES.values() if hasattr(cls, having)]
    # In reverse order, the first class of a kind replaces its subclasses.
    return {cls.kind: cls for cls in reversed(classes)}


def save(estimator: Any, path: str | os.PathLike[str], **names: Sequence[str]) -> None:
    """Write a fitted estimator to a file.

    Parameters
    ----------
    estimator : NetworkEstimator
    path : path
    **names : sequences of str
        Values of `NAME_ATTRIBUTES`; by default those of the estimator.
    """
    class_name = type(estimator).__name__
    arrays, networks = serialization.pack_model(estimator.models_, f"{class_name}.save")
    metadata = {
        "kind": "estimator",
        "version": files.VERSION,
        "estimator": class_name,
        "about": about(estimator),
        "params": serialization.describe(_plain_params(estimator), "", {}),
        "fitted": _plain_attributes(estimator, names),
    }
    files.write(Path(path), arrays, metadata | networks)


def _plain_params(estimator: Any) -> dict[str, Any]:
    """Return the arguments of an estimator as JSON values."""
    params = {name: _builtin(value) for name, value in estimator.get_params().items()}
    params["dtype"] = np.dtype(estimator.dtype).name
    if isinstance(estimator.random_state, np.random.RandomState):
        params["random_state"] = None
    return params


def _plain_attributes(
    estimator: Any, names: dict[str, Sequence[str]]
) -> dict[str, Any]:
    """Return the fitted attributes of an estimator as JSON values."""
    attributes = {
        name: _plain(getattr(estimator, name))
        for name in (*estimator._fitted_attributes, "n_features_in_")
    }
    for name in NAME_ATTRIBUTES:
        if name in names:
            attributes[name] = list(names[name])
        elif hasattr(estimator, name):
            attributes[name] = list(getattr(estimator, name))
    if hasattr(estimator, "number_format_"):
        attributes["number_format_"] = estimator.number_format_.to_json()
    return attributes


def about(estimator: Any) -> dict[str, Any]:
    """Return what `serialization.header` cannot know without the class."""
    return {
        "kind": estimator.kind,
        "n_targets": estimator.n_targets,
        "rank": getattr(estimator, "rank_", None),
    }


def load(path: str | os.PathLike[str]) -> Any:
    """Load a fitted estimator from a file that `save` wrote.

    Nothing in the file is executed.

    Parameters
    ----------
    path : path

    Returns
    -------
    SPDRegressor, MultivariateRegressor, MatrixVAE or another registered estimator

    Raises
    ------
    ValueError
        If the file holds no estimator, or is damaged.

    Examples
    --------
    >>> import mmlp, tempfile
    >>> X = np.random.default_rng(0).standard_normal((40, 3))
    >>> vae = mmlp.MatrixVAE(
    ...     n_components=1, hidden_dims=(4,), n_samples=10, max_epochs=5, random_state=0
    ... )
    >>> path = os.path.join(tempfile.mkdtemp(), "vae.safetensors")
    >>> vae.fit(X).save(path)
    >>> np.array_equal(load(path).transform(X), vae.transform(X))
    True
    """
    check_not_forked("estimators.load")
    path = Path(path)
    call = "estimators.load"
    arrays, metadata = header.read_estimator(path)
    name = metadata.get("estimator")
    if not isinstance(name, str) or name not in CLASSES:
        raise FileError(path, f"holds a {name!r:.80}, which is unknown here", call=call)

    estimator_class = CLASSES[name]
    attributes = metadata.get("fitted")
    if isinstance(attributes, dict):
        absent = estimator_class._absent_in_old_files
        defaults = {name: _plain(value) for name, value in absent.items()}
        attributes = defaults | attributes
        for needed in (*estimator_class._fitted_attributes, "n_features_in_"):
            if needed not in attributes:
                problem = f"has no {needed}: another version wrote it"
                raise FileError(path, problem, call=call, remedy="fit again")

    networks = serialization.unpack_model(path, arrays, metadata)
    try:
        return _restore(estimator_class, metadata["params"], attributes, networks)
    # A network with the fields of another one may fail in any way.
    except Exception as error:
        if isinstance(error, ValueError):
            reason = str(error).removesuffix(".")
        else:
            reason = f"its header makes no sense, {error!r:.200}"
        raise FileError(
            path, f"is damaged: {reason}", call=call, remedy="use an older copy"
        ) from None


def _restore(estimator_class: Any, params: Any, attributes: Any, networks: Any) -> Any:
    """Return the estimator with these arguments, attributes and networks, checked."""
    arguments: Any = serialization.build(params, {})
    _check_params(arguments)
    estimator = estimator_class(**arguments)
    if estimator.dtype not in ("float32", "float64"):
        raise ValueError(f"its dtype is {estimator.dtype!r:.80}")

    for name in (*estimator_class._fitted_attributes, "n_features_in_"):
        value = _from_plain(attributes[name])
        if name.endswith("history_"):
            _check_history(value, name)
        setattr(estimator, name, value)
    estimator.models_ = networks

    n_inputs = check_size(estimator.n_features_in_, "n_features_in_")
    check_scaling(estimator.input_, "input_", estimator._width)
    _check_finite_weights(networks)
    estimator._check_fitted()

    for name, size in zip(
        NAME_ATTRIBUTES, (n_inputs, estimator.n_targets), strict=True
    ):
        if name in attributes:
            names = _check_names(attributes[name], name, size)
            setattr(estimator, name, np.array(names, object))
    if "number_format_" in attributes:
        estimator.number_format_ = NumberFormat(**attributes["number_format_"])
    return estimator


def _plain(value: Any) -> Any:
    """Return a fitted attribute as JSON: arrays as nested lists, under a key."""
    if isinstance(value, Scaling):
        return {"scaling": [array.tolist() for array in value]}
    if isinstance(value, TableEncoder):
        return {"columns": value.to_json()}
    if isinstance(value, dict):
        history = {name: np.asarray(array).tolist() for name, array in value.items()}
        return {"history": history}
    if isinstance(value, np.ndarray):
        return {"array": value.tolist()}
    return _builtin(value)


def _from_plain(value: Any) -> Any:
    """Return the fitted attribute that `_plain` has converted."""
    match value:
        case {"scaling": [mean, scale]}:
            return Scaling(np.asarray(mean, np.float64), np.asarray(scale, np.float64))
        case {"columns": dict(columns)}:
            return TableEncoder.from_json(columns)
        case {"history": dict(columns)}:
            return {name: np.asarray(array) for name, array in columns.items()}
        case {"array": list(rows)}:
            return np.asarray(rows)
    return value


def _builtin(value: Any) -> Any:
    """Return a value of NumPy's types as one of Python's, which JSON knows."""
    if isinstance(value, tuple | list):
        return type(value)(_builtin(item) for item in value)
    return value.item() if isinstance(value, np.generic) else value


def _is_plain(value: Any) -> bool:
    """Return whether a value is one that `save` writes for an argument."""
    if isinstance(value, tuple | list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)


def _check_params(params: Any) -> None:
    """Raise a ValueError if arguments are not plain values by name."""
    if not isinstance(params, dict):
        raise ValueError(f"its arguments are {params!r:.80}")
    wrong = {name: value for name, value in params.items() if not _is_plain(value)}
    if wrong:
        raise ValueError(f"it has the arguments {wrong!r:.80}")


def _check_history(history: Any, name: str) -> None:
    """Raise a ValueError if a history does not hold losses over epochs."""
    arrays = list(history.values()) if isinstance(history, dict) else []
    are_numbers = all(
        array.ndim in (1, 2) and array.dtype.kind in "biuf" and len(array)
        for array in arrays
    )
    n_lengths = len({len(array) for array in arrays}) if are_numbers else 0
    if not are_numbers or "loss" not in history or n_lengths > 1:
        raise ValueError(f"its {name} does not hold the losses over epochs")


def _check_finite_weights(networks: Any) -> None:
    """Raise a ValueError if a weight is not finite."""
    for path, leaf in jax.tree_util.tree_flatten_with_path(networks)[0]:
        if eqx.is_inexact_array(leaf) and not np.isfinite(np.asarray(leaf)).all():
            raise ValueError(f"its weights {jax.tree_util.keystr(path)} are not finite")


def _check_names(names: Any, attribute: str, size: int) -> list[str]:
    """Return `size` names, or raise a ValueError."""
    if not isinstance(names, list) or [*map(type, names)] != [str] * size:
        raise ValueError(f"its {attribute} are not {size} names")
    return names


def check_scaling(value: Any, name: str, size: int) -> None:
    """Raise a ValueError if a value is not a `Scaling` of `size` columns."""
    is_scaling = isinstance(value, Scaling) and all(
        is_finite(array, (size,)) for array in value
    )
    if not is_scaling or not (value.scale > 0).all():
        raise ValueError(
            f"its {name} is not a mean and a positive scale for each of {size} columns"
        )


def check_number(value: Any, name: str, lowest: float, highest: float) -> None:
    """Raise a ValueError if a value is not a number from `lowest` to `highest`."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (is_number and lowest <= value <= highest):
        needed = f"a number from {lowest:g} to {highest:g}"
        raise ValueError(f"its {name} is {value!r:.80}, not {needed}")


def is_finite(value: Any, shape: tuple[int, ...]) -> bool:
    """Return whether a value is an array of finite numbers, of this shape."""
    is_numeric = isinstance(value, np.ndarray) and value.dtype.kind in "iuf"
    return is_numeric and value.shape == shape and bool(np.isfinite(value).all())
