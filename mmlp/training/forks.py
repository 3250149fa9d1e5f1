"""JAX in a forked process: its threads are gone, and computations never end.

A process that is forked before JAX has computed anything works, as does one that is
spawned.
"""

import os


class _Fork:
    """What this process knows about JAX before and after it was forked."""

    has_computed = False  # whether this package has computed in this process
    lost_threads = False  # whether this process was forked from one where it had


def _record_fork() -> None:
    _Fork.lost_threads = _Fork.lost_threads or _Fork.has_computed


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_record_fork)


def check_not_forked(call: str) -> None:
    """Raise in a process that was forked after this package had computed.

    `fit`, the estimators and the metrics call this first. A method of a distribution or
    of a network does not: it may be called while JAX traces. There, and where only the
    user's own program has computed with JAX before the fork, JAX itself warns of it.

    Parameters
    ----------
    call : str
        The function that the user called, for the message.

    Raises
    ------
    RuntimeError
        In such a process, instead of waiting forever.
    """
    if _Fork.lost_threads:
        raise RuntimeError(
            f"`{call}` cannot run in this process: it was forked from one where JAX "
            "was running, whose threads it does not have. Start it by "
            'multiprocessing.get_context("spawn") or "forkserver", or use joblib\'s '
            'backend "loky", its default; or fork before anything is fitted, loaded, '
            "predicted or scored."
        )
    _Fork.has_computed = True
