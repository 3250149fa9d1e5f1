"""Networks that correct an estimate of covariance, each in the same place.

The baseline is S = LL'. A network reads features of past returns and gives N(0, eta M), M near I
(`Residual`), for L^-1 r, returns along the principal axes of S; the forecast is eta L M L', the
mean of several. Covariances are held by factors, S = T'T.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

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
from reproduction.shares import market as data

MATRIX, CHOLESKY, JOINT = "matrix MLP", "Cholesky MLP", "joint matrix MLP"
DENSE, LOW_RANK = "joint matrix MLP, dense", "joint matrix MLP, low rank"
HORIZONS = {"month": 1, "year": 12}  # in months
RATE = 0.003  # a choice's rate is a multiple of it, so that all share a program


class Choice(NamedTuple):
    """What is tuned in a network."""

    strength: (
        float  # the network's part of the residual covariance, the rest is the identity
    )
    start: float  # scale of the last layer's weights before training
    rate: float  # of learning
    sizes: tuple[
        int, int, int
    ]  # hidden matrix, hidden vector, rank of the output if it is low


TRIALS = {
    "month": 12,
    "year": 20,
}  # of each, on 1997 to 2004: reproduction/searches/shares.py
SMALL, LARGE = (10, 20, 2), (20, 40, 5)
BEST = {  # for the next month, for the next year
    CHOLESKY: (Choice(0.2, 0.1, 0.003, LARGE), Choice(0.5, 0.01, 0.00003, LARGE)),
    MATRIX: (Choice(0.5, 0.1, 0.003, SMALL), Choice(0.2, 0.1, 0.0001, SMALL)),
    JOINT: (Choice(0.2, 0.1, 0.001, SMALL), Choice(0.2, 0.01, 0.00003, SMALL)),
    DENSE: (Choice(0.2, 0.1, 0.001, SMALL), Choice(0.2, 0.01, 0.00003, SMALL)),
    LOW_RANK: (Choice(0.2, 0.1, 0.001, SMALL), Choice(0.2, 0.01, 0.00003, SMALL)),
}
CHOSEN = {
    horizon: {kind: (kind, choices[i]) for kind, choices in BEST.items()}
    for i, horizon in enumerate(HORIZONS)
}


class Residual(eqx.Module):
    """x -> N(0, eta M), M = (1 - strength) I + strength d Omega: a covariance near the identity."""

    network: Callable  # x -> (log eta, Omega)
    strength: Any  # not learnt; a number and not a part of the program, which serves all strengths

    def __call__(self, x) -> TraceOneGaussian:
        (log_eta,), omega = self.network(x)
        d, strength = omega.dim, jax.lax.stop_gradient(self.strength)
        identity = DiagonalGram(jnp.full(d, ((1 - strength) / d) ** 0.5))
        mixed = identity + omega.scaled(strength)
        return TraceOneGaussian(jnp.zeros(d), mixed, d * jnp.exp(log_eta))


def loss(model, batch, key, t):
    return -jnp.mean(jax.vmap(lambda x, Y: model(x).log_prob(Y))(*batch))


def new_network(kind: str, p: int, d: int, sizes: tuple[int, int, int], key) -> Any:
    dim, features, rank = sizes
    if kind == CHOLESKY:
        return CholeskyMLP(p, d, (features,), 1, key=key)
    make = MatrixMLP if kind == MATRIX else JointMatrixMLP
    output = {JOINT: Triangular(), LOW_RANK: LowRank(min(rank, d - 1))}.get(
        kind, Dense()
    )
    return make(p, d, (dim,), 1, (features,), output=output, key=key)


def last_layer(kind: str) -> Callable:
    """What gives the weights of the vector's last layer: a Cholesky MLP has all in one."""
    if kind == CHOLESKY:
        return lambda network: (network.perceptron.W[-1], network.perceptron.b[-1])
    names = "Cb" if kind == MATRIX else "CbD"
    return lambda network: tuple(getattr(network.vectors[-1], name) for name in names)


@eqx.filter_jit
def new_networks(kind: str, keys, X, Y, sizes: tuple[int, int, int]):
    """Calibrated networks, one for each key."""

    def one(key):
        first, second = jax.random.split(key)
        network = new_network(kind, X.shape[1], Y.shape[1], sizes, first)
        return calibrate(network, X, key=second, targets=Y)

    return eqx.filter_vmap(one)(keys)


def new_models(kind: str, keys, X, Y, choice: Choice) -> Residual:
    """One for each key; the last layer is small, so that they start as the baseline."""
    networks = new_networks(kind, keys, X, Y.reshape(-1, Y.shape[-1]), choice.sizes)
    small = eqx.tree_at(
        last_layer(kind), networks, replace_fn=lambda W: choice.start * W
    )
    return Residual(small, jnp.full(len(keys), choice.strength))


@eqx.filter_jit
def residuals(models, X) -> SPD:
    """Covariances (models, n) of size d in the baseline's principal coordinates, for X (n, p)."""
    return eqx.filter_vmap(lambda model: jax.vmap(lambda x: model(x).covariance)(X))(
        models
    )


class Past(NamedTuple):
    """What a network learns from and corrects; entry t is made from the days before t."""

    returns: np.ndarray  # (n, d)
    features: np.ndarray  # (n + 1, p)
    base: np.ndarray  # (n + 1, d, d)
    days: int  # of the windows to be forecast


def as_few(Y: np.ndarray) -> np.ndarray:
    """d vectors (..., d, d) with the mean of yy' of more of them: the same mean log density."""
    n, d = Y.shape[-2:]
    return Y if n <= d else np.linalg.qr(Y).R * (d / n) ** 0.5


def network_forecasts(
    kind: str, choice: Choice, past: Past, at: np.ndarray, settings: Any
):
    """Factors (seeds, windows, d, d) for windows that begin `at` these days, learnt before them."""
    F, count = past.features, settings.origins
    origins = np.linspace(data.WARMUP, at[0] - past.days, count).astype(int)
    centre, spread = F[origins].mean(axis=0), F[origins].std(axis=0)
    X = jnp.asarray(
        np.clip((F - centre) / spread, -2.5, 2.5)
    )  # a crash is far from all that was
    days = past.returns[origins[:, None] + np.arange(past.days)]  # (origins, days, d)
    Y = np.linalg.solve(data.principal_root(past.base[origins]), days.mT).mT
    Y = jnp.asarray(as_few(Y))
    keys = jax.random.split(jax.random.key(0), settings.seeds)
    steps = settings.epochs * -(-count // settings.batch_size)
    how: Any = {
        "keys": keys,
        "epochs": settings.epochs,
        "batch_size": settings.batch_size,
    }
    how |= {"optimizer": default_optimizer(steps, RATE), "progress": False}
    how |= {"rates": jnp.full(settings.seeds, choice.rate / RATE)}
    start = new_models(kind, keys, X[origins], Y, choice)
    models = fit_many(start, loss, (X[origins], Y), **how).model
    there = residuals(models, X[at]).congruence(data.principal_root(past.base[at]))
    return np.linalg.qr(np.asarray(there.factor, np.float64)).R
