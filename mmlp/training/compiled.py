"""The one way to compile a function, and to keep it: the last few that were used, not all.

`jax.jit` keeps all that it ever compiled, 5 to 10 MB for the training of a small network, and a
fresh lambda as loss is a new program. Here each has a `jax.jit` of its own, which ends with it.
"""

import functools
import os
from collections.abc import Callable, Hashable
from typing import Any

import jax

# programs of each function: more than a comparison of estimators takes turns with, some 300 MB
KEPT = 32
# on a CPU most of the time goes into LLVM. For a program that runs once, for milliseconds:
ONCE: Any = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
# For loops of small matrices that run for minutes: the second and third levels double the time to
# compile and gained nothing that could be measured.
LOOPS = "--xla_backend_optimization_level=1"


class Compiled:
    """`function(static, *arguments)`, compiled once for equal `static` and arguments of one form.

    `static` is hashable and compiled in; the form of the arguments is their structure, shapes and
    dtypes. With `quickly`, compiling takes half the time, and the program is slower. The memory of
    the argument number `donate` (after `static`, from 0) is used again for the result.
    """

    def __init__(self, function: Callable, *, quickly: bool = False, donate: int | None = None):
        functools.update_wrapper(self, function)
        donated = () if donate is None else donate

        def compiled(static: Hashable, structure: Hashable, types: tuple) -> Callable:
            options = ONCE if quickly and jax.default_backend() == "cpu" else None
            one = functools.partial(function, static)
            return jax.jit(one, donate_argnums=donated, compiler_options=options)

        self.kept = functools.lru_cache(maxsize=KEPT)(compiled)

    def __call__(self, static: Hashable, *arguments):
        return self.program(static, *arguments)(*arguments)

    def program(self, static: Hashable, *arguments) -> Callable:
        """The compiled function of arguments of this form, for who calls it again and again."""
        leaves, structure = jax.tree.flatten(arguments)
        return self.kept(static, structure, tuple(map(jax.typeof, leaves)))


def compile_all_quickly() -> None:
    """Whatever this process compiles, if it has not computed yet; the user's own flags prevail."""
    os.environ["XLA_FLAGS"] = f"{LOOPS} {os.environ.get('XLA_FLAGS', '')}".strip()
