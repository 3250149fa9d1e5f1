"""The paper's Figure pdf: the trace-one power exponential density at d = 2, by alpha and beta."""

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
from reproduction.harness.claims import judged
from reproduction.harness.jobs import progress


@dataclasses.dataclass(frozen=True)
class Settings:
    """E(0, M / tr M, tr M, alpha, beta), M = [[1, rho], [rho, 1]]; N(0, M) at alpha = beta = 1."""

    alphas: tuple[float, ...] = (0.5, 1.0, 1.5)
    betas: tuple[float, ...] = (0.5, 0.75, 1.0, 1.5, 5.0)
    rho: float = 0.5
    points: int = 81
    extent: float = 3.5

    QUICK: ClassVar = {"points": 25, "alphas": (0.5, 1.5), "betas": (0.5, 1.5)}


def run(settings: Settings) -> dict:
    axis, rho = (
        np.linspace(-settings.extent, settings.extent, settings.points),
        settings.rho,
    )
    x = jnp.stack(jnp.meshgrid(axis, axis, indexing="xy"), axis=-1)
    M = np.array([[1, rho], [rho, 1]])
    omega = Gram.from_dense(M / 2)

    @jax.jit
    def density(x, alpha, beta):
        p = TraceOnePowerExponential(jnp.zeros(2), omega, 2.0, alpha, beta)
        return jnp.exp(p.log_prob(x)), p.variance_factor() / alpha

    panels = []
    for alpha, beta in progress(
        itertools.product(settings.alphas, settings.betas), "density"
    ):
        values, nu = (
            np.asarray(value, np.float64) for value in density(x, alpha, beta)
        )
        unscaled = np.asarray(density(x / alpha**0.5, 1.0, beta)[0], np.float64) / alpha
        # nu times a squared number of deviations is u, and u^beta is 2 Gamma(1 / beta)
        beyond = float(scipy.stats.gamma.sf((9 * nu) ** beta / 2, 1 / beta))
        mass = float(values.sum() * (axis[1] - axis[0]) ** 2)
        panel = {
            "alpha": alpha,
            "beta": beta,
            "peak": float(values.max()),
            "mass": mass,
        }
        panel |= {"beyond": beyond, "scale": _difference(values, unscaled)}
        panels.append(
            panel | {"density": round_digits(values, 3), "gaussian": alpha == beta == 1}
        )
    u = np.sum(
        np.asarray(x, np.float64) @ np.linalg.inv(M) * np.asarray(x, np.float64),
        axis=-1,
    )
    exact = np.exp(-u / 2) / (2 * np.pi * np.linalg.det(M) ** 0.5)
    caption = "The density relative to its peak; white lines at 0.1, 0.5 and 0.9."
    alt = "Contours of the density for each alpha (rows) and beta (columns): sharp peaks and long "
    alt += "tails at small beta, flat tops at large beta, wider at large alpha."
    return {
        "axis": axis.tolist(),
        "panels": panels,
        "title": "the power exponential density",
        "about": "The power exponential density in two dimensions, over a grid of its parameters.",
        "claims": claims(panels, _difference(density(x, 1.0, 1.0)[0], exact)),
        "tables": [table(panels, settings.extent)],
        "figures": [{"file": "density.png", "caption": caption, "alt": alt}],
        "notes": [
            f"The paper does not say which M it drew; here M = [[1, {rho:g}], [{rho:g}, 1]]."
        ],
    }


def _difference(p, q) -> float:
    """The largest difference on the grid, relative to the peak."""
    return float(np.max(np.abs(np.asarray(p, np.float64) - q)) / np.max(q))


def claims(panels: list[dict], gaussian: float) -> list:
    by_beta = sorted(panels, key=lambda panel: panel["beta"])
    scale = max(panel["scale"] for panel in panels)
    first, last = (
        f"{p['beyond']:.2g} at beta = {p['beta']:g}" for p in (by_beta[0], by_beta[-1])
    )
    special = "For alpha = beta = 1 the density is the Gaussian N(mu, M)."
    largest = (
        "Largest difference from the Gaussian density on the grid, relative to its peak"
    )
    shape = {
        "claim": "The pair of alpha and beta control the tail and the shape.",
        "verdict": "depends on the parameter" if scale < 1e-5 else "holds",
        "evidence": "Beta does, alpha is a scale. Beyond three standard deviations lies a share of "
        f"{first}, of {last}. Changing alpha is rescaling x by sqrt(alpha), which eta does already "
        f"(largest difference relative to the peak: {scale:.1e}).",
    }
    return [judged(special, gaussian < 1e-5, f"{largest}: {gaussian:.1e}."), shape]


def table(panels: list[dict], extent: float) -> dict:
    rows = []
    for panel in panels:
        group, gaussian = {"group": f"alpha = {panel['alpha']:g}"}, panel["gaussian"]
        rows += [] if group in rows else [group]
        name = f"{panel['beta']:g}" + " (Gaussian)" * gaussian
        cells = [panel["peak"], panel["mass"], panel["beyond"]]
        rows.append({"name": name, "cells": cells, "emphasis": gaussian})
    note = f"Mass: on the square of {extent:g} to either side, by the midpoint rule. Tail: the "
    note += "share beyond three standard deviations."
    columns = ["beta", "peak", "mass", "tail"]
    return {"title": "Peak and tail", "note": note, "columns": columns, "rows": rows}


def draw(record: dict, out: Path) -> None:
    settings, result = record["settings"], record["result"]
    rows, columns = len(settings["alphas"]), len(settings["betas"])
    figure = Figure(figsize=(1.9 * columns + 0.6, 1.9 * rows + 0.6))
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    grid = result["axis"], result["axis"]
    for panel, ax in zip(result["panels"], axes.flat, strict=True):
        p = np.array(panel["density"]) / np.max(panel["density"])
        ax.contourf(*grid, p, levels=np.linspace(0, 1, 21), cmap="viridis")
        ax.contour(*grid, p, levels=[0.1, 0.5, 0.9], colors="white", linewidths=0.6)
        ax.set(xticks=[-2, 0, 2], yticks=[-2, 0, 2], aspect="equal")
        text = {"color": "white", "transform": ax.transAxes, "fontsize": 8}
        ax.text(0.04, 0.94, f"peak {panel['peak']:.2g}", va="top", **text)
        ax.text(0.04, 0.05, "Gaussian" * panel["gaussian"], **text)
    for ax, beta in zip(axes[0], settings["betas"], strict=True):
        ax.set_title(rf"$\beta$ = {beta:g}", fontsize=10)
    for ax, alpha in zip(axes[:, 0], settings["alphas"], strict=True):
        ax.set_ylabel(rf"$\alpha$ = {alpha:g}", fontsize=10)
    figure.suptitle("Power exponential density", fontsize=10)
    figure.tight_layout()
    figure.savefig(out / "density.png", dpi=150)
