"""Heads: networks that return a distribution. They read the SPD value as Omega."""

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
from mmlp.networks.layers import calibrate_model, variances
from mmlp.registry import register

# df - df_min of a Student t distribution for a network output of zero.
START_ABOVE_DF_MIN = 8.0


class Head(eqx.Module):
    """The abstract base of heads, which map x to a distribution.

    They read a network x -> ((mu, log eta, further numbers), Omega). A subclass sets
    the class variables `distribution`, `extra` and `reads`, and provides `tail`.

    Parameters
    ----------
    network : callable
        x -> (vector, SPD), with attributes `dim` and `out_features`.

    Raises
    ------
    ValueError
        If `out_features` of the network is not `dim` plus `extra`.
    """

    distribution: ClassVar[Callable]
    extra: ClassVar[int]  # how many numbers the head reads beyond mu
    reads: ClassVar[str]  # names of the numbers, for errors

    network: Callable

    def __init__(self, network: Callable) -> None:
        self.network = network
        dim = getattr(network, "dim", None)
        features = getattr(network, "out_features", None)
        if dim is None or features != dim + self.extra:
            wanted = f"dim + {self.extra}"
            if dim is not None:
                wanted += f" = {dim + self.extra}"
            raise ValueError(
                f"`{type(self).__name__}(network=...)` reads {self.reads} and needs a "
                f"network with out_features={wanted}, "
                f"got {type(network).__name__} with out_features={features}."
            )

    @abstractmethod
    def tail(self, z: Array) -> tuple[Array, ...]:
        """Return the arguments of the distribution after eta.

        Parameters
        ----------
        z : array of shape (extra - 1,)
            The outputs of the network after log eta.

        Returns
        -------
        tuple of Array
        """

    @property
    def in_features(self) -> int | None:
        """The size of the input, if the network tells it."""
        return getattr(self.network, "in_features", None)

    @property
    def dim(self) -> int:
        """The size d of the distribution."""
        return self.network.dim  # pyright: ignore[reportFunctionMemberAccess]

    def __call__(self, x: Array) -> Any:
        """Return the distribution for one x (in_features,)."""
        vector, omega = self.network(x)
        mu = vector[: -self.extra]
        z = vector[-self.extra :]
        return type(self).distribution(mu, omega, jnp.exp(z[0]), *self.tail(z[1:]))

    def probe(self, x: Array) -> Any:
        """Map one sample, as `load` tries without computing.

        Parameters
        ----------
        x : array of shape (in_features,)

        Returns
        -------
        Elliptical
        """
        return self(x)

    def calibrated(self, X: Array, *, key: Array, targets: Array | None = None) -> Any:
        """Return this head with a calibrated network.

        Parameters
        ----------
        X : array of shape (n, in_features)
        key : PRNG key
        targets : array of shape (n', dim), optional
            The distribution starts at their mean and total variance, which are added by
            ``network.shifted``.

        Returns
        -------
        Head
            Of the same class.

        Raises
        ------
        ValueError
            If the network cannot be calibrated, or not shifted to the targets.
        """
        if targets is not None and not hasattr(self.network, "shifted"):
            raise ValueError(
                "`calibrate(targets=...)` needs a network with a method "
                "`shifted(offset)`, which adds to its vector, "
                f"got {type(self.network).__name__}."
            )
        network = calibrate_model(self.network, X, key=key, targets=targets)
        if targets is not None:
            mean = jnp.mean(targets, axis=0)
            log_eta = jnp.log(jnp.sum(variances(targets)))
            z = jnp.zeros(self.extra, targets.dtype).at[0].set(log_eta)
            network = network.shifted(jnp.concatenate([mean, z]))
        return eqx.tree_at(lambda m: m.network, self, network)


@register
class GaussianHead(Head):
    """A head x -> N(mu, eta Omega) for a network x -> ((mu, log eta), Omega).

    Parameters
    ----------
    network : callable
        x -> (vector, SPD), with `out_features` = d + 1.

    Raises
    ------
    ValueError
        If the network has another `out_features`.

    Examples
    --------
    >>> import jax
    >>> import jax.numpy as jnp
    >>> from mmlp import GaussianHead, MatrixMLP
    >>> network = MatrixMLP(3, 2, (4, 4), out_features=3, key=jax.random.key(0))
    >>> head = GaussianHead(network)
    >>> head(jnp.ones(3)).sample(jax.random.key(1)).shape
    (2,)
    """

    extra = 1
    reads = "(mu, log eta)"
    distribution = TraceOneGaussian

    def tail(self, z: Array) -> tuple[Array, ...]:
        return ()


@register
class PowerExponentialHead(Head):
    """A head x -> E(mu, Omega, eta, alpha, beta), the power exponential distribution.

    The network is x -> ((mu, log eta, a, b), Omega), and

        alpha = low + (high - low) sigmoid(a),   beta likewise from b

    Parameters
    ----------
    network : callable
        x -> (vector, SPD), with `out_features` = d + 3.
    alpha_bounds : tuple of two floats, default=(0.5, 1.5)
        (low, high) of alpha. The default is the paper's, 0.5 + sigmoid.
    beta_bounds : tuple of two floats, default=(0.5, 1.5)
        (low, high) of beta.

    Raises
    ------
    ValueError
        If the network has another `out_features`, or bounds are not 0 < low < high.

    Examples
    --------
    >>> import jax
    >>> import jax.numpy as jnp
    >>> from mmlp import MatrixMLP, PowerExponentialHead
    >>> network = MatrixMLP(3, 2, (4, 4), out_features=5, key=jax.random.key(0))
    >>> head = PowerExponentialHead(network)
    >>> head(jnp.ones(3)).sample(jax.random.key(1)).shape
    (2,)
    """

    extra = 3
    reads = "(mu, log eta, alpha, beta)"
    distribution = TraceOnePowerExponential

    alpha_bounds: tuple[float, float] = eqx.field(static=True)
    beta_bounds: tuple[float, float] = eqx.field(static=True)

    def __init__(
        self,
        network: Callable,
        *,
        alpha_bounds: tuple[float, float] = (0.5, 1.5),
        beta_bounds: tuple[float, float] = (0.5, 1.5),
    ) -> None:
        super().__init__(network)
        self.alpha_bounds = _check_bounds(alpha_bounds, "alpha_bounds")
        self.beta_bounds = _check_bounds(beta_bounds, "beta_bounds")

    def tail(self, z: Array) -> tuple[Array, ...]:
        alpha = _map_between(self.alpha_bounds, z[0])
        beta = _map_between(self.beta_bounds, z[1])
        return alpha, beta


@register
class StudentTHead(Head):
    """A head x -> t(mu, Omega, eta, df) for a network x -> ((mu, log eta, z), Omega).

        df = df_min + 8 exp(z)

    The scale matrix is eta Omega. A network that returns z = 0 starts at df = df_min +
    8, slightly heavier tails than a Gaussian's; a large z makes the distribution
    Gaussian.

    Parameters
    ----------
    network : callable
        x -> (vector, SPD), with `out_features` = d + 2.
    df_min : float, default=2.5
        Lower bound of df, at least 0. The covariance exists for df > 2 and tends to
        infinity as df tends to 2: with the default it is at most 5 eta Omega.

    Raises
    ------
    ValueError
        If the network has another `out_features`, or `df_min` is negative or infinite.

    Examples
    --------
    >>> import jax
    >>> import jax.numpy as jnp
    >>> from mmlp import MatrixMLP, StudentTHead
    >>> network = MatrixMLP(3, 2, (4, 4), out_features=4, key=jax.random.key(0))
    >>> head = StudentTHead(network)
    >>> head(jnp.ones(3)).sample(jax.random.key(1)).shape
    (2,)
    """

    extra = 2
    reads = "(mu, log eta, log((df - df_min) / 8))"
    distribution = TraceOneStudentT

    df_min: float = eqx.field(static=True)

    def __init__(self, network: Callable, *, df_min: float = 2.5) -> None:
        super().__init__(network)
        if not 0 <= df_min < float("inf"):
            raise ValueError(
                "`StudentTHead(df_min=...)` must be a finite number of at least 0, "
                f"got {df_min!r}."
            )
        self.df_min = float(df_min)

    def tail(self, z: Array) -> tuple[Array, ...]:
        return (self.df_min + START_ABOVE_DF_MIN * jnp.exp(z[0]),)


def _map_between(bounds: tuple[float, float], z: Array) -> Array:
    """Map real numbers into an interval by a sigmoid."""
    low, high = bounds
    return low + (high - low) * jax.nn.sigmoid(z)


def _check_bounds(bounds: Any, argument: str) -> tuple[float, float]:
    """Return (low, high) as floats, if 0 < low < high."""
    if len(bounds) != 2 or not 0 < bounds[0] < bounds[1] < float("inf"):
        raise ValueError(
            f"`PowerExponentialHead({argument}=...)` must be (low, high) with "
            f"0 < low < high, got {bounds!r}."
        )
    return float(bounds[0]), float(bounds[1])
