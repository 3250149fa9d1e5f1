"""What `MatrixMLP` and `JointMatrixMLP` share: the layers of two paths, and how they are made."""

from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from mmlp.kernels import Kernel, MercerSigmoid
from mmlp.linalg.checks import checked_size, checked_sizes
from mmlp.networks.layers import MatrixLayer, Network, VectorLayer
from mmlp.networks.outputs import Dense, Output, checked_output


class TwoPaths(Network):
    """A path of matrices beside a path of vectors; a kind says how they are joined."""

    joint: ClassVar[bool]  # a standard MLP is joined to them: see `JointMatrixMLP`

    matrices: tuple  # layers from the input to the output
    vectors: tuple[VectorLayer, ...]
    activation: Callable = eqx.field(static=True)

    def __init__(
        self,
        in_features: int,
        dim: int,
        hidden_dims: tuple[int, ...] = (20, 20, 20),
        out_features: int | None = None,
        hidden_features: tuple[int, ...] | None = None,
        *,
        kernel: Kernel = MercerSigmoid(),
        output: Output = Dense(),
        activation: Callable = jnp.tanh,
        key,
    ):
        name = type(self).__name__
        p = checked_size(in_features, f"{name}(in_features=...)")
        hidden = checked_sizes(hidden_dims, f"{name}(hidden_dims=...)")
        d = (*hidden, checked_size(dim, f"{name}(dim=...)"))
        r = self._widths(name, hidden, hidden_features, out_features)
        output = checked_output(output, name)
        key_matrices, key_vectors = jax.random.split(key, (2, len(d)))
        before = (p, *d)
        self.matrices = (
            *(
                MatrixLayer(before[i], size, Dense(kernel), key=key_matrices[i])
                for i, size in enumerate(hidden)
            ),
            output.layer(
                before[-2], d[-1], r=r[len(hidden) - 1] if self.joint else 0, key=key_matrices[-1]
            ),
        )
        read = (*hidden, hidden[-1]) if self.joint else d  # sizes of the H that the vectors read
        before = (p, *r) if self.joint else (*r[:1], *r)
        self.vectors = tuple(
            VectorLayer(before[i], read[i], size, joint=self.joint, key=key_vectors[i])
            for i, size in enumerate(r)
        )
        self.activation = activation

    def _widths(self, name: str, hidden, hidden_features, out_features) -> tuple[int, ...]:
        """The sizes r of the vector layers' results, from the input to the output."""
        if self.joint and not hidden:
            raise ValueError(
                f"`{name}(hidden_dims=...)` must name at least one hidden layer, got ()."
            )
        if out_features is None and not self.joint:
            if hidden_features is not None:
                raise ValueError(
                    f"`{name}(hidden_features=...)` are widths of the vector path and need "
                    f"`out_features`, got hidden_features={hidden_features!r} without it."
                )
            return ()
        r = hidden if hidden_features is None else hidden_features
        r = checked_sizes(r, f"{name}(hidden_features=...)")
        if len(r) != len(hidden):
            raise ValueError(
                f"`{name}(hidden_features=...)` must have one width for each of the {len(hidden)} "
                f"hidden_dims, got {r}."
            )
        last = () if out_features is None else (out_features,)
        return (*r, *(checked_size(size, f"{name}(out_features=...)") for size in last))

    @property
    def in_features(self) -> int:
        return self.matrices[0].in_features

    @property
    def dim(self) -> int:
        return self.matrices[-1].dim

    @property
    def out_features(self) -> int | None:
        """The size of the vector output; a path of hidden vectors alone has none."""
        return len(self.vectors[-1].b) if len(self.vectors) == len(self.matrices) else None
