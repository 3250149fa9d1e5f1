"""What the commands do: files in, an estimator or an experiment, files out."""

import errno
import functools
import itertools
import json
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from tqdm import tqdm

from mmlp import estimators, tables
from mmlp.cli import fitting
from mmlp.cli.arguments import Demo, Info, Predict, Reproduce, Sample, Score
from mmlp.cli.fit_arguments import FitOptions
from mmlp.estimators.saved import kinds
from mmlp.experiments import demo as tour
from mmlp.experiments.harness import run as harness

DELAY = 2  # seconds without a bar


@functools.singledispatch
def execute(command) -> int:
    """Do what a command says; gives the exit status."""
    raise TypeError(f"no command: {command!r}")


@execute.register
def demo(command: Demo) -> int:
    tour.take(command.out, quick=command.quick)
    return 0


@execute.register
def reproduce(command: Reproduce) -> int:
    given = {"seeds": command.seeds, "data": command.data}
    return harness.reproduce(command.targets, quick=command.quick, out=command.out, **given)


@execute.register
def fit(command: FitOptions) -> int:
    suffix = tables.extension(command.data, tables.INPUTS, "read")
    out = _writable(command.out or Path(command.data.name[: -len(suffix)] + ".safetensors"))
    model, scores = fitting.fit(command, out)
    _show(_summary(out, *model) | scores, as_json=command.json)
    return 0


@execute.register
def predict(command: Predict) -> int:
    estimator, inputs, targets = _loaded(command.model)
    out = _results_file(command.out, command.data)
    text = out is None or tables.check_output(out, estimator.result_names()) == ".csv"
    X = tables.read(command.data).columns(inputs)
    pieces = _shown(estimator.predicted_pieces(X, text=text), len(X))
    first = next(pieces)
    width = max((array.shape[1] for array in first.values() if array.ndim > 1), default=0)
    axis = targets or tables.numbered("", width)
    tables.write(out, itertools.chain([first], pieces), axis)
    return 0


@execute.register
def score(command: Score) -> int:
    estimator, inputs, targets = _loaded(command.model)
    if estimator.targets == "matrices":
        data = fitting.matrices(command.data)
    else:
        table = tables.read(command.data)
        data = tuple(table.columns(names) for names in (inputs, targets) if names)
    about = {"model": str(command.model), "kind": estimator.kind}
    _show(about | fitting.scores(estimator, *data), as_json=command.json)
    return 0


@execute.register
def sample(command: Sample) -> int:
    (estimator, inputs, _), out = _loaded(command.model), _results_file(command.out)
    draw = getattr(estimator, "sample", None)
    if draw is None:
        able = " or ".join(f"`mmlp fit {kind}`" for kind in kinds(having="sample"))
        what = f"{command.model} is a model of kind {estimator.kind}"
        raise ValueError(f"{what}; only those of {able} can be sampled.")
    tables.write(out, {"X": draw(command.rows, random_state=command.seed)}, inputs)
    return 0


@execute.register
def info(command: Info) -> int:
    _show(_summary(command.model, *_loaded(command.model)), as_json=command.json)
    return 0


def _loaded(path: Path) -> tuple[Any, list[str], list[str]]:
    """The estimator in a file, the names of its inputs and targets: of arrays x0, ..., y0, ..."""
    estimator = estimators.load(path)
    held = vars(estimator)  # without the names, or scikit-learn would ask for them in arrays
    inputs = held.pop("feature_names_in_", tables.numbered("x", estimator.n_features_in_))
    targets = held.pop("target_names_", tables.numbered("y", estimator.n_targets))
    return estimator, list(inputs), list(targets)


def _shown(pieces: Iterable[dict[str, np.ndarray]], n: int) -> Iterator[dict[str, np.ndarray]]:
    """The pieces of n rows, with a bar on a terminal if they take more than two seconds."""
    with tqdm(
        total=n, delay=DELAY, unit=" rows", unit_scale=True, leave=False, disable=None
    ) as bar:
        for piece in pieces:
            bar.update(len(next(iter(piece.values()))))
            yield piece


def _summary(path: Path, estimator, inputs: Sequence[str], targets: Sequence[str]) -> dict:
    sizes = [x.size for x in jax.tree.leaves(estimator.models_) if eqx.is_array(x)]
    settings, rank = estimator.get_params(), getattr(estimator, "rank_", None)
    return {
        "model": str(path),
        "kind": estimator.kind,
        "inputs": list(inputs),
        **({"targets": list(targets)} if targets else {}),
        **({} if rank is None else {"rank": rank}),
        "epochs": len(estimator.history_["loss"]),
        "weights": sum(sizes),
        "settings": {name: value for name, value in settings.items() if name != "verbose"},
    }


def _results_file(path: Path | None, data: Path | None = None) -> Path | None:
    """Where results go, checked before the work; None is stdout."""
    if path is None or path == Path("-"):
        return None
    if data is not None and path.exists() and data.exists() and path.samefile(data):
        raise ValueError(f"{path} would be written over the data; choose another -o.")
    return _writable(path)


def _writable(path: Path) -> Path:
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    folder = path.parent
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder} to write {path.name} into; make it first.")
    if not os.access(folder, os.W_OK):
        raise PermissionError(errno.EACCES, "not allowed to write there", str(path))
    return path


def _show(entries: dict, *, as_json: bool) -> None:
    """On stdout: JSON, where null stands for what is not finite, or a line for each entry."""
    if as_json:
        numbers = {name: value for name, value in entries.items() if isinstance(value, float)}
        lost = {name: None for name, value in numbers.items() if not math.isfinite(value)}
        print(json.dumps(entries | lost, allow_nan=False))
        return
    width = max(map(len, entries))
    for name, value in entries.items():
        if isinstance(value, dict):
            value = ", ".join(f"{key}={item}" for key, item in value.items())
        elif isinstance(value, list):
            value = ", ".join(value)
        text = f"{value:.4g}" if isinstance(value, float) else value
        print(f"{name.replace('_', ' '):{width}}  {text}")
