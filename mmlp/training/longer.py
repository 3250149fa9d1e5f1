"""A run that goes on as a longer one, with more epochs or more patience.

It may if so far it did what the longer one would have done. Where the loss or the optimiser goes by
t, how far training is, it did not: its first epochs would have been others.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from mmlp.errors import ArgumentError
from mmlp.training.arguments import Task
from mmlp.training.devices import to_host
from mmlp.training.fingerprint import programs
from mmlp.training.state import Metrics, State

LOOPS = ("scan", "while", "cond")  # what goes in need not come out at the same place


def by_progress(task: Task) -> list[str]:
    """Which of loss and optimiser go by t."""
    return [
        name for name, program in programs(task).items() if depends_on_last(*program)
    ]


def depends_on_last(function: Callable, *arguments) -> bool:
    """Whether what a function computes depends on its last argument, a number."""
    jaxpr = jax.make_jaxpr(function)(*arguments).jaxpr
    return any(_reached(jaxpr, [False] * (len(jaxpr.invars) - 1) + [True]))


def _reached(jaxpr, inputs: list[bool]) -> list[bool]:
    """Which outputs of a program some of its inputs reach."""
    known = {
        id(var) for var, reached in zip(jaxpr.invars, inputs, strict=True) if reached
    }
    for equation in jaxpr.eqns:
        given = [id(var) in known for var in equation.invars]
        if any(given):
            inner = [getattr(x, "jaxpr", x) for x in equation.params.values()]
            inner = [
                x for x in inner if hasattr(x, "eqns") and len(x.invars) == len(given)
            ]
            whole = [True] * len(equation.outvars)
            through = len(inner) == 1 and equation.primitive.name not in LOOPS
            outputs = _reached(inner[0], given) if through else whole
            outputs = outputs if len(outputs) == len(whole) else whole
            known |= {
                id(var)
                for var, out in zip(equation.outvars, outputs, strict=True)
                if out
            }
            known |= {
                id(var) for var in equation.invars if hasattr(var.aval, "inner_aval")
            }  # refs
    return [id(var) in known for var in jaxpr.outvars]


def as_left(
    task: Task, state: State, done: list[Metrics]
) -> tuple[State, list[Metrics], bool]:
    """A run as it was left, for those who have more patience now; and whether it is finished."""
    if not done:
        return state, done, False
    stopped = np.asarray(
        to_host(state.failed) | (to_host(state.stale) >= task.fixed.patience)
    )
    if task.program.many and done[1:] and np.any(done[-2].stopped & ~stopped):
        models = ", ".join(map(str, np.flatnonzero(done[-2].stopped & ~stopped)))
        raise ArgumentError(
            f"cannot be raised here: in the run that is kept, models {models} stopped before "
            "the others, and rested while these went on",
            call=task.name,
            argument="patience",
            remedy="leave it as it was, or start anew in another folder",
        )
    if np.any(done[-1].stopped != stopped):
        state = state._replace(stopped=jnp.asarray(stopped))
        done = [*done[:-1], done[-1]._replace(stopped=stopped[()])]
    return state, done, len(done) >= task.fixed.epochs or bool(np.all(stopped))
