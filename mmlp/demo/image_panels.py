"""Figures that show several sets of grey images side by side."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from mmlp.plotting import plot_images

MAX_PANELS_PER_ROW = 3


def save_image_panels(
    panels: Mapping[str, ArrayLike],
    shape: tuple[int, int],
    max_value: float,
    path: Path,
    *,
    images_per_row: int = 10,
    panel_size: tuple[float, float] = (4.2, 5.2),
) -> None:
    """Save a figure with a panel for each set of images.

    Parameters
    ----------
    panels : mapping from title to images (n, p)
        Grey values from 0 to `max_value`; others are clipped.
    shape : tuple of int
        The shape of an image.
    max_value : float
        The grey value of white.
    path : Path
        The file.
    images_per_row : int, default=10
        Images beside each other in a panel.
    panel_size : tuple of float, default=(4.2, 5.2)
        Width and height of a panel, in inches.
    """
    n_columns = min(MAX_PANELS_PER_ROW, len(panels))
    n_rows = -(-len(panels) // n_columns)
    width, height = panel_size
    figure = Figure(figsize=(width * n_columns, height * n_rows), layout="constrained")
    for place, (title, images) in enumerate(panels.items(), 1):
        ax = figure.add_subplot(n_rows, n_columns, place)
        images = np.clip(images, 0, max_value)
        plot_images(images, shape, columns=images_per_row, ax=ax)
        ax.images[0].set_clim(0, max_value)
        ax.set_title(title, fontsize=10)
    figure.savefig(path, dpi=110)
