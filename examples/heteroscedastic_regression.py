"""Regression with a full covariance for each sample.

A moving target is observed with errors that are large along its path and grow with
time: the errors of the two coordinates are correlated, and the correlation depends on
the input. `MultivariateRegressor` learns mean and covariance from 400 samples. It is
compared with the same mean and one constant covariance, the best that ordinary
regression offers.

The picture shows predicted means and 90 % ellipses with unseen data, and how often
ellipsoids of each probability contain them.
"""

import numpy as np
from matplotlib import pyplot

import mmlp
from mmlp import metrics, plotting

N_SAMPLES = 400
END_TIME = 2 * np.pi


def make_data(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw times x (n, 1) and noisy places y (n, 2) on a spiral."""
    x = rng.uniform(0, END_TIME, n)
    along = np.stack([-np.sin(x), np.cos(x)], axis=-1)
    across = np.stack([np.cos(x), np.sin(x)], axis=-1)

    error_along = (0.05 + 0.1 * x)[:, None] * rng.standard_normal((n, 1))
    error_across = 0.1 * rng.standard_normal((n, 1))
    errors = error_along * along + error_across * across
    return x[:, None], (1 + 0.4 * x)[:, None] * across + errors


def predict_with_constant_covariance(
    model: mmlp.MultivariateRegressor, X: np.ndarray, y: np.ndarray, X_test: np.ndarray
) -> mmlp.TraceOneGaussian:
    """Return the means of the model with the covariance of all its residuals."""
    residuals = y - np.asarray(model.predict(X))
    covariance = mmlp.Gram.from_dense(np.cov(residuals.T))
    means = np.asarray(model.predict(X_test))
    return mmlp.TraceOneGaussian.from_moments(means, covariance)


def main(epochs: int = 150) -> None:
    rng = np.random.default_rng(0)
    X, y = make_data(rng, N_SAMPLES)
    X_test, y_test = make_data(rng, N_SAMPLES)

    model = mmlp.MultivariateRegressor(max_epochs=epochs, random_state=0).fit(X, y)
    predictions = {
        "full covariance": model.predict_distribution(X_test),
        "constant covariance": predict_with_constant_covariance(model, X, y, X_test),
    }

    figure, (left, right) = pyplot.subplots(
        1, 2, figsize=(10, 4.8), layout="constrained"
    )
    for name, prediction in predictions.items():
        loss = metrics.negative_log_likelihood(prediction, y_test)
        energy = metrics.energy_score(prediction, y_test)
        coverage = metrics.ellipsoid_coverage(prediction, y_test, 0.9)
        print(
            f"{name:20} -log p {loss:.3f}, energy score {energy:.3f}, "
            f"{100 * coverage:.0f} % in the 90 % ellipses"
        )
        pit = metrics.mahalanobis_pit(prediction, y_test)
        plotting.plot_calibration(pit, label=name, ax=right)

    times = np.linspace(0, END_TIME, 25)[:, None]
    plotting.plot_ellipses(model.predict_distribution(times), ax=left)
    left.plot(*y_test.T, "k.", markersize=2)
    left.set(aspect="equal", title="means and ellipses at 25 times")
    right.set(title="calibration")
    figure.savefig("heteroscedastic_regression.png", dpi=120)


if __name__ == "__main__":
    main()
