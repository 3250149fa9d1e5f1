"""Problems of tables in the words of the command: lines of the file, and options."""

import contextlib
from collections.abc import Iterator

from mmlp.cli.column_names import format_argument
from mmlp.tables import Table
from mmlp.tables.preparation import Leak
from mmlp.tables.problems import ProblemsError, Remedy, Wording

# The remedies for which the command has options.
OPTION_WORDING: Wording = {
    Remedy.DECLARE_CATEGORIES: "say by --categories that the column holds categories",
    Remedy.GIVE_DECIMAL_MARK: "describe the numbers by --decimal",
    Remedy.GIVE_NUMBER_FORMAT: "describe the numbers by --decimal and --thousands",
    Remedy.CORRECT_NUMBER_FORMAT: (
        "give the options --decimal and --thousands that fit the file"
    ),
    Remedy.READ_AS_THOUSANDS: "add --decimal , --thousands . if it is {readings[1]}",
    Remedy.WRITE_DECIMAL_COMMA: (
        "write it with a decimal comma if it is {readings[0]}"
    ),
    Remedy.READ_AS_DECIMAL_POINT: "--decimal . if it is {readings[0]}",
    Remedy.SET_DATE_ORDER: "say it by --dates day-first or month-first",
    Remedy.REFIT_WITH_DATE_ORDER: "fit with --dates day-first or month-first",
}


@contextlib.contextmanager
def explain_problems(table: Table | None) -> Iterator[None]:
    """Name the lines and options in problems of this table's cells."""
    try:
        yield
    except ProblemsError as error:
        if table is None:
            raise
        table.check_usable(error.problems, OPTION_WORDING)


def describe_leak(leak: Leak) -> str:
    """Return a warning of an input that predicts a target almost exactly."""
    return (
        f"column {leak.input!r} predicts the target {leak.target!r} almost exactly "
        f"(correlation {leak.correlation:.6f}); if it is not known when you predict, "
        f"leave it out: --ignore {format_argument([leak.input])}"
    )
