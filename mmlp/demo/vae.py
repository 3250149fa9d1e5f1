"""The tour, third part: the density of handwritten digits, and new digits drawn from it.

The images, 8 x 8, come with scikit-learn. A VAE with dense covariances learns the distribution of
their first principal components; samples are turned back into images.
"""

import dataclasses
from pathlib import Path
from typing import ClassVar

import numpy as np
from sklearn.mixture import GaussianMixture

from mmlp.datasets import Components, digits, random_split
from mmlp.demo.image_panels import save_image_panels
from mmlp.demo.tables import table
from mmlp.estimators import MatrixVAE

TITLE = "a density of handwritten digits"
IMAGES = 40


@dataclasses.dataclass(frozen=True)
class Settings:
    """Learn the density of handwritten digits, and draw new ones."""

    components: int = 10
    latent: int = 5
    train: int = 1400  # of which the model holds some out
    epochs: int = 80
    seed: int = 0

    QUICK: ClassVar = {"components": 4, "latent": 2, "train": 250, "epochs": 5}


def run(settings: Settings) -> dict:
    pixels, seed = digits()[0], settings.seed
    rows, rest = random_split(len(pixels), settings.train, seed)
    components = Components.fit(pixels[rows], settings.components)
    X, test = (components.encode(pixels[index]) for index in (rows, rest))
    vae = MatrixVAE(settings.latent, max_epochs=settings.epochs, random_state=seed)
    mixture = GaussianMixture(10, random_state=seed)
    models = {"Gaussian": GaussianMixture(1), "mixture of 10 Gaussians": mixture}
    models |= {"VAE with dense covariances": vae}
    means = {
        name: np.mean(model.fit(X).score_samples(test))
        for name, model in models.items()
    }
    scores = {
        name: [-float(mean) - components.log_jacobian] for name, mean in means.items()
    }
    pictures = {
        "images": pixels[rest[:IMAGES]],
        f"{settings.components} components": components.decode(test[:IMAGES]),
        "samples": components.decode(vae.sample(IMAGES, random_state=seed)),
    }
    caption = "Unseen images; what the components keep of them; and samples of the VAE."
    return {
        "title": TITLE,
        "about": f"{settings.train} images of digits, reduced to {settings.components} principal "
        f"components. A VAE with {settings.latent} latent variables learns their distribution; the "
        f"table compares it with simpler densities on {len(test)} unseen images.",
        "tables": [table("Negative log-density", ["model", "per image"], scores)],
        "figures": [{"file": "demo-vae.png", "caption": caption}],
        "pictures": {
            name: np.clip(x, 0, 16).round(2).tolist() for name, x in pictures.items()
        },
    }


def draw(record: dict, out: Path) -> None:
    save_image_panels(
        record["result"]["pictures"],
        (8, 8),
        16,
        out / "demo-vae.png",
        images_per_row=5,
        panel_size=(2.6, 4),
    )
