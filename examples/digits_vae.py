"""A variational autoencoder on handwritten digits.

Images of 8 x 8 pixels (they come with scikit-learn), each held by its first 10 principal
components. The decoder leads from 2 latent variables to a mean and a full 10 x 10 covariance, the
encoder from an image to a full covariance of the latent variables; both are matrix MLPs joined to
standard ones. During the first third of training the weight of the KL term rises from zero to one:
without this warm-up the encoder can learn to say nothing. `MatrixVAE` is the same as a scikit-learn
estimator.

The picture shows the latent means of test images by class, images decoded along a grid, and
samples.
"""

import jax
import jax.numpy as jnp
from matplotlib import pyplot
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split

import mmlp
from mmlp.plotting import plot_images


def loss(vae, X, key, t):
    likelihood, divergence = jax.vmap(vae.terms)(X, jax.random.split(key, len(X)))
    return jnp.mean(jnp.minimum(3 * t, 1) * divergence - likelihood)


def main(epochs: int = 30) -> None:
    images, digit = load_digits(return_X_y=True)
    train, test, _, digit = train_test_split(
        images, digit, test_size=500, random_state=0
    )
    components = PCA(10, whiten=True, random_state=0).fit(train)
    X, X_test = (
        jnp.asarray(components.transform(part), jnp.float32) for part in (train, test)
    )

    keys = jax.random.split(jax.random.key(0), 4)
    vae = mmlp.paper_vae("NfNf", 10, 2, (20,), network=mmlp.JointMatrixMLP, key=keys[0])
    vae = mmlp.calibrate(vae, X, key=keys[0])
    vae = mmlp.fit(
        vae, loss, X, key=keys[1], epochs=epochs, batch_size=50, progress=False
    ).model

    log_evidence = jax.jit(jax.vmap(lambda x, key: vae.log_evidence(x, key, 100)))
    evidence = log_evidence(X_test, jax.random.split(keys[2], len(X_test)))
    covariance = mmlp.Gram.from_dense(jnp.cov(X.T))
    gaussian = mmlp.TraceOneGaussian.from_moments(X.mean(axis=0), covariance)
    print(f"mean log density of {len(X_test)} test images, by whitened components")
    print(f"  one Gaussian          {jnp.mean(gaussian.log_prob(X_test)):.2f}")
    print(f"  VAE, 100 draws each   {jnp.mean(evidence):.2f}")

    figure, axes = pyplot.subplots(1, 3, figsize=(12, 4), layout="constrained")
    points = axes[0].scatter(
        *jax.vmap(vae.encode)(X_test).mean.T, c=digit, cmap="tab10", s=8
    )
    axes[0].legend(*points.legend_elements(), fontsize="x-small", ncols=2)
    axes[0].set(title="latent means, by digit")
    ticks = jnp.linspace(-2, 2, 10)
    grid = jnp.stack(jnp.meshgrid(ticks, ticks[::-1]), -1).reshape(-1, 2)
    rows = {
        "decoded from a grid": jax.vmap(vae.decode)(grid).mean,
        "samples": vae.sample(keys[3], 100),
    }
    for axis, (title, values) in zip(axes[1:], rows.items(), strict=True):
        plot_images(components.inverse_transform(values), (8, 8), columns=10, ax=axis)
        axis.set_title(title)
    figure.savefig("digits_vae.png", dpi=120)


if __name__ == "__main__":
    main()
