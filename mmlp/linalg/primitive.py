"""Functions with a derivative rule of their own that every JAX transformation keeps.

`jax.custom_jvp` would be the customary tool, but partial evaluation, and so `lax.scan` in reverse
mode, inlines the body of such a function and forgets its rule. Where the body treats a
decomposition as a constant, second derivatives would then be wrong in silence. A primitive keeps
its rule.
"""

import functools
from collections.abc import Callable

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


def primitive(function, rule, self_adjoint: bool = False) -> Callable[..., jax.Array]:
    """`function` of arrays, or tuples of them, to one array, with a derivative `rule`.

    The arrays share their leading dimensions. rule(primals, tangents) gives the tangent of the
    result; of tangents that are zero, `is_zero` is true. A function that is linear in its last
    argument, an array, and appears in rules with that argument a tangent, must be `self_adjoint`:
    its own transpose.
    """
    function, rule = full_precision(function), full_precision(rule)
    p = Primitive(function.__name__.strip("_"))

    def flat(*arrays, tree):
        return function(*jax.tree.unflatten(tree, arrays))

    def abstract(first, *others, tree):
        """The result's type, which varies over the axes of a `shard_map` that the arguments do."""
        args = (jax.ShapeDtypeStruct(a.shape, a.dtype) for a in (first, *others))
        out = jax.eval_shape(functools.partial(flat, tree=tree), *args)
        whole = first.sharding.update(spec=PartitionSpec(*(None for _ in out.shape)))
        return first.update(
            shape=out.shape, dtype=out.dtype, weak_type=False, sharding=whole
        )

    @functools.wraps(function)
    def bound(*args):
        arrays, tree = jax.tree.flatten(args)
        return p.bind(*varying_alike(arrays), tree=tree)

    def jvp(primals, tangents, *, tree):
        primals, tangents = (
            jax.tree.unflatten(tree, arrays) for arrays in (primals, tangents)
        )
        return bound(*primals), rule(primals, tangents)

    def batch(arrays, axes, *, tree):
        size = next(
            x.shape[i] for x, i in zip(arrays, axes, strict=True) if i is not None
        )

        def in_front(x, i):
            return (
                jnp.broadcast_to(x, (size, *x.shape))
                if i is None
                else jnp.moveaxis(x, i, 0)
            )

        return bound(*jax.tree.unflatten(tree, map(in_front, arrays, axes))), 0

    def transposed(cotangent, *arrays, tree):
        *others, _ = jax.tree.unflatten(tree, arrays)
        nothing = (None,) * (len(arrays) - 1)
        return (*nothing, None if is_zero(cotangent) else bound(*others, cotangent))

    p.def_impl(jax.jit(flat, static_argnames="tree"))
    p.def_abstract_eval(abstract)
    mlir.register_lowering(p, mlir.lower_fun(flat, multiple_results=False))
    ad.primitive_jvps[p], batching.primitive_batchers[p] = jvp, batch
    if self_adjoint:
        ad.primitive_transposes[p] = transposed
    return bound


def varying_alike(tree):
    """The arrays of a tree, all varying over the axes of a `shard_map` that one varies over."""
    union = frozenset().union(*map(_varying, jax.tree.leaves(tree)))

    def vary(x):
        missing = tuple(union - _varying(x))
        return jax.lax.pcast(x, missing, to="varying") if missing else x

    return jax.tree.map(vary, tree) if union else tree


def _varying(x) -> frozenset:
    kind = jax.typeof(x)  # before jax 0.12, and since
    return kind.vma if hasattr(kind, "vma") else kind.manual_axis_type.varying


def _last_order_rule(primals, tangents):
    raise NotImplementedError(
        "third derivatives of logm and of the divergences that use it are not implemented; "
        "differentiate twice at most"
    )


@functools.partial(primitive, rule=_last_order_rule)
def last_order(x, T):
    """x, which was computed from T: the point up to which derivatives by T are implemented."""
    return x
