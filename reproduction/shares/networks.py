"""Networks that correct an estimate of covariance, all in the same place.

The baseline is S = LL'. A network reads features of past returns and predicts
N(0, eta M), M near I (`Residual`), for L^-1 r, the returns along the principal axes of
S. The forecast is eta L M L', the mean of several networks. Covariances S = T'T are
represented by factors T.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from mmlp.distributions import TraceOneGaussian
from mmlp.networks import (
    CholeskyMLP,
    Dense,
    JointMatrixMLP,
    LowRank,
    MatrixMLP,
    Triangular,
)
from mmlp.networks.calibration import calibrate
from mmlp.spd import SPD, DiagonalGram
from mmlp.training import default_optimizer, fit_many
from reproduction.shares.market import WARMUP_DAYS, principal_root

# Kinds of networks.
MATRIX = "matrix MLP"
CHOLESKY = "Cholesky MLP"
JOINT = "joint matrix MLP"
DENSE = "joint matrix MLP, dense"
LOW_RANK = "joint matrix MLP, low rank"

# Horizons in months.
HORIZONS = {"month": 1, "year": 12}

# The learning rate of a choice is a multiple of this one, so that all choices share a
# compiled program.
BASE_LEARNING_RATE = 0.003

# Standardised features are clipped here, because a crash is far from all past days.
MAX_STANDARDISED_FEATURE = 2.5


class Choice(NamedTuple):
    """What is tuned in a network.

    Parameters
    ----------
    strength : float
        The network's part of the residual covariance; the rest is the identity.
    start : float
        Scale of the last layer's weights before training.
    rate : float
        The learning rate.
    sizes : tuple of three ints
        Size of the hidden matrix, width of the hidden vector, and rank of a low-rank
        output.
    """

    strength: float
    start: float
    rate: float
    sizes: tuple[int, int, int]


SMALL = (10, 20, 2)
LARGE = (20, 40, 5)

# Trials of each network, on 1997 to 2004, by reproduction/searches/shares.py.
N_TRIALS = {"month": 12, "year": 20}

# The best choices, by horizon and kind.
BEST_CHOICES = {
    "month": {
        CHOLESKY: Choice(0.2, 0.1, 0.003, LARGE),
        MATRIX: Choice(0.5, 0.1, 0.003, SMALL),
        JOINT: Choice(0.2, 0.1, 0.001, SMALL),
        DENSE: Choice(0.2, 0.1, 0.001, SMALL),
        LOW_RANK: Choice(0.2, 0.1, 0.001, SMALL),
    },
    "year": {
        CHOLESKY: Choice(0.5, 0.01, 0.00003, LARGE),
        MATRIX: Choice(0.2, 0.1, 0.0001, SMALL),
        JOINT: Choice(0.2, 0.01, 0.00003, SMALL),
        DENSE: Choice(0.2, 0.01, 0.00003, SMALL),
        LOW_RANK: Choice(0.2, 0.01, 0.00003, SMALL),
    },
}


class Residual(eqx.Module):
    """A map from features to N(0, eta M), with a covariance near the identity.

        M = (1 - strength) I + strength d Omega

    Parameters
    ----------
    network : callable
        From features to (log eta, Omega).
    strength : float
        Not trained. It is an array, not a part of the program, so that one program
        serves all strengths.
    """

    network: Callable
    strength: Any

    def __call__(self, x: Array) -> TraceOneGaussian:
        (log_eta,), omega = self.network(x)
        d = omega.dim
        strength = jax.lax.stop_gradient(self.strength)
        identity = DiagonalGram(jnp.full(d, ((1 - strength) / d) ** 0.5))
        mixed = identity + omega.scaled(strength)
        return TraceOneGaussian(jnp.zeros(d), mixed, d * jnp.exp(log_eta))


def negative_log_likelihood(
    model: Residual, batch: tuple[Array, Array], key: Array, t: Array
) -> Array:
    """Return the loss: minus the mean log density of a batch of features and days."""
    return -jnp.mean(jax.vmap(lambda x, Y: model(x).log_prob(Y))(*batch))


def make_network(
    kind: str, p: int, d: int, sizes: tuple[int, int, int], key: Array
) -> Any:
    """Return a network with initial weights, for p features and d shares."""
    hidden_dim, hidden_features, rank = sizes
    if kind == CHOLESKY:
        return CholeskyMLP(p, d, (hidden_features,), 1, key=key)
    network = MatrixMLP if kind == MATRIX else JointMatrixMLP
    if kind == JOINT:
        output = Triangular()
    elif kind == LOW_RANK:
        output = LowRank(min(rank, d - 1))
    else:
        output = Dense()
    return network(p, d, (hidden_dim,), 1, (hidden_features,), output=output, key=key)


def last_layer_of(kind: str) -> Callable[[Any], tuple]:
    """Return a function that selects the weights of the vector's last layer.

    In a Cholesky MLP this layer gives the matrix, too.
    """
    if kind == CHOLESKY:
        return lambda network: (network.perceptron.W[-1], network.perceptron.b[-1])
    names = "Cb" if kind == MATRIX else "CbD"
    return lambda network: tuple(getattr(network.vectors[-1], name) for name in names)


@eqx.filter_jit
def make_calibrated_networks(
    kind: str, keys: Array, X: Array, Y: Array, sizes: tuple[int, int, int]
) -> Any:
    """Return calibrated networks, one for each key."""

    def make(key: Array) -> Any:
        network_key, calibration_key = jax.random.split(key)
        network = make_network(kind, X.shape[1], Y.shape[1], sizes, network_key)
        return calibrate(network, X, key=calibration_key, targets=Y)

    return eqx.filter_vmap(make)(keys)


def make_models(kind: str, keys: Array, X: Array, Y: Array, choice: Choice) -> Residual:
    """Return models, one for each key, that start close to the baseline.

    Parameters
    ----------
    kind : str
        The kind of network.
    keys : JAX random keys of shape (models,)
    X : array of shape (n, p)
        Features.
    Y : array of shape (n, days, d)
        Days in the baseline's principal coordinates.
    choice : Choice

    Returns
    -------
    Residual
        With the models along the first axis.
    """
    networks = make_calibrated_networks(
        kind, keys, X, Y.reshape(-1, Y.shape[-1]), choice.sizes
    )
    # With a small last layer the network starts as the baseline.
    networks = eqx.tree_at(
        last_layer_of(kind), networks, replace_fn=lambda W: choice.start * W
    )
    return Residual(networks, jnp.full(len(keys), choice.strength))


@eqx.filter_jit
def predict_residuals(models: Residual, X: Array) -> SPD:
    """Return covariances (models, n, d, d) in the baseline's principal coordinates."""
    return eqx.filter_vmap(lambda model: jax.vmap(lambda x: model(x).covariance)(X))(
        models
    )


class Past(NamedTuple):
    """What a network learns from and corrects; entry t is from the days before t.

    Parameters
    ----------
    returns : array of shape (n, d)
    features : array of shape (n + 1, p)
    base : array of shape (n + 1, d, d)
        The baseline.
    days : int
        The length of the windows to forecast.
    """

    returns: np.ndarray
    features: np.ndarray
    base: np.ndarray
    days: int


def reduce_days(Y: np.ndarray) -> np.ndarray:
    """Return d vectors (..., d, d) with the same mean of yy' as more days Y.

    Their mean log density is the same.
    """
    n, d = Y.shape[-2:]
    if n <= d:
        return Y
    return np.linalg.qr(Y).R * (d / n) ** 0.5


def forecast_with_networks(
    kind: str, choice: Choice, past: Past, window_starts: np.ndarray, settings: Any
) -> np.ndarray:
    """Train networks on days before the first window, and forecast all windows.

    Parameters
    ----------
    kind : str
        The kind of network.
    choice : Choice
    past : Past
    window_starts : array of int, shape (windows,)
        The first days of the windows.
    settings : Settings
        With seeds, origins, epochs and batch_size.

    Returns
    -------
    array of shape (seeds, windows, d, d)
        Factors of the forecasts.
    """
    origins = np.linspace(
        WARMUP_DAYS, window_starts[0] - past.days, settings.origins
    ).astype(int)
    mean = past.features[origins].mean(axis=0)
    std = past.features[origins].std(axis=0)
    standardised = (past.features - mean) / std
    X = jnp.asarray(
        np.clip(standardised, -MAX_STANDARDISED_FEATURE, MAX_STANDARDISED_FEATURE)
    )
    # The days after each origin, (origins, days, d), in principal coordinates.
    days = past.returns[origins[:, None] + np.arange(past.days)]
    Y = np.linalg.solve(principal_root(past.base[origins]), days.mT).mT
    Y = jnp.asarray(reduce_days(Y))

    keys = jax.random.split(jax.random.key(0), settings.seeds)
    steps = settings.epochs * -(-settings.origins // settings.batch_size)
    models = fit_many(
        make_models(kind, keys, X[origins], Y, choice),
        negative_log_likelihood,
        (X[origins], Y),
        keys=keys,
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        optimizer=default_optimizer(steps, BASE_LEARNING_RATE),
        rates=jnp.full(settings.seeds, choice.rate / BASE_LEARNING_RATE),
        progress=False,
    ).model

    residuals = predict_residuals(models, X[window_starts])
    forecasts = residuals.congruence(principal_root(past.base[window_starts]))
    return np.linalg.qr(np.asarray(forecasts.factor, np.float64)).R
