"""Write results in chunks, in the format that the extension of the file tells."""

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
# Rows that are turned into text at once.
ROWS_PER_CHUNK = 4096
# Other names of stdout. It must not be opened a second time: that would cut off what it
# holds.
STDOUT_PATHS = {"-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"}

Arrays = Mapping[str, np.ndarray]


def write(
    path: Path | None, arrays: Arrays | Iterable[Arrays], axis: Sequence[str] = ()
) -> None:
    """Write arrays with a common first axis to a file, whole or not at all.

    An .npz holds the arrays by name, an .npy the only one. A CSV has the columns NAME
    for shape (n,), NAME_a for (n, d) and NAME_a_b for the upper triangle of (n, d, d);
    columns of the array X are called a.

    Parameters
    ----------
    path : Path or None
        None stands for CSV on stdout.
    arrays : mapping from str to array, or iterable of such mappings
        Arrays may come in chunks along the first axis: a CSV never holds more than one
        of them in memory.
    axis : sequence of str
        Names a and b of the columns of the arrays.
    """
    chunks: Iterator[Any] = iter([arrays] if isinstance(arrays, Mapping) else arrays)
    first: Arrays = next(chunks)
    suffix = ".csv" if path is None else check_output(path, list(first))
    chunks = itertools.chain([first], chunks)

    if path is None:
        _print_csv(chunks, axis)
    elif suffix == ".csv":
        with atomic_files.open_replacement(path) as file:
            file.writelines(text.encode() for text in _format_csv(chunks, axis))
    else:
        all_chunks = list(chunks)
        whole = {
            name: np.concatenate([chunk[name] for chunk in all_chunks])
            for name in first
        }
        _write_arrays(path, suffix, whole)


def _print_csv(chunks: Iterable[Arrays], axis: Sequence[str]) -> None:
    """Print arrays as CSV."""
    lines = _format_csv(chunks, axis)
    if sys.stdout.isatty():
        # The names of columns come from files.
        lines = map(escape_controls, lines)
    sys.stdout.writelines(lines)


def _write_arrays(path: Path, suffix: str, arrays: Arrays) -> None:
    """Write arrays as NumPy does."""
    with atomic_files.open_replacement(path) as file:
        if suffix == ".npz":
            np.savez_compressed(file, allow_pickle=False, **arrays)
        else:
            # Given a real file, NumPy writes past Python: it fails on pipes, and without
            # the system's reason on a full disk.
            only_writing: Any = types.SimpleNamespace(write=file.write)
            np.save(only_writing, next(iter(arrays.values())))


def find_results_file(path: Path | None) -> Path | None:
    """Return the file that `-o` names; None stands for stdout, however it is named."""
    if path is None or os.fspath(path) in STDOUT_PATHS:
        return None
    return path


def find_output_format(path: Path) -> str:
    """Return the extension of `OUTPUT_EXTENSIONS` that a file has.

    A pipe or a device without one, such as /dev/null or the >(...) of a shell, takes
    CSV as stdout does.

    Raises
    ------
    ValueError
        If the file has another extension or none.
    """
    has_extension = path.name.lower().endswith(OUTPUT_EXTENSIONS)
    if not has_extension and atomic_files.is_stream(path):
        return ".csv"
    return find_extension(path, OUTPUT_EXTENSIONS, "write")


def check_output(path: Path, names: Sequence[str]) -> str:
    """Return the extension of a file that can hold arrays of these names."""
    suffix = find_output_format(path)
    if suffix == ".npy" and len(names) > 1:
        raise ValueError(
            f"{path} can hold one array, but there are {' and '.join(names)}; use .npz "
            "or .csv."
        )
    return suffix


def _format_csv(chunks: Iterable[Arrays], axis: Sequence[str]) -> Iterator[str]:
    """Yield the text of a CSV, some lines at a time."""
    for i, arrays in enumerate(chunks):
        names, columns = _flatten(arrays, axis)
        if i == 0:
            yield _format_lines([names])
        for start in range(0, len(columns[0]), ROWS_PER_CHUNK):
            stop = start + ROWS_PER_CHUNK
            rows = np.concatenate([column[start:stop] for column in columns], axis=1)
            if rows.dtype != np.float64:
                # Fewer digits identify a float32. For float64 Python writes the same
                # text, faster.
                rows = rows.astype(str)
            yield _format_lines(rows.tolist())


def _flatten(arrays: Arrays, axis: Sequence[str]) -> tuple[list[str], list[np.ndarray]]:
    """Return the names of the columns of a CSV, and blocks of columns."""
    names: list[str] = []
    columns = []
    for name, array in arrays.items():
        if array.ndim == 1:
            names.append(name)
            columns.append(array[:, None])
        elif array.ndim == 2:
            names += [a if name == "X" else f"{name}_{a}" for a in axis]
            columns.append(array)
        else:
            first, second = np.triu_indices(array.shape[1])
            names += [
                f"{name}_{axis[i]}_{axis[j]}"
                for i, j in zip(first.tolist(), second.tolist(), strict=True)
            ]
            columns.append(array[:, first, second])
    return names, columns


def _format_lines(rows: Sequence[Sequence[Any]]) -> str:
    """Return rows as lines of a CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
