"""`mmlp`: `arguments` says what can be asked, `commands` does it, and this file ties them.

Results go to stdout, messages to stderr. The exit status is 0 on success, 2 if the arguments are
wrong (found before any file is read), 1 if a file cannot be used or the work fails, each with one
line that says why, and 128 plus the number of the signal if one ended it.
"""

import importlib
import inspect
import itertools
import os
import re
import signal
import sys
import warnings
from collections.abc import Sequence
from dataclasses import make_dataclass
from pathlib import Path
from typing import Annotated, Any, Union

import tyro
from tyro.conf import FlagCreatePairsOff, OmitArgPrefixes, OmitSubcommandPrefixes, subcommand

from mmlp import tables
from mmlp._version import __version__
from mmlp.cli import arguments, fit_arguments
from mmlp.cli.arguments import COMMANDS, KINDS, Group
from mmlp.cli.start import start

CONFIG = (OmitArgPrefixes, OmitSubcommandPrefixes, FlagCreatePairsOff)
REMEDIES = {
    FileNotFoundError: "; check the spelling and the folder",
    IsADirectoryError: "; name a file in it",
    PermissionError: "; allow it, or use another file",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; gives its exit status."""
    status = 0
    try:
        status = _run(sys.argv[1:] if argv is None else argv, own_process=argv is None)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        status = 128 + signal.SIGPIPE
    except OSError as error:  # the rest of the output is lost
        if status == 0:  # otherwise it was said
            _say(_reason(error))
            status = 1
    # or Python would complain when it ends
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status


def _run(argv: Sequence[str], *, own_process: bool) -> int:
    status = 2
    try:
        command = parse(argv)
        check(command)
        status = 1
        # The one late import: JAX and scikit-learn take seconds, and neither `info` nor --help nor
        # a wrong argument needs them.
        quick = isinstance(command, arguments.Info)
        if own_process and not quick:
            start()
        if not quick:
            importlib.import_module("mmlp.training.cache").cache_programs()
        commands = importlib.import_module(f"mmlp.cli.{'about' if quick else 'commands'}")
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_: _say(f"warning: {message}")
            return commands.execute(command)
    except SystemExit as end:  # help, wrong arguments, or training that was asked to stop
        return end.code if isinstance(end.code, int) else 1
    except KeyboardInterrupt as interrupt:
        _say(str(interrupt) or "interrupted")
        return 128 + signal.SIGINT
    except BrokenPipeError:
        raise
    except (ValueError, OSError, ArithmeticError, MemoryError, *_of_jax()) as error:
        _say(_reason(error))
        return 1 if isinstance(error, OSError) else status


def _of_jax() -> tuple[type[Exception], ...]:
    """The errors of JAX, if it was needed."""
    return (sys.modules["jax"].errors.JaxRuntimeError,) if "jax" in sys.modules else ()


def check(command) -> None:
    """Refuse what can be refused before any file is read."""
    given = vars(command)
    sizes = {"rows": "-n", "epochs": "--epochs", "latent": "--latent", "seeds": "--seeds"}
    sizes |= {"rank": "--rank", "batch_size": "--batch-size", "patience": "--patience"}
    sizes |= {"models": "--models"}
    for field, flag in sizes.items():
        value, least = given.get(field), 2 if field == "models" else 1
        if value is not None and value < least:
            raise ValueError(f"{flag} must be at least {least}, got {value}.")
    if not 0 <= given.get("seed", 0) < 2**32:
        raise ValueError(f"--seed must be from 0 to {2**32 - 1}, got {command.seed}.")
    needed = isinstance(command, fit_arguments.FitColumns) and not command.targets
    if needed and not command.data.name.lower().endswith(".npz"):
        raise ValueError(
            f"--targets is needed: the columns of {command.data} to predict, such as --targets u,v."
        )
    if given.get("covariance") == "full" and given.get("rank") is not None:
        raise ValueError(
            f"--rank {given['rank']} is for a covariance of low rank; leave out --covariance full, "
            "or --rank."
        )
    if not 0 <= given.get("test", 0) < 1:
        raise ValueError(f"--test must be a share below 1, such as 0.2, got {command.test:g}.")
    model = given.get("model")
    if model is not None and model.name.lower().endswith(tables.INPUTS):
        raise ValueError(
            f"{model} is a table, not a model; the model comes first, such as wind.safetensors."
        )
    if isinstance(command, arguments.Reproduce) and not command.targets:
        remedy = "`mmlp reproduce --help` lists the names"
        raise ValueError(f"name what to reproduce, such as `mmlp reproduce all`; {remedy}.")
    if isinstance(command, fit_arguments.FitOptions) and command.out is not None:
        tables.extension(command.out, (".safetensors",), "write")
    results = isinstance(command, arguments.Predict | arguments.Sample)
    if results and command.out not in (None, Path("-")):
        tables.extension(command.out, tables.OUTPUTS, "write")


def parse(argv: Sequence[str], group: Group = COMMANDS, program: str = "mmlp"):
    """The arguments as one of the classes of `arguments`; help and errors end the program."""
    first, rest = (argv[0], argv[1:]) if argv else ("", [])
    chosen = group.commands.get(first)
    if chosen is None and group is KINDS and first.isidentifier() and first != "help":
        known = sys.modules.get(
            "mmlp.estimators.saved"
        )  # one that was added registers itself there
        kinds = known.kinds() if known else {}
        chosen = fit_arguments.for_estimator(kinds[first]) if first in kinds else None
    if isinstance(chosen, Group):
        return parse(rest, chosen, f"{program} {first}")
    if chosen is not None:
        return tyro.cli(chosen, prog=f"{program} {first}", args=rest, config=CONFIG)
    if first == "help":
        return parse([*rest, "--help"], group, program)
    if first in ("--version", "-V"):
        print(f"{program} {__version__}")
        raise SystemExit(0)
    menu: Any = Union[*itertools.starmap(_entry, group.commands.items())]
    return tyro.cli(menu, prog=program, description=group.about, args=argv, config=CONFIG)


def _entry(name: str, command: "type | Group"):
    """A command in the list of commands: its name and the first line of its help."""
    is_group = isinstance(command, Group)
    about = (command.about if is_group else inspect.getdoc(command) or "").partition("\n")[0]
    shown = make_dataclass(name, []) if is_group else command
    return Annotated[shown, subcommand(name, description=about)]


def _reason(error: Exception) -> str:
    """What went wrong, after the name of the file, if the system says so; only stdout has none."""
    if isinstance(error, OSError) and error.errno is not None:
        if error.filename is not None:
            remedy = REMEDIES.get(type(error), "")
            return f"{error.filename}: {(error.strerror or '').lower()}{remedy}."
        system = os.strerror(error.errno)
        if error.strerror == system:
            return f"cannot write to stdout: {system.lower()}; write to another place."
        return str(error.strerror)
    if isinstance(error, _of_jax()):  # with lists of its own
        return " ".join(str(error).split())
    return str(error) or "not enough memory; use fewer rows or columns."


def _say(message: str) -> None:
    """A message in one line, and a line for each that it indents: the items of a list."""
    items = re.split(r"\n(?=  )", message.rstrip())
    first, *rest = (" ".join(item.split()) for item in items)
    print("\n  ".join([f"mmlp: {first}", *filter(None, rest)]), file=sys.stderr)
