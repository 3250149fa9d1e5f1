"""Images for the experiments on VAEs: random splits, coordinates of a VAE, pictures of records."""

import base64
import dataclasses
import math
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from mmlp.datasets import FREY_SHAPE, Components, digits, frey_faces, random_split
from mmlp.plotting import plot_images
from reproduction.harness import jobs

SHRINKAGES = (
    0.001,
    0.003,
    0.01,
    0.03,
    0.1,
    0.3,
    1.0,
)  # of variances to their mean; 1: all equal
Parts = tuple[
    np.ndarray, np.ndarray, np.ndarray
]  # training, validation and test images


class Split(NamedTuple):
    """Standardised training, validation and test rows of one split, and the way back."""

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray
    components: Components


@dataclasses.dataclass(frozen=True)
class Data:
    """The images, and the sizes of their random splits: settings of all experiments on VAEs."""

    images: str = "frey"  # or "digits", which need no file
    data: Path | None = None  # folder of frey_rawface.mat
    keep: Path | None = (
        None  # folder of finished parts: the same command goes on from there
    )
    train: int = 1000
    validation: int = 150  # of the training images, held out to choose the epoch
    components: int = 10

    def read(self) -> tuple[np.ndarray, tuple[int, int]]:
        """Images (n, p) and the shape of one."""
        if self.images == "digits":
            return digits()
        if self.images != "frey":
            raise ValueError(
                f'`--images` must be "frey" or "digits", got {self.images!r}.'
            )
        return frey_faces(self.data), FREY_SHAPE

    def splits(self, seeds: Iterable[int]) -> list[Split]:
        """One for each seed, in the principal components of all its training images."""
        images, found, held_out = self.read()[0], [], self.validation
        for seed in seeds:
            rows, rest = random_split(len(images), self.train, seed)
            components = Components.fit(images[rows], self.components)
            S, test = components.encode(images[rows]), components.encode(images[rest])
            found.append(Split(S[held_out:], S[:held_out], test, components))
        return found

    def dequantised(
        self, images: np.ndarray, seed: int, test: int | None = None
    ) -> Parts:
        """The parts of a split, with uniform noise in [0, 1) added to each pixel."""
        X = images + np.random.default_rng([seed, 1]).random(images.shape)
        rows, rest = random_split(len(X), self.train, seed)
        return X[rows[self.validation :]], X[rows[: self.validation]], X[rest[:test]]

    def kept(self, about: dict[str, Any], make: Callable[[], dict]) -> dict:
        """What `make` gives, or gave before for equal settings and `about`."""
        known = dataclasses.asdict(self) | dict.fromkeys(("data", "keep", "jobs"))
        return jobs.kept(self.keep, {"settings": known, **about}, make)


def encoded(parts: Parts, components: Components) -> Split:
    return Split(*map(components.encode, parts), components=components)


def single_pixels(X: np.ndarray) -> Components:
    """Each pixel by itself, standardised."""
    return Components(X.mean(axis=0), np.eye(X.shape[1]), X.std(axis=0))


def principal_directions(parts: Parts, first: int = 0) -> tuple[Components, float]:
    """All from `first` on, divided by their standard deviations, and how much these were shrunk.

    Validation says how far variances go to their mean: training images have too little in the last.
    """
    mean = parts[0].mean(axis=0)
    axes = np.linalg.svd(parts[0] - mean)[2][first:]
    variances = np.mean(((parts[0] - mean) @ axes.T) ** 2, axis=0)

    def shrunk(part: float) -> Components:
        return Components(
            mean, axes, np.sqrt((1 - part) * variances + part * variances.mean())
        )

    best = max(SHRINKAGES, key=lambda part: gaussian(shrunk(part), parts[1]).mean())
    return shrunk(best), best


def gaussian(components: Components, X: np.ndarray) -> np.ndarray:
    """Log-densities (n,) in raw units of independent Gaussians along the components."""
    S = components.encode(X)
    return -0.5 * np.sum(S**2 + math.log(2 * math.pi), axis=1) + components.log_jacobian


def tempered(components: Components, power: float) -> Components:
    """Divided by the `power` of each standard deviation only; the mean of the variances is one."""
    scale = components.scale**power
    size = np.sqrt(np.mean((components.scale / scale) ** 2))
    return dataclasses.replace(components, scale=scale * size)


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
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8).reshape(
        -1, pixels
    )


def components_record(components: Components) -> dict[str, list]:
    """What `decode` needs, to a tenth of a grey level for each component."""
    axes = components.scale[:, None] * components.axes
    return {
        "mean": np.round(components.mean, 1).tolist(),
        "axes": np.round(axes, 1).tolist(),
    }


def decode(record: dict[str, list], S: list) -> np.ndarray:
    """Images (n, p) from standardised components S (n, count)."""
    return np.asarray(record["mean"]) + np.asarray(S, np.float64) @ np.asarray(
        record["axes"]
    )


def mosaic(
    panels: dict, shape, most: float, path: Path, *, columns=10, size=(4.2, 5.2)
) -> None:
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
