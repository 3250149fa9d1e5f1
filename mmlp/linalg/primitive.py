"""Functions with a derivative rule of their own that every JAX transformation keeps.

`jax.custom_jvp` would be the customary tool, but partial evaluation, and so `lax.scan` in reverse
mode, inlines the body of such a function and forgets its rule. Where the body treats a
decomposition as a constant, second derivatives would then be wrong in silence. A primitive keeps
its rule.
"""

import functools

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jax.sharding import PartitionSpec


def full_precision(function):
    """Matrix products of `function` in full precision: accelerators round float32 by default."""

    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        with jax.default_matmul_precision("highest"):
            return function(*args, **kwargs)

    return wrapped


def is_zero(tangent) -> bool:
    return isinstance(tangent, ad.Zero)


def primitive(function, rule, transpose=None):
    """`function` of arrays that share their leading dimensions, to one array, with a `rule`.

    rule(primals, tangents) gives the tangent of the result; of tangents that are zero, `is_zero` is
    true. A function that is linear in its last argument, and appears in rules with that argument a
    tangent, needs transpose(cotangent, *other_arguments) as well.
    """
    function, rule = full_precision(function), full_precision(rule)
    p = Primitive(function.__name__.strip("_").removesuffix("_value"))

    def abstract(first, *others):
        """The result's type, which varies over the axes of a `shard_map` that the arguments do."""
        args = (jax.ShapeDtypeStruct(a.shape, a.dtype) for a in (first, *others))
        out = jax.eval_shape(function, *args)
        whole = first.sharding.update(spec=PartitionSpec(*(None for _ in out.shape)))
        return first.update(shape=out.shape, dtype=out.dtype, weak_type=False, sharding=whole)

    def bound(*args):
        return p.bind(*varying_alike(args))

    def jvp(primals, tangents):
        return bound(*primals), rule(primals, tangents)

    def batch(args, axes):
        size = next(x.shape[axis] for x, axis in zip(args, axes, strict=True) if axis is not None)

        def in_front(x, axis):
            return (
                jnp.broadcast_to(x, (size, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
            )

        return bound(*map(in_front, args, axes)), 0

    p.def_impl(jax.jit(function))
    p.def_abstract_eval(abstract)
    mlir.register_lowering(p, mlir.lower_fun(function, multiple_results=False))
    ad.primitive_jvps[p] = jvp
    batching.primitive_batchers[p] = batch
    if transpose is not None:

        def transposed(cotangent, *args):
            nothing = (None,) * (len(args) - 1)
            return (*nothing, None if is_zero(cotangent) else transpose(cotangent, *args[:-1]))

        ad.primitive_transposes[p] = transposed
    return functools.wraps(function)(bound)


def varying_alike(tree):
    """The arrays of a tree, all varying over the axes of a `shard_map` that one varies over."""
    union = frozenset().union(*map(_varying, jax.tree.leaves(tree)))

    def vary(x):
        missing = tuple(union - _varying(x))
        return jax.lax.pcast(x, missing, to="varying") if missing else x

    return jax.tree.map(vary, tree) if union else tree


def _varying(x) -> frozenset:
    kind = jax.typeof(x)
    return (
        kind.vma if hasattr(kind, "vma") else kind.manual_axis_type.varying
    )  # before and since jax 0.12


def _last_order_value(x, T):
    return x


def _last_order_rule(primals, tangents):
    raise NotImplementedError(
        "third derivatives of logm and of the divergences that use it are not implemented; "
        "differentiate twice at most"
    )


# (x, T) -> x, where x was computed from T: the point up to which derivatives by T are implemented
last_order = primitive(_last_order_value, _last_order_rule)
