"""Where arrays lie: on one device, on each of several, or spread over them."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

AXIS = "devices"


def all_devices() -> Mesh | None:
    """The devices of all processes in one row; None if there is only one."""
    devices = jax.devices()
    return Mesh(np.array(devices), (AXIS,)) if len(devices) > 1 else None


def sharding(mesh: Mesh, length: int | None = None, axis: int = 0) -> NamedSharding:
    """Spread along an axis of this length where it divides, else whole on each device."""
    spread = length is not None and length % mesh.size == 0
    return NamedSharding(mesh, PartitionSpec(*axis * (None,), *spread * (AXIS,)))


def placed(mesh: Mesh | None, tree, length: int | None = None):
    """The arrays of a tree on the device(s); every process must give the same numbers."""
    if mesh is None:
        return jax.tree.map(jnp.asarray, tree)
    return jax.tree.map(
        lambda x: jax.device_put(
            x if is_key(x) else np.asarray(x), sharding(mesh, length)
        ),
        tree,
    )


def local(mesh: Mesh | None, tree):
    """What lies on several devices, as ordinary arrays of this process."""
    if mesh is None:
        return tree
    return jax.tree.map(lambda x: x if is_key(x) else jnp.array(to_host(x)), tree)


def to_host(x) -> np.ndarray:
    if (
        isinstance(x, jax.Array)
        and not x.is_fully_addressable
        and not x.is_fully_replicated
    ):
        x = multihost_utils.process_allgather(x, tiled=True)
    return np.asarray(x)


def largest_of_processes(number: int) -> int:
    if jax.process_count() == 1:
        return number
    return int(np.max(multihost_utils.process_allgather(np.int32(number))))


def is_key(x) -> bool:
    return isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
