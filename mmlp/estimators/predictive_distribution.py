"""The distributions that `MultivariateRegressor` predicts: each function is one compiled program.

Operation by operation JAX would compile some ninety, which takes longer than all else.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from mmlp.argument_checks import check_positive
from mmlp.compilation import Compiled
from mmlp.distributions import Elliptical
from mmlp.estimators.chunks import PIECE


def law(family: type[Elliptical], call: str, mean, V, *tail, dtype) -> Elliptical:
    """The distribution with this mean (n, d), covariance V and tail (n,), if the dtype holds it."""
    value = V.value(call, dtype, mean)
    return _law(family, mean.astype(dtype), value, *_checked(call, tail, dtype))


def log_densities(
    family: type[Elliptical], call: str, errors: np.ndarray, V, *tail
) -> np.ndarray:
    """Of errors (n, d) about zero in the dtype, with covariances V, (n,)."""
    n, dtype = len(errors), errors.dtype
    value = V.value(call, dtype, np.zeros_like(errors))
    arrays, found = (errors, value, *_checked(call, tail, dtype)), []
    for start in range(0, n, PIECE):
        rows = np.minimum(
            np.arange(start, start + PIECE), n - 1
        )  # of one shape: one program
        some = jax.tree.map(lambda x, rows=rows: np.asarray(x)[rows], arrays)
        found.append(np.asarray(_log_densities(family, *some)))
    return np.concatenate(found)[:n]


def _checked(call: str, tail, dtype) -> list:
    return [check_positive(x.astype(dtype), f"{call}: a tail", dtype) for x in tail]


@functools.partial(Compiled, effort="least")
def _law(family: type[Elliptical], mean, value, *tail):
    return family.from_moments(mean, value, *tail)


@functools.partial(Compiled, effort="least")
def _log_densities(family: type[Elliptical], errors, value, *tail):
    return family.from_moments(jnp.zeros_like(errors), value, *tail).log_prob(errors)
