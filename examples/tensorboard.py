"""Follow a training run from outside.

It writes one line of CSV per epoch, and event files of TensorBoard where `tensorboardX`
is installed:

    python examples/tensorboard.py runs/example
    tensorboard --logdir runs/example

`on_epoch` takes any function of one `EpochInfo`; a resumed run calls it for the
remaining epochs.
"""

import csv
import sys
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp

import mmlp

Callback = Callable[[mmlp.EpochInfo], None]


def make_csv_writer(path: Path) -> Callback:
    """Make a function for `on_epoch` that appends to a CSV file."""
    path.parent.mkdir(parents=True, exist_ok=True)

    def write(info: mmlp.EpochInfo) -> None:
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

    return write


def make_tensorboard_writer(folder: Path) -> Callback:
    """Make a function for `on_epoch` that writes TensorBoard's event files."""
    try:
        from tensorboardX import SummaryWriter  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ImportError(
            "TensorBoard's event files need tensorboardX: pip install tensorboardX"
        ) from None
    writer = SummaryWriter(str(folder))

    def write(info: mmlp.EpochInfo) -> None:
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
    rotation = jnp.array([[0.8, 0.6], [-0.6, 0.8]])
    Y = mmlp.Gram.trace_one(jnp.exp(0.5 * X)[:, :, None] * rotation)
    model = mmlp.calibrate(mmlp.MatrixMLP(2, 2, (6,), key=key), X, key=key)

    callbacks = [make_csv_writer(folder / "epochs.csv")]
    try:
        callbacks.append(make_tensorboard_writer(folder))
    except ImportError as error:
        print(error)

    return mmlp.fit(
        model,
        loss,
        (X[:150], Y[:150]),
        key=key,
        epochs=30,
        batch_size=25,
        validation=(X[150:], Y[150:]),
        on_epoch=callbacks,
    )


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/example")
    best = main(folder).history["validation"].min()
    print(f"best validation loss {best:.5f}; every epoch is in {folder / 'epochs.csv'}")
