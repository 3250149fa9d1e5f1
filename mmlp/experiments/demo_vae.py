"""The tour, third part: the density of handwritten digits, and new digits drawn from it.

    python -m mmlp.experiments.demo_vae [--quick] [--out report]

The images, 8 x 8, come with scikit-learn. A variational autoencoder with dense covariances learns the distribution of their
first principal components; samples are turned back into images.
"""

import dataclasses
from pathlib import Path
from typing import ClassVar

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.mixture import GaussianMixture

from mmlp.estimators import MatrixVAE
from mmlp.experiments import _run, _tour
from mmlp.plotting import plot_images

TITLE = "a density of handwritten digits"
IMAGES = 40


@dataclasses.dataclass(frozen=True)
class Settings:
    """Learn the density of handwritten digits, and draw new ones."""

    components: int = 10
    train: int = 1400
    test: int = 397
    latent: int = 5
    epochs: int = 500  # at most
    seed: int = 0

    QUICK: ClassVar = {"components": 4, "train": 200, "test": 100, "latent": 2, "epochs": 5}


def run(settings: Settings) -> dict:
    rng = np.random.default_rng(settings.seed)
    pixels = rng.permutation(load_digits(return_X_y=True)[0])[: settings.train + settings.test]
    components = PCA(settings.components, random_state=settings.seed).fit(pixels[: settings.train])
    X = components.transform(pixels)
    train, test = X[: settings.train], X[settings.train :]
    vae = MatrixVAE(settings.latent, max_epochs=settings.epochs, random_state=settings.seed).fit(train)
    models = {
        "Gaussian": GaussianMixture(1, random_state=settings.seed).fit(train),
        "mixture of 10 Gaussians": GaussianMixture(10, random_state=settings.seed).fit(train),
        "MatrixVAE": vae,
    }
    scores = {name: [-float(np.mean(model.score_samples(test)))] for name, model in models.items()}
    pictures = {
        "images": pixels[-IMAGES:],
        f"{settings.components} components": components.inverse_transform(test[-IMAGES:]),
        "samples": components.inverse_transform(vae.sample(IMAGES)),
    }
    return {
        "title": TITLE,
        "about": f"{settings.train} images of digits, reduced to {settings.components} principal components. A VAE learns "
        f"their distribution; the table compares it with simpler densities on {settings.test} unseen images.",
        "tables": [_tour.table("Negative log-density, the smaller the better", ["model", "per image"], scores)],
        "figures": [
            {
                "file": "demo-vae.png",
                "caption": "Unseen images; what the components keep of them; and samples of the VAE.",
            }
        ],
        "pictures": {name: np.round(images, 2).tolist() for name, images in pictures.items()},
    }


def draw(record: dict, out: Path) -> None:
    pictures = record["result"]["pictures"]
    figure = Figure(figsize=(2.6 * len(pictures), 4), layout="constrained")
    for axis, (name, images) in zip(figure.subplots(1, len(pictures)), pictures.items(), strict=True):
        plot_images(images, (8, 8), columns=5, ax=axis)
        axis.set_title(name)
    figure.savefig(out / "demo-vae.png", dpi=120)


if __name__ == "__main__":
    _run.main("demo-vae", Settings, run, draw)
