"""The networks with matrix output that the regressors train."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from mmlp.networks import CholeskyMLP, Dense, JointMatrixMLP, LowRank, Perceptron
from mmlp.networks.calibration import calibrate
from mmlp.networks.heads import Head
from mmlp.networks.kernels import Linear
from mmlp.registry import register
from mmlp.spd import SPD, Gram

# Floor of the output's kernel: a row unlike all others must not get a singular
# covariance.
OUTPUT_KERNEL_FLOOR = 0.5


@register(name="Separated")
class SeparationNetwork(eqx.Module):
    """x -> ((log eta, ...), Omega), with scales and correlations by two networks.

        eta Omega = D A D,  D = diag(exp(v)),  tr Omega = tr A = 1

    This is the separation strategy of Barnard, McCulloch and Meng (2000). An MLP gives
    the d numbers v, a joint network the matrix A. What the MLP gives beyond v is passed
    on.
    """

    scales: Perceptron
    shape: Any  # a `JointMatrixMLP` without a vector

    @property
    def out_features(self) -> int:
        """The length of the vector."""
        return len(self.scales.b[-1]) - self.shape.dim + 1

    def __call__(self, x: Array) -> tuple[Array, SPD]:
        vector = self.scales(x)
        d = self.shape.dim
        T = self.shape(x).factor * jnp.exp(vector[:d])
        log_eta = jnp.log(jnp.sum(T**2))
        return jnp.concatenate([log_eta[None], vector[d:]]), Gram.trace_one(T)


@register(name="Centred")
class ZeroMeanNetwork(eqx.Module):
    """x -> ((0, vector), SPD): under a head, a distribution with mean zero."""

    network: Any  # x -> (vector, SPD)
    dim: int = eqx.field(static=True)

    @property
    def out_features(self) -> int:
        """The length of the vector, zeros included."""
        return self.dim + self.network.out_features

    def __call__(self, x: Array) -> tuple[Array, SPD]:
        vector, A = self.network(x)
        return jnp.concatenate([jnp.zeros(self.dim, vector.dtype), vector]), A


@dataclasses.dataclass(frozen=True)
class MatrixNetworkSizes:
    """The architecture and the sizes of a network x -> (vector, SPD matrix).

    Parameters
    ----------
    architecture : "joint" or "cholesky"
        A joint network with a matrix path and a vector path, or one MLP that puts out a
        vector and a triangle.
    n_inputs : int
    dim : int
        Size d of the matrices (d, d).
    hidden_dims : tuple of int
        Sizes of the hidden matrices of a joint network.
    hidden_features : tuple of int
        Widths of the hidden vectors.
    """

    architecture: str
    n_inputs: int
    dim: int
    hidden_dims: tuple[int, ...]
    hidden_features: tuple[int, ...]

    @property
    def is_cholesky(self) -> bool:
        """Whether the network is one MLP.

        A joint network without hidden layers is a linear map to a vector and a
        triangle, and so such an MLP.
        """
        return self.architecture == "cholesky" or not self.hidden_dims

    def build(self, n_vector: int | None, output: Any = None, *, key: Array) -> Any:
        """Return a network whose vector has `n_vector` entries, or that has none.

        `output` maps to the matrix; None is the dense one of the architecture.
        """
        if self.is_cholesky:
            options = {} if output is None else {"output": output}
            return CholeskyMLP(
                self.n_inputs,
                self.dim,
                self.hidden_features,
                n_vector,
                key=key,
                **options,
            )
        return JointMatrixMLP(
            self.n_inputs,
            self.dim,
            self.hidden_dims,
            n_vector,
            self.hidden_features,
            output=Dense() if output is None else output,
            key=key,
        )


@dataclasses.dataclass(frozen=True)
class FullCovarianceBuilder:
    """Build a head with mean zero and full covariances."""

    head: type[Head]
    sizes: MatrixNetworkSizes

    def __call__(self, key: Array, X: Array) -> Head:
        scales_key, shape_key, calibration_key = jax.random.split(key, 3)
        if self.sizes.is_cholesky:
            network = self.sizes.build(self.head.extra, key=scales_key)
            network = calibrate(network, X, key=calibration_key)
        else:
            output = Dense(Linear(floor=OUTPUT_KERNEL_FLOOR))
            shape = self.sizes.build(None, output, key=shape_key)
            n_scales = self.sizes.dim + self.head.extra - 1
            scales = Perceptron(
                (self.sizes.n_inputs, *self.sizes.hidden_features, n_scales),
                key=scales_key,
            )
            network = SeparationNetwork(
                scales=calibrate(scales, X, key=calibration_key),
                shape=calibrate(shape, X, key=calibration_key),
            )
        return self.head(ZeroMeanNetwork(network, self.sizes.dim))


@dataclasses.dataclass(frozen=True)
class LowRankCovarianceBuilder:
    """Build a head with mean zero and covariances diag(s^2) + U'U.

    The loadings U start at principal directions of the targets.
    """

    head: type[Head]
    sizes: MatrixNetworkSizes
    rank: int

    def __call__(self, key: Array, X: Array, targets: Array) -> Head:
        weights_key, calibration_key = jax.random.split(key)
        network = self.sizes.build(self.head.extra, LowRank(self.rank), key=weights_key)
        network = calibrate(network, X, key=calibration_key, targets=targets)
        return self.head(ZeroMeanNetwork(network, self.sizes.dim))


@dataclasses.dataclass(frozen=True)
class MatrixRegressionBuilder:
    """Build a network x -> (log trace, SPD matrix of trace one)."""

    sizes: MatrixNetworkSizes

    def __call__(self, key: Array, X: Array) -> Any:
        weights_key, calibration_key = jax.random.split(key)
        network = self.sizes.build(1, key=weights_key)
        return calibrate(network, X, key=calibration_key)
