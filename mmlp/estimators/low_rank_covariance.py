"""Covariances diag(s^2) + U'U of `MultivariateRegressor`, for many targets.

Nothing here has d^2 numbers. With P = U / s and the eigenvalues w of PP', which has the
size of the rank, determinants and Mahalanobis distances of a diag(s^2) + b U'U are sums
over w for all a, b.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike
from scipy.optimize import minimize

from mmlp.distributions import Elliptical
from mmlp.estimators import covariance_calibration, model_files
from mmlp.estimators.chunks import (
    ROWS_PER_CHUNK,
    apply_networks,
    apply_traced,
    select_network,
)
from mmlp.estimators.covariance import (
    Calibration,
    CovarianceForm,
    CovarianceSettings,
    ResidualTable,
)
from mmlp.estimators.covariance_networks import LowRankCovarianceBuilder
from mmlp.estimators.precision import check_range, check_rounding
from mmlp.estimators.target_columns import TargetColumns
from mmlp.spd import DiagonalGram, LowRankGram

MAX_CHOSEN_RANK = 64

# Loadings start at the principal directions of at most this many residuals.
MAX_INITIAL_ROWS = 1024

# Bounds of the logarithms of the two factors of the contrast.
MAX_LOG_FACTOR = 5


class DiagonalPlusLowRank(NamedTuple):
    """Covariances V = diag(scale^2) + U'U in float64, a `CovarianceBatch`.

    Attributes
    ----------
    scale : array of shape (n, d)
    U : array of shape (n, m, d)
    """

    scale: np.ndarray
    U: np.ndarray

    def in_units(self, scale: np.ndarray) -> "DiagonalPlusLowRank":
        """Return the covariances after each target is multiplied by its scale (d,)."""
        return DiagonalPlusLowRank(self.scale * scale, self.U * scale)

    def with_constant_targets(self, columns: TargetColumns) -> "DiagonalPlusLowRank":
        """Return those of all targets: zero in rows and columns of constant ones."""
        return DiagonalPlusLowRank(
            columns.with_zeros(self.scale), columns.with_zeros(self.U)
        )

    def dense(self, columns: Any = slice(None)) -> np.ndarray:
        """Return the matrices (n, k, k) of some targets."""
        scale = self.scale[..., columns]
        U = self.U[..., columns]
        return U.mT @ U + np.eye(scale.shape[-1]) * (scale**2)[..., None]

    def std(self) -> np.ndarray:
        """Return the standard deviations (n, d)."""
        return np.sqrt(self.scale**2 + np.sum(self.U**2, axis=-2))

    def as_spd(self, call: str, dtype: DTypeLike, mean: np.ndarray) -> LowRankGram:
        """Return them in a dtype, if it holds them and the means (n, d) precisely."""
        eta = np.sum(self.scale**2, axis=-1) + np.sum(self.U**2, axis=(-2, -1))
        check_range(call, dtype, eta, self.scale / np.sqrt(eta)[:, None], mean)

        # Given the other targets, a deviation is at least the scale.
        check_rounding(call, dtype, mean, 1 / self.scale)
        return LowRankGram(jnp.asarray(self.scale, dtype), jnp.asarray(self.U, dtype))


class LowRankCovariance(CovarianceForm):
    """Covariances diag(s^2) + U'U, averaged over networks.

    The average has the geometric mean of s, and the main directions of the loadings U
    of all networks. `shape_` (d,) are scales of the residuals, and `contrast_` is
    (a, b), by which diag(s^2) and U'U are multiplied so that held-out residuals are
    most likely.
    """

    sizes_depend_on_residuals = True  # through the rank
    combines_networks = True

    def fit_shape(self, residuals: np.ndarray, row_weights: np.ndarray) -> np.ndarray:
        """Return scales (d,) of the residuals; one for a target without residuals."""
        variances = np.average(residuals**2, axis=0, weights=row_weights)
        scale = np.sqrt(variances * residuals.shape[1])
        return np.where(scale == 0, 1.0, scale)

    def standardize(self, shape: np.ndarray, residuals: np.ndarray) -> np.ndarray:
        """Return residuals (n, d) in units of the scales."""
        return residuals / shape

    def choose_network(
        self,
        settings: CovarianceSettings,
        n_inputs: int,
        residuals: np.ndarray,
        row_weights: np.ndarray,
    ) -> tuple[Callable, np.ndarray]:
        """Return a builder of networks, and the residuals that they start from."""
        sizes = settings.network_sizes(n_inputs, residuals.shape[1])
        rank = choose_rank(settings.rank, residuals, row_weights)
        build = LowRankCovarianceBuilder(settings.head, sizes, rank)
        return build, select_initial_rows(residuals)

    def calibrate(
        self, family: type[Elliptical], networks: Any, table: ResidualTable
    ) -> tuple[np.ndarray, float]:
        """Return contrast and gain that suit the held-out residuals."""
        spectrum = HeldOutSpectrum.of(networks, table)
        contrast = spectrum.fit_contrast(family, table.row_weights)
        residual_square, disagreement_square = (
            float(np.average(squares, weights=table.row_weights))
            for squares in spectrum.squares(*contrast)
        )
        # The mean has a network for each fold of two partitions.
        gain = covariance_calibration.gain_from_squares(
            residual_square, disagreement_square, n_mean_networks=2 * len(table.folds)
        )
        return contrast, gain

    @staticmethod
    def predict_parts(network: Any, x: Any) -> tuple:
        """Return s, squares of what is left of U, the main rows of U, and the tail.

        `network` is the stack of all networks.
        """
        over_networks = eqx.filter_vmap(_predict_one, in_axes=(eqx.if_array(0), None))
        scale, U, *tail = over_networks(network, x)
        tail = network.distribution.average_tails(*tail, axis=0)
        return *average_networks(scale, U), *tail

    def assemble(
        self,
        parts: Sequence[np.ndarray],
        calibration: Calibration,
        family: type[Elliptical],
    ) -> tuple[DiagonalPlusLowRank, list[np.ndarray]]:
        """Apply the calibration, and undo the standardization."""
        scale, left_over, U, *tail = (part[:, 0] for part in parts)
        a, b = calibration.gain * calibration.contrast
        scale = np.sqrt(a * scale.astype(np.float64) ** 2 + b * left_over)
        V = DiagonalPlusLowRank(scale, np.sqrt(b) * U)
        return V.in_units(calibration.shape), tail

    def named_results(self, *, text: bool) -> dict[str, Callable]:
        """Return deviations, and for arrays scale and loadings as well."""
        results: dict[str, Callable] = {"std": DiagonalPlusLowRank.std}
        if not text:
            results["scale"] = lambda V: V.scale
            results["loadings"] = lambda V: V.U
        return results

    def check_fitted(
        self, shape: Any, contrast: Any, n_targets: int
    ) -> tuple[tuple, ...]:
        """Return the shapes of the parts; raise a ValueError for impossible numbers."""
        d = n_targets
        for array, name, size in ((shape, "shape_", d), (contrast, "contrast_", 2)):
            if not model_files.is_finite(array, (size,)) or not (array > 0).all():
                raise ValueError(f"its {name} is not {size} positive numbers")
        return ((d,), (d,), (None, d))


def average_networks(scale: Array, U: Array) -> tuple[Array, Array, Array]:
    """Average scales (k, d) and loadings (k, m, d) of k networks, for one row.

    Returns
    -------
    scale : array of shape (d,)
        The geometric mean.
    left_over : array of shape (d,)
        The squares of the averaged loadings beyond the m main directions.
    U : array of shape (m, d)
        The loadings along the m main directions.
    """
    count, m, d = U.shape
    scale = jnp.exp(jnp.mean(jnp.log(scale), axis=0))
    U = U.reshape(-1, d) / count**0.5
    ascending_vectors = jnp.linalg.eigh((U / scale) @ (U / scale).T)[1]
    U = ascending_vectors.T @ U
    return scale, jnp.sum(U[:-m] ** 2, axis=0), U[-m:]


def _predict_one(network: Any, x: Any) -> tuple:
    """Return s, U and the tail of one network."""
    distribution = network(x)
    V = distribution.covariance
    return V.scale, V.U, *distribution.tail


def select_initial_rows(rows: np.ndarray) -> np.ndarray:
    """Return at most `MAX_INITIAL_ROWS` rows, evenly spaced.

    Their number is one of few, 8 for each doubling, so that few programs are compiled.
    """
    count = min(len(rows), MAX_INITIAL_ROWS)
    count -= count % 2 ** max(count.bit_length() - 4, 0)
    return rows[np.linspace(0, len(rows) - 1, count).astype(int)]


def choose_rank(rank: int | None, rows: np.ndarray, row_weights: np.ndarray) -> int:
    """Return the given rank, or how many correlations of rows (n, d) are beyond chance.

    These are the eigenvalues of their correlation matrix above (1 + sqrt(d / n))^2,
    which those of independent columns do not exceed (Marchenko and Pastur, 1967); from
    1 to 64. Rows are scaled to one length: their common scale varies in most data, and
    would spread the eigenvalues.
    """
    if rank is not None:
        return int(rank)

    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    root_weights = np.sqrt(row_weights / row_weights.mean())
    rows = rows / np.where(lengths > 0, lengths, 1) * root_weights[:, None]
    scale = np.sqrt(np.mean(rows**2, axis=0))
    rows = rows / np.where(scale > 0, scale, 1)

    # The smaller of the two matrices of products has the same positive eigenvalues.
    n, d = rows.shape
    products = rows @ rows.T if n < d else rows.T @ rows
    eigenvalues = np.linalg.eigvalsh(products / n)
    n_beyond_chance = np.sum(eigenvalues > (1 + np.sqrt(d / n)) ** 2)
    return int(np.clip(n_beyond_chance, 1, MAX_CHOSEN_RANK))


def fitted_rank(
    predict_covariance: Callable, networks: Any, X: np.ndarray
) -> int | None:
    """Return the number of loadings of `predict_covariance(network, x)`, if it has any.

    The networks are only traced: nothing is computed.
    """
    covariance = eqx.filter_eval_shape(apply_traced, predict_covariance, networks, X)
    U = getattr(covariance, "U", None)
    return None if U is None else U.shape[-2]


class HeldOutSpectrum(NamedTuple):
    """What the likelihood of held-out residuals needs to know about V.

    With P = U / s, the residuals e and the disagreements are divided by s, and split
    into parts along the principal directions of the rows of P and orthogonal to them.
    The axis of size 2 is that of residuals and disagreements.

    Attributes
    ----------
    dim : int
    logdet : array of shape (n,)
        log det diag(s^2).
    eigenvalues : array of shape (n, m)
        Of PP'.
    orthogonal_squares : array of shape (n, 2)
        Squared lengths of the parts orthogonal to the rows of P.
    squares_along : array of shape (n, 2, m)
        Squared lengths along each of the principal directions.
    tail : list of arrays of shape (n,)
    """

    dim: int
    logdet: Any
    eigenvalues: Any
    orthogonal_squares: Any
    squares_along: Any
    tail: list[Any]

    @classmethod
    def of(cls, networks: Any, table: ResidualTable) -> "HeldOutSpectrum":
        """Return that of the out-of-fold covariances, a chunk of rows at a time."""
        chunks = []
        rows_of_chunks = []
        for k, (_, held_out_rows) in enumerate(table.folds):
            network = select_network(networks, k)
            n_chunks = -(-len(held_out_rows) // ROWS_PER_CHUNK)
            for rows in np.array_split(held_out_rows, n_chunks):
                parts = apply_networks(_predict_one, network, table.inputs[rows])
                scale, U, *tail = (part[:, 0].astype(np.float64) for part in parts)
                vectors = np.stack(
                    [table.residuals[rows], table.disagreement[rows]], axis=1
                )
                chunks.append((*decompose(vectors, scale, U), *tail))
                rows_of_chunks.append(rows)

        order = np.argsort(np.concatenate(rows_of_chunks))
        logdet, eigenvalues, orthogonal, along, *tail = (
            np.concatenate(arrays)[order] for arrays in zip(*chunks, strict=True)
        )
        return cls(
            table.residuals.shape[1], logdet, eigenvalues, orthogonal, along, list(tail)
        )

    def squares(self, a: Any, b: Any) -> tuple[Any, Any]:
        """Return e'V^-1 e of residuals and of disagreements, (n,) each.

        V is a diag(s^2) + b U'U.
        """
        damping = 1 + b / a * self.eigenvalues
        along = (self.squares_along / damping[:, None]).sum(axis=-1)
        both = (self.orthogonal_squares + along) / a
        return both[:, 0], both[:, 1]

    def fit_contrast(
        self, family: type[Elliptical], row_weights: np.ndarray
    ) -> np.ndarray:
        """Find (a, b) for which the residuals are most likely.

        The loss is that of `covariance_calibration.fit_contrast`, but it has two
        unknowns here, and is minimized.
        """
        zero = jnp.zeros(self.dim)
        identity = DiagonalGram(jnp.ones(self.dim))
        distribution: Any = family.from_moments(zero, identity, *self.tail)
        spectrum = HeldOutSpectrum(self.dim, *jax.tree.map(jnp.asarray, self[1:]))

        def loss(log_factors):
            a, b = jnp.exp(log_factors)
            logdet = (
                spectrum.logdet
                + self.dim * log_factors[0]
                + jnp.sum(jnp.log1p(b / a * spectrum.eigenvalues), axis=-1)
            )
            u = distribution.variance_factor() * spectrum.squares(a, b)[0]
            losses = logdet / 2 - distribution.log_generator(u)
            return jnp.average(losses, weights=row_weights)

        loss_and_gradient = jax.jit(jax.value_and_grad(loss))

        def objective(log_factors):
            value, gradient = loss_and_gradient(jnp.asarray(log_factors, zero.dtype))
            return np.asarray(value, np.float64), np.asarray(gradient, np.float64)

        bounds = [(-MAX_LOG_FACTOR, MAX_LOG_FACTOR)] * 2
        best: Any = minimize(objective, np.zeros(2), jac=True, bounds=bounds)
        return np.exp(best.x)


def decompose(
    vectors: np.ndarray, scale: np.ndarray, U: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the arrays of `HeldOutSpectrum` for vectors (n, 2, d)."""
    P = U / scale[:, None]
    vectors = vectors / scale[:, None]
    eigenvalues, eigenvectors = np.linalg.eigh(P @ P.mT)

    # Eigenvalues that are rounding errors have no direction.
    rounding = eigenvalues.shape[1] * np.finfo(float).eps * eigenvalues[:, -1:]
    is_positive = eigenvalues > rounding
    divisors = np.where(is_positive, eigenvalues, 1)[:, None]
    projections = (vectors @ P.mT @ eigenvectors) ** 2 / divisors
    along = np.where(is_positive[:, None], projections, 0)

    orthogonal = np.maximum(np.sum(vectors**2, axis=-1) - np.sum(along, axis=-1), 0)
    logdet = 2 * np.sum(np.log(scale), axis=-1)
    return logdet, np.where(is_positive, eigenvalues, 0), orthogonal, along
