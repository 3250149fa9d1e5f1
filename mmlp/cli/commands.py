"""What the commands do: read files, apply an estimator, write files."""

import contextlib
import functools
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from mmlp import estimators, tables
from mmlp.cli import fitting, info
from mmlp.cli.arguments import (
    Demo,
    FitOptions,
    Predict,
    ReadOptions,
    Report,
    Sample,
    Score,
)
from mmlp.cli.output_files import (
    check_model_file,
    check_not_source,
    find_results_file,
)
from mmlp.cli.table_problems import explain_problems
from mmlp.cli.training_rows import read_matrices
from mmlp.errors import CellError, FileError
from mmlp.estimators.model_files import kinds
from mmlp.tables.encoder import TableEncoder
from mmlp.tables.kinds import Categories
from mmlp.tables.number_format import NumberFormat
from mmlp.tables.preparation import prepare_prediction_data, prepare_scored_data

SECONDS_BEFORE_PROGRESS_BAR = 2

# Results of a prediction by name; each array has a row for each row of the data.
Results = dict[str, np.ndarray]


@dataclass(frozen=True)
class LoadedModel:
    """A fitted estimator from a file.

    Parameters
    ----------
    estimator : estimator
    inputs, targets : list of str
        Names of columns; those of arrays are x0, x1, ... and y0, y1, ...
    """

    estimator: Any
    inputs: list[str]
    targets: list[str]

    @classmethod
    def load(cls, path: Path) -> "LoadedModel":
        """Load the estimator in a file."""
        estimator = estimators.load(path)
        inputs = tables.make_column_names("x", estimator.n_features_in_)
        targets = tables.make_column_names("y", estimator.n_targets)
        # Without this attribute scikit-learn does not ask for the names in arrays.
        inputs = vars(estimator).pop("feature_names_in_", inputs)
        targets = getattr(estimator, "target_names_", targets)
        estimator.names = list(inputs)
        return cls(estimator, list(inputs), list(targets))

    @property
    def encoder(self) -> TableEncoder | None:
        """The fitted encoder of the estimator, None if it takes numbers only."""
        return self.estimator.columns_ if self.estimator.any_columns else None

    def read_table(self, path: Path, options: ReadOptions) -> tables.Table:
        """Read a table, its numbers as the options or else the model describe them."""
        encoder = self.encoder
        number_format = NumberFormat.from_options(options.decimal, options.thousands)
        if not number_format.is_given:
            expects_commas = encoder is not None and encoder.expects_decimal_commas
            number_format = getattr(
                self.estimator,
                "number_format_",
                NumberFormat(expects_commas=expects_commas),
            )
        column_kinds = () if encoder is None else encoder.kinds_
        has_codes = any(isinstance(kind, Categories) for kind in column_kinds)
        return tables.read(path, number_format, keep_faults=True, has_codes=has_codes)

    @contextlib.contextmanager
    def explain_errors(self, table: tables.Table | None) -> Iterator[None]:
        """Name the lines and columns of the file in errors about cells of the table."""
        try:
            with explain_problems(table):
                yield
        except CellError as error:
            if table is None:
                raise
            names = self.targets
            if error.argument == "X":
                names = self.inputs
                if self.encoder is not None:
                    names = self.encoder.get_feature_names_out(self.inputs)
            column = str(names[error.column])
            place = f"{table.describe_place(error.row)}, column {column!r}"
            raise FileError(
                f"{table.path}, {place}", error.problem, remedy=error.remedy
            ) from None


@functools.singledispatch
def execute(command: Any) -> int:
    """Do what a command asks for, and return the exit status."""
    raise TypeError(f"no command: {command!r}")


# The commands import Matplotlib, and what needs it, only where they use it.


@execute.register
def take_demo_tour(command: Demo) -> int:
    """Run `mmlp demo`."""
    from mmlp.demo.tour import take_tour

    take_tour(command.out, quick=command.quick)
    return 0


@execute.register
def fit(command: FitOptions) -> int:
    """Run `mmlp fit`."""
    suffix = tables.find_extension(command.data, tables.INPUT_EXTENSIONS, "read")
    stem = command.data.name[: -len(suffix)]
    out = command.out or Path(f"{stem}.safetensors")
    check_model_file(out)
    check_not_source(out, data=command.data)
    if out.exists() and not command.overwrite:
        raise ValueError(
            f"{out} is there already; --overwrite replaces it, or choose another -o."
        )
    if command.report is not None:
        from mmlp.reporting.model_report import check_folder

        check_folder(fitting.find_report_folder(command.report, out))

    results = fitting.fit_model(command, out)
    info.print_entries(info.summarize_model(out) | results, as_json=command.json)
    return 0


@execute.register
def predict(command: Predict) -> int:
    """Run `mmlp predict`."""
    model = LoadedModel.load(command.model)
    out = find_results_file(command.out, data=command.data, model=command.model)
    result_names = model.estimator.result_names()
    is_text = out is None or tables.check_output(out, result_names) == ".csv"

    table = model.read_table(command.data, command)
    with model.explain_errors(table):
        data = prepare_prediction_data(table, model.inputs, (), model.encoder)
        chunks = model.estimator.predict_results_in_chunks(data.inputs, text=is_text)
        chunks = blank_incomplete_rows(chunks, data.is_incomplete)
        chunks = show_progress(chunks, len(table))
        # The first chunk checks all rows.
        first = next(chunks)

    widths = [array.shape[1] for array in first.values() if array.ndim > 1]
    axis_names = model.targets or tables.make_column_names("", max(widths, default=0))
    tables.write(out, itertools.chain([first], chunks), axis_names)
    return 0


@execute.register
def score(command: Score) -> int:
    """Run `mmlp score`."""
    model = LoadedModel.load(command.model)
    table = None
    if model.estimator.targets == "matrices":
        data = read_matrices(command.data)
    else:
        table = model.read_table(command.data, command)
        with explain_problems(table):
            X, y = prepare_scored_data(
                table, model.inputs, model.targets, model.encoder
            )
        data = (X, y) if model.targets else (X,)

    with model.explain_errors(table):
        scores = fitting.score_rows(model.estimator, *data)
    about_model = {"model": str(command.model), "kind": model.estimator.kind}
    info.print_entries(about_model | scores, as_json=command.json)
    return 0


@execute.register
def report(command: Report) -> int:
    """Run `mmlp report`."""
    from mmlp.reporting import model_report

    model = LoadedModel.load(command.model)
    folder = fitting.find_report_folder(command.out, command.model)
    model_report.check_folder(folder)

    table = None
    place = "row {} (from 0)".format
    if model.estimator.targets == "matrices":
        data = read_matrices(command.data)
    else:
        table = model.read_table(command.data, command)
        with explain_problems(table):
            all_rows = prepare_prediction_data(
                table, model.inputs, model.targets, model.encoder
            )
        rows = np.flatnonzero(~all_rows.is_incomplete)
        if not len(rows):
            raise ValueError(
                f"{table.path} has no row with all values that a report needs."
            )
        X = all_rows.inputs[rows]
        data = (X, all_rows.targets[rows]) if model.targets else (X,)
        place = functools.partial(_place_in_table, table, rows)

    with model.explain_errors(table):
        page = model_report.report(
            model.estimator,
            *data,
            folder=folder,
            inputs=model.inputs,
            targets=model.targets,
            place=place,
            title=f"{command.model.name} on {command.data.name}",
            progress=not command.quiet,
        )
    print(page)
    return 0


@execute.register
def sample(command: Sample) -> int:
    """Run `mmlp sample`."""
    model = LoadedModel.load(command.model)
    out = find_results_file(command.out, model=command.model)
    if not hasattr(model.estimator, "sample"):
        sampled = [f"`mmlp fit {kind}`" for kind in kinds(having="sample")]
        raise ValueError(
            f"{command.model} is a model of kind {model.estimator.kind}; only those of "
            f"{' or '.join(sampled)} can be sampled."
        )
    X = model.estimator.sample(command.rows, random_state=command.seed)
    tables.write(out, {"X": X}, model.inputs)
    return 0


def show_progress(chunks: Iterable[Results], n_rows: int) -> Iterator[Results]:
    """Show a progress bar on a terminal, if results take more than two seconds."""
    with tqdm(
        total=n_rows,
        delay=SECONDS_BEFORE_PROGRESS_BAR,
        unit=" rows",
        unit_scale=True,
        leave=False,
        disable=None,
    ) as bar:
        for results in chunks:
            bar.update(_count_rows(results))
            yield results


def blank_incomplete_rows(
    chunks: Iterable[Results], is_incomplete: np.ndarray
) -> Iterator[Results]:
    """Replace the results of rows that lack a value by NaN."""
    start = 0
    for results in chunks:
        stop = start + _count_rows(results)
        blank = is_incomplete[start:stop]
        if blank.any():
            for array in results.values():
                array[blank] = np.nan
        start = stop
        yield results


def _count_rows(results: Results) -> int:
    return len(next(iter(results.values())))


def _place_in_table(table: tables.Table, rows: np.ndarray, row: int) -> str:
    return table.describe_place(int(rows[row]))
