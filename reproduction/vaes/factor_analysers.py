"""Mixtures of factor analysers, by EM (Ghahramani and Hinton, 1996).

p(x) = sum_k w_k N(x; mu_k, L_k L_k' + diag(psi_k)),   L_k (d, q)
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp
from sklearn.cluster import KMeans

from reproduction.vaes.images import ImageParts, make_pixel_components, pack_images

# The variance of uniform noise in [0, 1), which dequantised pixels have.
ROUNDING_VARIANCE = 1 / 12


class Mixture(NamedTuple):
    """A mixture of K factor analysers.

    Parameters
    ----------
    weight : array of shape (K,)
    mean : array of shape (K, d)
    loadings : array of shape (K, d, q)
    noise : array of shape (K, d)
        Variances.
    """

    weight: np.ndarray
    mean: np.ndarray
    loadings: np.ndarray
    noise: np.ndarray

    def log_prob(self, X: np.ndarray) -> np.ndarray:
        """Return log p(x) for the rows of X (n, d), of shape (n,)."""
        return np.asarray(logsumexp(self.log_joint(X), axis=1))

    def log_joint(self, X: np.ndarray) -> np.ndarray:
        """Return log w_k + log N(x; ...), of shape (n, K)."""
        log_densities = [
            _log_normal(X, mean, L, noise)
            for mean, L, noise in zip(self.mean, self.loadings, self.noise, strict=True)
        ]
        return np.log(self.weight) + np.stack(log_densities, axis=1)

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draw n samples, of shape (n, d)."""
        k = rng.choice(len(self.weight), n, p=self.weight)
        z = rng.standard_normal((n, self.loadings.shape[2]))
        eps = rng.standard_normal((n, self.mean.shape[1])) * np.sqrt(self.noise[k])
        return self.mean[k] + np.einsum("ndq,nq->nd", self.loadings[k], z) + eps


def fit_best_mixtures(
    splits: list[ImageParts],
    sizes: Sequence[tuple[int, int]],
    max_value: int,
    n_samples: int,
) -> dict:
    """Fit mixtures of several sizes to each split; validation images choose the best.

    Parameters
    ----------
    splits : list of ImageParts
    sizes : sequence of (components, factors)
        Sizes with more factors in all than training images are left out.
    max_value : int
        The largest grey value of the images.
    n_samples : int
        The number of samples of the first split's mixture.

    Returns
    -------
    dict
        "scores", log densities of the test images; "chosen", the sizes; and "images",
        packed samples.
    """
    scores = []
    chosen_sizes = []
    packed_samples = ""
    for number, split in enumerate(splits):
        pixels = make_pixel_components(split.train)
        train = pixels.encode(split.train)
        validation = pixels.encode(split.validation)
        test = pixels.encode(split.test)

        min_noise = ROUNDING_VARIANCE / pixels.scale**2
        mixtures = {
            (K, q): fit_mixture(train, validation, K, q, min_noise=min_noise)
            for K, q in sizes
            if K * q < len(train)
        }
        size = max(
            mixtures, key=lambda size: mixtures[size].log_prob(validation).mean()
        )
        mixture = mixtures[size]
        log_density = mixture.log_prob(test) + pixels.log_jacobian
        scores.append(np.round(log_density, 3).tolist())
        chosen_sizes.append(size)
        if number == 0:
            samples = mixture.sample(np.random.default_rng(3), n_samples)
            packed_samples = pack_images(255 / max_value * pixels.decode(samples))
    return {"scores": {"IW": scores}, "chosen": chosen_sizes, "images": packed_samples}


def fit_mixture(
    X: np.ndarray,
    validation: np.ndarray,
    components: int,
    factors: int,
    *,
    min_noise: np.ndarray,
    max_steps: int = 100,
    patience: int = 10,
) -> Mixture:
    """Return the mixture of the step at which the validation rows are most likely.

    Parameters
    ----------
    X : array of shape (n, d)
        Training rows.
    validation : array of shape (n_validation, d)
    components, factors : int
        K and q.
    min_noise : array of shape (d,)
        The smallest noise variances, those of the rounding of numbers.
    max_steps : int, default=100
    patience : int, default=10
        Steps without improvement after which the fit ends.

    Returns
    -------
    Mixture
    """
    mixture = _start_mixture(X, components, factors, min_noise)
    best_mixture = None
    best_score = -np.inf
    best_step = 0
    for step in range(max_steps):
        score = mixture.log_prob(validation).mean()
        if score > best_score:
            best_score = score
            best_step = step
            best_mixture = mixture
        if step - best_step >= patience:
            break
        mixture = _improve_mixture(mixture, X, min_noise)
    assert best_mixture is not None  # The first score is finite.
    return best_mixture


def _start_mixture(
    X: np.ndarray, components: int, factors: int, min_noise: np.ndarray
) -> Mixture:
    """Start with clusters, and the principal directions of each."""
    labels = KMeans(components, random_state=0).fit_predict(X)
    means = []
    loadings = []
    noises = []
    for k in range(components):
        Y = X[labels == k]
        mean = Y.mean(axis=0)
        _, s, Vt = np.linalg.svd((Y - mean) / len(Y) ** 0.5, full_matrices=False)
        L = np.zeros((X.shape[1], factors))
        L[:, : len(s)] = (s[:factors, None] * Vt[:factors]).T * 0.5**0.5
        means.append(mean)
        loadings.append(L)
        noises.append(np.maximum(Y.var(axis=0) - np.sum(L**2, axis=1), min_noise))
    return Mixture(
        weight=np.bincount(labels, minlength=components) / len(X),
        mean=np.stack(means),
        loadings=np.stack(loadings),
        noise=np.stack(noises),
    )


def _improve_mixture(mixture: Mixture, X: np.ndarray, min_noise: np.ndarray) -> Mixture:
    """Compute responsibilities, then the regression of x on (z, 1) for each k."""
    log_joint = mixture.log_joint(X)
    responsibilities = np.exp(log_joint - logsumexp(log_joint, axis=1, keepdims=True))
    means = []
    loadings = []
    noises = []
    for k, r in enumerate(responsibilities.T):
        mean, L, noise = _improve_analyser(
            X, r, mixture.mean[k], mixture.loadings[k], mixture.noise[k]
        )
        means.append(mean)
        loadings.append(L)
        noises.append(np.maximum(noise, min_noise))
    return Mixture(
        weight=responsibilities.mean(axis=0),
        mean=np.stack(means),
        loadings=np.stack(loadings),
        noise=np.stack(noises),
    )


def _improve_analyser(
    X: np.ndarray, r: np.ndarray, mean: np.ndarray, L: np.ndarray, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return mean, loadings and noise of an analyser, for responsibilities r (n,)."""
    q = L.shape[1]
    M = np.eye(q) + L.T @ (L / noise[:, None])
    Z = np.linalg.solve(M, ((X - mean) / noise @ L).T).T  # E[z | x], (n, q)
    Z1 = np.column_stack([Z, np.ones(len(X))])
    second_moment = (Z1 * r[:, None]).T @ Z1
    second_moment[:q, :q] += r.sum() * np.linalg.inv(M)
    cross_moment = (X * r[:, None]).T @ Z1
    coefficients = np.linalg.solve(second_moment, cross_moment.T).T  # (d, q + 1)
    square = np.sum(r[:, None] * X**2, axis=0)
    explained = np.sum(coefficients * cross_moment, axis=1)
    return coefficients[:, q], coefficients[:, :q], (square - explained) / r.sum()


def _log_normal(
    X: np.ndarray, mean: np.ndarray, L: np.ndarray, noise: np.ndarray
) -> np.ndarray:
    """Return log N(x; mean, LL' + diag(noise)), by I + L' diag(1/noise) L."""
    Y = (X - mean) / np.sqrt(noise)
    P = L / np.sqrt(noise)[:, None]
    C = np.linalg.cholesky(np.eye(L.shape[1]) + P.T @ P)
    w = np.linalg.solve(C, P.T @ Y.T)
    square = np.sum(Y**2, axis=1) - np.sum(w**2, axis=0)
    logdet = np.sum(np.log(noise)) + 2 * np.sum(np.log(np.diag(C)))
    return -0.5 * (square + logdet + X.shape[1] * np.log(2 * np.pi))
