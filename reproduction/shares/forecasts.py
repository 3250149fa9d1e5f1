"""Forecasts of the covariance of the days ahead: the usual estimates, and networks.

The baseline that networks correct has the volatilities of one EWMA and the correlations of a slower
one; a factor model explains those correlations by a few factors. Each is tuned on the past.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.covariance import ledoit_wolf

from reproduction.shares import market as data
from reproduction.shares import networks

DECAYS = (0.94, 0.97, 0.98, 0.985, 0.99, 0.995, 0.9975, 0.999)
SLOW, FACTORS = (0.99, 0.995, 0.9975, 0.999), (1, 2, 3, 5, 8)
WINDOWS = (21, 63, 126, 250, 500, data.HISTORY)
EWMA, LEDOIT_WOLF = "EWMA, tuned decay", "Ledoit-Wolf, tuned window"
BASE, FACTOR = "EWMA, two decays", "factor model"
SCALED = "two decays, scaled as by the joint"


class Forecasts(NamedTuple):
    """What was forecast for windows of days."""

    windows: data.Windows
    factors: dict[str, np.ndarray]  # (windows, d, d) by method
    single: dict[str, np.ndarray]  # (seeds, windows, d, d) by network


def estimates(
    r: np.ndarray, ewma: dict, at: np.ndarray
) -> dict[str, dict[Any, np.ndarray]]:
    """Factors (windows, d, d) by method and by what is to be tuned in it."""
    plain = {decay: S[at] for decay, S in ewma.items()}
    shrunk = {
        w: [ledoit_wolf(r[t - w : t], assume_centered=True)[0] for t in at]
        for w in WINDOWS
    }
    mixed = {(f, s): data.two_decays(plain[f], plain[s]) for f in DECAYS for s in SLOW}
    counts = [k for k in FACTORS if k < r.shape[1]]
    explained = {(s, k): data.of_factors(plain[s], k) for s in SLOW for k in counts}
    few = {
        (f, *c): data.two_decays(plain[f], S)
        for f in DECAYS
        for c, S in explained.items()
    }
    found = {EWMA: plain, LEDOIT_WOLF: shrunk, BASE: mixed, FACTOR: few}
    return {
        name: {c: data.factored(S) for c, S in by.items()} for name, by in found.items()
    }


def forecasts(
    market: data.Market, settings: Any, months: int, chosen: Mapping, every: int
) -> Forecasts:
    """Forecasts for windows of so many months in the test years, one begins `every` so many months.

    `chosen` has a (kind, `Choice`) for the name of each network. A block of test years is forecast
    by what was trained, or tuned, on windows that ended before it.
    """
    r, all_windows = market.returns, data.windows_of(market, months)
    squares, W = r[:, :, None] * r[:, None, :], all_windows.covariances(r)
    ewma = {decay: data.weighted(squares, decay) for decay in DECAYS}
    tuned = estimates(r, ewma, all_windows.begin)
    limit = np.searchsorted(market.dates, np.datetime64(f"{settings.last + 1}-01-01"))
    year, factors, single = all_windows.year, {}, {}
    test = (
        (year >= settings.first)
        & (all_windows.end <= limit)
        & (all_windows.month % every == 0)
    )
    for start in range(settings.first, settings.last + 1, settings.block):
        now = test & (year >= start) & (year < start + settings.block)
        if not np.any(now):
            continue
        at = all_windows.begin[now]
        past = all_windows.end <= at[0]
        best = {
            name: max(
                by, key=lambda c: data.log_likelihood(by[c][past], W[past]).mean()
            )
            for name, by in tuned.items()
        }
        print(
            f"{start}: " + ", ".join(f"{n}: {choice}" for n, choice in best.items()),
            flush=True,
        )
        base = data.two_decays(*(ewma[decay] for decay in best[BASE]))
        before = networks.Past(
            r, data.features(r, ewma, base), base, months * data.MONTH
        )
        constant = data.factored(squares[: at[0]].mean(axis=0))
        last = np.array([squares[t - before.days : t].mean(axis=0) for t in at])
        block = {
            "constant": np.broadcast_to(constant, W[now].shape),
            "last days, as many": data.factored(last),
            "EWMA, decay 0.94": tuned[EWMA][0.94][now],
            **{name: by[best[name]][now] for name, by in tuned.items()},
        }
        for name, (kind, choice) in chosen.items():
            T = networks.network_forecasts(kind, choice, before, at, settings)
            single.setdefault(name, []).append(T)
            block[name] = data.mean_factor(T)
        if networks.JOINT in block:
            block[SCALED] = scaled_as(block[BASE], block[networks.JOINT])
        for name, T in block.items():
            factors.setdefault(name, []).append(T)
    factors = {name: np.concatenate(T) for name, T in factors.items()}
    single = {name: np.concatenate(T, axis=1) for name, T in single.items()}
    return Forecasts(all_windows.some(test), factors, single)


def scaled_as(T: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The covariances of T times tr(S^-1 S_other) / d: the scale that another forecast has."""
    ratio = np.linalg.solve(T.mT, other.mT)
    return np.linalg.norm(ratio, axis=(1, 2), keepdims=True) / T.shape[-1] ** 0.5 * T
