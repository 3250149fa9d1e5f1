"""The paper's Figure pdf: the trace-one power exponential density at d = 2 over a grid of alpha and beta.

python -m mmlp.experiments.density [--quick] [--out report]      writes density.json, density.png and index.html
"""

import dataclasses
from pathlib import Path
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special

from mmlp.distributions import TraceOnePowerExponential
from mmlp.experiments.harness.jobs import progress
from mmlp.experiments.harness.run import main
from mmlp.spd import Gram


@dataclasses.dataclass(frozen=True)
class Settings:
    """The density E(0, M / tr M, tr M, alpha, beta) with M = [[1, rho], [rho, 1]]; N(0, M) at alpha = beta = 1."""

    alphas: tuple[float, ...] = (0.5, 1.0, 1.5)
    betas: tuple[float, ...] = (0.5, 0.75, 1.0, 1.5, 5.0)
    rho: float = 0.5
    points: int = 81
    extent: float = 3.5

    QUICK: ClassVar = {"points": 25, "alphas": (0.5, 1.5), "betas": (0.5, 1.5)}


def run(settings: Settings) -> dict:
    axis = np.linspace(-settings.extent, settings.extent, settings.points)
    x = jnp.stack(jnp.meshgrid(axis, axis, indexing="xy"), axis=-1)
    M = np.array([[1, settings.rho], [settings.rho, 1]])
    omega = Gram.from_dense(M / 2)

    @jax.jit
    def density(x, alpha, beta):
        p = TraceOnePowerExponential(jnp.zeros(2), omega, 2.0, alpha, beta)
        return jnp.exp(p.log_prob(x)), p.covariance.trace() / (
            2 * alpha
        )  # u = nu times a squared number of deviations

    panels = []
    for alpha, beta in progress(
        [(alpha, beta) for alpha in settings.alphas for beta in settings.betas], "density"
    ):
        values, nu = (np.asarray(value, np.float64) for value in density(x, alpha, beta))
        unscaled = np.asarray(density(x / alpha**0.5, 1.0, beta)[0], np.float64) / alpha
        panels.append(
            {
                "alpha": alpha,
                "beta": beta,
                "peak": float(values.max()),
                "mass": float(values.sum() * (axis[1] - axis[0]) ** 2),
                "beyond": float(
                    scipy.special.gammaincc(1 / beta, (9 * nu) ** beta / 2)
                ),  # u^beta is 2 Gamma(1 / beta)
                "scale": _difference(values, unscaled),
                "density": [[float(f"{v:.3g}") for v in row] for row in values],
            }
        )
    u = np.einsum(
        "...i,ij,...j", np.asarray(x, np.float64), np.linalg.inv(M), np.asarray(x, np.float64)
    )
    gaussian = _difference(
        density(x, 1.0, 1.0)[0], np.exp(-u / 2) / (2 * np.pi * np.linalg.det(M) ** 0.5)
    )
    return {
        "axis": axis.tolist(),
        "panels": panels,
        "title": "the power exponential density",
        "about": "The density of the multivariate power exponential in two dimensions, over a grid of its parameters.",
        "claims": claims(panels, gaussian),
        "tables": [table(panels, settings.extent)],
        "figures": [
            {
                "file": "density.png",
                "caption": "The density relative to its peak; white lines at 0.1, 0.5 and 0.9. The paper's Figure pdf.",
                "alt": "Contours of the density for each alpha (rows) and beta (columns): sharp peaks and long tails at "
                "small beta, flat tops at large beta, wider at large alpha.",
            }
        ],
        "notes": [
            f"The paper does not say which M it drew; here M = [[1, {settings.rho:g}], [{settings.rho:g}, 1]]."
        ],
    }


def _difference(p, q) -> float:
    """The largest difference on the grid, relative to the peak."""
    return float(np.max(np.abs(np.asarray(p, np.float64) - q)) / np.max(q))


def claims(panels: list[dict], gaussian: float) -> list[dict]:
    by_beta = sorted(panels, key=lambda panel: panel["beta"])
    first, last, scale = by_beta[0], by_beta[-1], max(panel["scale"] for panel in panels)
    return [
        {
            "claim": "For alpha = beta = 1 the density is the Gaussian N(mu, M).",
            "verdict": "holds" if gaussian < 1e-5 else "does not hold",
            "evidence": f"Largest difference from the Gaussian density on the grid, relative to its peak: {gaussian:.1e}.",
        },
        {
            "claim": "The pair of alpha and beta control the tail and the shape of the distribution.",
            "verdict": "depends on the parameter" if scale < 1e-5 else "holds",
            "evidence": "Beta does, alpha is a scale. Beyond three standard deviations lies a share of "
            f"{first['beyond']:.2g} at beta = {first['beta']:g}, of {last['beyond']:.2g} at beta = {last['beta']:g}. "
            "Changing alpha is rescaling x by sqrt(alpha), which eta does already (largest difference relative to the peak: "
            f"{scale:.1e}).",
        },
    ]


def table(panels: list[dict], extent: float) -> dict:
    rows = []
    for panel in panels:
        if {"group": f"alpha = {panel['alpha']:g}"} not in rows:
            rows.append({"group": f"alpha = {panel['alpha']:g}"})
        cells = [panel["peak"], panel["mass"], panel["beyond"]]
        gaussian = panel["alpha"] == panel["beta"] == 1
        rows.append(
            {
                "name": f"{panel['beta']:g}" + " (Gaussian)" * gaussian,
                "cells": cells,
                "emphasis": gaussian,
            }
        )
    return {
        "title": "Peak and tail",
        "note": f"Mass: on the square of {extent:g} to either side, by the midpoint rule. Tail: the share beyond three "
        "standard deviations.",
        "columns": ["beta", "peak", "mass", "tail"],
        "rows": rows,
    }


def draw(record: dict, out: Path) -> None:
    import matplotlib.pyplot as plt  # only figures need it

    settings, result = record["settings"], record["result"]
    rows, columns = len(settings["alphas"]), len(settings["betas"])
    figure, axes = plt.subplots(
        rows,
        columns,
        figsize=(1.9 * columns + 0.6, 1.9 * rows + 0.6),
        squeeze=False,
        sharex=True,
        sharey=True,
    )
    for panel, ax in zip(result["panels"], axes.flat, strict=True):
        p = np.array(panel["density"])
        ax.contourf(
            result["axis"],
            result["axis"],
            p / p.max(),
            levels=np.linspace(0, 1, 21),
            cmap="viridis",
        )
        ax.contour(
            result["axis"],
            result["axis"],
            p / p.max(),
            levels=[0.1, 0.5, 0.9],
            colors="white",
            linewidths=0.6,
        )
        ax.set_aspect("equal")
        ax.set(xticks=[-2, 0, 2], yticks=[-2, 0, 2])
        ax.text(
            0.04,
            0.94,
            f"peak {panel['peak']:.2g}",
            color="white",
            transform=ax.transAxes,
            va="top",
            fontsize=8,
        )
        if panel["alpha"] == panel["beta"] == 1:
            ax.text(0.04, 0.05, "Gaussian", color="white", transform=ax.transAxes, fontsize=8)
    for ax, beta in zip(axes[0], settings["betas"], strict=True):
        ax.set_title(rf"$\beta$ = {beta:g}", fontsize=10)
    for ax, alpha in zip(axes[:, 0], settings["alphas"], strict=True):
        ax.set_ylabel(rf"$\alpha$ = {alpha:g}", fontsize=10)
    figure.suptitle("Power exponential density", fontsize=10)
    figure.tight_layout()
    figure.savefig(out / "density.png", dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    main("density")
