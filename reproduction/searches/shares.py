"""Which settings suit the networks of the shares table? The same trials for each.

    python -m reproduction.searches.shares --data DIR [--kinds "matrix MLP"] [--out FILE]

Half of a grid of rate, strength, sizes and start, for each network and horizon; the year has two
lower rates, added after all had done best with the lowest. Judged by the log-likelihood of windows
within 1997 to 2004, one from each month, each forecast from the days before its block of three
years; no later day is read. What was tried is written to results/search/shares.json, the best are
what reproduction/shares/networks.py has. Half an hour on one core.
"""

import dataclasses
import itertools
import json
from pathlib import Path

import numpy as np

from mmlp import atomic_files
from mmlp.cli.dataclass_parser import parse_or_exit
from mmlp.reporting.records import describe_device
from reproduction.shares import market as data
from reproduction.shares.forecasts import forecasts
from reproduction.shares.networks import BEST, HORIZONS, LARGE, SMALL, Choice

OUT = Path(__file__).parents[2] / "results" / "search" / "shares.json"
RATES = {
    "month": (0.0003, 0.001, 0.003),
    "year": (0.00003, 0.0001, 0.0003, 0.001, 0.003),
}
STRENGTHS, STARTS = (0.2, 0.5), (0.01, 0.1)
SIZES = (SMALL, LARGE)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Try rates, strengths, sizes and starts of the networks that forecast covariances."""

    data: Path | None = None
    kinds: tuple[str, ...] = tuple(BEST)
    horizons: tuple[str, ...] = tuple(HORIZONS)
    shares: int = 20
    first: int = 1997
    last: int = 2004
    block: int = 3
    seeds: int = 6
    origins: int = 400
    epochs: int = 20
    batch_size: int = 50
    out: Path = OUT


def trials(horizon: str) -> list[Choice]:
    """Each pair of values of two settings is tried as often as any other."""
    grid = itertools.product(
        enumerate(RATES[horizon]), enumerate(STRENGTHS), enumerate(SIZES)
    )
    return [
        Choice(strength, STARTS[(i + j + k) % 2], rate, sizes)
        for (i, rate), (j, strength), (k, sizes) in grid
    ]


def entries(
    market: data.Market, settings: Settings, horizon: str, kind: str
) -> list[dict]:
    """One for each trial, best first, and the gain on the estimate that is corrected."""
    choices = {
        str(number): (kind, choice) for number, choice in enumerate(trials(horizon))
    }
    result = forecasts(market, settings, HORIZONS[horizon], choices, every=1)
    W = result.windows.covariances(market.returns)
    scores = {
        name: data.log_likelihood(T, W).mean() for name, T in result.factors.items()
    }
    best = sorted(choices, key=lambda name: -scores[name])
    rows = [
        {**choices[n][1]._asdict(), "validation": round(float(scores[n]), 4)}
        for n in best
    ]
    others = {
        n: round(float(score), 4) for n, score in scores.items() if n not in choices
    }
    print(json.dumps({"horizon": horizon, "estimates": others}), flush=True)
    return [{"horizon": horizon, "kind": kind, **row} for row in rows]


def search(settings: Settings) -> None:
    market = data.find_market(settings.data, settings.shares)
    before = market.dates < np.datetime64(f"{settings.last + 1}-01-01")
    market = market._replace(dates=market.dates[before], returns=market.returns[before])
    known = (
        json.loads(settings.out.read_text())["tried"] if settings.out.exists() else []
    )
    for kind, horizon in itertools.product(settings.kinds, settings.horizons):
        tried = entries(market, settings, horizon, kind)
        print(json.dumps(tried[0]), flush=True)
        known = [
            e for e in known if (e["kind"], e["horizon"]) != (kind, horizon)
        ] + tried
        lines = ",\n".join(f"  {json.dumps(entry)}" for entry in known)
        head = json.dumps(
            {"years": [settings.first, settings.last], "device": describe_device()}
        )
        atomic_files.replace_file(
            settings.out, f'{head[:-1]}, "tried": [\n{lines}\n]}}\n'.encode()
        )


if __name__ == "__main__":
    search(parse_or_exit(Settings, "python -m reproduction.searches.shares"))
