"""`mmlp.report`: one page about a model, from rows whose targets are known."""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mmlp._version import __version__
from mmlp.estimators.target_columns import check_names
from mmlp.reporting import density_report, regression_report, spd_report
from mmlp.reporting.number_format import format_count
from mmlp.reporting.page import write_page
from mmlp.reporting.progress import Progress
from mmlp.reporting.rows import Rows, choose_names, join_names

# Each module has `max_rows(model, rows)` and
# `build_sections(model, rows, train, about_rows, progress)`.
REPORTS: dict[str, Any] = {
    "regression": regression_report,
    "spd": spd_report,
    "vae": density_report,
}
TARGET_DIMENSIONS = {None: 0, "columns": 2, "matrices": 3}
WARNING_TRAINING_ROWS = (
    "The model and the baselines were fitted to these rows, so their scores are too "
    "good. Hold some rows out of training, for example with --test 0.2."
)
# This stands near the beginning of every page of this library.
SIGNATURE = b"<title>matrix-mlp: "
SIGNATURE_WITHIN_BYTES = 4096


def report(
    model: Any,
    X: Any,
    y: Any = None,
    folder: str | os.PathLike = "report",
    *,
    train: tuple | None = None,
    inputs: Sequence[str] | None = None,
    targets: Sequence[str] | None = None,
    place: Callable[[int], str] = "row {} (from 0)".format,
    title: str | None = None,
    progress: bool = True,
) -> Path:
    """Write a page about a fitted estimator, FOLDER/index.html.

    The page shows scores beside those of simple baselines, calibration, predictions
    against observations, the importance of inputs, the worst rows and the training
    curves. It is one file that needs no network. Other files of the folder are not
    touched. Large tables are sampled at random, and the page says so.

    Parameters
    ----------
    model : MultivariateRegressor, SPDRegressor or MatrixVAE
        A fitted estimator. For a pipeline pass its last step and transformed rows.
    X : array-like or data frame of shape (n_rows, n_inputs)
        Inputs as in `fit`, preferably of rows that the model was not fitted to.
    y : array-like of shape (n_rows, n_targets) or (n_rows, d, d), optional
        Targets as in `fit`; not for a `MatrixVAE`. Rows with unknown targets are left
        out.
    folder : str or path, default="report"
        Folder of the page. It is created if necessary.
    train : tuple (X, y), optional
        The training rows, which baselines are fitted to. By default they are evaluated
        by five-fold cross-validation on the rows of the report.
    inputs : sequence of str, optional
        Names of the inputs. By default those of the data frame or of the model.
    targets : sequence of str, optional
        Names of the targets.
    place : callable, optional
        Turns the position of a row (from 0) into words for the list of the worst rows.
    title : str, optional
        Title of the page.
    progress : bool, default=True
        Whether to print the steps on stderr if they take longer than two seconds.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    ValueError
        If the model is of another library, the rows do not fit it or no target is
        known, or the folder holds a page that this library did not write.

    Examples
    --------
    A page about held-out rows, with baselines that are fitted to the training rows::

        mmlp.report(model, X_test, y_test, "page", train=(X_train, y_train))
    """
    kind = REPORTS.get(getattr(model, "kind", ""))
    if kind is None:
        raise ValueError(
            "`report(model=...)` must be a fitted MultivariateRegressor, SPDRegressor "
            f"or MatrixVAE, got {type(model).__name__}; for a pipeline pass its last "
            "step and transformed rows."
        )
    check_is_fitted(model)
    path = check_folder(Path(folder)) / "index.html"

    def read_rows(X: Any, y: Any = None) -> Rows:
        return arrange_rows(
            model, X, y, inputs=inputs, targets=targets, describe_row=place
        )

    all_rows = read_rows(X, y)
    rows = all_rows.sample(kind.max_rows(model, all_rows))
    training_rows = None
    if train is not None:
        training_rows = read_rows(*train).sample(regression_report.MAX_ROWS)
    about_rows = _describe_rows(
        rows, training_rows, n_known=len(all_rows), n_unknown=len(X) - len(all_rows)
    )

    steps = Progress(show=progress)
    try:
        sections = kind.build_sections(model, rows, training_rows, about_rows, steps)
    finally:
        steps.end()
    if train is not None and train[0] is X:
        sections[0].warning = WARNING_TRAINING_ROWS

    path.parent.mkdir(parents=True, exist_ok=True)
    write_page(
        path,
        "model_report.html",
        title=title or "A model and its predictions",
        about=_describe_model(model, rows),
        sections=sections,
    )
    return path


def check_folder(folder: Path) -> Path:
    """Return the folder of a report, unless writing there would lose something.

    Raises
    ------
    ValueError
        If it is a file, or holds a page that this library did not write.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"the report's folder {folder} is a file; name a folder.")
    page = folder / "index.html"
    if page.exists() and SIGNATURE not in page.read_bytes()[:SIGNATURE_WITHIN_BYTES]:
        raise ValueError(
            f"{page} was not written by this library; name another folder for the "
            "report."
        )
    return folder


def arrange_rows(
    model: Any,
    X: Any,
    y: Any,
    *,
    inputs: Sequence[str] | None,
    targets: Sequence[str] | None,
    describe_row: Callable[[int], str],
) -> Rows:
    """Return the rows whose targets are known; see `report` for the parameters.

    Raises
    ------
    ValueError
        If the shapes do not fit the model, or no row is left.
    """
    if not hasattr(X, "iloc"):
        X = np.asarray(X)
    if X.ndim != 2 or not len(X):
        raise ValueError(
            f"`report(X=...)` must have shape (n, p), n at least 1, got {X.shape}."
        )

    if model.targets is None:
        values = np.zeros((len(X), 0))
    else:
        values = _check_targets(model, X, y)
    rows = Rows(
        X=X,
        y=values,
        inputs=choose_names(
            inputs,
            X,
            getattr(model, "feature_names_in_", None),
            letter="x",
            n=X.shape[1],
        ),
        targets=choose_names(
            targets,
            y,
            getattr(model, "target_names_", None),
            letter="y",
            n=model.n_targets,
        ),
        row_numbers=np.arange(len(X)),
        describe_row=describe_row,
        kinds=getattr(getattr(model, "columns_", None), "kinds_", ()),
    )

    known = ~np.isnan(values.reshape(len(values), -1)).any(axis=1)
    if not known.any():
        raise ValueError(
            "a report needs a row whose targets (y) are all known; there is none."
        )
    return rows if known.all() else rows.take(np.flatnonzero(known))


def _check_targets(model: Any, X: Any, y: Any) -> np.ndarray:
    """Return y as an array that fits the model and X, or raise a ValueError."""
    check_names("report", y, getattr(model, "target_names_", None))
    dimensions = TARGET_DIMENSIONS[model.targets]
    values = np.asarray(y, np.float64)
    if values.ndim == 1 and dimensions == 2:
        values = values[:, None]

    fits = values.ndim == dimensions and len(values) == len(X)
    if fits and model.n_targets:
        fits = values.shape[1] == model.n_targets
    if not fits:
        shape = "(n, d)" if dimensions == 2 else "(n, d, d)"
        if model.n_targets:
            shape += f" with d = {model.n_targets}"
        raise ValueError(
            f"`report(X, y)` needs rows X (n, p) and y {shape}, got shapes {X.shape} "
            f"and {np.shape(y)}."
        )
    return values


def _describe_model(model: Any, rows: Rows) -> str:
    """Say what the model predicts from what, and when the page was made."""
    names = [rows.inputs[j] for j in rows.used_columns]
    inputs = f"{format_count(len(names), 'input')} ({join_names(names)})"
    targets = ""
    if rows.targets:
        count = format_count(len(rows.targets), "target")
        targets = f", {count} ({join_names(rows.targets)})"
    return (
        f"A model of kind {model.kind} with {inputs}{targets}. Made on "
        f"{time.strftime('%Y-%m-%d')} by matrix-mlp {__version__}."
    )


def _describe_rows(
    rows: Rows, training_rows: Rows | None, *, n_known: int, n_unknown: int
) -> str:
    """Say which rows the page is about, and what the baselines were fitted to."""
    text = f"{len(rows):,} rows" if len(rows) > 1 else "One row"
    if len(rows) < n_known:
        text += f" of {n_known:,}, drawn at random"
    sentences = [f"{text}."]
    if n_unknown:
        sentences.append(f"{n_unknown:,} rows with missing targets are left out.")
    if training_rows is None:
        sentences.append(
            "Baselines are evaluated by five-fold cross-validation on these rows."
        )
        sentences.append(
            "If the model was fitted to any of them, its scores are too good."
        )
    else:
        sentences.append(
            f"Baselines were fitted to {len(training_rows):,} training rows, like the "
            "model."
        )
    return " ".join(sentences)
