"""The arguments of `mmlp fit`: a class for each kind, whose docstrings are the help."""

from collections.abc import Sequence
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from tyro.conf import Positional, arg
from tyro.constructors import PrimitiveConstructorSpec

from mmlp.cli.names import format_names, parse_names
from mmlp.tables.number_format import DECIMAL_MARKS, THOUSANDS_SEPARATORS

Data = Annotated[Positional[Path], arg(metavar="DATA")]
NAMES = PrimitiveConstructorSpec(
    nargs=1,
    metavar="NAMES",
    instance_from_str=lambda words: parse_names(words[0]),
    is_instance=lambda value: isinstance(value, tuple),
    str_from_instance=lambda names: [format_names(names)],
)
Names = Annotated[tuple[str, ...], NAMES]


def _one_of(characters: Sequence[str]) -> PrimitiveConstructorSpec:
    """A separator within numbers."""

    def parse(words: list[str]) -> str:
        if words[0] not in characters:
            known = ", ".join(map(repr, characters))
            raise ValueError(f"it must be one of {known}, got {words[0]!r:.40}.")
        return words[0]

    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="CHARACTER",
        instance_from_str=parse,
        is_instance=lambda value: value is None or value in characters,
        str_from_instance=lambda character: [str(character)],
    )


def _whole(words: list[str]) -> int:
    try:
        return int(words[0])
    except ValueError:
        raise ValueError(f"it must be a whole number, got {words[0]}.") from None


WHOLE = PrimitiveConstructorSpec(
    nargs=1,
    metavar="INT",
    instance_from_str=_whole,
    is_instance=lambda value: value is None or isinstance(value, int),
    str_from_instance=lambda number: [str(number)],
)
BESIDE = "-report"  # after the name of the model
PAGE = PrimitiveConstructorSpec(
    nargs=(0, 1),
    metavar="[FOLDER]",
    instance_from_str=lambda words: Path(words[0] if words else BESIDE),
    is_instance=lambda value: value is None or isinstance(value, Path),
    str_from_instance=lambda folder: [str(folder)],
)
Whole = Annotated[int, WHOLE]
MaybeWhole = Annotated[int | None, WHOLE]


def default(text: str | int, metavar: str | None = None, *aliases: str):
    """Says what happens without an argument whose default, such as None, does not say it."""
    return arg(
        aliases=aliases, metavar=metavar, help_behavior_hint=f"(default: {text})"
    )


DECIMAL = _one_of(DECIMAL_MARKS)
THOUSANDS = _one_of(THOUSANDS_SEPARATORS)
HERE = default("the name of DATA, with .safetensors, here", "MODEL", "-o")
# `max_epochs` of the estimators, which are not asked: scikit-learn takes seconds to import
EPOCHS, VAE_EPOCHS = default(500, "N"), default(300, "N")
BY_ROWS = default("500, and fewer for more than 600 rows", "N")
BATCH, PATIENCE, MODELS = default(64, "ROWS"), default(50, "N"), default(5, "N")
BATCH_BY_ROWS = default("64, and up to 256 where rows are many", "ROWS")
RANK = default("as many as the data ask for, up to 64", "M")


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    kind: ClassVar[str]  # of the estimator
    data: Data
    out: Annotated[Path | None, HERE] = None
    """The model file to write, .safetensors; an interrupted fit goes on from MODEL.checkpoint."""
    overwrite: bool = False
    """Replace a model file that is there already, and an unfinished fit with other settings."""
    epochs: Annotated[MaybeWhole, EPOCHS] = None
    """The most passes over the data; it ends earlier when rows held out improve no more."""
    seed: Whole = 0
    """For the weights, the order of rows and which are held out; the same gives the same model."""
    test: Annotated[float, arg(metavar="SHARE")] = 0.0
    """Keep this share of the rows, such as 0.2, from training, and report the scores on them."""
    report: Annotated[Path | None, PAGE, default("none", "[FOLDER]")] = None
    """Write a page about the model (`mmlp report`) on the rows of --test; into MODEL-report."""
    quiet: bool = False
    """No progress on stderr."""
    json: bool = False
    """Print the summary as JSON."""

    def params(self) -> dict[str, Any]:
        """The estimator's."""
        given = {"random_state": self.seed, "verbose": int(not self.quiet)}
        return given if self.epochs is None else given | {"max_epochs": self.epochs}


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(FitOptions):
    batch_size: Annotated[MaybeWhole, BATCH] = None
    """The rows of one step of training."""
    patience: Annotated[MaybeWhole, PATIENCE] = None
    """End after so many epochs without a better one, by the rows held out."""

    def params(self) -> dict[str, Any]:
        given = {"batch_size": self.batch_size, "patience": self.patience}
        return super().params() | {
            name: x for name, x in given.items() if x is not None
        }


@dataclass(frozen=True, kw_only=True)
class EnsembleOptions(TrainingOptions):
    models: Annotated[MaybeWhole, MODELS] = None
    """Networks that are averaged, each trained without a part of the rows of its own."""

    def params(self) -> dict[str, Any]:
        return super().params() | (
            {} if self.models is None else {"n_models": self.models}
        )


@dataclass(frozen=True, kw_only=True)
class FormOptions(TrainingOptions):
    covariance: Literal["auto", "full", "low_rank"] = "auto"
    """Full, or of low rank, for many columns; auto: low_rank with --rank or above 30 columns."""
    rank: Annotated[MaybeWhole, RANK] = None
    """The number of loadings of a low-rank covariance, which is a diagonal and these."""

    def params(self) -> dict[str, Any]:
        return super().params() | {"covariance": self.covariance, "rank": self.rank}


@dataclass(frozen=True, kw_only=True)
class FitMatrices(FitOptions):
    data: Data
    """An .npz with X (n, p) and Y (n, d, d)."""


@dataclass(frozen=True, kw_only=True)
class FitSpd(EnsembleOptions, FitMatrices):
    """Learn a covariance (SPD) matrix as a function of numbers.
    $ mmlp fit spd tensors.npz -o tensors.safetensors

    DATA is an .npz with X (n, p), the inputs, and Y (n, d, d), their symmetric positive definite
    matrices. Write it in Python by numpy.savez("tensors.npz", X=X, Y=Y).
    """

    kind = "spd"
    data: Data
    """An .npz with X and Y."""


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How to read the table that a model is applied to."""

    decimal: Annotated[
        str | None, DECIMAL, default("as for `mmlp fit`", "CHARACTER")
    ] = None
    """The decimal mark of all numbers in the text of DATA, . or ,"""
    thousands: Annotated[
        str | None, THOUSANDS, default("as for `mmlp fit`", "CHARACTER")
    ] = None
    """What stands between groups of three digits: one of . , ' _ or a space."""


@dataclass(frozen=True, kw_only=True)
class FitRows(FitOptions):
    data: Data
    """A table; an .npz holds X (n, p), and its y, if it has one, is left out."""
    ignore: Annotated[Names, default("none")] = ()
    """Columns to leave out, separated by commas; see --targets."""
    decimal: Annotated[
        str | None, DECIMAL, default("as each column shows it", "CHARACTER")
    ] = None
    """The decimal mark of all numbers in the text of DATA, . or , and remembered by the model."""
    thousands: Annotated[str | None, THOUSANDS, default("none", "CHARACTER")] = None
    """What stands between groups of three digits, as in --decimal , --thousands . for 1.234,5; one
    of . , ' _ or a space. Numbers in another form are refused."""


@dataclass(frozen=True, kw_only=True)
class FitColumns(FitRows):
    data: Data
    """A table; an .npz holds X (n, p) and y (n, d); the columns of arrays are called x0, x1, ..."""
    targets: Annotated[Names, default("y of an .npz; needed elsewhere")] = ()
    """The columns to predict, separated by commas; all others are inputs. A name with a comma in
    it is quoted, as in --targets '"speed, m/s",v'."""


@dataclass(frozen=True, kw_only=True)
class ColumnOptions(FitOptions):
    missing: Literal["impute", "drop", "refuse"] = "impute"
    """Missing inputs: filled by the median, with an indicator; or their rows left out; or refused.
    Rows without a target are always left out."""
    categories: Annotated[Names, default("auto, text columns")] = ("auto",)
    """Columns that hold categories: auto, ignore (leave text out), refuse, or NAMES of columns of
    numbers that are codes, to which text columns are added; names as in --targets."""
    dates: Literal["auto", "day-first", "month-first", "ignore", "refuse"] = "auto"
    """Dates become numbers; day-first or month-first where 05/03/2024 leaves it open."""

    def params(self) -> dict[str, Any]:
        word = self.categories[0] if len(self.categories) == 1 else ""
        named = word not in ("auto", "ignore", "refuse")
        given = {"missing": self.missing, "dates": self.dates}
        return (
            super().params()
            | given
            | {"categories": self.categories if named else word}
        )


@dataclass(frozen=True, kw_only=True)
class FitRegression(EnsembleOptions, FormOptions, ColumnOptions, FitColumns):
    """Predict several targets from other columns: a mean and an error covariance for each row.
    $ mmlp fit regression wind.csv --targets u,v --test 0.2
    $ mmlp fit regression wind.csv --targets u,v --ignore comment -o wind.safetensors

    Text becomes indicators, dates become numbers, missing inputs are filled in, and it is said so.
    """

    kind = "regression"
    epochs: Annotated[MaybeWhole, BY_ROWS] = None
    batch_size: Annotated[MaybeWhole, BATCH_BY_ROWS] = None


@dataclass(frozen=True, kw_only=True)
class FitVae(FormOptions, FitRows):
    """Learn the distribution of rows by a VAE, to sample new rows or score how usual a row is.
    $ mmlp fit vae sensors.csv --latent 2 -o sensors.safetensors
    $ mmlp sample sensors.safetensors -n 1000 -o simulated.csv
    $ mmlp predict sensors.safetensors today.csv    # how usual is each row?
    """

    kind = "vae"
    epochs: Annotated[MaybeWhole, VAE_EPOCHS] = None
    latent: Annotated[Whole, arg(metavar="K")] = 2
    """The number of latent variables: more for columns that depend on each other in more ways."""

    def params(self) -> dict[str, Any]:
        return super().params() | {"n_components": self.latent}


# by an estimator's `targets`
FORMS = {"matrices": FitMatrices, "columns": FitColumns, None: FitRows}


def for_estimator(estimator: Any) -> type:
    """Those of `mmlp fit` for an estimator that has no class here, after the form of its data."""
    epochs = (
        "epochs",
        Annotated[MaybeWhole, default(estimator().max_epochs, "N")],
        None,
    )
    rest = {"kind": estimator.kind, "__doc__": estimator.__doc__}
    options = {"bases": (FORMS[estimator.targets],), "namespace": rest}
    return make_dataclass(
        f"Fit {estimator.kind}", [epochs], **options, frozen=True, kw_only=True
    )
