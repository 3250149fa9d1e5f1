"""A variational autoencoder on handwritten digits.

The images have 8 x 8 pixels (they come with scikit-learn) and are represented by their
first 10 principal components. The decoder maps 2 latent variables to a mean and a full
10 x 10 covariance, the encoder maps an image to a full covariance of the latent
variables; both are joint matrix MLPs. During the first third of training the weight of
the KL term rises from zero to one: without this warm-up the encoder can collapse to the
prior. `MatrixVAE` offers the same as a scikit-learn estimator.

The picture shows the latent means of test images by class, images decoded on a grid,
and samples.
"""

import jax
import jax.numpy as jnp
from matplotlib import pyplot
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split

import mmlp
from mmlp.plotting import plot_images

IMAGE_SHAPE = (8, 8)
N_COMPONENTS = 10
N_LATENT = 2
N_TEST = 500
N_DRAWS_PER_IMAGE = 100


def loss(vae: mmlp.VAE, X: jax.Array, key: jax.Array, t: jax.Array) -> jax.Array:
    """Return the negative evidence lower bound, at time t of training (0 to 1)."""
    likelihood, divergence = jax.vmap(vae.terms)(X, jax.random.split(key, len(X)))
    warm_up = jnp.minimum(3 * t, 1)
    return jnp.mean(warm_up * divergence - likelihood)


def main(epochs: int = 30) -> None:
    images, digits = load_digits(return_X_y=True)
    images_train, images_test, _, digits_test = train_test_split(
        images, digits, test_size=N_TEST, random_state=0
    )
    pca = PCA(N_COMPONENTS, whiten=True, random_state=0).fit(images_train)
    X = jnp.asarray(pca.transform(images_train), jnp.float32)
    X_test = jnp.asarray(pca.transform(images_test), jnp.float32)

    keys = jax.random.split(jax.random.key(0), 4)
    vae = mmlp.paper_vae(
        "NfNf",
        N_COMPONENTS,
        N_LATENT,
        hidden_dims=(20,),
        network=mmlp.JointMatrixMLP,
        key=keys[0],
    )
    vae = mmlp.calibrate(vae, X, key=keys[0])
    vae = mmlp.fit(
        vae, loss, X, key=keys[1], epochs=epochs, batch_size=50, progress=False
    ).model

    log_evidence = jax.jit(
        jax.vmap(lambda x, key: vae.log_evidence(x, key, N_DRAWS_PER_IMAGE))
    )
    evidence = log_evidence(X_test, jax.random.split(keys[2], len(X_test)))
    covariance = mmlp.Gram.from_dense(jnp.cov(X.T))
    gaussian = mmlp.TraceOneGaussian.from_moments(X.mean(axis=0), covariance)
    print(f"mean log density of {len(X_test)} test images, by whitened components")
    print(f"  one Gaussian          {jnp.mean(gaussian.log_prob(X_test)):.2f}")
    print(f"  VAE, {N_DRAWS_PER_IMAGE} draws each   {jnp.mean(evidence):.2f}")

    figure, axes = pyplot.subplots(1, 3, figsize=(12, 4), layout="constrained")
    latent_means = jax.vmap(vae.encode)(X_test).mean
    points = axes[0].scatter(*latent_means.T, c=digits_test, cmap="tab10", s=8)
    axes[0].legend(*points.legend_elements(), fontsize="x-small", ncols=2)
    axes[0].set(title="latent means, by digit")

    ticks = jnp.linspace(-2, 2, 10)
    grid = jnp.stack(jnp.meshgrid(ticks, ticks[::-1]), axis=-1).reshape(-1, N_LATENT)
    panels = {
        "decoded from a grid": jax.vmap(vae.decode)(grid).mean,
        "samples": vae.sample(keys[3], 100),
    }
    for axis, (title, components) in zip(axes[1:], panels.items(), strict=True):
        pixels = pca.inverse_transform(components)
        plot_images(pixels, IMAGE_SHAPE, columns=10, ax=axis)
        axis.set_title(title)
    figure.savefig("digits_vae.png", dpi=120)


if __name__ == "__main__":
    main()
