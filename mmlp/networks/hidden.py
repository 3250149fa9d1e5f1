"""Hidden matrices, in the form in which layers pass them on."""

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
    """`Dense` between layers: K(Z) / tr K(Z), with a factor that is not normalised."""

    def __call__(self, entries: Array) -> SPD:
        """Return the hidden matrix."""
        S = self.kernel(entries)
        if S.shape[-1] == 1 or not getattr(self.kernel, "bounded", False):
            # A matrix of size one is exactly 1.
            return Gram.trace_one(S)
        return UpToScale(S)


class UpToScale(SPD):
    """A = S'S / |S|^2, stored as S (..., m, d).

    Squares of the entries of S must neither overflow nor vanish. Results are divided by
    |S|^2 instead of S itself, because they are smaller than S or need a pass anyway.
    That saves one pass over S, and several over its derivative.

    Parameters
    ----------
    S : array of shape (..., m, d)
    """

    S: Array

    def __init__(self, S: Array) -> None:
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
