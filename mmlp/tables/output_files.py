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
    path: Path | None, arrays: Arrays | Iterable[Arrays], axis_names: Sequence[str] = ()
) -> None:
    """Write arrays with a common first axis to a file, whole or not at all.

    An .npz holds the arrays by name, an .npy the only one. With the axis names a and b,
    a CSV has the columns NAME for shape (n,), NAME_a and NAME_b for (n, d), and
    NAME_a_a, NAME_a_b and NAME_b_b for the upper triangle of (n, d, d). Only the
    columns of an array called X have no prefix.

    Parameters
    ----------
    path : Path or None
        None stands for CSV on stdout.
    arrays : mapping from str to array, or iterable of such mappings
        Arrays may come in chunks along the first axis: a CSV never holds more than one
        of them in memory.
    axis_names : sequence of str
        Names of the entries along the second axis of the arrays, and along the third.
    """
    chunks: Iterator[Any] = iter([arrays] if isinstance(arrays, Mapping) else arrays)
    first: Arrays = next(chunks)
    suffix = ".csv" if path is None else check_output(path, list(first))
    chunks = itertools.chain([first], chunks)

    if path is None:
        _print_csv(chunks, axis_names)
    elif suffix == ".csv":
        with atomic_files.open_replacement(path) as file:
            file.writelines(text.encode() for text in _format_csv(chunks, axis_names))
    else:
        all_chunks = list(chunks)
        whole = {
            name: np.concatenate([chunk[name] for chunk in all_chunks])
            for name in first
        }
        _write_arrays(path, suffix, whole)


def _print_csv(chunks: Iterable[Arrays], axis_names: Sequence[str]) -> None:
    """Print arrays as CSV."""
    lines = _format_csv(chunks, axis_names)
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
    """Check that a file can hold arrays of these names, and return its extension.

    Raises
    ------
    ValueError
        If the extension is unknown, or is .npy and there are several arrays.
    """
    suffix = find_output_format(path)
    if suffix == ".npy" and len(names) > 1:
        raise ValueError(
            f"{path} can hold one array, but there are {' and '.join(names)}; use .npz "
            "or .csv."
        )
    return suffix


def _format_csv(chunks: Iterable[Arrays], axis_names: Sequence[str]) -> Iterator[str]:
    """Yield the text of a CSV, some lines at a time."""
    for i, arrays in enumerate(chunks):
        names, blocks = _flatten(arrays, axis_names)
        if i == 0:
            yield _format_lines([names])
        for start in range(0, len(blocks[0]), ROWS_PER_CHUNK):
            stop = start + ROWS_PER_CHUNK
            rows = np.concatenate([block[start:stop] for block in blocks], axis=1)
            if rows.dtype != np.float64:
                # Fewer digits identify a float32. For float64 Python writes the same
                # text, faster.
                rows = rows.astype(str)
            yield _format_lines(rows.tolist())


def _flatten(
    arrays: Arrays, axis_names: Sequence[str]
) -> tuple[list[str], list[np.ndarray]]:
    """Return the names of the columns of a CSV, and the columns in blocks."""
    names: list[str] = []
    blocks = []
    for name, array in arrays.items():
        if array.ndim == 1:
            names.append(name)
            blocks.append(array[:, None])
        elif array.ndim == 2:
            names += [a if name == "X" else f"{name}_{a}" for a in axis_names]
            blocks.append(array)
        else:
            first, second = np.triu_indices(array.shape[1])
            names += [
                f"{name}_{axis_names[i]}_{axis_names[j]}"
                for i, j in zip(first.tolist(), second.tolist(), strict=True)
            ]
            blocks.append(array[:, first, second])
    return names, blocks


def _format_lines(rows: Sequence[Sequence[Any]]) -> str:
    """Return rows as lines of a CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
