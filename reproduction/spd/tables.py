"""The errors of Examples 1 and 2 as tables, records and notes."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mmlp.reporting.number_format import round_digits
from mmlp.reporting.tables import mark_best_cells, mean_cell
from reproduction.harness.parallel import show_progress
from reproduction.spd.models import FLOOR_ROW, Model, score_baselines
from reproduction.spd.tasks import HEADINGS, Budget, Task, generate_data

# By (setting, d0, n) and the name of the row: errors of shape (seeds, 3).
Errors = dict[tuple[str, int, int], dict[str, np.ndarray]]

# The rows of a table for a given d0 and setting.
ModelsOf = Callable[[int, str], dict[str, Model]]

# E_quad, E_QRE and E_Stein that the paper reports, by (d0, n, row).
PublishedErrors = Mapping[tuple[int, int, str], tuple[float, float, float]]

ABOUT_ERRORS = "mean and standard error over {0.seeds} seeds, {0.test} test samples."
NOTES = [
    "The paper does not say how the input determines the covariance, nor for how long "
    "it trained; its best errors lie below the noise of 10,000 samples for any "
    "spectrum like ours, so that only ratios can be compared.",
    "The default setting of the generator was chosen out of about a dozen that were "
    "tried with these networks; with two latent factors in place of one the Cholesky "
    "MLP led in nearly all.",
    "One budget of steps for all networks; a fifth of the training samples chooses the "
    "epoch.",
    "Rate and width of each network, and the output of the joint one, are the best by "
    "validation of one grid on other seeds, at each d0 and, for the joint and the "
    "Cholesky MLP, in each setting, with 36 trials each; n = 100, Muon: Adam was "
    "behind by a factor of four and more for matrix and Cholesky MLPs "
    "(reproduction/searches/spd.py, results/search/spd.json). The paper's recipe is "
    "its own: Adam at 0.001, no calibration.",
]


def collect_errors(
    tasks: Sequence[Task], models_of: ModelsOf, label: str, only: Sequence[str] = ()
) -> Errors:
    """Train the models of each task and score them.

    Parameters
    ----------
    tasks : sequence of Task
        Tasks of a single setting each.
    models_of : callable
        Returns the models for a given d0 and setting.
    label : str
        The text beside the progress bar.
    only : sequence of str, default=()
        Names of models. If given, the other models and the baselines are left out.

    Returns
    -------
    Errors
    """
    errors: Errors = {}
    for task in show_progress(tasks, label):
        (setting,) = task.budget.settings
        models = models_of(task.dim, setting)
        rows = {name: models[name].train(task).errors for name in only or models}
        if not only:
            rows |= score_baselines(task)
        errors[setting, task.dim, task.train] = {
            row: values[0] for row, values in rows.items()
        }
    return errors


def select_largest(errors: Errors) -> tuple[int, Errors]:
    """Return the size of the largest training set, and the errors with it."""
    largest = max(n for _, _, n in errors)
    return largest, {
        (setting, d, n): rows
        for (setting, d, n), rows in errors.items()
        if n == largest
    }


def errors_to_json(errors: Errors) -> list[dict]:
    """Return every number behind the tables."""
    return [
        {
            "setting": setting,
            "d0": d,
            "n": n,
            "row": row,
            "errors": round_digits(values),
        }
        for (setting, d, n), rows in errors.items()
        for row, values in rows.items()
    ]


def make_tables(
    errors: Errors, budget: Budget, published: PublishedErrors
) -> list[dict]:
    """Make a table for each setting: groups of d0 and n, with the paper's errors."""
    rows_by_setting: dict[str, list[dict]] = {
        setting: [] for setting in budget.settings
    }
    for (setting, d, n), rows in errors.items():
        cells = {}
        for row, values in rows.items():
            paper = published.get((d, n, row), (None, None, None))
            cells[row] = [
                mean_cell(column, paper=value)
                for column, value in zip(values.T.tolist(), paper, strict=True)
            ]
        rows_by_setting[setting] += [
            {"group": f"d0 = {d}, n = {n}"},
            *mark_best_cells(cells, FLOOR_ROW),
        ]
    return [
        {
            "title": f"Setting: {setting}",
            "note": ABOUT_ERRORS.format(budget).capitalize(),
            "columns": ["", *HEADINGS.values()],
            "rows": rows,
        }
        for setting, rows in rows_by_setting.items()
    ]


def describe_spectra(tasks: Sequence[Task]) -> list[str]:
    """Describe how far the spectra of the targets are spread, for each setting."""
    conditions: dict[str, list[str]] = {}
    for task in tasks:
        (setting,) = task.budget.settings
        median = np.median([data.condition() for data in generate_data(task)])
        conditions.setdefault(setting, []).append(f"{median:.2g} at d0 = {task.dim}")
    return [
        f"Setting {setting}: the largest eigenvalue of a covariance is "
        f"{', '.join(by_dim)} times the smallest."
        for setting, by_dim in conditions.items()
    ]
