"""The mean of `MultivariateRegressor`: MLPs and, where rows are few, Gaussian processes.

Of each target the parts of both, from 0 to 1, are those whose sum is nearest to held rows. Where
rows are many, first networks tell three things. Where there is more noise than signal, smaller
steps are better: held rows choose. Inputs that do not matter are left out: an MLP fits noise by
each of them. And errors are divided by what is usual for such a row: else noisy rows decide.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mmlp.estimators import model_files
from mmlp.estimators.chunks import as_one, only, predictions
from mmlp.estimators.covariance import FEW
from mmlp.estimators.cross_fitting import Part, among, fit_folds, held
from mmlp.estimators.gaussian_process import MOST, shares, smooth_mean
from mmlp.networks import Perceptron
from mmlp.networks.calibration import calibrate
from mmlp.training import FitResult

ERRORS = 2.0  # standard errors by which an input that is kept must matter
TOGETHER = 1.0  # by which all that are left out may matter together
STEPS = (1.0, 0.25)  # of which held rows choose, and
CHOOSING = 20_000  # rows at most with which they do: more rows have less noise to fit
SHUFFLED = 100_000  # rows at most that tell whether an input matters


@dataclasses.dataclass(frozen=True)
class Mean:
    """Builds an MLP."""

    sizes: tuple[int, ...]

    def __call__(self, key, X):
        return calibrate(Perceptron(self.sizes, jax.nn.gelu, key=key), X, key=key)


class FittedMean(NamedTuple):
    models: dict[str, Any]  # stacks: "mean", the MLPs, and perhaps "smooth", of one
    share: np.ndarray  # (d,): of the smooth member
    residuals: (
        np.ndarray
    )  # (n, d): of held rows, of the mean over both ways to split into folds
    apart: np.ndarray  # (n, d): what these two say of held rows differs by this
    history: dict[str, np.ndarray]
    step: float  # of `STEPS`
    judged: (
        np.ndarray | None
    )  # (m, d): residuals of the rows of validation, if there are any


def stages(n: int) -> list[str]:
    """What `MultivariateRegressor` trains one after the other on n rows, for who watches."""
    first = () if n <= MOST else ("first mean", "size of errors")
    names = (*first, "mean", "covariance")
    return [f"{i}/{len(names)} {name}" for i, name in enumerate(names, 1)]


def fit_mean(
    sizes, x, z, weight, partitions, *, checkpoint, steps=(1.0,), judges=None, **how
) -> FittedMean:
    """Of standardised z (n, d), given x (n, p), by MLPs with `sizes` of hidden layers.

    `judges` are other rows (x, z), by which they stop; `how` may have `models`, MLPs to go on from.
    """
    build, dtype = Mean((x.shape[1], *sizes, z.shape[1])), how["training"].dtype
    few, (x_val, z_val) = len(z) <= MOST, judges or (x[:0], z[:0])
    names, step = iter(stages(len(z))), 1.0

    def networks(
        name: str, loss, parts: list[Part], *data, others, step: Any, models=None
    ):
        own = {"checkpoint": checkpoint and checkpoint / name, "stage": next(names)}
        own |= {
            "judges": (x_val, *others) if judges else None,
            "models": models,
            "rates": step,
        }
        return fit_folds(build, loss, data, weight, parts, **how | own)

    rng, used, rates = (
        np.random.default_rng(how["seed"]),
        np.ones(x.shape[1]),
        np.ones_like(z),
    )
    others = (z_val, np.ones_like(z_val))
    if not few:
        parts, inputs = partitions[0], x.astype(dtype)
        steps = steps if len(z) <= CHOOSING else steps[:1]
        every, each = parts * len(steps), np.repeat(steps, len(parts))
        tried = networks(
            "first", squared_error, every, x, z, rates, others=others, step=each
        )
        first, step = _best(tried, steps)
        used = mattering(first, inputs, z, weight, parts, rng)
        errors = z - held(predictions(call, first, inputs), parts)
        left = z_val - _averaged(first, x_val, dtype)
        sizes_of = networks(
            "sizes", laplace, parts, x, errors, others=(left,), step=step
        ).model
        rates = weighing(
            held(predictions(call, sizes_of, inputs), parts), errors, weight
        )
        if judges:
            logs = _averaged(sizes_of, x_val, dtype)
            others = (z_val, weighing(logs, left, np.ones(len(left))))
    every, x_val = [part for parts in partitions for part in parts], x_val * used
    going_on = {"others": others, "step": step, "models": how.get("models")}
    fitted = networks("all", squared_error, every, x * used, z, rates, **going_on)
    # what they have made of columns of zeros is nothing
    model = eqx.tree_at(
        lambda m: m.W[0], fitted.model, replace_fn=lambda W: _times(W, used)
    )
    values = np.split(
        predictions(call, model, x.astype(dtype)), len(partitions), axis=1
    )
    said = [held(*pair) for pair in zip(values, partitions, strict=True)]
    found, share = {"mean": model}, np.zeros(z.shape[1])
    if few and z.shape[1] <= FEW:
        smooth, other = smooth_mean(x, z, weight, partitions, dtype=dtype, rng=rng)
        share = shares(z, weight, np.mean(said, axis=0), np.mean(other, axis=0))
        said = [one + share * (two - one) for one, two in zip(said, other, strict=True)]
        found |= {"smooth": as_one(smooth)} if share.any() else {}
    residuals, apart = z - np.mean(said, axis=0), said[0] - said[1]
    judged = judges and z_val - predicted_mean(found, share, judges[0].astype(dtype))
    return FittedMean(found, share, residuals, apart, fitted.history, step, judged)


def _best(tried: FitResult, steps: Sequence[float]) -> tuple[Any, float]:
    """Of networks by several steps, one after the other, those that err least on held rows."""
    least = np.nanmin(tried.history["validation"], axis=0).reshape(len(steps), -1)
    best, count = int(np.argmin(least.mean(axis=1))), least.shape[1]
    some = slice(best * count, (best + 1) * count)
    models = jax.tree.map(
        lambda a: np.asarray(a)[some] if eqx.is_array(a) else a, tried.model
    )
    return models, steps[best]


def _averaged(models, x: np.ndarray, dtype) -> np.ndarray:
    """What the networks say of rows that none has seen."""
    if not len(x):
        return x[:, :1]
    return predictions(call, models, x.astype(dtype)).mean(axis=1)


def _times(W, used: np.ndarray):
    return W if used.all() else jnp.asarray(np.asarray(W) * used.astype(W.dtype))


def mattering(models, x, z, weight, parts: list[Part], rng) -> np.ndarray:
    """Zero or one for each input (p,): whether held rows err more when its values are shuffled.

    The lengths of errors must grow, on average, by more than `ERRORS` standard errors. A gross
    error of z changes them no more than any other row: squares would hide all else behind it.
    Inputs that do not matter one by one may together: those that are left out are shuffled
    together, too, in another order, and the half of them that matters more is put back until they
    do not.
    """
    if len(x) > SHUFFLED:
        some = np.sort(rng.choice(len(x), SHUFFLED, replace=False))
        x, z, weight, parts = x[some], z[some], weight[some], among(some, parts)
    before, orders = (
        _errors(models, x, z, parts),
        [rng.permutation(len(x)) for _ in range(2)],
    )

    def growth(columns, order: np.ndarray) -> float:
        shuffled = x.copy()
        shuffled[:, columns] = x[order][:, columns]
        more = weight * (_errors(models, shuffled, z, parts) - before)
        spread = more.std() / np.sqrt(len(more))
        return more.mean() / spread if spread > 0 else 0.0

    each = np.array([growth([j], orders[0]) for j in range(x.shape[1])])
    left = np.argsort(each)[: int(np.sum(each <= ERRORS))]  # the least first
    while len(left) and growth(left, orders[1]) > TOGETHER:
        left = left[: len(left) // 2]
    used = np.ones(x.shape[1])
    used[left] = 0
    return used


def weighing(logs: np.ndarray, errors: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """What errors (n, d) are multiplied by, given the logarithms of their usual sizes.

    No row is said to have errors beyond those of eight in ten rows: a network may say anything of
    an input far from all others. A target that is exact for a tenth of them is not weighed.
    """
    low, high = np.quantile(np.abs(errors), (0.1, 0.9), axis=0)
    exact = low == 0
    logs = np.clip(
        logs, np.log(np.where(exact, 1, low)), np.log(np.where(exact, 1, high))
    )
    rates = np.exp(-logs)
    return rates / np.sqrt(np.average(rates**2, axis=0, weights=weight))


def _errors(models, x, z, parts: list[Part]) -> np.ndarray:
    """The lengths (n,) of the errors of held rows."""
    lengths = np.empty(len(x))
    for k, (_, rows) in enumerate(parts):
        said = predictions(call, only(models, k), x[rows])[:, 0]
        lengths[rows] = np.linalg.norm(said - z[rows], axis=1)
    return lengths


def predicted_mean(
    models: dict[str, Any], share: np.ndarray, x: np.ndarray
) -> np.ndarray:
    """Of the standardised targets, (n, d), given standardised rows."""
    mean = predictions(call, models["mean"], x).mean(axis=1)
    if "smooth" not in models:
        return mean
    return mean + share * (predictions(call, models["smooth"], x)[:, 0] - mean)


def check_share(share, models: dict[str, Any], d: int) -> None:
    """Refuse parts, of a file, that cannot be, or that are of nothing."""
    if not model_files.is_finite(share, (d,)) or share.min() < 0 or share.max() > 1:
        raise ValueError(f"its share_ is not {d} numbers from 0 to 1")
    if share.any() != ("smooth" in models) or models.keys() - {
        "mean",
        "smooth",
        "covariance",
    }:
        raise ValueError(
            f"its share_ {share} does not belong to models {', '.join(models)}"
        )


def call(model, x):
    return model(x)


def squared_error(model, key, t, x, z, rate):
    return jnp.sum((rate * (model(x) - z)) ** 2)


def laplace(model, key, t, x, error):
    """Minus the log density of errors with mean lengths exp(model(x)), up to a constant."""
    logs = model(x)
    return jnp.sum(logs + jnp.abs(error) * jnp.exp(-logs))
