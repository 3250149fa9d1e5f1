"""Compiled functions, the last few that were used: a long process does not keep them all.

`jax.jit` keeps all that it ever compiled, 5 to 10 MB for the training of a small network, and a
fresh lambda as loss is a new program. Here each has a `jax.jit` of its own, which ends with it.
"""

import functools
from collections.abc import Callable, Hashable

import jax

# programs of each function: more than a comparison of estimators takes turns with, some 300 MB
KEPT = 32


class LastUsed:
    """For `function(static, *arguments)`: (static, arguments) -> a compiled function of arguments.

    The same one for an equal `static` and arguments of the same structure, shapes and dtypes.
    """

    def __init__(self, function: Callable, **options):
        functools.update_wrapper(self, function)

        def compiled(static: Hashable, structure: Hashable, types: tuple) -> Callable:
            return jax.jit(functools.partial(function, static), **options)

        self.kept = functools.lru_cache(maxsize=KEPT)(compiled)

    def __call__(self, static: Hashable, arguments: tuple) -> Callable:
        leaves, structure = jax.tree.flatten(arguments)
        return self.kept(static, structure, tuple(map(jax.typeof, leaves)))
