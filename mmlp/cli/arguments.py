"""The arguments: a class for each command; its docstring and its fields' are the help."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

from tyro.conf import arg

from mmlp.cli.fit_arguments import (
    Data,
    FitRegression,
    FitSpd,
    FitVae,
    ReadOptions,
    Whole,
    default,
)

ModelFile = Annotated[Data, arg(metavar="MODEL", help="A file that `mmlp fit` wrote.")]
Json = Annotated[bool, arg(help="Print JSON.")]
Folder = Annotated[Path, arg(aliases=["-o"], metavar="FOLDER")]
PAGES = default("the name of MODEL, with -report, here", "FOLDER", "-o")
Out = Annotated[Path | None, default("stdout, as CSV", "OUT", "-o")]


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
class Predict(ReadOptions):
    """Apply a model to new rows.
    $ mmlp predict wind.safetensors tomorrow.csv -o forecast.npz
    $ mmlp predict wind.safetensors tomorrow.csv | head

    Columns are found by their names; others are left alone. Results have one row for each of DATA:
      regression   mean, covariance; if this has low rank, diag(scale^2) + loadings' loadings:
                   mean, std, and in an .npz scale, loadings
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
class Score(ReadOptions):
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
class Report(ReadOptions):
    """Write a page about a model, on rows whose answer is known, best ones it was not fitted to.
    $ mmlp report wind.safetensors unseen.csv -o wind-report

    FOLDER/index.html, which works offline, shows scores beside simple baselines, calibration,
    predictions against observations, which inputs matter, the worst rows, and how training went.
    """

    model: ModelFile
    data: Data
    """A table with the columns of the model, targets too."""
    out: Annotated[Path | None, PAGES] = None
    """Folder of the page; other files in it stay."""
    quiet: bool = False
    """No progress on stderr."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Draw new rows from a model of kind vae.
    $ mmlp sample sensors.safetensors -n 1000 -o simulated.csv
    """

    model: ModelFile
    rows: Annotated[Whole, arg(aliases=["-n"], metavar="N")]
    """How many rows."""
    out: Out = None
    """Where to write: .csv, .npz, .npy or - for stdout."""
    seed: Whole = 0
    """The same seed gives the same rows."""


@dataclass(frozen=True, kw_only=True)
class Info:
    """Say what a model file is: its kind, columns, size and how it was trained.
    $ mmlp info wind.safetensors
    """

    model: ModelFile
    json: Json = False


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

A table is a file, .csv or .csv.gz, whose first line names the columns, .arff, .npy or .npz;
or - for a CSV from stdin.

More about a command: mmlp COMMAND --help"""
KINDS = Group(FIT, {"regression": FitRegression, "spd": FitSpd, "vae": FitVae})
MODELS = {
    "predict": Predict,
    "score": Score,
    "report": Report,
    "sample": Sample,
    "info": Info,
}
COMMANDS = Group(ROOT, {"demo": Demo, "fit": KINDS, **MODELS})
