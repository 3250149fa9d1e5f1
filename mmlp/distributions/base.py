"""`Elliptical`, the abstract base class of the distributions.

    x = loc + sqrt(eta) omega.color(r v),   v uniform on the unit sphere, radius r >= 0
    log p(x) = g(u) - log det(eta omega) / 2,  u = |omega.whiten(x - loc)|^2 / eta = r^2

The dispersion omega has trace one. A family defines the distribution of the radius r;
everything else follows from it.
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

# Each bisection step halves an interval of log radii that covers every float.
BISECTION_STEPS = 64


class Elliptical(Batched):
    """Abstract base class of distributions with a dispersion matrix of trace one.

    A member has a location `loc`, a dispersion `omega` of trace one, a scale `eta` and
    a `tail`, the parameters that only its family has.

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
        The scale, positive.
    *tail : arrays of shape (...)
        The fields that the family adds, positive.
    **named : arrays of shape (...)
        Fields of the tail that are passed by name.

    Raises
    ------
    ValueError
        If a concrete parameter has the wrong shape or dtype, is not finite, or is not
        positive where it must be, if omega does not have trace one, or if the batch
        dimensions do not broadcast.
    TypeError
        If a parameter of the tail is missing or unknown.

    Examples
    --------
    Every family has the same methods:

    >>> from mmlp import Gram, TraceOneStudentT
    >>> omega = Gram.trace_one(jnp.array([[1.0, 0.5], [0.0, 1.0]]))
    >>> p = TraceOneStudentT(jnp.zeros(2), omega, eta=2.0, df=5.0)
    >>> x = p.sample(jax.random.key(0), 100)
    >>> p.log_prob(x).shape, p.covariance.shape
    ((100,), (2, 2))
    """

    loc: Array
    omega: SPD
    eta: Array

    def __init__(
        self, loc: ArrayLike, omega: SPD, eta: ArrayLike, *tail: Any, **named: Any
    ):
        name = type(self).__name__
        tail_by_name = _bind_tail(name, self.tail_names(), tail, named)
        scalars = {"eta": eta, **tail_by_name}
        self.loc, self.omega, values = _check_parameters(name, loc, omega, scalars)
        for field, value in values.items():
            setattr(self, field, value)

    @classmethod
    def tail_names(cls) -> tuple[str, ...]:
        """Return the names of the fields beyond loc, omega and eta.

        Returns
        -------
        tuple of str
            In the order of the constructor's arguments, without static fields.
        """
        return tuple(
            field.name
            for field in dataclasses.fields(cls)
            if field.name not in ("loc", "omega", "eta")
            and not field.metadata.get("static", False)
        )

    @property
    def tail(self) -> tuple[Array, ...]:
        """The parameters beyond loc, omega and eta, each of shape (...)."""
        return tuple(getattr(self, name) for name in self.tail_names())

    @classmethod
    def average_tails(cls, *tails: Any, axis: int) -> tuple[Any, ...]:
        """Average the tails of several models along an axis.

        The default is the arithmetic mean of each parameter. A family overrides it if
        another mean is more sensible.

        Parameters
        ----------
        *tails : arrays
            One for each parameter of the tail, with one entry per model along `axis`.
        axis : int
            The axis of the models.

        Returns
        -------
        tuple of arrays
            One for each parameter of the tail, without that axis.
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
            The log density.
        """

    @abc.abstractmethod
    def white(self, key: Array, batch: tuple[int, ...]) -> Array:
        """Draw r v, with a random radius r and a uniform direction v.

        Parameters
        ----------
        key : JAX random key
            The source of randomness.
        batch : tuple of int
            The shape of the sample. It ends with the batch shape of the distribution.

        Returns
        -------
        array of shape (*batch, d)
            The draws.
        """

    def numpy_white(
        self, rng: np.random.Generator, batch: tuple[int, ...]
    ) -> np.ndarray:
        """Draw r v as `white` does, in float64.

        A family that overrides this method with NumPy's generators saves the scores a
        compilation.

        Parameters
        ----------
        rng : numpy.random.Generator
            The source of randomness.
        batch : tuple of int
            The shape of the sample. It ends with the batch shape of the distribution.

        Returns
        -------
        NumPy array of shape (*batch, d)
            The draws.
        """
        key = jax.random.key(rng.integers(2**32))
        return np.asarray(self.white(key, batch), np.float64)

    @abc.abstractmethod
    def radius_cdf(self, r: ArrayLike, dim: int | None = None) -> Array:
        """Return P(radius <= r).

        Parameters
        ----------
        r : array of shape (...)
            Radii, not negative.
        dim : int, optional
            The number of dimensions, by default d. In `dim` dimensions, the radius is
            that of the member of this family with the same tail.

        Returns
        -------
        array of shape (...)
            The probabilities.
        """

    @abc.abstractmethod
    def variance_factor(self, dim: int | None = None) -> Array:
        """Return E[r^2] / d, so that the covariance is variance_factor() eta omega.

        Parameters
        ----------
        dim : int, optional
            The number of dimensions, as in `radius_cdf`.

        Returns
        -------
        array of shape (...)
            The factor, inf where there is no finite covariance.
        """

    @abc.abstractmethod
    def generator_entropy(self) -> Array:
        """Return -E[g(r^2)], the entropy of a standard member (loc 0, eta omega = I).

        Returns
        -------
        array of shape (...)
            The entropy in nats.
        """

    @classmethod
    def from_moments(cls, mean: ArrayLike, covariance: SPD, *tail: ArrayLike) -> Self:
        """Return the member of this family with this mean, covariance and tail.

        Parameters
        ----------
        mean : array of shape (..., d)
            The mean.
        covariance : SPD of shape (..., d, d)
            The covariance, of any trace.
        *tail : arrays of shape (...)
            The parameters beyond loc, omega and eta.

        Returns
        -------
        Elliptical
            A distribution of the class that the method is called on.

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
        with_unit_scale = cls._construct(mean, omega, jnp.ones_like(trace), *tail)
        with_unit_scale._check_variance("from_moments")
        eta = trace / with_unit_scale.variance_factor()
        return cls._construct(mean, omega, eta, *tail)

    @classmethod
    def _construct(cls, *arguments: Any) -> Self:
        """Call the constructor with loc, omega, eta and the tail, by position."""
        try:
            inspect.signature(cls).bind(*arguments)
        except TypeError as error:
            tail_names = cls.tail_names()
            n_tail_arguments = len(arguments) - 3
            if n_tail_arguments != len(tail_names):
                expected = ", ".join(tail_names) or "no parameters"
                raise TypeError(
                    f"`{cls.__name__}` has {expected} beyond its mean and covariance, "
                    f"got {n_tail_arguments} arguments for that."
                ) from None
            raise TypeError(
                f"the constructor of `{cls.__name__}` must take loc, omega, eta and "
                f"the parameters of its tail (here {n_tail_arguments}) as positional "
                f"arguments: {error}; declare them as fields and leave out `__init__`, "
                "or change its signature."
            ) from None

        # The signature of a subclass is not known to type checkers.
        family: Any = cls
        return family(*arguments)

    def _check_variance(self, call: str) -> None:
        """Raise a ValueError if a concrete tail has no finite covariance."""
        factor = self.variance_factor()
        if isinstance(factor, Tracer):
            return

        factor = np.asarray(factor)
        if not np.all(np.isfinite(factor)):
            tail = " and ".join(self.tail_names())
            raise ValueError(
                f"`{type(self).__name__}.{call}`: with this {tail} there is no finite "
                f"covariance (`variance_factor()` is {np.max(factor)}); change {tail}, "
                "or use the dispersion, `eta` times `omega`."
            )

    @property
    def dim(self) -> int:
        """The number of dimensions d."""
        return self.omega.dim

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The common shape (...) of the parameters, without the dimension d."""
        scalar_shapes = [x.shape for x in (self.eta, *self.tail)]
        return jnp.broadcast_shapes(
            self.loc.shape[:-1], self.omega.batch_shape, *scalar_shapes
        )

    def __getitem__(self, index) -> Self:
        """Return the distributions at an index of the batch dimensions.

        A parameter that the whole batch shares stays shared.

        Parameters
        ----------
        index : int, slice, array, Ellipsis, None or tuple of them
            As for a NumPy array of shape `batch_shape`.

        Returns
        -------
        Elliptical
            Of the same class.
        """
        place = self._complete_index(index)
        batch_shape = self.batch_shape

        def select(x: Array, leading_shape: tuple[int, ...]) -> Array:
            """Index the leading dimensions of x, unless they are all of length one."""
            trailing_shape = x.shape[len(leading_shape) :]
            if leading_shape != batch_shape and math.prod(leading_shape) == 1:
                return x.reshape(trailing_shape)
            return jnp.broadcast_to(x, batch_shape + trailing_shape)[place]

        loc = select(self.loc, self.loc.shape[:-1])
        tail = [select(x, x.shape) for x in self.tail]

        # eta always gets the whole batch shape: no other parameter need have it.
        eta = jnp.broadcast_to(self.eta, batch_shape)[place]

        omega_shape = self.omega.batch_shape
        if omega_shape == batch_shape:
            omega = self.omega[place]
        else:
            omega = jax.tree.map(lambda x: select(x, omega_shape), self.omega)
        return eqx.tree_at(_list_parameters, self, (loc, omega, eta, *tail))

    @property
    def mean(self) -> Array:
        """The location, of shape (..., d)."""
        return jnp.broadcast_to(self.loc, (*self.batch_shape, self.dim))

    @property
    def covariance(self) -> SPD:
        """The covariance, variance_factor() eta omega, an SPD value.

        Raises a ValueError where it is infinite.
        """
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
            The log density, -inf where x is infinite.

        Raises
        ------
        ValueError
            If the last dimension of x is not d.
        """
        logdet, u, infinite = self._logdet_and_square(x, "log_prob")
        value = self.log_generator(u) - (self.dim * jnp.log(self.eta) + logdet) / 2
        # A value that is NaN comes from a parameter that is NaN, and stays visible.
        return jnp.where(infinite & ~jnp.isnan(value), -jnp.inf, value)

    def sample(self, key: Array, shape: int | tuple[int, ...] = ()) -> Array:
        """Draw samples, which are differentiable with respect to every parameter.

        Parameters
        ----------
        key : JAX random key
            The source of randomness.
        shape : int or tuple of int, default=()
            The shape of the sample; n is short for (n,).

        Returns
        -------
        array of shape (*shape, ..., d)
            The draws.

        Raises
        ------
        ValueError
            If the shape is not made of whole numbers of at least 0.
        """
        sizes = shape if isinstance(shape, tuple | list) else (shape,)
        if not all(isinstance(n, int | np.integer) and n >= 0 for n in sizes):
            raise ValueError(
                f"`{type(self).__name__}.sample(shape=...)` must be a whole number or "
                f"a tuple of them, got {shape!r}."
            )
        sample_shape = tuple(int(n) for n in sizes)
        white = self.white(key, (*sample_shape, *self.batch_shape))
        return self.loc + jnp.sqrt(self.eta)[..., None] * self.omega.color(white)

    def entropy(self) -> Array:
        """Return the differential entropy -E[log p(x)].

        Returns
        -------
        array of shape (...)
            The entropy in nats.
        """
        logdet = self.dim * jnp.log(self.eta) + self.omega.logdet()
        return jnp.broadcast_to(self.generator_entropy() + logdet / 2, self.batch_shape)

    def mahalanobis(self, x: ArrayLike) -> Array:
        """Return the radius of x, |omega.whiten(x - loc)| / sqrt(eta).

        This is the Mahalanobis distance for the dispersion eta omega. Divide it by
        sqrt(variance_factor()) for the distance for the covariance.

        Parameters
        ----------
        x : array of shape (..., d)
            Leading dimensions broadcast with the batch.

        Returns
        -------
        array of shape (...)
            The radius, inf where x is infinite.

        Raises
        ------
        ValueError
            If the last dimension of x is not d.
        """
        _, u, infinite = self._logdet_and_square(x, "mahalanobis")
        # The square root has no derivative at zero; it is defined as zero there.
        zero = u == 0
        return jnp.where(infinite, jnp.inf, jnp.sqrt(jnp.where(zero, 1, u)) * ~zero)

    def marginal_cdf(self, z: ArrayLike) -> np.ndarray:
        """Return P(x_j <= mean_j + z s_j), where s_j is the standard deviation of x_j.

        It is the same for each coordinate j. This method and `marginal_quantile` need
        concrete values (no tracers) and compute in float64, with errors below 1e-6.

        Parameters
        ----------
        z : array of shape (..., *batch)
            In standard deviations.

        Returns
        -------
        NumPy array of shape (..., *batch)
            The probabilities.
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

        Raises
        ------
        ValueError
            If a level is not between 0 and 1.

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

        The default inverts `radius_cdf` by bisection. A family with closed forms
        overrides it.

        Parameters
        ----------
        dim : int
            The number of dimensions.
        *tail : arrays of shape (...)
            The parameters beyond loc, omega and eta.

        Returns
        -------
        mmlp.distributions.marginals.Radius
            The distribution of the radius.
        """
        ones = jnp.ones(dim)
        omega = DiagonalGram.trace_one(ones)
        standard = cls._construct(0 * ones, omega, 1.0, *tail)
        return marginals.BisectionRadius(standard)

    def radius_distribution(self) -> marginals.Radius:
        """Return the `radius_law` of this distribution, with its static fields.

        The default of `radius_law` calls the constructor, which would give static
        fields their defaults and apply converters once more. This method replaces loc,
        omega and eta of the existing object instead.

        Returns
        -------
        mmlp.distributions.marginals.Radius
            The distribution of the radius.
        """
        override = getattr(type(self).radius_law, "__func__", None)
        if override is not Elliptical.radius_law.__func__:
            return self.radius_law(self.dim, *self.tail)

        ones = jnp.ones(self.dim)
        omega = DiagonalGram.trace_one(ones)
        tail = [jnp.asarray(x, ones.dtype) for x in self.tail]
        parameters = (0 * ones, omega, jnp.ones(()), *tail)
        standard = eqx.tree_at(_list_parameters, self, parameters)
        return marginals.BisectionRadius(standard)

    def radius_quantile(self, level: float, dim: int | None = None) -> Array:
        """Return the radius of the ellipsoid that holds a given probability.

        The radius is found by bisection of `radius_cdf`.

        Parameters
        ----------
        level : float
            A probability in (0, 1).
        dim : int, optional
            The number of dimensions, as in `radius_cdf`.

        Returns
        -------
        array of shape (...)
            The radius, inf where it is larger than all numbers of the dtype.

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
        """Return `radius_quantile` for an array of levels, which are not checked.

        Parameters
        ----------
        level : array of shape (..., *batch)
            Probabilities in (0, 1).
        dim : int, optional
            The number of dimensions, as in `radius_cdf`.

        Returns
        -------
        array of shape (..., *batch)
            The radii, inf where they are larger than all numbers of the dtype.
        """
        dtype = self.eta.dtype
        shapes = [x.shape for x in (jnp.asarray(level), self.eta, *self.tail)]
        max_log_r = math.log(jnp.finfo(dtype).max)
        low = jnp.full(jnp.broadcast_shapes(*shapes), -max_log_r, dtype)
        high = -low

        def halve(_, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
            """Halve an interval of log radii that contains the quantile."""
            low, high = bounds
            middle = (low + high) / 2
            below = self.radius_cdf(jnp.exp(middle), dim) < level
            return jnp.where(below, middle, low), jnp.where(below, high, middle)

        low, high = lax.fori_loop(0, BISECTION_STEPS, halve, (low, high))
        return jnp.where(high < max_log_r, jnp.exp((low + high) / 2), jnp.inf)

    def _logdet_and_square(self, x: ArrayLike, call: str) -> tuple[Array, Array, Array]:
        """Return log det omega, the square u of x, and whether x is infinite.

        Where x is infinite, u is that of loc instead: in a dense solve infinities would
        meet and give NaN.
        """
        x = jnp.asarray(x)
        if x.ndim == 0 or x.shape[-1] != self.dim:
            raise ValueError(
                f"`{type(self).__name__}.{call}(x=...)` must have shape "
                f"(..., {self.dim}), got shape {x.shape}."
            )

        residual = x - self.loc
        has_inf = jnp.any(jnp.isinf(residual), axis=-1)
        has_nan = jnp.any(jnp.isnan(residual), axis=-1)
        infinite = has_inf & ~has_nan
        residual = jnp.where(infinite[..., None], 0, residual)

        logdet, y = self.omega.logdet_and_whiten(residual)
        u = jnp.sum((y / jnp.sqrt(self.eta)[..., None]) ** 2, axis=-1)
        return logdet, u, infinite


def _list_parameters(distribution: Elliptical) -> tuple[Any, ...]:
    """Return loc, omega, eta and the tail."""
    return distribution.loc, distribution.omega, distribution.eta, *distribution.tail


def _bind_tail(
    family: str, names: tuple[str, ...], tail: tuple[Any, ...], named: dict[str, Any]
) -> dict[str, Any]:
    """Return the arguments of a tail by name, from positional and keyword arguments."""
    positional = dict(zip(names, tail, strict=False))
    missing = set(names) - positional.keys() - named.keys()
    unknown = named.keys() - set(names)
    repeated = named.keys() & positional.keys()
    if len(tail) > len(names) or missing or unknown or repeated:
        expected = ", ".join(("loc", "omega", "eta", *names))
        got = ", ".join([f"{3 + len(tail)} positional arguments", *named])
        raise TypeError(f"`{family}(...)` takes {expected}, got {got}.")
    arguments = positional | named
    return {name: arguments[name] for name in names}


def _check_parameters(
    name: str, loc: ArrayLike, omega: SPD, scalars: dict[str, ArrayLike]
) -> tuple[Array, SPD, dict[str, Array]]:
    """Return loc, omega and the scalars as arrays, checked where they are concrete."""
    loc = jnp.asarray(check_floats(loc, f"{name}(loc=...)", "(..., d)", ndim=1))
    if not isinstance(omega, SPD):
        raise ValueError(
            f"`{name}(omega=...)` must be an SPD value such as Gram or DiagonalGram, "
            f"got {type(omega).__name__}; use `Gram.from_dense`."
        )
    if loc.shape[-1] != omega.dim:
        raise ValueError(
            f"`{name}(loc=...)` must have shape (..., {omega.dim}) to fit omega, "
            f"got shape {loc.shape}."
        )
    check_trace_one(omega, f"{name}(omega=...)")
    values = {
        argument: check_positive(value, f"{name}({argument}=...)", loc.dtype)
        for argument, value in scalars.items()
    }

    scalar_shapes = {argument: value.shape for argument, value in values.items()}
    batch_shapes = {
        "loc": loc.shape[:-1],
        "omega": omega.batch_shape,
        **scalar_shapes,
    }
    try:
        jnp.broadcast_shapes(*batch_shapes.values())
    except ValueError:
        shapes = ", ".join(f"{key} {shape}" for key, shape in batch_shapes.items())
        raise ValueError(
            f"`{name}(...)` cannot broadcast batch dimensions {shapes}."
        ) from None
    return loc, omega, values
