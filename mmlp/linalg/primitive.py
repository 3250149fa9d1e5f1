"""Functions with their own derivative rule, which every JAX transformation keeps.

`jax.custom_jvp` is the usual tool, but partial evaluation, and so `lax.scan` in reverse
mode, inlines the body of such a function and forgets its rule. Where the body treats a
decomposition as a constant, second derivatives would then be silently wrong. A
primitive keeps its rule.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jax.sharding import PartitionSpec


def full_precision(function: Callable) -> Callable:
    """Compute the matrix products of `function` in full precision.

    Accelerators round the factors of float32 products by default.
    """

    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        with jax.default_matmul_precision("highest"):
            return function(*args, **kwargs)

    return wrapped


def is_zero(tangent: Any) -> bool:
    """Return whether a tangent is a symbolic zero: its argument is constant."""
    return isinstance(tangent, ad.Zero)


def primitive(
    function: Callable, rule: Callable, self_adjoint: bool = False
) -> Callable[..., jax.Array]:
    """Make `function` a JAX primitive with a derivative rule.

    Parameters
    ----------
    function : callable
        Maps arrays, or tuples of arrays, to one array. The arrays share their leading
        dimensions.
    rule : callable
        ``rule(primals, tangents)`` returns the tangent of the result. `is_zero` is true
        of tangents that vanish.
    self_adjoint : bool, default=False
        Whether the function is linear in its last argument, an array, and its own
        transpose. A function that appears in rules with a tangent as its last argument
        must be.

    Returns
    -------
    callable
        A function of the same arguments.
    """
    function = full_precision(function)
    rule = full_precision(rule)
    p = Primitive(function.__name__.strip("_"))

    def call_flat(*arrays, tree):
        return function(*jax.tree.unflatten(tree, arrays))

    def infer_type(first, *others, tree):
        """Infer the type of the result.

        It varies over those axes of a `shard_map` over which the arguments vary.
        """
        args = (jax.ShapeDtypeStruct(a.shape, a.dtype) for a in (first, *others))
        out = jax.eval_shape(functools.partial(call_flat, tree=tree), *args)
        unsharded = PartitionSpec(*(None for _ in out.shape))
        return first.update(
            shape=out.shape,
            dtype=out.dtype,
            weak_type=False,
            sharding=first.sharding.update(spec=unsharded),
        )

    @functools.wraps(function)
    def bind(*args):
        arrays, tree = jax.tree.flatten(args)
        return p.bind(*match_varying_axes(arrays), tree=tree)

    def differentiate(primals, tangents, *, tree):
        primals = jax.tree.unflatten(tree, primals)
        tangents = jax.tree.unflatten(tree, tangents)
        return bind(*primals), rule(primals, tangents)

    def batch(arrays, axes, *, tree):
        size = next(
            x.shape[axis]
            for x, axis in zip(arrays, axes, strict=True)
            if axis is not None
        )

        def move_to_front(x, axis):
            if axis is None:
                return jnp.broadcast_to(x, (size, *x.shape))
            return jnp.moveaxis(x, axis, 0)

        batched = map(move_to_front, arrays, axes)
        return bind(*jax.tree.unflatten(tree, batched)), 0

    def transpose(cotangent, *arrays, tree):
        *others, _ = jax.tree.unflatten(tree, arrays)
        by_others = (None,) * (len(arrays) - 1)
        by_last = None if is_zero(cotangent) else bind(*others, cotangent)
        return (*by_others, by_last)

    p.def_impl(jax.jit(call_flat, static_argnames="tree"))
    p.def_abstract_eval(infer_type)
    mlir.register_lowering(p, mlir.lower_fun(call_flat, multiple_results=False))
    ad.primitive_jvps[p] = differentiate
    batching.primitive_batchers[p] = batch
    if self_adjoint:
        ad.primitive_transposes[p] = transpose
    return bind


def match_varying_axes(tree: Any) -> Any:
    """Let all arrays of a tree vary over the same axes of a `shard_map`."""
    union = frozenset().union(*map(_varying_axes, jax.tree.leaves(tree)))
    if not union:
        return tree

    def vary(x):
        missing = tuple(union - _varying_axes(x))
        return jax.lax.pcast(x, missing, to="varying") if missing else x

    return jax.tree.map(vary, tree)


def _varying_axes(x: Any) -> frozenset:
    """Return the axes of a `shard_map` over which an array varies."""
    kind = jax.typeof(x)
    # The attribute has another name since jax 0.12.
    return kind.vma if hasattr(kind, "vma") else kind.manual_axis_type.varying


def _last_order_rule(primals, tangents):
    raise NotImplementedError(
        "third derivatives of logm and of the divergences that use it are not "
        "implemented; differentiate twice at most"
    )


@functools.partial(primitive, rule=_last_order_rule)
def last_order(x: jax.Array, T: jax.Array) -> jax.Array:
    """Return x, which was computed from T, and refuse its derivative by T.

    It marks the order up to which derivatives are implemented.
    """
    return x
