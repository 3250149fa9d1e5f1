"""Daily returns of shares, and the usual estimates of their covariance.

The returns come from a CSV file of prices, or are synthetic.
"""

import csv
import gzip
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.signal import lfilter

DAYS_PER_MONTH = 21

# Days before the first estimate, and before the first forecast (the longest window).
WARMUP_DAYS = 250
HISTORY_DAYS = 1000

# Four years before the first forecast, and two to tune and test on.
MIN_DAYS = 1500

DEFAULT_FILE = "sp500_prices.csv.gz"


class Market(NamedTuple):
    """Daily returns of d shares.

    Parameters
    ----------
    source : str
        Where the prices come from.
    names : list of str
        The names of the shares.
    dates : array of dates, shape (n,)
    returns : array of shape (n, d)
        Log returns in per cent.
    """

    source: str
    names: list[str]
    dates: np.ndarray
    returns: np.ndarray


def find_market(data: Path | None, n_shares: int) -> Market:
    """Return log returns from a CSV file, or synthetic ones.

    Parameters
    ----------
    data : Path or None
        A CSV file, or the folder of sp500_prices.csv.gz. None makes synthetic prices.
    n_shares : int
        The number of columns to read.

    Returns
    -------
    Market

    Raises
    ------
    ValueError
        If the file does not hold enough rows of dates and positive prices.
    """
    if data is None:
        return make_synthetic_market(n_shares)

    option = f"`--data {data}`"
    path = data / DEFAULT_FILE if data.is_dir() else data
    if not path.is_file():
        raise ValueError(
            f"{option}: there is no file {path}; without the flag prices are made up."
        )
    open_file = gzip.open if path.suffix == ".gz" else open
    with open_file(path, "rt", newline="") as file:
        header, *rows = list(csv.reader(file)) or [[]]
    try:
        dates = np.array([row[0] for row in rows], dtype="datetime64[D]")
        prices = np.array(
            [[float(price) for price in row[1 : n_shares + 1]] for row in rows]
        )
    except (ValueError, IndexError) as error:
        raise ValueError(
            f"{option} must hold a date (2022-12-28) and then numbers in each row: "
            f"{error}."
        ) from None

    if prices.ndim != 2 or prices.shape[1] < 2 or len(prices) < MIN_DAYS:
        raise ValueError(
            f"{option} needs two shares and {MIN_DAYS} days at least, got shape "
            f"{prices.shape}."
        )
    not_positive = np.argwhere(~((prices > 0) & np.isfinite(prices)))
    if len(not_positive):
        day, share = not_positive[0]
        raise ValueError(
            f"{option} must be positive, got {prices[day, share]} for "
            f"{header[share + 1]} on {dates[day]}."
        )
    if not np.all(np.diff(dates).astype(int) > 0):
        raise ValueError(f"{option} must have dates in rising order.")
    return Market(
        source=path.name,
        names=header[1 : n_shares + 1],
        dates=dates[1:],
        returns=100 * np.diff(np.log(prices), axis=0),
    )


def make_synthetic_market(n_shares: int) -> Market:
    """Draw returns with autoregressive log volatilities and fixed loadings."""
    rng = np.random.default_rng(0)
    dates = np.arange("1990-01-01", "2022-12-29", dtype="datetime64[D]")
    dates = dates[np.is_busday(dates)]
    n = len(dates)

    # The first column is the market, the others are the shares.
    shocks = 0.07 * rng.standard_normal((n, n_shares + 1))
    log_volatility = lfilter([1], [1, -0.985], shocks, axis=0)
    factors = np.exp(log_volatility) * rng.standard_normal((n, n_shares + 1))
    loadings = 0.8 * rng.uniform(0.5, 1.5, n_shares)
    return Market(
        source="made-up prices",
        names=[f"share {i + 1}" for i in range(n_shares)],
        dates=dates,
        returns=loadings * factors[:, :1] + factors[:, 1:],
    )


class Windows(NamedTuple):
    """Spans of calendar months, one from the beginning of each month.

    Parameters
    ----------
    begin : array of int, shape (windows,)
        The index of the first day.
    end : array of int, shape (windows,)
        The index after the last day.
    month : array of int, shape (windows,)
        The month in which it begins, counted from January 1970.
    """

    begin: np.ndarray
    end: np.ndarray
    month: np.ndarray

    @property
    def year(self) -> np.ndarray:
        """The year in which each window begins."""
        return 1970 + self.month // 12

    def select(self, mask: np.ndarray) -> "Windows":
        """Return some of the windows."""
        return Windows(self.begin[mask], self.end[mask], self.month[mask])

    def covariances(self, returns: np.ndarray) -> np.ndarray:
        """Return the mean of rr' over the days of each window, (windows, d, d)."""
        days = [returns[a:b] for a, b in zip(self.begin, self.end, strict=True)]
        return np.array([x.T @ x / len(x) for x in days])


def make_windows(market: Market, n_months: int) -> Windows:
    """Return windows of several months, after the history that forecasts need."""
    months = market.dates.astype("datetime64[M]").astype(int)
    begin = np.flatnonzero(np.append(True, months[1:] != months[:-1]))
    end = np.append(begin, len(months))[n_months:]
    begin = begin[: len(end)]
    windows = Windows(begin, end, months[begin])
    return windows.select(begin >= HISTORY_DAYS)


# Estimates: entry t of every array is computed from the days before t.


def exponentially_weighted_mean(x: np.ndarray, decay: float) -> np.ndarray:
    """Return S_{t+1} = decay S_t + (1 - decay) x_t, from the mean of the first days.

    Parameters
    ----------
    x : array of shape (n, ...)
    decay : float

    Returns
    -------
    array of shape (n + 1, ...)
        NaN during the warm-up.
    """
    start = x[:WARMUP_DAYS].mean(axis=0, keepdims=True)
    later, _ = lfilter(
        [1 - decay], [1, -decay], x[WARMUP_DAYS:], axis=0, zi=decay * start
    )
    before = np.full((WARMUP_DAYS, *x.shape[1:]), np.nan)
    return np.concatenate([before, start, later])


def volatilities(S: np.ndarray) -> np.ndarray:
    """Return the square roots of the variances, (..., d)."""
    return np.sqrt(np.diagonal(S, axis1=-2, axis2=-1))


def combine_decays(fast: np.ndarray, slow: np.ndarray) -> np.ndarray:
    """Return the volatilities of one covariance with the correlations of the other."""
    s = volatilities(fast) / volatilities(slow)
    return s[..., :, None] * slow * s[..., None, :]


def fit_factor_model(S: np.ndarray, k: int, steps: int = 30) -> np.ndarray:
    """Return covariances with the variances of S and correlations of k factors.

    Correlations are LL' + diag(v). L begins with principal factors, which steps of
    expectation maximisation change to those of maximum likelihood (Rubin and Thayer,
    1982).

    Parameters
    ----------
    S : array of shape (..., d, d)
    k : int
        The number of factors.
    steps : int, default=30

    Returns
    -------
    array of shape (..., d, d)
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
    return combine_decays(S, L @ L.mT + v[..., None] * np.eye(S.shape[-1]))


def mean_correlation(S: np.ndarray) -> np.ndarray:
    """Return the mean of the correlations of different shares, (...)."""
    s = volatilities(S)
    d = S.shape[-1]
    correlations = S / s[..., :, None] / s[..., None, :]
    return (np.sum(correlations, axis=(-2, -1)) - d) / (d * (d - 1))


def make_features(
    returns: np.ndarray, ewma: dict[float, np.ndarray], base: np.ndarray
) -> np.ndarray:
    """Return the inputs of the networks: volatilities, returns and correlations.

    Volatilities and returns are relative to the level of the baseline.

    Parameters
    ----------
    returns : array of shape (n, d)
    ewma : dict of arrays of shape (n + 1, d, d)
        Exponentially weighted covariances by decay.
    base : array of shape (n + 1, d, d)
        The baseline.

    Returns
    -------
    array of shape (n + 1, p)
    """
    market = returns.mean(axis=1)
    level = np.log(volatilities(base)).mean(axis=1)
    columns = []
    for decay in (0.94, 0.97, 0.99, 0.9975):
        columns.append(np.log(volatilities(ewma[decay])).mean(axis=1) - level)
    for decay in (0.94, 0.9975):
        market_variance = exponentially_weighted_mean(market**2, decay)
        columns.append(np.log(market_variance) / 2 - level)
    for decay in (0.94, 0.99):
        columns.append(exponentially_weighted_mean(market, decay) / np.exp(level))

    slow_correlation = mean_correlation(ewma[0.9975])
    columns.append(slow_correlation)
    for decay in (0.97, 0.99):
        columns.append(mean_correlation(ewma[decay]) - slow_correlation)
    return np.stack(columns, axis=1)


def principal_root(S: np.ndarray) -> np.ndarray:
    """Return L with S = LL': principal axes, largest first.

    Each axis points to the side on which most shares rise.
    """
    values, V = np.linalg.eigh(S)
    V = V * np.where(V.sum(axis=-2, keepdims=True) < 0, -1, 1)
    return (V * np.sqrt(values)[..., None, :])[..., ::-1]


# Covariances S = T'T are represented by factors T (..., d, d).


def cholesky_factor(S: np.ndarray) -> np.ndarray:
    """Return an upper triangular T with S = T'T."""
    return np.linalg.cholesky(S).mT


def mean_factor(T: np.ndarray) -> np.ndarray:
    """Return the factor of the mean covariance, for T (k, ..., m, d).

    It is computed by QR, so that nothing is squared.
    """
    return np.linalg.qr(np.concatenate(list(T / len(T) ** 0.5), axis=-2)).R


def log_likelihood(T: np.ndarray, W: np.ndarray) -> np.ndarray:
    """Return the mean log density under N(0, T'T) of days whose mean of rr' is W."""
    logdet = 2 * np.linalg.slogdet(T)[1]
    quotient = np.linalg.solve(T, np.linalg.solve(T.mT, W))
    quadratic = np.trace(quotient, axis1=-2, axis2=-1)
    return -(T.shape[-1] * np.log(2 * np.pi) + logdet + quadratic) / 2
