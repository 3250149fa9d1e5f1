"""Regression with a full covariance for each sample.

A moving target is observed with errors that are long along its path and grow with time:
the errors of the two coordinates are correlated, and the correlation changes with the
input. `MultivariateRegressor` learns mean and covariance from 400 samples. It is
compared with the same mean and one constant covariance, the best that ordinary
regression offers.

The picture shows predicted means and 90 % ellipses with unseen data, and the
calibration: how often ellipsoids of each probability contain the data.
"""

import numpy as np
from matplotlib import pyplot

import mmlp
from mmlp import metrics, plotting


def make_data(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return times x (n, 1) and points y (n, 2) about a spiral."""
    x = rng.uniform(0, 2 * np.pi, n)
    along = np.stack([-np.sin(x), np.cos(x)], -1)
    across = np.stack([np.cos(x), np.sin(x)], -1)
    errors_along = (0.05 + 0.1 * x)[:, None] * rng.standard_normal((n, 1))
    errors_across = 0.1 * rng.standard_normal((n, 1))
    errors = errors_along * along + errors_across * across
    return x[:, None], (1 + 0.4 * x)[:, None] * across + errors


def predict_with_constant_covariance(
    model: mmlp.MultivariateRegressor,
    X: np.ndarray,
    y: np.ndarray,
    X_test: np.ndarray,
) -> mmlp.TraceOneGaussian:
    """Combine the model's means with the covariance of all training residuals."""
    residuals = y - np.asarray(model.predict(X))
    covariance = mmlp.Gram.from_dense(np.cov(residuals.T))
    means = np.asarray(model.predict(X_test))
    return mmlp.TraceOneGaussian.from_moments(means, covariance)


def main(epochs: int = 150) -> None:
    rng = np.random.default_rng(0)
    X, y = make_data(rng, 400)
    X_test, y_test = make_data(rng, 400)
    model = mmlp.MultivariateRegressor(max_epochs=epochs, random_state=0).fit(X, y)
    predictions = {
        "full covariance": model.predict_distribution(X_test),
        "constant covariance": predict_with_constant_covariance(model, X, y, X_test),
    }

    figure, (left, right) = pyplot.subplots(
        1, 2, figsize=(10, 4.8), layout="constrained"
    )
    for name, prediction in predictions.items():
        likelihood = metrics.negative_log_likelihood(prediction, y_test)
        energy = metrics.energy_score(prediction, y_test)
        coverage = metrics.ellipsoid_coverage(prediction, y_test, 0.9)
        print(
            f"{name:20} -log p {likelihood:.3f}, energy score {energy:.3f}, "
            f"{100 * coverage:.0f} % in the 90 % ellipses"
        )
        pit = metrics.mahalanobis_pit(prediction, y_test)
        plotting.plot_calibration(pit, label=name, ax=right)

    times = np.linspace(0, 2 * np.pi, 25)[:, None]
    plotting.plot_ellipses(model.predict_distribution(times), ax=left)
    left.plot(*y_test.T, "k.", markersize=2)
    left.set(aspect="equal", title="means and ellipses at 25 times")
    right.set(title="calibration")
    figure.savefig("heteroscedastic_regression.png", dpi=120)


if __name__ == "__main__":
    main()
