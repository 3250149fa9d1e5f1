"""`Elliptical`: distributions over R^d whose density depends on a distance from the mean alone.

    x = loc + sqrt(eta) omega.color(r v),   v uniform on the unit sphere,   r >= 0 its radius
    log p(x) = g(u) - log det(eta omega) / 2,   u = |omega.whiten(x - loc)|^2 / eta = r^2

with a dispersion omega of trace one. A family says its law of the radius r; the rest follows.
"""

import abc
import math
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from mmlp.distributions import marginals
from mmlp.linalg.checks import check_trace_one, checked_floats, checked_positive
from mmlp.spd import SPD, DiagonalGram
from mmlp.spd.batch import Batched


class Elliptical(Batched):
    """A distribution with location, dispersion omega of trace one, scale eta, and a `tail`.

    Shapes: loc (..., d), omega (..., d, d), eta (...) and each parameter of the tail (...); leading
    dimensions broadcast. A family adds the fields of its tail, which its constructor takes after
    loc, omega and eta, and the six methods that are abstract here. A density costs one
    factorisation. Metrics, plots and estimators never ask for the family.
    """

    loc: eqx.AbstractVar[Array]
    omega: eqx.AbstractVar[SPD]
    eta: eqx.AbstractVar[Array]

    @property
    @abc.abstractmethod
    def tail(self) -> tuple[Array, ...]:
        """The parameters beyond loc, omega and eta."""

    @abc.abstractmethod
    def log_generator(self, u: Array) -> Array:
        """g(u) for u (...)."""

    @abc.abstractmethod
    def white(self, key, batch: tuple[int, ...]) -> Array:
        """Draws (*batch, d) of r v."""

    def numpy_white(self, rng: np.random.Generator, batch: tuple[int, ...]) -> np.ndarray:
        """The same in float64, by NumPy where the family can: nothing is compiled."""
        return np.asarray(self.white(jax.random.key(rng.integers(2**32)), batch), np.float64)

    @abc.abstractmethod
    def radius_cdf(self, r: ArrayLike, dim: int | None = None) -> Array:
        """P(radius <= r), in `dim` dimensions if given: that of the family's law there."""

    @abc.abstractmethod
    def variance_factor(self, dim: int | None = None) -> Array:
        """E[r^2] / d, so that the covariance is variance_factor() eta omega; `dim` as above."""

    @abc.abstractmethod
    def generator_entropy(self) -> Array:
        """-E[g(r^2)]."""

    @classmethod
    def from_moments(cls, mean: ArrayLike, covariance: SPD, *tail: ArrayLike) -> Self:
        """The law of this family with this mean, this covariance and this tail."""
        name = f"{cls.__name__}.from_moments(covariance=...)"
        if not isinstance(covariance, SPD):
            kind = type(covariance).__name__
            raise ValueError(f"`{name}` must be an SPD value, got {kind}; use `Gram.from_dense`.")
        trace = checked_positive(covariance.trace(), f"trace of {name}", None)
        omega = covariance.scaled(1 / trace)
        family: Any = cls  # whose constructor takes (loc, omega, eta, *tail)
        unit = family(mean, omega, jnp.ones_like(trace), *tail)
        return family(mean, omega, trace / unit.variance_factor(), *tail)

    @property
    def dim(self) -> int:
        return self.omega.dim

    @property
    def batch_shape(self) -> tuple[int, ...]:
        scalars = (x.shape for x in (self.eta, *self.tail))
        return jnp.broadcast_shapes(self.loc.shape[:-1], self.omega.batch_shape, *scalars)

    def __getitem__(self, index) -> Self:
        """Those at this index of the batch dimensions; what all have in common stays common."""
        place, batch, own = self._place(index), self.batch_shape, self.omega.batch_shape

        def some(x: Array, own: tuple[int, ...]) -> Array:
            if own != batch and math.prod(own) == 1:
                return x.reshape(x.shape[len(own) :])
            return jnp.broadcast_to(x, batch + x.shape[len(own) :])[place]

        def parts(p: Self) -> tuple:
            return p.loc, p.omega, p.eta, *p.tail

        loc, tail = some(self.loc, self.loc.shape[:-1]), [some(x, x.shape) for x in self.tail]
        eta = jnp.broadcast_to(self.eta, batch)[place]  # has the batch shape if no other has
        omega = self.omega
        omega = omega[place] if own == batch else jax.tree.map(lambda x: some(x, own), omega)
        return eqx.tree_at(parts, self, (loc, omega, eta, *tail))

    @property
    def mean(self) -> Array:
        """The location, shape (..., d)."""
        return jnp.broadcast_to(self.loc, (*self.batch_shape, self.dim))

    @property
    def covariance(self) -> SPD:
        """variance_factor() eta omega."""
        return self.omega.scaled(self.variance_factor() * self.eta)

    def log_prob(self, x: ArrayLike) -> Array:
        """log p(x) for x (..., d); -inf where x is infinite."""
        logdet, u, infinite = self._logdet_and_square(x, "log_prob")
        value = self.log_generator(u) - (self.dim * jnp.log(self.eta) + logdet) / 2
        return jnp.where(infinite & ~jnp.isnan(value), -jnp.inf, value)  # NaN: of a parameter

    def sample(self, key, shape: int | tuple[int, ...] = ()) -> Array:
        """Draws (*shape, ..., d), differentiable by every parameter; n is short for (n,)."""
        sizes = shape if isinstance(shape, tuple | list) else (shape,)
        if not all(isinstance(n, int | np.integer) and n >= 0 for n in sizes):
            wanted = f"a whole number or a tuple of them, got {shape!r}"
            raise ValueError(f"`{type(self).__name__}.sample(shape=...)` must be {wanted}.")
        white = self.white(key, (*(int(n) for n in sizes), *self.batch_shape))
        return self.loc + jnp.sqrt(self.eta)[..., None] * self.omega.color(white)

    def entropy(self) -> Array:
        """-E[log p(x)], shape (...)."""
        logdet = self.dim * jnp.log(self.eta) + self.omega.logdet()
        return jnp.broadcast_to(self.generator_entropy() + logdet / 2, self.batch_shape)

    def mahalanobis(self, x: ArrayLike) -> Array:
        """The radius of x (..., d): |omega.whiten(x - loc)| / sqrt(eta).

        This is the distance by the dispersion eta omega; divided by sqrt(variance_factor()) it is
        the one by the covariance.
        """
        _, u, infinite = self._logdet_and_square(x, "mahalanobis")
        zero = u == 0  # where the derivative is given as zero
        return jnp.where(infinite, jnp.inf, jnp.sqrt(jnp.where(zero, 1, u)) * ~zero)

    def marginal_cdf(self, z: ArrayLike) -> np.ndarray:
        """P(x_j <= mean_j + z s_j) for z (..., *batch) deviations s_j, the same for each column j.

        With `marginal_quantile` of concrete values only, in float64; errors are below 1e-6.
        """
        law = self.radius_law(self.dim, *self.tail)
        return marginals.cdf(law, np.asarray(z, np.float64))

    def marginal_quantile(self, level: ArrayLike) -> np.ndarray:
        """z with marginal_cdf(z) = level, for levels (..., *batch) that broadcast to the batch.

        >>> from mmlp import DiagonalGram, TraceOneGaussian
        >>> p = TraceOneGaussian(jnp.zeros(2), DiagonalGram.trace_one(jnp.ones(2)), 1.0)
        >>> print(f"{p.marginal_quantile(0.975):.4f}")
        1.9600
        """
        levels = np.asarray(level, np.float64)
        if not np.all((levels > 0) & (levels < 1)):
            name = f"{type(self).__name__}.marginal_quantile(level=...)"
            raise ValueError(f"`{name}` must lie between 0 and 1, got {level!r:.80}.")
        return marginals.quantile(self.radius_law(self.dim, *self.tail), levels)

    @classmethod
    def radius_law(cls, dim: int, *tail: ArrayLike) -> marginals.Radius:
        """The radius in float64, for marginals: by default from `radius_cdf`, by bisection."""
        family: Any = cls
        ones = jnp.ones(dim)
        return marginals.ByBisection(family(0 * ones, DiagonalGram.trace_one(ones), 1.0, *tail))

    def radius_quantile(self, level: float, dim: int | None = None) -> Array:
        """The radius of the ellipsoid of probability `level`, by bisection of `radius_cdf`."""
        if not 0 < level < 1:
            name = f"{type(self).__name__}.radius_quantile(level=...)"
            raise ValueError(f"`{name}` must lie between 0 and 1, got {level!r}.")
        return self.radius_at(level, dim)

    def radius_at(self, level: ArrayLike, dim: int | None = None) -> Array:
        """`radius_quantile` of levels (..., *batch), which are not checked."""
        shapes = (x.shape for x in (jnp.asarray(level), self.eta, *self.tail))
        low = jnp.full(jnp.broadcast_shapes(*shapes), -60.0, self.eta.dtype)  # of log r

        def halve(_, bounds):
            low, high = bounds
            middle = (low + high) / 2
            below = self.radius_cdf(jnp.exp(middle), dim) < level
            return jnp.where(below, middle, low), jnp.where(below, high, middle)

        return jnp.exp(sum(lax.fori_loop(0, 64, halve, (low, -low))) / 2)

    def _logdet_and_square(self, x: ArrayLike, call: str) -> tuple[Array, Array, Array]:
        """log det omega, u of x, and whether x is infinite, where u is that of loc instead.

        In a dense solve infinities would meet, inf - inf.
        """
        x = jnp.asarray(x)
        if x.ndim == 0 or x.shape[-1] != self.dim:
            wanted = f"must have shape (..., {self.dim}), got shape {x.shape}"
            raise ValueError(f"`{type(self).__name__}.{call}(x=...)` {wanted}.")
        residual = x - self.loc
        infinite = jnp.any(jnp.isinf(residual), axis=-1) & ~jnp.any(jnp.isnan(residual), axis=-1)
        residual = jnp.where(infinite[..., None], 0, residual)
        logdet, y = self.omega.logdet_and_whiten(residual)
        return logdet, jnp.sum((y / jnp.sqrt(self.eta)[..., None]) ** 2, axis=-1), infinite


def parameters(name: str, loc: ArrayLike, omega: SPD, **scalars: ArrayLike):
    """loc, omega, and the scalars as arrays, checked where they are concrete."""
    loc = jnp.asarray(checked_floats(loc, f"{name}(loc=...)", "(..., d)", ndim=1))
    if not isinstance(omega, SPD):
        got = f"got {type(omega).__name__}; use `Gram.from_dense`"
        wanted = "must be an SPD value such as Gram or DiagonalGram"
        raise ValueError(f"`{name}(omega=...)` {wanted}, {got}.")
    if loc.shape[-1] != omega.dim:
        wanted = f"must have shape (..., {omega.dim}) to fit omega"
        raise ValueError(f"`{name}(loc=...)` {wanted}, got shape {loc.shape}.")
    check_trace_one(omega, f"{name}(omega=...)")
    values = [checked_positive(x, f"{name}({key}=...)", loc.dtype) for key, x in scalars.items()]
    try:
        jnp.broadcast_shapes(loc.shape[:-1], omega.batch_shape, *(x.shape for x in values))
    except ValueError:
        shapes = [f"{key} {x.shape}" for key, x in zip(scalars, values, strict=True)]
        batches = f"loc {loc.shape[:-1]}, omega {omega.batch_shape}, {', '.join(shapes)}"
        raise ValueError(f"`{name}(...)` cannot broadcast batch dimensions {batches}.") from None
    return loc, omega, *values
