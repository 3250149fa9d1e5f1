"""The predictive distributions of `MultivariateRegressor`, from means and covariances.

Each of the functions runs one compiled program. Operation by operation, JAX would
compile some ninety, which takes longer than everything else.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from mmlp.argument_checks import check_positive
from mmlp.compilation import Compiled
from mmlp.distributions import Elliptical
from mmlp.estimators.chunks import ROWS_PER_CHUNK
from mmlp.estimators.covariance import CovarianceBatch


def build_distribution(
    family: type[Elliptical],
    mean: np.ndarray,
    covariance: CovarianceBatch,
    tail: Sequence[np.ndarray],
    *,
    dtype: DTypeLike,
    call: str,
) -> Elliptical:
    """Return the distribution of each row, with batch shape (n,).

    Parameters
    ----------
    family : subclass of Elliptical
    mean : array of shape (n, d)
    covariance : batch of n covariances
    tail : arrays of shape (n,)
        The further parameters of the family, such as degrees of freedom.
    dtype : of the distribution
    call : name of the method that an error names

    Raises
    ------
    ValueError
        If the dtype cannot hold the numbers.
    """
    matrix = covariance.as_spd(call, dtype, mean)
    checked = _check_tail(call, tail, dtype)
    return _from_moments(family, mean.astype(dtype), matrix, *checked)


def log_density_of_errors(
    family: type[Elliptical],
    errors: np.ndarray,
    covariance: CovarianceBatch,
    tail: Sequence[np.ndarray],
    *,
    call: str,
) -> np.ndarray:
    """Return the log densities (n,) of errors (n, d) with mean zero, in their dtype."""
    n_rows = len(errors)
    matrix = covariance.as_spd(call, errors.dtype, np.zeros_like(errors))
    arrays = (errors, matrix, *_check_tail(call, tail, errors.dtype))

    densities = []
    for start in range(0, n_rows, ROWS_PER_CHUNK):
        # All chunks have one shape, and so share one program: the last row is repeated.
        rows = np.minimum(np.arange(start, start + ROWS_PER_CHUNK), n_rows - 1)
        chunk = jax.tree.map(lambda x, rows=rows: np.asarray(x)[rows], arrays)
        densities.append(np.asarray(_log_density(family, *chunk)))
    return np.concatenate(densities)[:n_rows]


def _check_tail(call: str, tail: Sequence[np.ndarray], dtype: DTypeLike) -> list[Any]:
    return [check_positive(x.astype(dtype), f"{call}: a tail", dtype) for x in tail]


@functools.partial(Compiled, effort="least")
def _from_moments(family: type[Elliptical], mean, matrix, *tail):
    return family.from_moments(mean, matrix, *tail)


@functools.partial(Compiled, effort="least")
def _log_density(family: type[Elliptical], errors, matrix, *tail):
    distribution = family.from_moments(jnp.zeros_like(errors), matrix, *tail)
    return distribution.log_prob(errors)
