"""The mean of `MultivariateRegressor`: MLPs and, where rows are few, Gaussian processes.

Of each target the parts of both, from 0 to 1, are those whose sum is nearest to held rows. Where
rows are many, inputs that do not matter are found first: an MLP fits noise by each of them.
"""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mmlp.estimators.covariance import FEW
from mmlp.estimators.ensemble import Part, fit_folds, held
from mmlp.estimators.pieces import as_one, predictions
from mmlp.estimators.smooth import MOST, shares, smooth_mean
from mmlp.initialisation import calibrate
from mmlp.networks import Perceptron

ERRORS = 2.0  # standard errors by which an input that is kept must matter


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


def fit_mean(sizes, x, z, weight, partitions: list[list[Part]], *, checkpoint, **how) -> FittedMean:
    """Of standardised z (n, d), given x (n, p), by MLPs with `sizes` of hidden layers."""
    build, dtype, few = (
        Mean((x.shape[1], *sizes, z.shape[1])),
        how["training"].dtype,
        len(z) <= MOST,
    )

    def networks(x, parts: list[Part], name: str):
        run = checkpoint and checkpoint / name
        return fit_folds(build, squared_error, (x, z), weight, parts, checkpoint=run, **how)

    rng, used = np.random.default_rng(how["seed"]), np.ones(x.shape[1])
    if not few:
        first = networks(x, partitions[0], "first").model
        used = mattering(first, x.astype(dtype), z, weight, partitions[0], rng)
    fitted = networks(x * used, [part for parts in partitions for part in parts], "all")
    # what they have made of columns of zeros is nothing
    model = eqx.tree_at(lambda m: m.W[0], fitted.model, replace_fn=lambda W: W * used.astype(dtype))
    values = predictions(call, model, x.astype(dtype))  # (n, 2 count, d)
    values = np.split(values, len(partitions), axis=1)
    said = [held(*pair) for pair in zip(values, partitions, strict=True)]
    models, share = {"mean": model}, np.zeros(z.shape[1])
    if few and z.shape[1] <= FEW:
        smooth, other = smooth_mean(x, z, weight, partitions, dtype=dtype, rng=rng)
        share = shares(z, weight, np.mean(said, axis=0), np.mean(other, axis=0))
        said = [one + share * (two - one) for one, two in zip(said, other, strict=True)]
        models |= {"smooth": as_one(smooth)} if share.any() else {}
    return FittedMean(models, share, said, fitted.history)


def mattering(models, x, z, weight, parts: list[Part], rng) -> np.ndarray:
    """Zero or one for each input (p,): whether held rows err more when its values are shuffled.

    The squared errors must grow by more than `ERRORS` standard errors.
    """

    def errors(x):
        return np.sum((held(predictions(call, models, x), parts) - z) ** 2, axis=1) * weight

    before, order, used = errors(x), rng.permutation(len(x)), np.zeros(x.shape[1])
    for j in range(x.shape[1]):
        shuffled = x.copy()
        shuffled[:, j] = x[order, j]
        more = errors(shuffled) - before
        used[j] = more.mean() > ERRORS * more.std() / np.sqrt(len(more))
    return used


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
