"""Standardised principal components, with their inverse, and random splits of rows."""

import dataclasses

import numpy as np

from mmlp.argument_checks import check_size


@dataclasses.dataclass(frozen=True, eq=False)
class Components:
    """The first principal components of data, each divided by its standard deviation.

        S = (X - mean) axes' / scale,   X ~ mean + (S scale) axes
        log p(X axes') = log p(S) - sum log scale

    The last line is the log density in the units of X. The entry of largest magnitude
    of each axis (the first among equals) is positive, so that a fit does not depend on
    the signs that the decomposition happens to choose.

    Parameters
    ----------
    mean : array of shape (p,)
        The mean of the data.
    axes : array of shape (count, p)
        The principal axes, orthonormal rows.
    scale : array of shape (count,)
        The standard deviations of the components.

    Examples
    --------
    >>> X = np.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> components = Components.fit(X, 2)
    >>> components.encode(X).var(axis=0).round(12).tolist()
    [1.0, 1.0]
    >>> np.allclose(components.decode(components.encode(X)), X)
    True
    """

    mean: np.ndarray
    axes: np.ndarray
    scale: np.ndarray

    @classmethod
    def fit(cls, X: np.ndarray, count: int) -> "Components":
        """Compute the principal components of training data.

        Parameters
        ----------
        X : array of shape (n, p)
            The training data, one row per sample.
        count : int
            The number of components.

        Returns
        -------
        Components
            The first `count` components.

        Raises
        ------
        ValueError
            If X is not a finite matrix, or its rank is smaller than `count`.
        """
        X = _check_rows(X, "fit")
        count = check_size(count, "Components.fit(count=...)")
        mean = X.mean(axis=0)
        _, s, axes = np.linalg.svd(X - mean, full_matrices=False)
        rank = int(np.sum(s > max(X.shape) * np.finfo(float).eps * s[0]))
        if count > rank:
            raise ValueError(
                f"`Components.fit(count=...)` must be at most {rank}, the rank of the "
                f"centred X, got {count}."
            )

        axes = axes[:count]
        largest = np.argmax(np.abs(axes), axis=1)
        signs = np.sign(axes[np.arange(count), largest])
        return cls(
            mean=mean,
            axes=axes * signs[:, None],
            scale=s[:count] / np.sqrt(len(X)),
        )

    @property
    def log_jacobian(self) -> float:
        """Minus the sum of log scale.

        log p(S) plus this number is the log density in the units of X.
        """
        return -float(np.sum(np.log(self.scale)))

    def encode(self, X: np.ndarray) -> np.ndarray:
        """Return the standardised components of X.

        Parameters
        ----------
        X : array of shape (n, p)
            The data.

        Returns
        -------
        array of shape (n, count)
            The components S, in float64.

        Raises
        ------
        ValueError
            If X is not finite or has another number of columns.
        """
        rows = _check_rows(X, "encode", len(self.mean))
        return (rows - self.mean) @ self.axes.T / self.scale

    def decode(self, S: np.ndarray) -> np.ndarray:
        """Return the data with the given components, which is nearest to the original.

        Parameters
        ----------
        S : array of shape (n, count)
            Standardised components.

        Returns
        -------
        array of shape (n, p)
            The reconstructed data, in float64.

        Raises
        ------
        ValueError
            If S is not finite or has another number of columns.
        """
        rows = _check_rows(S, "decode", len(self.scale))
        return self.mean + (rows * self.scale) @ self.axes


def random_split(n: int, train: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Split the row indices 0, ..., n - 1 at random into training and test.

    Parameters
    ----------
    n : int
        The number of rows.
    train : int
        The number of training rows, less than n.
    seed : int
        The seed of the permutation.

    Returns
    -------
    training : array of int, shape (train,)
        The training row indices.
    test : array of int, shape (n - train,)
        The test row indices.

    Raises
    ------
    ValueError
        If a number is not positive, or no rows are left for the test.

    Examples
    --------
    >>> training, test = random_split(5, 3, seed=0)
    >>> sorted([*training.tolist(), *test.tolist()])
    [0, 1, 2, 3, 4]
    """
    n = check_size(n, "random_split(n=...)")
    train = check_size(train, "random_split(train=...)")
    if train >= n:
        raise ValueError(
            f"`random_split(train=...)` must leave some of the n = {n} for the test, "
            f"got {train}."
        )
    order = np.random.default_rng(seed).permutation(n)
    return order[:train], order[train:]


def _check_rows(X: np.ndarray, method: str, n_columns: int | None = None) -> np.ndarray:
    """Return a finite matrix in float64, or raise a ValueError."""
    letter = "S" if method == "decode" else "X"
    argument = f"Components.{method}({letter}=...)"
    X = np.asarray(X, np.float64)
    if X.ndim != 2 or 0 in X.shape or n_columns not in (None, X.shape[1]):
        raise ValueError(
            f"`{argument}` must have shape (n, {n_columns or 'p'}), "
            f"got shape {X.shape}."
        )
    if not np.isfinite(X).all():
        row = np.argwhere(~np.isfinite(X))[0, 0]
        raise ValueError(
            f"`{argument}` must be finite; row {row} is not: drop or fill it."
        )
    return X
