"""Checks of options against each other, before any file is read.

Bounds of single options are declared with the option, in `mmlp.cli.arguments`.
"""

from pathlib import Path
from typing import Any

from mmlp import tables
from mmlp.cli.arguments import FitColumns, FitOptions, Predict, Sample


def check_options(command: Any) -> None:
    """Refuse options that contradict each other, and names that cannot be used.

    Raises
    ------
    ValueError
        With what to type instead.
    """
    check_share_of_test_rows(command)
    check_targets(command)
    check_rank(command)
    check_separators(command)
    check_model(command)
    check_output(command)


def check_share_of_test_rows(command: Any) -> None:
    """The share must leave rows to train on."""
    if isinstance(command, FitOptions) and not 0 <= command.test < 1:
        raise ValueError(
            f"--test must be a share below 1, such as 0.2, got {command.test:g}."
        )


def check_targets(command: Any) -> None:
    """Only an .npz can say by itself what to predict."""
    if not isinstance(command, FitColumns) or command.targets:
        return
    if not command.data.name.lower().endswith(".npz"):
        data = "stdin" if command.data == Path("-") else command.data
        raise ValueError(
            f"--targets is needed: the columns of {data} to predict, such as --targets u,v."
        )


def check_rank(command: Any) -> None:
    """A rank belongs to covariances of low rank, and cannot exceed their size."""
    rank = getattr(command, "rank", None)
    if rank is None:
        return
    if command.covariance == "full":
        raise ValueError(
            f"--rank {rank} is for a covariance of low rank; leave out --covariance full, "
            "or --rank."
        )
    n_targets = len(getattr(command, "targets", ()))
    if n_targets and rank > n_targets:
        raise ValueError(
            f"--rank must be at most {n_targets}, the number of targets, got {rank}: so "
            "many loadings hold every covariance; use a smaller one, or leave it out."
        )


def check_separators(command: Any) -> None:
    """One character cannot be both the decimal mark and the thousands separator."""
    decimal = getattr(command, "decimal", None)
    if decimal is not None and decimal == command.thousands:
        raise ValueError(
            f"--decimal and --thousands are both {decimal!r}; leave out one of them, or "
            "name two different characters."
        )


def check_model(command: Any) -> None:
    """A table in the place of the model was probably meant as the data."""
    model = getattr(command, "model", None)
    if model is not None and model.name.lower().endswith(tables.INPUT_EXTENSIONS):
        raise ValueError(
            f"{model} is a table, not a model; the model comes first, such as "
            "wind.safetensors."
        )


def check_output(command: Any) -> None:
    """The name of the file to write must say its format."""
    if isinstance(command, FitOptions) and command.out is not None:
        tables.find_extension(command.out, (".safetensors",), "write")
    if isinstance(command, Predict | Sample):
        results = tables.find_results_file(command.out)
        if results is not None:
            tables.find_output_format(results)
