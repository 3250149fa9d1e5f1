"""Lists of column names as options: separated by commas, quoted as in a CSV file."""

import csv
import io
import shlex
from collections.abc import Sequence

HINT = "a name with a comma in it is written in quotation marks"


def parse_names(text: str) -> tuple[str, ...]:
    r"""Split a list of names; those with a comma in them are quoted.

    >>> parse_names('u, v')
    ('u', 'v')
    >>> parse_names('"speed, m/s",v')
    ('speed, m/s', 'v')
    """
    try:
        (names,) = csv.reader([text], skipinitialspace=True, strict=True)
    except (csv.Error, ValueError):
        raise ValueError(
            f"must be names separated by commas, got {text}; {HINT}, as in "
            """'"speed, m/s",v', and a quotation mark in it is doubled"""
        ) from None
    return tuple(filter(None, map(str.strip, names)))


def format_names(names: Sequence[str]) -> str:
    """Write names as `parse_names` reads them.

    >>> format_names(["speed, m/s", "v"])
    '"speed, m/s",v'
    """
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()


def format_argument(names: Sequence[str]) -> str:
    """Write names as one word of a shell.

    >>> print(format_argument(["u", "v"]), format_argument(["speed, m/s"]))
    u,v '"speed, m/s"'
    """
    return shlex.quote(format_names(names))


def explain_split_name(
    names: Sequence[str], columns: Sequence[str], option: str
) -> str:
    """Explain how to give a column whose name has commas, if `names` are parts of one.

    Parameters
    ----------
    names : sequence of str
        The names as the option was split.
    columns : sequence of str
        The columns of the table.
    option : str
        The name of the option, without dashes.

    Returns
    -------
    str
        The explanation; empty if no column has such parts.

    Examples
    --------
    >>> print(explain_split_name(["a", "b", "v"], ["a, b", "v", "w"], "ignore"))
    the name of column 'a, b' has a comma: quote it, --ignore '"a, b",v'
    """
    joined = _join_parts(names, columns)
    restored = [name for name in joined if name not in names and name in columns]
    if not restored:
        return ""
    return (
        f"the name of column {restored[0]!r} has a comma: quote it, "
        f"--{option} {format_argument(joined)}"
    )


def _join_parts(names: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Join neighbours that are parts of the name of a column, the longest first."""
    columns_by_parts = {_split(name): name for name in columns if "," in name}
    longest = max(map(len, columns_by_parts), default=0)
    joined = []
    start = 0
    while start < len(names):
        length = min(longest, len(names) - start)
        while (
            length > 1 and tuple(names[start : start + length]) not in columns_by_parts
        ):
            length -= 1
        if length > 1:
            joined.append(columns_by_parts[tuple(names[start : start + length])])
        else:
            length = 1
            joined.append(names[start])
        start += length
    return joined


def _split(name: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, name.split(","))))
