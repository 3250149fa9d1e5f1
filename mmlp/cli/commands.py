"""What the commands do: files in, an estimator, files out."""

import errno
import functools
import itertools
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from mmlp import atomic_files, estimators, tables
from mmlp.cli import fitting, info
from mmlp.cli.arguments import (
    DEFAULT_REPORT_FOLDER,
    Demo,
    FitOptions,
    Predict,
    ReadOptions,
    Report,
    Sample,
    Score,
)
from mmlp.cli.table_problems import explain_problems
from mmlp.estimators.model_files import kinds
from mmlp.tables.encoder import TableEncoder
from mmlp.tables.kinds import Categories
from mmlp.tables.number_format import NumberFormat
from mmlp.tables.preparation import prepare_prediction_data, prepare_scored_data

DELAY = 2  # seconds without a bar


@functools.singledispatch
def execute(command) -> int:
    """Do what a command says; gives the exit status."""
    raise TypeError(f"no command: {command!r}")


@execute.register
def demo(command: Demo) -> int:
    from mmlp.demo.tour import (
        take_tour,
    )  # here, and below: nothing else needs Matplotlib

    take_tour(command.out, quick=command.quick)
    return 0


@execute.register
def fit(command: FitOptions) -> int:
    suffix = tables.find_extension(command.data, tables.INPUT_EXTENSIONS, "read")
    out = _model_file(
        command.out or Path(command.data.name[: -len(suffix)] + ".safetensors")
    )
    _check_apart(out, data=command.data)
    if out.exists() and not command.overwrite:
        remedy = "--overwrite replaces it, or choose another -o"
        raise ValueError(f"{out} is there already; {remedy}.")
    if command.report is not None:
        from mmlp.reporting.model_report import check_folder

        check_folder(fitting.report_folder(command.report, out))
    scores = fitting.fit(command, out)
    info.print_entries(info.summarize_model(out) | scores, as_json=command.json)
    return 0


@execute.register
def predict(command: Predict) -> int:
    estimator, inputs, targets = _loaded(command.model)
    out = _results_file(command.out, data=command.data, model=command.model)
    text = out is None or tables.check_output(out, estimator.result_names()) == ".csv"
    table = _read_table(command, estimator)
    with explain_problems(table):
        data = prepare_prediction_data(table, inputs, (), _encoder_of(estimator))
        results = estimator.predicted_pieces(data.inputs, text=text)
        pieces = _shown(_blanked(results, data.is_incomplete), len(table))
        first = next(pieces)
    width = max(
        (array.shape[1] for array in first.values() if array.ndim > 1), default=0
    )
    axis = targets or tables.number_columns("", width)
    tables.write(out, itertools.chain([first], pieces), axis)
    return 0


@execute.register
def score(command: Score) -> int:
    estimator, inputs, targets = _loaded(command.model)
    table = None
    if estimator.targets == "matrices":
        data = fitting.matrices(command.data)
    else:
        table = _read_table(command, estimator)
        with explain_problems(table):
            X, y = prepare_scored_data(table, inputs, targets, _encoder_of(estimator))
        data = (X, y) if targets else (X,)
    with explain_problems(table):
        found = fitting.scores(estimator, *data)
    model = {"model": str(command.model), "kind": estimator.kind}
    info.print_entries(model | found, as_json=command.json)
    return 0


@execute.register
def report(command: Report) -> int:
    from mmlp.reporting import model_report

    estimator, inputs, targets = _loaded(command.model)
    folder = fitting.report_folder(command.out or DEFAULT_REPORT_FOLDER, command.model)
    model_report.check_folder(folder)
    names: dict[str, Any] = {"inputs": inputs, "targets": targets}
    table = None
    if estimator.targets == "matrices":
        data = fitting.matrices(command.data)
    else:
        table = _read_table(command, estimator)
        with explain_problems(table):
            rows = prepare_prediction_data(
                table, inputs, targets, _encoder_of(estimator)
            )
        used = np.flatnonzero(~rows.is_incomplete)
        if not len(used):
            raise ValueError(
                f"{table.path} has no row with all values that a report needs."
            )
        X = rows.inputs[used]
        data = (X, rows.targets[used]) if targets else (X,)
        names["place"] = lambda row: table.place(int(used[row]))
    title = f"{command.model.name} on {command.data.name}"
    how: dict[str, Any] = {"title": title, "progress": not command.quiet}
    X, y = (*data, None)[:2]
    with explain_problems(table):
        print(model_report.report(estimator, X, y, folder, **how, **names))
    return 0


@execute.register
def sample(command: Sample) -> int:
    estimator, inputs, _ = _loaded(command.model)
    out = _results_file(command.out, model=command.model)
    draw = getattr(estimator, "sample", None)
    if draw is None:
        able = " or ".join(f"`mmlp fit {kind}`" for kind in kinds(having="sample"))
        what = f"{command.model} is a model of kind {estimator.kind}"
        raise ValueError(f"{what}; only those of {able} can be sampled.")
    tables.write(out, {"X": draw(command.rows, random_state=command.seed)}, inputs)
    return 0


def _loaded(path: Path) -> tuple[Any, list[str], list[str]]:
    """The estimator in a file, the names of its inputs and targets: of arrays x0, ..., y0, ..."""
    estimator = estimators.load(path)
    held = vars(
        estimator
    )  # without the names, or scikit-learn would ask for them in arrays
    inputs = held.pop(
        "feature_names_in_", tables.number_columns("x", estimator.n_features_in_)
    )
    targets = held.get("target_names_", tables.number_columns("y", estimator.n_targets))
    estimator.names = list(inputs)
    return estimator, list(inputs), list(targets)


def _encoder_of(estimator) -> TableEncoder | None:
    """Return the fitted encoder of an estimator, None if it takes numbers only."""
    return estimator.columns_ if estimator.any_columns else None


def _read_table(command: Any, estimator) -> tables.Table:
    """Read the rows for a model, their numbers as the options or else the model describe them."""
    options: ReadOptions = command
    number_format = NumberFormat.from_options(options.decimal, options.thousands)
    if not number_format.is_given:
        encoder = _encoder_of(estimator)
        expects_commas = encoder is not None and encoder.expects_decimal_commas
        found_in_inputs = NumberFormat(expects_commas=expects_commas)
        number_format = getattr(estimator, "number_format_", found_in_inputs)
    kinds_of_columns = estimator.columns_.kinds_ if estimator.any_columns else ()
    has_codes = any(isinstance(kind, Categories) for kind in kinds_of_columns)
    return tables.read(
        command.data, number_format, keep_faults=True, has_codes=has_codes
    )


def _shown(
    pieces: Iterable[dict[str, np.ndarray]], n: int
) -> Iterator[dict[str, np.ndarray]]:
    """The pieces of n rows, with a bar on a terminal if they take more than two seconds."""
    with tqdm(
        total=n, delay=DELAY, unit=" rows", unit_scale=True, leave=False, disable=None
    ) as bar:
        for piece in pieces:
            bar.update(len(next(iter(piece.values()))))
            yield piece


def _blanked(pieces: Iterable[dict[str, np.ndarray]], gaps: np.ndarray):
    """Results, NaN for the rows that lack a value."""
    start = 0
    for piece in pieces:
        n = len(next(iter(piece.values())))
        gone = gaps[start : start + n]
        if gone.any():
            for array in piece.values():
                array[gone] = np.nan
        start += n
        yield piece


def _results_file(path: Path | None, **sources: Path) -> Path | None:
    """Where results go, checked before the work; None is stdout. No source is written over."""
    out = tables.find_results_file(path)
    if out is None:
        return None
    _check_writable(out)
    if atomic_files.is_stream(out):
        return out
    _check_apart(out, **sources)
    return out


def _model_file(path: Path) -> Path:
    """Where a model goes, checked before the work; it is read again, as a pipe cannot be."""
    _check_writable(path)
    if atomic_files.is_stream(path):
        raise ValueError(
            f"{path} is a pipe or a device; choose another -o for the model."
        )
    return path


def _check_apart(out: Path, **sources: Path) -> None:
    """Refuse to write over a file that the command reads, also where a link leads there."""
    for name, source in sources.items():
        if out.exists() and source.exists() and out.samefile(source):
            raise ValueError(
                f"{out} would be written over the {name}; choose another -o."
            )


def _check_writable(path: Path) -> None:
    """Refuse a place that cannot be written to, or the folder where a link leads."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    is_stream = atomic_files.is_stream(path)
    target = path if is_stream else atomic_files.resolve_target(path)
    folder = target.parent
    if not folder.is_dir():
        raise ValueError(
            f"there is no folder {folder} to write {target.name} into; make it first."
        )
    if not os.access(path if is_stream else folder, os.W_OK):
        raise PermissionError(errno.EACCES, "not allowed to write there", str(path))
