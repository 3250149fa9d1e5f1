"""The arguments: a class for each command; its docstring and its fields' are the help."""

from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from tyro.conf import Positional, arg
from tyro.constructors import PrimitiveConstructorSpec

from mmlp.experiments.harness.targets import TARGETS, Target

Data = Annotated[Positional[Path], arg(metavar="DATA")]
ModelFile = Annotated[Data, arg(metavar="MODEL", help="A file that `mmlp fit` wrote.")]
NAMES = PrimitiveConstructorSpec(
    nargs=1,
    metavar="NAMES",
    instance_from_str=lambda words: tuple(filter(None, map(str.strip, words[0].split(",")))),
    is_instance=lambda value: isinstance(value, tuple),
    str_from_instance=lambda names: [",".join(names)],
)
Names = Annotated[tuple[str, ...], NAMES]
Json = Annotated[bool, arg(help="Print JSON.")]
Folder = Annotated[Path, arg(aliases=["-o"], metavar="FOLDER")]
TARGET = arg(metavar="TARGET", help=f"{', '.join(TARGETS)}, or all.")


def _default(text: str | int, metavar: str | None = None, *aliases: str):
    """Says what happens without an argument whose default, such as None, does not say it."""
    return arg(aliases=aliases, metavar=metavar, help_behavior_hint=f"(default: {text})")


Out = Annotated[Path | None, _default("stdout, as CSV", "OUT", "-o")]
HERE = _default("the name of DATA, with .safetensors, here", "MODEL", "-o")
# `max_epochs` of the estimators, which are not asked: scikit-learn takes seconds to import
EPOCHS, VAE_EPOCHS = _default(500, "N"), _default(300, "N")


@dataclass(frozen=True, kw_only=True)
class Demo:
    """Take the tour: learn covariances, regress with full covariance, model digits; with a report.

    It needs no data, takes a few minutes on two cores, and ends by naming the page to open.
    """

    out: Folder = Path("demo")
    """Folder of the report and its pictures."""
    quick: bool = False
    """Train for a moment only, to see that it works."""


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    kind: ClassVar[str]  # of the estimator
    data: Data
    out: Annotated[Path | None, HERE] = None
    """The model file to write, .safetensors; an interrupted fit goes on from MODEL.checkpoint."""
    epochs: Annotated[int | None, EPOCHS] = None
    """The most passes over the data; it ends earlier when rows held out improve no more."""
    seed: int = 0
    """For the weights, the order of rows and which are held out; the same gives the same model."""
    test: Annotated[float, arg(metavar="SHARE")] = 0.0
    """Keep this share of the rows, such as 0.2, from training, and report the scores on them."""
    quiet: bool = False
    """No progress on stderr."""
    json: bool = False
    """Print the summary as JSON."""

    def params(self) -> dict[str, Any]:
        """The estimator's."""
        given = {"random_state": self.seed, "verbose": int(not self.quiet)}
        return given if self.epochs is None else given | {"max_epochs": self.epochs}


@dataclass(frozen=True, kw_only=True)
class FitSpd(FitOptions):
    """Learn a covariance (SPD) matrix as a function of numbers.
    $ mmlp fit spd tensors.npz -o tensors.safetensors

    DATA is an .npz with X (n, p), the inputs, and Y (n, d, d), their symmetric positive definite
    matrices. Write it in Python by numpy.savez("tensors.npz", X=X, Y=Y).
    """

    kind = "spd"
    data: Data
    """An .npz with X and Y."""


@dataclass(frozen=True, kw_only=True)
class FitRows(FitOptions):
    data: Data
    """A table; an .npz holds X (n, p), and its y, if it has one, is left out."""
    ignore: Annotated[Names, _default("none")] = ()
    """Columns to leave out, separated by commas."""


@dataclass(frozen=True, kw_only=True)
class FitRegression(FitRows):
    """Predict several targets from other columns: a mean and a full error covariance for each row.
    $ mmlp fit regression wind.csv --targets u,v --test 0.2
    $ mmlp fit regression wind.csv --targets u,v --ignore station,date -o wind.safetensors
    """

    kind = "regression"
    data: Data
    """A table; an .npz holds X (n, p) and y (n, d); the columns of arrays are called x0, x1, ..."""
    targets: Annotated[Names, _default("y of an .npz; needed elsewhere")] = ()
    """The columns to predict, separated by commas; all others are inputs."""


@dataclass(frozen=True, kw_only=True)
class FitVae(FitRows):
    """Learn the distribution of rows by a VAE, to sample new rows or score how usual a row is.
    $ mmlp fit vae sensors.csv --latent 2 -o sensors.safetensors
    $ mmlp sample sensors.safetensors -n 1000 -o simulated.csv
    $ mmlp predict sensors.safetensors today.csv    # how usual is each row?
    """

    kind = "vae"
    epochs: Annotated[int | None, VAE_EPOCHS] = None
    latent: Annotated[int, arg(metavar="K")] = 2
    """The number of latent variables: more for columns that depend on each other in more ways."""

    def params(self) -> dict[str, Any]:
        return super().params() | {"n_components": self.latent}


# by an estimator's `targets`
FORMS = {"matrices": FitSpd, "columns": FitRegression, None: FitRows}


def for_estimator(estimator: Any) -> type:
    """Those of `mmlp fit` for an estimator that has no class here, after the form of its data."""
    epochs = ("epochs", Annotated[int | None, _default(estimator().max_epochs, "N")], None)
    rest = {"kind": estimator.kind, "__doc__": estimator.__doc__}
    options = {"bases": (FORMS[estimator.targets],), "namespace": rest}
    return make_dataclass(f"Fit {estimator.kind}", [epochs], **options, frozen=True, kw_only=True)


@dataclass(frozen=True, kw_only=True)
class Predict:
    """Apply a model to new rows.
    $ mmlp predict wind.safetensors tomorrow.csv -o forecast.npz
    $ mmlp predict wind.safetensors tomorrow.csv | head

    Columns are found by their names; others are left alone. Results have one row for each of DATA:
      regression   mean, covariance
      spd          covariance
      vae          log_density, latent

    An .npz holds them as arrays of these names; a .csv has columns such as mean_u, mean_v,
    covariance_u_u, covariance_u_v.
    """

    model: ModelFile
    data: Data
    """A table with the input columns of the model."""
    out: Out = None
    """Where to write: .csv, .npz, .npy or - for stdout."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """Measure a model on rows whose answer is known, best on rows that it was not fitted to.
    $ mmlp score wind.safetensors unseen.csv --json

    regression: the mean negative log-likelihood and energy score (smaller is better), the share of
    rows inside their 90 % ellipsoid (0.9 is best), R squared of the mean. spd: the mean von Neumann
    divergence (smaller is better), R squared. vae: the mean log-density (larger is better).
    """

    model: ModelFile
    data: Data
    """A table with the columns of the model, targets too."""
    json: Json = False


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Draw new rows from a model of kind vae.
    $ mmlp sample sensors.safetensors -n 1000 -o simulated.csv
    """

    model: ModelFile
    rows: Annotated[int, arg(aliases=["-n"], metavar="N")]
    """How many rows."""
    out: Out = None
    """Where to write: .csv, .npz, .npy or - for stdout."""
    seed: int = 0
    """The same seed gives the same rows."""


@dataclass(frozen=True, kw_only=True)
class Info:
    """Say what a model file is: its kind, columns, size and how it was trained.
    $ mmlp info wind.safetensors
    """

    model: ModelFile
    json: Json = False


@dataclass(frozen=True, kw_only=True)
class Reproduce:
    """Run the paper's experiments and write a page that shows its values beside those obtained.
    $ mmlp reproduce all --quick
    $ mmlp reproduce example1 --seeds 5
    """

    targets: Annotated[Positional[tuple[Literal[Target, "all"], ...]], TARGET]
    quick: bool = False
    """Small runs, to see that everything works; their numbers are not results."""
    seeds: Annotated[int | None, _default("as the experiment has it", "N")] = None
    """Runs with different seeds, where an experiment has them."""
    data: Annotated[Path | None, _default("none", "DIR")] = None
    """Folder of the data, where an experiment needs them."""
    out: Folder = Path("report")
    """Folder of the results and of index.html."""


class Group(NamedTuple):
    about: str
    commands: "dict[str, type | Group]"


FIT = """Train a model on a table and write it to one file; some rows are held out, to stop in time.
$ mmlp fit regression wind.csv --targets u,v -o wind.safetensors
$ mmlp fit vae sensors.csv"""
ROOT = """Networks whose output is a covariance: fit them to your tables, predict, score and sample.
$ mmlp demo
$ mmlp fit regression wind.csv --targets u,v -o wind.safetensors
$ mmlp score wind.safetensors unseen.csv
$ mmlp predict wind.safetensors tomorrow.csv -o forecast.csv

A table is a file of numbers: .csv or .csv.gz, its first line names the columns, .arff, .npy, .npz.

More about a command: mmlp COMMAND --help"""
KINDS = Group(FIT, {"regression": FitRegression, "spd": FitSpd, "vae": FitVae})
MODELS = {"predict": Predict, "score": Score, "sample": Sample, "info": Info}
COMMANDS = Group(ROOT, {"demo": Demo, "fit": KINDS, **MODELS, "reproduce": Reproduce})
