"""Tables in text files: CSV (commas, semicolons or tabs) and ARFF.

A CSV of nothing but plain numbers is read at once by `read_numeric_csv`: a million rows
take seconds. Any other text is read cell by cell, as names and rows of text.
"""

import csv
import gzip
import io
import itertools
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from mmlp.tables.cells import parse_number
from mmlp.tables.problems import list_problems

SEPARATORS = (",", ";", "\t")
# Excel's first line that names the separator; a program that pads all rows adds more of
# it.
SEPARATOR_LINE = re.compile(
    r'"?sep=(?P<separator>[^\w"\n\r])"?(?P=separator)*', re.IGNORECASE
)
# How files begin that often have a wrong name.
MAGIC_BYTES = {
    b"\x1f\x8b": "is compressed by gzip; add .gz to its name",
    b"PK\x03\x04": (
        "is a zip archive or an Excel workbook, not text; export the sheet as CSV"
    ),
    b"\xd0\xcf\x11\xe0": "is an Excel workbook, not text; export the sheet as CSV",
    b"PAR1": "is a Parquet file, not text; export it as CSV",
    b"\x93NUMPY": "is a NumPy array, not text; name it .npy",
    b"\xff\xfe": "is text in UTF-16; save it as UTF-8",
    b"\xfe\xff": "is text in UTF-16; save it as UTF-8",
}


class Row(NamedTuple):
    """A row of text cells.

    Parameters
    ----------
    line : int
        Its line in the file, from 1; the first one if cells have line breaks.
    cells : list of str
    """

    line: int
    cells: list[str]


class TextTable(NamedTuple):
    """The content of a text file, as far as it is a table.

    Names that are missing or given twice are replaced, so that the cells of their
    columns can still be checked.

    Parameters
    ----------
    names : tuple of str
    rows : list of Row
        The rows with a cell for each column.
    name_faults : tuple of str
        What is wrong with the names.
    line_faults : tuple of str
        What is wrong with the lines that are not among the rows.
    """

    names: tuple[str, ...]
    rows: list[Row]
    name_faults: tuple[str, ...]
    line_faults: tuple[str, ...]


# Text, cell by cell. ------------------------------------------------------------------


def read_csv(path: Path) -> TextTable:
    """Read the names and the rows of a CSV."""
    text = _read_text(path)
    n_blank_lines = len(text) - len(text.lstrip("\n"))
    top_line = text[n_blank_lines:].partition("\n")[0]
    separator = find_declared_separator(top_line)
    if separator is None:
        separator = guess_separator(top_line)
    else:
        # An empty line in its place keeps the numbers of the lines.
        text = text[:n_blank_lines] + text[n_blank_lines + len(top_line) :]

    rows = _split_csv(path, text, separator)
    while rows and rows[0].cells == [""]:
        rows.pop(0)
    if not rows:
        raise ValueError(f"{path} is empty; its first line must name the columns.")

    header, *rows = rows
    names = tuple(cell.strip() for cell in header.cells)
    if _are_numbers(names):
        example = separator.join(f"x{i}" for i in range(len(names)))
        raise ValueError(
            f"{path}, line {header.line} holds numbers where names belong; add a first "
            f"line, such as {example:.40}."
        )
    # A blank line is a row only where there is one column.
    rows = [row for row in rows if row.cells != [""] or len(names) == 1]
    faults = [f"line {header.line}: {fault}" for fault in find_name_faults(names)]
    return _separate_ragged_rows(path, faults, names, rows)


def _split_csv(path: Path, text: str, separator: str) -> list[Row]:
    """Split a text into rows of cells."""
    reader = csv.reader(
        io.StringIO(text.rstrip("\n ")),
        delimiter=separator,
        skipinitialspace=separator != " ",
        strict=True,
    )
    rows = []
    line = 1
    try:
        for cells in reader:
            rows.append(Row(line, cells or [""]))
            # A cell in quotation marks may take several lines.
            line = reader.line_num + 1
    except csv.Error as error:
        place = f"{path}, line {reader.line_num}"
        raise _describe_open_quote(place, error) from None
    return rows


def read_arff(path: Path) -> TextTable:
    """Read Weka's format (https://waikato.github.io/weka-wiki/, "ARFF (stable)")."""
    names: list[str] = []
    rows = []
    is_data = False
    for line, content in enumerate(map(str.strip, _read_text(path).split("\n")), 1):
        if not content or content.startswith("%"):
            continue
        place = f"{path}, line {line}"
        if is_data:
            rows.append(Row(line, _split_arff_row(place, content)))
            continue

        keyword = content.split(maxsplit=1)[0].lower()
        if keyword == "@attribute":
            names.append(_parse_arff_name(place, content))
        elif keyword == "@data":
            is_data = True
        elif keyword != "@relation":
            raise ValueError(
                f"{place}: {content!r:.60} stands before `@data`; is this an ARFF file?"
            )

    if not is_data or not names:
        missing = "@data" if names else "@attribute"
        raise ValueError(f"{path} ends without `{missing}`; is it whole?")
    faults = [f"`@attribute`: {fault}" for fault in find_name_faults(names)]
    return _separate_ragged_rows(path, faults, names, rows)


def _parse_arff_name(place: str, content: str) -> str:
    """Return the name of a column of an ARFF file."""
    match = re.match(r"@\w+\s+(?:'([^']+)'|\"([^\"]+)\"|([^\s'\"]+))\s+\S", content)
    if match is None:
        raise ValueError(
            f"{place}: an attribute is written `@attribute NAME numeric`, this is "
            f"{content!r:.60}."
        )
    return next(group for group in match.groups() if group)


def _split_arff_row(place: str, content: str) -> list[str]:
    """Split a row of an ARFF file into cells."""
    if content.startswith("{"):
        raise ValueError(
            f"{place}: sparse rows are not read; write all values of a row."
        )
    if "'" not in content and '"' not in content:
        return content.split(",")
    reader = csv.reader(
        [content],
        quotechar="'" if "'" in content else '"',
        escapechar="\\",
        skipinitialspace=True,
        strict=True,
    )
    try:
        return next(reader)
    except csv.Error as error:
        raise _describe_open_quote(place, error) from None


def find_declared_separator(line: str) -> str | None:
    """Return the separator that a first line such as Excel's "sep=;" declares.

    >>> find_declared_separator("sep=;")
    ';'
    >>> find_declared_separator("height;speed") is None
    True
    """
    match = SEPARATOR_LINE.fullmatch(line.removesuffix("\n").removesuffix("\r"))
    return match["separator"] if match else None


def guess_separator(line: str) -> str:
    """Return the separator that a line of names has most of, outside of quotes."""
    return max(SEPARATORS, key=re.sub('"[^"]*"', "", line).count)


def find_name_faults(names: Sequence[str]) -> list[str]:
    """Return what is wrong with the names of columns."""
    first_of_name: dict[str, int] = {}
    faults = []
    for number, name in enumerate(names, 1):
        if not name:
            faults.append(
                f"column {number} has no name; give it one (from pandas: "
                "`to_csv(index=False)`)"
            )
        elif name in first_of_name:
            first = first_of_name[name]
            faults.append(
                f"columns {first} and {number} are both called {name!r}; rename one"
            )
        else:
            first_of_name[name] = number
    return faults


def _are_numbers(names: Sequence[str]) -> bool:
    """Return whether numbers stand where the names of columns belong."""
    return all(parse_number(name) is not None for name in names)


def _separate_ragged_rows(
    path: Path, name_faults: list[str], names: Sequence[str], rows: Sequence[Row]
) -> TextTable:
    """Set ragged rows apart; raise a ValueError if no whole rows are left."""
    whole = []
    line_faults = []
    for row in rows:
        if len(row.cells) == len(names):
            whole.append(row)
        else:
            line_faults.append(
                f"line {row.line}: {len(row.cells)} cells where there are {len(names)} "
                "columns; correct it"
            )
    if not whole and (name_faults or line_faults):
        raise ValueError(list_problems(str(path), [*name_faults, *line_faults]))
    if not rows:
        raise ValueError(f"{path} has {len(names)} columns but no rows; add the data.")
    return TextTable(
        _make_distinct(names), whole, tuple(name_faults), tuple(line_faults)
    )


def _make_distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Name columns by their number if they have no name, or that of another one."""
    taken = set()
    distinct = []
    for number, name in enumerate(names, 1):
        if not name or name in taken:
            name = f"{name} (column {number})".strip()
        taken.add(name)
        distinct.append(name)
    return tuple(distinct)


def _read_text(path: Path) -> str:
    """Return the text of a file, with lines that end in a line feed."""
    content = path.read_bytes()
    if path.name.lower().endswith(".gz"):
        content = _decompress(path, content)
    for magic, problem in MAGIC_BYTES.items():
        if content.startswith(magic):
            raise ValueError(f"{path} {problem}.")

    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _describe_bad_bytes(path, line) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise _describe_bad_bytes(path, line)
    if not text.strip():
        raise ValueError(
            f"{path} is empty; it needs the names of the columns and rows of numbers."
        )
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _decompress(path: Path, content: bytes) -> bytes:
    """Return the content of a file that was compressed by gzip."""
    try:
        return gzip.decompress(content)
    except gzip.BadGzipFile:
        raise ValueError(
            f"{path} is not compressed by gzip; take .gz from its name."
        ) from None
    except (EOFError, zlib.error):
        raise ValueError(f"{path} is damaged or cut short; copy it again.") from None


def _describe_bad_bytes(path: Path, line: int) -> ValueError:
    """Return the error for a file that is not text."""
    return ValueError(
        f"{path}, line {line} holds bytes that are not UTF-8 text; export the table as "
        "CSV in UTF-8."
    )


def _describe_open_quote(place: str, error: Exception) -> ValueError:
    """Return the error for a text that `csv` cannot read."""
    return ValueError(f"{place}: {error}; is a quotation mark left open?")


# Plain numbers, at once. --------------------------------------------------------------
#
# SciPy's reader of Matrix Market arrays is the fastest parser of numbers among the
# dependencies, and rounds like Python's. It also forgives: it reads 1.2.3 as 1.2. So
# each chunk of text is checked first, and whatever is not beyond doubt (quotation marks,
# blanks, text, dates, rows of another length) is left to the reader above, which says
# what is wrong.

BYTES_PER_CHUNK = 2**24
MAX_HEADER_BYTES = 2**20

# The classes of the characters of numbers such as -1.5e-3, with blanks before them.
CHARACTERS = {
    "end": b",;\t\n",
    "blank": b" ",
    "minus": b"-",
    "plus": b"+",
    "digit": b"0123456789",
    "point": b".",
    "exponent": b"eE",
}
# Which classes may follow a class.
SUCCESSORS = {
    "end": ("blank", "minus", "digit", "point"),
    "blank": ("blank", "minus", "digit", "point"),
    "minus": ("digit", "point"),
    "plus": ("digit",),
    "digit": ("digit", "point", "exponent", "end"),
    "point": ("digit",),
    "exponent": ("minus", "plus", "digit"),
}


def _make_byte_classes() -> tuple[bytes, bytes]:
    """Return the class of each byte, and the pairs of classes that are allowed.

    A pair is the number 8 a + b of the classes a and b; there are at most 8 classes.
    """
    index = {name: i for i, name in enumerate(CHARACTERS)}
    class_of_byte = bytearray([len(CHARACTERS)] * 256)
    for name, characters in CHARACTERS.items():
        for character in characters:
            class_of_byte[character] = index[name]
    pairs = [
        8 * index[first] + index[second]
        for first, successors in SUCCESSORS.items()
        for second in successors
    ]
    return bytes(class_of_byte), bytes(pairs)


CLASS_OF_BYTE, ALLOWED_PAIRS = _make_byte_classes()


class _NotPlainError(Exception):
    """The text must be read cell by cell."""


def read_numeric_csv(path: Path) -> tuple[tuple[str, ...], np.ndarray, int] | None:
    """Read a CSV in which each row is one line of finite numbers.

    Returns
    -------
    names : tuple of str
    rows : array of shape (n_rows, n_columns), float64
    first_line : int
        The line of the first row.

    None if the file holds anything else.
    """
    is_compressed = path.name.lower().endswith(".gz")
    try:
        with gzip.open(path) if is_compressed else open(path, "rb") as file:
            header = file.readline(MAX_HEADER_BYTES)
            separator = find_declared_separator(_decode_header(header))
            first_line = 2
            if separator is not None:
                header = file.readline(MAX_HEADER_BYTES)
                first_line = 3
            names, separator = _read_header(header, separator)
            chunks = [
                _parse_chunk(chunk, separator.encode(), len(names))
                for chunk in _read_chunks(file, header)
            ]
    except (_NotPlainError, EOFError, zlib.error, gzip.BadGzipFile):
        return None
    if not chunks:
        return None
    return names, np.concatenate(chunks), first_line


def _decode_header(header: bytes) -> str:
    """Return the line of names as text."""
    try:
        return header.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _NotPlainError from None


def _read_header(header: bytes, separator: str | None) -> tuple[tuple[str, ...], str]:
    """Return the names and the separator, which is guessed if none is declared."""
    text = _decode_header(header)
    if separator is None:
        separator = guess_separator(text)
    if separator not in SEPARATORS:
        raise _NotPlainError
    if header.startswith(tuple(MAGIC_BYTES)) or not header.endswith(b"\n"):
        raise _NotPlainError
    line = text.removesuffix("\n").removesuffix("\r")
    if any(character in line for character in '"\0\r'):
        raise _NotPlainError

    names = tuple(name.strip() for name in text.split(separator))
    if _are_numbers(names) or find_name_faults(names):
        raise _NotPlainError
    return names, separator


def _read_chunks(file: BinaryIO | gzip.GzipFile, header: bytes) -> Iterator[bytes]:
    """Yield chunks of whole lines, each of which ends in a line feed."""
    remainder = b""
    blocks = iter(lambda: file.read(BYTES_PER_CHUNK), b"")
    for block in itertools.chain(blocks, [b""]):
        text = remainder + block
        is_last = not block
        end = len(text) if is_last else text.rfind(b"\n") + 1
        chunk = text[:end]
        remainder = text[end:]
        if header.endswith(b"\r\n"):
            chunk = chunk.replace(b"\r\n", b"\n")
        if chunk and is_last:
            chunk = chunk.rstrip(b"\n ") + b"\n"
        if chunk:
            yield chunk


def _parse_chunk(chunk: bytes, separator: bytes, n_columns: int) -> np.ndarray:
    """Return the numbers of whole lines, (n_rows, n_columns)."""
    # SciPy takes as long to import as all else in this folder.
    from scipy.io import mmread

    n_rows = chunk.count(b"\n")
    marks = chunk.translate(None, b"0123456789+- ")
    separators = marks.translate(None, b".eE")
    if separators != (separator * (n_columns - 1) + b"\n") * n_rows:
        raise _NotPlainError
    # Only digits may stand between points and exponents, so that "1.2.3" and "1e5.2",
    # whose neighbouring characters are allowed, are found here.
    marks = marks.replace(b"E", b"e")
    if any(pair in marks for pair in (b"..", b"e.", b"ee")):
        raise _NotPlainError
    if not _has_allowed_pairs(chunk):
        raise _NotPlainError

    header = f"%%MatrixMarket matrix array real general\n{n_columns} {n_rows}\n"
    content = header.encode() + chunk.replace(separator, b"\n")
    columns: Any = mmread(io.BytesIO(content))
    if not np.isfinite(columns).all():
        raise _NotPlainError
    return np.ascontiguousarray(columns.T)


def _has_allowed_pairs(chunk: bytes) -> bool:
    """Return whether every character of a chunk may follow the one before it."""
    classes = np.frombuffer((b"\n" + chunk).translate(CLASS_OF_BYTE), np.uint8)
    pairs = 8 * classes[:-1] + classes[1:]
    return not pairs.tobytes().translate(None, ALLOWED_PAIRS)
