"""Random splits."""

import numpy as np

from mmlp.linalg.checks import checked_size


def random_split(n: int, train: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The numbers 0, ..., n - 1 in random order, cut in two: training (train,) and test (n - train,).

    >>> training, test = random_split(5, 3, seed=0)
    >>> sorted([*training.tolist(), *test.tolist()])
    [0, 1, 2, 3, 4]
    """
    n, train = (
        checked_size(n, "random_split(n=...)"),
        checked_size(train, "random_split(train=...)"),
    )
    if train >= n:
        raise ValueError(
            f"`random_split(train=...)` must leave some of the n = {n} for the test, got {train}."
        )
    order = np.random.default_rng(seed).permutation(n)
    return order[:train], order[train:]
