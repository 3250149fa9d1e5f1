"""Results, written by the extension of the file, a piece of the rows at a time."""

import csv
import io
import itertools
import os
import sys
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mmlp import atomic_files
from mmlp.tables.table import find_extension
from mmlp.terminal import escape_controls

OUTPUT_EXTENSIONS = (".csv", ".npz", ".npy")
ROWS = 4096  # that are text at once
# Other names of stdout. It must not be opened a second time: that would cut off what it holds.
STDOUT_PATHS = {"-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"}
Arrays = Mapping[str, np.ndarray]


def write(
    path: Path | None, arrays: Arrays | Iterable[Arrays], axis: Sequence[str] = ()
) -> None:
    """Write arrays with a common first axis to a file, whole or not at all; None is CSV to stdout.

    An .npz holds them by name, an .npy the only one. A CSV has the columns NAME for (n,), NAME_a
    for (n, d) and NAME_a_b for the upper triangle of (n, d, d), with a and b from `axis`; columns
    of the array X are called a. Arrays may come in pieces, one after the other along that axis: a
    CSV never holds more than one of them.
    """
    pieces: Iterator[Any] = iter([arrays] if isinstance(arrays, Mapping) else arrays)
    first: Arrays = next(pieces)
    suffix = ".csv" if path is None else check_output(path, list(first))
    pieces = itertools.chain([first], pieces)
    if path is None:
        lines = _csv(pieces, axis)
        if sys.stdout.isatty():  # names of columns come from files
            lines = map(escape_controls, lines)
        sys.stdout.writelines(lines)
    elif suffix == ".csv":
        with atomic_files.open_replacement(path) as file:
            file.writelines(text.encode() for text in _csv(pieces, axis))
    else:
        found = list(pieces)
        whole = {
            name: np.concatenate([piece[name] for piece in found]) for name in first
        }
        with atomic_files.open_replacement(path) as file:
            if suffix == ".npz":
                np.savez_compressed(file, allow_pickle=False, **whole)
            else:
                # Given a real file, NumPy writes past Python: it fails on pipes, and without the
                # system's reason on a full disk.
                only_writing = types.SimpleNamespace(write=file.write)
                np.save(only_writing, next(iter(whole.values())))  # pyright: ignore


def find_results_file(path: Path | None) -> Path | None:
    """Return the file that `-o` names; None stands for stdout, whichever way it is named."""
    if path is None or os.fspath(path) in STDOUT_PATHS:
        return None
    return path


def find_output_format(path: Path) -> str:
    """Return the extension of `OUTPUT_EXTENSIONS` that a file has.

    A pipe or a device without one, such as /dev/null or the >(...) of a shell, takes CSV as stdout
    does.

    Raises
    ------
    ValueError
        If the file has another extension or none.
    """
    named = path.name.lower().endswith(OUTPUT_EXTENSIONS)
    if not named and atomic_files.is_stream(path):
        return ".csv"
    return find_extension(path, OUTPUT_EXTENSIONS, "write")


def check_output(path: Path, names: Sequence[str]) -> str:
    """The extension of a file that can hold arrays of these names."""
    suffix = find_output_format(path)
    if suffix == ".npy" and len(names) > 1:
        arrays = " and ".join(names)
        raise ValueError(
            f"{path} can hold one array, but there are {arrays}; use .npz or .csv."
        )
    return suffix


def _csv(pieces: Iterable[Arrays], axis: Sequence[str]) -> Iterator[str]:
    """The text of a CSV, some lines at a time."""
    for i, arrays in enumerate(pieces):
        names, columns = _columns(arrays, axis)
        if i == 0:
            yield _lines([names])
        for start in range(0, len(columns[0]), ROWS):
            rows = np.concatenate([x[start : start + ROWS] for x in columns], axis=1)
            # fewer digits tell a float32 from all others; of float64 Python writes the same, faster
            yield _lines(
                (rows if rows.dtype == np.float64 else rows.astype(str)).tolist()
            )


def _columns(arrays: Arrays, axis: Sequence[str]) -> tuple[list[str], list[np.ndarray]]:
    names, columns = [], []
    for name, array in arrays.items():
        if array.ndim == 1:
            names.append(name)
            columns.append(array[:, None])
        elif array.ndim == 2:
            names += [a if name == "X" else f"{name}_{a}" for a in axis]
            columns.append(array)
        else:
            i, j = np.triu_indices(array.shape[1])
            names += [
                f"{name}_{axis[a]}_{axis[b]}" for a, b in np.transpose([i, j]).tolist()
            ]
            columns.append(array[:, i, j])
    return names, columns


def _lines(rows: Sequence[Sequence]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
