"""The figures of a report, drawn with Matplotlib.

`draw_image` turns a function that draws on axes into an image of the page. The other
functions are such drawings, of arrays that are computed elsewhere.
"""

import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mmlp.distributions import Elliptical
from mmlp.plotting import (
    plot_calibration,
    plot_covariance,
    plot_ellipses,
    plot_history,
)
from mmlp.reporting.content import Image
from mmlp.reporting.importance import SIGNIFICANT_STANDARD_ERRORS, Importance
from mmlp.reporting.rows import Column
from mmlp.reporting.spread import Bins

DOTS_PER_INCH = 160
CSS_PIXELS_PER_INCH = 80
IMAGE_SIZE_IN_INCHES = (4.2, 3.3)
MAX_LABEL_LENGTH = 26
MAX_TICK_LABEL_LENGTH = 14

N_HISTOGRAM_BARS = 10
MAX_POINTS = 1500
MAX_INTERVALS = 150
MAX_SAMPLES = 500
LOG_SCALE_RATIO = 20  # of the largest eigenvalue to the smallest

STYLE: Any = {
    "font.size": 9.5,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "0.4",
    "legend.fontsize": 8.5,
    "legend.frameon": False,
}


def draw_image(
    draw: Callable[[Axes], object],
    alt: str,
    size: tuple[float, float] = IMAGE_SIZE_IN_INCHES,
) -> Image:
    """Return what a function draws on axes, as an image of the page.

    The image is twice as fine as it is shown, and readable on a narrow screen.

    Parameters
    ----------
    draw : callable
        Draws on the axes that it is called with.
    alt : str
        What the image shows, for readers who do not see it.
    size : pair of float
        Width and height in inches.
    """
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        # Names may be in any script, also in one that the font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure = Figure(figsize=size, layout="constrained")
        draw(figure.subplots())
        png = render_png(figure)
    return Image(png, alt, width=round(size[0] * CSS_PIXELS_PER_INCH), on_white=True)


def render_png(figure: Figure) -> bytes:
    """Return a figure as a PNG file."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DOTS_PER_INCH)
    return file.getvalue()


def escape_label(text: str, max_length: int = MAX_LABEL_LENGTH) -> str:
    """Return a name that Matplotlib shows as it is: no formula, no hidden label.

    >>> escape_label("_cost in $")
    ' _cost in \\\\$'
    """
    if len(text) > max_length:
        text = f"{text[: max_length - 1]}…"
    if text.startswith("_"):
        text = f" {text}"
    return text.replace("$", r"\$")


def draw_ellipsoid_calibration(ax: Axes, pits: Mapping[str, np.ndarray]) -> None:
    """Draw the share of rows in each ellipsoid against its probability, by model."""
    for name, pit in pits.items():
        plot_calibration(pit, label=name, ax=ax)
    ax.set_title("the whole ellipsoid")


def draw_pit_histogram(ax: Axes, pit: np.ndarray, name: str) -> None:
    """Draw the histogram of a target's PIT, with a band of what chance allows."""
    # The standard error of a bar of a uniform density, which is one.
    band = 1.96 * np.sqrt((N_HISTOGRAM_BARS - 1) / len(pit))
    ax.axhspan(max(0, 1 - band), 1 + band, color="0.9", linewidth=0)
    ax.axhline(1, color="0.6", linewidth=1)
    ax.hist(
        pit,
        N_HISTOGRAM_BARS,
        range=(0, 1),
        density=True,
        color="C0",
        alpha=0.75,
        rwidth=0.92,
    )
    ax.set(xlabel="PIT", ylabel="density", xlim=(0, 1), title=escape_label(name))


def draw_intervals(
    ax: Axes,
    predicted: np.ndarray,
    observed: np.ndarray,
    half_widths: np.ndarray,
    name: str,
) -> None:
    """Draw observed against predicted values of a target, with some intervals."""
    points = np.random.default_rng(0).permutation(len(observed))[:MAX_POINTS]
    bars = points[:MAX_INTERVALS]
    ax.errorbar(
        predicted[bars],
        predicted[bars],
        half_widths[bars],
        fmt="none",
        ecolor="C0",
        alpha=0.35,
    )
    ax.plot(
        predicted[points],
        observed[points],
        ".",
        color="black",
        markersize=3,
        alpha=0.6,
    )
    diagonal = [predicted[points].min(), predicted[points].max()]
    ax.plot(diagonal, diagonal, color="C1", linewidth=1)
    ax.set(xlabel="predicted", ylabel="observed", title=escape_label(name))


def draw_ellipses(
    ax: Axes,
    errors: Elliptical,
    predicted: np.ndarray,
    observed: np.ndarray,
    *,
    columns: tuple[int, int],
    names: Sequence[str],
) -> None:
    """Draw the ellipses of two targets and the observations of the same rows.

    Parameters
    ----------
    ax : Axes
    errors : Elliptical
        Distribution of the errors, about zero.
    predicted, observed : arrays of shape (n_rows, n_targets)
    columns : pair of int
    names : sequence of str
        Of all targets.
    """
    mean = np.asarray(predicted, errors.loc.dtype)
    distribution = eqx.tree_at(lambda p: p.loc, errors, mean)
    labels = [escape_label(name) for name in names]
    plot_ellipses(distribution, observed, columns=columns, names=labels, ax=ax)


def draw_importances(
    ax: Axes,
    importances: Sequence[Importance],
    names: Sequence[str],
    score_names: Sequence[str],
) -> None:
    """Draw a bar for each input and score, with two standard errors."""
    k = len(score_names)
    rows = np.arange(len(importances))[::-1]
    height = 0.7 / k
    for part, label in enumerate(score_names):
        positions = rows + height * ((k - 1) / 2 - part)
        means = [importance.means[part] for importance in importances]
        errors = [
            SIGNIFICANT_STANDARD_ERRORS * importance.errors[part]
            for importance in importances
        ]
        ax.barh(positions, means, height, color=f"C{part}", alpha=0.75, label=label)
        ax.errorbar(
            means, positions, xerr=errors, fmt="none", ecolor="0.2", linewidth=1
        )
    ax.axvline(0, color="0.4", linewidth=0.8)
    ax.set_yticks(rows, [escape_label(name) for name in names])
    ax.set_xlabel("loss by shuffling")
    if k > 1:
        ax.legend(loc="lower right")


def draw_along_column(
    ax: Axes,
    column: Column,
    bins: Bins,
    means: Mapping[str, np.ndarray],
    *,
    label: str,
    limits: tuple[float, float],
) -> None:
    """Draw means of quantities over the bins of a column."""
    marker = "o-" if bins.names is None else "o"
    for name, values in means.items():
        ax.plot(bins.positions, values, marker, markersize=4, label=escape_label(name))
    if bins.names is not None:
        labels = [escape_label(name, MAX_TICK_LABEL_LENGTH) for name in bins.names]
        ax.set_xticks(bins.positions, labels, rotation=45, ha="right")
    elif column.kind == "date":
        ax.tick_params(axis="x", rotation=30)
    ax.set(xlabel=escape_label(column.name), ylabel=label, ylim=limits)
    ax.legend(fontsize="small", ncols=2 if len(means) > 3 else 1)


def draw_eigenvalues(
    ax: Axes, predicted: np.ndarray, observed: np.ndarray, title: str
) -> None:
    """Draw observed against predicted eigenvalues (n_rows,)."""
    points = np.random.default_rng(0).permutation(len(observed))[:MAX_POINTS]
    x = predicted[points]
    y = observed[points]
    low = min(x.min(), y.min())
    high = max(x.max(), y.max())
    ax.plot(x, y, ".", color="C0", markersize=4, alpha=0.5)
    ax.plot([low, high], [low, high], color="C1", linewidth=1)
    ax.set(xlabel="predicted", ylabel="observed", title=title)
    if high > LOG_SCALE_RATIO * low:
        ax.set(xscale="log", yscale="log")


def draw_matrix(ax: Axes, A: np.ndarray, limit: float, title: str) -> None:
    """Draw a matrix as a heat map with colours from -limit to limit."""
    plot_covariance(A, ax=ax)
    ax.images[0].set_clim(-limit, limit)
    ax.set_title(title)


def draw_data_and_samples(
    ax: Axes,
    data: np.ndarray,
    samples: np.ndarray,
    *,
    columns: tuple[int, int],
    names: Sequence[str],
) -> None:
    """Draw two columns of the data and of as many samples as points."""
    rows = np.random.default_rng(0).permutation(len(data))[:MAX_SAMPLES]
    i, j = columns
    for color, label, points in (
        ("C0", "data", data[rows]),
        ("C1", "samples", samples[: len(rows)]),
    ):
        ax.plot(
            points[:, i],
            points[:, j],
            ".",
            color=color,
            markersize=4,
            alpha=0.6,
            label=label,
        )
    ax.set(xlabel=escape_label(names[i]), ylabel=escape_label(names[j]))
    ax.legend()


def draw_histograms(ax: Axes, data: np.ndarray, samples: np.ndarray, name: str) -> None:
    """Draw the histograms of a single column, data and samples."""
    edges = list(np.histogram_bin_edges(data, 30))
    for label, values in (("data", data), ("samples", samples)):
        ax.hist(values, edges, density=True, alpha=0.5, label=label)
    ax.set(xlabel=escape_label(name), ylabel="density")
    ax.legend()


def draw_latent_variables(
    ax: Axes, latent: np.ndarray, log_density: np.ndarray
) -> None:
    """Draw the first two latent variables coloured by density, or the only one."""
    if latent.shape[1] == 1:
        ax.hist(latent[:, 0], 30, density=True, color="C0", alpha=0.75)
        ax.set(xlabel="latent variable", ylabel="density")
        return
    rows = np.random.default_rng(0).permutation(len(latent))[:MAX_SAMPLES]
    low, high = np.quantile(log_density, [0.05, 0.95])
    points = ax.scatter(
        latent[rows, 0], latent[rows, 1], c=log_density[rows], s=10, vmin=low, vmax=high
    )
    ax.figure.colorbar(points, ax=ax, label="log density")
    ax.set(xlabel="latent variable 1", ylabel="latent variable 2")


def draw_training(ax: Axes, history: Mapping[str, np.ndarray], title: str) -> None:
    """Draw the losses over epochs, on a scale for all but the first of them."""
    plot_history(history, ax=ax)
    ax.set_title(title)

    # The first epochs may be far above the others.
    losses = [history[name] for name in ("loss", "validation") if name in history]
    later = [
        np.asarray(values, float)[len(values) // 20 :].ravel() for values in losses
    ]
    later = np.concatenate(later)
    later = later[np.isfinite(later)]
    if not len(later):
        return
    low = later.min()
    high = np.quantile(later, 0.98)
    if high > low:
        margin = 0.08 * (high - low)
        ax.set_ylim(low - margin, high + margin)
