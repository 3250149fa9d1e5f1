"""A variational autoencoder on handwritten digits.

`MatrixVAE` learns a density over 8 x 8 images of digits (they come with scikit-learn), each held by 16 principal components:
from 2 latent variables to a mean and a full 16 x 16 covariance, and from an image to a full covariance of the latent
variables. It is compared with one Gaussian, by the log density of images that were kept aside; larger is better.

The picture shows the latent means of the test images by class, images decoded along a grid, and drawn samples.
"""

import numpy as np
from matplotlib import pyplot
from scipy.stats import multivariate_normal
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split

import mmlp
from mmlp.plotting import plot_images


def main(epochs: int = 100) -> None:
    images, labels = load_digits(return_X_y=True)
    train, test, _, label = train_test_split(images, labels, test_size=500, random_state=0)
    components = PCA(16).fit(train)
    X, X_test = components.transform(train), components.transform(test)
    vae = mmlp.MatrixVAE(n_components=2, max_epochs=epochs, random_state=0).fit(X)
    gaussian = multivariate_normal(X.mean(axis=0), np.cov(X.T))
    print(f"mean log density of {len(X_test)} test images")
    print(f"  one Gaussian           {np.mean(gaussian.logpdf(X_test)):.1f}")
    print(f"  MatrixVAE, 2 latent    {vae.score(X_test):.1f}")

    figure, axes = pyplot.subplots(1, 3, figsize=(12, 4), layout="constrained")
    latent = vae.transform(X_test)
    points = axes[0].scatter(*latent.T, c=label, cmap="tab10", s=8)
    axes[0].legend(*points.legend_elements(), fontsize="x-small", ncols=2)
    axes[0].set(title="latent means, by digit")
    ticks = np.linspace(-2, 2, 10)
    grid = np.stack(np.meshgrid(ticks, ticks[::-1]), -1).reshape(-1, 2)
    rows = {"decoded from a grid": vae.inverse_transform(grid), "samples": vae.sample(100, random_state=1)}
    for axis, (title, values) in zip(axes[1:], rows.items(), strict=True):
        plot_images(components.inverse_transform(values), (8, 8), columns=10, ax=axis).set_title(title)
    figure.savefig("digits_vae.png", dpi=120)


if __name__ == "__main__":
    main()
