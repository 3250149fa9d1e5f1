"""The arguments of the command line: a class for each command, its docstring and its fields' are the help."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from tyro.conf import Positional, arg
from tyro.constructors import PrimitiveConstructorSpec

from mmlp.experiments.harness.targets import Target

Data = Annotated[Positional[Path], arg(metavar="DATA")]
ModelFile = Annotated[Positional[Path], arg(metavar="MODEL")]
Names = Annotated[
    tuple[str, ...],
    PrimitiveConstructorSpec(
        nargs=1,
        metavar="NAMES",
        instance_from_str=lambda words: tuple(
            name.strip() for name in words[0].split(",") if name.strip()
        ),
        is_instance=lambda value: isinstance(value, tuple),
        str_from_instance=lambda names: [",".join(names)],
    ),
]


def _epochs(default: int):
    """The estimator's `max_epochs`, which cannot be asked here: scikit-learn takes seconds to import."""
    return arg(metavar="N", help_behavior_hint=f"(default: {default})")


def _out(metavar: str, default: str):
    return arg(aliases=["-o"], metavar=metavar, help_behavior_hint=f"(default: {default})")


@dataclass(frozen=True, kw_only=True)
class Demo:
    """Take the tour: learn covariance matrices, regress with full covariance, model digits, and write a report.

    It needs no data, takes a few minutes on two cores, and ends by naming the page to open.
    """

    out: Annotated[Path, arg(aliases=["-o"], metavar="FOLDER")] = Path("demo")
    """Folder of the report and its pictures."""
    quick: bool = False
    """Train for a moment only, to see that it works."""


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    data: Data
    out: Annotated[Path | None, _out("MODEL", "the name of DATA, with .safetensors, here")] = None
    """The model file to write, .safetensors. If training is interrupted, the same command goes on from MODEL.checkpoint."""
    epochs: Annotated[int | None, _epochs(500)] = None
    """The most passes over the data; training ends earlier when rows that it holds out improve no more."""
    seed: int = 0
    """For the initial weights, the order of rows and which are held out; the same seed gives the same model."""
    test: Annotated[float, arg(metavar="SHARE")] = 0.0
    """Keep this share of the rows, such as 0.2, from training altogether, and report how well the model does on them."""
    quiet: bool = False
    """No progress on stderr."""
    json: bool = False
    """Print the summary as JSON."""


@dataclass(frozen=True, kw_only=True)
class FitSpd(FitOptions):
    """Learn a covariance (SPD) matrix as a function of numbers.
    $ mmlp fit spd tensors.npz -o tensors.safetensors

    DATA is an .npz with X (n, p), the inputs, and Y (n, d, d), their symmetric positive definite matrices. Write it in
    Python by numpy.savez("tensors.npz", X=X, Y=Y).
    """

    data: Data
    """An .npz with X and Y."""


@dataclass(frozen=True, kw_only=True)
class FitRegression(FitOptions):
    """Predict several targets from the other columns, with a mean and a full error covariance for every row.
    $ mmlp fit regression wind.csv --targets u,v --test 0.2
    $ mmlp fit regression wind.csv --targets u,v --ignore station,date -o wind.safetensors
    """

    data: Data
    """A table; an .npz holds X (n, p) and y (n, d), an .npy one array whose columns are called x0, x1, ..."""
    targets: Annotated[
        Names, arg(help_behavior_hint="(default: y of an .npz; needed otherwise)")
    ] = ()
    """The columns to predict, separated by commas; all others are inputs."""
    ignore: Annotated[Names, arg(help_behavior_hint="(default: none)")] = ()
    """Columns to leave out, separated by commas."""


@dataclass(frozen=True, kw_only=True)
class FitVae(FitOptions):
    """Learn the distribution of rows by a variational autoencoder, to sample new rows or score how usual a row is.
    $ mmlp fit vae sensors.csv --latent 2 -o sensors.safetensors
    $ mmlp sample sensors.safetensors -n 1000 -o simulated.csv
    $ mmlp predict sensors.safetensors today.csv    # how usual is each row?
    """

    data: Data
    """A table; an .npz holds X (n, p), and its y, if it has one, is left out."""
    epochs: Annotated[int | None, _epochs(300)] = None
    latent: Annotated[int, arg(metavar="K")] = 2
    """The number of latent variables: more for columns that depend on each other in more ways."""
    ignore: Annotated[Names, arg(help_behavior_hint="(default: none)")] = ()
    """Columns to leave out, separated by commas."""


@dataclass(frozen=True, kw_only=True)
class Predict:
    """Apply a model to new rows.
    $ mmlp predict wind.safetensors tomorrow.csv -o forecast.npz
    $ mmlp predict wind.safetensors tomorrow.csv | head

    Columns are found by their names; others are left alone. The results have one row for each of DATA:
      regression   mean, covariance
      spd          covariance
      vae          log_density, latent

    An .npz holds them as arrays of these names; a .csv has columns such as mean_u, mean_v, covariance_u_u, covariance_u_v.
    """

    model: ModelFile
    """A file that `mmlp fit` wrote."""
    data: Data
    """A table with the input columns of the model."""
    out: Annotated[Path | None, _out("OUT", "stdout, as CSV")] = None
    """Where to write: .csv, .npz, .npy or - for stdout."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """Measure a model on rows whose answer is known, best on rows that it was not fitted to.
    $ mmlp score wind.safetensors unseen.csv --json

    regression: the mean negative log-likelihood and energy score (smaller is better), the share of rows inside their 90 %
    ellipsoid (0.9 is best), R squared of the mean. spd: the mean von Neumann divergence (smaller is better), R squared.
    vae: the mean log-density (larger is better).
    """

    model: ModelFile
    """A file that `mmlp fit` wrote."""
    data: Data
    """A table with the columns of the model, targets too."""
    json: bool = False
    """Print JSON."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Draw new rows from a model of kind vae.
    $ mmlp sample sensors.safetensors -n 1000 -o simulated.csv
    """

    model: ModelFile
    """A file that `mmlp fit vae` wrote."""
    rows: Annotated[int, arg(aliases=["-n"], metavar="N")]
    """How many rows."""
    out: Annotated[Path | None, _out("OUT", "stdout, as CSV")] = None
    """Where to write: .csv, .npz, .npy or - for stdout."""
    seed: int = 0
    """The same seed gives the same rows."""


@dataclass(frozen=True, kw_only=True)
class Info:
    """Say what a model file is: its kind, columns, size and how it was trained.
    $ mmlp info wind.safetensors
    """

    model: ModelFile
    """A file that `mmlp fit` wrote."""
    json: bool = False
    """Print JSON."""


@dataclass(frozen=True, kw_only=True)
class Reproduce:
    """Run the experiments of the paper and write a page that shows its values beside those obtained.
    $ mmlp reproduce all --quick
    $ mmlp reproduce example1 --seeds 5
    """

    targets: Annotated[Positional[tuple[Literal[Target, "all"], ...]], arg(metavar="TARGET")]
    """example1 (losses), example1-mlp, example2 (depth), frey (VAEs), frey-pixels, collapse, density, radius, or all."""
    quick: bool = False
    """Small runs, to see that everything works; their numbers are not results."""
    seeds: Annotated[
        int | None, arg(metavar="N", help_behavior_hint="(default: as the experiment has it)")
    ] = None
    """Runs with different seeds, where an experiment has them."""
    data: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(default: none)")] = None
    """Folder of the data, where an experiment needs them."""
    out: Annotated[Path, arg(aliases=["-o"], metavar="FOLDER")] = Path("report")
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

A table is a file of numbers: .csv or .csv.gz, whose first line names the columns, .arff, .npy or .npz.

More about a command: mmlp COMMAND --help"""
KINDS = Group(FIT, {"regression": FitRegression, "spd": FitSpd, "vae": FitVae})
COMMANDS = Group(
    ROOT,
    {
        "demo": Demo,
        "fit": KINDS,
        "predict": Predict,
        "score": Score,
        "sample": Sample,
        "info": Info,
        "reproduce": Reproduce,
    },
)
