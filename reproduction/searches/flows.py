"""Which settings suit the neural spline flow of the Frey table? Needs flowjax (extra `bench`).

    python -m reproduction.searches.flows [--data DIR] [--out FILE] [--jobs 4]

Judged by the validation rows alone, on splits that the table does not use (seeds from 100 on);
their test parts are never looked at. Every trial has three splits, the best four of them all six of
the other searches. What was tried is written to results/search/flows.json, and the best, by the
mean over six splits, is printed: reproduction/vaes/flow_settings.json holds it.
"""

import dataclasses
import itertools
import json
from pathlib import Path

import numpy as np

from mmlp.cli.dataclass_parser import parse_or_exit
from reproduction.harness.jobs import each, kept
from reproduction.searches.vaes import FIRST_SEED, write
from reproduction.vaes.data import Data
from reproduction.vaes.flows import Flow, fit_flows, score

OUT = Path(__file__).parents[2] / "results" / "search" / "flows.json"
FIRST, ALL = range(FIRST_SEED, FIRST_SEED + 3), range(FIRST_SEED, FIRST_SEED + 6)
FINALISTS = 4
BOTH = (0.1, 0.15)
# (changes, rates, noises) of what is trained at once, the longest first
TRIALS = (
    ({"transforms": 5, "width": 256}, (0.001,), (0.1,)),
    ({"width": 256}, (0.001,), (0.1,)),
    ({"transforms": 5, "width": 128}, (0.001, 0.002), BOTH),
    ({"transforms": 8}, (0.001, 0.002), BOTH),
    ({"optimizer": "muon", "transforms": 5}, (0.003, 0.006), BOTH),
    ({"transforms": 5}, (0.001, 0.002), BOTH),
    ({"width": 128}, (0.001, 0.002), BOTH),
    ({"optimizer": "muon"}, (0.003, 0.006), BOTH),
    ({}, (0.001, 0.002), BOTH),
    ({"epochs": 200}, (0.002,), BOTH),
    ({}, (0.002,), (0.05, 0.2)),
    ({}, (0.004,), BOTH),
    ({"decay": 1.0}, (0.002,), BOTH),
)


@dataclasses.dataclass(frozen=True)
class Settings(Data):
    """Try shapes, optimisers, step sizes, weight decay and noise for the neural spline flow."""

    epochs: int = 100  # but for the trials that have their own
    jobs: int = 2  # processes that share the work, on a CPU
    out: Path = OUT


def cells(settings: Settings, changes: dict, rates, noises) -> list[Flow]:
    flow = dataclasses.replace(Flow(epochs=settings.epochs), **changes)
    pairs = itertools.product(rates, noises)
    return [dataclasses.replace(flow, rate=rate, noise=noise) for rate, noise in pairs]


def validated(settings: Settings, flows: list[Flow], seeds: range) -> list[dict]:
    """An entry for each flow, as it stands in the file."""

    def make() -> dict[str, list]:
        splits = settings.splits(seeds)
        values = score(fit_flows(flows, splits).model, splits, part="validation")
        return {"validation": np.round(values.reshape(-1, len(flows)).T, 3).tolist()}

    rows = [dataclasses.asdict(flow) for flow in flows]
    about = {"search": rows, "images": settings.images, "seeds": list(seeds)}
    found = kept(settings.keep, about, make)["validation"]
    task = {"seeds": len(seeds)}
    return [
        row | task | {"validation": value}
        for row, value in zip(rows, found, strict=True)
    ]


def mean(entry: dict) -> float:
    value = float(np.mean(entry["validation"]))
    return value if np.isfinite(value) else -np.inf


def flow_of(entry: dict) -> Flow:
    return Flow(**{field.name: entry[field.name] for field in dataclasses.fields(Flow)})


def search(settings: Settings) -> Flow:
    """Write what was tried; gives the settings at their best."""
    settings.read()  # before any work: a file that is missing is told, or downloaded, once
    work = [(settings, cells(settings, *trial), FIRST) for trial in TRIALS]
    tried = list(itertools.chain(*each(validated, work, "search", settings.jobs)))
    best = sorted(tried, key=mean, reverse=True)[:FINALISTS]
    work = [(settings, [flow_of(entry)], ALL) for entry in best]
    finals = list(itertools.chain(*each(validated, work, "finals", settings.jobs)))
    note = f"{len(tried)} trials on three splits, the best {FINALISTS} on six (which have a start "
    note += "of their own); log-densities in nats per image. Made by reproduction/searches/flows.py."
    write({"note": note, "tried": tried + finals}, settings.out)
    return flow_of(max(finals, key=mean))


if __name__ == "__main__":
    settings = parse_or_exit(Settings, "python -m reproduction.searches.flows")
    print(json.dumps(dataclasses.asdict(search(settings))))
