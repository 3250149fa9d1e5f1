"""The tour, second part: regression with a full error covariance for every sample.

A robot arm with two links reads its joint angles with errors e. From the readings a,
predict where its hand is: y = h(a + e), about N(h(a), J S J') with J the Jacobian of h
and S the covariance of e.
"""

import dataclasses
from pathlib import Path
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mmlp.demo.text_table import make_table
from mmlp.distributions import TraceOneGaussian
from mmlp.estimators import MultivariateRegressor
from mmlp.metrics import energy_score, mahalanobis_pit, negative_log_likelihood
from mmlp.plotting import plot_calibration, plot_ellipses
from mmlp.spd import Gram

TITLE = "regression with full covariance"
FIGURE_FILE = "demo-regression.png"
LINK_LENGTHS = np.array([1.0, 0.7])
POSES = np.array([(a, b) for b in (0.5, 1.3, 2.2) for a in (-1.2, 0.0, 1.2)])
TRUTH = "the truth, to first order"
MEASURES = {
    "neg. log-likelihood": negative_log_likelihood,
    "energy score": energy_score,
}


@dataclasses.dataclass(frozen=True)
class Settings:
    """Predict where the hand of a robot arm is, and how surely."""

    train: int = 300
    test: int = 500
    noise: tuple[float, ...] = (0.08, 0.2)  # standard deviations of the joint angles
    epochs: int = 200
    seed: int = 0

    QUICK: ClassVar = {"train": 100, "test": 100, "epochs": 5}


def hand(angles: np.ndarray) -> np.ndarray:
    """Return the position (..., 2) of the hand for joint angles (..., 2)."""
    bearings = np.cumsum(angles, axis=-1)
    x = np.cos(bearings) @ LINK_LENGTHS
    y = np.sin(bearings) @ LINK_LENGTHS
    return np.stack([x, y], axis=-1)


def jacobian(angles: np.ndarray) -> np.ndarray:
    """Return the derivative of `hand`, shape (..., 2, 2)."""
    bearings = np.cumsum(angles, axis=-1)
    by_bearings = np.stack(
        [-np.sin(bearings) * LINK_LENGTHS, np.cos(bearings) * LINK_LENGTHS], axis=-2
    )
    # A joint turns every link after it.
    return np.cumsum(by_bearings[..., ::-1], axis=-1)[..., ::-1]


def make_data(settings: Settings) -> tuple[np.ndarray, np.ndarray]:
    """Return readings (n, 2) and positions of the hand (n, 2)."""
    rng = np.random.default_rng(settings.seed)
    n = settings.train + settings.test
    shoulder = rng.uniform(-1.5, 1.5, n)
    elbow = rng.uniform(0.2, 2.6, n)
    angles = np.stack([shoulder, elbow], axis=-1)
    return angles, hand(angles + rng.normal(size=(n, 2)) * settings.noise)


def make_gaussians(mean: np.ndarray, covariance: np.ndarray) -> TraceOneGaussian:
    """Return a batch of N(mean, covariance)."""
    return TraceOneGaussian.from_moments(jnp.asarray(mean), Gram.from_dense(covariance))


def true_distribution(angles: np.ndarray, settings: Settings) -> TraceOneGaussian:
    """Return N(h(a), J S J'), the truth to first order."""
    J = jacobian(angles)
    covariance = (J * np.square(settings.noise)) @ np.swapaxes(J, -1, -2)
    return make_gaussians(hand(angles), covariance)


def run(settings: Settings) -> dict[str, Any]:
    """Compare a regressor with one covariance for all samples, and with the truth."""
    angles, positions = make_data(settings)
    a_train, a_test = np.split(angles, [settings.train])
    y_train, y_test = np.split(positions, [settings.train])

    model = MultivariateRegressor(
        max_epochs=settings.epochs, random_state=settings.seed
    )
    model.fit(a_train, y_train)
    mean = model.predict(a_test)
    one_covariance = np.cov((y_train - model.predict(a_train)).T)
    predictions = {
        "same mean, one covariance for all": make_gaussians(
            mean, np.stack([one_covariance] * len(mean))
        ),
        "MultivariateRegressor": model.predict_distribution(a_test),
        TRUTH: true_distribution(a_test, settings),
    }

    scores = {
        name: [measure(distribution, y_test) for measure in MEASURES.values()]
        for name, distribution in predictions.items()
    }
    ellipses = {
        "predicted": model.predict_distribution(POSES),
        "true": true_distribution(POSES, settings),
    }
    return {
        "title": TITLE,
        "about": (
            "An arm of two links reads its joint angles with an error; "
            f"{settings.train} readings with the true position of the hand are given. "
            "How far off a position may be, and in which direction, depends on the "
            f"pose. Below, scores on {settings.test} unseen ones."
        ),
        "tables": [make_table("Scores", ["prediction", *MEASURES], scores, TRUTH)],
        "figures": [
            {
                "file": FIGURE_FILE,
                "caption": (
                    f"The arm in {len(POSES)} poses, with 90 % ellipses of the hand: "
                    "predicted (blue) and true (black). Right: the share inside the "
                    "ellipse of each level, best on the diagonal."
                ),
            }
        ],
        "ellipses": {
            name: [p.mean.tolist(), p.covariance.dense().tolist()]
            for name, p in ellipses.items()
        },
        "pit": {
            name: mahalanobis_pit(p, y_test).round(4).tolist()
            for name, p in predictions.items()
        },
    }


def draw(record: dict[str, Any], out: Path) -> None:
    """Draw the arm with its ellipses, and the calibration of the predictions."""
    result = record["result"]
    figure = Figure(figsize=(9.5, 4.6), layout="constrained")
    arm_axes, calibration_axes = figure.subplots(1, 2, width_ratios=(1.2, 1))
    draw_arm(arm_axes, result["ellipses"])
    for name, pit in result["pit"].items():
        plot_calibration(np.array(pit), label=name, ax=calibration_axes)
    figure.savefig(out / FIGURE_FILE, dpi=120)


def draw_arm(ax: Axes, ellipses: dict[str, list]) -> None:
    """Draw the arm in all poses, with predicted and true ellipses of its hand."""
    for angles in POSES:
        elbow = hand(angles * [1, 0]) * LINK_LENGTHS[0] / LINK_LENGTHS.sum()
        joints = np.stack([np.zeros(2), elbow, hand(angles)])
        ax.plot(*joints.T, "o-", color="0.75", markersize=3, linewidth=1)
    for color, (mean, covariance) in zip(
        ("C0", "black"), ellipses.values(), strict=True
    ):
        distribution = make_gaussians(np.array(mean), np.array(covariance))
        plot_ellipses(distribution, color=color, names=("x", "y"), ax=ax)
    legend = ax.get_legend()
    if legend is not None:
        legend.remove()
    ax.set_aspect("equal")
