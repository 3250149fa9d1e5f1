"""Run `mmlp`: `arguments` says what can be asked, `commands` does it.

Results go to stdout, messages to stderr. The exit status is 0 on success, 2 if the
arguments are wrong (found before any file is read), 1 if a file cannot be used or the
work fails, each with one line that says why, and 128 plus the number of the signal if
one ended it.

Most imports are in the functions that need them: they take a fifth of a second, and a
signal must find `interrupts` at work before.
"""

import signal
import sys
from collections.abc import Sequence

from mmlp.cli import interrupts
from mmlp.cli.streams import MessageStream, discard_output, open_missing_streams

STATUS_FAILED = 1
STATUS_WRONG_ARGUMENTS = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments of the command. By default those of this process, which is then
        the command's own: signals end it.

    Returns
    -------
    int
        The exit status.
    """
    open_missing_streams()
    if argv is not None:
        return run_and_flush(argv, own_process=False)

    interrupts.watch()
    sys.stderr = MessageStream(sys.stderr)  # pyright: ignore
    status = run_and_flush(sys.argv[1:], own_process=True)
    interrupts.finish(status)
    return status


def run_and_flush(argv: Sequence[str], *, own_process: bool) -> int:
    """Run one command, and see to it that all of its output has arrived."""
    from mmlp.cli.messages import describe, print_message

    status = 0
    try:
        status = run(argv, own_process=own_process)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        status = 128 + signal.SIGPIPE
        discard_output(sys.stdout)
    except OSError as error:  # the last part of the output is lost
        if status == 0:  # otherwise the reason was printed
            print_message(describe(error))
            status = STATUS_FAILED
        discard_output(sys.stdout)

    try:
        sys.stderr.flush()
    except OSError:
        discard_output(sys.stderr)
    return status


def run(argv: Sequence[str], *, own_process: bool) -> int:
    """Run one command; print in one line what goes wrong."""
    from mmlp.cli.arguments import parse
    from mmlp.cli.messages import describe, jax_errors, print_message
    from mmlp.cli.option_checks import check_options

    status_of_error = STATUS_WRONG_ARGUMENTS
    try:
        command = parse(argv)
        check_options(command)
        status_of_error = STATUS_FAILED
        return execute(command, own_process=own_process)
    except SystemExit as end:  # after help, or training that was asked to stop
        return end.code if isinstance(end.code, int) else STATUS_FAILED
    except KeyboardInterrupt as interrupt:
        print_message(str(interrupt) or "interrupted")
        return 128 + signal.SIGINT
    except BrokenPipeError:
        raise
    except (OSError, UnicodeEncodeError) as error:
        print_message(describe(error))
        return STATUS_FAILED
    except (ValueError, ArithmeticError, MemoryError, *jax_errors()) as error:
        print_message(describe(error))
        return status_of_error


def execute(command: object, *, own_process: bool) -> int:
    """Do what a command asks for, with warnings printed as messages."""
    import functools
    import warnings

    from mmlp.cli import info
    from mmlp.cli.arguments import Info
    from mmlp.cli.messages import describe, print_message
    from mmlp.cli.quick_start import import_sklearn_without_extras
    from mmlp.cli.stdin import read_stdin

    # JAX and scikit-learn take seconds to import, and `info` needs neither.
    if isinstance(command, Info):
        return info.execute(command)
    if own_process:
        import_sklearn_without_extras()
    from mmlp.cli import commands
    from mmlp.program_cache import cache_programs

    cache_programs()
    # Rows may be read again for each score and picture, but one warning suffices.
    print_once = functools.cache(print_message)
    with warnings.catch_warnings():
        warnings.showwarning = lambda warning, *_: print_once(
            f"warning: {describe(warning)}"
        )
        with read_stdin(command) as command:
            return commands.execute(command)
