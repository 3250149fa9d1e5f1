"""What the file of a fitted estimator says of itself; it needs no JAX and no scikit-learn."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mmlp.checkpoint import files


def read_estimator(path: Path) -> tuple[dict[str, np.ndarray], dict]:
    """Arrays and metadata of a file that `save` of an estimator wrote."""
    arrays, metadata = files.read(path)
    files.check_version(path, metadata)
    if metadata.get("kind") != "estimator":
        network = metadata.get("kind") == "model"
        held = "a network, which `mmlp.load` reads" if network else "the state of a training run"
        raise ValueError(
            f"`estimators.load`: {os.fspath(path)} holds {held}, not an estimator as its `save` or "
            "`mmlp fit` writes it."
        )
    return arrays, metadata


def about(path: Path, otherwise: Callable[[Path], dict]) -> dict[str, Any]:
    """Its kind, columns, epochs, weights and settings; nothing of it is built or run.

    Of a file from before there was an entry "about", `otherwise` finds it.
    """
    arrays, metadata = read_estimator(path)
    own = metadata["about"] if "about" in metadata else otherwise(path)
    try:
        fitted = metadata["fitted"]
        inputs = fitted.get("feature_names_in_") or _numbered("x", fitted["n_features_in_"])
        targets = fitted.get("target_names_") or _numbered("y", own["n_targets"])
        inputs, left_out = _split_left_out([*map(str, inputs)], fitted)
        return {
            "kind": str(own["kind"]),
            "inputs": inputs,
            **({"left_out": left_out} if left_out else {}),
            **({"targets": [*map(str, targets)]} if targets else {}),
            **_separators(fitted),
            **({} if own["rank"] is None else {"rank": int(own["rank"])}),
            "epochs": len(fitted["history_"]["history"]["loss"]),
            "weights": sum(array.size for array in arrays.values()),
            "settings": plain(metadata["params"]),
        }
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        why = f"its header makes no sense, {error!r:.200}"
        raise ValueError(f"{path} is damaged: {why}. Use an older copy.") from None


def _split_left_out(inputs: list[str], fitted: dict) -> tuple[list[str], list[str]]:
    """Split the names of inputs into those that the model uses and those that it does not."""
    columns = fitted.get("columns_")
    if columns is None:  # a model of numbers alone
        return inputs, []
    unused = [kind["kind"] == "left out" for kind in columns["columns"]["kinds"]]
    named = list(zip(inputs, unused, strict=True))
    return [name for name, out in named if not out], [name for name, out in named if out]


def _separators(fitted: dict) -> dict[str, str]:
    """Return the separators within numbers that the user gave to `mmlp fit`."""
    number_format = fitted.get("number_format_", {})
    separators = {name: number_format.get(name) for name in ("decimal", "thousands")}
    return {name: str(value) for name, value in separators.items() if value is not None}


def plain(node: dict) -> Any:
    """A description by `checkpoint.describe` of plain values, as these values.

    >>> plain({"dict": {"sizes": {"tuple": [{"value": 3}]}}})
    {'sizes': (3,)}
    """
    ((kind, content),) = node.items()
    if kind == "dict":
        return {str(name): plain(child) for name, child in content.items()}
    if kind in ("tuple", "list"):
        return (tuple if kind == "tuple" else list)(map(plain, content))
    if kind != "value":
        raise ValueError(f"a {kind} among the arguments")
    return content


def _numbered(letter: str, count: int) -> list[str]:
    return [f"{letter}{i}" for i in range(count)]
