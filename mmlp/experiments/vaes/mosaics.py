"""Pictures of many images: packed into a record, and drawn from it."""

import base64
import zlib
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from mmlp.datasets import Components
from mmlp.plotting import plot_images


def pack(images: np.ndarray) -> str:
    """Pixels 0 to 255 as text, rounded: rows of uint8, compressed, in base 64.

    >>> unpack(pack(np.array([[-3.0, 1.6], [20.0, 300.0]])), 2)
    array([[  0,   2],
           [ 20, 255]], dtype=uint8)
    """
    pixels = np.clip(np.round(images), 0, 255).astype(np.uint8)
    return base64.b64encode(zlib.compress(pixels.tobytes(), 9)).decode()


def unpack(text: str, pixels: int) -> np.ndarray:
    """The images of `pack`, shape (n, pixels)."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8).reshape(-1, pixels)


def components_record(components: Components) -> dict[str, list]:
    """What `decode` needs, to a tenth of a grey level for each component."""
    axes = components.scale[:, None] * components.axes
    return {"mean": np.round(components.mean, 1).tolist(), "axes": np.round(axes, 1).tolist()}


def decode(record: dict[str, list], S: list) -> np.ndarray:
    """Images (n, p) from standardised components S (n, count)."""
    return np.asarray(record["mean"]) + np.asarray(S, np.float64) @ np.asarray(record["axes"])


def save(panels: dict, shape, most: float, path: Path, *, columns=10, size=(4.2, 5.2)) -> None:
    """Panels of this size, three in a row: images (n, p) with pixels from 0 to `most`."""
    across = min(3, len(panels))
    down = -(-len(panels) // across)
    figure = Figure(figsize=(size[0] * across, size[1] * down), layout="constrained")
    for place, (title, images) in enumerate(panels.items(), 1):
        ax = figure.add_subplot(down, across, place)
        plot_images(np.clip(images, 0, most), shape, columns=columns, ax=ax)
        ax.images[0].set_clim(0, most)
        ax.set_title(title, fontsize=10)
    figure.savefig(path, dpi=110)
