"""How the networks of the estimators are trained, depending on the number of rows."""

import dataclasses

import numpy as np

from mmlp.errors import ArgumentError
from mmlp.estimators.batches import MAX_ROWS_PER_EPOCH
from mmlp.estimators.chunks import round_up_to_few_sizes
from mmlp.training.arguments import MAX_STEPS

# A network sees about this many rows by default, each of them from 20 to 500 times.
ROWS_SEEN_BY_DEFAULT = 300_000
MIN_DEFAULT_EPOCHS = 20
MAX_DEFAULT_EPOCHS = 500

# About 40 batches in an epoch, of 2^6 to 2^8 rows: larger ones are no faster per row.
BATCHES_PER_EPOCH = 40
MIN_LOG2_BATCH_SIZE = 6
MAX_LOG2_BATCH_SIZE = 8

# The default learning rate up to the first number of rows, and from the second on;
# `benchmarks/large_tables.py` compares them.
LEARNING_RATE_BY_ROWS = ((10_000, 0.02), (100_000, 0.01))

# If an epoch has more rows than this, patience is shortened in proportion.
MAX_ROWS_FOR_FULL_PATIENCE = 20_000


@dataclasses.dataclass(frozen=True)
class TrainingSettings:
    """How a group of networks is trained.

    Parameters
    ----------
    max_epochs : int
    batch_size : int
    learning_rate : float
    patience : int or None
        Epochs without improvement after which a network stops; None is never.
    dtype : "float32" or "float64"
    show_progress : bool
    """

    max_epochs: int = 500
    batch_size: int = 64
    learning_rate: float = 0.02
    patience: int | None = 50
    dtype: str = "float32"
    show_progress: bool = False


def default_max_epochs(n_rows: int) -> int:
    """Return 500 epochs up to 600 rows, and then ever fewer, down to 20."""
    epochs = ROWS_SEEN_BY_DEFAULT // n_rows
    return int(np.clip(epochs, MIN_DEFAULT_EPOCHS, MAX_DEFAULT_EPOCHS))


def default_batch_size(n_rows: int) -> int:
    """Return 64, 128 or 256 rows, more for more rows."""
    log2_size = np.round(np.log2(n_rows / BATCHES_PER_EPOCH))
    return int(2 ** np.clip(log2_size, MIN_LOG2_BATCH_SIZE, MAX_LOG2_BATCH_SIZE))


def default_learning_rate(n_rows: int) -> float:
    """Interpolate `LEARNING_RATE_BY_ROWS` in log space."""
    log_rows, log_rates = np.log(np.transpose(LEARNING_RATE_BY_ROWS))
    return float(np.exp(np.interp(np.log(n_rows), log_rows, log_rates)))


def shorten_patience(patience: int | None, n_rows: int) -> int | None:
    """Return the patience in epochs, shortened if epochs are long.

    A network then waits for about as many rows as `patience` epochs of
    `MAX_ROWS_FOR_FULL_PATIENCE` rows have.
    """
    if patience is None:
        return None
    rows_per_epoch = min(n_rows, MAX_ROWS_PER_EPOCH)
    epochs = patience * MAX_ROWS_FOR_FULL_PATIENCE / rows_per_epoch
    return min(patience, int(np.ceil(epochs)))


def check_number_of_steps(max_epochs: int, n_rows: int, batch_size: int) -> None:
    """Raise an ArgumentError if the training steps cannot be counted in 32 bits."""
    rows_per_epoch = min(n_rows, MAX_ROWS_PER_EPOCH)
    steps_per_epoch = round_up_to_few_sizes(rows_per_epoch, batch_size) // batch_size
    most = MAX_STEPS // steps_per_epoch
    if max_epochs > most:
        raise ArgumentError(
            f"must be at most {most} for this number of rows, because steps are "
            f"counted in 32 bits, got {max_epochs}",
            argument="max_epochs",
        )


def find_unfinished(
    history: dict[str, np.ndarray], max_epochs: int, patience: int | None
) -> np.ndarray:
    """Return which networks were still improving when they reached `max_epochs`.

    They were if the last epochs, as many as `patience` but at most a quarter, brought
    more than a hundredth of the whole improvement: steps become small towards the
    limit, and the last epoch is often the best by a hair.

    Parameters
    ----------
    history : dict of arrays of shape (n_epochs, n_networks)
    max_epochs : int
    patience : int or None

    Returns
    -------
    array of bool, shape (n_networks,)
    """
    losses = history.get("validation", np.zeros((0, 1)))
    if losses.ndim == 1:
        losses = losses[:, None]
    if patience is None or len(losses) < max_epochs:
        return np.zeros(losses.shape[1], bool)

    # `fmin` ignores NaN, which fills the epochs after a network has stopped.
    best = np.fmin.accumulate(losses, axis=0)
    last_epochs = min(patience, -(-len(best) // 4))
    best_before = best[max(len(best) - 1 - last_epochs, 0)]

    # The difference is inf - inf for a network that has learnt nothing.
    with np.errstate(invalid="ignore"):
        improved = best_before - best[-1] > 0.01 * (best[0] - best[-1])
    return ~np.isnan(losses[-1]) & improved
