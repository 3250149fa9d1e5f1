"""The networks of `MultivariateRegressor`: MLPs for means; heads about zero for covariances."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from mmlp.heads import GaussianHead, Head, PowerExponentialHead
from mmlp.initialisation import calibrate
from mmlp.kernels import Linear
from mmlp.networks import CholeskyMLP, Dense, MatrixMLP, Perceptron
from mmlp.registry import register
from mmlp.spd import SPD, Gram

FAMILIES = {"gaussian": GaussianHead, "power_exponential": PowerExponentialHead}
# How far, in standard deviations given the other targets, rounding may move a mean: half a unit in
# the last place, h. With that of the target y it costs a Gaussian h^2 / 3 of its mean log density
# for each target on average: at 0.05 this is 0.0008, and at the very worst 0.005.
ROUNDING = 0.05
FLOOR = 0.5  # of the output's kernel: a row unlike the others must not get a singular covariance


@register
class Separated(eqx.Module):
    """x -> ((log eta, ...), Omega) for the covariance D A D: scales D by an MLP, A by a matrix MLP.

        eta Omega = D A D,  D = diag(exp(v)),  tr Omega = tr A = 1   (Barnard, McCulloch, Meng 2000)

    What the MLP puts out beyond the d numbers v is passed on.
    """

    scales: Perceptron
    shape: Any  # a `MatrixMLP` without a vector

    @property
    def out_features(self) -> int:
        return len(self.scales.b[-1]) - self.shape.dim + 1

    def __call__(self, x: Array) -> tuple[Array, SPD]:
        vector, d = self.scales(x), self.shape.dim
        T = self.shape(x).factor * jnp.exp(vector[:d])
        log_eta = jnp.log(jnp.sum(T**2))
        return jnp.concatenate([log_eta[None], vector[d:]]), Gram.trace_one(T)


@register
class Centred(eqx.Module):
    """A network whose head has mean zero: x -> ((0, vector), SPD)."""

    network: Any  # `Separated`, or a `CholeskyMLP`
    dim: int = eqx.field(static=True)

    @property
    def out_features(self) -> int:
        return self.dim + self.network.out_features

    def __call__(self, x: Array) -> tuple[Array, SPD]:
        vector, A = self.network(x)
        return jnp.concatenate([jnp.zeros(self.dim, vector.dtype), vector]), A


@dataclasses.dataclass(frozen=True)
class Mean:
    """Builds an MLP."""

    sizes: tuple[int, ...]

    def __call__(self, key, X):
        return calibrate(Perceptron(self.sizes, jax.nn.gelu, key=key), X, key=key)


@dataclasses.dataclass(frozen=True)
class Covariance:
    """Builds a head about zero."""

    head: type[Head]
    network: str
    features: int
    dim: int
    hidden_dims: tuple[int, ...]
    hidden_features: tuple[int, ...]

    def __call__(self, key, X):
        head, keys, p, d = self.head, jax.random.split(key, 3), self.features, self.dim
        if self.network == "cholesky":
            network = CholeskyMLP(p, d, self.hidden_features, head.extra, key=keys[0])
            network = calibrate(network, X, key=keys[2])
        else:
            sizes = (p, *self.hidden_features, d + head.extra - 1)
            output = Dense(Linear(floor=FLOOR))
            shape = MatrixMLP(p, d, self.hidden_dims, output=output, key=keys[1])
            parts = (Perceptron(sizes, key=keys[0]), shape)
            network = Separated(*(calibrate(part, X, key=keys[2]) for part in parts))
        return head(Centred(network, d))


def check_precision(call: str, dtype, mean: np.ndarray, R: np.ndarray) -> None:
    """Refuse means (n, d) and covariances R'R that the dtype cannot hold, or rounds too much."""
    limits, eta = np.finfo(dtype), np.sum(R**2, axis=(-2, -1))
    diagonal = np.abs(R.diagonal(axis1=-2, axis2=-1)) / np.sqrt(eta)[:, None]
    smallest = min(eta.min(), diagonal.min())
    largest = max(eta.max(), diagonal.max(), np.abs(mean).max())
    if not (limits.tiny <= smallest and largest <= limits.max):
        raise ValueError(
            f"`{call}` needs numbers (means, scales) from {smallest:.3g} to {largest:.3g}, which "
            f'{limits.dtype} cannot hold; fit targets in other units, or use dtype="float64".'
        )
    half = np.spacing(np.abs(mean).astype(dtype)).astype(np.float64) / 2
    # 1 / deviation^2 is the diagonal of the inverse of R'R
    share = half * np.linalg.norm(np.linalg.inv(R), axis=-1)
    row, target = np.unravel_index(np.argmax(share), share.shape)
    if share[row, target] > ROUNDING:
        better = ', fit with dtype="float64"' if limits.dtype == np.float32 else ""
        raise ValueError(
            f"`{call}`: {limits.dtype} rounds the mean of target {target} in row {row} (from 0), "
            f"{mean[row, target]:.6g}, by up to {share[row, target]:.2g} of its standard "
            "deviations given the other targets; subtract an offset from the targets before "
            f"`fit`{better}, or use `predict`, `predict_covariance` and `log_density`, which lose "
            "no digits."
        )
