"""Covariances diag(s^2) + U'U, of `MultivariateRegressor`: for many targets.

Nothing here has d^2 numbers. With P = U / s and the eigenvalues w of PP', which has the size of the
rank, determinants and Mahalanobis distances of a diag(s^2) + b U'U are sums over w for all a, b.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.optimize import minimize

from mmlp.estimators import covariance_calibration, model_files
from mmlp.estimators.chunks import PIECE, each, only, predictions
from mmlp.estimators.covariance import (
    FAMILIES,
    Centred,
    Form,
    check_range,
    check_rounding,
)
from mmlp.estimators.cross_fitting import Part
from mmlp.estimators.target_columns import TargetColumns
from mmlp.networks import CholeskyMLP, JointMatrixMLP, LowRank
from mmlp.networks.calibration import calibrate
from mmlp.networks.heads import Head
from mmlp.spd import DiagonalGram, LowRankGram

MOST = 64  # the highest rank that is chosen
START = 1024  # residuals that loadings start at the principal directions of


class Thin(NamedTuple):
    """V = diag(scale^2) + U'U for scale (n, d) and U (n, m, d)."""

    scale: np.ndarray
    U: np.ndarray

    def in_units(self, scale: np.ndarray) -> "Thin":
        return Thin(self.scale * scale, self.U * scale)

    def among(self, columns: TargetColumns) -> "Thin":
        """Return those of all targets: zero in the rows and columns of constant ones."""
        return Thin(columns.with_zeros(self.scale), columns.with_zeros(self.U))

    def dense(self, columns) -> np.ndarray:
        scale, U = self.scale[..., columns], self.U[..., columns]
        return U.mT @ U + np.eye(scale.shape[-1]) * (scale**2)[..., None]

    def std(self) -> np.ndarray:
        return np.sqrt(self.scale**2 + np.sum(self.U**2, axis=-2))

    def value(self, call: str, dtype, mean: np.ndarray) -> LowRankGram:
        """In the dtype, if it holds the covariances, and the means (n, d) finely enough."""
        eta = np.sum(self.scale**2, axis=-1) + np.sum(self.U**2, axis=(-2, -1))
        check_range(call, dtype, eta, self.scale / np.sqrt(eta)[:, None], mean)
        check_rounding(
            call, dtype, mean, 1 / self.scale
        )  # given the others, a deviation is larger
        return LowRankGram(jnp.asarray(self.scale, dtype), jnp.asarray(self.U, dtype))


@dataclasses.dataclass(frozen=True)
class Build:
    """Builds a head about zero whose loadings start at principal directions of targets."""

    head: type[Head]
    network: str
    features: int
    dim: int
    hidden_dims: tuple[int, ...]
    hidden_features: tuple[int, ...]
    rank: int

    def __call__(self, key, X: Array, targets: Array):
        head, keys, sizes = self.head, jax.random.split(key), (self.features, self.dim)
        output = LowRank(self.rank)
        if self.network == "cholesky" or not self.hidden_dims:
            options = {"output": output, "key": keys[0]}
            network = CholeskyMLP(*sizes, self.hidden_features, head.extra, **options)
        else:
            widths = (self.hidden_dims, head.extra, self.hidden_features)
            network = JointMatrixMLP(*sizes, *widths, output=output, key=keys[0])
        return head(
            Centred(calibrate(network, X, key=keys[1], targets=targets), self.dim)
        )


class Thinned(Form):
    """Averaged by geometric means of s; of the U of all networks the main directions are kept.

    `shape_` (d,) are scales of the residuals, `contrast_` is (a, b), by which diag(s^2) and U'U are
    multiplied so that held residuals are most likely.
    """

    together = True

    def shape(self, residuals: np.ndarray, weight: np.ndarray) -> np.ndarray:
        scale = np.sqrt(
            np.average(residuals**2, axis=0, weights=weight) * residuals.shape[1]
        )
        return np.where(scale == 0, 1.0, scale)

    def standard(self, shape: np.ndarray, residuals: np.ndarray) -> np.ndarray:
        return residuals / shape

    def builder(
        self, regressor, p: int, e: np.ndarray, weight
    ) -> tuple[Callable, np.ndarray]:
        widths = tuple(regressor.hidden_dims), tuple(regressor.hidden_features)
        sizes = (p, e.shape[1], *widths, chosen_rank(regressor._asked_rank, e, weight))
        return Build(FAMILIES[regressor.family], regressor.network, *sizes), evenly(e)

    def corrections(self, family, models, inputs, e, apart, weight, parts):
        held = Held.of(models, inputs, e, apart, parts)
        contrast = held.contrast(family, weight)
        whole, other = (
            float(np.average(x, weights=weight)) for x in held.squares(*contrast)
        )
        return contrast, covariance_calibration.gain_of(whole, other, 2 * len(parts))

    @staticmethod
    def learnt(models, x):
        """s, the squares of what is left of U, the main m directions of U, and the tail."""
        scale, U, *tail = eqx.filter_vmap(_parts, in_axes=(eqx.if_array(0), None))(
            models, x
        )
        return *averaged(scale, U), *models.distribution.average_tails(*tail, axis=0)

    def assembled(
        self, learnt, shape, contrast, gain, family
    ) -> tuple[Thin, list[np.ndarray]]:
        scale, left, U, *tail = (x[:, 0] for x in learnt)
        a, b = gain * contrast
        scale = np.sqrt(a * scale.astype(np.float64) ** 2 + b * left)
        return Thin(scale, np.sqrt(b) * U).in_units(shape), tail

    def results(self, *, text: bool) -> dict[str, Callable]:
        parts = {"scale": lambda V: V.scale, "loadings": lambda V: V.U}
        return {"std": Thin.std} | ({} if text else parts)

    def check(self, shape, contrast, d: int) -> tuple[tuple, ...]:
        for array, name, size in ((shape, "shape_", d), (contrast, "contrast_", 2)):
            if not model_files.is_finite(array, (size,)) or not (array > 0).all():
                raise ValueError(f"its {name} is not {size} positive numbers")
        return ((d,), (d,), (None, d))


def averaged(scale: Array, U: Array) -> tuple[Array, Array, Array]:
    """Of scales (k, d) and loadings (k, m, d): s, the squares of what is left of U, m main ones."""
    count, m, d = U.shape
    scale, U = jnp.exp(jnp.mean(jnp.log(scale), axis=0)), U.reshape(-1, d) / count**0.5
    turn = jnp.linalg.eigh((U / scale) @ (U / scale).T)[1]  # ascending
    U = turn.T @ U
    return scale, jnp.sum(U[:-m] ** 2, axis=0), U[-m:]


def _parts(model, x):
    p = model(x)
    V = p.covariance
    return V.scale, V.U, *p.tail


def evenly(rows: np.ndarray) -> np.ndarray:
    """At most `START` of them, one of few numbers: 8 for each doubling."""
    n = min(len(rows), START)
    n -= n % 2 ** max(n.bit_length() - 4, 0)
    return rows[np.linspace(0, len(rows) - 1, n).astype(int)]


def chosen_rank(rank: int | None, rows: np.ndarray, weight: np.ndarray) -> int:
    """The given rank, or how many correlations of rows (n, d) are more than chance.

    These are the eigenvalues of their correlation matrix above (1 + sqrt(d / n))^2, which those of
    independent columns do not exceed (Marchenko and Pastur, 1967); from 1 to 64. Rows are scaled to
    one length: their common scale varies in most data, and would spread the eigenvalues.
    """
    if rank is not None:
        return int(rank)
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    rows = (
        rows
        / np.where(length > 0, length, 1)
        * np.sqrt(weight / weight.mean())[:, None]
    )
    size = np.sqrt(np.mean(rows**2, axis=0))
    rows = rows / np.where(size > 0, size, 1)
    n, d = rows.shape
    values = np.linalg.eigvalsh((rows @ rows.T if n < d else rows.T @ rows) / n)
    return int(np.clip(np.sum(values > (1 + np.sqrt(d / n)) ** 2), 1, MOST))


def fitted_rank(covariance: Callable, models, X: np.ndarray) -> int | None:
    """Loadings U of covariance(model, x), which is traced only; None if it has none."""
    U = getattr(eqx.filter_eval_shape(each, covariance, models, X), "U", None)
    return None if U is None else U.shape[-2]


class Held(NamedTuple):
    """What the likelihood of held residuals needs of V, for each row."""

    dim: int
    logdet: np.ndarray  # (n,): of diag(s^2)
    w: np.ndarray  # (n, m): eigenvalues of PP'
    beside: np.ndarray  # (n, 2): squares of e / s and apart / s beside the rows of P
    along: np.ndarray  # (n, 2, m): and along its principal directions
    tail: list[np.ndarray]

    @classmethod
    def of(cls, models, inputs, e, apart, parts: list[Part]) -> "Held":
        pieces, order = [], []
        for k, (_, rows) in enumerate(parts):
            model = only(models, k)
            for some in np.array_split(rows, -(-len(rows) // PIECE)):
                learnt = predictions(_parts, model, inputs[some])
                both = np.stack([e[some], apart[some]], axis=1)
                pieces.append(
                    _spectrum(both, *(x[:, 0].astype(np.float64) for x in learnt))
                )
                order.append(some)
        back = np.argsort(np.concatenate(order))
        logdet, w, beside, along, *tail = (
            np.concatenate(x)[back] for x in zip(*pieces, strict=True)
        )
        return cls(e.shape[1], logdet, w, beside, along, tail)

    def squares(self, a, b) -> tuple:
        """e'V^-1 e and the same of apart, (n,) each, for V = a diag(s^2) + b U'U."""
        both = (
            self.beside + (self.along / (1 + b / a * self.w)[:, None]).sum(axis=-1)
        ) / a
        return both[:, 0], both[:, 1]

    def contrast(self, family: Any, weight: np.ndarray) -> np.ndarray:
        """(a, b) for which e is most likely; see `covariance_calibration.contrast`."""
        zero = jnp.zeros(self.dim)
        p = family.from_moments(zero, DiagonalGram(jnp.ones(self.dim)), *self.tail)
        rows = Held(self.dim, *jax.tree.map(jnp.asarray, self[1:]))

        def loss(logs):
            a, b = jnp.exp(logs)
            logdet = (
                rows.logdet
                + self.dim * logs[0]
                + jnp.sum(jnp.log1p(b / a * rows.w), axis=-1)
            )
            u = p.variance_factor() * rows.squares(a, b)[0]
            return jnp.average(logdet / 2 - p.log_generator(u), weights=weight)

        slope = jax.jit(jax.value_and_grad(loss))

        def numbers(logs):
            return tuple(
                np.asarray(x, np.float64) for x in slope(jnp.asarray(logs, zero.dtype))
            )

        best: Any = minimize(numbers, np.zeros(2), jac=True, bounds=[(-5, 5)] * 2)
        return np.exp(best.x)


def _spectrum(
    both: np.ndarray, scale: np.ndarray, U: np.ndarray, *tail: np.ndarray
) -> tuple:
    P, both = U / scale[:, None], both / scale[:, None]
    w, vectors = np.linalg.eigh(P @ P.mT)
    real = w > len(w[0]) * np.finfo(float).eps * w[:, -1:]
    along = np.where(
        real[:, None], (both @ P.mT @ vectors) ** 2 / np.where(real, w, 1)[:, None], 0
    )
    beside = np.maximum(np.sum(both**2, axis=-1) - np.sum(along, axis=-1), 0)
    return (
        2 * np.sum(np.log(scale), axis=-1),
        np.where(real, w, 0),
        beside,
        along,
        *tail,
    )
