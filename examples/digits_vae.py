"""A variational autoencoder on handwritten digits.

The images have 8 x 8 pixels (they come with scikit-learn) and are reduced to their
first 10 principal components. The decoder maps 2 latent variables to a mean and a full
10 x 10 covariance, the encoder an image to a full covariance of the latent variables;
both are matrix MLPs joined to standard ones. During the first third of training the
weight of the KL term rises from zero to one: without this warm-up the latent variables
may stay unused. `MatrixVAE` is the same model as a scikit-learn estimator.

The picture shows the latent means of test images by class, images decoded along a grid,
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

COMPONENTS = 10
LATENT = 2


def loss(vae, X, key, t):
    likelihood, divergence = jax.vmap(vae.terms)(X, jax.random.split(key, len(X)))
    # The weight of the KL term rises during the first third of the training.
    weight = jnp.minimum(3 * t, 1)
    return jnp.mean(weight * divergence - likelihood)


def fit_vae(X: jax.Array, epochs: int, key: jax.Array, key_fit: jax.Array) -> mmlp.VAE:
    vae = mmlp.paper_vae(
        "NfNf",
        features=COMPONENTS,
        latent=LATENT,
        hidden_dims=(20,),
        network=mmlp.JointMatrixMLP,
        key=key,
    )
    vae = mmlp.calibrate(vae, X, key=key)
    return mmlp.fit(
        vae, loss, X, key=key_fit, epochs=epochs, batch_size=50, progress=False
    ).model


def main(epochs: int = 30) -> None:
    images, digits = load_digits(return_X_y=True)
    train, test, _, test_digits = train_test_split(
        images, digits, test_size=500, random_state=0
    )
    pca = PCA(COMPONENTS, whiten=True, random_state=0).fit(train)
    X = jnp.asarray(pca.transform(train), jnp.float32)
    X_test = jnp.asarray(pca.transform(test), jnp.float32)

    keys = jax.random.split(jax.random.key(0), 4)
    vae = fit_vae(X, epochs, keys[0], keys[1])

    log_evidence = jax.jit(jax.vmap(lambda x, key: vae.log_evidence(x, key, 100)))
    evidence = log_evidence(X_test, jax.random.split(keys[2], len(X_test)))
    covariance = mmlp.Gram.from_dense(jnp.cov(X.T))
    gaussian = mmlp.TraceOneGaussian.from_moments(X.mean(axis=0), covariance)
    print(f"mean log density of {len(X_test)} test images, in whitened components")
    print(f"  one Gaussian          {jnp.mean(gaussian.log_prob(X_test)):.2f}")
    print(f"  VAE, 100 draws each   {jnp.mean(evidence):.2f}")

    figure, axes = pyplot.subplots(1, 3, figsize=(12, 4), layout="constrained")
    latent_means = jax.vmap(vae.encode)(X_test).mean
    points = axes[0].scatter(*latent_means.T, c=test_digits, cmap="tab10", s=8)
    axes[0].legend(*points.legend_elements(), fontsize="x-small", ncols=2)
    axes[0].set(title="latent means, by digit")

    ticks = jnp.linspace(-2, 2, 10)
    grid = jnp.stack(jnp.meshgrid(ticks, ticks[::-1]), -1).reshape(-1, LATENT)
    panels = {
        "decoded from a grid": jax.vmap(vae.decode)(grid).mean,
        "samples": vae.sample(keys[3], 100),
    }
    for axis, (title, values) in zip(axes[1:], panels.items(), strict=True):
        plot_images(pca.inverse_transform(values), (8, 8), columns=10, ax=axis)
        axis.set_title(title)
    figure.savefig("digits_vae.png", dpi=120)


if __name__ == "__main__":
    main()
