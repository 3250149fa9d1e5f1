"""Forecast the covariance of next month's daily returns of 20 shares: networks against the usual estimates.

    python -m mmlp.experiments.shares --data DIR       sp500_prices.csv.gz (the data file of skfolio)
    python -m mmlp.experiments.shares --prices FILE    CSV: dates, then prices, a column for a share
    python -m mmlp.experiments.shares [--quick]        made-up prices, to see that it works

Question. Does a network beat exponentially weighted (EWMA) and Ledoit-Wolf covariances? Score: the Gaussian log-likelihood
of the next month's daily returns, mean zero. Test: 2005 to 2022, month by month; every three years all is tuned or
trained anew on the days before. The realised covariance of about 21 days is nearly singular in 20 dimensions: the
divergences are taken from its Ledoit-Wolf shrinkage, both matrices divided by its trace.

Model. The baseline S = LL' has the volatilities of one EWMA and the correlations of a slower one. A network reads eleven
features of past returns and gives N(0, eta M) for returns in the coordinates L^-1 r, the principal axes of S, with M near I
(`Residual`); the forecast is eta L M L', the mean of 16 networks. The matrix MLP and the Cholesky MLP stand in
exactly the same place. Their settings were chosen on 1997 to 2004, out of about thirty, where the two are level within what
seeds make; the test years were looked at once before, with 8 seeds, and nothing but the number of seeds changed.

Answer (20 shares, 1990 to 2022; results/shares.json; 2 minutes on two cores), nats a day, standard error over months:

                                log-likelihood   gain on tuned EWMA    Stein   von Neumann   quadratic
    constant                            -37.19       -3.28 +- 0.41      2.88          1.31        0.55
    last month                         -881                            11.15          1.04        0.31
    EWMA, decay 0.94                    -43.34       -9.43 +- 0.87      5.28          0.74        0.24
    EWMA, tuned decay                   -33.91                          2.71          0.70        0.37
    Ledoit-Wolf, tuned window           -33.94       -0.03 +- 0.11      2.15          0.69        0.44
    EWMA, two decays: the baseline      -33.48        0.43 +- 0.15      2.62          0.63        0.30
    Cholesky MLP                        -33.12        0.79 +- 0.27      2.32          0.59        0.25
    matrix MLP                          -33.14        0.77 +- 0.30      2.37          0.62        0.27

Both networks are ahead of EWMA (by 0.77 and 0.79) and Ledoit-Wolf (by 0.80 and 0.81). Much of it is earned in the crashes:
with years in place of months as the unit the matrix MLP's lead on EWMA has a standard error of 0.41, and is not clear;
without 2008 and 2020 it is 0.20 +- 0.07. Its lead on its own baseline, 0.34 +- 0.20, is not clear, and it does not beat
the Cholesky MLP (-0.02 +- 0.04; without those two years -0.07 +- 0.03). Nearly all of the gain is the scale eta: the
baseline times the matrix MLP's scale alone has -33.16. What the months say about the shape beyond the baseline is hardly
more than noise.
"""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from sklearn.covariance import ledoit_wolf

from mmlp.distributions import TraceOneGaussian
from mmlp.divergences import quadratic, stein, von_neumann
from mmlp.experiments import shares_page
from mmlp.experiments.harness.run import main
from mmlp.experiments.shares_data import (
    HISTORY,
    WARMUP,
    Market,
    features,
    find_market,
    log_likelihood,
    months_of,
    principal_root,
    two_decays,
    weighted,
)
from mmlp.experiments.shares_page import (
    BASE,
    CHOLESKY,
    EWMA,
    HORIZON,
    LEDOIT_WOLF,
    MATRIX,
    SCALE,
    summary,
)
from mmlp.initialisation import calibrate
from mmlp.networks import CholeskyMLP, MatrixMLP
from mmlp.spd import Gram
from mmlp.training.core import fit_many
from mmlp.training.optimizers import default_optimizer

DECAYS, SLOW = (0.94, 0.97, 0.98, 0.985, 0.99, 0.995, 0.9975), (0.99, 0.995, 0.9975)
WINDOWS = (21, 63, 126, 250, 500, HISTORY)
MEASURES = {"Stein": stein, "von Neumann": von_neumann, "quadratic": quadratic}


@dataclasses.dataclass(frozen=True)
class Settings:
    """Next month's covariance of daily share returns: networks against the usual estimates, trained anew every few years."""

    data: Path | None = None  # folder of sp500_prices.csv.gz
    prices: Path | None = None  # a CSV file, .gz or not, in its place; without both, made-up prices
    shares: int = 20  # the first so many columns
    first: int = 2005  # test years
    last: int = 2022
    block: int = 3  # years between trainings
    seeds: int = 16  # networks of one kind, whose covariances are averaged
    origins: int = 400  # training months, spread evenly over the past
    strength: float = 0.2  # the network's part of the residual covariance, the rest is the identity
    start: float = 0.1  # scale of the last layer's weights before training
    hidden_dims: tuple[int, ...] = (10,)
    hidden_features: tuple[int, ...] = (20,)
    epochs: int = 20
    batch_size: int = 50
    learning_rate: float = 0.003

    QUICK: ClassVar = {"shares": 4, "first": 2020, "seeds": 2, "origins": 60, "epochs": 3}


draw = shares_page.draw

# -- networks -----------------------------------------------------------------------------------------------------------


class Residual(eqx.Module):
    """x -> N(0, eta M) with M = (1 - strength) I + strength d Omega: a covariance near the identity."""

    network: Callable  # x -> (log eta, Omega)
    strength: float = eqx.field(static=True)

    def __call__(self, x) -> TraceOneGaussian:
        (log_eta,), omega = self.network(x)
        d = omega.dim
        mixed = (1 - self.strength) * jnp.eye(d) / d + self.strength * omega.dense()
        return TraceOneGaussian(jnp.zeros(d), Gram.from_dense(mixed), d * jnp.exp(log_eta))


def loss(model, batch, key, t):
    return -jnp.mean(jax.vmap(lambda x, Y: model(x).log_prob(Y))(*batch))


LAST_LAYER = {  # of the vector path
    MATRIX: lambda network: (network.vectors[-1].C, network.vectors[-1].b),
    CHOLESKY: lambda network: (network.perceptron.W[-1], network.perceptron.b[-1]),
}


@eqx.filter_jit
def new_models(kind: str, keys, X, settings: Settings, d: int):
    """Calibrated networks, one for each key, with a last layer made small: they start near the baseline."""

    def one(key):
        first, second = jax.random.split(key)
        if kind == MATRIX:
            sizes = (settings.hidden_dims, 1, settings.hidden_features)
            network = MatrixMLP(X.shape[1], d, *sizes, key=first)
        else:
            network = CholeskyMLP(X.shape[1], d, settings.hidden_features, 1, key=first)
        network = calibrate(network, X, key=second)
        network = eqx.tree_at(
            LAST_LAYER[kind], network, replace_fn=lambda weights: settings.start * weights
        )
        return Residual(network, settings.strength)

    return eqx.filter_vmap(one)(keys)


@eqx.filter_jit
def residuals(models, X) -> Gram:
    """Covariances (models, n, d, d) in the principal coordinates of the baseline, for X (n, p)."""
    return eqx.filter_vmap(lambda model: jax.vmap(lambda x: model(x).covariance)(X))(models)


def network_forecasts(
    kind: str, returns, F, base, end: int, at: np.ndarray, settings: Settings
) -> np.ndarray:
    """Covariances (seeds, months, d, d) of the months that begin at the days `at`, learnt from the days before `end`."""
    origins = np.linspace(WARMUP, end - HORIZON, settings.origins).astype(int)
    centre, spread = F[origins].mean(axis=0), F[origins].std(axis=0)
    X = jnp.asarray(
        np.clip((F - centre) / spread, -2.5, 2.5)
    )  # a crash is far outside of what was seen
    days = returns[origins[:, None] + np.arange(HORIZON)]  # (origins, days, d)
    Y = jnp.asarray(
        np.linalg.solve(principal_root(base[origins]), days.mT).mT
    )  # white under the baseline
    keys = jax.random.split(jax.random.key(0), settings.seeds)
    steps = settings.epochs * -(-settings.origins // settings.batch_size)
    models = fit_many(
        new_models(kind, keys, X[origins], settings, returns.shape[1]),
        loss,
        (X[origins], Y),
        keys=keys,
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        optimizer=default_optimizer(steps, settings.learning_rate),
        progress=False,
    ).model
    return np.asarray(
        residuals(models, X[at]).congruence(principal_root(base[at])).dense(), np.float64
    )


# -- the rolling comparison ---------------------------------------------------------------------------------------------


def forecasts(
    market: Market, settings: Settings
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], np.ndarray]:
    """Covariances of the test months by method (months, d, d), and by single networks (seeds, months, d, d).

    The third result holds the days of each month, (first, last + 1). A block of test years is forecast by what was trained,
    or tuned in log-likelihood, on the days before it.
    """
    r, (begin, end, year) = market.returns, months_of(market)
    squares = r[:, :, None] * r[:, None, :]
    W = np.array([squares[a:b].mean(axis=0) for a, b in zip(begin, end, strict=True)])
    ewma = {decay: weighted(squares, decay) for decay in DECAYS}
    candidates = {
        EWMA: {decay: S[begin] for decay, S in ewma.items()},
        LEDOIT_WOLF: {
            w: np.array([ledoit_wolf(r[t - w : t], assume_centered=True)[0] for t in begin])
            for w in WINDOWS
        },
        BASE: {
            (fast, slow): two_decays(ewma[fast][begin], ewma[slow][begin])
            for fast in DECAYS
            for slow in SLOW
        },
    }
    parts, single, test = {}, {}, (year >= settings.first) & (year <= settings.last)
    for start in range(settings.first, settings.last + 1, settings.block):
        past, now = (
            year < start,
            (year >= start) & (year < min(start + settings.block, settings.last + 1)),
        )
        origin = begin[now][0]
        best = {
            name: max(choices, key=lambda c: log_likelihood(choices[c][past], W[past]).mean())
            for name, choices in candidates.items()
        }
        base = two_decays(*(ewma[decay] for decay in best[BASE]))
        F = features(r, ewma, base)
        networks = {
            kind: network_forecasts(kind, r, F, base, origin, begin[now], settings)
            for kind in (CHOLESKY, MATRIX)
        }
        block = {
            "constant": np.broadcast_to(squares[:origin].mean(axis=0), W[now].shape),
            "last month": np.array([squares[t - HORIZON : t].mean(axis=0) for t in begin[now]]),
            "EWMA, decay 0.94": ewma[0.94][begin[now]],
            **{name: choices[best[name]][now] for name, choices in candidates.items()},
            **{kind: S.mean(axis=0) for kind, S in networks.items()},
        }
        baseline = base[begin[now]]
        scale = np.trace(np.linalg.solve(baseline, block[MATRIX]), axis1=1, axis2=2) / r.shape[1]
        block[SCALE] = scale[:, None, None] * baseline
        print(
            f"{start}: " + ", ".join(f"{name}: {choice}" for name, choice in best.items()),
            flush=True,
        )
        for name, S in block.items():
            parts.setdefault(name, []).append(S)
        for name, S in networks.items():
            single.setdefault(name, []).append(S)
    parts, single = (
        {name: np.concatenate(S, axis=-3) for name, S in blocks.items()}
        for blocks in (parts, single)
    )
    return parts, single, np.stack([begin, end], axis=1)[test]


def run(settings: Settings) -> dict:
    if not 2 <= settings.shares < HORIZON:
        raise ValueError(
            f"`--shares {settings.shares}` must be 2 to {HORIZON - 1}: last month's covariance has its rank."
        )
    market = find_market(settings.data, settings.prices, settings.shares)
    known = months_of(market)[2]
    if not known[0] < settings.first <= settings.last <= known[-1]:
        raise ValueError(
            f"`--first {settings.first} --last {settings.last}` must be within {known[0] + 1} to {known[-1]}."
        )
    S, single, spans = forecasts(market, settings)
    days = [market.returns[a:b] for a, b in spans]
    W = np.array([x.T @ x / len(x) for x in days])
    shrunk = np.array([ledoit_wolf(x, assume_centered=True)[0] for x in days])
    size = np.trace(shrunk, axis1=1, axis2=2)[:, None, None]
    target = Gram.from_dense(shrunk / size)
    months = [str(market.dates[a])[:7] for a, _ in spans]
    years = np.array([month[:4] for month in months])
    scores = {}
    for name, A in S.items():
        scores[name] = {"log-likelihood": log_likelihood(A, W)}
        forecast = Gram.from_dense(A / size)
        scores[name] |= {
            measure: np.asarray(f(forecast, target)) for measure, f in MEASURES.items()
        }
    return {
        "title": f"next month's covariance of {len(market.names)} shares ({market.source})",
        "months": months,
        "scores": {
            name: {measure: rounded(v) for measure, v in by.items()} for name, by in scores.items()
        },
        "volatility": {name: rounded(portfolio(A)) for name, A in ({"realised": W} | S).items()},
        **summary(
            scores, years, {kind: log_likelihood(A, W).mean(axis=1) for kind, A in single.items()}
        ),
    }


def portfolio(S: np.ndarray) -> np.ndarray:
    """Yearly volatility of equal parts of all shares, in per cent."""
    return np.sqrt(252 * S.mean(axis=(-2, -1)))


def rounded(values: np.ndarray) -> list[float]:
    return [float(f"{value:.5g}") for value in values]


if __name__ == "__main__":
    main("shares")
