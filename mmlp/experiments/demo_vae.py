"""The tour, third part: the density of handwritten digits, and new digits drawn from it.

    python -m mmlp.experiments.demo_vae [--quick] [--out report]

The images, 8 x 8, come with scikit-learn. A variational autoencoder with dense covariances learns the distribution of their
first principal components; samples are turned back into images.
"""

import dataclasses
from pathlib import Path
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from sklearn.mixture import GaussianMixture

from mmlp.calibration import calibrate
from mmlp.datasets import Components, digits, random_split
from mmlp.experiments import _run, _tour
from mmlp.kernels import Linear
from mmlp.plotting import plot_images
from mmlp.training import fit
from mmlp.vae import paper_vae

TITLE = "a density of handwritten digits"
IMAGES = 40
WARM_UP = 0.3  # the part of training in which the weight of the KL term rises to one: without it the VAE ignores its latents
IMPORTANCE_SAMPLES = 100


@dataclasses.dataclass(frozen=True)
class Settings:
    """Learn the density of handwritten digits, and draw new ones."""

    components: int = 10
    latent: int = 5
    train: int = 1200
    validation: int = 200
    epochs: int = 80
    batch_size: int = 60
    seed: int = 0

    QUICK: ClassVar = {"components": 4, "latent": 2, "train": 200, "validation": 50, "epochs": 5}


def loss(vae, batch, key, t):
    """The negative evidence lower bound, its KL term with a weight that rises."""

    def one(x, key):
        likelihood, divergence = vae.terms(x, key)
        return jnp.minimum(t / WARM_UP, 1) * divergence - likelihood

    return jnp.mean(jax.vmap(one)(batch, jax.random.split(key, len(batch))))


def train(X: jax.Array, validation: jax.Array, settings: Settings):
    key, d = jax.random.key(settings.seed), X.shape[1]
    options = {"hidden_features": (60, 60), "output_kernel": Linear(), "direct": True}
    vae = calibrate(paper_vae("NfNf", d, settings.latent, (20, 20), key=key, **options), X[:300], key=key)
    return fit(vae, loss, X, validation=validation, key=key, epochs=settings.epochs, batch_size=settings.batch_size).model


@eqx.filter_jit
def log_density(vae, X):
    """log p(x) of each row, by importance sampling."""
    return jax.lax.map(lambda x: vae.log_evidence(x, jax.random.key(0), IMPORTANCE_SAMPLES), X, batch_size=50)


def run(settings: Settings) -> dict:
    pixels, _ = digits()
    fitted = settings.train + settings.validation
    rows, rest = random_split(len(pixels), fitted, settings.seed)
    components = Components.fit(pixels[rows], settings.components)
    X, test = (jnp.asarray(components.encode(pixels[index]), jnp.float32) for index in (rows, rest))
    vae = train(X[: settings.train], X[settings.train :], settings)
    densities = {
        "Gaussian": GaussianMixture(1).fit(X).score_samples(test),
        "mixture of 10 Gaussians": GaussianMixture(10, random_state=settings.seed).fit(X).score_samples(test),
        "VAE with dense covariances": np.asarray(log_density(vae, test)),
    }
    scores = {name: [-float(np.mean(values)) - components.log_jacobian] for name, values in densities.items()}
    samples = eqx.filter_jit(lambda vae, key: vae.sample(key, IMAGES))(vae, jax.random.key(settings.seed))
    pictures = {
        "images": pixels[rest[:IMAGES]],
        f"{settings.components} components": components.decode(np.asarray(test[:IMAGES])),
        "samples": components.decode(np.asarray(samples)),
    }
    return {
        "title": TITLE,
        "about": f"{fitted} images of digits, reduced to {settings.components} principal components. A VAE with "
        f"{settings.latent} latent variables learns their distribution; the table compares it with simpler densities on "
        f"{len(test)} unseen images.",
        "tables": [_tour.table("Negative log-density, the smaller the better", ["model", "per image"], scores)],
        "figures": [
            {
                "file": "demo-vae.png",
                "caption": "Unseen images; what the components keep of them; and samples of the VAE.",
            }
        ],
        "pictures": {name: np.clip(images, 0, 16).round(2).tolist() for name, images in pictures.items()},
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
