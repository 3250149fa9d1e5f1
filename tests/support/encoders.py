"""Encoders of arrays whose columns have names."""

from collections.abc import Sequence

import numpy as np

from mmlp.tables.encoder import ColumnTable, TableEncoder


def fit_encoder(
    X: np.ndarray,
    names: Sequence[str],
    is_category: Sequence[bool] | None = None,
    **arguments,
) -> TableEncoder:
    """Fit an encoder to the columns of X; some may be declared to hold categories."""
    declared = [False] * len(names) if is_category is None else list(is_category)
    encoder = TableEncoder(**arguments)
    encoder.fit_table(ColumnTable(np.asarray(X), list(names), declared))
    return encoder
