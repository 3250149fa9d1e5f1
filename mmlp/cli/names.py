"""Lists of columns as options take them: separated by commas, with CSV's quotation marks."""

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
    """Explain how to give a column whose name has commas, if `names` are the pieces of one.

    >>> print(explain_split_name(["a", "b", "v"], ["a, b", "v", "w"], "ignore"))
    the name of column 'a, b' has a comma: quote it, --ignore '"a, b",v'
    """
    known = set(columns)
    with_comma = {_pieces(column): column for column in columns if "," in column}
    longest = max(map(len, with_comma), default=0)
    joined = []
    start = 0
    while start < len(names):
        lengths = range(min(longest, len(names) - start), 1, -1)
        pieces = (tuple(names[start : start + length]) for length in lengths)
        match = next((piece for piece in pieces if piece in with_comma), None)
        joined.append(names[start] if match is None else with_comma[match])
        start += 1 if match is None else len(match)
    found = [name for name in joined if name not in names and name in known]
    if not found:
        return ""
    quoted = format_argument(joined)
    return f"the name of column {found[0]!r} has a comma: quote it, --{option} {quoted}"


def _pieces(name: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, name.split(","))))
