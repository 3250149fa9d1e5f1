"""What can be asked of `mmlp`: a dataclass for each command, whose fields are its options.

Docstrings and the texts of the fields are the help. Options that set a parameter of an
estimator name it (`parameter=`); errors about that parameter then name the option.
"""

import dataclasses
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from mmlp._version import __version__
from mmlp.cli.dataclass_parser import Group, option, parse_command, positional
from mmlp.tables.number_format import DECIMAL_MARKS, THOUSANDS_SEPARATORS

REPORT_SUFFIX = "-report"  # after the name of the model: the default folder of a page
DEFAULT_REPORT_FOLDER = Path(REPORT_SUFFIX)
MAX_SIZE = 2**31 - 1  # what the estimators count in 32 bits
MAX_SEED = 2**32 - 1
WORDS_FOR_CATEGORIES = ("auto", "ignore", "refuse")
REPRODUCTION_MOVED = (
    "the paper's experiments are no longer part of this command; in a clone of the "
    "repository run `make reproduce`, or `python -m reproduction example1` for one of them."
)


def model_argument() -> Any:
    """Declare the model that a command uses."""
    return positional("MODEL", "A file that `mmlp fit` wrote.")


def results_option() -> Any:
    """Declare the file that a command writes."""
    return option(
        None,
        help="Where to write: .csv, .npz, .npy or - for stdout.",
        metavar="OUT",
        short="-o",
        default_text="stdout, as CSV",
    )


def epochs_option(default_text: str) -> Any:
    """Declare the limit of epochs, whose default depends on the kind."""
    return option(
        None,
        help="The most passes over the data; training ends earlier when held-out rows "
        "improve no more.",
        lowest=1,
        highest=MAX_SIZE,
        metavar="N",
        default_text=default_text,
        parameter="max_epochs",
    )


def batch_size_option(default_text: str) -> Any:
    """Declare the batch size, whose default depends on the kind."""
    return option(
        None,
        help="The rows of one step of training.",
        lowest=1,
        metavar="ROWS",
        default_text=default_text,
        parameter="batch_size",
    )


@dataclass(frozen=True, kw_only=True)
class Demo:
    """Take the tour: learn covariances, regress with full covariance, model digits; with a report.

    It needs no data, takes a few minutes on two cores, and ends by naming the page to
    open.
    """

    out: Path = option(
        Path("demo"),
        help="Folder of the report and its pictures.",
        metavar="FOLDER",
        short="-o",
    )
    quick: bool = option(False, help="Train for a moment only, to see that it works.")


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """The options of every kind of `mmlp fit`."""

    kind: ClassVar[str]  # of the estimator
    data: Path = positional("DATA")
    out: Path | None = option(
        None,
        help="The model file to write, .safetensors; an interrupted fit resumes from "
        "MODEL.checkpoint.",
        metavar="MODEL",
        short="-o",
        default_text="the name of DATA, with .safetensors, here",
    )
    overwrite: bool = option(
        False,
        help="Replace a model file that is there already, and an unfinished fit with other "
        "settings.",
    )
    epochs: int | None = epochs_option("500")
    seed: int = option(
        0,
        help="For the weights, the order of rows and which are held out; the same gives the "
        "same model.",
        lowest=0,
        highest=MAX_SEED,
        metavar="INT",
        parameter="random_state",
    )
    test: float = option(
        0.0,
        help="Keep this share of the rows, such as 0.2, from training, and report the scores "
        "on them.",
        metavar="SHARE",
    )
    report: Path | None = option(
        None,
        help="Write a page about the model (`mmlp report`) on the rows of --test; into "
        "MODEL-report.",
        metavar="FOLDER",
        default_text="none",
        value_if_bare=DEFAULT_REPORT_FOLDER,
    )
    quiet: bool = option(False, help="No progress on stderr.")
    json: bool = option(False, help="Print the summary as JSON.")

    def params(self) -> dict[str, Any]:
        """Return the parameters of the estimator, those that were given."""
        values = {
            field.metadata["parameter"]: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.metadata.get("parameter") is not None
        }
        given = {name: value for name, value in values.items() if value is not None}
        return {**given, "verbose": int(not self.quiet)}


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """The options of networks that stop by held-out rows."""

    batch_size: int | None = batch_size_option("64")
    patience: int | None = option(
        None,
        help="End after this many epochs without improvement on held-out rows.",
        lowest=1,
        metavar="N",
        default_text="50",
        parameter="patience",
    )


@dataclass(frozen=True, kw_only=True)
class EnsembleOptions(TrainingOptions):
    """The options of estimators that average networks."""

    models: int | None = option(
        None,
        help="Networks that are averaged, each trained without a fold of the rows.",
        lowest=2,
        highest=MAX_SIZE,
        metavar="N",
        default_text="5",
        parameter="n_models",
    )


@dataclass(frozen=True, kw_only=True)
class CovarianceOptions(TrainingOptions):
    """The options of estimators with a choice of covariances."""

    covariance: Literal["auto", "full", "low_rank"] = option(
        "auto",
        help="Full, or of low rank, for many columns; auto: low_rank with --rank or above 30 "
        "columns.",
        parameter="covariance",
    )
    rank: int | None = option(
        None,
        help="The number of loadings of a low-rank covariance, which is a diagonal and these.",
        lowest=1,
        highest=MAX_SIZE,
        metavar="M",
        default_text="as many as the data ask for, up to 64",
        parameter="rank",
    )


@dataclass(frozen=True, kw_only=True)
class FitMatrices(FitOptions):
    """Fit an estimator whose targets are matrices."""

    data: Path = positional("DATA", "An .npz with X (n, p) and Y (n, d, d).")


@dataclass(frozen=True, kw_only=True)
class FitSpd(EnsembleOptions, FitMatrices):
    """Learn a covariance (SPD) matrix as a function of numbers.
    $ mmlp fit spd tensors.npz -o tensors.safetensors

    DATA is an .npz with X (n, p), the inputs, and Y (n, d, d), their symmetric positive
    definite matrices. Write it in Python by numpy.savez("tensors.npz", X=X, Y=Y).
    """

    kind = "spd"
    data: Path = positional("DATA", "An .npz with X and Y.")


@dataclass(frozen=True, kw_only=True)
class FitRows(FitOptions):
    """Fit an estimator without targets."""

    data: Path = positional(
        "DATA",
        "A table; an .npz holds X (n, p), and its y, if it has one, is left out.",
    )
    ignore: tuple[str, ...] = option(
        (),
        help="Columns to leave out, separated by commas; see --targets.",
        default_text="none",
    )
    decimal: str | None = option(
        None,
        help="The decimal mark of all numbers in the text of DATA, . or , and remembered by "
        "the model.",
        metavar="CHARACTER",
        default_text="as each column shows it",
        choices=DECIMAL_MARKS,
    )
    thousands: str | None = option(
        None,
        help="What stands between groups of three digits, as in --decimal , --thousands . for "
        "1.234,5; one of . , ' _ or a space. Numbers in another form are refused.",
        metavar="CHARACTER",
        default_text="none",
        choices=THOUSANDS_SEPARATORS,
    )


@dataclass(frozen=True, kw_only=True)
class FitColumns(FitRows):
    """Fit an estimator whose targets are columns."""

    data: Path = positional(
        "DATA",
        "A table; an .npz holds X (n, p) and y (n, d); the columns of arrays are called x0, "
        "x1, ...",
    )
    targets: tuple[str, ...] = option(
        (),
        help="The columns to predict, separated by commas; all others are inputs. A name with "
        """a comma in it is quoted, as in --targets '"speed, m/s",v'.""",
        default_text="y of an .npz; needed elsewhere",
    )


@dataclass(frozen=True, kw_only=True)
class ColumnOptions:
    """How columns of any kind become numbers."""

    missing: Literal["impute", "drop", "refuse"] = option(
        "impute",
        help="Missing inputs: filled by the median, with an indicator; or their rows left "
        "out; or refused. Rows without a target are always left out.",
        parameter="missing",
    )
    categories: tuple[str, ...] = option(
        ("auto",),
        help="Columns that hold categories: auto, ignore (leave text out), refuse, or NAMES "
        "of columns of numbers that are codes, to which text columns are added; names as in "
        "--targets.",
        default_text="auto, text columns",
        parameter="categories",
    )
    dates: Literal["auto", "day-first", "month-first", "ignore", "refuse"] = option(
        "auto",
        help="Dates become numbers; day-first or month-first where 05/03/2024 leaves it open.",
        parameter="dates",
    )


@dataclass(frozen=True, kw_only=True)
class FitRegression(EnsembleOptions, CovarianceOptions, ColumnOptions, FitColumns):
    """Predict several targets from other columns: a mean and an error covariance for each row.
    $ mmlp fit regression wind.csv --targets u,v --test 0.2
    $ mmlp fit regression wind.csv --targets u,v --ignore comment -o wind.safetensors

    Text becomes indicators, dates become numbers, missing inputs are filled in.
    Everything that was changed is listed before training.
    """

    kind = "regression"
    epochs: int | None = epochs_option("500, and fewer for more than 600 rows")
    batch_size: int | None = batch_size_option("64, and up to 256 where rows are many")

    def params(self) -> dict[str, Any]:
        params = super().params()
        if len(self.categories) == 1 and self.categories[0] in WORDS_FOR_CATEGORIES:
            params["categories"] = self.categories[0]
        return params


@dataclass(frozen=True, kw_only=True)
class FitVae(CovarianceOptions, FitRows):
    """Learn the distribution of rows by a VAE, to sample new rows or score how usual a row is.
    $ mmlp fit vae sensors.csv --latent 2 -o sensors.safetensors
    $ mmlp sample sensors.safetensors -n 1000 -o simulated.csv
    $ mmlp predict sensors.safetensors today.csv    # how usual is each row?
    """

    kind = "vae"
    epochs: int | None = epochs_option("300")
    latent: int = option(
        2,
        help="The number of latent variables: more for columns that depend on each other in "
        "more ways.",
        lowest=1,
        highest=MAX_SIZE,
        metavar="K",
        parameter="n_components",
    )


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How to read the table that a model is applied to."""

    decimal: str | None = option(
        None,
        help="The decimal mark of all numbers in the text of DATA, . or ,",
        metavar="CHARACTER",
        default_text="as for `mmlp fit`",
        choices=DECIMAL_MARKS,
    )
    thousands: str | None = option(
        None,
        help="What stands between groups of three digits: one of . , ' _ or a space.",
        metavar="CHARACTER",
        default_text="as for `mmlp fit`",
        choices=THOUSANDS_SEPARATORS,
    )


@dataclass(frozen=True, kw_only=True)
class Predict(ReadOptions):
    """Apply a model to new rows.
    $ mmlp predict wind.safetensors tomorrow.csv -o forecast.npz
    $ mmlp predict wind.safetensors tomorrow.csv | head

    Columns are found by their names; others are left alone. Results have one row for
    each of DATA:
      regression   mean, covariance; if this has low rank, diag(scale^2) + loadings' loadings:
                   mean, std, and in an .npz scale, loadings
      spd          covariance
      vae          log_density, latent

    An .npz holds them as arrays of these names; a .csv has columns such as mean_u,
    mean_v, covariance_u_u, covariance_u_v.
    """

    model: Path = model_argument()
    data: Path = positional("DATA", "A table with the input columns of the model.")
    out: Path | None = results_option()


@dataclass(frozen=True, kw_only=True)
class Score(ReadOptions):
    """Measure a model on rows whose answer is known, best on rows that it was not fitted to.
    $ mmlp score wind.safetensors unseen.csv --json

    regression: the mean negative log-likelihood and energy score (smaller is better),
    the share of rows inside their 90 % ellipsoid (0.9 is best), R squared of the mean.
    spd: the mean von Neumann divergence (smaller is better), R squared. vae: the mean
    log-density (larger is better).
    """

    model: Path = model_argument()
    data: Path = positional(
        "DATA", "A table with the columns of the model, targets too."
    )
    json: bool = option(False, help="Print JSON.")


@dataclass(frozen=True, kw_only=True)
class Report(ReadOptions):
    """Write a page about a model, on rows whose answer is known, best ones it was not fitted to.
    $ mmlp report wind.safetensors unseen.csv -o wind-report

    FOLDER/index.html, which works offline, shows scores beside simple baselines,
    calibration, predictions against observations, which inputs matter, the worst rows,
    and how training went.
    """

    model: Path = model_argument()
    data: Path = positional(
        "DATA", "A table with the columns of the model, targets too."
    )
    out: Path | None = option(
        None,
        help="Folder of the page; other files in it stay.",
        metavar="FOLDER",
        short="-o",
        default_text="the name of MODEL, with -report, here",
    )
    quiet: bool = option(False, help="No progress on stderr.")


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Draw new rows from a model of kind vae.
    $ mmlp sample sensors.safetensors -n 1000 -o simulated.csv
    """

    model: Path = model_argument()
    rows: int = option(
        help="How many rows.", lowest=1, highest=MAX_SIZE, metavar="N", short="-n"
    )
    out: Path | None = results_option()
    seed: int = option(
        0,
        help="The same seed gives the same rows.",
        lowest=0,
        highest=MAX_SEED,
        metavar="INT",
    )


@dataclass(frozen=True, kw_only=True)
class Info:
    """Say what a model file is: its kind, columns, size and how it was trained.
    $ mmlp info wind.safetensors
    """

    model: Path = model_argument()
    json: bool = option(False, help="Print JSON.")


FIT_HELP = """\
Train a model on a table and write it to one file; some rows are held out, to stop in
time.
$ mmlp fit regression wind.csv --targets u,v -o wind.safetensors
$ mmlp fit vae sensors.csv"""

HELP = """\
Networks whose output is a covariance: fit them to your tables, predict, score and
sample.
$ mmlp demo
$ mmlp fit regression wind.csv --targets u,v -o wind.safetensors
$ mmlp score wind.safetensors unseen.csv
$ mmlp predict wind.safetensors tomorrow.csv -o forecast.csv

A table is a file, .csv or .csv.gz, whose first line names the columns, .arff, .npy or
.npz; or - for a CSV from stdin.

More about a command: mmlp COMMAND --help"""

KINDS: dict[str, Any] = {"regression": FitRegression, "spd": FitSpd, "vae": FitVae}

# The options of an estimator of another package, by the form of its targets.
FIT_BY_TARGETS = {"matrices": FitMatrices, "columns": FitColumns, None: FitRows}


def parse(argv: Sequence[str]) -> Any:
    """Parse the words after `mmlp`.

    Returns
    -------
    object
        An instance of one of the classes above.

    Raises
    ------
    ValueError
        If a word is wrong or missing.
    SystemExit
        After the help or the version was printed.
    """
    first = argv[0] if argv else ""
    if first in ("--version", "-V"):
        print(f"mmlp {__version__}")
        raise SystemExit(0)
    if first == "reproduce":
        raise ValueError(REPRODUCTION_MOVED)
    commands = {
        "demo": Demo,
        "fit": Group(FIT_HELP, KINDS | added_kinds(), word="kind"),
        "predict": Predict,
        "score": Score,
        "report": Report,
        "sample": Sample,
        "info": Info,
    }
    return parse_command(argv, Group(HELP, commands), "mmlp")


def added_kinds() -> dict[str, type]:
    """Return the options of estimators that other packages have registered."""
    model_files = sys.modules.get("mmlp.estimators.model_files")
    if model_files is None:
        return {}
    return {
        kind: for_estimator(estimator)
        for kind, estimator in model_files.kinds().items()
        if kind not in KINDS
    }


def for_estimator(estimator: Any) -> type:
    """Make the options of `mmlp fit` for an estimator that has no class here."""
    epochs = epochs_option(str(estimator().max_epochs))
    return dataclasses.make_dataclass(
        f"Fit {estimator.kind}",
        [("epochs", int | None, epochs)],
        bases=(FIT_BY_TARGETS[estimator.targets],),
        namespace={"kind": estimator.kind, "__doc__": estimator.__doc__},
        frozen=True,
        kw_only=True,
    )


def option_names() -> dict[str, str]:
    """Return the options that set parameters of the estimators, without their dashes.

    Examples
    --------
    >>> option_names()["max_epochs"]
    'epochs'
    """
    return {
        field.metadata["parameter"]: field.name.replace("_", "-")
        for command in KINDS.values()
        for field in dataclasses.fields(command)
        if field.metadata.get("parameter") is not None
    }
