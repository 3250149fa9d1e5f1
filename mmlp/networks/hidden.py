"""Hidden matrices, as layers pass them on."""

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from mmlp.linalg.primitive import full_precision
from mmlp.linalg.products import gram, sum_of_squares
from mmlp.networks.outputs import Dense
from mmlp.registry import register
from mmlp.spd import SPD, Gram


@register
class Hidden(Dense):
    """`Dense` between layers: K(Z) / tr K(Z), by a factor that is not divided by its size."""

    def __call__(self, entries: Array) -> SPD:
        S = self.kernel(entries)
        if S.shape[-1] == 1 or not getattr(self.kernel, "bounded", False):
            return Gram.trace_one(S)  # of size one it is the matrix 1, without rounding
        return UpToScale(S)


class UpToScale(SPD):
    """A = S'S / |S|^2, held by S (..., m, d), whose squares must neither overflow nor vanish.

    The size divides results, which are smaller than S or made anyway: a pass less over S, and
    several less over its derivative.
    """

    S: Array

    def __init__(self, S: Array):
        self.S = S

    @property
    def dim(self) -> int:
        return self.S.shape[-1]

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self.S.shape[:-2]

    @property
    def factor(self) -> Array:
        return Gram.trace_one(self.S).factor

    def scaled(self, c: ArrayLike) -> Gram:
        return Gram.trace_one(self.S).scaled(c)

    @full_precision
    def __matmul__(self, x: ArrayLike) -> Array:
        columns = self._as_columns(x, "__matmul__(x=...)")
        S = columns.match(self.S)
        y = columns.restore(S.mT @ (S @ columns.array))
        return y / sum_of_squares(self.S)[..., None]

    @full_precision
    def sandwich(self, W: ArrayLike) -> Array:
        M = self.S @ jnp.asarray(W).mT
        return gram(M) / sum_of_squares(self.S)[..., None, None]
