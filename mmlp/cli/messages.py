"""What the command says on stderr: one line, in the words of the command and not of Python.

The library's errors name functions and arguments. What of them can pass through the command is
said here by its options; the names that are left are left out.
"""

import contextlib
import difflib
import os
import re
import sys
from pathlib import Path

from mmlp.terminal import escape_controls

REMEDIES = {
    FileNotFoundError: "; check the spelling and the folder",
    IsADirectoryError: "; name a file in it",
    PermissionError: "; allow it, or use another file",
}
# the arguments of estimators, and what they are called here
SETTINGS = {
    "max_epochs": "epochs",
    "batch_size": "batch-size",
    "n_models": "models",
    "n_components": "latent",
    "random_state": "seed",
}
OPTIONS = SETTINGS | {name: name for name in ("covariance", "patience", "rank")}
# classes and functions of the library, as its errors write them
CALL = r"`(?:estimators\.)?(?:[A-Z]\w+|fit|fit_many|load|save)\b[\w.]*(?:\([^`]*\))?`"
WORDS = [
    (r"`SPDRegressor[^`]*`, scaled to trace one: `[^`]*`", "Y, scaled to trace one,"),
    (r"but element \((\d+),\) has", r"but that of row \1 (from 0) has"),
    (r"`SPDRegressor[^`]*` needs as many matrices y", "there must be as many matrices Y"),
    (r"a network, which `mmlp\.load` reads,", "a network without its table,"),
    (r"not an estimator as its `save` or `mmlp fit`", "not a model as `mmlp fit`"),
    (r"register it, or pass `like=`", "use it in the program that made it"),
    (
        r"call `jax\.config\.update\(.jax_enable_x64., True\)` first",
        "put JAX_ENABLE_X64=1 before the command",
    ),
    (
        r"Try a smaller learning rate in .*$",
        "Give columns with very large or very small numbers other units, or try another --seed.",
    ),
    (r"(offset from the targets before) `fit`.*$", r"\1 `mmlp fit`."),
    (r', or use dtype="float64"', ""),
    (r"give fewer rows, or the `columns` .*$", "give fewer rows."),
    (
        r"use another directory|anew in another directory",
        "choose another -o",
    ),
    (r"Give this run a directory of its own", "Choose another -o"),
    (r"([Tt]he same) call(?: or command)?", r"\1 command"),
    (
        r"Found array with (\d+) sample\(s\).* a minimum of (\d+) is required.*$",
        r"it has too few rows, \1; at least \2 are needed.",
    ),
    (rf"`\w+\(({'|'.join(OPTIONS)})=[^`]*\)`", lambda match: f"--{OPTIONS[match[1]]}"),
    (rf"`?\b({'|'.join(SETTINGS)})\b`?", lambda match: f"--{SETTINGS[match[1]]}"),
    (rf"{CALL}: ", ""),
    (CALL, "the model"),
]  # fmt: skip


def say(message: str) -> None:
    """Print a message in one line, and one for each item of a list, which is indented.

    Names in it may come from a file: what would control the terminal is escaped.
    """
    items = re.split(r"\n(?=  )", message.rstrip())
    first, *others = (in_words(" ".join(item.split())) for item in items)
    text = "\n  ".join([f"mmlp: {first}", *filter(None, others)])
    with contextlib.suppress(OSError):  # where nobody reads messages, none are needed
        print(escape_controls(text), file=sys.stderr)


def in_words(message: str) -> str:
    """Without names of Python.

    >>> in_words("`MatrixVAE(max_epochs=...)` must be at least 1, got 0.")
    '--epochs must be at least 1, got 0.'
    """
    for pattern, words in WORDS:
        message = re.sub(pattern, words, message)
    return message


def reason(error: Exception) -> str:
    """What went wrong, after the name of the file, if the system says so; only stdout has none."""
    if isinstance(error, OSError) and error.errno is not None:
        if error.filename is not None:
            remedy = _near(error) or REMEDIES.get(type(error), "") + "."
            return f"{error.filename}: {(error.strerror or '').lower()}{remedy}"
        system = os.strerror(error.errno)
        if error.strerror == system:
            return f"cannot write to stdout: {system.lower()}; write to another place."
        return str(error.strerror)
    if isinstance(error, UnicodeEncodeError):
        character = error.object[error.start]
        return (
            f"the output has the character {character!r}, which its encoding {error.encoding} "
            "lacks; put PYTHONIOENCODING=utf-8 before the command, or write to a file with -o."
        )
    if isinstance(error, of_jax()):  # with lists of its own
        return " ".join(str(error).split())
    return str(error) or "not enough memory; use fewer rows or columns."


def of_jax() -> tuple[type[Exception], ...]:
    """The errors of JAX, if it was needed."""
    return (sys.modules["jax"].errors.JaxRuntimeError,) if "jax" in sys.modules else ()


def _near(error: OSError) -> str:
    """A file that is there, with a name like that of one that is not."""
    path = Path(os.fsdecode(error.filename))
    if not isinstance(error, FileNotFoundError) or not path.parent.is_dir():
        return ""
    names = difflib.get_close_matches(path.name, os.listdir(path.parent), 1, 0.75)
    return f"; did you mean {path.with_name(names[0])}?" if names else ""
