"""Whether the networks that were read from a file can be used: their parts fit each other."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from mmlp import heads, networks, vae

KINDS = (
    *(networks.MatrixMLP, networks.ShallowMatrixMLP, networks.CholeskyMLP, networks.Perceptron),
    *(heads.GaussianHead, heads.PowerExponentialHead, vae.VAE),
)
AXES = 2  # of models, that a network made by `jax.vmap` may have in front


def misfit(tree) -> str | None:
    """The name of a network in `tree` whose parts do not fit each other; nothing is computed.

    A network without some of its weights, as `eqx.partition` makes, is not for use and passes.
    """
    for node in _networks(tree):
        if _whole(node) and not _usable(node):
            return type(node).__name__
    return None


def _networks(tree) -> list:
    leaves = jax.tree.leaves(tree, is_leaf=lambda x: isinstance(x, KINDS))
    return [leaf for leaf in leaves if isinstance(leaf, KINDS)]


def _usable(model) -> bool:
    function = _use
    for _ in range(AXES + 1):
        try:
            eqx.filter_eval_shape(function, model)
            return True
        except Exception:  # of any kind: the parts may be anything
            function = eqx.filter_vmap(function)
    return False


def _use(model):
    """What it gives for one input of its size, or if it knows no size what its parts give."""
    if model.in_features is None:
        parts = [getattr(model, name) for name in model.__dataclass_fields__]
        return [_use(part) for part in _networks(parts)]
    weights = jax.tree.leaves(eqx.filter(model, eqx.is_array))
    x = jnp.ones(model.in_features, jnp.result_type(*weights))
    return model.terms(x, jax.random.key(0)) if isinstance(model, vae.VAE) else model(x)


def _whole(node) -> bool:
    """All weights that its class declares are there, as numbers of single or double precision."""
    if isinstance(node, tuple):
        return all(map(_whole, node))
    if not isinstance(node, eqx.Module):
        return True
    for field in getattr(node, "__dataclass_fields__", {}).values():
        value = getattr(node, field.name)
        if field.type in (Array, tuple[Array, ...]):
            arrays = value if isinstance(value, tuple) else (value,)
            if not all(isinstance(x, Array) and x.dtype in ("float32", "float64") for x in arrays):
                return False
        elif not _whole(value):
            return False
    return True
