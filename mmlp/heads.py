"""Networks that return a distribution: the vector output is read as (mu, log eta[, alpha, beta]), the Gram as Omega."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from mmlp.distributions import TraceOneGaussian, TraceOnePowerExponential
from mmlp.spd import SPD

# a `MatrixMLP` or `CholeskyMLP` with `out_features`, or one's own
Network = Callable[[Array], tuple[Array, SPD]]


class GaussianHead(eqx.Module):
    """x -> N(mu, eta Omega) for a network x -> ((mu, log eta), Omega), with `out_features` = d + 1.

    >>> from mmlp.networks.core import MatrixMLP
    >>> head = GaussianHead(MatrixMLP(3, 2, (4, 4), out_features=3, key=jax.random.key(0)))
    >>> head(jnp.ones(3)).sample(jax.random.key(1)).shape
    (2,)
    """

    network: Network

    def __init__(self, network: Network):
        _check_features(network, 1, "GaussianHead", "(mu, log eta)")
        self.network = network

    @property
    def in_features(self) -> int | None:
        return getattr(self.network, "in_features", None)

    @property
    def dim(self) -> int:
        return self.network.dim

    def __call__(self, x: Array) -> TraceOneGaussian:
        vector, omega = self.network(x)
        mu, log_eta = vector[:-1], vector[-1]
        return TraceOneGaussian(mu, omega, jnp.exp(log_eta))


class PowerExponentialHead(eqx.Module):
    """x -> E(mu, Omega, eta, alpha, beta) for a network x -> ((mu, log eta, a, b), Omega), `out_features` = d + 3.

        alpha = low + (high - low) sigmoid(a) for `alpha_bounds` = (low, high), and beta likewise from b

    The default bounds are the paper's: 0.5 + sigmoid. The call maps one x; a batch is `jax.vmap(head)(X)`.
    """

    network: Network
    alpha_bounds: tuple[float, float] = eqx.field(static=True)
    beta_bounds: tuple[float, float] = eqx.field(static=True)

    def __init__(
        self,
        network: Network,
        *,
        alpha_bounds: tuple[float, float] = (0.5, 1.5),
        beta_bounds: tuple[float, float] = (0.5, 1.5),
    ):
        _check_features(network, 3, "PowerExponentialHead", "(mu, log eta, alpha, beta)")
        self.network = network
        self.alpha_bounds = _bounds(alpha_bounds, "alpha_bounds")
        self.beta_bounds = _bounds(beta_bounds, "beta_bounds")

    @property
    def in_features(self) -> int | None:
        return getattr(self.network, "in_features", None)

    @property
    def dim(self) -> int:
        return self.network.dim

    def __call__(self, x: Array) -> TraceOnePowerExponential:
        vector, omega = self.network(x)
        mu, log_eta, a, b = vector[:-3], vector[-3], vector[-2], vector[-1]
        alpha, beta = _between(self.alpha_bounds, a), _between(self.beta_bounds, b)
        return TraceOnePowerExponential(mu, omega, jnp.exp(log_eta), alpha, beta)


def _between(bounds: tuple[float, float], z: Array) -> Array:
    low, high = bounds
    return low + (high - low) * jax.nn.sigmoid(z)


def _bounds(bounds, argument: str) -> tuple[float, float]:
    if len(bounds) != 2 or not 0 < bounds[0] < bounds[1] < float("inf"):
        raise ValueError(
            f"`PowerExponentialHead({argument}=...)` must be (low, high) with 0 < low < high, got {bounds!r}."
        )
    return float(bounds[0]), float(bounds[1])


def _check_features(network, extra: int, name: str, layout: str) -> None:
    """`out_features` must be `dim + extra`; any network that has the two attributes will do."""
    dim, features = getattr(network, "dim", None), getattr(network, "out_features", None)
    if dim is None or features != dim + extra:
        wanted = f"dim + {extra}" if dim is None else f"dim + {extra} = {dim + extra}"
        raise ValueError(
            f"`{name}(network=...)` reads {layout} and needs a network with out_features={wanted}, got "
            f"{type(network).__name__} with out_features={features}."
        )
