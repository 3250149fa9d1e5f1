"""Compile in another thread what training needs later, while it is still busy."""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator

# With more rows, training takes so much longer than compiling that it does not pay.
MAX_ROWS = 10_000


@contextlib.contextmanager
def compile_in_background(
    compile_program: Callable[[], object], n_rows: int
) -> Iterator[None]:
    """Call `compile_program` in another thread while the body of `with` runs.

    This is done for at most `MAX_ROWS` rows, and if there is a second core. Errors are
    ignored: what fails here fails again, visibly, where the result is needed.
    """
    if n_rows > MAX_ROWS or count_cores() < 2:
        yield
        return

    def compile_quietly() -> None:
        with contextlib.suppress(Exception):
            compile_program()

    thread = threading.Thread(target=compile_quietly, name="mmlp compiles ahead")
    thread.start()
    # An error in the body is raised at once, without waiting for the thread.
    yield
    thread.join()


def count_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
