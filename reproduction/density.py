"""The paper's Figure pdf: the trace-one power exponential density in two dimensions.

    python -m reproduction density [--quick] [--out report]

E(0, M / tr M, tr M, alpha, beta) with M = [[1, rho], [rho, 1]], over a grid of alpha
and beta. It is N(0, M) for alpha = beta = 1.
"""

import dataclasses
import itertools
from pathlib import Path
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats
from matplotlib.figure import Figure

from mmlp.distributions import TraceOnePowerExponential
from mmlp.reporting.number_format import round_digits
from mmlp.spd import Gram
from reproduction.harness.claims import judge_claim
from reproduction.harness.parallel import show_progress

# Largest difference from the exact density, relative to its peak, that counts as zero.
ROUNDING = 1e-5

CAPTION = "The density relative to its peak; white lines at 0.1, 0.5 and 0.9."
ALT_TEXT = (
    "Contours of the density for each alpha (rows) and beta (columns): sharp peaks and "
    "long tails at small beta, flat tops at large beta, wider at large alpha."
)


@dataclasses.dataclass(frozen=True)
class Settings:
    """E(0, M / tr M, tr M, alpha, beta), M = [[1, rho], [rho, 1]]."""

    alphas: tuple[float, ...] = (0.5, 1.0, 1.5)
    betas: tuple[float, ...] = (0.5, 0.75, 1.0, 1.5, 5.0)
    rho: float = 0.5
    # Points of the grid along each axis, from -extent to extent.
    points: int = 81
    extent: float = 3.5

    QUICK: ClassVar = {"points": 25, "alphas": (0.5, 1.5), "betas": (0.5, 1.5)}


def run(settings: Settings) -> dict:
    """Evaluate the densities on a grid."""
    rho = settings.rho
    axis = np.linspace(-settings.extent, settings.extent, settings.points)
    x = jnp.stack(jnp.meshgrid(axis, axis, indexing="xy"), axis=-1)
    M = np.array([[1, rho], [rho, 1]])
    omega = Gram.from_dense(M / 2)

    @jax.jit
    def density_and_variance(x, alpha, beta):
        """Return the density at x and the variance factor at alpha = 1."""
        p = TraceOnePowerExponential(jnp.zeros(2), omega, 2.0, alpha, beta)
        return jnp.exp(p.log_prob(x)), p.variance_factor() / alpha

    def density(x, alpha: float, beta: float) -> np.ndarray:
        return np.asarray(density_and_variance(x, alpha, beta)[0], np.float64)

    panels = []
    cases = itertools.product(settings.alphas, settings.betas)
    for alpha, beta in show_progress(cases, "density"):
        values, nu = density_and_variance(x, alpha, beta)
        values = np.asarray(values, np.float64)
        nu = np.asarray(nu, np.float64)
        rescaled = density(x / alpha**0.5, 1.0, beta) / alpha

        # A distance of three standard deviations has u = 9 nu, and
        # u^beta ~ 2 Gamma(1 / beta).
        tail = scipy.stats.gamma.sf((9 * nu) ** beta / 2, 1 / beta)
        panels.append(
            {
                "alpha": alpha,
                "beta": beta,
                "peak": float(values.max()),
                "mass": float(values.sum() * (axis[1] - axis[0]) ** 2),
                "beyond": float(tail),
                "scale": _max_relative_difference(values, rescaled),
                "density": round_digits(values, 3),
                "gaussian": alpha == beta == 1,
            }
        )

    x64 = np.asarray(x, np.float64)
    u = np.sum(x64 @ np.linalg.inv(M) * x64, axis=-1)
    gaussian_density = np.exp(-u / 2) / (2 * np.pi * np.linalg.det(M) ** 0.5)
    gaussian_error = _max_relative_difference(density(x, 1.0, 1.0), gaussian_density)
    return {
        "axis": axis.tolist(),
        "panels": panels,
        "title": "the power exponential density",
        "about": "The power exponential density in two dimensions, over a grid of its "
        "parameters.",
        "claims": judge_claims(panels, gaussian_error),
        "tables": [make_table(panels, settings.extent)],
        "figures": [{"file": "density.png", "caption": CAPTION, "alt": ALT_TEXT}],
        "notes": [
            "The paper does not say which M it drew; here "
            f"M = [[1, {rho:g}], [{rho:g}, 1]]."
        ],
    }


def _max_relative_difference(p: np.ndarray, q: np.ndarray) -> float:
    """Return the largest difference on the grid, relative to the peak of q."""
    return float(np.max(np.abs(p - q)) / np.max(q))


def judge_claims(panels: list[dict], gaussian_error: float) -> list[dict | None]:
    """Judge what the paper says about alpha and beta."""
    by_beta = sorted(panels, key=lambda panel: panel["beta"])
    first, last = (
        f"{panel['beyond']:.2g} at beta = {panel['beta']:g}"
        for panel in (by_beta[0], by_beta[-1])
    )
    rescaling_error = max(panel["scale"] for panel in panels)
    alpha_is_a_scale = rescaling_error < ROUNDING
    return [
        judge_claim(
            "For alpha = beta = 1 the density is the Gaussian N(mu, M).",
            gaussian_error < ROUNDING,
            "Largest difference from the Gaussian density on the grid, relative to its "
            f"peak: {gaussian_error:.1e}.",
        ),
        {
            "claim": "The pair of alpha and beta control the tail and the shape.",
            "verdict": "depends on the parameter" if alpha_is_a_scale else "holds",
            "evidence": "Beta does, alpha is a scale. Beyond three standard deviations "
            f"lies a share of {first}, of {last}. Changing alpha is rescaling x by "
            "sqrt(alpha), which eta does already (largest difference relative to the "
            f"peak: {rescaling_error:.1e}).",
        },
    ]


def make_table(panels: list[dict], extent: float) -> dict:
    """Make the table of peaks and tails, grouped by alpha."""
    rows = []
    for panel in panels:
        group = {"group": f"alpha = {panel['alpha']:g}"}
        if group not in rows:
            rows.append(group)
        name = f"{panel['beta']:g}"
        if panel["gaussian"]:
            name += " (Gaussian)"
        rows.append(
            {
                "name": name,
                "cells": [panel["peak"], panel["mass"], panel["beyond"]],
                "emphasis": panel["gaussian"],
            }
        )
    return {
        "title": "Peak and tail",
        "note": f"Mass: on the square of {extent:g} to either side, by the midpoint "
        "rule. Tail: the share beyond three standard deviations.",
        "columns": ["beta", "peak", "mass", "tail"],
        "rows": rows,
    }


def draw(record: dict, out: Path) -> None:
    """Draw the contours of all densities."""
    alphas = record["settings"]["alphas"]
    betas = record["settings"]["betas"]
    result = record["result"]
    axis = result["axis"]

    figure = Figure(figsize=(1.9 * len(betas) + 0.6, 1.9 * len(alphas) + 0.6))
    axes = figure.subplots(
        len(alphas), len(betas), squeeze=False, sharex=True, sharey=True
    )
    for panel, ax in zip(result["panels"], axes.flat, strict=True):
        p = np.array(panel["density"]) / np.max(panel["density"])
        ax.contourf(axis, axis, p, levels=np.linspace(0, 1, 21), cmap="viridis")
        ax.contour(
            axis, axis, p, levels=[0.1, 0.5, 0.9], colors="white", linewidths=0.6
        )
        ax.set(xticks=[-2, 0, 2], yticks=[-2, 0, 2], aspect="equal")
        text_style = {"color": "white", "transform": ax.transAxes, "fontsize": 8}
        ax.text(0.04, 0.94, f"peak {panel['peak']:.2g}", va="top", **text_style)
        if panel["gaussian"]:
            ax.text(0.04, 0.05, "Gaussian", **text_style)

    for ax, beta in zip(axes[0], betas, strict=True):
        ax.set_title(rf"$\beta$ = {beta:g}", fontsize=10)
    for ax, alpha in zip(axes[:, 0], alphas, strict=True):
        ax.set_ylabel(rf"$\alpha$ = {alpha:g}", fontsize=10)
    figure.suptitle("Power exponential density", fontsize=10)
    figure.tight_layout()
    figure.savefig(out / "density.png", dpi=150)
