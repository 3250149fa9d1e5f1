"""Follow a run from outside.

One line of CSV an epoch, and TensorBoard where `tensorboardX` is installed:

    python examples/tensorboard.py runs/example
    tensorboard --logdir runs/example

`on_epoch` takes any function of one `EpochInfo`; after an interruption it is called for the epochs
that follow.
"""

import csv
import sys
from pathlib import Path

import jax
import jax.numpy as jnp

import mmlp


def to_csv(path: Path):
    """A function for `on_epoch` that appends to a CSV file."""
    path.parent.mkdir(parents=True, exist_ok=True)

    def write(info):
        new = not path.exists()
        with open(path, "a", newline="") as file:
            writer = csv.writer(file)
            if new:
                writer.writerow(["epoch", "loss", "validation", "skipped"])
            numbers = float(info.loss), float(info.validation), int(info.skipped)
            writer.writerow([info.epoch, *numbers])

    return write


def to_tensorboard(folder: Path):
    """A function for `on_epoch` that writes TensorBoard's event files."""
    try:
        from tensorboardX import SummaryWriter  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ImportError(
            "`to_tensorboard` needs tensorboardX: pip install tensorboardX"
        ) from None
    writer = SummaryWriter(str(folder))

    def write(info):
        writer.add_scalar("loss", float(info.loss), info.epoch)
        writer.add_scalar("validation", float(info.validation), info.epoch)
        writer.add_scalar("skipped steps", int(info.skipped), info.epoch)
        writer.flush()

    return write


def loss(model, batch, key, t):
    X, Y = batch
    return jnp.mean(mmlp.von_neumann(jax.vmap(model)(X), Y))


def main(folder: Path) -> mmlp.FitResult:
    key = jax.random.key(0)
    X = jax.random.normal(key, (200, 2))
    Y = mmlp.Gram.trace_one(
        jnp.exp(0.5 * X)[:, :, None] * jnp.array([[0.8, 0.6], [-0.6, 0.8]])
    )
    train, validation = (
        (X[:150], mmlp.Gram(Y.factor[:150])),
        (X[150:], mmlp.Gram(Y.factor[150:])),
    )
    model = mmlp.calibrate(mmlp.MatrixMLP(2, 2, (6,), key=key), X, key=key)

    callbacks = [to_csv(folder / "epochs.csv")]
    try:
        callbacks.append(to_tensorboard(folder))
    except ImportError as error:
        print(error)
    options = {
        "epochs": 30,
        "batch_size": 25,
        "validation": validation,
        "on_epoch": callbacks,
    }
    return mmlp.fit(model, loss, train, key=key, **options)


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/example")
    best = main(folder).history["validation"].min()
    print(f"best validation loss {best:.5f}; every epoch is in {folder / 'epochs.csv'}")
