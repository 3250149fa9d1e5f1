"""`mmlp.report`: one page about a model, on rows whose answers are known."""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mmlp._version import __version__
from mmlp.estimators.target_columns import check_names
from mmlp.reporting import density, regression, spd
from mmlp.reporting.page import write_page
from mmlp.reporting.progress import Progress
from mmlp.reporting.rows import Rows, listed, named

KINDS: dict[str, Any] = {"regression": regression, "spd": spd, "vae": density}
SEEN = (
    "These rows trained the model, and the baselines: on new rows all will do worse. Keep some "
    "from training, such as by --test 0.2."
)
OURS = b"<title>matrix-mlp: "  # in every page of this library


def report(
    model,
    X,
    y=None,
    folder: str | os.PathLike = "report",
    *,
    train: tuple | None = None,
    inputs: Sequence[str] | None = None,
    targets: Sequence[str] | None = None,
    place: Callable[[int], str] = "row {} (from 0)".format,
    title: str | None = None,
    progress: bool = True,
) -> Path:
    """Write a page about a fitted estimator, FOLDER/index.html, from rows with known answers.

    Best are rows that the model was not fitted to: X and y as in `fit`. The page holds scores
    beside simple baselines, calibration, predictions against observations, which inputs matter, the
    worst rows and the curves of training; it needs no network. Baselines learn from `train`, (X, y)
    of the rows of training, if these are given, and else from the rows themselves, by five-fold
    cross-validation. `inputs` and `targets` name the columns, `place` says where a row stands.

    Large tables are drawn from at random, and the page says so. Other files of the folder stay as
    they are. Gives the path of the page.
    """
    kind = KINDS.get(getattr(model, "kind", ""))
    if kind is None:
        known = "MultivariateRegressor, SPDRegressor or MatrixVAE"
        got = f"got {type(model).__name__}; of a pipeline give its last step and transformed rows"
        raise ValueError(f"`report(model=...)` must be a fitted {known}, {got}.")
    check_is_fitted(model)
    path = checked_folder(Path(folder)) / "index.html"
    tell = Progress(show=progress)
    names = {"inputs": inputs, "targets": targets, "place": place}
    rows, left_out = arranged(model, X, y, **names)
    every, rows = len(rows), rows.some(kind.most_rows(model, rows))
    seen = (
        None
        if train is None
        else arranged(model, *train, **names)[0].some(regression.MOST)
    )
    how = _how(rows, every, left_out, seen)
    try:
        sections = kind.sections(model, rows, seen, how, tell)
    finally:
        tell.end()
    if train is not None and train[0] is X:
        sections[0].warning = SEEN
    about = _about(model, rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_page(
        path,
        "model_report.html",
        title=title or "A model and its predictions",
        about=about,
        sections=sections,
    )
    return path


def checked_folder(folder: Path) -> Path:
    """Refuse a folder that cannot be one, or whose page is not ours."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"the report's folder {folder} is a file; name a folder.")
    page = folder / "index.html"
    if page.exists() and OURS not in page.read_bytes()[:4096]:
        what = f"{page} was not written by this library"
        raise ValueError(f"{what}; name another folder for the report.")
    return folder


def arranged(model, X, y, *, inputs, targets, place) -> tuple[Rows, int]:
    """The rows whose targets are known, and how many others there were."""
    X = X if hasattr(X, "iloc") else np.asarray(X)
    if X.ndim != 2 or not len(X):
        raise ValueError(
            f"`report(X=...)` must have shape (n, p), n at least 1, got {X.shape}."
        )
    given, dim = y, {None: 0, "columns": 2, "matrices": 3}[model.targets]
    known = np.ones(len(X), bool)
    if dim:
        check_names("report", y, getattr(model, "target_names_", None))
        y = np.asarray(y, np.float64)
        y = y[:, None] if y.ndim == 1 and dim == 2 else y
        if (
            y.ndim != dim
            or len(y) != len(X)
            or y.shape[1] != (model.n_targets or y.shape[1])
        ):
            wanted = "(n, d)" if dim == 2 else "(n, d, d)"
            wanted += f" with d = {model.n_targets}" if model.n_targets else ""
            got = f"got shapes {X.shape} and {np.shape(given)}"
            raise ValueError(
                f"`report(X, y)` needs rows X (n, p) and y {wanted}, {got}."
            )
        known = ~np.isnan(y.reshape(len(y), -1)).any(axis=1)
        if not known.any():
            raise ValueError(
                "a report needs a row whose targets (y) are all known; there is none."
            )
    columns = named(inputs, X, model, "feature_names_in_", "x", X.shape[1])
    answers = named(targets, given, model, "target_names_", "y", model.n_targets)
    kinds = getattr(getattr(model, "columns_", None), "kinds", ())
    y = y if dim else np.zeros((len(X), 0))
    rows = Rows(X, y, columns, answers, np.arange(len(X)), place, kinds)
    return (rows if known.all() else rows.take(np.flatnonzero(known))), int(
        np.sum(~known)
    )


def _about(model, rows: Rows) -> str:
    names = [rows.inputs[j] for j in rows.used]
    inputs = f"{_count(len(names), 'input')} ({listed(names)})"
    d = len(rows.targets)
    targets = f", {_count(d, 'target')} ({listed(rows.targets)})" if d else ""
    made = f"Made on {time.strftime('%Y-%m-%d')} by matrix-mlp {__version__}."
    return f"A model of kind {model.kind} with {inputs}{targets}. {made}"


def _count(n: int, word: str) -> str:
    return f"{n:,} {word}{'' if n == 1 else 's'}"


def _how(rows: Rows, every: int, left_out: int, seen: Rows | None) -> str:
    """Which rows, in words, and what the baselines learnt from."""
    texts = [f"{len(rows):,} rows" if len(rows) > 1 else "One row"]
    texts[0] += f" of {every:,}, drawn at random." if len(rows) < every else "."
    texts += (
        [f"{left_out:,} rows without all targets are left out."] if left_out else []
    )
    if seen is None:
        texts.append(
            "Baselines are judged by five-fold cross-validation on these rows."
        )
        texts.append("If the model was fitted to any of them, its scores are too good.")
    else:
        texts.append(
            f"Baselines learnt from {len(seen):,} rows of training, like the model."
        )
    return " ".join(texts)
