"""Where arrays lie: on one device, replicated on several, or spread over them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

AXIS_NAME = "devices"


def make_mesh() -> Mesh | None:
    """Return the devices of all processes in one row; None if there is only one."""
    devices = jax.devices()
    if len(devices) == 1:
        return None
    return Mesh(np.array(devices), (AXIS_NAME,))


def make_sharding(
    mesh: Mesh, length: int | None = None, axis: int = 0
) -> NamedSharding:
    """Return how arrays lie on the devices.

    Parameters
    ----------
    mesh : Mesh
    length : int, optional
        Length of the axis to spread. If it is left out or not a multiple of the number
        of devices, arrays are replicated.
    axis : int, default=0
        The axis to spread.
    """
    names: list[str | None] = []
    if length is not None and length % mesh.size == 0:
        names = [AXIS_NAME]
    return NamedSharding(mesh, PartitionSpec(*axis * (None,), *names))


def place(mesh: Mesh | None, tree: Any, length: int | None = None) -> Any:
    """Put the arrays of a tree on the devices; all processes give the same numbers."""
    if mesh is None:
        return jax.tree.map(jnp.asarray, tree)
    sharding = make_sharding(mesh, length)

    def place_leaf(x: Any) -> jax.Array:
        return jax.device_put(x if is_key(x) else np.asarray(x), sharding)

    return jax.tree.map(place_leaf, tree)


def collect(mesh: Mesh | None, tree: Any) -> Any:
    """Return arrays that lie on several devices as ordinary arrays of this process."""
    if mesh is None:
        return tree
    return jax.tree.map(lambda x: x if is_key(x) else jnp.array(to_host(x)), tree)


def to_host(x: Any) -> np.ndarray:
    """Return a NumPy array, even if parts of it are in other processes."""
    if isinstance(x, jax.Array):
        is_here = x.is_fully_addressable or x.is_fully_replicated
        if not is_here:
            x = multihost_utils.process_allgather(x, tiled=True)
    return np.asarray(x)


def max_over_processes(number: int) -> int:
    """Return the maximum of a number over all processes."""
    if jax.process_count() == 1:
        return number
    return int(np.max(multihost_utils.process_allgather(np.int32(number))))


def is_key(x: Any) -> bool:
    """Whether `x` is an array of random keys, which NumPy cannot hold."""
    return isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
