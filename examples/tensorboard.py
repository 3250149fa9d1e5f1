"""Monitor a run from outside.

Write one line of CSV per epoch, and TensorBoard's event files if `tensorboardX` is
installed:

    python examples/tensorboard.py runs/example
    tensorboard --logdir runs/example

`on_epoch` takes any function of one `EpochInfo`. A run that resumes after an
interruption calls it for the remaining epochs.
"""

import csv
import sys
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp

import mmlp

N_TRAINING = 150
N_VALIDATION = 50


def write_csv(path: Path) -> Callable[[mmlp.EpochInfo], None]:
    """Return a callback for `on_epoch` that appends to a CSV file."""
    path.parent.mkdir(parents=True, exist_ok=True)

    def append_epoch(info: mmlp.EpochInfo) -> None:
        is_new = not path.exists()
        with open(path, "a", newline="") as file:
            writer = csv.writer(file)
            if is_new:
                writer.writerow(["epoch", "loss", "validation", "skipped"])
            writer.writerow(
                [
                    info.epoch,
                    float(info.loss),
                    float(info.validation),
                    int(info.skipped),
                ]
            )

    return append_epoch


def write_tensorboard(folder: Path) -> Callable[[mmlp.EpochInfo], None]:
    """Return a callback for `on_epoch` that writes TensorBoard's event files."""
    try:
        from tensorboardX import SummaryWriter  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ImportError(
            "`write_tensorboard` needs tensorboardX: pip install tensorboardX"
        ) from None
    writer = SummaryWriter(str(folder))

    def add_epoch(info: mmlp.EpochInfo) -> None:
        writer.add_scalar("loss", float(info.loss), info.epoch)
        writer.add_scalar("validation", float(info.validation), info.epoch)
        writer.add_scalar("skipped steps", int(info.skipped), info.epoch)
        writer.flush()

    return add_epoch


def loss(
    model: mmlp.MatrixMLP,
    batch: tuple[jax.Array, mmlp.Gram],
    key: jax.Array,
    t: jax.Array,
) -> jax.Array:
    """Return the mean von Neumann divergence of a batch."""
    X, Y = batch
    return jnp.mean(mmlp.von_neumann(jax.vmap(model)(X), Y))


def main(folder: Path) -> mmlp.FitResult:
    key = jax.random.key(0)
    X = jax.random.normal(key, (N_TRAINING + N_VALIDATION, 2))
    rotation = jnp.array([[0.8, 0.6], [-0.6, 0.8]])
    Y = mmlp.Gram.trace_one(jnp.exp(0.5 * X)[:, :, None] * rotation)
    training = (X[:N_TRAINING], Y[:N_TRAINING])
    validation = (X[N_TRAINING:], Y[N_TRAINING:])

    callbacks = [write_csv(folder / "epochs.csv")]
    try:
        callbacks.append(write_tensorboard(folder))
    except ImportError as error:
        print(error)

    model = mmlp.calibrate(mmlp.MatrixMLP(2, 2, (6,), key=key), X, key=key)
    return mmlp.fit(
        model,
        loss,
        training,
        key=key,
        epochs=30,
        batch_size=25,
        validation=validation,
        on_epoch=callbacks,
    )


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/example")
    best = main(folder).history["validation"].min()
    print(f"best validation loss {best:.5f}; every epoch is in {folder / 'epochs.csv'}")
