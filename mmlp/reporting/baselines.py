"""What simple models would have said about the same rows.

A baseline learns from other rows than it is judged by: from rows of training, if these are given,
and else from the rows themselves, by five-fold cross-validation. Covariances are shrunk as by
Ledoit and Wolf (2004); with many targets they are a diagonal and the principal loadings.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from sklearn.covariance import ledoit_wolf
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.utils.extmath import randomized_svd

from mmlp.distributions import Elliptical, TraceOneGaussian
from mmlp.spd import SPD, Gram, LowRankGram

FOLDS, FEWEST = 5, 20  # rows, for a baseline
MANY, LOADINGS = 200, 20  # targets from which on covariances have low rank, and which
PENALTIES = np.logspace(-3, 5, 9)


class Errors(NamedTuple):
    """Errors (n, d) of predicted means, and their law: about zero, of batch shape (n,)."""

    values: np.ndarray
    law: Elliptical


Fitted = tuple[Callable[[np.ndarray], np.ndarray], tuple[np.ndarray, ...]]


def constant(x: np.ndarray, y: np.ndarray) -> Fitted:
    """The mean and the covariance of y."""
    mean = y.mean(axis=0)
    return lambda x: np.broadcast_to(mean, (len(x), len(mean))), spread(y - mean)


def diagonal(x: np.ndarray, y: np.ndarray) -> Fitted:
    """The mean and the variances of y."""
    mean = y.mean(axis=0)
    return lambda x: np.broadcast_to(mean, (len(x), len(mean))), (
        y.std(axis=0),
        y[:0] * 0,
    )


def linear(x: np.ndarray, y: np.ndarray) -> Fitted:
    """Ridge regression, its penalty by cross-validation, and one covariance of held residuals."""
    unit = y.std(axis=0)
    unit = np.where(unit > 0, unit, 1.0)
    found: Any = RidgeCV(PENALTIES).fit(x, y / unit)
    ridge = Ridge(found.alpha_)
    predicted = np.asarray(cross_val_predict(ridge, x, y / unit, cv=KFold(FOLDS)))
    held = y - unit * predicted.reshape(y.shape)
    ridge.fit(x, y / unit)
    return lambda x: ridge.predict(x).reshape(len(x), -1) * unit, spread(
        held - held.mean(axis=0)
    )


def spread(errors: np.ndarray) -> tuple[np.ndarray, ...]:
    """The shrunk covariance (d, d), or scale (d,) and loadings (m, d) where d is large."""
    n, d = errors.shape
    scale = errors.std(axis=0)
    if not np.all(scale > 0):
        raise ConstantError
    z = errors / scale
    if d <= MANY:
        return (scale * ledoit_wolf(z, assume_centered=True)[0] * scale[:, None],)
    _, s, V = randomized_svd(z, min(LOADINGS, n // 4), random_state=0)
    U = s[:, None] * V / np.sqrt(n)
    return scale * np.sqrt(1 - np.sum(U**2, axis=0)), scale * U


class ConstantError(ValueError):
    """A target is the same in all rows, or predicted exactly: there is no density."""


def held_out(
    baseline: Callable, x: np.ndarray, y: np.ndarray, train: Any = None
) -> Errors:
    """Of a baseline at rows that it has not seen; `train` is (x, y), or None for five folds."""
    errors, every = np.empty(y.shape), np.arange(len(y))
    if train is not None:
        splits = [(train, every)]
    else:
        parts = KFold(FOLDS, shuffle=True, random_state=0).split(x)
        splits = [((x[seen], y[seen]), rows) for seen, rows in parts]
    spreads, which = [], np.empty(len(y), int)
    for k, (seen, rows) in enumerate(splits):
        predict, found = baseline(*seen)
        errors[rows], which[rows] = y[rows] - predict(x[rows]), k
        spreads.append(found)
    return Errors(errors, _law(errors, spreads, which))


def _law(errors: np.ndarray, spreads: Sequence[tuple], which: np.ndarray) -> Elliptical:
    value: SPD
    stacked = [np.stack(parts)[which] for parts in zip(*spreads, strict=True)]
    if len(stacked) == 1:
        factors = Gram.from_dense(np.stack([found[0] for found in spreads])).factor
        value = Gram(jnp.asarray(factors)[which], upper=True)
    else:
        value = LowRankGram(*map(jnp.asarray, stacked))
    return TraceOneGaussian.from_moments(jnp.zeros(errors.shape), value)
