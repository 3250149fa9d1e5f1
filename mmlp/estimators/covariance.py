"""The networks of `MultivariateRegressor`, and what a form of its covariances has to provide."""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from mmlp.errors import ArgumentError, CallError
from mmlp.estimators.chunks import as_one, predictions
from mmlp.estimators.cross_fitting import compile_folds
from mmlp.networks import CholeskyMLP, Dense, JointMatrixMLP, Perceptron
from mmlp.networks.calibration import calibrate
from mmlp.networks.heads import GaussianHead, Head, PowerExponentialHead, StudentTHead
from mmlp.networks.kernels import Linear
from mmlp.registry import register
from mmlp.spd import SPD, Gram

FAMILIES = {
    "gaussian": GaussianHead,
    "power_exponential": PowerExponentialHead,
    "student_t": StudentTHead,
}
# How far, in standard deviations given the other targets, rounding may move a mean: half a unit in
# the last place, h. With that of the target y it costs a Gaussian h^2 / 3 of its mean log density
# for each target on average: at 0.05 this is 0.0008, and at the very worst 0.005.
ROUNDING = 0.05
FEW = 30  # targets up to which covariances are full by default
FLOOR = 0.5  # of the output's kernel: a row unlike the others must not get a singular covariance


@register
class Separated(eqx.Module):
    """x -> ((log eta, ...), Omega) for the covariance D A D: scales D by an MLP, A by a joint one.

        eta Omega = D A D,  D = diag(exp(v)),  tr Omega = tr A = 1   (Barnard, McCulloch, Meng 2000)

    What the MLP puts out beyond the d numbers v is passed on.
    """

    scales: Perceptron
    shape: Any  # a `JointMatrixMLP` without a vector

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

    network: Any  # x -> (vector, SPD)
    dim: int = eqx.field(static=True)

    @property
    def out_features(self) -> int:
        return self.dim + self.network.out_features

    def __call__(self, x: Array) -> tuple[Array, SPD]:
        vector, A = self.network(x)
        return jnp.concatenate([jnp.zeros(self.dim, vector.dtype), vector]), A


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
        if self.network == "cholesky" or not self.hidden_dims:
            network = CholeskyMLP(p, d, self.hidden_features, head.extra, key=keys[0])
            network = calibrate(network, X, key=keys[2])
        else:
            sizes, widths = (
                (p, *self.hidden_features, d + head.extra - 1),
                self.hidden_features,
            )
            options = {"output": Dense(Linear(floor=FLOOR)), "key": keys[1]}
            shape = JointMatrixMLP(p, d, self.hidden_dims, None, widths, **options)
            parts = (Perceptron(sizes, key=keys[0]), shape)
            network = Separated(*(calibrate(part, X, key=keys[2]) for part in parts))
        return head(Centred(network, d))


def minus_log_density(model, key, t, x, e):
    return -model(x).log_prob(e)


class Form(abc.ABC):
    """A form of covariances: how `MultivariateRegressor` learns, corrects and predicts them.

    It is stateless. What is fitted are `shape_`, by which residuals are made standard, of total
    variance one, `contrast_` and `gain_`, by which held residuals correct what was learnt. The
    function `learnt` gives the parts of one row's covariance in standard units, then the tail.
    """

    together: ClassVar[bool]  # whether `learnt` takes all networks at once, or one

    @abc.abstractmethod
    def shape(self, residuals: np.ndarray, weight: np.ndarray) -> np.ndarray: ...

    @abc.abstractmethod
    def standard(self, shape: np.ndarray, residuals: np.ndarray) -> np.ndarray: ...

    @abc.abstractmethod
    def builder(self, regressor, p: int, e: np.ndarray, weight) -> tuple[Callable, Any]:
        """What makes a network, and the rows of e that it starts from, if it needs any."""

    @abc.abstractmethod
    def corrections(
        self, family, models, inputs, e, apart, weight, parts
    ) -> tuple[Any, float]:
        """The contrast and the gain."""

    def stack(self, networks):
        """As `learnt` takes them."""
        return as_one(networks) if self.together else networks

    def compile(self, regressor, x, z, weight, parts, **how) -> None:
        """Compile what learns from rows like these: those of residuals are not known yet."""
        if not self.together:  # or the residuals decide on the network
            build, start = self.builder(regressor, x.shape[1], z, weight)
            data = (x, np.zeros_like(z))
            models = compile_folds(
                build, minus_log_density, data, weight, parts, start=start, **how
            )
            predictions(self.learnt, models, x.astype(regressor.dtype))

    @staticmethod
    @abc.abstractmethod
    def learnt(model, x) -> tuple: ...

    @abc.abstractmethod
    def assembled(
        self, learnt, shape, contrast, gain, family
    ) -> tuple[Any, list[np.ndarray]]:
        """V of the standardised targets, as a batch in float64, and the tail of the family."""

    @abc.abstractmethod
    def results(self, *, text: bool) -> dict[str, Callable]:
        """What is told of V, by name: functions of it; with `text` those for a table of text."""

    @abc.abstractmethod
    def check(self, shape, contrast, d: int) -> tuple[tuple, ...]:
        """Refuse numbers, of a file, that cannot be; gives the shapes of what `learnt` gives."""


def form_for(estimator, d: int) -> str:
    """The form of covariances of d columns, after the arguments that say it are checked."""
    estimator._one_of("covariance", ("auto", "full", "low_rank"))
    rank, form = estimator.rank, estimator.covariance
    if rank is not None:
        estimator._size("rank")
        if form == "full":
            name = type(estimator).__name__
            raise ArgumentError(
                "is the number of loadings of a low-rank covariance, but "
                f'covariance="full", got {rank!r}',
                call=name,
                argument="rank",
                remedy='use covariance="low_rank", or leave out rank',
            )
        if rank > d:
            name = type(estimator).__name__
            raise ArgumentError(
                f"must be at most {d}, the number of columns that vary, got {rank!r}: so "
                "many loadings hold every covariance",
                call=name,
                argument="rank",
                remedy="use a smaller rank, or leave it out",
            )
    thin = rank is not None or d > FEW
    return ("low_rank" if thin else "full") if form == "auto" else form


def check_range(
    call: str, dtype, eta: np.ndarray, diagonal: np.ndarray, mean: np.ndarray
) -> None:
    """Refuse means and covariances (traces eta, roots of the rest) that the dtype cannot hold."""
    limits = np.finfo(dtype)
    smallest = min(eta.min(), diagonal.min())
    largest = max(eta.max(), diagonal.max(), np.abs(mean).max())
    if not (limits.tiny <= smallest and largest <= limits.max):
        raise CallError(
            f"means and scales range from {smallest:.3g} to {largest:.3g}, which "
            f"{limits.dtype} cannot hold",
            call=call,
            remedy="fit targets in other units",
            python_remedy='fit targets in other units, or use dtype="float64"',
        )


def check_rounding(call: str, dtype, mean: np.ndarray, precision: np.ndarray) -> None:
    """Refuse means (n, d) that the dtype rounds too much: `precision` is 1 / deviation."""
    limits = np.finfo(dtype)
    half = np.spacing(np.abs(mean).astype(dtype)).astype(np.float64) / 2
    share = half * precision
    row, target = np.unravel_index(np.argmax(share), share.shape)
    if share[row, target] > ROUNDING:
        better = ', fit with dtype="float64"' if limits.dtype == np.float32 else ""
        raise CallError(
            f"{limits.dtype} rounds the mean of target {target} in row {row} (from 0), "
            f"{mean[row, target]:.6g}, by up to {share[row, target]:.2g} of its standard "
            "deviations given the other targets",
            call=call,
            remedy="subtract an offset from the targets before fitting",
            python_remedy="subtract an offset from the targets before "
            f"`fit`{better}, or use `predict`, `predict_covariance` and `log_density`, "
            "which lose no digits",
        )
