"""Patches of photographs, with covariances of 3072 x 3072.

Two photographs come with scikit-learn: a palace (china.jpg) and a flower (flower.jpg). The left
three quarters of the palace train, in 2000 patches of 32 x 32 pixels and three colours, mirrored
and with their channels permuted at random; the rest of it, mostly sky and trees, tests, and so does
the flower, which differs in content: most of it is out of focus, in colours that the palace lacks.
Values are standardised by one mean and one deviation, as permuted channels are alike.

The decoder of a VAE leads from 16 latent variables to a mean, a diagonal and 16 loadings: nothing
has the 9.4 million numbers of a covariance matrix. Beside it stands one Gaussian with as many
directions in all, 32 factors, by factor analysis. Scores are bits for each of the 3072 values,
fewer being better; 8 is what uniform values would take. This is a picture of scale, not a claim:
two photographs are no benchmark, and the flower is far from what the VAE has seen.
"""

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib import pyplot
from sklearn.datasets import load_sample_images
from sklearn.decomposition import FactorAnalysis
from sklearn.feature_extraction.image import extract_patches_2d

import mmlp

SIDE, SIZE, LATENT, RANK, BATCH = 32, 3072, 16, 16, 20


def patches(image, n: int, seed: int, *, vary: bool = False) -> np.ndarray:
    """n patches (n, 32, 32, 3), values in [0, 256): integers plus the noise of their rounding."""
    values = extract_patches_2d(image, (SIDE, SIDE), max_patches=n, random_state=seed)
    random = np.random.default_rng(seed)
    if vary:
        i, j = random.choice([-1, 1], (2, n))
        values = [
            x[:: i[k], :: j[k], random.permutation(3)] for k, x in enumerate(values)
        ]
    return np.asarray(values) + random.random((n, SIDE, SIDE, 3), np.float32)


def loss(vae, X, key, t):
    likelihood, divergence = jax.vmap(vae.terms)(X, jax.random.split(key, len(X)))
    return jnp.mean(jnp.minimum(3 * t, 1) * divergence - likelihood) / SIZE


def autoencoder(X, epochs: int, key) -> mmlp.VAE:
    keys, network, output = (
        jax.random.split(key, 4),
        mmlp.JointMatrixMLP,
        mmlp.LowRank(RANK),
    )
    encoder = network(SIZE, LATENT, (20,), LATENT + 1, (50,), key=keys[0])
    decoder = network(LATENT, SIZE, (20,), SIZE + 1, (50,), output=output, key=keys[1])
    vae = mmlp.VAE(mmlp.GaussianHead(encoder), mmlp.GaussianHead(decoder))
    vae = mmlp.calibrate(vae, X[:500], targets=X[:500], key=keys[2])
    optimizer = mmlp.default_optimizer(epochs * len(X) // BATCH, 0.005)
    options = {
        "epochs": epochs,
        "batch_size": BATCH,
        "optimizer": optimizer,
        "progress": False,
    }
    return mmlp.fit(vae, loss, X, key=keys[3], **options).model


def factor_analysis(X) -> mmlp.TraceOneGaussian:
    model = FactorAnalysis(LATENT + RANK, random_state=0).fit(X)
    covariance = mmlp.LowRankGram(model.noise_variance_**0.5, model.components_)
    return mmlp.TraceOneGaussian.from_moments(model.mean_, covariance)


def main(epochs: int = 8) -> None:
    china, flower = load_sample_images().images
    train = patches(china[:, :480], 2000, 0, vary=True)
    mean, deviation = train.mean(), train.std()
    parts = {
        "china.jpg, training part": train,
        "china.jpg, test part": patches(china[:, 480:], 200, 1),
        "flower.jpg, test": patches(flower, 200, 2),
    }
    rows = {name: (x.reshape(-1, SIZE) - mean) / deviation for name, x in parts.items()}
    (X, _, X_flower), keys = rows.values(), jax.random.split(jax.random.key(0), 3)
    gaussian, vae = factor_analysis(X), autoencoder(X, epochs, keys[0])

    evidence = jax.jit(jax.vmap(lambda x: vae.log_evidence(x, keys[1], 20)))
    print(f"bits a value               {LATENT + RANK} factors   VAE")
    for name, x in rows.items():
        densities = (
            gaussian.log_prob(x[:200]),
            jax.lax.map(evidence, x[:200].reshape(20, 10, -1)),
        )
        nats = [np.log(deviation) - np.mean(log_p) / SIZE for log_p in densities]
        print(f"{name:27}{nats[0] / np.log(2):10.2f}{nats[1] / np.log(2):6.2f}")

    U = vae.decode(vae.encode(X_flower[0]).mean).omega.U
    U = U[jnp.argsort(-jnp.sum(U**2, axis=1))][:12]
    panels = {name: x[:12] * deviation + mean for name, x in rows.items()}
    panels["samples of the VAE"] = vae.sample(keys[2], 12) * deviation + mean
    panels["samples of one Gaussian"] = (
        gaussian.sample(keys[2], (12,)) * deviation + mean
    )
    shown = 128 + 127 * U / jnp.max(jnp.abs(U), axis=1, keepdims=True)
    panels[
        "loadings at the first patch of flower.jpg, each on its own scale; grey is zero"
    ] = shown
    figure, axes = pyplot.subplots(
        len(panels), 1, figsize=(8, 5.9), layout="constrained"
    )
    for axis, (title, x) in zip(axes, panels.items(), strict=True):
        images = np.clip(np.asarray(x).reshape(-1, SIDE, SIDE, 3) / 256, 0, 1)
        framed = np.pad(images, ((0, 0), (0, 0), (1, 1), (0, 0)), constant_values=1)
        axis.imshow(np.concatenate(list(framed), axis=1))
        axis.set_title(title, fontsize="medium", loc="left")
        axis.set_axis_off()
    figure.savefig("colour_patches.png", dpi=120)


if __name__ == "__main__":
    main()
