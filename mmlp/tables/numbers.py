"""A CSV of nothing but plain numbers, read at once: a million rows in seconds.

SciPy's reader of Matrix Market arrays is the fastest parser of numbers among the dependencies, and
rounds like Python's. It also forgives: 1.2.3 is 1.2 to it. So each piece of text is looked through
first, and whatever is not beyond doubt (quotation marks, blanks, text, dates, rows of another
length) is left to the reader that takes one cell after the other, and says what is wrong.
"""

import gzip
import io
import itertools
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mmlp.tables.cells import parse_number
from mmlp.tables.text import MAGIC, declared_separator, faulty_names, separator_of

SEPARATORS = (",", ";", "\t")
PIECE = 2**24  # bytes that are parsed at once
HEADER = 2**20  # the most bytes of a line of names
# What may follow what, where cells are written like -1.5e-3, with blanks before them at most.
FOLLOWS = {
    "end": ("blank", "minus", "digit", "point"),
    "blank": ("blank", "minus", "digit", "point"),
    "minus": ("digit", "point"),
    "plus": ("digit",),
    "digit": ("digit", "point", "e", "end"),
    "point": ("digit",),
    "e": ("minus", "plus", "digit"),
}
KINDS = {
    "end": b",;\t\n",
    "blank": b" ",
    "minus": b"-",
    "plus": b"+",
    "point": b".",
    "e": b"eE",
}
KINDS |= {"digit": b"0123456789"}
NUMBER_OF = {kind: i for i, kind in enumerate(FOLLOWS)}
CODES = bytes(
    next(
        (NUMBER_OF[kind] for kind, some in KINDS.items() if byte in some), len(FOLLOWS)
    )
    for byte in range(256)
)
PAIRS = bytes(
    8 * NUMBER_OF[a] + NUMBER_OF[b] for a, some in FOLLOWS.items() for b in some
)


def read_numbers(path: Path) -> tuple[tuple[str, ...], np.ndarray, int] | None:
    """Read names, rows (n, p), float64, all finite, and the line of the first row.

    None where there is more to it. Each row has one line.
    """
    compressed = path.name.lower().endswith(".gz")
    try:
        with gzip.open(path) if compressed else open(path, "rb") as file:
            header = file.readline(HEADER)
            separator = declared_separator(_text(header))
            first_row_line = 2
            if separator is not None:
                header = file.readline(HEADER)
                first_row_line = 3
            names, separator = _names(header, separator)
            found = [
                _parsed(piece, separator, len(names)) for piece in _pieces(file, header)
            ]
    except (_OddError, EOFError, zlib.error, gzip.BadGzipFile):
        return None
    return (names, np.concatenate(found), first_row_line) if found else None


class _OddError(Exception):
    """It takes the other reader."""


def _text(header: bytes) -> str:
    try:
        return header.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _OddError from None


def _names(header: bytes, separator: str | None) -> tuple[tuple[str, ...], bytes]:
    """Read the names, and the separator unless the file declares it."""
    text = _text(header)
    if separator is None:
        separator = separator_of(text)
    if separator not in SEPARATORS:
        raise _OddError
    names = tuple(map(str.strip, text.split(separator)))
    odd = header.startswith(tuple(MAGIC)) or not header.endswith(b"\n")
    line = text.removesuffix("\n").removesuffix("\r")
    odd = odd or any(character in line for character in '"\0\r')
    if (
        odd
        or all(parse_number(name) is not None for name in names)
        or faulty_names(names)
    ):
        raise _OddError
    return names, separator.encode()


def _pieces(file, header: bytes) -> Iterator[bytes]:
    """Whole lines that end in a line feed, each."""
    rest = b""
    for block in itertools.chain(iter(lambda: file.read(PIECE), b""), [b""]):
        text = rest + block
        cut = text.rfind(b"\n") + 1 if block else len(text)
        piece, rest = text[:cut], text[cut:]
        if header.endswith(b"\r\n"):
            piece = piece.replace(b"\r\n", b"\n")
        if piece and not block:  # the last line
            piece = piece.rstrip(b"\n ") + b"\n"
        if piece:
            yield piece


def _parsed(piece: bytes, separator: bytes, p: int) -> np.ndarray:
    """The numbers (n, p) of whole lines, if these are beyond doubt."""
    from scipy.io import (
        mmread,
    )  # here: it takes as long to import as all the rest of tables

    marks = piece.translate(None, b"0123456789+- ")
    ends = marks.translate(None, b".eE")  # and whatever has no place in a number
    n = piece.count(b"\n")
    if ends != (separator * (p - 1) + b"\n") * n:
        raise _OddError
    marks = marks.replace(b"E", b"e")
    if any(pair in marks for pair in (b"..", b"e.", b"ee")) or not _in_order(piece):
        raise _OddError
    form = f"%%MatrixMarket matrix array real general\n{p} {n}\n".encode()
    rows: Any = mmread(
        io.BytesIO(form + piece.replace(separator, b"\n"))
    )  # by columns: (p, n)
    if not np.isfinite(rows).all():
        raise _OddError
    return np.ascontiguousarray(rows.T)


def _in_order(piece: bytes) -> bool:
    codes = np.frombuffer((b"\n" + piece).translate(CODES), np.uint8)
    return not (8 * codes[:-1] + codes[1:]).tobytes().translate(None, PAIRS)
