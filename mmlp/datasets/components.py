"""Rows of data: standardised principal components, with the way back, and random splits."""

import dataclasses

import numpy as np

from mmlp.argument_checks import check_size


@dataclasses.dataclass(frozen=True, eq=False)
class Components:
    """The first principal components of X (n, p), each over its standard deviation: S (n, count).

        S = (X - mean) axes' / scale,   X ~ mean + (S scale) axes,
        log p(X axes') = log p(S) - sum log scale, the log-density in the units of the pixels.

    The entry of largest magnitude of each axis (the first of equals) is positive, so that a fit
    does not depend on the signs that the decomposition happens to choose.

    >>> X = np.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> components = Components.fit(X, 2)
    >>> components.encode(X).var(axis=0).round(12).tolist()
    [1.0, 1.0]
    >>> np.allclose(components.decode(components.encode(X)), X)
    True
    """

    mean: np.ndarray  # (p,)
    axes: np.ndarray  # (count, p), orthonormal rows
    scale: np.ndarray  # (count,), standard deviations over the data of the fit

    @classmethod
    def fit(cls, X: np.ndarray, count: int) -> "Components":
        """The components of the rows of X: give training data only."""
        X, count = _rows(X, "fit"), check_size(count, "Components.fit(count=...)")
        mean = X.mean(axis=0)
        _, s, axes = np.linalg.svd(X - mean, full_matrices=False)
        rank = int(np.sum(s > max(X.shape) * np.finfo(float).eps * s[0]))
        if count > rank:
            limit = f"must be at most {rank}, the rank of the centred X"
            raise ValueError(f"`Components.fit(count=...)` {limit}, got {count}.")
        axes = axes[:count]
        largest = np.argmax(np.abs(axes), axis=1)
        axes = axes * np.sign(axes[np.arange(count), largest])[:, None]
        return cls(mean, axes, s[:count] / np.sqrt(len(X)))

    @property
    def log_jacobian(self) -> float:
        """-sum log scale: log p(S) plus this is the log-density of the raw components."""
        return -float(np.sum(np.log(self.scale)))

    def encode(self, X: np.ndarray) -> np.ndarray:
        """X (n, p) -> S (n, count), float64."""
        return (
            (_rows(X, "encode", len(self.mean)) - self.mean) @ self.axes.T / self.scale
        )

    def decode(self, S: np.ndarray) -> np.ndarray:
        """S (n, count) -> X (n, p), float64: the nearest that these components allow."""
        return (
            self.mean + (_rows(S, "decode", len(self.scale)) * self.scale) @ self.axes
        )


def random_split(n: int, train: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """0, ..., n - 1 in random order, cut in two: training (train,) and test (n - train,).

    >>> training, test = random_split(5, 3, seed=0)
    >>> sorted([*training.tolist(), *test.tolist()])
    [0, 1, 2, 3, 4]
    """
    n = check_size(n, "random_split(n=...)")
    if (train := check_size(train, "random_split(train=...)")) >= n:
        need = f"must leave some of the n = {n} for the test"
        raise ValueError(f"`random_split(train=...)` {need}, got {train}.")
    order = np.random.default_rng(seed).permutation(n)
    return order[:train], order[train:]


def _rows(X: np.ndarray, call: str, columns: int | None = None) -> np.ndarray:
    argument = f"Components.{call}({'S' if call == 'decode' else 'X'}=...)"
    X = np.asarray(X, np.float64)
    if X.ndim != 2 or 0 in X.shape or columns not in (None, X.shape[1]):
        shape = f"(n, {columns or 'p'})"
        raise ValueError(f"`{argument}` must have shape {shape}, got shape {X.shape}.")
    if not np.isfinite(X).all():
        row = np.argwhere(~np.isfinite(X))[0, 0]
        raise ValueError(
            f"`{argument}` must be finite; row {row} is not: drop or fill it."
        )
    return X
