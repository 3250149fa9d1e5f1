"""Errors and warnings that carry facts, so that each front end writes its own sentence.

The library and the command line report the same problems to different readers. Someone
who calls `MultivariateRegressor(max_epochs=0)` knows arguments and array indices;
someone who types `mmlp fit --epochs 0` knows options and lines of a file. An error that
both may see therefore keeps its facts in fields: which call and argument, which file,
what is wrong, and what to do about it. `str(error)` is the sentence for Python.

An error whose sentence suits every reader needs no class from here.
"""

import os
from typing import Any


class Facts(Exception):  # noqa: N818 - the base of errors and of warnings
    """What an error or a warning reports.

    Parameters
    ----------
    problem : str
        What is wrong, without the name of the call and without a final period.
    call : str
        The call as Python writes it, such as "MultivariateRegressor.fit".
    remedy : str, optional
        What to do, in words that suit every front end.
    python_remedy : str, optional
        What to do in Python, if that differs from `remedy`.
    """

    def __init__(
        self,
        problem: str,
        *,
        call: str = "",
        remedy: str = "",
        python_remedy: str = "",
    ):
        # Exceptions are pickled as their positional arguments and their fields.
        super().__init__(problem)
        self.problem = problem
        self.call = call
        self.remedy = remedy
        self.python_remedy = python_remedy

    @property
    def subject(self) -> str:
        """Whom the problem concerns, as Python writes it."""
        return f"`{self.call}`: " if self.call else ""

    def __str__(self) -> str:
        return write_sentence(
            self.subject, self.problem, self.python_remedy or self.remedy
        )


def write_sentence(subject: str, problem: str, remedy: str) -> str:
    """Join the parts of a message.

    Examples
    --------
    >>> write_sentence("wind.csv ", "has 1 row", "collect more rows")
    'wind.csv has 1 row; collect more rows.'
    """
    return f"{subject}{problem}; {remedy}." if remedy else f"{subject}{problem}."


class CallError(Facts, ValueError):
    """A call cannot be carried out."""


class ArgumentError(CallError):
    """An argument has a value that cannot be used.

    Parameters
    ----------
    problem : str
        What the argument must be, and what it is, such as "must be at least 1, got 0".
    argument : str
        The name of the argument.
    call, remedy, python_remedy : str
        See `Facts`.
    """

    def __init__(self, problem: str, *, argument: str = "", **facts: str):
        super().__init__(problem, **facts)
        self.argument = argument

    @property
    def subject(self) -> str:
        if not self.call:
            return f"`{self.argument}` "
        return f"`{self.call}({self.argument}=...)` "


class MatrixError(ArgumentError):
    """One of several matrices cannot be used.

    Parameters
    ----------
    requirement : str
        What each matrix must be, such as "must be positive definite".
    deviation : str
        What the matrix is instead, such as "has smallest eigenvalue -0.5".
    index : tuple of int
        The place of the matrix in the array; empty for a single matrix.
    argument, call, remedy, python_remedy : str
        See `ArgumentError`.
    """

    def __init__(
        self,
        requirement: str,
        deviation: str = "",
        *,
        index: tuple[int, ...] = (),
        **facts: str,
    ):
        element = f"element {index}" if index else "the matrix"
        super().__init__(f"{requirement}, but {element} {deviation}", **facts)
        self.requirement = requirement
        self.deviation = deviation
        self.index = index


class CellError(CallError):
    """One cell of a table cannot be used.

    Parameters
    ----------
    problem : str
        What is wrong with the cell, such as "is 1e+30 in standard units".
    argument : str
        The table, such as "X".
    row, column : int
        The place of the cell, from 0.
    call, remedy, python_remedy : str
        See `Facts`.
    """

    def __init__(
        self,
        problem: str,
        *,
        argument: str = "",
        row: int = 0,
        column: int = 0,
        **facts: str,
    ):
        super().__init__(problem, **facts)
        self.argument = argument
        self.row = row
        self.column = column

    @property
    def place(self) -> str:
        """Where the cell is, by indices."""
        return f"{self.argument} in row {self.row}, column {self.column} (from 0)"

    @property
    def subject(self) -> str:
        return f"{super().subject}{self.place} "


class FileError(CallError):
    """A file or a directory cannot be used.

    Parameters
    ----------
    path : path
        The file.
    problem : str
        What is wrong with it, such as "holds a network".
    call, remedy, python_remedy : str
        See `Facts`.
    """

    def __init__(self, path: str | os.PathLike[str], problem: str = "", **facts: str):
        super().__init__(problem, **facts)
        self.path = path

    @property
    def subject(self) -> str:
        return f"{super().subject}{self.path} "


class PrecisionError(FileError):
    """A file holds 64-bit numbers, which JAX is not set up to keep."""


class DirectoryInUseError(FileError):
    """Another run writes its checkpoints into the directory."""


class UnusableCheckpointError(FileError):
    """The directory holds checkpoints that this run cannot resume from."""


class AnotherRunError(UnusableCheckpointError):
    """The directory holds the checkpoints of another run."""


class NonFiniteError(Facts, FloatingPointError):
    """Training met losses or gradients that are not finite and could not recover.

    Attributes
    ----------
    result : FitResult
        The last good model and the history up to there.
    """

    result: Any = None


class CallWarning(Facts, UserWarning):
    """A call does what it was asked for, but its caller should know something."""


class NonFiniteWarning(Facts, RuntimeWarning):
    """Training met losses or gradients that are not finite and goes on."""
