"""What the commands do: files in, an estimator or an experiment, files out."""

import contextlib
import errno
import functools
import json
import math
import os
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mmlp import estimators, metrics, tables
from mmlp.cli.arguments import (
    Demo,
    FitOptions,
    FitRegression,
    FitSpd,
    FitVae,
    Info,
    Predict,
    Reproduce,
    Sample,
    Score,
)
from mmlp.cli.notices import check_cells, say_unfinished
from mmlp.divergences import von_neumann
from mmlp.estimators import MatrixVAE, MultivariateRegressor, SPDRegressor
from mmlp.estimators.outliers import FarCellWarning
from mmlp.estimators.spd import factored
from mmlp.experiments import demo as tour
from mmlp.experiments.harness.run import reproduce
from mmlp.spd import Gram
from mmlp.training.runs import AnotherRunError

KINDS = {SPDRegressor: "spd", MultivariateRegressor: "regression", MatrixVAE: "vae"}
RESULTS = {
    "spd": ("covariance",),
    "regression": ("mean", "covariance"),
    "vae": ("log_density", "latent"),
}


@functools.singledispatch
def run(command) -> int:
    """Do what a command says; gives the exit status."""
    raise TypeError(f"no command: {command!r}")


@run.register
def _(command: Demo) -> int:
    tour.main(["--out", str(command.out), *(["--quick"] if command.quick else [])])
    return 0


@run.register
def _(command: Reproduce) -> int:
    given = {"seeds": command.seeds, "data": command.data}
    return reproduce(command.targets, quick=command.quick, out=command.out, **given)


@run.register
def _(command: FitSpd) -> int:
    out = _model_file(command)
    X, Y = _matrices(command.data)
    return _fit(
        command,
        out,
        SPDRegressor(),
        "row {} (from 0)".format,
        (X, Y),
        tables.numbered("x", X.shape[1]),
    )


@run.register
def _(command: FitRegression) -> int:
    out, table = _model_file(command), tables.read(command.data)
    targets = command.targets or table.targets
    if not targets:
        raise ValueError(
            f"{command.data} has no array 'y' to predict; add it, or name columns of X by --targets x0,x1."
        )
    inputs = _others(table, (*targets, *command.ignore))
    data = (table.columns(inputs), table.columns(targets))
    return _fit(command, out, MultivariateRegressor(), table.place, data, inputs, targets)


@run.register
def _(command: FitVae) -> int:
    out, table = _model_file(command), tables.read(command.data)
    inputs = _others(table, tuple(dict.fromkeys((*command.ignore, *table.targets))))
    return _fit(
        command, out, MatrixVAE(command.latent), table.place, (table.columns(inputs),), inputs
    )


@run.register
def _(command: Predict) -> int:
    model, out = _loaded(command.model), _results_file(command.out, command.data)
    if out is not None:
        tables.check_output(out, RESULTS[model.kind])
    results, axis = _predictions(model, tables.read(command.data).columns(model.inputs))
    tables.write(out, results, axis)
    return 0


@run.register
def _(command: Score) -> int:
    model = _loaded(command.model)
    if model.kind == "spd":
        data = _matrices(command.data)
    else:
        table = tables.read(command.data)
        data = tuple(table.columns(names) for names in (model.inputs, model.targets) if names)
    _show(
        {"model": str(command.model), "kind": model.kind} | _scores(model.estimator, *data),
        as_json=command.json,
    )
    return 0


@run.register
def _(command: Sample) -> int:
    model, out = _loaded(command.model), _results_file(command.out)
    if model.kind != "vae":
        raise ValueError(
            f"{command.model} is a model of kind {model.kind}; only those of `mmlp fit vae` can be sampled."
        )
    tables.write(
        out, {"X": model.estimator.sample(command.rows, random_state=command.seed)}, model.inputs
    )
    return 0


@run.register
def _(command: Info) -> int:
    _show(_summary(command.model, _loaded(command.model)), as_json=command.json)
    return 0


class Model(NamedTuple):
    kind: str
    estimator: Any  # a key of KINDS
    inputs: Sequence[str]
    targets: Sequence[str]


def _loaded(path: Path) -> Model:
    """The model in a file; columns without names, of models that were fitted to arrays, are called as in `tables`."""
    estimator = estimators.load(path)
    held = vars(estimator)  # without the names, or scikit-learn would ask for them in arrays
    inputs = held.pop("feature_names_in_", tables.numbered("x", estimator.n_features_in_))
    scaling = getattr(estimator, "target_", None)  # of the targets of a regression
    targets = held.pop(
        "target_names_", () if scaling is None else tables.numbered("y", len(scaling.scale))
    )
    return Model(KINDS[type(estimator)], estimator, list(inputs), list(targets))


def _fit(
    command: FitOptions, out: Path, estimator, place, data: Sequence[np.ndarray], inputs, targets=()
) -> int:
    """Train, write the model, remove the checkpoint of the training, and say what was made and how good it is.

    `place` says where a row stands in the file.
    """
    check_cells(command.data, estimator.dtype, place, data, (inputs, targets))
    order = np.random.default_rng(command.seed).permutation(len(data[0]))
    kept = round(command.test * len(order))
    if command.test and not 2 <= kept <= len(order) - 2:
        raise ValueError(
            f"{command.data} has {len(order)} rows, too few for --test {command.test:g}; use another share."
        )
    test, train = (
        [array[np.sort(rows)] for array in data] for rows in (order[:kept], order[kept:])
    )
    estimator.set_params(random_state=command.seed, verbose=int(not command.quiet))
    if command.epochs is not None:
        estimator.set_params(max_epochs=command.epochs)
    checkpoint = out.with_name(f"{out.name}.checkpoint") / KINDS[type(estimator)]
    try:
        with warnings.catch_warnings():
            for told_here in (FarCellWarning, ConvergenceWarning):
                warnings.simplefilter("ignore", told_here)
            estimator.fit(*train, checkpoint=checkpoint)
    except AnotherRunError:
        raise ValueError(
            f"{checkpoint} keeps an unfinished training with other data or options; finish it with the command that began "
            "it, remove that folder, or choose another -o."
        ) from None
    except ValueError as error:
        raise ValueError(f"{command.data}: {error}") from error
    estimator.feature_names_in_, estimator.target_names_ = (
        np.array(inputs, object),
        np.array(targets, object),
    )
    estimator.save(
        out
    )  # first of all: whatever is wrong with the test rows, the training is not lost
    unfinished, networks = estimator._unfinished()
    say_unfinished(unfinished, networks, estimator.max_epochs)
    shutil.rmtree(checkpoint)
    with contextlib.suppress(OSError):  # it holds other files
        checkpoint.parent.rmdir()
    for name in ("feature_names_in_", "target_names_"):  # scikit-learn would ask for them in arrays
        vars(estimator).pop(name)
    scores = (
        {f"test_{name}": value for name, value in _scores(estimator, *test).items()} if kept else {}
    )
    _show(
        _summary(out, Model(KINDS[type(estimator)], estimator, inputs, targets)) | scores,
        as_json=command.json,
    )
    return 0


def _matrices(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """X and Y of an .npz, all rows checked before any is used."""
    X, Y = tables.read_matrices(path)
    try:
        factored(Y)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return X, Y


def _others(table: tables.Table, names: Sequence[str]) -> tuple[str, ...]:
    """The columns of a table without these."""
    table.check(names)
    left_out = set(names)
    others = tuple(name for name in table.names if name not in left_out)
    if not others:
        raise ValueError(f"{table.path} has no columns left as inputs; name fewer columns.")
    return others


def _predictions(model: Model, X: np.ndarray) -> tuple[dict[str, np.ndarray], Sequence[str]]:
    """Results by name, and the names along their axes."""
    estimator = model.estimator
    if isinstance(estimator, MultivariateRegressor):
        mean, covariance = estimator.predict(X).reshape(len(X), -1), estimator.predict_covariance(X)
        return {"mean": mean, "covariance": covariance}, model.targets
    if isinstance(estimator, SPDRegressor):
        covariance = estimator.predict(X)
        return {"covariance": covariance}, tables.numbered("", covariance.shape[1])
    latent = estimator.transform(X)
    return {"log_density": estimator.score_samples(X), "latent": latent}, tables.numbered(
        "", latent.shape[1]
    )


def _scores(estimator, X: np.ndarray, *targets: np.ndarray) -> dict[str, float]:
    """How good predictions are for these rows."""
    if isinstance(estimator, MatrixVAE):
        return {"rows": len(X), "log_density": estimator.score(X)}
    (y,) = targets
    if isinstance(estimator, SPDRegressor):
        divergence = von_neumann(Gram.from_dense(estimator.predict(X)), Gram.from_dense(y))
        r2 = {"r2": estimator.score(X, y)} if len(X) > 1 else {}  # of one row it is not defined
        return {"rows": len(X), "von_neumann": float(jnp.mean(divergence)), **r2}
    error, p = y - estimator.predict(X).reshape(y.shape), estimator._error_distribution(X)
    return {
        "rows": len(X),
        "negative_log_likelihood": -estimator.log_score(X, y),
        "energy_score": metrics.energy_score(p, error),
        "coverage_90": metrics.ellipsoid_coverage(p, error, 0.9),
        **({"r2": estimator.score(X, y)} if len(X) > 1 else {}),
    }


def _summary(path: Path, model: Model) -> dict:
    estimator = model.estimator
    sizes = [x.size for x in jax.tree.leaves(estimator.models_) if eqx.is_array(x)]
    return {
        "model": str(path),
        "kind": model.kind,
        "inputs": list(model.inputs),
        **({"targets": list(model.targets)} if model.targets else {}),
        "epochs": len(estimator.history_["loss"]),
        "weights": sum(sizes),
        "settings": {
            name: value for name, value in estimator.get_params().items() if name != "verbose"
        },
    }


def _model_file(command: FitOptions) -> Path:
    """Where the model goes, checked before the work."""
    suffix = tables.extension(command.data, tables.INPUTS, "read")
    return _writable(command.out or Path(command.data.name[: -len(suffix)] + ".safetensors"))


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
    if not path.parent.is_dir():
        raise ValueError(
            f"there is no folder {path.parent} to write {path.name} into; make it first."
        )
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(errno.EACCES, "not allowed to write there", str(path))
    return path


def _show(entries: dict, *, as_json: bool) -> None:
    """On stdout: JSON, where null stands for what is not finite, or a line for each entry."""
    if as_json:
        lost = {
            name: None
            for name, value in entries.items()
            if isinstance(value, float) and not math.isfinite(value)
        }
        print(json.dumps(entries | lost, allow_nan=False))
        return
    width = max(map(len, entries))
    for name, value in entries.items():
        if isinstance(value, dict):
            value = ", ".join(f"{key}={item}" for key, item in value.items())
        elif isinstance(value, list):
            value = ", ".join(value)
        print(
            f"{name.replace('_', ' '):{width}}  {f'{value:.4g}' if isinstance(value, float) else value}"
        )
