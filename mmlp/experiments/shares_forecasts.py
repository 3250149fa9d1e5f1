"""Forecasts of next month's covariance: the usual estimates, and networks that correct one.

The baseline S = LL' has the volatilities of one EWMA and the correlations of a slower one. A
network reads eleven features of past returns and gives N(0, eta M), M near I (`Residual`), for
L^-1 r, returns along the principal axes of S; the forecast is eta L M L', the mean of several. The
matrix MLP and the Cholesky MLP stand in the same place. Covariances are held by factors, S = T'T.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from sklearn.covariance import ledoit_wolf

from mmlp.distributions import TraceOneGaussian
from mmlp.experiments import shares_data as data
from mmlp.initialisation import calibrate
from mmlp.networks import CholeskyMLP, MatrixMLP
from mmlp.spd import SPD, DiagonalGram
from mmlp.training import default_optimizer, fit_many

DECAYS, SLOW = (0.94, 0.97, 0.98, 0.985, 0.99, 0.995, 0.9975), (0.99, 0.995, 0.9975)
WINDOWS = (21, 63, 126, 250, 500, data.HISTORY)
MATRIX, CHOLESKY, BASE = "matrix MLP", "Cholesky MLP", "EWMA, two decays"
EWMA, LEDOIT_WOLF = "EWMA, tuned decay", "Ledoit-Wolf, tuned window"
SCALE = "two decays, scaled as by the matrix MLP"


class Residual(eqx.Module):
    """x -> N(0, eta M), M = (1 - strength) I + strength d Omega: a covariance near the identity."""

    network: Callable  # x -> (log eta, Omega)
    strength: float = eqx.field(static=True)

    def __call__(self, x) -> TraceOneGaussian:
        (log_eta,), omega = self.network(x)
        d = omega.dim
        identity = DiagonalGram(jnp.full(d, ((1 - self.strength) / d) ** 0.5))
        mixed = identity + omega.scaled(self.strength)
        return TraceOneGaussian(jnp.zeros(d), mixed, d * jnp.exp(log_eta))


def loss(model, batch, key, t):
    return -jnp.mean(jax.vmap(lambda x, Y: model(x).log_prob(Y))(*batch))


LAST_LAYER = {  # of the vector path
    MATRIX: lambda network: (network.vectors[-1].C, network.vectors[-1].b),
    CHOLESKY: lambda network: (network.perceptron.W[-1], network.perceptron.b[-1]),
}


@eqx.filter_jit
def new_models(kind: str, keys, X, settings: Any, d: int):
    """Calibrated networks, one for each key; a small last layer: they start as the baseline."""

    def one(key):
        first, second = jax.random.split(key)
        if kind == MATRIX:
            sizes = (settings.hidden_dims, 1, settings.hidden_features)
            network = MatrixMLP(X.shape[1], d, *sizes, key=first)
        else:
            network = CholeskyMLP(X.shape[1], d, settings.hidden_features, 1, key=first)
        network = calibrate(network, X, key=second)
        small = eqx.tree_at(LAST_LAYER[kind], network, replace_fn=lambda W: settings.start * W)
        return Residual(small, settings.strength)

    return eqx.filter_vmap(one)(keys)


@eqx.filter_jit
def residuals(models, X) -> SPD:
    """Covariances (models, n) of size d in the baseline's principal coordinates, for X (n, p)."""
    return eqx.filter_vmap(lambda model: jax.vmap(lambda x: model(x).covariance)(X))(models)


def network_forecasts(kind: str, returns, F, base, at: np.ndarray, settings: Any) -> np.ndarray:
    """Factors (seeds, months, d, d) for months that begin `at` these days, learnt before them."""
    origins = np.linspace(data.WARMUP, at[0] - data.HORIZON, settings.origins).astype(int)
    centre, spread = F[origins].mean(axis=0), F[origins].std(axis=0)
    X = jnp.asarray(np.clip((F - centre) / spread, -2.5, 2.5))  # a crash is far from all that was
    days = returns[origins[:, None] + np.arange(data.HORIZON)]  # (origins, days, d)
    Y = jnp.asarray(np.linalg.solve(data.principal_root(base[origins]), days.mT).mT)
    keys = jax.random.split(jax.random.key(0), settings.seeds)
    steps = settings.epochs * -(-settings.origins // settings.batch_size)
    how: Any = {"keys": keys, "epochs": settings.epochs, "batch_size": settings.batch_size}
    how |= {"optimizer": default_optimizer(steps, settings.learning_rate), "progress": False}
    start = new_models(kind, keys, X[origins], settings, returns.shape[1])
    models = fit_many(start, loss, (X[origins], Y), **how).model
    there = residuals(models, X[at]).congruence(data.principal_root(base[at]))
    return np.linalg.qr(np.asarray(there.factor, np.float64)).R


def estimates(r: np.ndarray, ewma: dict, at: np.ndarray) -> dict[str, dict[Any, np.ndarray]]:
    """Factors (months, d, d) by method and by what is to be tuned in it."""
    plain = {decay: S[at] for decay, S in ewma.items()}
    shrunk = {w: [ledoit_wolf(r[t - w : t], assume_centered=True)[0] for t in at] for w in WINDOWS}
    mixed = {(f, s): data.two_decays(plain[f], plain[s]) for f in DECAYS for s in SLOW}
    found = {EWMA: plain, LEDOIT_WOLF: shrunk, BASE: mixed}
    return {name: {c: data.factored(S) for c, S in by.items()} for name, by in found.items()}


def forecasts(market: data.Market, settings: Any) -> tuple[dict, dict, np.ndarray]:
    """Factors by method (months, d, d) and network (seeds, months, d, d), days (first, last + 1).

    A block of test years is forecast by what was trained, or tuned, on the days before it.
    """
    r, (begin, end, year) = market.returns, data.months_of(market)
    squares = r[:, :, None] * r[:, None, :]
    W = np.array([squares[a:b].mean(axis=0) for a, b in zip(begin, end, strict=True)])
    month = np.array([squares[t - data.HORIZON : t].mean(axis=0) for t in begin])
    ewma = {decay: data.weighted(squares, decay) for decay in DECAYS}
    tuned = estimates(r, ewma, begin)
    parts, single, test = {}, {}, (year >= settings.first) & (year <= settings.last)
    for start in range(settings.first, settings.last + 1, settings.block):
        past, now = year < start, test & (year >= start) & (year < start + settings.block)
        best = {
            name: max(by, key=lambda c: data.log_likelihood(by[c][past], W[past]).mean())
            for name, by in tuned.items()
        }
        print(f"{start}: " + ", ".join(f"{n}: {choice}" for n, choice in best.items()), flush=True)
        days, base = begin[now], data.two_decays(*(ewma[decay] for decay in best[BASE]))
        F = data.features(r, ewma, base)
        constant = data.factored(squares[: days[0]].mean(axis=0))
        block = {
            "constant": np.broadcast_to(constant, W[now].shape),
            "last month": data.factored(month[now]),
            "EWMA, decay 0.94": tuned[EWMA][0.94][now],
            **{name: by[best[name]][now] for name, by in tuned.items()},
        }
        for kind in (CHOLESKY, MATRIX):
            T = network_forecasts(kind, r, F, base, days, settings)
            single.setdefault(kind, []).append(T)
            block[kind] = data.mean_factor(T)
        ratio = np.linalg.solve(block[BASE].mT, block[MATRIX].mT)  # tr(base^-1 S) = |ratio|^2
        scale = np.linalg.norm(ratio, axis=(1, 2), keepdims=True) / r.shape[1] ** 0.5
        block[SCALE] = scale * block[BASE]
        for name, T in block.items():
            parts.setdefault(name, []).append(T)
    parts = {name: np.concatenate(T) for name, T in parts.items()}
    single = {name: np.concatenate(T, axis=1) for name, T in single.items()}
    return parts, single, np.stack([begin, end], axis=1)[test]
