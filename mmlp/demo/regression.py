"""The tour, second part: regression with a full error covariance for every sample.

A robot's arm of two links reads its joint angles with errors e. From the readings a, predict where
its hand is: y = h(a + e), about N(h(a), J S J') with J the Jacobian of h and S the covariance of e.
"""

import dataclasses
from pathlib import Path
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from mmlp.demo.tables import table
from mmlp.distributions import TraceOneGaussian
from mmlp.estimators import MultivariateRegressor
from mmlp.metrics import energy_score, mahalanobis_pit, negative_log_likelihood
from mmlp.plotting import plot_calibration, plot_ellipses
from mmlp.spd import Gram

TITLE = "regression with full covariance"
LINKS = np.array([1.0, 0.7])
POSES = np.array(
    [(a, b) for b in (0.5, 1.3, 2.2) for a in (-1.2, 0.0, 1.2)]
)  # of the picture
REFERENCE = "the truth, to first order"
MEASURES = {
    "neg. log-likelihood": negative_log_likelihood,
    "energy score": energy_score,
}


@dataclasses.dataclass(frozen=True)
class Settings:
    """Where is the hand of a robot's arm, and how surely?"""

    train: int = 300
    test: int = 500
    noise: tuple[float, ...] = (0.08, 0.2)  # standard deviations of the joint angles
    epochs: int = 200  # at most
    seed: int = 0

    QUICK: ClassVar = {"train": 100, "test": 100, "epochs": 5}


def hand(angles: np.ndarray) -> np.ndarray:
    """The position (..., 2) of the hand for joint angles (..., 2)."""
    bearing = np.cumsum(angles, axis=-1)
    return np.stack([np.cos(bearing) @ LINKS, np.sin(bearing) @ LINKS], axis=-1)


def jacobian(angles: np.ndarray) -> np.ndarray:
    """The derivative of `hand`, (..., 2, 2)."""
    bearing = np.cumsum(angles, axis=-1)
    pulls = np.stack(
        [-np.sin(bearing) * LINKS, np.cos(bearing) * LINKS], axis=-2
    )  # by bearings
    return np.cumsum(pulls[..., ::-1], axis=-1)[
        ..., ::-1
    ]  # a joint moves every link after it


def make_data(settings: Settings) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(settings.seed)
    n = settings.train + settings.test
    angles = np.stack([rng.uniform(-1.5, 1.5, n), rng.uniform(0.2, 2.6, n)], axis=-1)
    return angles, hand(angles + rng.normal(size=(n, 2)) * settings.noise)


def gaussians(mean: np.ndarray, covariance: np.ndarray) -> TraceOneGaussian:
    """N(mean, covariance), a batch of them."""
    return TraceOneGaussian.from_moments(jnp.asarray(mean), Gram.from_dense(covariance))


def truth(angles: np.ndarray, settings: Settings) -> TraceOneGaussian:
    """N(h(a), J S J')."""
    J = jacobian(angles)
    return gaussians(
        hand(angles), (J * np.square(settings.noise)) @ np.swapaxes(J, -1, -2)
    )


def run(settings: Settings) -> dict:
    angles, y = make_data(settings)
    (a, a_new), (b, b_new) = (np.split(part, [settings.train]) for part in (angles, y))
    model = MultivariateRegressor(
        max_epochs=settings.epochs, random_state=settings.seed
    ).fit(a, b)
    mean, constant = model.predict(a_new), np.cov((b - model.predict(a)).T)
    predictions = {
        "same mean, one covariance for all": gaussians(
            mean, np.stack([constant] * len(mean))
        ),
        "MultivariateRegressor": model.predict_distribution(a_new),
        REFERENCE: truth(a_new, settings),
    }
    scores = {
        name: [f(p, b_new) for f in MEASURES.values()]
        for name, p in predictions.items()
    }
    poses = {
        "predicted": model.predict_distribution(POSES),
        "true": truth(POSES, settings),
    }
    caption = f"The arm in {len(POSES)} poses, with 90 % ellipses of the hand: predicted (blue) and "
    caption += "true (black). Right: the share inside the ellipse of each level, best on the diagonal."
    return {
        "title": TITLE,
        "about": f"An arm of two links reads its joint angles with an error; {settings.train} "
        "readings with the true position of the hand are given. How far off a position may be, and "
        f"in which direction, depends on the pose. Below, scores on {settings.test} unseen ones.",
        "tables": [table("Scores", ["prediction", *MEASURES], scores, REFERENCE)],
        "figures": [{"file": "demo-regression.png", "caption": caption}],
        "ellipses": {
            n: [p.mean.tolist(), p.covariance.dense().tolist()]
            for n, p in poses.items()
        },
        "pit": {
            n: mahalanobis_pit(p, b_new).round(4).tolist()
            for n, p in predictions.items()
        },
    }


def draw(record: dict, out: Path) -> None:
    result = record["result"]
    figure = Figure(figsize=(9.5, 4.6), layout="constrained")
    arm, curve = figure.subplots(1, 2, width_ratios=(1.2, 1))
    for angles in POSES:
        elbow = hand(angles * [1, 0]) * LINKS[0] / LINKS.sum()
        joints = np.stack([np.zeros(2), elbow, hand(angles)])
        arm.plot(*joints.T, "o-", color="0.75", markersize=3, linewidth=1)
    for color, ellipses in zip(
        ("C0", "black"), result["ellipses"].values(), strict=True
    ):
        plot_ellipses(
            gaussians(*map(np.array, ellipses)), color=color, names=("x", "y"), ax=arm
        )
    arm.get_legend().remove()
    arm.set_aspect("equal")
    for name, pit in result["pit"].items():
        plot_calibration(np.array(pit), label=name, ax=curve)
    figure.savefig(out / "demo-regression.png", dpi=120)
