"""The rows of several networks as `fit_many` takes them.

Rows are padded with rows of weight zero, to whole batches: few shapes mean few compilations.
"""

from typing import Any

import numpy as np

from mmlp.estimators.chunks import one_of_few

EPOCH = (
    2**17
)  # rows at most: where a network has more, each epoch takes the next part of them
JUDGES = 20_000  # held rows at most that a network is judged by after an epoch


def some_of_them(rows: np.ndarray, seed: int) -> np.ndarray:
    """At most `JUDGES` of these rows, any of them."""
    if len(rows) <= JUDGES:
        return rows
    return np.sort(np.random.default_rng(seed).choice(rows, JUDGES, replace=False))


def own_rows(
    data: tuple, weight: np.ndarray, parts: list, batch_size: int
) -> dict[str, Any]:
    """For each network a copy of its rows."""
    index, weights = _padded(parts, weight, batch_size)
    return {"data": (tuple(x[index] for x in data), weights.astype(data[0].dtype))}


def shared_rows(
    data: tuple, weight: np.ndarray, parts: list, batch_size: int
) -> dict[str, Any]:
    """The rows once, and the numbers (networks, parts, m) of those that each sees in an epoch."""
    count = -(-max(map(len, parts)) // EPOCH)
    m = -(-max(map(len, parts)) // (count * batch_size)) * batch_size
    rows = np.full((len(parts), count * m), len(weight))  # the last one, of weight zero
    for k, part in enumerate(parts):
        rows[k, : len(part)] = np.random.default_rng(k).permutation(part)
    table = tuple(np.concatenate([x, x[:1]]) for x in data)
    weights = np.append(weight / weight.mean(), 0).astype(data[0].dtype)
    spread = rows.reshape(len(parts), m, count).swapaxes(1, 2)  # padding in each part
    return {"data": (table, weights), "rows": spread}


def _padded(
    parts, weight: np.ndarray, batch_size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Indices and weights (parts, m), m whole batches; of mean one, and zero for padding."""
    m = one_of_few(max(map(len, parts)), batch_size)
    index, weights = np.zeros((len(parts), m), int), np.zeros((len(parts), m))
    for k, rows in enumerate(parts):
        index[k, : len(rows)], weights[k, : len(rows)] = rows, weight[rows]
    return index, weights * (m / weights.sum(axis=1, keepdims=True))
