"""Patches of photographs, with covariances of 3072 x 3072.

Two photographs come with scikit-learn: a palace (china.jpg) and a flower (flower.jpg).
The left three quarters of the palace give 2000 training patches of 32 x 32 pixels and
three colours, mirrored and with their channels permuted at random. The remaining
quarter, mostly sky and trees, is a test set. So is the flower, which differs in
content: most of it is out of focus, in colours that the palace lacks. All values are
standardised by one mean and one deviation, because permuted channels are alike.

The decoder of a VAE maps 16 latent variables to a mean, a diagonal and 16 loadings:
nothing has the 9.4 million entries of a covariance matrix. It is compared with one
Gaussian with as many directions in all, 32 factors fitted by factor analysis. Scores
are bits per value (smaller is better); uniform values would take 8. The example shows
that the scale is feasible and claims nothing else: two photographs are no benchmark,
and the flower is far from the training data of the VAE.
"""

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib import pyplot
from sklearn.datasets import load_sample_images
from sklearn.decomposition import FactorAnalysis
from sklearn.feature_extraction.image import extract_patches_2d

import mmlp

SIDE_IN_PIXELS = 32
PATCH_SHAPE = (SIDE_IN_PIXELS, SIDE_IN_PIXELS, 3)
N_VALUES = 3072  # of a patch: 32 x 32 x 3
TRAINING_WIDTH_IN_PIXELS = 480
N_TRAINING = 2000
N_TEST = 200
N_LATENT = 16
RANK = 16
BATCH_SIZE = 20
LEARNING_RATE = 0.005
N_DRAWS_PER_PATCH = 20
N_SHOWN = 12


def draw_patches(
    image: np.ndarray, n: int, seed: int, *, augment: bool = False
) -> np.ndarray:
    """Cut n patches (n, 32, 32, 3) at random places.

    Uniform noise is added to the integer values, which gives values in [0, 256).
    """
    size = (SIDE_IN_PIXELS, SIDE_IN_PIXELS)
    patches = extract_patches_2d(image, size, max_patches=n, random_state=seed)
    rng = np.random.default_rng(seed)
    if augment:
        vertical, horizontal = rng.choice([-1, 1], (2, n))
        patches = np.asarray(
            [
                patch[:: vertical[k], :: horizontal[k], rng.permutation(3)]
                for k, patch in enumerate(patches)
            ]
        )
    return patches + rng.random((n, *PATCH_SHAPE), np.float32)


def loss(vae: mmlp.VAE, X: jax.Array, key: jax.Array, t: jax.Array) -> jax.Array:
    """Return the negative evidence lower bound per value, at time t of training."""
    likelihood, divergence = jax.vmap(vae.terms)(X, jax.random.split(key, len(X)))
    warm_up = jnp.minimum(3 * t, 1)
    return jnp.mean(warm_up * divergence - likelihood) / N_VALUES


def train_vae(X: np.ndarray, epochs: int, key: jax.Array) -> mmlp.VAE:
    """Train a VAE whose decoder has covariances of low rank plus diagonal."""
    encoder_key, decoder_key, calibration_key, fit_key = jax.random.split(key, 4)
    encoder = mmlp.JointMatrixMLP(
        N_VALUES,
        N_LATENT,
        hidden_dims=(20,),
        out_features=N_LATENT + 1,
        hidden_features=(50,),
        key=encoder_key,
    )
    decoder = mmlp.JointMatrixMLP(
        N_LATENT,
        N_VALUES,
        hidden_dims=(20,),
        out_features=N_VALUES + 1,
        hidden_features=(50,),
        output=mmlp.LowRank(RANK),
        key=decoder_key,
    )
    vae = mmlp.VAE(mmlp.GaussianHead(encoder), mmlp.GaussianHead(decoder))
    vae = mmlp.calibrate(vae, X[:500], targets=X[:500], key=calibration_key)

    n_steps = epochs * len(X) // BATCH_SIZE
    result = mmlp.fit(
        vae,
        loss,
        X,
        key=fit_key,
        epochs=epochs,
        batch_size=BATCH_SIZE,
        optimizer=mmlp.default_optimizer(n_steps, LEARNING_RATE),
        progress=False,
    )
    return result.model


def fit_factor_analysis(X: np.ndarray) -> mmlp.TraceOneGaussian:
    """Fit one Gaussian with as many factors as the VAE has directions."""
    model = FactorAnalysis(N_LATENT + RANK, random_state=0).fit(X)
    covariance = mmlp.LowRankGram(model.noise_variance_**0.5, model.components_)
    return mmlp.TraceOneGaussian.from_moments(model.mean_, covariance)


def draw_panels(panels: dict[str, np.ndarray]) -> None:
    """Draw each panel, values in [0, 256), as one line of patches."""
    figure, axes = pyplot.subplots(
        len(panels), 1, figsize=(8, 5.9), layout="constrained"
    )
    for axis, (title, values) in zip(axes, panels.items(), strict=True):
        images = np.clip(np.asarray(values).reshape(-1, *PATCH_SHAPE) / 256, 0, 1)
        framed = np.pad(images, ((0, 0), (0, 0), (1, 1), (0, 0)), constant_values=1)
        axis.imshow(np.concatenate(list(framed), axis=1))
        axis.set_title(title, fontsize="medium", loc="left")
        axis.set_axis_off()
    figure.savefig("colour_patches.png", dpi=120)


def main(epochs: int = 8) -> None:
    china, flower = load_sample_images().images
    left = china[:, :TRAINING_WIDTH_IN_PIXELS]
    right = china[:, TRAINING_WIDTH_IN_PIXELS:]
    patches = {
        "china.jpg, training part": draw_patches(left, N_TRAINING, 0, augment=True),
        "china.jpg, test part": draw_patches(right, N_TEST, 1),
        "flower.jpg, test": draw_patches(flower, N_TEST, 2),
    }
    training_patches = patches["china.jpg, training part"]
    mean = training_patches.mean()
    deviation = training_patches.std()
    X = {
        name: (values.reshape(-1, N_VALUES) - mean) / deviation
        for name, values in patches.items()
    }
    X_train = X["china.jpg, training part"]
    X_flower = X["flower.jpg, test"]

    training_key, evidence_key, sample_key = jax.random.split(jax.random.key(0), 3)
    gaussian = fit_factor_analysis(X_train)
    vae = train_vae(X_train, epochs, training_key)

    log_evidence = jax.jit(
        jax.vmap(lambda x: vae.log_evidence(x, evidence_key, N_DRAWS_PER_PATCH))
    )
    print(f"bits a value               {N_LATENT + RANK} factors   VAE")
    for name, rows in X.items():
        rows = rows[:N_TEST]
        log_densities = (
            gaussian.log_prob(rows),
            jax.lax.map(log_evidence, rows.reshape(20, 10, -1)),
        )
        nats = [
            np.log(deviation) - np.mean(log_p) / N_VALUES for log_p in log_densities
        ]
        print(f"{name:27}{nats[0] / np.log(2):10.2f}{nats[1] / np.log(2):6.2f}")

    loadings = vae.decode(vae.encode(X_flower[0]).mean).omega.U
    longest_first = jnp.argsort(-jnp.sum(loadings**2, axis=1))
    loadings = loadings[longest_first][:N_SHOWN]
    largest = jnp.max(jnp.abs(loadings), axis=1, keepdims=True)

    panels = {name: rows[:N_SHOWN] * deviation + mean for name, rows in X.items()}
    samples = vae.sample(sample_key, N_SHOWN)
    panels["samples of the VAE"] = samples * deviation + mean
    samples = gaussian.sample(sample_key, (N_SHOWN,))
    panels["samples of one Gaussian"] = samples * deviation + mean
    panels[
        "loadings at the first patch of flower.jpg, each on its own scale; grey is zero"
    ] = 128 + 127 * loadings / largest
    draw_panels(panels)


if __name__ == "__main__":
    main()
