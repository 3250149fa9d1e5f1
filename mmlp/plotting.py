"""Pictures of predictions and training, each drawn on given or new Matplotlib axes."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.patches import Ellipse
from numpy.typing import ArrayLike

from mmlp.distributions import Elliptical
from mmlp.metrics import calibration_curve
from mmlp.spd import SPD

MOST = 4096  # columns of a heat map: no screen has more


def plot_ellipses(
    distribution: Elliptical,
    y: ArrayLike | None = None,
    *,
    level: float = 0.9,
    columns: tuple[int, int] = (0, 1),
    names: Sequence[str] | None = None,
    color="C0",
    ax: Axes | None = None,
) -> Axes:
    """Two of the d targets: each row's ellipse of probability `level`, its mean, and y (n, d).

    The ellipse is that of the family's two-dimensional law with the predicted mean and covariance
    of the two targets (the marginals of a power exponential are not of its family).

    >>> from mmlp import Gram, TraceOneGaussian
    >>> p = TraceOneGaussian(np.zeros((1, 2)), Gram.trace_one(np.eye(2)), 2.0)
    >>> ax = plot_ellipses(p, np.ones((1, 2)))
    >>> plt.close()
    """
    (i, j), d, batch = columns, distribution.dim, distribution.batch_shape
    if not (0 < level < 1 and d > max(i, j) >= min(i, j) >= 0 and i != j):
        raise ValueError(
            f"`plot_ellipses(level, columns)` needs a level between 0 and 1 and two of the {d} "
            f"targets, got {level!r} and {columns!r}; a distribution of one target has no ellipse."
        )
    ax = _axes(ax)
    mean = np.asarray(distribution.mean, float)[..., [i, j]].reshape(-1, 2)
    V = np.asarray(distribution.covariance.marginal([i, j]).dense(), float)
    V = np.broadcast_to(V, (*batch, 2, 2)).reshape(-1, 2, 2)
    radius = distribution.radius_quantile(
        level, dim=2
    )  # by eta omega; now by the covariance
    radius = radius / np.sqrt(np.asarray(distribution.variance_factor(dim=2), float))
    radius = np.broadcast_to(radius, batch).ravel()
    values, vectors = np.linalg.eigh(V)
    style = {"facecolor": to_rgba(color, 0.06), "edgecolor": to_rgba(color, 0.6)}
    for k, centre in enumerate(mean):
        width, height = 2 * radius[k] * np.sqrt(values[k])
        angle = np.degrees(np.arctan2(vectors[k, 1, 0], vectors[k, 0, 0]))
        label = f"{level:.0%} ellipses" if k == 0 else None
        ax.add_patch(
            Ellipse(tuple(centre), width, height, angle=angle, label=label, **style)
        )
    ax.plot(*mean.T, "+", color=color, markersize=5, label="predicted means")
    if y is not None:
        points = np.asarray(y, float)[..., [i, j]].reshape(-1, 2)
        ax.plot(*points.T, "o", color="black", markersize=2.5, label="data")
    names = _names(names, d, "target")
    ax.set(xlabel=names[i], ylabel=names[j])
    ax.autoscale_view()
    ax.legend(frameon=False, fontsize="small")
    return ax


def plot_covariance(
    A: ArrayLike | SPD, *, names: Sequence[str] | None = None, ax: Axes | None = None
) -> Axes:
    """A covariance matrix A, (d, d) or an SPD value, as a heat map with numbers where they fit.

    More than a few thousand columns are refused; `A.marginal(columns)` has some of them.
    """
    A = _matrix(A, "plot_covariance")
    return _heatmap(A, float(np.abs(A).max()), "covariance", names, ax)


def plot_correlation(
    A: ArrayLike | SPD, *, names: Sequence[str] | None = None, ax: Axes | None = None
) -> Axes:
    """The correlations A_ij / sqrt(A_ii A_jj) of a covariance matrix A, on a scale from -1 to 1."""
    A = _matrix(A, "plot_correlation")
    scale = np.sqrt(np.diag(A))
    return _heatmap(A / scale / scale[:, None], 1.0, "correlation", names, ax)


def plot_loadings(
    A: SPD,
    shape: tuple[int, int] | None = None,
    *,
    names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The rows of U of a `LowRankGram` A: what varies together, beyond the diagonal.

    The longest row comes first. With the `shape` of an image each row is one; without, up to 20
    targets are drawn as bars, more as lines.

    >>> from mmlp import LowRankGram
    >>> ax = plot_loadings(LowRankGram(np.ones(6), np.eye(2, 6)), shape=(2, 3))
    >>> plt.close()
    """
    U = np.asarray(getattr(A, "U", np.nan), float)
    if U.ndim != 2:
        got = f"got {type(A).__name__}" + (
            f" with batch dimensions {U.shape[:-2]}" if U.ndim else ""
        )
        wanted = "must be one `LowRankGram`, such as `network(x)` with the output `LowRank(rank)`"
        raise ValueError(f"`plot_loadings(A=...)` {wanted}, {got}; choose a row first.")
    U = U[np.argsort(-np.sum(U**2, axis=1))]
    limit = float(np.abs(U).max()) or 1.0
    if shape is not None:
        ax = plot_images(U, shape, ax=ax)
        ax.images[0].set(cmap="RdBu_r", clim=(-limit, limit))
        ax.figure.colorbar(
            ax.images[0], ax=ax, label="loading", fraction=0.046, pad=0.04
        )
        return ax
    ax = _axes(ax)
    (m, d), places = U.shape, np.arange(U.shape[1])
    for k, row in enumerate(U):
        if d <= 20:
            ax.bar(
                places + 0.8 * ((k + 0.5) / m - 0.5), row, 0.8 / m, label=f"loading {k}"
            )
        else:
            ax.plot(places, row, linewidth=1, label=f"loading {k}")
    if names is not None or d <= 8:
        ax.set_xticks(places, _names(names, d, ""))
    ax.axhline(0, color="0.6", linewidth=0.8, zorder=0)
    ax.set(xlabel="target", ylabel="loading")
    if m <= 8:
        ax.legend(frameon=False, fontsize="small")
    return ax


def plot_calibration(
    pit: ArrayLike, *, label: str | None = None, ax: Axes | None = None
) -> Axes:
    """The share of rows in each ellipsoid against its probability, of `metrics.mahalanobis_pit`.

    The grey band holds 95 % of the points of a model that is right. Call it again with `ax` to
    compare models.
    """
    ax = _axes(ax)
    levels, shares = calibration_curve(pit, np.linspace(0, 1, 101))
    if not ax.has_data():
        spread = 1.96 * np.sqrt(levels * (1 - levels) / np.size(pit))
        ax.fill_between(
            levels, levels - spread, levels + spread, color="0.9", linewidth=0
        )
        ax.plot([0, 1], [0, 1], color="0.6", linewidth=1)
    ax.plot(levels, shares, label=label)
    ax.set(xlabel="probability of the ellipsoid", ylabel="share of the data inside")
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    if label is not None:
        ax.legend(frameon=False, loc="upper left")
    return ax


def plot_history(
    history: Mapping[str, ArrayLike], *, log: bool = False, ax: Axes | None = None
) -> Axes:
    """Loss and validation loss over epochs, of a `FitResult.history`.

    Several models are drawn as thin lines, with their mean until the first of them stops.
    """
    ax = _axes(ax)
    for color, name, label in (
        ("C0", "loss", "training"),
        ("C1", "validation", "validation"),
    ):
        if name not in history:
            continue
        values = np.asarray(history[name], float)
        values = values.reshape(len(values), -1)  # (epochs, models)
        epochs, running = np.arange(1, len(values) + 1), np.full(len(values), True)
        if values.shape[1] > 1:
            ax.plot(epochs, values, color=color, linewidth=0.6, alpha=0.35)
            running = ~np.isnan(values).any(axis=1)
        ax.plot(epochs[running], values[running].mean(axis=1), color=color, label=label)
    ax.set(xlabel="epoch", ylabel="loss")
    if log:
        ax.set_yscale("log")
    ax.legend(frameon=False)
    return ax


def plot_images(
    images: ArrayLike,
    shape: tuple[int, int] | None = None,
    *,
    columns: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Images (n, height, width), or rows (n, height * width) of that `shape`, in one grid."""
    images = np.asarray(images, float)
    if (
        images.ndim == 2
        and shape is not None
        and images.shape[1] == shape[0] * shape[1]
    ):
        images = images.reshape(-1, *shape)
    if images.ndim != 3 or not len(images):
        raise ValueError(
            "`plot_images(images, shape)` needs images (n, height, width), or rows and the shape "
            f"of an image, got shape {images.shape} and {shape!r}."
        )
    ax = _axes(ax)
    n, height, width = images.shape
    columns = columns or int(np.ceil(np.sqrt(n * height / width)))  # about square
    rows = -(-n // columns)
    # one empty line between images
    canvas = np.full((rows * (height + 1) - 1, columns * (width + 1) - 1), np.nan)
    for k, image in enumerate(images):
        top, left = k // columns * (height + 1), k % columns * (width + 1)
        canvas[top : top + height, left : left + width] = image
    ax.imshow(canvas, cmap="gray", interpolation="nearest")
    ax.set_axis_off()
    return ax


def _heatmap(A: np.ndarray, limit: float, label: str, names, ax: Axes | None) -> Axes:
    ax = _axes(ax)
    d = len(A)
    image = ax.imshow(A, cmap="RdBu_r", vmin=-limit, vmax=limit)
    ax.figure.colorbar(image, ax=ax, label=label, fraction=0.046, pad=0.04)
    if d <= 8:
        for i, j in np.ndindex(A.shape):
            color = "white" if abs(A[i, j]) > 0.6 * limit else "black"
            ax.text(
                j,
                i,
                f"{A[i, j]:.2g}",
                ha="center",
                va="center",
                color=color,
                fontsize="small",
            )
    if names is not None or d <= 8:
        names = _names(names, d, "")
        ax.set_xticks(range(d), names, rotation=45 if max(map(len, names)) > 3 else 0)
        ax.set_yticks(range(d), names)
    return ax


def _matrix(A, call: str) -> np.ndarray:
    if isinstance(A, SPD) and A.dim > MOST:
        use = "choose some with `A.marginal(columns)`"
        raise ValueError(
            f"`{call}(A=...)` draws at most {MOST} columns, got {A.dim}; {use}."
        )
    A = np.asarray(A.dense() if isinstance(A, SPD) else A, float)
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        got = f"got shape {A.shape}; choose a row first"
        raise ValueError(f"`{call}(A=...)` must be one matrix (d, d), {got}.")
    return A


def _names(names, d: int, word: str) -> list[str]:
    if names is None:
        return [f"{word} {i}".strip() for i in range(d)]
    if len(names) != d:
        need = f"must have one name for each of the {d} targets"
        raise ValueError(f"`names=...` {need}, got {len(names)}.")
    return [str(name) for name in names]


def _axes(ax: Axes | None) -> Axes:
    return plt.subplots(layout="constrained")[1] if ax is None else ax
