"""Twenty tables as nobody would wish them, and what is to come of each.

    python tests/support/hostile_tables.py FOLDER

writes them, fits each for three epochs by the command, predicts, and says what came of it.
"""

import contextlib
import io
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROWS = 40


class Hostile(NamedTuple):
    text: str
    options: tuple[str, ...] = ()
    error: str = ""  # what is said where there is no result
    said: str = ""  # where there is one


def table(separator=",", rows=ROWS, **columns) -> str:
    """A CSV: u and v, then these columns, each a function of the number of a row or its cells."""
    rng = np.random.default_rng(0)
    found = {
        "u": [f"{x:.3f}" for x in rng.normal(size=rows)],
        "v": [*map(str, range(rows))],
    }
    for name, cells in columns.items():
        found[name] = (
            [str(cells(i)) for i in range(rows)] if callable(cells) else list(cells)
        )
    lines = [separator.join(row) for row in zip(*found.values(), strict=True)]
    return "\n".join([separator.join(found), *lines, ""])


def x(i):
    return f"{np.sin(i):.3f}"


TABLES = {
    "mixed": Hostile(table(a=x, b=lambda i: "north south"[6 * (i % 2) :][:5], c=lambda i: i % 3,
                           d=lambda i: f"20{10 + i % 9}-01-0{1 + i % 9}"), said="text      b"),
    "all missing": Hostile(table(a=lambda i: "", b=lambda i: "NA"),
                           error="no input has anything to learn from"),
    "one missing column": Hostile(table(a=x, b=lambda i: ""), said="left out  b (no values)"),
    "one level": Hostile(table(a=x, b=lambda i: "same"), said="b (always 'same')"),
    "10,000 levels": Hostile(table(rows=10_000, a=x, b=lambda i: f"level {i}"),
                             said="10000 different texts, none in 5 rows"),
    "codes": Hostile(table(a=x, zone=lambda i: 7 * (i % 4)), ("--categories", "zone"),
                     said="text      zone (4 levels)"),
    "days first": Hostile(table(a=x, d=lambda i: f"{1 + i % 28:02d}/03/2024"),
                          said="2024-03-01 to 2024-03-28"),
    "days or months": Hostile(table(a=x, d=lambda i: f"0{1 + i % 9}/03/2024"),
                              error="may begin with the day or the month"),
    "several forms": Hostile(
        table(a=x, d=lambda i: (f"2024-03-{i % 20 + 10}", f"{i % 20 + 10}.03.2024",
                                f"{i % 20 + 10} March 2024")[i % 3]), said="dates     d"),
    "an impossible day": Hostile(
        table(a=x, d=lambda i: "31.02.2024" if i == 7 else f"{i % 28 + 1}.{i % 12 + 1}.2024"),
        error="line 9, column 'd': '31.02.2024' is not a date like the others"),
    "a leak": Hostile(table(a=x, v2=lambda i: 2 * i + 1), said="'v2' predicts the target 'v' almost"),
    "a word among numbers": Hostile(table(a=lambda i: "err" if i in (3, 4) else x(i)),
                                    error="line 5, column 'a': 'err' is not a number"),
    "infinite": Hostile(table(a=lambda i: "inf" if i == 3 else x(i)),
                        error="line 5, column 'a': 'inf' is not finite"),
    "decimal commas": Hostile(table(";", a=lambda i: x(i).replace(".", ",") + "1"),
                              said="a (decimal commas)"),
    "a target of words": Hostile(table(a=x).replace("u,v", "w,u", 1).replace(",7,", ",seven,"),
                                 error="column 'u': 'seven' is not a number"),
    "targets missing": Hostile(table(a=x).replace(",7,", ",,").replace(",9,", ",NA,"),
                               said="2 rows left out: a target is missing"),
    "no target at all": Hostile(table(a=x, b=x).replace("u,v,a", "a,c,v").replace(",b\n", ",u\n")
                                .replace("\n", ",\n").replace("u,\n", "u,w\n"),
                                ("--targets", "w"), error="are too few to fit"),
    "ragged": Hostile(table(a=x) + "1,2\n1,2,3,4\n", error="has 2 problems:"),
    "names twice": Hostile(table(a=x, b=x).replace("a,b", "a,a"),
                           error="columns 3 and 4 are both called 'a'"),
    "blanks everywhere": Hostile(table(a=lambda i: x(i) if i % 2 else "",
                                       b=lambda i: "" if i % 2 else "low"), said="20 missing"),
    "everything at once": Hostile(
        table(a=lambda i: "err" if i == 3 else x(i), d=lambda i: f"0{1 + i % 9}/03/2024",
              b=lambda i: "inf" if i == 5 else i), error="has 3 problems:"),
}  # fmt: skip


def outcomes(folder: Path, name: str, run) -> tuple[int, str, np.ndarray | None]:
    """The status, what was said, and the predictions if there are any; `run` is the command."""
    hostile, path = TABLES[name], folder / f"{name}.csv"
    path.write_text(hostile.text)
    model, out = path.with_suffix(".safetensors"), path.with_suffix(".npz")
    targets = () if "--targets" in hostile.options else ("--targets", "u,v")
    if name == "a target of words":
        targets = ("--targets", "w,u")
    words = [
        path,
        *targets,
        *hostile.options,
        "--epochs",
        "3",
        "--models",
        "2",
        "-o",
        model,
    ]
    status, said = run("fit", "regression", *words)
    assert path.read_text() == hostile.text
    if status:
        assert not model.exists()
        return status, said, None
    status, more = run("predict", model, path, "-o", out)
    with np.load(out) as arrays:
        return status, said + more, arrays["mean"]


def main(folder: Path) -> None:
    from mmlp import cli

    def run(*words) -> tuple[int, str]:
        quiet = contextlib.redirect_stdout(io.StringIO())
        with quiet, contextlib.redirect_stderr(io.StringIO()) as err:
            status = cli.main([*map(str, words)])
        return status, err.getvalue()

    folder.mkdir(parents=True, exist_ok=True)
    for name in TABLES:
        status, said, mean = outcomes(folder, name, run)
        lines = [line for line in said.splitlines() if line.startswith(("mmlp:", "  "))]
        shape = (
            "no result"
            if mean is None
            else f"means {mean.shape}, {np.isfinite(mean).all()}"
        )
        print(
            f"{name:22} status {status}, {shape}; {' '.join(lines)[:150]}", flush=True
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
