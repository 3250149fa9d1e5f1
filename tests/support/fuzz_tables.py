"""Random tables through reading, encoding, fitting and predicting.

    python tests/support/fuzz_tables.py --tables 2000 --fits 50 --seed 0

Each table has columns of mixed types. It is written as a CSV with a random separator, encoding,
line ending and spelling of its cells, perhaps damaged, and it is also given as NumPy arrays and as
data frames of pandas. Two laws are checked:

1. Whatever a table holds, there is a result or one clear answer: a `ValueError` with a message, and
   for the command the status 1 with a line on stderr.
2. Equal rows give equal numbers, to the last bit, whatever the source of the training table and of
   the table to predict; if one source is refused, all are.

Some tables also go through `mmlp fit --epochs 1`, `predict` and `score`. The counts are printed as
JSON; the status is 1 if a law is broken.
"""

import argparse
import contextlib
import csv
import datetime
import gzip
import io
import json
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from encoders import fit_encoder
from sources import SOURCES, Columns, cells_of, write_text

from mmlp import tables
from mmlp.tables.encoder import TableEncoder

Rng = np.random.Generator
MISSING_TEXTS = ("", "NA", "nan", "null", "?", "n/a")
HOSTILE_TEXTS = (
    "=1+1", "1,234", "12 %", "$3", '"quoted"', "a;b", "tab\there", "two\nlines", "-", "1_000",
    "0x1F", "١٢", "\u200b", "Ünïcödé", "(rare)", "(missing)", "31.02.2024", "05/03/2024", "1e999",
    "TRUE", "no", "2 weeks", "\u202e", "x" * 300, "'", "#N/A", "1.2.3", "24:00", "\\", "inf",
)  # fmt: skip
MAX_PRINTED_VIOLATIONS = 20
START = datetime.datetime(2019, 5, 17, 3, 20)


# To these sources True is 1 before the package sees it, so that it is no mistake among numbers.
MERGING_SOURCES = ("NumPy native", "pandas", "pandas categorical")


class BrokenLawError(AssertionError):
    """A table for which one of the two laws does not hold."""


# Columns ------------------------------------------------------------------------------------------


def _integers(rng: Rng, n: int) -> list[Any]:
    return rng.integers(-50, 50, n).tolist()


def _large_integers(rng: Rng, n: int) -> list[Any]:
    return (rng.integers(0, 9, n) * 10 ** int(rng.integers(1, 19))).tolist()


def _floats(rng: Rng, n: int) -> list[Any]:
    return (rng.normal(size=n) * 10.0 ** rng.integers(-8, 8)).tolist()


def _short_decimals(rng: Rng, n: int) -> list[Any]:
    return rng.normal(scale=20, size=n).round(2).tolist()


def _booleans(rng: Rng, n: int) -> list[Any]:
    return (rng.random(n) < rng.random()).tolist()


def _booleans_and_digits(rng: Rng, n: int) -> list[Any]:
    return [(True, False, 0, 1, 1.0)[k] for k in rng.integers(0, 5, n)]


def _booleans_among_numbers(rng: Rng, n: int) -> list[Any]:
    return [True if rng.random() < 0.1 else float(i) for i in range(n)]


def _words(rng: Rng, n: int) -> list[Any]:
    levels = [f"level {k}" for k in range(int(rng.integers(1, 40)))]
    return [levels[k] for k in rng.integers(0, len(levels), n)]


def _words_and_codes(rng: Rng, n: int) -> list[Any]:
    levels = ("A", True, 1, 2.5, "unknown", "7")
    return [levels[k] for k in rng.integers(0, int(rng.integers(1, 7)), n)]


def _codes(rng: Rng, n: int) -> list[Any]:
    return [(1, 2, 3, 10)[k] for k in rng.integers(0, 4, n)]


def _numbers_as_text(rng: Rng, n: int) -> list[Any]:
    return [f"{x:.3g}" for x in rng.normal(size=n)]


def _dates(rng: Rng, n: int) -> list[Any]:
    step = int(rng.integers(1, 60))
    return [
        START.date() + datetime.timedelta(days=int(k) * step)
        for k in rng.integers(0, 60, n)
    ]


def _moments(rng: Rng, n: int) -> list[Any]:
    seconds = rng.integers(0, 10 ** int(rng.integers(4, 8)), n)
    return [START + datetime.timedelta(seconds=int(k)) for k in seconds]


def _moments_with_zone(rng: Rng, n: int) -> list[Any]:
    zone = datetime.timezone(
        datetime.timedelta(minutes=int(rng.integers(-24, 25)) * 30)
    )
    return [moment.replace(tzinfo=zone) for moment in _moments(rng, n)]


def _mixed_zones(rng: Rng, n: int) -> list[Any]:
    return [
        moment.replace(tzinfo=datetime.UTC) if rng.random() < 0.3 else moment
        for moment in _moments(rng, n)
    ]


def _times_of_day(rng: Rng, n: int) -> list[Any]:
    return [
        (START + datetime.timedelta(minutes=int(k))).time()
        for k in rng.integers(0, 1440, n)
    ]


def _durations(rng: Rng, n: int) -> list[Any]:
    return [
        datetime.timedelta(days=int(k) - 20, milliseconds=int(k) ** 4)
        for k in rng.integers(0, 90, n)
    ]


def _ambiguous_dates(rng: Rng, n: int) -> list[Any]:
    days = int(rng.choice([12, 28]))
    return [
        f"{rng.integers(1, days + 1):02d}/{rng.integers(1, 13):02d}/2024"
        for _ in range(n)
    ]


def _hostile_texts(rng: Rng, n: int) -> list[Any]:
    return [HOSTILE_TEXTS[k] for k in rng.integers(0, len(HOSTILE_TEXTS), n)]


def _numbers_with_strays(rng: Rng, n: int) -> list[Any]:
    cells: list[Any] = _floats(rng, n)
    for i in rng.integers(0, n, int(rng.integers(1, 4))):
        cells[i] = str(rng.choice(HOSTILE_TEXTS))
    return cells


def _nothing(rng: Rng, n: int) -> list[Any]:
    return [None] * n


def _constant(rng: Rng, n: int) -> list[Any]:
    return [(True, 3, "same", 0.1)[rng.integers(4)]] * n


CLEAN_COLUMNS = (
    _integers, _large_integers, _floats, _short_decimals, _booleans, _booleans_and_digits, _words,
    _words_and_codes, _codes, _numbers_as_text, _dates, _moments, _moments_with_zone, _times_of_day,
    _durations, _nothing, _constant,
)  # fmt: skip
DIRTY_COLUMNS = (
    _booleans_among_numbers, _mixed_zones, _ambiguous_dates, _hostile_texts, _numbers_with_strays,
)  # fmt: skip


def draw_columns(rng: Rng, n_rows: int, *, dirty: float) -> Columns:
    """Return named columns of plain Python values, of which a share may be dirty."""
    columns: Columns = {}
    for j in range(int(rng.integers(1, 6))):
        makers = DIRTY_COLUMNS if rng.random() < dirty else CLEAN_COLUMNS
        cells = makers[rng.integers(len(makers))](rng, n_rows)
        if rng.random() < 0.4:
            share = rng.random() * 0.5
            cells = [None if rng.random() < share else cell for cell in cells]
        columns[f"{('c', 'größe ', 'a b', 'x.')[rng.integers(4)]}{j}"] = cells
    return columns


# Files --------------------------------------------------------------------------------------------


@dataclass
class Style:
    """How a CSV is written, and what is wrong with it."""

    separator: str = ","
    encoding: str = "utf-8"
    newline: str = "\n"
    quote_all: bool = False
    decimal_comma: bool = False
    blanks: bool = False
    compressed: bool = False
    damages: tuple[str, ...] = field(default=())

    @classmethod
    def draw(cls, rng: Rng, *, damaged: float) -> "Style":
        damages = [name for name in DAMAGES if rng.random() < damaged / 3]
        separator = str(rng.choice([",", ";", "\t"]))
        newline = str(rng.choice(["\n", "\r\n", "\r"]))
        return cls(
            separator=separator,
            encoding=str(rng.choice(["utf-8", "utf-8-sig"])),
            newline=newline,
            # Python's writer does not quote a line feed in a cell if lines end otherwise.
            quote_all=bool(newline == "\r" or rng.random() < 0.2),
            decimal_comma=bool(separator == ";" and rng.random() < 0.3),
            blanks=bool(rng.random() < 0.2),
            compressed=bool(rng.random() < 0.2),
            damages=tuple(damages),
        )


DAMAGES = (
    "short line", "long line", "open quote", "nul", "latin-1", "utf-16", "cut", "no header",
    "name twice", "blank lines", "sep line", "random bytes", "empty",
)  # fmt: skip


def spell(cell: Any, style: Style, rng: Rng) -> str:
    """Return one of the spellings of a cell, all of which mean the same."""
    if cell is None:
        return str(rng.choice(MISSING_TEXTS))
    if isinstance(cell, bool):
        return str(rng.choice([str(cell), str(cell).lower(), str(cell).upper()]))
    text = write_text(cell)
    if isinstance(cell, int) and rng.random() < 0.2 and not style.decimal_comma:
        text = f"{cell}.0"
    if isinstance(cell, float) and style.decimal_comma:
        text = text.replace(".", ",")
    if isinstance(cell, datetime.datetime):
        text = cell.isoformat("T" if rng.random() < 0.5 else " ")
    if style.blanks and not isinstance(cell, str):
        text = f" {text} "
    return text


def write_csv(
    columns: Columns,
    path: Path,
    style: Style,
    rng: Rng,
    training: Columns | None = None,
) -> Path:
    """Write columns in a style and return the path, which ends in .gz if it is compressed.

    Those of a table to predict are written like the columns of `training`.
    """
    text = io.StringIO()
    # A file with one column does not show its separator: its cells need quotation marks.
    quote_all = style.quote_all or len(columns) == 1
    quoting = csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL
    writer = csv.writer(
        text, delimiter=style.separator, lineterminator=style.newline, quoting=quoting
    )
    writer.writerow(columns)
    # Only a column of nothing but such numbers shows that its commas are decimal ones.
    point = replace(style, decimal_comma=False)
    with_commas = {name for name, cells in columns.items() if _are_floats(cells)}
    with_commas &= {
        name for name, cells in (training or columns).items() if _are_floats(cells)
    }
    styles = [style if name in with_commas else point for name in columns]
    for row in zip(*columns.values(), strict=True):
        writer.writerow([spell(*cell, rng) for cell in zip(row, styles, strict=True)])

    lines = text.getvalue().split(style.newline)
    for damage in style.damages:
        _damage_lines(lines, damage, style, rng)
    encoding = style.encoding
    for name in ("latin-1", "utf-16"):
        encoding = name if name in style.damages else encoding
    content = style.newline.join(lines).encode(encoding, errors="replace")
    if "random bytes" in style.damages:
        place = int(rng.integers(len(content) + 1))
        content = content[:place] + rng.bytes(5) + content[place:]
    if style.compressed:
        path = path.with_suffix(".csv.gz")
        content = gzip.compress(content)
    if "cut" in style.damages:
        content = content[: int(rng.integers(len(content) + 1))]
    path.write_bytes(b"" if "empty" in style.damages else content)
    return path


def _are_floats(cells: list[Any]) -> bool:
    return all(cell is None or isinstance(cell, float) for cell in cells)


def _damage_lines(lines: list[str], damage: str, style: Style, rng: Rng) -> None:
    i = int(rng.integers(len(lines)))
    if damage == "short line":
        lines[i] = lines[i].rpartition(style.separator)[0]
    elif damage == "long line":
        lines[i] += f"{style.separator}more"
    elif damage == "open quote":
        lines[i] = f'"{lines[i]}'
    elif damage == "nul":
        lines[i] += "\0"
    elif damage == "no header":
        del lines[0]
    elif damage == "name twice":
        lines[0] += f"{style.separator}{lines[0].split(style.separator)[0]}"
    elif damage == "blank lines":
        lines[i:i] = ["", "  "]
    elif damage == "sep line":
        lines[:0] = [f"sep={style.separator}"]


# Laws ---------------------------------------------------------------------------------------------


def answer(function, *arguments) -> tuple[Any, str]:
    """Return a result and no message, or None and the message of a refusal.

    Any exception but a `ValueError` with a readable message breaks the first law.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*arguments), ""
    except ValueError as error:
        message = str(error)
        one_line = "\n" not in message or " problems:\n" in message
        if isinstance(error, UnicodeError) or not message.strip() or not one_line:
            raise BrokenLawError(f"the answer is {error!r:.300}") from error
        return None, message
    except Exception as error:
        raise BrokenLawError(f"it ends in {error!r:.300}") from error


def encode(
    X: np.ndarray, names: list[str], forced: list[bool]
) -> tuple[TableEncoder, np.ndarray]:
    """Return the encoder of a training table, and the numbers of its rows."""
    encoder = fit_encoder(X, names, forced)
    return encoder, encoder.encode(X, names)


def require_equal(outcomes: dict[str, tuple[Any, str]], what: str) -> None:
    """Break the second law unless all sources give the same numbers, or all are refused."""
    (first, (result, _)), *others = outcomes.items()
    reference = _numbers_of(result)
    for source, (found, message) in others:
        numbers = _numbers_of(found)
        if (numbers is None) != (reference is None):
            refusal = message or outcomes[first][1]
            raise BrokenLawError(
                f"{what}: {first} and {source}, one is refused: {refusal:.300}"
            )
        if numbers is not None and not np.array_equal(numbers, reference):
            raise BrokenLawError(f"{what}: {first} and {source} give different numbers")
    if reference is not None and not np.isfinite(reference).all():
        raise BrokenLawError(f"{what}: not all numbers are finite")


def _numbers_of(result: Any) -> np.ndarray | None:
    """Return the numbers of a result of `encode` or of an encoder."""
    return result[1] if isinstance(result, tuple) else result


def check_table(rng: Rng, folder: Path) -> str:
    """Check both laws for one random table, and return what came of it."""
    n_rows = int(rng.choice([1, 2, 5, 12, 40, 80]))
    columns = draw_columns(rng, 2 * n_rows, dirty=float(rng.choice([0.0, 0.0, 0.3])))
    style = Style.draw(rng, damaged=float(rng.choice([0.0, 0.0, 0.5])))
    halves = (slice(None, n_rows), slice(n_rows, None))
    training, other = (
        {name: cells[half] for name, cells in columns.items()} for half in halves
    )

    path = write_csv(training, folder / "training.csv", style, rng)
    table, refusal = answer(tables.read, path)
    if refusal and str(path) not in refusal:
        raise BrokenLawError(f"the answer does not name the file: {refusal:.300}")
    if style.damages:
        if table is None:
            return "refused when read"
        read_columns = list(table.names)
        cells = table.select_columns(read_columns)
        result, refusal = answer(
            encode, cells, read_columns, [False] * len(read_columns)
        )
        return "damaged, refused when encoded" if result is None else "damaged, encoded"
    if table is None:
        raise BrokenLawError(f"a table without damage is not read: {refusal:.300}")

    names = [name.strip() for name in columns]
    if list(table.names) != names:
        raise BrokenLawError(f"the names are {table.names}, not {names}")
    new_path = write_csv(other, folder / "other.csv", style, rng, training)
    new_table, refusal = answer(tables.read, new_path)
    if new_table is None:
        raise BrokenLawError(f"a table without damage is not read: {refusal:.300}")
    sources = {
        "this CSV": (table.select_columns(names), new_table.select_columns(names))
    }
    for source, make in SOURCES.items():
        if source in MERGING_SOURCES and any(map(_mixes_booleans, columns.values())):
            continue
        pair = [cells_of(make(half, folder)) for half in (training, other)]
        sources[source] = (pair[0], pair[1])
    return check_sources(sources, names, style, rng)


def _mixes_booleans(cells: list[Any]) -> bool:
    """Whether booleans stand beside numbers other than 0 and 1, or in text beside any."""
    numbers = [cell for cell in cells if isinstance(cell, int | float)]
    booleans = [cell for cell in numbers if isinstance(cell, bool)]
    has_text = any(isinstance(cell, str) for cell in cells)
    has_both = 0 < len(booleans) < len(numbers)
    return bool(booleans) and (not {*numbers} <= {0, 1} or (has_both and has_text))


def check_sources(
    sources: dict[str, tuple[np.ndarray, np.ndarray]],
    names: list[str],
    style: Style,
    rng: Rng,
) -> str:
    """Check the laws for the same training and prediction rows from several sources."""
    forced = [False] * len(names)
    encoded = {
        source: answer(encode, X, names, forced) for source, (X, _) in sources.items()
    }
    require_equal(encoded, "training")
    encoders = {source: found[0] for source, (found, _) in encoded.items() if found}

    # Categories keep 1,5 as a text, and a model of numbers with points refuses it.
    points = {name: pair for name, pair in sources.items() if _has_points(name, style)}
    forced = [bool(rng.random() < 0.5) for _ in names]
    categories = {
        source: answer(encode, X, names, forced) for source, (X, _) in points.items()
    }
    require_equal(categories, "training with categories")
    encoders |= {
        f"{name}, codes": found[0] for name, (found, _) in categories.items() if found
    }
    if not encoders:
        return "refused when encoded"

    n_predicted = 0
    trained = [str(rng.choice(list(encoders))) for _ in range(3)]
    for source in {"this CSV", *trained} & {*encoders}:
        encoder = encoders[source]
        others = sources if source == "this CSV" else points
        predicted = {
            name: answer(encoder.encode, X, names) for name, (_, X) in others.items()
        }
        require_equal(predicted, f"training from {source}")
        numbers = predicted["CSV"][0]
        if numbers is not None:
            n_predicted += 1
            _check_order_of_rows(encoder, sources["CSV"][1], names, numbers, rng)
    return "encoded and predicted" if n_predicted else "encoded, refused to predict"


def _has_points(source: str, style: Style) -> bool:
    return source != "this CSV" or not style.decimal_comma


def _check_order_of_rows(
    encoder: TableEncoder,
    X: np.ndarray,
    names: list[str],
    numbers: np.ndarray,
    rng: Rng,
) -> None:
    order = rng.permutation(len(X))
    shuffled, _ = answer(encoder.encode, X[order], names)
    if shuffled is None or not np.array_equal(shuffled, numbers[order]):
        raise BrokenLawError("the numbers of a row depend on the order of the rows")


# The command --------------------------------------------------------------------------------------


def run_command(*words: Any) -> tuple[int, str, str]:
    """Return the status, stdout and stderr of the command, run in this process."""
    from mmlp import cli

    out = io.StringIO()
    err = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = cli.main([str(word) for word in words])
        except Exception as error:
            raise BrokenLawError(f"{words[0]} ends in {error!r:.300}") from error
    return int(status or 0), out.getvalue(), err.getvalue()


def require_answer(command: str, status: int, err: str) -> None:
    """Break the first law unless a command has succeeded, or has said in a line why not."""
    if "Traceback" in err:
        raise BrokenLawError(f"{command} prints a traceback: {err[-500:]}")
    said = [line for line in err.splitlines() if line.startswith("mmlp: ")]
    if status not in (0, 1) or (status == 1 and not said):
        raise BrokenLawError(
            f"{command} ends with status {status} and says {err[-300:]!r}"
        )


def check_fit(rng: Rng, folder: Path) -> str:
    """Check both laws for one random table through `fit`, `predict` and `score`."""
    from mmlp import estimators

    n_rows = int(rng.integers(24, 60))
    columns = draw_columns(rng, n_rows, dirty=float(rng.choice([0.0, 0.0, 0.0, 0.3])))
    inputs = list(columns)
    targets = ("u", "v")[: int(rng.integers(1, 3))]
    columns |= {name: rng.normal(size=n_rows).round(3).tolist() for name in targets}
    style = Style.draw(rng, damaged=float(rng.choice([0.0, 0.0, 0.0, 0.5])))
    path = write_csv(columns, folder / "table.csv", style, rng)
    model = folder / "model.safetensors"
    options = ["--targets", ",".join(targets), "--epochs", 1, "--models", 2, "--quiet"]
    status, _, err = run_command("fit", "regression", path, *options, "-o", model)
    require_answer("fit", status, err)
    if status:
        if model.exists():
            raise BrokenLawError("a refused fit leaves a model file")
        return "fit refused"

    out = folder / "predictions.npz"
    status, _, err = run_command("predict", model, path, "-o", out)
    require_answer("predict", status, err)
    if status:
        raise BrokenLawError(
            f"the table of the fit is refused by predict: {err[-300:]}"
        )
    with np.load(out) as arrays:
        mean = arrays["mean"]
        if not all(np.isfinite(arrays[name]).all() for name in arrays.files):
            raise BrokenLawError("not all predictions are finite")
    status, text, err = run_command("score", model, path, "--json")
    require_answer("score", status, err)
    if status or not all(np.isfinite(list(_numbers_in(json.loads(text))))):
        raise BrokenLawError(f"score says {text[-200:]!r} {err[-200:]!r}")
    if style.damages:
        return "damaged, fitted"

    frame = pd.DataFrame({name.strip(): columns[name] for name in inputs})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from_frame = estimators.load(model).predict(frame)
    if not np.array_equal(np.reshape(from_frame, mean.shape), mean):
        raise BrokenLawError("predictions from the file and from the data frame differ")
    return "fitted"


def _numbers_in(value: Any) -> list[float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for item in value for number in _numbers_in(item)]
    return [float(value)] if isinstance(value, int | float) else []


# Runs ---------------------------------------------------------------------------------------------


def run(n_tables: int, n_fits: int, seed: int) -> dict[str, Any]:
    """Check the laws for so many tables and fits, and return the counts of what came of them.

    Table number i of a seed is always the same, so that a violation can be repeated alone.
    """
    counts: Counter[str] = Counter()
    violations = []
    tasks = [("table", check_table, i) for i in range(n_tables)]
    tasks += [("fit", check_fit, i) for i in range(n_fits)]
    for kind, check, i in tasks:
        rng = np.random.default_rng([seed, kind == "fit", i])
        with tempfile.TemporaryDirectory() as folder:
            try:
                counts[f"{kind}: {check(rng, Path(folder))}"] += 1
            except BrokenLawError as error:
                counts[f"{kind}: violation"] += 1
                violations.append(f"{kind} {i}: {error}")
            except Exception:
                counts[f"{kind}: violation"] += 1
                violations.append(f"{kind} {i}: {traceback.format_exc()}")
    return {
        "tables": n_tables,
        "fits": n_fits,
        "seed": seed,
        "outcomes": dict(sorted(counts.items())),
        "violations": violations,
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Random tables through reading and encoding."
    )
    parser.add_argument("--tables", type=int, default=2000)
    parser.add_argument("--fits", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    result = run(arguments.tables, arguments.fits, arguments.seed)
    n_violations = len(result["violations"])
    result["violations"] = result["violations"][:MAX_PRINTED_VIOLATIONS]
    print(json.dumps(result, indent=2))
    return 1 if n_violations else 0


if __name__ == "__main__":
    sys.exit(main())
