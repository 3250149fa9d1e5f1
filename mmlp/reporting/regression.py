"""The report on a `MultivariateRegressor`."""

from collections.abc import Callable

import numpy as np

from mmlp.reporting import calibration, curves, inputs, observed, scores
from mmlp.reporting.baselines import Errors
from mmlp.reporting.content import Section
from mmlp.reporting.rows import Rows, listed

NUMBERS, MOST, LEAST = 2**25, 10_000, 200  # of covariances that are held at once; rows


def most_rows(model, rows: Rows) -> int:
    """How many rows a report takes, so that their covariances fit."""
    width = model.n_targets * (model.rank_ or model.n_targets)
    return int(np.clip(NUMBERS // width, LEAST, MOST))


def _notes_on_constants(model, rows: Rows) -> list[str]:
    """Return a note on targets that are constant, where there are any."""
    constant = np.setdiff1d(np.arange(model.n_targets), model.varying_targets_)
    if not len(constant):
        return []
    names = listed([rows.targets[column] for column in constant])
    return [f"Constant when the model was fitted, and left out of this page: {names}."]


def sections(
    model, rows: Rows, train: Rows | None, how: str, tell: Callable
) -> list[Section]:
    """All sections, for rows with targets y (n, d)."""
    tell("predictions")
    surprise = -np.asarray(model.log_density(rows.X, rows.y), float)
    mean = np.asarray(model.predict(rows.X), float).reshape(rows.y.shape)
    notes = _notes_on_constants(model, rows)
    varying = model.varying_targets_
    mean = mean[:, varying]
    rows = rows.with_targets(varying)
    train = None if train is None else train.with_targets(varying)
    errors = Errors(rows.y - mean, model._error_distribution(rows.X))
    own = scores.scored(errors, surprise)
    found, why = scores.others(model, rows, train, tell)
    result = [scores.section(own, found, rows, how)]
    result[0].notes += [*notes, *([why] if why else [])]
    tell("calibration")
    result.append(calibration.section(own, found, rows))
    tell("predictions against observations")
    result.append(observed.section(errors, mean, rows))
    result += inputs.sections(model, rows, errors, tell)
    result.append(observed.worst(own, mean, rows))
    result.append(curves.curves(model))
    return result
