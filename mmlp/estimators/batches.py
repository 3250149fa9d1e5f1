"""Arrange the rows that each of several networks is trained on, for `fit_many`.

Rows are padded with rows of weight zero to whole batches: few shapes mean few
compilations.
"""

from typing import NamedTuple

import numpy as np

from mmlp.estimators.chunks import round_up_to_few_sizes

# If a network has more rows than this, each epoch takes the next part of them.
MAX_ROWS_PER_EPOCH = 2**17

# A network is validated on at most this many held-out rows after each epoch.
MAX_VALIDATION_ROWS = 20_000


class ArrangedRows(NamedTuple):
    """Rows as `fit_many` takes them.

    Attributes
    ----------
    data : pair of a tuple of arrays and an array of weights
        With a leading axis of networks, unless `rows` is given.
    rows : array of int, shape (n_networks, n_parts, n_rows_per_part), optional
        The indices of the rows of `data` that each network sees in an epoch; the parts
        take turns.
    """

    data: tuple[tuple[np.ndarray, ...], np.ndarray]
    rows: np.ndarray | None = None


def sample_validation_rows(rows: np.ndarray, seed: int) -> np.ndarray:
    """Return at most `MAX_VALIDATION_ROWS` of these row indices, drawn at random."""
    if len(rows) <= MAX_VALIDATION_ROWS:
        return rows
    rng = np.random.default_rng(seed)
    return np.sort(rng.choice(rows, MAX_VALIDATION_ROWS, replace=False))


def arrange_training_rows(
    arrays: tuple[np.ndarray, ...],
    row_weights: np.ndarray,
    rows_by_network: list[np.ndarray],
    batch_size: int,
) -> ArrangedRows:
    """Copy the rows of each network, or share one table where there are too many."""
    if max(map(len, rows_by_network)) > MAX_ROWS_PER_EPOCH:
        return share_rows(arrays, row_weights, rows_by_network, batch_size)
    return copy_rows(arrays, row_weights, rows_by_network, batch_size)


def copy_rows(
    arrays: tuple[np.ndarray, ...],
    row_weights: np.ndarray,
    rows_by_network: list[np.ndarray],
    batch_size: int,
) -> ArrangedRows:
    """Give each network a copy of its rows, with weights of mean one."""
    n_networks = len(rows_by_network)
    n_padded = round_up_to_few_sizes(max(map(len, rows_by_network)), batch_size)
    indices = np.zeros((n_networks, n_padded), int)
    weights = np.zeros((n_networks, n_padded))
    for k, rows in enumerate(rows_by_network):
        indices[k, : len(rows)] = rows
        weights[k, : len(rows)] = row_weights[rows]
    weights = weights * (n_padded / weights.sum(axis=1, keepdims=True))

    copies = tuple(array[indices] for array in arrays)
    return ArrangedRows((copies, weights.astype(arrays[0].dtype)))


def share_rows(
    arrays: tuple[np.ndarray, ...],
    row_weights: np.ndarray,
    rows_by_network: list[np.ndarray],
    batch_size: int,
) -> ArrangedRows:
    """Give all networks one table, and each the indices of its rows in every epoch."""
    n_networks = len(rows_by_network)
    most_rows = max(map(len, rows_by_network))
    n_parts = -(-most_rows // MAX_ROWS_PER_EPOCH)
    rows_per_part = -(-most_rows // (n_parts * batch_size)) * batch_size

    # Padding refers to an additional last row, of weight zero.
    indices = np.full((n_networks, n_parts * rows_per_part), len(row_weights))
    for k, rows in enumerate(rows_by_network):
        indices[k, : len(rows)] = np.random.default_rng(k).permutation(rows)

    table = tuple(np.concatenate([array, array[:1]]) for array in arrays)
    weights = np.append(row_weights / row_weights.mean(), 0)

    # The order of the axes spreads the padding over all parts.
    parts = indices.reshape(n_networks, rows_per_part, n_parts).swapaxes(1, 2)
    return ArrangedRows((table, weights.astype(arrays[0].dtype)), parts)
