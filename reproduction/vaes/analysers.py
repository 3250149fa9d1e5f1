"""Mixtures of factor analysers by expectation maximisation (Ghahramani and Hinton, 1996).

p(x) = sum_k w_k N(x; mu_k, L_k L_k' + diag(psi_k)),   L_k (d, q)
"""

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp
from sklearn.cluster import KMeans

from reproduction.vaes import data

ROUNDING = 1 / 12  # the variance of uniform noise in [0, 1)


class Mixture(NamedTuple):
    weight: np.ndarray  # (K,)
    mean: np.ndarray  # (K, d)
    loadings: np.ndarray  # (K, d, q)
    noise: np.ndarray  # (K, d), variances

    def log_prob(self, X: np.ndarray) -> np.ndarray:
        """log p(x) of rows X (n, d), shape (n,)."""
        return np.asarray(logsumexp(self._joint(X), axis=1))

    def _joint(self, X: np.ndarray) -> np.ndarray:
        """log w_k + log N(x; ...), shape (n, K)."""
        parts = (_log_normal(X, *one) for one in zip(*self[1:], strict=True))
        return np.log(self.weight) + np.stack(list(parts), axis=1)

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        k = rng.choice(len(self.weight), n, p=self.weight)
        z = rng.standard_normal((n, self.loadings.shape[2]))
        eps = rng.standard_normal((n, self.mean.shape[1])) * np.sqrt(self.noise[k])
        return self.mean[k] + np.einsum("ndq,nq->nd", self.loadings[k], z) + eps


def best(parts: list[data.Parts], sizes, most: int, shown: int) -> dict:
    """On each split the best of `sizes`, (components, factors), by its validation images.

    Log-densities of test images in raw units, and `shown` samples, packed.
    """
    scores, chosen, images = [], [], ""
    for number, split in enumerate(parts):
        pixels = data.single_pixels(split[0])
        train, validation, test = map(pixels.encode, split)
        least = ROUNDING / pixels.scale**2
        able = [(K, q) for K, q in sizes if K * q < len(train)]
        fitted = {(K, q): fit(train, validation, K, q, least=least) for K, q in able}
        top = max(fitted, key=lambda size: fitted[size].log_prob(validation).mean())
        chosen.append(top)
        scores.append(
            np.round(fitted[top].log_prob(test) + pixels.log_jacobian, 3).tolist()
        )
        if number == 0:
            draws = fitted[top].sample(np.random.default_rng(3), shown)
            images = data.pack(255 / most * pixels.decode(draws))
    return {"scores": {"IW": scores}, "chosen": chosen, "images": images}


def fit(
    X, validation, components: int, factors: int, *, least, steps=100, patience=10
) -> Mixture:
    """The mixture of the step at which the validation rows are most likely.

    Noise has variances of `least` (d,) or more: those of the numbers' own rounding.
    """
    mixture, known = _start(X, components, factors, least), (-np.inf, 0, None)
    for step in range(steps):
        score = mixture.log_prob(validation).mean()
        if score > known[0]:
            known = score, step, mixture
        if step - known[1] >= patience:
            break
        mixture = _improved(mixture, X, least)
    assert known[2] is not None
    return known[2]


def _start(X: np.ndarray, components: int, factors: int, least) -> Mixture:
    """Clusters, and principal directions of each."""
    labels = KMeans(components, random_state=0).fit_predict(X)
    means, loadings, noises = [], [], []
    for k in range(components):
        Y = X[labels == k]
        means.append(Y.mean(axis=0))
        _, s, Vt = np.linalg.svd((Y - means[-1]) / len(Y) ** 0.5, full_matrices=False)
        L = np.zeros((X.shape[1], factors))
        L[:, : len(s)] = (s[:factors, None] * Vt[:factors]).T * 0.5**0.5
        loadings.append(L)
        noises.append(np.maximum(Y.var(axis=0) - np.sum(L**2, axis=1), least))
    weight = np.bincount(labels, minlength=components) / len(X)
    return Mixture(weight, np.stack(means), np.stack(loadings), np.stack(noises))


def _improved(mixture: Mixture, X: np.ndarray, least) -> Mixture:
    """One step: responsibilities, then each analyser's regression of x on (z, 1)."""
    joint = mixture._joint(X)
    share = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
    parts = [
        _analyser(X, r, *one, least)
        for r, one in zip(share.T, zip(*mixture[1:], strict=True), strict=True)
    ]
    return Mixture(share.mean(axis=0), *map(np.stack, zip(*parts, strict=True)))


def _analyser(X, r, mean, L, noise, least):
    q = L.shape[1]
    M = np.eye(q) + L.T @ (L / noise[:, None])
    Z = np.linalg.solve(M, ((X - mean) / noise @ L).T).T  # E[z | x], (n, q)
    Z1 = np.column_stack([Z, np.ones(len(X))])
    second = (Z1 * r[:, None]).T @ Z1
    second[:q, :q] += r.sum() * np.linalg.inv(M)
    cross = (X * r[:, None]).T @ Z1
    both = np.linalg.solve(second, cross.T).T  # (d, q + 1)
    left = np.sum(r[:, None] * X**2, axis=0) - np.sum(both * cross, axis=1)
    return both[:, q], both[:, :q], np.maximum(left / r.sum(), least)


def _log_normal(X, mean, L, noise) -> np.ndarray:
    """By the m x m matrix I + L' diag(1/noise) L."""
    Y = (X - mean) / np.sqrt(noise)
    P = L / np.sqrt(noise)[:, None]
    C = np.linalg.cholesky(np.eye(L.shape[1]) + P.T @ P)
    w = np.linalg.solve(C, P.T @ Y.T)
    square = np.sum(Y**2, axis=1) - np.sum(w**2, axis=0)
    logdet = np.sum(np.log(noise)) + 2 * np.sum(np.log(np.diag(C)))
    return -0.5 * (square + logdet + X.shape[1] * np.log(2 * np.pi))
