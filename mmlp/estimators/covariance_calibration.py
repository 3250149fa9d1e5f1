"""What held rows say about covariances that were learnt: their common shape, contrast and gain.

- log V varies too much over rows, as the output of any fitted network does: it is moved towards
  its centre by the factor (`contrast_`) that makes the held residuals most likely. Of low rank,
  the diagonal and the loadings are each multiplied by a number.
- The mean of all networks errs less than that of those that have not seen a row. Rows are split
  into folds twice: the difference of two such means tells by how much (`gain_`).

e (n, d) are residuals, V (n, d, d) their covariances by networks that have not seen the rows.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq

from mmlp.compilation import Compiled
from mmlp.distributions import Elliptical
from mmlp.estimators.chunks import PIECE, one_of_few
from mmlp.spd import DiagonalGram


def shape(residuals: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """L (d, d) with LL' / d the covariance of residuals, shrunk (Ledoit and Wolf, 2004), full rank.

    Ledoit and Wolf do not shrink at all where the products of residuals are the same in all rows,
    as they often are in two rows. If what they give is not of full rank, the covariance is shrunk
    by the approximation of the oracle (Chen et al., 2010), whose shrinkage is never zero. A column
    without residuals keeps the scale of the target.
    """
    from sklearn.covariance import (
        ledoit_wolf,
        oas,
    )  # here: predictions start without it

    scale = np.sqrt(np.average(residuals**2, axis=0, weights=weight))
    known = scale == 0
    scale = np.where(known, 1.0, scale)
    rows = residuals / scale * np.sqrt(weight / weight.mean())[:, None]
    V = ledoit_wolf(rows, assume_centered=True)[0] + np.diag(1.0 * known)
    if np.linalg.matrix_rank(V, hermitian=True) < len(V):
        V = oas(rows, assume_centered=True)[0] + np.diag(1.0 * known)
    return scale[:, None] * np.linalg.cholesky(V * len(V))


def contrast(
    family: type[Elliptical], log_V: np.ndarray, tail, e: np.ndarray, weight
) -> float:
    """The factor c in [0, 1] by which log V is drawn in so that the residuals e are most likely.

        -log p = log det V / 2 - log_generator(u) + const,   u = k e'V^-1 e,   V = k Sigma

    k is the `variance_factor`. The zero of the derivative by c is found, not the minimum: this
    needs fewer digits of the generator, which may have those of float32.
    """
    n, d = e.shape
    values, vectors = np.linalg.eigh(log_V)
    factor = _slopes(family, d, np.ones(n), *tail)[1]
    squares = np.einsum("nij,ni->nj", vectors, e) ** 2 * factor[:, None]
    rates = values + np.log(d)  # of the eigenvalues of log V, by c

    def derivative(c: float) -> float:
        terms = squares * np.exp(np.log(d) - c * rates)
        u, du = np.sum(terms, axis=1), -np.sum(terms * rates, axis=1)
        slopes = _slopes(family, d, u, *tail)[0]
        return float(
            np.average(np.sum(rates, axis=1) / 2 - slopes * du, weights=weight)
        )

    if derivative(0.0) >= 0 or derivative(1.0) <= 0:
        return 0.0 if derivative(0.0) >= 0 else 1.0
    zero: Any = brentq(derivative, 0.0, 1.0, xtol=1e-6)
    return float(zero)


def _slopes(
    family: type[Elliptical], d: int, u: np.ndarray, *tail: np.ndarray
) -> list[np.ndarray]:
    """For each row the derivative of `log_generator` at u (n,), and the `variance_factor`."""
    more, dtype = (
        one_of_few(len(u), PIECE) - len(u),
        jax.dtypes.canonicalize_dtype(np.float64),
    )
    rows = (np.pad(x, (0, more), mode="edge").astype(dtype) for x in (u, *tail))
    return [
        np.asarray(x, np.float64)[: len(u)]
        for x in _compiled_slopes((family, d), *rows)
    ]


@functools.partial(Compiled, effort="least")
def _compiled_slopes(static, u, *tail):
    family, shape = static[0], (len(u), static[1])
    p = family.from_moments(
        jnp.zeros(shape, u.dtype), DiagonalGram(jnp.ones(shape, u.dtype)), *tail
    )
    slope = jax.grad(lambda u: jnp.sum(p.log_generator(u)))(u)
    return slope, jnp.broadcast_to(p.variance_factor(), u.shape)


def gain(
    log_V: np.ndarray, e: np.ndarray, apart: np.ndarray, weight, count: int
) -> float:
    """What V, of the residuals e of the mean of two networks, is multiplied by for that of `count`.

    The first is E + B / 2, the last E + B / count, where B, the covariance of a network about the
    mean of many, is half that of the difference of two, `apart` (n, d). B is at most twice
    E + B / 2: an estimate above that means E = 0.
    """
    values, vectors = np.linalg.eigh(log_V)

    def size(x: np.ndarray) -> float:
        squares = np.einsum("nij,ni->nj", vectors, x) ** 2
        return float(
            np.average(np.sum(squares * np.exp(-values), axis=1), weights=weight)
        )

    return gain_of(size(e), size(apart), count)


def gain_of(whole: float, apart: float, count: int) -> float:
    """`gain`, of the mean squares of both in units of V."""
    share = min(apart / 2, 2 * whole) / whole if whole > 0 else 0.0
    return 1 - (1 / 2 - 1 / count) * share
