"""JAX in a process that was forked: its threads are gone, and the first computation waits for ever.

A process that is forked before JAX has started works, as does one that is spawned.
"""

import os
import sys


class _Fork:
    """Whether JAX had started before this process was forked from another one."""

    jax_was_running = False
    lost_threads = False


def _before_fork() -> None:
    # Here and not in the child, where a lock of JAX that another thread held would stay locked.
    _Fork.jax_was_running = _jax_is_running()


def _in_child() -> None:
    _Fork.lost_threads = _Fork.jax_was_running


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(before=_before_fork, after_in_child=_in_child)


def _jax_is_running() -> bool:
    """Return whether JAX has started the threads of a device in this process."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    started = getattr(bridge, "backends_are_initialized", None)
    return started is not None and started()


def check_not_forked(call: str) -> None:
    """Refuse to compute in a process that was forked from one where JAX was running.

    Raises
    ------
    RuntimeError
        In such a process, in place of waiting for ever.
    """
    if _Fork.lost_threads:
        raise RuntimeError(
            f"`{call}` cannot run in this process: it was forked from one where JAX was running, "
            'whose threads it does not have. Start it by multiprocessing.get_context("spawn") or '
            '"forkserver", or use joblib\'s backend "loky", its default; or fork before anything '
            "is fitted, loaded or predicted."
        )
