"""What the commands of the command line do: files in, an estimator or an experiment, files out."""

import functools
import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from mmlp import estimators, tables
from mmlp._arguments import (
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
from mmlp.estimators import MatrixVAE, MultivariateRegressor, SPDRegressor
from mmlp.experiments import demo as tour
from mmlp.experiments import reproduce as paper

KINDS = {SPDRegressor: "spd", MultivariateRegressor: "regression", MatrixVAE: "vae"}


@functools.singledispatch
def run(command) -> int:
    """Do what a command says; gives the exit status."""
    raise TypeError(f"no command: {command!r}")


@run.register
def demo(command: Demo) -> int:
    flags = ["--out", str(command.out), *(["--quick"] if command.quick else [])]
    tour.main(flags)
    return 0


@run.register
def reproduce(command: Reproduce) -> int:
    options = {"--seeds": command.seeds, "--data": command.data, "--out": command.out}
    flags = [word for flag, value in options.items() if value is not None for word in (flag, str(value))]
    return paper.main([*command.targets, *(["--quick"] if command.quick else []), *flags])


@run.register
def fit_spd(command: FitSpd) -> int:
    out = _model_file(command)
    X, Y = tables.read_matrices(command.data)
    return _fit(command, out, SPDRegressor(), X, Y, tables.numbered("x", X.shape[1]), ())


@run.register
def fit_regression(command: FitRegression) -> int:
    out = _model_file(command)
    table = tables.read(command.data)
    targets = command.targets or table.targets
    if not targets:
        raise ValueError(f"{command.data} has no array 'y' to predict; add it, or name columns of X by --targets x0,x1.")
    inputs = _inputs(table, (*targets, *command.ignore))
    X, y = table.columns(inputs), table.columns(targets)
    return _fit(command, out, MultivariateRegressor(), X, y, inputs, targets)


@run.register
def fit_vae(command: FitVae) -> int:
    out = _model_file(command)
    table = tables.read(command.data)
    inputs = _inputs(table, command.ignore)
    estimator = MatrixVAE() if command.latent is None else MatrixVAE(latent=command.latent)
    return _fit(command, out, estimator, table.columns(inputs), None, inputs, ())


@run.register
def predict(command: Predict) -> int:
    estimator = _load(command.model)
    out = _results_file(command.out, _RESULTS[type(estimator)], command.data)
    table = tables.read(command.data)
    X = table.columns(estimator.feature_names_in_)
    if isinstance(estimator, MultivariateRegressor):
        results, axis = {"mean": estimator.predict(X), "covariance": estimator.predict_covariance(X)}, estimator.target_names_
    elif isinstance(estimator, SPDRegressor):
        results = {"covariance": estimator.predict(X)}
        axis = tuple(map(str, range(results["covariance"].shape[1])))
    else:
        results = {"log_density": estimator.score_samples(X), "latent": estimator.transform(X)}
        axis = tuple(map(str, range(results["latent"].shape[1])))
    tables.write(out, results, axis)
    return 0
