"""Tables in text: CSV (commas, semicolons or tabs) and ARFF, as names and rows of cells."""

import csv
import gzip
import io
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from mmlp.tables.cells import parse_number
from mmlp.tables.problems import list_problems

MAGIC = {  # how files begin that are often given a wrong name
    b"\x1f\x8b": "is compressed by gzip; add .gz to its name",
    b"PK\x03\x04": "is a zip archive or an Excel workbook, not text; export the sheet as CSV",
    b"\xd0\xcf\x11\xe0": "is an Excel workbook, not text; export the sheet as CSV",
    b"PAR1": "is a Parquet file, not text; export it as CSV",
    b"\x93NUMPY": "is a NumPy array, not text; name it .npy",
    b"\xff\xfe": "is text in UTF-16; save it as UTF-8",
    b"\xfe\xff": "is text in UTF-16; save it as UTF-8",
}


# Excel's first line that names the separator; a program that pads all rows adds more of it.
SEPARATOR_LINE = re.compile(
    r'"?sep=(?P<separator>[^\w"\n\r])"?(?P=separator)*', re.IGNORECASE
)


class Row(NamedTuple):
    line: int  # in the file, from 1; the first of a row with line breaks in its cells
    cells: list[str]


class Text(NamedTuple):
    """The content of a text file, as far as it is a table.

    `rows` are those with a cell for each column. What is wrong with the other lines, and with the
    names, is told in `ragged` and in `faulty`; names that are missing or given twice are replaced,
    so that the cells of their columns can still be checked.
    """

    names: tuple[str, ...]
    rows: list[Row]
    faulty_names: tuple[str, ...]
    ragged_lines: tuple[str, ...]


def read_csv(path: Path) -> Text:
    """Read names and rows, of cells that may be anything."""
    text = _decoded(path)
    blank_lines = len(text) - len(text.lstrip("\n"))
    first_line = text[blank_lines:].partition("\n")[0]
    separator = declared_separator(first_line)
    if separator is None:
        separator = separator_of(first_line)
    else:  # an empty line in its place keeps the numbers of the lines
        text = text[:blank_lines] + text[blank_lines + len(first_line) :]
    lines = io.StringIO(text.rstrip("\n "))
    reader = csv.reader(
        lines, delimiter=separator, skipinitialspace=separator != " ", strict=True
    )
    rows = []
    line = 1
    try:
        for cells in reader:
            rows.append(Row(line, cells or [""]))
            line = (
                reader.line_num + 1
            )  # a cell in quotation marks may take several lines
    except csv.Error as error:
        raise _left_open(f"{path}, line {reader.line_num}", error) from None
    while rows and rows[0].cells == [""]:
        rows.pop(0)
    if not rows:
        raise ValueError(f"{path} is empty; its first line must name the columns.")
    line, names = rows[0].line, tuple(cell.strip() for cell in rows[0].cells)
    if all(parse_number(name) is not None for name in names):
        example = separator.join(f"x{i}" for i in range(len(names)))
        what = "holds numbers where names belong; add a first line"
        raise ValueError(f"{path}, line {line} {what}, such as {example:.40}.")
    rows = [row for row in rows[1:] if row.cells != [""] or len(names) == 1]
    return _checked(
        path, [f"line {line}: {fault}" for fault in faulty_names(names)], names, rows
    )


def read_arff(path: Path) -> Text:
    """Read Weka's format (https://waikato.github.io/weka-wiki/, "ARFF (stable)")."""
    names, rows, data = [], [], False
    for line, content in enumerate(map(str.strip, _decoded(path).split("\n")), 1):
        if not content or content.startswith("%"):
            continue
        place, keyword = f"{path}, line {line}", content.split(maxsplit=1)[0].lower()
        if data and content.startswith("{"):
            raise ValueError(
                f"{place}: sparse rows are not read; write all values of a row."
            )
        if data:
            rows.append(Row(line, _arff_cells(place, content)))
        elif keyword == "@attribute":
            match = re.match(
                r"@\w+\s+(?:'([^']+)'|\"([^\"]+)\"|([^\s'\"]+))\s+\S", content
            )
            if match is None:
                form = "an attribute is written `@attribute NAME numeric`"
                raise ValueError(f"{place}: {form}, this is {content!r:.60}.")
            names.append(next(group for group in match.groups() if group))
        elif keyword not in ("@relation", "@data"):
            what = f"{content!r:.60} stands before `@data`"
            raise ValueError(f"{place}: {what}; is this an ARFF file?")
        data = data or keyword == "@data"
    if not data or not names:
        missing = "@data" if names else "@attribute"
        raise ValueError(f"{path} ends without `{missing}`; is it whole?")
    faulty = [f"`@attribute`: {fault}" for fault in faulty_names(names)]
    return _checked(path, faulty, names, rows)


def declared_separator(line: str) -> str | None:
    """Return the separator that a first line such as Excel's "sep=;" declares, if it does.

    >>> declared_separator("sep=;"), declared_separator("height;speed")
    (';', None)
    """
    match = SEPARATOR_LINE.fullmatch(line.removesuffix("\n").removesuffix("\r"))
    return match["separator"] if match else None


def separator_of(line: str) -> str:
    """What a line of names has most of, outside of quotation marks: comma, semicolon or tab."""
    return max(",;\t", key=re.sub('"[^"]*"', "", line).count)


def faulty_names(names: Sequence[str]) -> list[str]:
    """What is wrong with the names of columns."""
    first, faults = {}, []
    for i, name in enumerate(names, 1):
        if not name:
            remedy = "give it one (from pandas: `to_csv(index=False)`)"
            faults.append(f"column {i} has no name; {remedy}")
        elif first.setdefault(name, i) != i:
            both = f"columns {first[name]} and {i} are both called {name!r}"
            faults.append(f"{both}; rename one")
    return faults


def _checked(
    path: Path, faulty: list[str], names: Sequence[str], rows: Sequence[Row]
) -> Text:
    """Set rows of another length apart; raise an error if no others are left."""
    whole = []
    ragged = []
    for row in rows:
        if len(row.cells) == len(names):
            whole.append(row)
        else:
            count = f"{len(row.cells)} cells where there are {len(names)} columns"
            ragged.append(f"line {row.line}: {count}; correct it")
    if not whole and (faulty or ragged):
        raise ValueError(list_problems(str(path), [*faulty, *ragged]))
    if not rows:
        raise ValueError(f"{path} has {len(names)} columns but no rows; add the data.")
    return Text(_distinct(names), whole, tuple(faulty), tuple(ragged))


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Give columns without a name, or with that of another one, a name by their number."""
    taken = set()
    distinct = []
    for i, name in enumerate(names, 1):
        if not name or name in taken:
            name = f"{name} (column {i})".strip()
        taken.add(name)
        distinct.append(name)
    return tuple(distinct)


def _decoded(path: Path) -> str:
    """The text of a file, with lines that end in a line feed."""
    content = path.read_bytes()
    if path.name.lower().endswith(".gz"):
        try:
            content = gzip.decompress(content)
        except gzip.BadGzipFile:
            raise ValueError(
                f"{path} is not compressed by gzip; take .gz from its name."
            ) from None
        except (EOFError, zlib.error):
            raise ValueError(
                f"{path} is damaged or cut short; copy it again."
            ) from None
    for magic, what in MAGIC.items():
        if content.startswith(magic):
            raise ValueError(f"{path} {what}.")
    try:
        text = content.decode("utf-8-sig")
        wrong = text.find("\0")
        line = text.count("\n", 0, wrong) + 1
    except UnicodeDecodeError as error:
        text, wrong, line = "", error.start, content.count(b"\n", 0, error.start) + 1
    if wrong >= 0:
        remedy = "export the table as CSV in UTF-8"
        raise ValueError(
            f"{path}, line {line} holds bytes that are not UTF-8 text; {remedy}."
        )
    if not text.strip():
        raise ValueError(
            f"{path} is empty; it needs the names of the columns and rows of numbers."
        )
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _arff_cells(place: str, content: str) -> list[str]:
    if "'" not in content and '"' not in content:
        return content.split(",")
    quote = "'" if "'" in content else '"'
    options = {
        "quotechar": quote,
        "escapechar": "\\",
        "skipinitialspace": True,
        "strict": True,
    }
    try:
        return next(csv.reader([content], **options))
    except csv.Error as error:
        raise _left_open(place, error) from None


def _left_open(place: str, error: Exception) -> ValueError:
    return ValueError(f"{place}: {error}; is a quotation mark left open?")
