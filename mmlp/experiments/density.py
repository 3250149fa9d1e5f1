"""The paper's Figure pdf: the trace-one power exponential density at d = 2 over a grid of alpha and beta.

python -m mmlp.experiments.density [--quick] [--out report]      writes density.json and density.png
"""

import dataclasses
from pathlib import Path
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from mmlp.distributions import TraceOnePowerExponential
from mmlp.experiments._run import main
from mmlp.gram import Gram


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
    omega = Gram.from_dense(np.array([[1, settings.rho], [settings.rho, 1]]) / 2)

    @jax.jit
    def density(alpha, beta):
        return jnp.exp(TraceOnePowerExponential(jnp.zeros(2), omega, 2.0, alpha, beta).log_prob(x))

    panels = []
    for alpha in settings.alphas:
        for beta in settings.betas:
            values = np.asarray(density(alpha, beta), np.float64)
            panels.append(
                {
                    "alpha": alpha,
                    "beta": beta,
                    "peak": float(values.max()),
                    "mass": float(values.sum() * (axis[1] - axis[0]) ** 2),
                    "density": [[float(f"{v:.3g}") for v in row] for row in values],
                }
            )
    return {"axis": axis.tolist(), "panels": panels}


def draw(record: dict, out: Path) -> None:
    import matplotlib.pyplot as plt  # only figures need it

    settings, result = record["settings"], record["result"]
    rows, columns = len(settings["alphas"]), len(settings["betas"])
    figure, axes = plt.subplots(
        rows, columns, figsize=(1.9 * columns + 0.6, 1.9 * rows + 0.6), squeeze=False, sharex=True, sharey=True
    )
    for panel, ax in zip(result["panels"], axes.flat, strict=True):
        p = np.array(panel["density"])
        ax.contourf(result["axis"], result["axis"], p / p.max(), levels=np.linspace(0, 1, 21), cmap="viridis")
        ax.contour(result["axis"], result["axis"], p / p.max(), levels=[0.1, 0.5, 0.9], colors="white", linewidths=0.6)
        ax.set_aspect("equal")
        ax.set(xticks=[-2, 0, 2], yticks=[-2, 0, 2])
        ax.text(0.04, 0.94, f"peak {panel['peak']:.2g}", color="white", transform=ax.transAxes, va="top", fontsize=8)
        if panel["alpha"] == panel["beta"] == 1:
            ax.text(0.04, 0.05, "Gaussian", color="white", transform=ax.transAxes, fontsize=8)
    for ax, beta in zip(axes[0], settings["betas"], strict=True):
        ax.set_title(rf"$\beta$ = {beta:g}", fontsize=10)
    for ax, alpha in zip(axes[:, 0], settings["alphas"], strict=True):
        ax.set_ylabel(rf"$\alpha$ = {alpha:g}", fontsize=10)
    figure.suptitle("Power exponential density, relative to its peak; lines at 0.1, 0.5 and 0.9", fontsize=10)
    figure.tight_layout()
    figure.savefig(out / "density.png", dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    main("density", Settings, run, draw)
