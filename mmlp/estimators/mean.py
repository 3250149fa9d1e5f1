"""The mean of `MultivariateRegressor`: MLPs and, where rows are few, Gaussian processes.

Of each target the parts of both, from 0 to 1, are those whose sum is nearest to held rows.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mmlp.estimators.ensemble import Part, fit_folds, held
from mmlp.estimators.pieces import as_one, predictions
from mmlp.estimators.smooth import shares, smooth_mean, worthwhile
from mmlp.initialisation import calibrate
from mmlp.networks import Perceptron


@dataclasses.dataclass(frozen=True)
class Mean:
    """Builds an MLP."""

    sizes: tuple[int, ...]

    def __call__(self, key, X):
        return calibrate(Perceptron(self.sizes, jax.nn.gelu, key=key), X, key=key)


class FittedMean(NamedTuple):
    models: dict[str, Any]  # stacks: "mean", the MLPs, and perhaps "smooth", of one
    share: np.ndarray  # (d,): of the smooth member
    held: list[np.ndarray]  # (n, d): by what has not seen a row, for each way to split into folds
    history: dict[str, np.ndarray]


def fit_mean(sizes, x, z, weight, partitions: list[list[Part]], **how) -> FittedMean:
    """Of standardised z (n, d), given x (n, p), by MLPs with `sizes` of hidden layers."""
    build, dtype = Mean((x.shape[1], *sizes, z.shape[1])), how["training"].dtype
    networks = fit_folds(build, squared_error, (x, z), weight, sum(partitions, []), **how)
    values = predictions(call, networks.model, x.astype(dtype))  # (n, 2 count, d)
    values = np.split(values, len(partitions), axis=1)
    said = [held(*pair) for pair in zip(values, partitions, strict=True)]
    models, share = {"mean": networks.model}, np.zeros(z.shape[1])
    if worthwhile(*z.shape):
        smooth, other = smooth_mean(x, z, weight, partitions, np.random.default_rng(how["seed"]))
        share = shares(z, weight, sum(said) / len(said), np.mean(other, axis=0))
        said = [one + share * (two - one) for one, two in zip(said, other, strict=True)]
        smooth = jax.tree.map(lambda a: a.astype(dtype), smooth)
        models |= {"smooth": as_one(smooth)} if share.any() else {}
    return FittedMean(models, share, said, networks.history)


def predicted_mean(models: dict[str, Any], share: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Of the standardised targets, (n, d), given standardised rows."""
    mean = predictions(call, models["mean"], x).mean(axis=1)
    if "smooth" not in models:
        return mean
    return mean + share * (predictions(call, models["smooth"], x)[:, 0] - mean)


def call(model, x):
    return model(x)


def squared_error(model, key, t, x, z):
    return jnp.sum((model(x) - z) ** 2)
