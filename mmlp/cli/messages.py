"""What the command prints on stderr, in the words of the command.

The library's errors carry facts (`mmlp.errors`), which are written here with options in
the place of arguments, and with remedies that can be typed.
"""

import contextlib
import difflib
import os
import sys
from pathlib import Path

from mmlp import errors
from mmlp.cli.arguments import option_names
from mmlp.terminal import escape_controls

# What to do about an error of the operating system.
SYSTEM_REMEDIES = {
    FileNotFoundError: "check the spelling and the folder",
    IsADirectoryError: "name a file in it",
    PermissionError: "allow it, or use another file",
}

# What to do about errors of the library, where Python's remedy is of no use here.
REMEDIES = {
    errors.PrecisionError: "put JAX_ENABLE_X64=1 before the command",
    errors.DirectoryInUseError: "wait for it, or choose another -o",
    errors.UnusableCheckpointError: "start anew with --overwrite, or choose another -o",
    errors.AnotherRunError: "finish it with the command that began it, start anew with "
    "--overwrite, or choose another -o",
    errors.NonFiniteError: "give columns with very large or very small numbers other "
    "units, or try another --seed",
}


def print_message(message: str) -> None:
    """Print a message in one line, and one more for each item of a list.

    Items are lines that begin with two spaces. Names in the message may come from a
    file: what would control the terminal is escaped.
    """
    lines: list[str] = []
    for line in message.rstrip().splitlines():
        text = " ".join(line.split())
        if line.startswith("  ") or not lines:
            lines.append(text)
        else:
            lines[-1] = f"{lines[-1]} {text}".rstrip()
    text = "\n  ".join(["mmlp: " + lines[0], *filter(None, lines[1:])])
    with contextlib.suppress(OSError):  # where nobody reads messages, none are needed
        print(escape_controls(text), file=sys.stderr)


def describe(error: BaseException | str) -> str:
    """Return what went wrong, as a sentence.

    Examples
    --------
    >>> print(describe(errors.ArgumentError("must be at least 1", argument="max_epochs")))
    --epochs must be at least 1.
    """
    match error:
        case errors.Facts():
            return describe_facts(error)
        case OSError() if error.errno is not None:
            return describe_system_error(error)
        case UnicodeEncodeError():
            character = error.object[error.start]
            return (
                f"the output has the character {character!r}, which its encoding "
                f"{error.encoding} lacks; put PYTHONIOENCODING=utf-8 before the command, or "
                "write to a file with -o."
            )
        case MemoryError():
            return str(error) or "not enough memory; use fewer rows or columns."
        case _ if isinstance(error, jax_errors()):
            return " ".join(str(error).split())  # it has lists of its own
    return str(error)


def describe_facts(error: errors.Facts) -> str:
    """Write the facts of an error or a warning of the library."""
    subject = ""
    problem = error.problem
    match error:
        case errors.MatrixError():
            row = error.index[0] if error.index else 0
            subject = "Y "
            problem = (
                f"{error.requirement}, but that of row {row} (from 0) {error.deviation}"
            )
        case errors.ArgumentError():
            option = option_names().get(error.argument)
            subject = f"{error.argument} " if option is None else f"--{option} "
        case errors.CellError():
            subject = f"{error.place} "
        case errors.FileError():
            subject = f"{error.path} "
    return errors.write_sentence(subject, problem, find_remedy(error))


def describe_system_error(error: OSError) -> str:
    """Write an error of the operating system, with the file that it concerns."""
    if error.filename is not None:
        reason = (error.strerror or "").lower()
        similar = _find_similar_file(error)
        if similar is not None:
            return f"{error.filename}: {reason}; did you mean {similar}?"
        remedy = SYSTEM_REMEDIES.get(type(error), "")
        return errors.write_sentence(f"{error.filename}: ", reason, remedy)

    system_reason = os.strerror(error.errno or 0)
    if error.strerror == system_reason:  # only stdout has no name
        return (
            f"cannot write to stdout: {system_reason.lower()}; write to another place."
        )
    return str(error.strerror)


def find_remedy(error: errors.Facts) -> str:
    """Return what to do about an error of the library."""
    for kind in type(error).__mro__:
        if kind in REMEDIES:
            return REMEDIES[kind]
    return error.remedy


def jax_errors() -> tuple[type[Exception], ...]:
    """Return the class of JAX's own errors, if JAX was needed at all."""
    if "jax" not in sys.modules:
        return ()
    return (sys.modules["jax"].errors.JaxRuntimeError,)


def _find_similar_file(error: OSError) -> Path | None:
    """Find a file with a name like that of one that is not there."""
    path = Path(os.fsdecode(error.filename))
    if not isinstance(error, FileNotFoundError) or not path.parent.is_dir():
        return None
    names = difflib.get_close_matches(path.name, os.listdir(path.parent), 1, 0.75)
    return path.with_name(names[0]) if names else None
