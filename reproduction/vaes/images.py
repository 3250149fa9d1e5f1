"""Images for experiments on VAEs: settings, random splits, coordinates, pictures."""

import base64
import dataclasses
import math
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from mmlp.datasets import FREY_SHAPE, Components, digits, frey_faces, random_split
from mmlp.plotting import plot_images
from reproduction.harness.result_cache import load_or_compute

# Candidate weights of the mean in shrunk variances; 1 makes all variances equal.
SHRINKAGES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)

MAX_PANELS_PER_ROW = 3


class ImageParts(NamedTuple):
    """Training, validation and test images of a split, pixels of shape (n, p)."""

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray


class Split(NamedTuple):
    """Training, validation and test rows of a split in standardised coordinates."""

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray
    # Turns the rows back into images.
    components: Components


@dataclasses.dataclass(frozen=True)
class ImageSettings:
    """The images and the sizes of their random splits.

    These are settings of all experiments on VAEs.
    """

    # "frey" or "digits"; the digits need no file.
    images: str = "frey"
    # Folder of frey_rawface.mat.
    data: Path | None = None
    # Folder of finished parts, from which the same command resumes.
    keep: Path | None = None
    train: int = 1000
    # How many of the training images are held out to choose the epoch.
    validation: int = 150
    components: int = 10

    def read_images(self) -> tuple[np.ndarray, tuple[int, int]]:
        """Return the images (n, p) and the shape of an image."""
        if self.images == "digits":
            return digits()
        if self.images == "frey":
            return frey_faces(self.data), FREY_SHAPE
        raise ValueError(f'`--images` must be "frey" or "digits", got {self.images!r}.')

    def make_splits(self, seeds: Iterable[int]) -> list[Split]:
        """Return a split for each seed, in principal components.

        The components are those of all training images, with the validation images.
        """
        images, _ = self.read_images()
        splits = []
        for seed in seeds:
            training_rows, test_rows = random_split(len(images), self.train, seed)
            components = Components.fit(images[training_rows], self.components)
            training = components.encode(images[training_rows])
            splits.append(
                Split(
                    train=training[self.validation :],
                    validation=training[: self.validation],
                    test=components.encode(images[test_rows]),
                    components=components,
                )
            )
        return splits

    def split_dequantised(
        self, images: np.ndarray, seed: int, n_test: int | None = None
    ) -> ImageParts:
        """Return the parts of a split, with uniform noise in [0, 1) on each pixel."""
        X = images + np.random.default_rng([seed, 1]).random(images.shape)
        training_rows, test_rows = random_split(len(X), self.train, seed)
        return ImageParts(
            train=X[training_rows[self.validation :]],
            validation=X[training_rows[: self.validation]],
            test=X[test_rows[:n_test]],
        )

    def load_or_compute(
        self, description: dict[str, Any], compute: Callable[[], dict]
    ) -> dict:
        """Return a result that was kept for equal settings, or compute and keep it."""
        settings = dataclasses.asdict(self)
        # These settings do not change results.
        settings |= {"data": None, "keep": None, "jobs": None}
        return load_or_compute(
            self.keep, {"settings": settings, **description}, compute
        )


def encode_parts(parts: ImageParts, components: Components) -> Split:
    """Return a split in the coordinates of components."""
    return Split(
        train=components.encode(parts.train),
        validation=components.encode(parts.validation),
        test=components.encode(parts.test),
        components=components,
    )


def make_pixel_components(X: np.ndarray) -> Components:
    """Return components that standardise each pixel of X (n, p) on its own."""
    return Components(X.mean(axis=0), np.eye(X.shape[1]), X.std(axis=0))


def fit_shrunk_components(
    parts: ImageParts, first: int = 0
) -> tuple[Components, float]:
    """Return all principal directions, with variances shrunk to their mean.

    The training images have too little variance in the last directions. The validation
    images choose how far the variances are shrunk.

    Parameters
    ----------
    parts : ImageParts
    first : int, default=0
        The first direction to return.

    Returns
    -------
    components : Components
    shrinkage : float
    """
    mean = parts.train.mean(axis=0)
    axes = np.linalg.svd(parts.train - mean)[2][first:]
    variances = np.mean(((parts.train - mean) @ axes.T) ** 2, axis=0)

    def shrink(shrinkage: float) -> Components:
        shrunk = (1 - shrinkage) * variances + shrinkage * variances.mean()
        return Components(mean, axes, np.sqrt(shrunk))

    def validate(shrinkage: float) -> float:
        return gaussian_log_density(shrink(shrinkage), parts.validation).mean()

    best = max(SHRINKAGES, key=validate)
    return shrink(best), best


def gaussian_log_density(components: Components, X: np.ndarray) -> np.ndarray:
    """Return log densities (n,) of independent Gaussians along the components.

    They are in the units of X.
    """
    S = components.encode(X)
    return -0.5 * np.sum(S**2 + math.log(2 * math.pi), axis=1) + components.log_jacobian


def temper_scales(components: Components, power: float) -> Components:
    """Divide each direction by a power of its standard deviation only.

    The mean of the variances becomes one.
    """
    scale = components.scale**power
    root_mean_square = np.sqrt(np.mean((components.scale / scale) ** 2))
    return dataclasses.replace(components, scale=scale * root_mean_square)


def pack_images(images: np.ndarray) -> str:
    """Return pixels from 0 to 255 as text: rounded to uint8, compressed, in base 64.

    Examples
    --------
    >>> unpack_images(pack_images(np.array([[-3.0, 1.6], [20.0, 300.0]])), 2)
    array([[  0,   2],
           [ 20, 255]], dtype=uint8)
    """
    pixels = np.clip(np.round(images), 0, 255).astype(np.uint8)
    return base64.b64encode(zlib.compress(pixels.tobytes(), 9)).decode()


def unpack_images(text: str, n_pixels: int) -> np.ndarray:
    """Return the images (n, n_pixels) of `pack_images`."""
    content = zlib.decompress(base64.b64decode(text))
    return np.frombuffer(content, np.uint8).reshape(-1, n_pixels)


def components_to_json(components: Components) -> dict[str, list]:
    """Return what `decode_components` needs, to a tenth of a grey level."""
    axes = components.scale[:, None] * components.axes
    return {
        "mean": np.round(components.mean, 1).tolist(),
        "axes": np.round(axes, 1).tolist(),
    }


def decode_components(record: dict[str, list], S: list) -> np.ndarray:
    """Return images (n, p) from standardised components S (n, count)."""
    mean = np.asarray(record["mean"])
    axes = np.asarray(record["axes"])
    return mean + np.asarray(S, np.float64) @ axes


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
