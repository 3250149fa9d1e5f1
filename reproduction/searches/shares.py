"""Search the settings of the networks of the shares table.

    python -m reproduction.searches.shares --data DIR [--kinds "matrix MLP"]

Each network and horizon has the same trials: half of a grid of learning rate, strength,
sizes and start. The year has two lower rates, added after all had done best with the
lowest. Trials are judged by the log-likelihood of windows within 1997 to 2004, one from
each month, each forecast from the days before its block of three years; no later day is
read. All trials are written to results/search/shares.json; the best are in
reproduction/shares/networks.py. It takes half an hour on one core.
"""

import dataclasses
import itertools
import json
from pathlib import Path

import numpy as np

from mmlp import atomic_files
from mmlp.cli.dataclass_parser import parse_or_exit
from mmlp.reporting.records import describe_device
from reproduction.shares.forecasts import make_forecasts
from reproduction.shares.market import Market, find_market, log_likelihood
from reproduction.shares.networks import BEST_CHOICES, HORIZONS, LARGE, SMALL, Choice

OUT = Path(__file__).parents[2] / "results" / "search" / "shares.json"
RATES = {
    "month": (0.0003, 0.001, 0.003),
    "year": (0.00003, 0.0001, 0.0003, 0.001, 0.003),
}
STRENGTHS = (0.2, 0.5)
STARTS = (0.01, 0.1)
SIZES = (SMALL, LARGE)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Try learning rates, strengths, sizes and starts of the networks."""

    data: Path | None = None
    kinds: tuple[str, ...] = tuple(BEST_CHOICES["month"])
    horizons: tuple[str, ...] = tuple(HORIZONS)
    # The others are as in the experiment `shares`.
    shares: int = 20
    first: int = 1997
    last: int = 2004
    block: int = 3
    seeds: int = 6
    origins: int = 400
    epochs: int = 20
    batch_size: int = 50
    out: Path = OUT


def search(settings: Settings) -> None:
    """Run all trials, and add them to the file after each network and horizon."""
    market = find_market(settings.data, settings.shares)
    before_end = market.dates < np.datetime64(f"{settings.last + 1}-01-01")
    market = market._replace(
        dates=market.dates[before_end], returns=market.returns[before_end]
    )

    entries = []
    if settings.out.exists():
        entries = json.loads(settings.out.read_text())["tried"]
    for kind, horizon in itertools.product(settings.kinds, settings.horizons):
        trials = run_trials(market, settings, horizon, kind)
        print(json.dumps(trials[0]), flush=True)
        others = [
            entry
            for entry in entries
            if (entry["kind"], entry["horizon"]) != (kind, horizon)
        ]
        entries = others + trials
        write_entries(settings, entries)


def write_entries(settings: Settings, entries: list[dict]) -> None:
    """Write the file, with a line for each entry."""
    lines = ",\n".join(f"  {json.dumps(entry)}" for entry in entries)
    head = json.dumps(
        {"years": [settings.first, settings.last], "device": describe_device()}
    )
    content = f'{head[:-1]}, "tried": [\n{lines}\n]}}\n'
    atomic_files.replace_file(settings.out, content.encode())


def list_choices(horizon: str) -> list[Choice]:
    """Return half of the grid: pairs of values of two settings are equally common."""
    return [
        Choice(strength, STARTS[(i + j + k) % 2], rate, sizes)
        for i, rate in enumerate(RATES[horizon])
        for j, strength in enumerate(STRENGTHS)
        for k, sizes in enumerate(SIZES)
    ]


def run_trials(
    market: Market, settings: Settings, horizon: str, kind: str
) -> list[dict]:
    """Return an entry for each trial, best first, and print the usual estimates."""
    choices = {
        str(number): (kind, choice)
        for number, choice in enumerate(list_choices(horizon))
    }
    forecasts = make_forecasts(market, settings, HORIZONS[horizon], choices, every=1)
    W = forecasts.windows.covariances(market.returns)
    scores = {
        name: log_likelihood(T, W).mean() for name, T in forecasts.factors.items()
    }
    estimates = {
        name: round(float(score), 4)
        for name, score in scores.items()
        if name not in choices
    }
    print(json.dumps({"horizon": horizon, "estimates": estimates}), flush=True)

    entries = []
    for name in sorted(choices, key=lambda name: -scores[name]):
        _, choice = choices[name]
        entries.append(
            {
                "horizon": horizon,
                "kind": kind,
                **choice._asdict(),
                "validation": round(float(scores[name]), 4),
            }
        )
    return entries


if __name__ == "__main__":
    search(parse_or_exit(Settings, "python -m reproduction.searches.shares"))
