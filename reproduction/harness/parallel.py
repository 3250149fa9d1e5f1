"""Long computations: a progress bar, and sharing work among processes."""

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

import jax
from tqdm import tqdm

from mmlp.compilation import compile_all_quickly
from mmlp.training.progress import SILENT_SECONDS


def show_progress(items: Iterable, label: str, total: int | None = None) -> Iterable:
    """Iterate over items, with a progress bar on a terminal.

    Parameters
    ----------
    items : iterable
    label : str
        The text beside the bar.
    total : int, optional
        The number of items, if `items` is an iterator that must not be listed at once.

    Returns
    -------
    iterable
        The same items.
    """
    if total is None:
        items = list(items)
    return tqdm(
        items,
        desc=label,
        total=total,
        delay=SILENT_SECONDS,
        disable=not sys.stderr.isatty(),
        dynamic_ncols=True,
        leave=False,
    )


def map_in_processes(
    function: Callable, arguments: Sequence[tuple], label: str, jobs: int = 1
) -> list:
    """Call a function for each tuple of arguments, on a CPU in several processes.

    A program that works on small matrices uses one core only, so two jobs on two cores
    take half the time. On Linux each process has its own cores, so that their threads
    do not wait for each other. If a call fails, or on Ctrl-C, all processes stop.

    Parameters
    ----------
    function : callable
        Defined at the top level of a module, so that processes can import it.
    arguments : sequence of tuples
        The positional arguments of each call.
    label : str
        The text beside the progress bar.
    jobs : int, default=1
        The number of processes.

    Returns
    -------
    list
        The results, in the order of the arguments.
    """
    jobs = min(jobs, len(arguments))
    if jobs <= 1 or jax.default_backend() != "cpu":
        return [function(*values) for values in show_progress(arguments, label)]

    context = multiprocessing.get_context("spawn")
    _start_resource_tracker()
    job_numbers = context.SimpleQueue()
    for number in range(jobs):
        job_numbers.put(number)

    # A process reads this variable as it starts, before `_begin_process` runs.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with ProcessPoolExecutor(
        jobs, context, initializer=_begin_process, initargs=(job_numbers, jobs)
    ) as pool:
        try:
            with _block_interrupts():
                futures = [pool.submit(function, *values) for values in arguments]
            # Results are awaited as they come, so that a failure is seen at once.
            completed = as_completed(futures)
            for future in show_progress(completed, label, len(arguments)):
                future.result()
            return [future.result() for future in futures]
        except BaseException:
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def _start_resource_tracker() -> None:
    """Start the resource tracker of `multiprocessing` without its warning.

    It would warn of semaphores if a signal ends this process at once.
    """
    if os.name != "posix":
        return
    from multiprocessing import resource_tracker

    # The tracker's process inherits these options.
    sys.warnoptions.append("ignore:resource_tracker:UserWarning")
    try:
        resource_tracker.ensure_running()
    finally:
        sys.warnoptions.pop()


@contextlib.contextmanager
def _block_interrupts() -> Iterator[None]:
    """Block SIGINT in this process, and for good in the processes started meanwhile.

    A terminal sends Ctrl-C to all processes, and each would print a traceback. This
    process receives the signal when the block ends, and then ends the others.
    """
    if not hasattr(signal, "pthread_sigmask"):  # on Windows
        yield
        return
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)


def _begin_process(job_numbers: Any, jobs: int) -> None:
    """Compile quickly, keep to separate cores, and end when the parent process dies."""
    compile_all_quickly()
    if sys.platform == "linux":
        cores = sorted(os.sched_getaffinity(0))[job_numbers.get() :: jobs]
        if cores:  # There may be more jobs than cores.
            os.sched_setaffinity(0, cores)

    parent = multiprocessing.parent_process()
    assert parent is not None

    def exit_with_parent() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=exit_with_parent, daemon=True).start()
