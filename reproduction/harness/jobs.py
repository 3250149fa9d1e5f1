"""Long work: with a bar, shared among processes, kept in a folder so as to be done in parts."""

import contextlib
import hashlib
import json
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import jax
from tqdm import tqdm

from mmlp import atomic_files
from mmlp.compilation import compile_all_quickly
from mmlp.reporting.records import list_versions
from mmlp.training.progress import SILENT_SECONDS


def progress(items: Iterable, label: str, total: int | None = None) -> Iterable:
    """The items, with a bar on a terminal; `total` is for those that come one by one."""
    items, quiet = (list(items) if total is None else items), not sys.stderr.isatty()
    shown = {
        "delay": SILENT_SECONDS,
        "disable": quiet,
        "dynamic_ncols": True,
        "leave": False,
    }
    return tqdm(items, desc=label, total=total, **shown)


def each(function: Callable, work: Sequence[tuple], label: str, jobs: int = 1) -> list:
    """`function(*one)` for each of `work`, in its order; on a CPU, shared among `jobs` processes.

    Programs of small matrices keep one core busy: two jobs on two cores take half the time. On
    Linux each has its own cores, so that their threads do not wait for each other. If one fails,
    or on Ctrl-C, all stop.
    """
    jobs = min(jobs, len(work))
    if jobs <= 1 or jax.default_backend() != "cpu":
        return [function(*one) for one in progress(work, label)]
    context = multiprocessing.get_context("spawn")
    _start_resource_tracker()
    turns = context.SimpleQueue()
    for turn in range(jobs):
        turns.put(turn)
    os.environ.setdefault(
        "OPENBLAS_NUM_THREADS", "1"
    )  # read as a process starts, before `_begin`
    with ProcessPoolExecutor(
        jobs, context, initializer=_begin, initargs=(turns, jobs)
    ) as pool:
        try:
            with _interrupts_blocked():
                futures = [pool.submit(function, *one) for one in work]
            for future in progress(as_completed(futures), label, len(work)):
                future.result()  # the first that fails is seen at once
            return [future.result() for future in futures]
        except BaseException:
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def _start_resource_tracker() -> None:
    """Start the process of `multiprocessing` that cleans up after this one, without its warning.

    It would warn of semaphores if a signal ends this process at once.
    """
    if os.name == "posix":
        from multiprocessing import resource_tracker

        sys.warnoptions.append(
            "ignore:resource_tracker:UserWarning"
        )  # the process inherits these
        try:
            resource_tracker.ensure_running()
        finally:
            sys.warnoptions.pop()


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Start processes that do not hear Ctrl-C: this one does, and ends them.

    A terminal sends it to all, and each would print a traceback. Here it is only put off.
    """
    if not hasattr(signal, "pthread_sigmask"):  # on Windows
        yield
        return
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)


def _begin(turns: Any, jobs: int) -> None:
    """In a process of `each`: compile quickly, keep to its own cores, end when the parent dies."""
    compile_all_quickly()
    if sys.platform == "linux":
        share = sorted(os.sched_getaffinity(0))[turns.get() :: jobs]
        if share:  # there may be more jobs than cores
            os.sched_setaffinity(0, share)
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


def kept(folder: Path | None, about: dict[str, Any], make: Callable[[], dict]) -> dict:
    """What `make` gives, or the file in `folder` that it gave before for equal settings `about`.

    The versions of the libraries count as settings, the device and the code do not.
    """
    if folder is None:
        return make()
    name = hashlib.sha256(
        json.dumps([about, list_versions()], sort_keys=True).encode()
    ).hexdigest()[:20]
    path = folder / f"{name}.json"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        atomic_files.replace_file(path, json.dumps(make()).encode())
    return json.loads(path.read_text())
