"""Patches of photographs, with covariances of 3072 x 3072.

Two photographs come with scikit-learn: a palace (china.jpg) and a flower (flower.jpg).
The left three quarters of the palace are the training part: 2000 patches of 32 x 32
pixels and three colours, mirrored and with their channels permuted at random. The rest
of it, mostly sky and trees, is a test part, and so is the flower, which differs in
content: most of it is out of focus, in colours that the palace lacks. Values are
standardised by one mean and one deviation, because permuted channels are alike.

The decoder of a VAE maps 16 latent variables to a mean, a diagonal and 16 loadings: no
array has the 9.4 million numbers of a covariance matrix. It is compared with one
Gaussian with as many directions in all, 32 factors, by factor analysis. Scores are bits
per value of the 3072, lower is better; uniform values would take 8. This shows scale
and claims nothing else: two photographs are no benchmark, and the flower is far from
the training data.
"""

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib import pyplot
from sklearn.datasets import load_sample_images
from sklearn.decomposition import FactorAnalysis
from sklearn.feature_extraction.image import extract_patches_2d

import mmlp

SIDE = 32  # pixels
SIZE = SIDE * SIDE * 3  # values of a patch
LATENT = 16
RANK = 16
BATCH_SIZE = 20


def draw_patches(
    image: np.ndarray, n: int, seed: int, *, augment: bool = False
) -> np.ndarray:
    """Draw n patches (n, 32, 32, 3) with values in [0, 256).

    Uniform noise makes the integers of the image continuous.
    """
    values = extract_patches_2d(image, (SIDE, SIDE), max_patches=n, random_state=seed)
    rng = np.random.default_rng(seed)
    if augment:
        vertical, horizontal = rng.choice([-1, 1], (2, n))
        values = [
            patch[:: vertical[k], :: horizontal[k], rng.permutation(3)]
            for k, patch in enumerate(values)
        ]
    return np.asarray(values) + rng.random((n, SIDE, SIDE, 3), np.float32)


def loss(vae, X, key, t):
    likelihood, divergence = jax.vmap(vae.terms)(X, jax.random.split(key, len(X)))
    # The weight of the KL term rises during the first third of the training.
    weight = jnp.minimum(3 * t, 1)
    return jnp.mean(weight * divergence - likelihood) / SIZE


def fit_autoencoder(X: np.ndarray, epochs: int, key: jax.Array) -> mmlp.VAE:
    key_encoder, key_decoder, key_calibration, key_fit = jax.random.split(key, 4)
    encoder = mmlp.JointMatrixMLP(
        in_features=SIZE,
        dim=LATENT,
        hidden_dims=(20,),
        out_features=LATENT + 1,
        hidden_features=(50,),
        key=key_encoder,
    )
    decoder = mmlp.JointMatrixMLP(
        in_features=LATENT,
        dim=SIZE,
        hidden_dims=(20,),
        out_features=SIZE + 1,
        hidden_features=(50,),
        output=mmlp.LowRank(RANK),
        key=key_decoder,
    )
    vae = mmlp.VAE(mmlp.GaussianHead(encoder), mmlp.GaussianHead(decoder))
    vae = mmlp.calibrate(vae, X[:500], targets=X[:500], key=key_calibration)
    return mmlp.fit(
        vae,
        loss,
        X,
        key=key_fit,
        epochs=epochs,
        batch_size=BATCH_SIZE,
        optimizer=mmlp.default_optimizer(epochs * len(X) // BATCH_SIZE, 0.005),
        progress=False,
    ).model


def fit_factor_analysis(X: np.ndarray) -> mmlp.TraceOneGaussian:
    model = FactorAnalysis(LATENT + RANK, random_state=0).fit(X)
    covariance = mmlp.LowRankGram(model.noise_variance_**0.5, model.components_)
    return mmlp.TraceOneGaussian.from_moments(model.mean_, covariance)


def draw_panels(panels: dict[str, np.ndarray]) -> None:
    """Draw each row of patches, with values in [0, 256), below its title."""
    figure, axes = pyplot.subplots(
        len(panels), 1, figsize=(8, 5.9), layout="constrained"
    )
    for axis, (title, values) in zip(axes, panels.items(), strict=True):
        images = np.clip(np.asarray(values).reshape(-1, SIDE, SIDE, 3) / 256, 0, 1)
        framed = np.pad(images, ((0, 0), (0, 0), (1, 1), (0, 0)), constant_values=1)
        axis.imshow(np.concatenate(list(framed), axis=1))
        axis.set_title(title, fontsize="medium", loc="left")
        axis.set_axis_off()
    figure.savefig("colour_patches.png", dpi=120)


def main(epochs: int = 8) -> None:
    china, flower = load_sample_images().images
    patches = {
        "china.jpg, training part": draw_patches(china[:, :480], 2000, 0, augment=True),
        "china.jpg, test part": draw_patches(china[:, 480:], 200, 1),
        "flower.jpg, test": draw_patches(flower, 200, 2),
    }
    train = patches["china.jpg, training part"]
    mean = train.mean()
    deviation = train.std()
    tables = {
        name: (values.reshape(-1, SIZE) - mean) / deviation
        for name, values in patches.items()
    }
    X = tables["china.jpg, training part"]
    X_flower = tables["flower.jpg, test"]

    key_fit, key_evidence, key_samples = jax.random.split(jax.random.key(0), 3)
    gaussian = fit_factor_analysis(X)
    vae = fit_autoencoder(X, epochs, key_fit)

    def to_bits(log_density) -> float:
        """Return bits per value, in the units of the image."""
        return (np.log(deviation) - np.mean(log_density) / SIZE) / np.log(2)

    log_evidence = jax.jit(jax.vmap(lambda x: vae.log_evidence(x, key_evidence, 20)))
    print(f"bits per value             {LATENT + RANK} factors   VAE")
    for name, values in tables.items():
        by_gaussian = to_bits(gaussian.log_prob(values[:200]))
        by_vae = to_bits(jax.lax.map(log_evidence, values[:200].reshape(20, 10, -1)))
        print(f"{name:27}{by_gaussian:10.2f}{by_vae:6.2f}")

    U = vae.decode(vae.encode(X_flower[0]).mean).omega.U
    largest = jnp.argsort(-jnp.sum(U**2, axis=1))[:12]
    loadings = U[largest] / jnp.max(jnp.abs(U[largest]), axis=1, keepdims=True)

    panels = {name: x[:12] * deviation + mean for name, x in tables.items()}
    panels["samples of the VAE"] = vae.sample(key_samples, 12) * deviation + mean
    samples = gaussian.sample(key_samples, (12,))
    panels["samples of one Gaussian"] = samples * deviation + mean
    panels["loadings at the first patch of flower.jpg, each scaled; grey is zero"] = (
        128 + 127 * loadings
    )
    draw_panels(panels)


if __name__ == "__main__":
    main()
