"""`Elliptical`: distributions over R^d whose density depends on a distance from the mean alone.

    x = loc + sqrt(eta) omega.color(r v),   v uniform on the unit sphere,   r >= 0 its radius
    log p(x) = g(u) - log det(eta omega) / 2,   u = |omega.whiten(x - loc)|^2 / eta = r^2

with a dispersion omega of trace one. A family defines the distribution of the radius r; the rest
follows from it.
"""

import abc
import dataclasses
import inspect
import math
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.core import Tracer
from jax.typing import ArrayLike

from mmlp.argument_checks import check_floats, check_positive, check_trace_one
from mmlp.distributions import marginals
from mmlp.spd import SPD, DiagonalGram
from mmlp.spd.batch import Batched


class Elliptical(Batched):
    """A distribution with location, dispersion omega of trace one, scale eta, and a `tail`.

    A new family declares the parameters of its tail as fields, and defines the five
    abstract methods: `log_generator`, `white`, `radius_cdf`, `variance_factor` and
    `generator_entropy`. The constructor takes loc, omega, eta and then these fields, in
    their order, as positional or as keyword arguments. It converts them to arrays and
    checks that eta and the tail are positive. Densities, samples, moments, marginals,
    metrics, plots, files and NumPyro then work; docs/new-distribution.md is an example.

    A family may have a constructor of its own, for example to accept an option. It must
    take loc, omega, eta and the tail as its first positional arguments, because
    `from_moments` and `radius_law` call it that way.

    A density costs one factorisation.

    Parameters
    ----------
    loc : array of shape (..., d)
        The location. Leading dimensions of all parameters broadcast.
    omega : SPD of shape (..., d, d)
        The dispersion, of trace one.
    eta : array of shape (...)
        The scale.
    *tail : arrays of shape (...)
        The fields that the family adds.
    """

    loc: Array
    omega: SPD
    eta: Array

    def __init__(
        self, loc: ArrayLike, omega: SPD, eta: ArrayLike, *tail: Any, **named: Any
    ):
        name = type(self).__name__
        scalars = _bind_tail(name, self.tail_names(), tail, named)
        self.loc, self.omega, *values = parameters(name, loc, omega, eta=eta, **scalars)
        for field, value in zip(("eta", *scalars), values, strict=True):
            setattr(self, field, value)

    @classmethod
    def tail_names(cls) -> tuple[str, ...]:
        """Return the names of the fields beyond loc, omega and eta, without static ones."""
        return tuple(
            field.name
            for field in dataclasses.fields(cls)
            if field.name not in ("loc", "omega", "eta")
            and not field.metadata.get("static", False)
        )

    @property
    def tail(self) -> tuple[Array, ...]:
        """The parameters beyond loc, omega and eta."""
        return tuple(getattr(self, name) for name in self.tail_names())

    @classmethod
    def average_tails(cls, *tails: Any, axis: int) -> tuple[Any, ...]:
        """Average the tails of several models along an axis: by default each parameter's mean.

        Parameters
        ----------
        *tails : arrays
            One for each parameter of the tail, with one entry per model along `axis`.
        axis : int

        Returns
        -------
        tuple of arrays, without that axis
        """
        return tuple(tail.mean(axis=axis) for tail in tails)

    @abc.abstractmethod
    def log_generator(self, u: Array) -> Array:
        """Return g(u), the log density of a standard member (loc 0, eta omega = I).

        Parameters
        ----------
        u : array of shape (...)
            Squared radii, which broadcast with the batch.

        Returns
        -------
        array of shape (...)
        """

    @abc.abstractmethod
    def white(self, key, batch: tuple[int, ...]) -> Array:
        """Draw r v, with a random radius r and a uniform direction v.

        Parameters
        ----------
        key : jax.random.key
        batch : tuple of int
            It ends with the batch shape of the distribution.

        Returns
        -------
        array of shape (*batch, d)
        """

    def numpy_white(
        self, rng: np.random.Generator, batch: tuple[int, ...]
    ) -> np.ndarray:
        """Draw r v as `white` does, in float64.

        A family that overrides this with NumPy's generators spares scores a compilation.
        """
        return np.asarray(
            self.white(jax.random.key(rng.integers(2**32)), batch), np.float64
        )

    @abc.abstractmethod
    def radius_cdf(self, r: ArrayLike, dim: int | None = None) -> Array:
        """Return P(radius <= r).

        Parameters
        ----------
        r : array of shape (...)
        dim : int, optional
            The number of dimensions, by default d: in `dim` dimensions, the radius is that of
            the member of this family with the same tail.

        Returns
        -------
        array of shape (...)
        """

    @abc.abstractmethod
    def variance_factor(self, dim: int | None = None) -> Array:
        """Return E[r^2] / d, so that the covariance is variance_factor() eta omega.

        Parameters
        ----------
        dim : int, optional
            As in `radius_cdf`.

        Returns
        -------
        array of shape (...)
            inf where there is no finite covariance.
        """

    @abc.abstractmethod
    def generator_entropy(self) -> Array:
        """Return -E[g(r^2)], the entropy of a standard member (loc 0, eta omega = I)."""

    @classmethod
    def from_moments(cls, mean: ArrayLike, covariance: SPD, *tail: ArrayLike) -> Self:
        """Return the member of this family with this mean, covariance and tail.

        Parameters
        ----------
        mean : array of shape (..., d)
        covariance : SPD of shape (..., d, d)
        *tail : arrays of shape (...)
            The parameters beyond loc, omega and eta.

        Raises
        ------
        ValueError
            If the covariance is not an SPD value or not finite, or if a distribution
            with this tail has no finite covariance.
        """
        name = f"{cls.__name__}.from_moments(covariance=...)"
        if not isinstance(covariance, SPD):
            kind = type(covariance).__name__
            raise ValueError(
                f"`{name}` must be an SPD value, got {kind}; use `Gram.from_dense`."
            )
        trace = check_positive(covariance.trace(), f"trace of {name}", None)
        omega = covariance.scaled(1 / trace)
        unit = cls._construct(mean, omega, jnp.ones_like(trace), *tail)
        unit._check_variance("from_moments")
        return cls._construct(mean, omega, trace / unit.variance_factor(), *tail)

    @classmethod
    def _construct(cls, *arguments: Any) -> Self:
        """Call the constructor with loc, omega, eta and the tail, as its contract says."""
        try:
            inspect.signature(cls).bind(*arguments)
        except TypeError as error:
            names = cls.tail_names()
            count = len(arguments) - 3
            if count != len(names):
                wanted = ", ".join(names) or "no parameters"
                raise TypeError(
                    f"`{cls.__name__}` has {wanted} beyond its mean and covariance, got {count} "
                    "arguments for that."
                ) from None
            raise TypeError(
                f"the constructor of `{cls.__name__}` must take loc, omega, eta and the parameters "
                f"of its tail (here {count}) as positional arguments: {error}; declare them as "
                "fields and leave out `__init__`, or change its signature."
            ) from None
        family: Any = cls
        return family(*arguments)

    def _check_variance(self, call: str) -> None:
        """Refuse a concrete tail that has no finite covariance."""
        factor = self.variance_factor()
        if not isinstance(factor, Tracer) and not np.all(
            np.isfinite(np.asarray(factor))
        ):
            name = type(self).__name__
            tail = " and ".join(self.tail_names())
            raise ValueError(
                f"`{name}.{call}`: with this {tail} there is no finite covariance "
                f"(`variance_factor()` is {np.max(np.asarray(factor))}); change {tail}, or use "
                "the dispersion, `eta` times `omega`."
            )

    @property
    def dim(self) -> int:
        return self.omega.dim

    @property
    def batch_shape(self) -> tuple[int, ...]:
        scalars = (x.shape for x in (self.eta, *self.tail))
        return jnp.broadcast_shapes(
            self.loc.shape[:-1], self.omega.batch_shape, *scalars
        )

    def __getitem__(self, index) -> Self:
        """Those at this index of the batch dimensions; what all have in common stays common."""
        place, batch, own = (
            self._complete_index(index),
            self.batch_shape,
            self.omega.batch_shape,
        )

        def some(x: Array, own: tuple[int, ...]) -> Array:
            if own != batch and math.prod(own) == 1:
                return x.reshape(x.shape[len(own) :])
            return jnp.broadcast_to(x, batch + x.shape[len(own) :])[place]

        loc, tail = (
            some(self.loc, self.loc.shape[:-1]),
            [some(x, x.shape) for x in self.tail],
        )
        eta = jnp.broadcast_to(self.eta, batch)[
            place
        ]  # has the batch shape if no other has
        omega = self.omega
        omega = (
            omega[place]
            if own == batch
            else jax.tree.map(lambda x: some(x, own), omega)
        )
        return eqx.tree_at(_list_parameters, self, (loc, omega, eta, *tail))

    @property
    def mean(self) -> Array:
        """The location, shape (..., d)."""
        return jnp.broadcast_to(self.loc, (*self.batch_shape, self.dim))

    @property
    def covariance(self) -> SPD:
        """variance_factor() eta omega; a ValueError where that is infinite."""
        self._check_variance("covariance")
        return self.omega.scaled(self.variance_factor() * self.eta)

    def log_prob(self, x: ArrayLike) -> Array:
        """Return the log density log p(x).

        Parameters
        ----------
        x : array of shape (..., d)
            Leading dimensions broadcast with the batch.

        Returns
        -------
        array of shape (...)
            -inf where x is infinite.
        """
        logdet, u, infinite = self._logdet_and_square(x, "log_prob")
        value = self.log_generator(u) - (self.dim * jnp.log(self.eta) + logdet) / 2
        return jnp.where(
            infinite & ~jnp.isnan(value), -jnp.inf, value
        )  # NaN: of a parameter

    def sample(self, key, shape: int | tuple[int, ...] = ()) -> Array:
        """Draw samples, which are differentiable with respect to every parameter.

        Parameters
        ----------
        key : jax.random.key
        shape : int or tuple of int, default=()
            The shape of the sample; n is short for (n,).

        Returns
        -------
        array of shape (*shape, ..., d)
        """
        sizes = shape if isinstance(shape, tuple | list) else (shape,)
        if not all(isinstance(n, int | np.integer) and n >= 0 for n in sizes):
            wanted = f"a whole number or a tuple of them, got {shape!r}"
            raise ValueError(
                f"`{type(self).__name__}.sample(shape=...)` must be {wanted}."
            )
        white = self.white(key, (*(int(n) for n in sizes), *self.batch_shape))
        return self.loc + jnp.sqrt(self.eta)[..., None] * self.omega.color(white)

    def entropy(self) -> Array:
        """Return the differential entropy -E[log p(x)], of shape (...)."""
        logdet = self.dim * jnp.log(self.eta) + self.omega.logdet()
        return jnp.broadcast_to(self.generator_entropy() + logdet / 2, self.batch_shape)

    def mahalanobis(self, x: ArrayLike) -> Array:
        """Return the radius of x, |omega.whiten(x - loc)| / sqrt(eta).

        This is the Mahalanobis distance for the dispersion eta omega. Divide it by
        sqrt(variance_factor()) for the distance for the covariance.

        Parameters
        ----------
        x : array of shape (..., d)

        Returns
        -------
        array of shape (...)
        """
        _, u, infinite = self._logdet_and_square(x, "mahalanobis")
        zero = u == 0  # where the derivative is given as zero
        return jnp.where(infinite, jnp.inf, jnp.sqrt(jnp.where(zero, 1, u)) * ~zero)

    def marginal_cdf(self, z: ArrayLike) -> np.ndarray:
        """Return P(x_j <= mean_j + z s_j), with standard deviations s_j.

        It is the same for each coordinate j. This and `marginal_quantile` need concrete values
        (no tracers) and compute in float64, with errors below 1e-6.

        Parameters
        ----------
        z : array of shape (..., *batch)
            In standard deviations.

        Returns
        -------
        NumPy array of shape (..., *batch)
        """
        return marginals.cdf(self.radius_distribution(), np.asarray(z, np.float64))

    def marginal_quantile(self, level: ArrayLike) -> np.ndarray:
        """Return the z with marginal_cdf(z) = level.

        Parameters
        ----------
        level : array of shape (..., *batch)
            Probabilities in (0, 1), which broadcast to the batch.

        Returns
        -------
        NumPy array of shape (..., *batch)
            In standard deviations from the mean.

        Examples
        --------
        >>> from mmlp import DiagonalGram, TraceOneGaussian
        >>> p = TraceOneGaussian(jnp.zeros(2), DiagonalGram.trace_one(jnp.ones(2)), 1.0)
        >>> print(f"{p.marginal_quantile(0.975):.4f}")
        1.9600
        """
        levels = np.asarray(level, np.float64)
        if not np.all((levels > 0) & (levels < 1)):
            name = f"{type(self).__name__}.marginal_quantile(level=...)"
            raise ValueError(f"`{name}` must lie between 0 and 1, got {level!r:.80}.")
        return marginals.quantile(self.radius_distribution(), levels)

    @classmethod
    def radius_law(cls, dim: int, *tail: ArrayLike) -> marginals.Radius:
        """Return the distribution of the radius in float64, for marginals and metrics.

        The default inverts `radius_cdf` by bisection. A family with closed forms overrides it.

        Parameters
        ----------
        dim : int
        *tail : arrays of shape (...)

        Returns
        -------
        marginals.Radius
        """
        ones = jnp.ones(dim)
        omega = DiagonalGram.trace_one(ones)
        return marginals.ByBisection(cls._construct(0 * ones, omega, 1.0, *tail))

    def radius_distribution(self) -> marginals.Radius:
        """Return the `radius_law` of this distribution, with its static fields.

        The default of `radius_law` calls the constructor, which would give static fields
        their defaults and apply converters once more. So here loc, omega and eta are replaced
        instead.
        """
        override = getattr(type(self).radius_law, "__func__", None)
        if override is not Elliptical.radius_law.__func__:
            return self.radius_law(self.dim, *self.tail)

        ones = jnp.ones(self.dim)
        tail = [jnp.asarray(x, ones.dtype) for x in self.tail]
        standard = (0 * ones, DiagonalGram.trace_one(ones), jnp.ones(()), *tail)
        return marginals.ByBisection(eqx.tree_at(_list_parameters, self, standard))

    def radius_quantile(self, level: float, dim: int | None = None) -> Array:
        """Return the radius of the ellipsoid that holds a probability, by bisection.

        Parameters
        ----------
        level : float
            A probability in (0, 1).
        dim : int, optional
            As in `radius_cdf`.

        Returns
        -------
        array of shape (...)
            inf where the radius is larger than all numbers of the dtype.

        Raises
        ------
        ValueError
            If the level is not between 0 and 1.
        """
        if not 0 < level < 1:
            name = f"{type(self).__name__}.radius_quantile(level=...)"
            raise ValueError(f"`{name}` must lie between 0 and 1, got {level!r}.")
        return self.radius_at(level, dim)

    def radius_at(self, level: ArrayLike, dim: int | None = None) -> Array:
        """Return `radius_quantile` for levels (..., *batch), which are not checked."""
        shapes = (x.shape for x in (jnp.asarray(level), self.eta, *self.tail))
        max_log_r = math.log(jnp.finfo(self.eta.dtype).max)
        low = jnp.full(
            jnp.broadcast_shapes(*shapes), -max_log_r, self.eta.dtype
        )  # of log r

        def halve(_, bounds):
            low, high = bounds
            middle = (low + high) / 2
            below = self.radius_cdf(jnp.exp(middle), dim) < level
            return jnp.where(below, middle, low), jnp.where(below, high, middle)

        low, high = lax.fori_loop(0, 64, halve, (low, -low))
        return jnp.where(high < max_log_r, jnp.exp((low + high) / 2), jnp.inf)

    def _logdet_and_square(self, x: ArrayLike, call: str) -> tuple[Array, Array, Array]:
        """log det omega, u of x, and whether x is infinite, where u is that of loc instead.

        In a dense solve infinities would meet, inf - inf.
        """
        x = jnp.asarray(x)
        if x.ndim == 0 or x.shape[-1] != self.dim:
            wanted = f"must have shape (..., {self.dim}), got shape {x.shape}"
            raise ValueError(f"`{type(self).__name__}.{call}(x=...)` {wanted}.")
        residual = x - self.loc
        infinite = jnp.any(jnp.isinf(residual), axis=-1) & ~jnp.any(
            jnp.isnan(residual), axis=-1
        )
        residual = jnp.where(infinite[..., None], 0, residual)
        logdet, y = self.omega.logdet_and_whiten(residual)
        return (
            logdet,
            jnp.sum((y / jnp.sqrt(self.eta)[..., None]) ** 2, axis=-1),
            infinite,
        )


def _list_parameters(distribution: Elliptical) -> tuple[Any, ...]:
    """Return loc, omega, eta and the tail."""
    return distribution.loc, distribution.omega, distribution.eta, *distribution.tail


def _bind_tail(
    family: str, names: tuple[str, ...], tail: tuple[Any, ...], named: dict[str, Any]
) -> dict[str, Any]:
    """Return the arguments of a tail by name, from positional and keyword arguments."""
    scalars = dict(zip(names, tail, strict=False))
    missing = set(names) - scalars.keys() - named.keys()
    unknown = (named.keys() - set(names)) | (named.keys() & scalars.keys())
    if len(tail) > len(names) or missing or unknown:
        wanted = ", ".join(("loc", "omega", "eta", *names))
        given = [f"{3 + len(tail)} positional arguments", *named]
        raise TypeError(f"`{family}(...)` takes {wanted}, got {', '.join(given)}.")
    return {name: named.get(name, scalars.get(name)) for name in names}


def parameters(name: str, loc: ArrayLike, omega: SPD, **scalars: ArrayLike):
    """loc, omega, and the scalars as arrays, checked where they are concrete."""
    loc = jnp.asarray(check_floats(loc, f"{name}(loc=...)", "(..., d)", ndim=1))
    if not isinstance(omega, SPD):
        got = f"got {type(omega).__name__}; use `Gram.from_dense`"
        wanted = "must be an SPD value such as Gram or DiagonalGram"
        raise ValueError(f"`{name}(omega=...)` {wanted}, {got}.")
    if loc.shape[-1] != omega.dim:
        wanted = f"must have shape (..., {omega.dim}) to fit omega"
        raise ValueError(f"`{name}(loc=...)` {wanted}, got shape {loc.shape}.")
    check_trace_one(omega, f"{name}(omega=...)")
    values = [
        check_positive(x, f"{name}({key}=...)", loc.dtype) for key, x in scalars.items()
    ]
    try:
        jnp.broadcast_shapes(
            loc.shape[:-1], omega.batch_shape, *(x.shape for x in values)
        )
    except ValueError:
        shapes = [f"{key} {x.shape}" for key, x in zip(scalars, values, strict=True)]
        batches = (
            f"loc {loc.shape[:-1]}, omega {omega.batch_shape}, {', '.join(shapes)}"
        )
        raise ValueError(
            f"`{name}(...)` cannot broadcast batch dimensions {batches}."
        ) from None
    return loc, omega, *values
