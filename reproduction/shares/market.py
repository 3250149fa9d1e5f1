"""Daily returns of shares, from a CSV file or made up, and the usual estimates of covariance."""

import csv
import gzip
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.signal import lfilter

MONTH = 21  # days
WARMUP = 250  # days before the first estimate
HISTORY = 1000  # days before the first forecast: the longest window
DAYS = 1500  # at least: four years before the first forecast, two to tune and test on


class Market(NamedTuple):
    source: str
    names: list[str]
    dates: np.ndarray  # (n,), day t
    returns: np.ndarray  # (n, d), of day t, in per cent


def find_market(data: Path | None, shares: int) -> Market:
    """Log returns from a CSV file, or sp500_prices.csv.gz in a folder, else made-up ones."""
    if data is None:
        return made_up_market(shares)
    path, name = (
        data / "sp500_prices.csv.gz" if data.is_dir() else data,
        f"`--data {data}`",
    )
    if not path.is_file():
        raise ValueError(
            f"{name}: there is no file {path}; without the flag prices are made up."
        )
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", newline="") as file:
        header, *rows = list(csv.reader(file)) or [[]]
    try:
        dates = np.array([row[0] for row in rows], dtype="datetime64[D]")
        prices = np.array(
            [[float(price) for price in row[1 : shares + 1]] for row in rows]
        )
    except (ValueError, IndexError) as error:
        must = "must hold a date (2022-12-28) and then numbers in each row"
        raise ValueError(f"{name} {must}: {error}.") from None
    if prices.ndim != 2 or prices.shape[1] < 2 or len(prices) < DAYS:
        least = f"needs two shares and {DAYS} days at least"
        raise ValueError(f"{name} {least}, got shape {prices.shape}.")
    wrong = np.argwhere(~((prices > 0) & np.isfinite(prices)))
    if len(wrong):
        day, share = wrong[0]
        where = f"{header[share + 1]} on {dates[day]}"
        raise ValueError(
            f"{name} must be positive, got {prices[day, share]} for {where}."
        )
    if not np.all(np.diff(dates).astype(int) > 0):
        raise ValueError(f"{name} must have dates in rising order.")
    returns = 100 * np.diff(np.log(prices), axis=0)
    return Market(path.name, header[1 : shares + 1], dates[1:], returns)


def made_up_market(shares: int) -> Market:
    """Log volatilities of the market and of each share are autoregressive, loadings are fixed."""
    rng = np.random.default_rng(0)
    dates = np.arange("1990-01-01", "2022-12-29", dtype="datetime64[D]")
    dates = dates[np.is_busday(dates)]
    n = len(dates)
    log_volatility = lfilter(
        [1], [1, -0.985], 0.07 * rng.standard_normal((n, shares + 1)), axis=0
    )
    factors = np.exp(log_volatility) * rng.standard_normal((n, shares + 1))
    returns = 0.8 * rng.uniform(0.5, 1.5, shares) * factors[:, :1] + factors[:, 1:]
    return Market(
        "made-up prices", [f"share {i + 1}" for i in range(shares)], dates, returns
    )


class Windows(NamedTuple):
    """Spans of so many calendar months, one from the begin of each month with a long past."""

    begin: np.ndarray  # the first day
    end: np.ndarray  # the last day + 1
    month: np.ndarray  # in which it begins, from January 1970

    @property
    def year(self) -> np.ndarray:
        return 1970 + self.month // 12

    def some(self, which: np.ndarray) -> "Windows":
        return Windows(*(x[which] for x in self))

    def covariances(self, returns: np.ndarray) -> np.ndarray:
        """The mean of rr' over the days of each."""
        spans = (returns[a:b] for a, b in zip(self.begin, self.end, strict=True))
        return np.array([x.T @ x / len(x) for x in spans])


def windows_of(market: Market, months: int) -> Windows:
    names = market.dates.astype("datetime64[M]").astype(int)
    begin = np.flatnonzero(np.append(True, names[1:] != names[:-1]))
    end = np.append(begin, len(names))[months:]
    begin = begin[: len(end)]
    return Windows(begin, end, names[begin]).some(begin >= HISTORY)


# Estimates: entry t of every array is made from the days before t.


def weighted(x: np.ndarray, decay: float) -> np.ndarray:
    """S_{t+1} = decay S_t + (1 - decay) x_t from the mean of the first days; (n, ...), one more."""
    start = x[:WARMUP].mean(axis=0, keepdims=True)
    later = lfilter([1 - decay], [1, -decay], x[WARMUP:], axis=0, zi=decay * start)[0]
    return np.concatenate([np.full((WARMUP, *x.shape[1:]), np.nan), start, later])


def volatilities(S: np.ndarray) -> np.ndarray:
    return np.sqrt(np.diagonal(S, axis1=-2, axis2=-1))


def two_decays(fast: np.ndarray, slow: np.ndarray) -> np.ndarray:
    """The volatilities of one covariance with the correlations of the other."""
    s = volatilities(fast) / volatilities(slow)
    return s[..., :, None] * slow * s[..., None, :]


def of_factors(S: np.ndarray, k: int, steps: int = 30) -> np.ndarray:
    """The variances of S (..., d, d), and correlations of k factors and a diagonal, LL' + diag(v).

    L are principal factors of the correlations, then changed by steps of expectation maximisation
    to those of maximum likelihood (Rubin and Thayer, 1982).
    """
    s = volatilities(S)
    R = S / s[..., :, None] / s[..., None, :]
    values, V = np.linalg.eigh(R)
    L = V[..., -k:] * np.sqrt(values[..., None, -k:])
    v = 1 - np.sum(L**2, axis=-1)
    for _ in range(steps):
        A = L / v[..., None]
        G = np.linalg.solve(np.eye(k) + L.mT @ A, A.mT)  # L'(LL' + diag(v))^-1
        M = R @ G.mT
        L = np.linalg.solve(np.eye(k) - G @ L + G @ M, M.mT).mT
        v = 1 - np.sum(L * M, axis=-1)
    return two_decays(S, L @ L.mT + v[..., None] * np.eye(S.shape[-1]))


def mean_correlation(S: np.ndarray) -> np.ndarray:
    s, d = volatilities(S), S.shape[-1]
    return (np.sum(S / s[..., :, None] / s[..., None, :], axis=(-2, -1)) - d) / (
        d * (d - 1)
    )


def features(returns: np.ndarray, ewma: dict, base: np.ndarray) -> np.ndarray:
    """What the networks see (n + 1, p): volatilities over the baseline's, returns, correlation."""
    market, level = returns.mean(axis=1), np.log(volatilities(base)).mean(axis=1)
    spans = (0.94, 0.97, 0.99, 0.9975)
    columns = [
        np.log(volatilities(ewma[decay])).mean(axis=1) - level for decay in spans
    ]
    columns += [
        np.log(weighted(market**2, decay)) / 2 - level for decay in (0.94, 0.9975)
    ]
    columns += [weighted(market, decay) / np.exp(level) for decay in (0.94, 0.99)]
    slow, *fast = (mean_correlation(ewma[decay]) for decay in (0.9975, 0.97, 0.99))
    return np.stack(
        [*columns, slow, *(correlation - slow for correlation in fast)], axis=1
    )


def principal_root(S: np.ndarray) -> np.ndarray:
    """L with S = LL': principal axes, largest first, to the side on which most shares rise."""
    values, V = np.linalg.eigh(S)
    V = V * np.where(V.sum(axis=-2, keepdims=True) < 0, -1, 1)
    return (V * np.sqrt(values)[..., None, :])[..., ::-1]


# Covariances by their factors T (..., d, d), S = T'T.


def factored(S: np.ndarray) -> np.ndarray:
    return np.linalg.cholesky(S).mT


def mean_factor(T: np.ndarray) -> np.ndarray:
    """The factor of the mean of the covariances of T (k, ..., m, d): nothing is squared."""
    return np.linalg.qr(np.concatenate(list(T / len(T) ** 0.5), axis=-2)).R


def log_likelihood(T: np.ndarray, W: np.ndarray) -> np.ndarray:
    """The mean log density under N(0, S) of days whose mean of rr' is W (..., d, d)."""
    logdet = 2 * np.linalg.slogdet(T)[1]
    quadratic = np.trace(
        np.linalg.solve(T, np.linalg.solve(T.mT, W)), axis1=-2, axis2=-1
    )
    return -(T.shape[-1] * np.log(2 * np.pi) + logdet + quadratic) / 2
