"""What will be needed later is compiled by another thread, while the first networks train."""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator

FEW = 10_000  # rows up to which compiling is a good part of the time


@contextlib.contextmanager
def ahead(compiles: Callable[[], object], n: int) -> Iterator[None]:
    """Call `compiles` meanwhile, where n rows are few and there is a core for it.

    Whatever goes wrong there goes wrong again, and is told, where the result is needed.
    """
    if n > FEW or cores() < 2:
        yield
        return

    def quietly() -> None:
        with contextlib.suppress(Exception):
            compiles()

    thread = threading.Thread(target=quietly, name="mmlp compiles ahead")
    thread.start()
    yield  # after an error nobody waits for it
    thread.join()


def cores() -> int:
    """How many this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
