"""`mmlp fit`: train a model on a file, save it, and score it on test rows."""

import contextlib
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mmlp.cli import interrupts
from mmlp.cli.arguments import DEFAULT_REPORT_FOLDER, REPORT_SUFFIX, FitOptions
from mmlp.cli.messages import describe
from mmlp.cli.table_problems import OPTION_WORDING
from mmlp.cli.training_rows import (
    TrainingRows,
    check_far_cells,
    read_training_rows,
    split_rows,
)
from mmlp.errors import AnotherRunError, UnusableCheckpointError
from mmlp.estimators.model_files import kinds, save
from mmlp.estimators.outliers import FarCellWarning
from mmlp.estimators.target_columns import ConstantTargetWarning, describe_constants
from mmlp.tables.number_format import FORMAT_BY_COLUMN
from mmlp.tables.problems import ProblemsError
from mmlp.terminal import escape_controls
from mmlp.training.checkpoints import lock_directory

# Warnings that the command gives itself, in its own words.
REWORDED_WARNINGS = (FarCellWarning, ConvergenceWarning, ConstantTargetWarning)


def fit_model(command: FitOptions, out: Path) -> dict[str, Any]:
    """Train a model, save it, and score it on the rows that `--test` keeps.

    Parameters
    ----------
    command : FitOptions
        What was asked for.
    out : Path
        The model file to write.

    Returns
    -------
    dict
        Scores on the test rows, and the path of the report, by name.
    """
    estimator = kinds()[command.kind](**command.params())
    rows = read_training_rows(command, estimator)
    check_far_cells(command.data, estimator.dtype, rows)
    training_rows, test_rows = split_rows(command, len(rows))
    if rows.summary and not command.quiet:
        print(escape_controls(rows.summary), file=sys.stderr)

    # The model is saved before anything else, whatever may be wrong with the test rows.
    train_and_save(command, estimator, rows, training_rows, out)
    warn_of_constant_targets(estimator, rows)
    warn_of_unfinished_training(estimator)

    results: dict[str, Any] = {}
    if len(test_rows):
        scores = score_rows(estimator, *rows.take(test_rows))
        results = {f"test_{name}": score for name, score in scores.items()}
    if command.report is not None:
        page = write_report(command, estimator, rows, training_rows, test_rows, out)
        results["report"] = str(page)
    return results


def train_and_save(
    command: FitOptions,
    estimator: Any,
    rows: TrainingRows,
    training_rows: np.ndarray,
    out: Path,
) -> None:
    """Fit an estimator, or resume an interrupted fit, and write the model file."""
    inputs = rows.inputs.take(training_rows)
    _, *targets = rows.take(training_rows)
    data = [inputs if estimator.any_columns else inputs.values, *targets]
    estimator.names = inputs.names

    checkpoint = out.with_name(f"{out.name}.checkpoint") / command.kind
    with lock_directory(checkpoint.parent):
        with (
            interrupts.Resumable(checkpoint),
            explain_errors(
                command.data,
                place=lambda row: rows.place(int(training_rows[row])),
                checkpoint=checkpoint,
            ),
        ):
            fit_or_start_anew(estimator, data, checkpoint, command.overwrite)
        if rows.number_format != FORMAT_BY_COLUMN:
            estimator.number_format_ = rows.number_format
        save(
            estimator,
            out,
            feature_names_in_=inputs.names,
            target_names_=rows.target_names,
        )
        if checkpoint.exists():  # not every estimator needs one
            shutil.rmtree(checkpoint)


def fit_or_start_anew(
    estimator: Any, data: list[Any], checkpoint: Path, overwrite: bool
) -> None:
    """Fit from the checkpoint if it can be used; with `overwrite`, else without it.

    The caller holds the lock of the folder: nobody else is at work there.
    """
    with warnings.catch_warnings():
        for category in REWORDED_WARNINGS:
            warnings.simplefilter("ignore", category)
        try:
            estimator.fit(*data, checkpoint=checkpoint)
        except UnusableCheckpointError:
            if not overwrite:
                raise
            shutil.rmtree(checkpoint)
            estimator.fit(*data, checkpoint=checkpoint)


@contextlib.contextmanager
def explain_errors(
    path: Path, *, place: Callable[[int], str], checkpoint: Path
) -> Iterator[None]:
    """Write errors of training with the lines of the file and the command's options."""
    try:
        yield
    except AnotherRunError:
        raise AnotherRunError(
            checkpoint, "keeps an unfinished training with other data or options"
        ) from None
    except UnusableCheckpointError:
        raise
    except ProblemsError as error:
        raise ProblemsError(
            str(path), error.problems, place=place, wording=OPTION_WORDING
        ) from None
    except ValueError as error:
        raise ValueError(f"{path}: {describe(error)}") from error


def warn_of_constant_targets(estimator: Any, rows: TrainingRows) -> None:
    """Name the targets that are constant, which the model predicts without a variance."""
    columns = getattr(estimator, "_target_columns", None)
    if columns is not None and len(columns.constant):
        text = describe_constants(columns, rows.target_names)
        warnings.warn(f"{text}.", stacklevel=2)


def warn_of_unfinished_training(estimator: Any) -> None:
    """Say that more epochs may help, if networks were still improving."""
    n_unfinished, n_networks = estimator.count_unfinished()
    if n_unfinished:
        warnings.warn(
            f"{n_unfinished} of {n_networks} networks were still improving when training "
            f"ended at its limit of {estimator.epochs} epochs; a larger --epochs may give a "
            "better model.",
            stacklevel=2,
        )


def score_rows(estimator: Any, *data: np.ndarray) -> dict[str, float]:
    """Return the number of rows and the scores of predictions for them."""
    return {"rows": len(data[0]), **estimator.scores(*data)}


def write_report(
    command: FitOptions,
    estimator: Any,
    rows: TrainingRows,
    training_rows: np.ndarray,
    test_rows: np.ndarray,
    out: Path,
) -> Path:
    """Write the page about a model, on the test rows or else on the training rows."""
    from mmlp.reporting import report

    training_data = rows.take(training_rows)
    shown_rows = training_rows
    shown_data = training_data
    if len(test_rows):
        shown_rows = test_rows
        shown_data = rows.take(test_rows)
    return report(
        estimator,
        *shown_data,
        folder=find_report_folder(command.report, out),
        train=training_data,
        inputs=rows.inputs.names,
        targets=rows.target_names,
        place=lambda row: rows.place(int(shown_rows[row])),
        title=f"{out.name} on {command.data.name}",
        progress=not command.quiet,
    )


def find_report_folder(folder: Path | None, model: Path) -> Path:
    """Return the folder of the page about a model, by default beside it by name."""
    if folder is None or folder == DEFAULT_REPORT_FOLDER:
        return Path(f"{model.stem}{REPORT_SUFFIX}")
    return folder
