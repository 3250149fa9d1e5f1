"""Heads: networks that return a distribution. The SPD value is read as Omega."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from mmlp.distributions import (
    TraceOneGaussian,
    TraceOnePowerExponential,
    TraceOneStudentT,
)
from mmlp.networks.layers import calibrated, variances
from mmlp.registry import register

START_ABOVE_DF_MIN = 8.0  # df - df_min of a Student t for an output of zero


class Head(eqx.Module):
    """x -> a distribution, from a network x -> ((mu, log eta, further numbers), Omega)."""

    distribution: ClassVar[Callable]
    extra: ClassVar[int]  # how many numbers it reads beyond mu
    reads: ClassVar[str]  # what it reads, for errors

    network: Callable  # x -> (vector, SPD), with `dim` and `out_features`

    def __init__(self, network: Callable):
        self.network, name = network, type(self).__name__
        dim, features = (
            getattr(network, "dim", None),
            getattr(network, "out_features", None),
        )
        if dim is None or features != dim + self.extra:
            wanted = f"dim + {self.extra}" + (
                "" if dim is None else f" = {dim + self.extra}"
            )
            raise ValueError(
                f"`{name}(network=...)` reads {self.reads} and needs a network with "
                f"out_features={wanted}, got {type(network).__name__} with out_features={features}."
            )

    @abstractmethod
    def tail(self, z: Array) -> tuple[Array, ...]:
        """The distribution's arguments after eta, from the `extra - 1` numbers after log eta."""

    @property
    def in_features(self) -> int | None:
        return getattr(self.network, "in_features", None)

    @property
    def dim(self) -> int:
        return self.network.dim  # pyright: ignore[reportFunctionMemberAccess]

    def __call__(self, x: Array) -> Any:
        vector, omega = self.network(x)
        mu, rest = vector[: -self.extra], vector[-self.extra :]
        return type(self).distribution(
            mu, omega, jnp.exp(rest[0]), *self.tail(rest[1:])
        )

    def probe(self, x: Array):
        return self(x)

    def calibrated(self, X: Array, *, key, targets: Array | None = None):
        """With targets (n', d), also about their mean and total variance, by `network.shifted`."""
        if targets is not None and not hasattr(self.network, "shifted"):
            wanted = "needs a network with a method `shifted(offset)`, which adds to its vector"
            got = f"got {type(self.network).__name__}"
            raise ValueError(f"`calibrate(targets=...)` {wanted}, {got}.")
        network = calibrated(self.network, X, key=key, targets=targets)
        if targets is not None:
            mean, rest = jnp.mean(targets, axis=0), jnp.zeros(self.extra, targets.dtype)
            log_eta = jnp.log(jnp.sum(variances(targets)))
            network = network.shifted(jnp.concatenate([mean, rest.at[0].set(log_eta)]))
        return eqx.tree_at(lambda m: m.network, self, network)


@register
class GaussianHead(Head):
    """x -> N(mu, eta Omega) for a network x -> ((mu, log eta), Omega), with `out_features` = d + 1.

    >>> from mmlp.networks import MatrixMLP
    >>> head = GaussianHead(MatrixMLP(3, 2, (4, 4), out_features=3, key=jax.random.key(0)))
    >>> head(jnp.ones(3)).sample(jax.random.key(1)).shape
    (2,)
    """

    extra, reads, distribution = 1, "(mu, log eta)", TraceOneGaussian

    def tail(self, z: Array) -> tuple[Array, ...]:
        return ()


@register
class PowerExponentialHead(Head):
    """x -> E(mu, Omega, eta, alpha, beta) for a network x -> ((mu, log eta, a, b), Omega).

        alpha = low + (high - low) sigmoid(a) for `alpha_bounds` = (low, high), beta likewise from b

    `out_features` = d + 3. The default bounds are the paper's: 0.5 + sigmoid.
    """

    extra, reads = 3, "(mu, log eta, alpha, beta)"
    distribution = TraceOnePowerExponential

    alpha_bounds: tuple[float, float] = eqx.field(static=True)
    beta_bounds: tuple[float, float] = eqx.field(static=True)

    def __init__(
        self,
        network: Callable,
        *,
        alpha_bounds: tuple[float, float] = (0.5, 1.5),
        beta_bounds: tuple[float, float] = (0.5, 1.5),
    ):
        super().__init__(network)
        self.alpha_bounds = _bounds(alpha_bounds, "alpha_bounds")
        self.beta_bounds = _bounds(beta_bounds, "beta_bounds")

    def tail(self, z: Array) -> tuple[Array, ...]:
        return _between(self.alpha_bounds, z[0]), _between(self.beta_bounds, z[1])


@register
class StudentTHead(Head):
    """x -> t(mu, Omega, eta, df) for a network x -> ((mu, log eta, z), Omega).

        df = df_min + 8 exp(z)

    The scale matrix is eta Omega. A network that returns z = 0 starts at df = df_min + 8,
    slightly heavier tails than a Gaussian's; a large z makes the distribution Gaussian.

    Parameters
    ----------
    network : callable
        x -> (vector, SPD), with `out_features` = d + 2.
    df_min : float, default=2.5
        Lower bound of df, at least 0. The covariance exists for df > 2 and tends to
        infinity as df tends to 2: with the default it is at most 5 eta Omega.

    Examples
    --------
    >>> from mmlp.networks import MatrixMLP
    >>> head = StudentTHead(MatrixMLP(3, 2, (4, 4), out_features=4, key=jax.random.key(0)))
    >>> head(jnp.ones(3)).sample(jax.random.key(1)).shape
    (2,)
    """

    extra, reads = 2, "(mu, log eta, log((df - df_min) / 8))"
    distribution = TraceOneStudentT

    df_min: float = eqx.field(static=True)

    def __init__(self, network: Callable, *, df_min: float = 2.5):
        super().__init__(network)
        if not 0 <= df_min < float("inf"):
            wanted = f"must be a finite number of at least 0, got {df_min!r}"
            raise ValueError(f"`StudentTHead(df_min=...)` {wanted}.")
        self.df_min = float(df_min)

    def tail(self, z: Array) -> tuple[Array, ...]:
        return (self.df_min + START_ABOVE_DF_MIN * jnp.exp(z[0]),)


def _between(bounds: tuple[float, float], z: Array) -> Array:
    low, high = bounds
    return low + (high - low) * jax.nn.sigmoid(z)


def _bounds(bounds, argument: str) -> tuple[float, float]:
    if len(bounds) != 2 or not 0 < bounds[0] < bounds[1] < float("inf"):
        wanted = f"(low, high) with 0 < low < high, got {bounds!r}"
        raise ValueError(f"`PowerExponentialHead({argument}=...)` must be {wanted}.")
    return float(bounds[0]), float(bounds[1])
