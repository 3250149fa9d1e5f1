"""The tour, second part: regression with a full error covariance for every sample.

    python -m mmlp.experiments.demo_regression [--quick] [--out report]

A robot's arm of two links reads its joint angles with errors e. From the readings a, predict where its hand is:
y = h(a + e), close to N(h(a), J S J') with the Jacobian J of h and S = V[e]. The error turns and stretches with the pose.
"""

import dataclasses
from pathlib import Path
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
import scipy.stats
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse

from mmlp import metrics
from mmlp.distributions import TraceOneGaussian
from mmlp.estimators import MultivariateRegressor
from mmlp.experiments import _run, _tour
from mmlp.gram import Gram

TITLE = "regression with full covariance"
LINKS = np.array([1.0, 0.7])
POSES, REFERENCE = 9, "the truth, to first order"
MEASURES = {
    "neg. log-likelihood": metrics.negative_log_likelihood,
    "energy score": metrics.energy_score,
    "miscoverage": lambda p, y: abs(metrics.ellipsoid_coverage(p, y, 0.9) - 0.9),
}


@dataclasses.dataclass(frozen=True)
class Settings:
    """Where is the hand of a robot's arm, and how surely?"""

    train: int = 600
    test: int = 1000
    noise: tuple[float, ...] = (0.08, 0.2)  # standard deviations of the joint angles
    seed: int = 0

    QUICK: ClassVar = {"train": 100, "test": 100}


def hand(angles: np.ndarray) -> np.ndarray:
    """The position (..., 2) of the hand for joint angles (..., 2)."""
    bearing = np.cumsum(angles, axis=-1)
    return np.stack([np.cos(bearing) @ LINKS, np.sin(bearing) @ LINKS], axis=-1)


def jacobian(angles: np.ndarray) -> np.ndarray:
    """The derivative of `hand`, (..., 2, 2)."""
    bearing = np.cumsum(angles, axis=-1)
    pulls = np.stack([-np.sin(bearing) * LINKS, np.cos(bearing) * LINKS], axis=-2)  # by the bearings
    return np.cumsum(pulls[..., ::-1], axis=-1)[..., ::-1]  # a joint moves every link after it


def make_data(settings: Settings) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(settings.seed)
    n = settings.train + settings.test
    angles = np.stack([rng.uniform(-1.5, 1.5, n), rng.uniform(0.2, 2.6, n)], axis=-1)
    return angles, hand(angles + rng.normal(size=(n, 2)) * settings.noise)


def gaussians(mean: np.ndarray, covariance: np.ndarray) -> TraceOneGaussian:
    """N(mean, covariance), a batch of them."""
    eta = np.trace(covariance, axis1=-2, axis2=-1)
    return TraceOneGaussian(jnp.asarray(mean), Gram.from_dense(covariance / eta[:, None, None]), jnp.asarray(eta))


def run(settings: Settings) -> dict:
    angles, y = make_data(settings)
    train, test = slice(settings.train), slice(settings.train, None)
    model = MultivariateRegressor(random_state=settings.seed).fit(angles[train], y[train])
    mean, covariance = model.predict(angles[test]), model.predict_covariance(angles[test])
    constant = np.broadcast_to(np.cov((y[train] - model.predict(angles[train])).T), covariance.shape)
    J = jacobian(angles[test])
    truth = (J * np.square(settings.noise)) @ np.swapaxes(J, -1, -2)
    predictions = {
        "same mean, one covariance for all": gaussians(mean, constant),
        "MultivariateRegressor": gaussians(mean, covariance),
        REFERENCE: gaussians(hand(angles[test]), truth),
    }
    scores = {name: [f(p, y[test]) for f in MEASURES.values()] for name, p in predictions.items()}
    poses = slice(settings.train, settings.train + POSES)
    return {
        "title": TITLE,
        "about": f"An arm of two links reads its joint angles with an error; {settings.train} readings with the true "
        "position of the hand are given. How far off a position may be, and in which direction, depends on the pose. Below, "
        f"scores on {settings.test} unseen readings.",
        "tables": [
            _tour.table(
                "Scores, the smaller the better",
                ["prediction", *MEASURES],
                scores,
                reference=REFERENCE,
                note="The last column is the distance of the share of positions inside their 90 % ellipse from 90 %.",
            )
        ],
        "figures": [
            {
                "file": "demo-regression.png",
                "caption": f"The arm in {POSES} unseen poses, with 90 % ellipses of the hand: predicted (filled) and true "
                "(dashed). Right: how many positions lie inside the ellipse of each level.",
            }
        ],
        "poses": angles[poses].tolist(),
        "ellipses": {
            "predicted": [mean[:POSES].tolist(), covariance[:POSES].tolist()],
            "true": [hand(angles[poses]).tolist(), truth[:POSES].tolist()],
        },
        "calibration": {
            name: metrics.calibration_curve(metrics.mahalanobis_pit(p, y[test]))[1].tolist()
            for name, p in predictions.items()
        },
    }


def draw(record: dict, out: Path) -> None:
    result = record["result"]
    figure = Figure(figsize=(9.5, 4.6), layout="constrained")
    arm, curve = figure.subplots(1, 2, width_ratios=(1.2, 1))
    for angles in np.array(result["poses"]):
        joints = np.stack([np.zeros(2), hand(angles * [1, 0]) * LINKS[0] / LINKS.sum(), hand(angles)])
        arm.plot(*joints.T, "o-", color="0.75", markersize=3, linewidth=1)
    styles = {"predicted": {"alpha": 0.35, "color": "tab:blue"}, "true": {"fill": False, "linestyle": "--"}}
    for name, style in styles.items():
        for mean, covariance in zip(*map(np.array, result["ellipses"][name]), strict=True):
            arm.add_patch(ellipse(mean, covariance, **style))
    arm.set(aspect="equal", xlabel="x", ylabel="y")
    for name, shares in result["calibration"].items():
        curve.plot(np.linspace(0, 1, len(shares)), shares, label=name)
    curve.axline((0, 0), slope=1, color="0.7", linewidth=0.8, zorder=0)
    curve.set(aspect="equal", xlabel="level of the ellipse", ylabel="share inside", xlim=(0, 1), ylim=(0, 1))
    curve.legend(fontsize=8, frameon=False)
    figure.savefig(out / "demo-regression.png", dpi=120)


def ellipse(mean: np.ndarray, covariance: np.ndarray, **style) -> Ellipse:
    """The ellipse that holds 90 % of N(mean, covariance)."""
    values, vectors = np.linalg.eigh(covariance)
    lengths = 2 * np.sqrt(values * scipy.stats.chi2.ppf(0.9, 2))
    return Ellipse(mean, lengths[1], lengths[0], angle=np.degrees(np.arctan2(*vectors[::-1, 1])), **style)


if __name__ == "__main__":
    _run.main("demo-regression", Settings, run, draw)
