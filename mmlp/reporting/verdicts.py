"""A model beside the baselines: a table of scores, and in words which is better."""

from collections.abc import Mapping, Sequence

import numpy as np

from mmlp.reporting.content import BAD, GOOD, NEUTRAL, Section
from mmlp.reporting.number_format import format_number

SURE = 2.0  # standard errors


def mean_cell(values: np.ndarray) -> dict:
    """Mean and standard error of values of rows."""
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else None
    return {"mean": float(values.mean()), "error": error}


def compare(
    result: Section, gain: np.ndarray, name: str, score: str, unit: str
) -> None:
    """By what rows have gained on average over a baseline of this name."""
    mean, error = gain.mean(), gain.std(ddof=1) / np.sqrt(len(gain))
    size = f"{format_number(abs(float(mean)), float(error))}{unit} a row"
    if not np.isfinite(mean) or abs(mean) <= SURE * error:
        result.claim(NEUTRAL, "level", f"By {score} no different from {name}: {size}.")
    elif mean > 0:
        result.claim(GOOD, "better", f"By {score} {size} better than {name}.")
    else:
        result.claim(BAD, "worse", f"By {score} {size} worse than {name}.")


def marked(
    cells: Mapping[str, Sequence], which: Sequence[int], *, largest: bool = False
) -> list:
    """Rows of a table by name; in some columns the best is marked, if there are others."""
    best = max if largest else min
    for k in which if len(cells) > 1 else ():
        top = best(row[k]["mean"] for row in cells.values())
        for row in cells.values():
            row[k]["best"] = row[k]["mean"] == top
    return [{"name": name, "cells": list(row)} for name, row in cells.items()]
