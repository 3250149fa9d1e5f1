"""Forecasts of the covariance of the days ahead: the usual estimates, and networks.

The baseline that networks correct has the volatilities of one EWMA (exponentially
weighted moving average) and the correlations of a slower one. A factor model explains
those correlations by a few factors. Each estimate is tuned on the past.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.covariance import ledoit_wolf

from reproduction.shares import networks
from reproduction.shares.market import (
    DAYS_PER_MONTH,
    HISTORY_DAYS,
    Market,
    Windows,
    cholesky_factor,
    combine_decays,
    exponentially_weighted_mean,
    fit_factor_model,
    log_likelihood,
    make_features,
    make_windows,
    mean_factor,
)

# What is tuned: decays, slow decays, numbers of factors, lengths of windows in days.
DECAYS = (0.94, 0.97, 0.98, 0.985, 0.99, 0.995, 0.9975, 0.999)
SLOW_DECAYS = (0.99, 0.995, 0.9975, 0.999)
N_FACTORS = (1, 2, 3, 5, 8)
WINDOW_DAYS = (21, 63, 126, 250, 500, HISTORY_DAYS)

# Methods.
CONSTANT = "constant"
LAST_DAYS = "last days, as many"
EWMA_094 = "EWMA, decay 0.94"
EWMA = "EWMA, tuned decay"
LEDOIT_WOLF = "Ledoit-Wolf, tuned window"
BASE = "EWMA, two decays"
FACTOR = "factor model"
SCALED = "two decays, scaled as by the joint"


class Forecasts(NamedTuple):
    """Forecasts for windows of days.

    Parameters
    ----------
    windows : Windows
    factors : dict of arrays of shape (windows, d, d)
        Factors by method.
    single : dict of arrays of shape (seeds, windows, d, d)
        Factors of the single networks, by their name.
    """

    windows: Windows
    factors: dict[str, np.ndarray]
    single: dict[str, np.ndarray]


def make_estimates(
    returns: np.ndarray, ewma: dict[float, np.ndarray], days: np.ndarray
) -> dict[str, dict[Any, np.ndarray]]:
    """Return estimates before the given days, for all settings to be tuned.

    Parameters
    ----------
    returns : array of shape (n, d)
    ewma : dict of arrays of shape (n + 1, d, d)
        Exponentially weighted covariances by decay.
    days : array of int, shape (windows,)

    Returns
    -------
    dict of dict of arrays of shape (windows, d, d)
        Factors by method and setting.
    """
    weighted = {decay: S[days] for decay, S in ewma.items()}

    shrunk = {}
    for length in WINDOW_DAYS:
        shrunk[length] = [
            ledoit_wolf(returns[t - length : t], assume_centered=True)[0] for t in days
        ]

    two_decays = {}
    factor_models = {}
    for fast in DECAYS:
        for slow in SLOW_DECAYS:
            two_decays[fast, slow] = combine_decays(weighted[fast], weighted[slow])

    n_shares = returns.shape[1]
    factor_correlations = {
        (slow, k): fit_factor_model(weighted[slow], k)
        for slow in SLOW_DECAYS
        for k in N_FACTORS
        if k < n_shares
    }
    for fast in DECAYS:
        for (slow, k), S in factor_correlations.items():
            factor_models[fast, slow, k] = combine_decays(weighted[fast], S)

    covariances = {
        EWMA: weighted,
        LEDOIT_WOLF: shrunk,
        BASE: two_decays,
        FACTOR: factor_models,
    }
    return {
        method: {setting: cholesky_factor(S) for setting, S in by_setting.items()}
        for method, by_setting in covariances.items()
    }


def make_forecasts(
    market: Market,
    settings: Any,
    n_months: int,
    choices: Mapping[str, tuple[str, networks.Choice]],
    every: int,
) -> Forecasts:
    """Forecast windows in the test years.

    A block of test years is forecast by what was trained, or tuned, on windows that
    ended before it.

    Parameters
    ----------
    market : Market
    settings : Settings
        With first and last test year, years per block, and settings of the networks.
    n_months : int
        The length of a window.
    choices : mapping from name to (kind, Choice)
        The networks.
    every : int
        A window begins every so many months.

    Returns
    -------
    Forecasts
    """
    returns = market.returns
    windows = make_windows(market, n_months)
    W = windows.covariances(returns)
    squares = returns[:, :, None] * returns[:, None, :]
    ewma = {decay: exponentially_weighted_mean(squares, decay) for decay in DECAYS}
    estimates = make_estimates(returns, ewma, windows.begin)

    end_of_test = np.datetime64(f"{settings.last + 1}-01-01")
    is_test = (
        (windows.year >= settings.first)
        & (windows.end <= np.searchsorted(market.dates, end_of_test))
        & (windows.month % every == 0)
    )

    factors: dict[str, list] = {}
    single: dict[str, list] = {}
    for year in range(settings.first, settings.last + 1, settings.block):
        in_block = (windows.year >= year) & (windows.year < year + settings.block)
        now = is_test & in_block
        if not np.any(now):
            continue
        days = windows.begin[now]
        past_windows = windows.end <= days[0]

        best = {
            method: _tune(by_setting, W, past_windows)
            for method, by_setting in estimates.items()
        }
        texts = [f"{method}: {setting}" for method, setting in best.items()]
        print(f"{year}: {', '.join(texts)}", flush=True)

        fast, slow = best[BASE]
        base = combine_decays(ewma[fast], ewma[slow])
        past = networks.Past(
            returns=returns,
            features=make_features(returns, ewma, base),
            base=base,
            days=n_months * DAYS_PER_MONTH,
        )
        constant = cholesky_factor(squares[: days[0]].mean(axis=0))
        last_days = np.array([squares[t - past.days : t].mean(axis=0) for t in days])
        block = {
            CONSTANT: np.broadcast_to(constant, W[now].shape),
            LAST_DAYS: cholesky_factor(last_days),
            EWMA_094: estimates[EWMA][0.94][now],
        }
        for method, by_setting in estimates.items():
            block[method] = by_setting[best[method]][now]
        for name, (kind, choice) in choices.items():
            T = networks.forecast_with_networks(kind, choice, past, days, settings)
            single.setdefault(name, []).append(T)
            block[name] = mean_factor(T)
        if networks.JOINT in block:
            block[SCALED] = scale_like(block[BASE], block[networks.JOINT])
        for method, T in block.items():
            factors.setdefault(method, []).append(T)

    return Forecasts(
        windows=windows.select(is_test),
        factors={method: np.concatenate(T) for method, T in factors.items()},
        single={name: np.concatenate(T, axis=1) for name, T in single.items()},
    )


def _tune(by_setting: dict[Any, np.ndarray], W: np.ndarray, past: np.ndarray) -> Any:
    """Return the setting with the best log-likelihood of past windows."""
    return max(
        by_setting,
        key=lambda setting: log_likelihood(by_setting[setting][past], W[past]).mean(),
    )


def scale_like(T: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the covariances of T times tr(S^-1 S_other) / d.

    They have the scale of another forecast.
    """
    ratio = np.linalg.solve(T.mT, other.mT)
    return np.linalg.norm(ratio, axis=(1, 2), keepdims=True) / T.shape[-1] ** 0.5 * T
