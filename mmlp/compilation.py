"""Compile functions: with how much effort, and how long to keep the programs.

`jax.jit` keeps all that it ever compiled, 5 to 10 MB for the training of a small
network, and a fresh lambda as loss is a new program. `Compiled` gives each program a
`jax.jit` of its own, and keeps only those that were used last.
"""

import contextlib
import functools
import hashlib
import os
from collections.abc import Callable, Hashable
from typing import Any

import equinox as eqx
import jax
import jaxlib.version
from jax.core import Tracer
from jax.experimental import serialize_executable

from mmlp import program_cache

# Programs kept for each function: more than a comparison of estimators alternates.
MAX_PROGRAMS = 32

# Compiler options by effort. On a CPU nearly all the time of a compilation goes into
# LLVM, and in old versions of JAX into the emitters of fusions.
_OLD_EMITTERS: dict[str, Any] = {}
if jax.__version_info__ < (0, 10):
    _OLD_EMITTERS["xla_cpu_use_fusion_emitters"] = False
COMPILER_OPTIONS: dict[str, dict[str, Any] | None] = {
    # For a program that runs for milliseconds: it takes up to four times as long.
    "least": {
        "xla_backend_optimization_level": 0,
        "xla_llvm_disable_expensive_passes": True,
        **_OLD_EMITTERS,
    },
    # For a loop over small matrices that runs for minutes: it is a few per cent slower.
    "less": {"xla_backend_optimization_level": 1, **_OLD_EMITTERS},
    "full": None,
}
LEVEL_FLAG = "--xla_backend_optimization_level"

# The numbers of products of weights and samples, over all steps, up to which little
# effort pays. A step counts for at least MIN_PRODUCTS_PER_STEP.
MAX_PRODUCTS_LEAST = 2e8
MAX_PRODUCTS_LESS = 2e10
MIN_PRODUCTS_PER_STEP = 5e5

# Settings of JAX that change what a function is compiled to. `jax.jit` looks them up
# itself, a program that was loaded from disk does not.
TRACE_SETTINGS = (
    "jax_enable_x64",
    "jax_default_prng_impl",
    "jax_default_matmul_precision",
    "jax_default_device",
    "jax_numpy_dtype_promotion",
    "jax_numpy_rank_promotion",
    "jax_threefry_partitionable",
    "jax_disable_jit",
    "jax_debug_nans",
    "jax_debug_infs",
)
# With one of these, JAX looks at the results of a program, or runs without any.
INSPECTING_SETTINGS = ("jax_disable_jit", "jax_debug_nans", "jax_debug_infs")


def choose_effort(steps: int, samples: int, weights: int) -> str:
    """Return how hard to compile a training, so that compiling pays for itself.

    Parameters
    ----------
    steps : int
        Number of training steps.
    samples : int
        Samples in a step.
    weights : int
        Weights of the models in a step.

    Returns
    -------
    {"least", "less", "full"}
    """
    products = steps * max(samples * weights, MIN_PRODUCTS_PER_STEP)
    if products <= MAX_PRODUCTS_LEAST:
        return "least"
    if products <= MAX_PRODUCTS_LESS:
        return "less"
    return "full"


def partition_model(model: Any) -> tuple[Any, Any, tuple]:
    """Split a model into arguments of a compiled function and a hashable remainder.

    Parameters
    ----------
    model : tree of arrays, such as an `equinox.Module`

    Returns
    -------
    params : tree of arrays
        The model with only its floating-point arrays, which training changes.
    frozen : tree of arrays
        The model with only its other arrays.
    static : (leaves, structure)
        What is not an array, hashable.
    """
    params, others = eqx.partition(model, eqx.is_inexact_array)
    frozen, static = eqx.partition(others, eqx.is_array)
    leaves, structure = jax.tree.flatten(static)
    return params, frozen, (tuple(leaves), structure)


def combine_model(params: Any, frozen: Any, static: tuple) -> Any:
    """Return the model that `partition_model` split."""
    leaves, structure = static
    return eqx.combine(params, frozen, jax.tree.unflatten(structure, leaves))


class Compiled:
    """A function that is compiled once for equal `static` and types of arguments.

    Parameters
    ----------
    function : callable
        Called as `function(static, *arguments)`, where `static` is hashable and
        compiled in, and `arguments` are trees of arrays.
    effort : {"least", "less", "full"}, optional
        By default the attribute `effort` of `static`, or else "full".
    donate : int, optional
        Index of the argument after `static`, from 0, whose memory is reused for the
        result.
    """

    def __init__(
        self,
        function: Callable,
        *,
        effort: str | None = None,
        donate: int | None = None,
    ):
        functools.update_wrapper(self, function)
        self.function = function
        self.effort = effort
        self.donated = () if donate is None else donate
        self.find_program = functools.lru_cache(maxsize=MAX_PROGRAMS)(self._compile)

    def __call__(self, static: Hashable, *arguments: Any) -> Any:
        return self.program(static, *arguments)(*arguments)

    def program(self, static: Hashable, *arguments: Any) -> Callable:
        """Return the compiled function for these types, for repeated calls."""
        leaves, structure = jax.tree.flatten(arguments)
        types = tuple(jax.typeof(leaf) for leaf in leaves)
        settings = tuple(getattr(jax.config, name, None) for name in TRACE_SETTINGS)
        # Only a function of `jax.jit` can be differentiated, vectorised or traced.
        is_traced = any(isinstance(leaf, Tracer) for leaf in leaves)
        return self.find_program(static, structure, types, settings, is_traced)

    def _compile(
        self,
        static: Hashable,
        structure: Any,
        types: tuple,
        settings: tuple,
        is_traced: bool,
    ) -> Callable:
        """Return a program; `settings` only distinguishes programs."""
        effort = self.effort or getattr(static, "effort", "full")
        options = COMPILER_OPTIONS[effort]
        user_decides = LEVEL_FLAG in os.environ.get("XLA_FLAGS", "")
        if user_decides or jax.default_backend() != "cpu":
            options = None

        bound: Any = functools.partial(self.function, static)
        bound.__name__ = self.function.__name__  # which messages of JAX show
        store = program_cache.active_store()
        if store is None or is_traced or not _can_be_stored():
            return jax.jit(bound, donate_argnums=self.donated, compiler_options=options)

        # With all arguments in the program, its text says which of them it uses.
        # Without `keep_unused`, functions of a and of b alone would have the same text.
        jitted = jax.jit(
            bound,
            donate_argnums=self.donated,
            compiler_options=options,
            keep_unused=True,
        )
        leaves = [
            jax.ShapeDtypeStruct(t.shape, t.dtype, weak_type=t.weak_type) for t in types
        ]
        traced = jitted.trace(*structure.unflatten(leaves))
        return _load_or_compile(store, traced, options)


def _can_be_stored() -> bool:
    """Whether programs may come from the disk: on one CPU, if nothing inspects them.

    Not beside JAX's own cache: a program that was loaded from there cannot be
    serialised again (it loads, and then fails when it is called).
    """
    inspects = any(getattr(jax.config, name, False) for name in INSPECTING_SETTINGS)
    one_cpu = jax.default_backend() == "cpu" and jax.device_count() == 1
    return one_cpu and not inspects and not program_cache.jax_has_a_cache()


def _load_or_compile(
    store: program_cache.ProgramStore, traced: jax.stages.Traced, options: dict | None
) -> Callable:
    """Return the program from the store, or compile and store it."""
    lowered = traced.lower()
    # The text does not distinguish weak types, nor random keys from integers.
    types = (traced.jaxpr.in_avals, traced.jaxpr.out_avals)
    key = _program_key(lowered.as_text(), str(types), options)
    stored = store.get(key)
    if stored is not None:
        # Whatever is wrong with what was stored, the program can be compiled.
        with contextlib.suppress(Exception), program_cache.hide_loader_messages():
            return serialize_executable.deserialize_and_load(
                stored, lowered.in_tree, lowered.out_tree
            )
    compiled = lowered.compile()
    with contextlib.suppress(Exception):  # not every program can be serialised
        payload, _, _ = serialize_executable.serialize(compiled)
        store.put(key, payload)
    return compiled


def _program_key(text: str, types: str, options: dict | None) -> str:
    """Return a digest of all that a compiled program depends on.

    The structure of arguments and results is not part of it: that comes from the
    function that was traced in this process, and only their leaves, with these types,
    are in the program.
    """
    device = jax.devices()[0]
    parts = (
        jax.__version__,
        # jaxlib holds the compiler; on a CPU the platform's version does not name it.
        jaxlib.version.__version__,
        device.device_kind,
        device.client.platform_version,
        os.environ.get("XLA_FLAGS", ""),
        sorted((options or {}).items()),
        types,
        text,
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def compile_all_quickly() -> None:
    """Compile everything in this process with little effort.

    Call it before the first program is compiled.
    A level that the user has set in `XLA_FLAGS` prevails.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    os.environ["XLA_FLAGS"] = f"{LEVEL_FLAG}=1 {flags}".strip()
