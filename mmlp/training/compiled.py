"""The one way to compile a function, and to keep it: the last few that were used, not all.

`jax.jit` keeps all that it ever compiled, 5 to 10 MB for the training of a small network, and a
fresh lambda as loss is a new program. Here each has a `jax.jit` of its own, which ends with it.
"""

import functools
import os
from collections.abc import Callable, Hashable
from typing import Any

import jax

from mmlp.training import cache
from mmlp.training.recall import recalled

# programs of each function: more than a comparison of estimators takes turns with, some 300 MB
KEPT = 32
# On a CPU nearly all the time goes into LLVM, and in old versions into the emitters of fusions.
PLAIN: Any = {"xla_cpu_use_fusion_emitters": False} if jax.__version_info__ < (0, 10) else {}
# for a program that runs for milliseconds, or a loop for a second: it runs up to four times as long
ONCE: Any = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    **PLAIN,
}
# for a loop of small matrices that runs for minutes: as fast but for a few parts in a hundred
SHORT: Any = {"xla_backend_optimization_level": 1, **PLAIN}
EFFORTS = {"least": ONCE, "less": SHORT, "full": None}
# up to so many products of weights and samples in all steps; each step counts for `STEP` or more
LEAST, LESS, STEP = 2e8, 2e10, 5e5
LEVEL = "--xla_backend_optimization_level"
LOOPS = f"{LEVEL}=1"


def effort(steps: int, samples: int, weights: int) -> str:
    """How hard to compile a training of so many steps: what that takes is to be won back."""
    work = steps * max(samples * weights, STEP)
    return "least" if work <= LEAST else "less" if work <= LESS else "full"


class Compiled:
    """`function(static, *arguments)`, compiled once for equal `static` and arguments of one form.

    `static` is hashable and compiled in; the form of the arguments is their structure, shapes and
    dtypes. `effort`, one of `EFFORTS` or else the attribute of `static` of that name, says how hard
    to compile. The memory of the argument number `donate` (after `static`, from 0) is used again
    for the result.
    """

    def __init__(self, function: Callable, *, effort: str | None = None, donate: int | None = None):
        functools.update_wrapper(self, function)
        donated = () if donate is None else donate

        def compiled(static: Hashable, structure: Any, types: tuple, context) -> Callable:
            options = EFFORTS[effort or getattr(static, "effort", "full")]
            prevails = LEVEL in os.environ.get("XLA_FLAGS", "")  # what the user has set
            options = None if prevails or jax.default_backend() != "cpu" else options
            one: Any = functools.partial(function, static)
            one.__name__ = function.__name__  # in messages of JAX
            jitted = jax.jit(one, donate_argnums=donated, compiler_options=options)
            if cache.active is None or context[1]:
                return jitted
            leaves = [jax.ShapeDtypeStruct(t.shape, t.dtype, weak_type=t.weak_type) for t in types]
            made_of, form = (static, donated, options), structure.unflatten(leaves)
            return recalled(cache.active, jitted, function, made_of, form)

        self.kept = functools.lru_cache(maxsize=KEPT)(compiled)

    def __call__(self, static: Hashable, *arguments):
        return self.program(static, *arguments)(*arguments)

    def program(self, static: Hashable, *arguments) -> Callable:
        """The compiled function of arguments of this form, for who calls it again and again."""
        leaves, structure = jax.tree.flatten(arguments)
        return self.kept(static, structure, tuple(map(jax.typeof, leaves)), _context())


def _context() -> tuple:
    """Settings of JAX that `jax.jit` does not look up; a program as it was kept looks up none."""
    settings = (jax.config.jax_default_prng_impl, jax.config.jax_disable_jit)  # pyright: ignore
    if cache.active is None:
        return settings
    from jax._src import config

    return (*settings, config.trace_context())


def compile_all_quickly() -> None:
    """Whatever this process compiles, if it has not computed yet; the user's own flags prevail."""
    os.environ["XLA_FLAGS"] = f"{LOOPS} {os.environ.get('XLA_FLAGS', '')}".strip()
