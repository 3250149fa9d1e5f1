"""The tour, third part: the density of handwritten digits, and samples from it.

The images, 8 x 8 pixels, come with scikit-learn. A VAE with dense covariances learns
the distribution of their first principal components; samples are turned back into
images.
"""

import dataclasses
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from matplotlib.figure import Figure
from sklearn.mixture import GaussianMixture

from mmlp.datasets import Components, digits, random_split
from mmlp.demo.text_table import make_table
from mmlp.estimators import MatrixVAE
from mmlp.plotting import plot_images

TITLE = "a density of handwritten digits"
FIGURE_FILE = "demo-vae.png"
N_IMAGES = 40
IMAGE_SHAPE = (8, 8)
LARGEST_PIXEL = 16
PANEL_SIZE_IN_INCHES = (2.6, 4)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Learn the density of handwritten digits, and draw new ones."""

    components: int = 10
    latent: int = 5
    train: int = 1400  # of which the model holds some out for validation
    epochs: int = 80
    seed: int = 0

    QUICK: ClassVar = {"components": 4, "latent": 2, "train": 250, "epochs": 5}


def run(settings: Settings) -> dict[str, Any]:
    """Fit three densities and compare them on held-out images."""
    pixels = digits()[0]
    train_rows, test_rows = random_split(len(pixels), settings.train, settings.seed)
    components = Components.fit(pixels[train_rows], settings.components)
    train = components.encode(pixels[train_rows])
    test = components.encode(pixels[test_rows])

    vae = MatrixVAE(
        settings.latent, max_epochs=settings.epochs, random_state=settings.seed
    )
    models = {
        "Gaussian": GaussianMixture(1),
        "mixture of 10 Gaussians": GaussianMixture(10, random_state=settings.seed),
        "VAE with dense covariances": vae,
    }
    scores = {}
    for name, model in models.items():
        log_density = np.mean(model.fit(train).score_samples(test))
        scores[name] = [-float(log_density) - components.log_jacobian]

    samples = vae.sample(N_IMAGES, random_state=settings.seed)
    images = {
        "images": pixels[test_rows[:N_IMAGES]],
        f"{settings.components} components": components.decode(test[:N_IMAGES]),
        "samples": components.decode(samples),
    }
    return {
        "title": TITLE,
        "about": (
            f"{settings.train} images of digits, reduced to {settings.components} "
            f"principal components. A VAE with {settings.latent} latent variables "
            "learns their distribution; the table compares it with simpler densities "
            f"on {len(test)} unseen images."
        ),
        "tables": [make_table("Negative log-density", ["model", "per image"], scores)],
        "figures": [
            {
                "file": FIGURE_FILE,
                "caption": (
                    "Unseen images; what the components keep of them; and samples of "
                    "the VAE."
                ),
            }
        ],
        "pictures": {
            name: np.clip(values, 0, LARGEST_PIXEL).round(2).tolist()
            for name, values in images.items()
        },
    }


def draw(record: dict[str, Any], out: Path) -> None:
    """Draw the images of a record side by side."""
    pictures = record["result"]["pictures"]
    width, height = PANEL_SIZE_IN_INCHES
    figure = Figure(figsize=(width * len(pictures), height), layout="constrained")
    all_axes = figure.subplots(1, len(pictures))
    for ax, (title, images) in zip(all_axes, pictures.items(), strict=True):
        plot_images(np.clip(images, 0, LARGEST_PIXEL), IMAGE_SHAPE, columns=5, ax=ax)
        ax.images[0].set_clim(0, LARGEST_PIXEL)
        ax.set_title(title, fontsize=10)
    figure.savefig(out / FIGURE_FILE, dpi=110)
