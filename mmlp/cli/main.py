"""`mmlp`: `arguments` says what can be asked, `commands` does it, and this file ties them.

Results go to stdout, messages to stderr. The exit status is 0 on success, 2 if the arguments are
wrong (found before any file is read), 1 if a file cannot be used or the work fails, each with one
line that says why, and 128 plus the number of the signal if one ended it.

Most imports are in the functions that need them: they take a fifth of a second, and a signal must
find `interrupts` at work before.
"""

import importlib
import signal
import sys
from collections.abc import Sequence

from mmlp.cli import interrupts
from mmlp.cli.streams import MessageStream, discard_output, open_missing_streams

MAX_SIZE = 2**31 - 1  # of epochs, models, latent variables, loadings, rows to draw


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; gives its exit status.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments of the command. By default those of this process, which is then the command's
        own: signals end it.

    Returns
    -------
    int
        The exit status.
    """
    open_missing_streams()
    if argv is not None:
        return _run_and_flush(argv)
    interrupts.watch()
    sys.stderr = MessageStream(sys.stderr)  # pyright: ignore
    status = _run_and_flush(None)
    interrupts.finish(status)
    return status


def _run_and_flush(argv: Sequence[str] | None) -> int:
    """Run one command, and see to it that all of its output has arrived."""
    from mmlp.cli.messages import describe, print_message

    status = 0
    try:
        status = _run(sys.argv[1:] if argv is None else argv, own_process=argv is None)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        status = 128 + signal.SIGPIPE
        discard_output(sys.stdout)
    except OSError as error:  # the rest of the output is lost
        if status == 0:  # otherwise it was said
            print_message(describe(error))
            status = 1
        discard_output(sys.stdout)
    try:
        sys.stderr.flush()
    except OSError:
        discard_output(sys.stderr)
    return status


def _run(argv: Sequence[str], *, own_process: bool) -> int:
    import functools
    import warnings

    from mmlp.cli import arguments
    from mmlp.cli.messages import describe, jax_errors, print_message
    from mmlp.cli.parsing import parse
    from mmlp.cli.start import start
    from mmlp.cli.stdin import read_stdin

    status = 2
    try:
        command = parse(argv)
        check(command)
        status = 1
        # JAX and scikit-learn take seconds, and neither `info` nor --help nor a wrong argument
        # needs them.
        quick = isinstance(command, arguments.Info)
        if own_process and not quick:
            start()
        if not quick:
            importlib.import_module("mmlp.program_cache").cache_programs()
        commands = importlib.import_module(
            f"mmlp.cli.{'about' if quick else 'commands'}"
        )
        with warnings.catch_warnings():
            # Each once: rows may be read again for each score and picture.
            print_once = functools.cache(print_message)
            warnings.showwarning = lambda warning, *_: print_once(
                f"warning: {describe(warning)}"
            )
            with read_stdin(command) as command:
                return commands.execute(command)
    except (
        SystemExit
    ) as end:  # help, wrong arguments, or training that was asked to stop
        return end.code if isinstance(end.code, int) else 1
    except KeyboardInterrupt as interrupt:
        print_message(str(interrupt) or "interrupted")
        return 128 + signal.SIGINT
    except BrokenPipeError:
        raise
    except (ValueError, OSError, ArithmeticError, MemoryError, *jax_errors()) as error:
        print_message(describe(error))
        return 1 if isinstance(error, OSError | UnicodeEncodeError) else status


def check(command) -> None:
    """Refuse what can be refused before any file is read."""
    from pathlib import Path

    from mmlp import tables
    from mmlp.cli import arguments, fit_arguments

    given = vars(command)
    sizes = {"rows": "-n", "epochs": "--epochs", "latent": "--latent"}
    sizes |= {"rank": "--rank", "batch_size": "--batch-size", "patience": "--patience"}
    sizes |= {"models": "--models"}
    for field, flag in sizes.items():
        value, least = given.get(field), 2 if field == "models" else 1
        if value is not None and value < least:
            raise ValueError(f"{flag} must be at least {least}, got {value}.")
    # the bound of the estimators, which are not asked: scikit-learn takes seconds to import
    for field in ("epochs", "models", "latent", "rank", "rows"):
        value = given.get(field)
        if value is not None and value > MAX_SIZE:
            raise ValueError(f"{sizes[field]} must be at most {MAX_SIZE}, got {value}.")
    targets = given.get("targets", ())
    rank = given.get("rank")
    if (
        isinstance(command, fit_arguments.FitColumns)
        and targets
        and (rank or 0) > len(targets)
    ):
        raise ValueError(
            f"--rank must be at most {len(targets)}, the number of targets, got {rank}: so many "
            "loadings hold every covariance; use a smaller one, or leave it out."
        )
    if not 0 <= given.get("seed", 0) < 2**32:
        raise ValueError(f"--seed must be from 0 to {2**32 - 1}, got {command.seed}.")
    needed = isinstance(command, fit_arguments.FitColumns) and not command.targets
    data = "stdin" if given.get("data") == Path("-") else given.get("data")
    if needed and not command.data.name.lower().endswith(".npz"):
        raise ValueError(
            f"--targets is needed: the columns of {data} to predict, such as --targets u,v."
        )
    if given.get("covariance") == "full" and given.get("rank") is not None:
        raise ValueError(
            f"--rank {given['rank']} is for a covariance of low rank; leave out --covariance full, "
            "or --rank."
        )
    if given.get("decimal") is not None and given["decimal"] == given["thousands"]:
        raise ValueError(
            f"--decimal and --thousands are both {given['decimal']!r}; leave out one of them, or "
            "name two different characters."
        )
    if not 0 <= given.get("test", 0) < 1:
        raise ValueError(
            f"--test must be a share below 1, such as 0.2, got {command.test:g}."
        )
    model = given.get("model")
    if model is not None and model.name.lower().endswith(tables.INPUTS):
        raise ValueError(
            f"{model} is a table, not a model; the model comes first, such as wind.safetensors."
        )
    if isinstance(command, fit_arguments.FitOptions) and command.out is not None:
        tables.extension(command.out, (".safetensors",), "write")
    if isinstance(command, arguments.Predict | arguments.Sample):
        results = tables.find_results_file(command.out)
        if results is not None:
            tables.output_format(results)
