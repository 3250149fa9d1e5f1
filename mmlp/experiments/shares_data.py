"""Daily returns of shares, from a CSV file or made up, and the usual estimates of their covariance: for shares.py."""

import csv
import gzip
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.signal import lfilter

WARMUP = 250  # days before the first estimate
HISTORY = 1000  # days before the first forecast: the longest window
DAYS = 1500  # at least: four years to tune on, a month to forecast


class Market(NamedTuple):
    source: str
    names: list[str]
    dates: np.ndarray  # (n,), day t
    returns: np.ndarray  # (n, d), of day t, in per cent


def read_market(path: Path, shares: int) -> Market:
    """Log returns from a CSV file whose first column holds dates and whose others hold prices."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", newline="") as file:
        header, *rows = list(csv.reader(file)) or [[]]
    try:
        dates = np.array([row[0] for row in rows], dtype="datetime64[D]")
        prices = np.array([[float(price) for price in row[1 : shares + 1]] for row in rows])
    except (ValueError, IndexError) as error:
        raise ValueError(
            f"`--prices {path}` must hold a date (2022-12-28) and then numbers in each row: {error}."
        ) from None
    if prices.ndim != 2 or prices.shape[1] < 2 or len(prices) < DAYS:
        raise ValueError(
            f"`--prices {path}` needs two shares and {DAYS} days at least, got shape {prices.shape}."
        )
    if not np.all(prices > 0) or not np.all(np.isfinite(prices)):
        day, share = np.argwhere(~((prices > 0) & np.isfinite(prices)))[0]
        raise ValueError(
            f"`--prices {path}` must be positive, got {prices[day, share]} for {header[share + 1]} on {dates[day]}."
        )
    if not np.all(np.diff(dates).astype(int) > 0):
        raise ValueError(f"`--prices {path}` must have dates in rising order.")
    return Market(
        path.name, header[1 : shares + 1], dates[1:], 100 * np.diff(np.log(prices), axis=0)
    )


def made_up_market(shares: int, seed: int = 0) -> Market:
    """A stand-in: log volatilities of the market and of each share are autoregressive, loadings on the market are fixed."""
    rng, dates = (
        np.random.default_rng(seed),
        np.arange("1990-01-01", "2022-12-29", dtype="datetime64[D]"),
    )
    dates = dates[np.is_busday(dates)]
    n = len(dates)
    log_volatility = lfilter([1], [1, -0.985], 0.07 * rng.standard_normal((n, shares + 1)), axis=0)
    factors = np.exp(log_volatility) * rng.standard_normal((n, shares + 1))
    returns = 0.8 * rng.uniform(0.5, 1.5, shares) * factors[:, :1] + factors[:, 1:]
    return Market("made-up prices", [f"share {i + 1}" for i in range(shares)], dates, returns)


def find_market(data: Path | None, prices: Path | None, shares: int) -> Market:
    """The file `prices`, else sp500_prices.csv.gz in the folder `data`, else made-up prices."""
    path = prices or (data and data / "sp500_prices.csv.gz")
    if path is None:
        return made_up_market(shares)
    if not path.is_file():
        flag = f"--prices {path}" if prices else f"--data {data}"
        raise ValueError(f"`{flag}`: there is no file {path}; without the flag prices are made up.")
    return read_market(path, shares)


def months_of(market: Market) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """First day, last day + 1 and year of each calendar month with a long enough past."""
    months = market.dates.astype("datetime64[M]")
    begin = np.flatnonzero(np.append(True, months[1:] != months[:-1]))
    end, late = np.append(begin[1:], len(months)), begin >= HISTORY
    return begin[late], end[late], months[begin[late]].astype("datetime64[Y]").astype(int) + 1970


# -- estimates: entry t of every array is made from the days before t ---------------------------------------------------


def weighted(x: np.ndarray, decay: float) -> np.ndarray:
    """S_{t+1} = decay S_t + (1 - decay) x_t, from the mean of the first days; x (n, ...) gives (n + 1, ...)."""
    start = x[:WARMUP].mean(axis=0, keepdims=True)
    later = lfilter([1 - decay], [1, -decay], x[WARMUP:], axis=0, zi=decay * start)[0]
    return np.concatenate([np.full((WARMUP, *x.shape[1:]), np.nan), start, later])


def volatilities(S: np.ndarray) -> np.ndarray:
    return np.sqrt(np.diagonal(S, axis1=-2, axis2=-1))


def two_decays(fast: np.ndarray, slow: np.ndarray) -> np.ndarray:
    """The volatilities of one covariance with the correlations of the other."""
    s = volatilities(fast) / volatilities(slow)
    return s[..., :, None] * slow * s[..., None, :]


def mean_correlation(S: np.ndarray) -> np.ndarray:
    s, d = volatilities(S), S.shape[-1]
    return (np.sum(S / s[..., :, None] / s[..., None, :], axis=(-2, -1)) - d) / (d * (d - 1))


def features(returns: np.ndarray, ewma: dict, base: np.ndarray) -> np.ndarray:
    """What the networks see (n + 1, p): volatility over several spans against the baseline's, returns, correlation."""
    market, level = returns.mean(axis=1), np.log(volatilities(base)).mean(axis=1)
    columns = [
        np.log(volatilities(ewma[decay])).mean(axis=1) - level
        for decay in (0.94, 0.97, 0.99, 0.9975)
    ]
    columns += [np.log(weighted(market**2, decay)) / 2 - level for decay in (0.94, 0.9975)]
    columns += [weighted(market, decay) / np.exp(level) for decay in (0.94, 0.99)]
    slow, *fast = (mean_correlation(ewma[decay]) for decay in (0.9975, 0.97, 0.99))
    return np.stack([*columns, slow, *(correlation - slow for correlation in fast)], axis=1)


def principal_root(S: np.ndarray) -> np.ndarray:
    """L with S = LL': the principal axes, largest first, pointing to the side on which most shares rise."""
    values, V = np.linalg.eigh(S)
    V = V * np.where(V.sum(axis=-2, keepdims=True) < 0, -1, 1)
    return (V * np.sqrt(values)[..., None, :])[..., ::-1]


def log_likelihood(S: np.ndarray, W: np.ndarray) -> np.ndarray:
    """The mean log density under N(0, S) of days whose mean of rr' is W, for stacks of matrices (..., d, d)."""
    logdet, quadratic = np.linalg.slogdet(S)[1], np.trace(np.linalg.solve(S, W), axis1=-2, axis2=-1)
    return -(S.shape[-1] * np.log(2 * np.pi) + logdet + quadratic) / 2
