"""Figures of predictions and training, each drawn on given or new Matplotlib axes."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.patches import Ellipse
from numpy.typing import ArrayLike

from mmlp.distributions import Elliptical
from mmlp.metrics import calibration_curve
from mmlp.spd import SPD

MAX_COLUMNS_OF_HEAT_MAP = 4096  # no screen has more pixels
MAX_COLUMNS_WITH_NUMBERS = 8
MAX_TARGETS_AS_BARS = 20
MAX_LEGEND_ENTRIES = 8


def plot_ellipses(
    distribution: Elliptical,
    y: ArrayLike | None = None,
    *,
    level: float = 0.9,
    columns: tuple[int, int] = (0, 1),
    names: Sequence[str] | None = None,
    color: Any = "C0",
    ax: Axes | None = None,
) -> Axes:
    """Plot the ellipses of two targets, their means and the observations.

    An ellipse is that of the family's two-dimensional distribution with the predicted
    mean and covariance of the two targets. (The marginals of a power exponential
    distribution are not of its family.)

    Parameters
    ----------
    distribution : Elliptical
        Predictive distribution of n_targets targets, with any batch shape. One ellipse
        is drawn for each element of the batch.
    y : array-like of shape (..., n_targets), optional
        Observations, drawn as points.
    level : float, default 0.9
        Probability of the ellipses, between 0 and 1.
    columns : pair of int, default (0, 1)
        The two targets.
    names : sequence of str, optional
        Names of all targets.
    color : Matplotlib colour, default "C0"
        Colour of ellipses and means.
    ax : Axes, optional
        Axes to draw on. By default a new figure is created.

    Returns
    -------
    Axes
        The axes that were drawn on.

    Raises
    ------
    ValueError
        If the level is not between 0 and 1, or `columns` are not two of the targets.

    Examples
    --------
    >>> from mmlp import Gram, TraceOneGaussian
    >>> p = TraceOneGaussian(np.zeros((1, 2)), Gram.trace_one(np.eye(2)), 2.0)
    >>> ax = plot_ellipses(p, np.ones((1, 2)))
    >>> plt.close()
    """
    i, j = columns
    d = distribution.dim
    columns_fit = d > max(i, j) and min(i, j) >= 0 and i != j
    if not 0 < level < 1 or not columns_fit:
        raise ValueError(
            "`plot_ellipses(level, columns)` needs a level between 0 and 1 and two of "
            f"the {d} targets, got {level!r} and {columns!r}; a distribution of one "
            "target has no ellipse."
        )
    labels = _check_names(names, d, "target")
    ax = _get_axes(ax)

    batch = distribution.batch_shape
    means = np.asarray(distribution.mean, float)[..., [i, j]].reshape(-1, 2)
    V = np.asarray(distribution.covariance.marginal([i, j]).dense(), float)
    V = np.broadcast_to(V, (*batch, 2, 2)).reshape(-1, 2, 2)
    # The quantile is a radius relative to eta omega, the ellipse one of the covariance.
    scale = np.sqrt(np.asarray(distribution.variance_factor(dim=2), float))
    radii = distribution.radius_quantile(level, dim=2) / scale
    radii = np.broadcast_to(radii, batch).ravel()

    eigenvalues, eigenvectors = np.linalg.eigh(V)
    for k, mean in enumerate(means):
        width, height = 2 * radii[k] * np.sqrt(eigenvalues[k])
        direction = eigenvectors[k, :, 0]
        ellipse = Ellipse(
            tuple(mean),
            width,
            height,
            angle=np.degrees(np.arctan2(direction[1], direction[0])),
            facecolor=to_rgba(color, 0.06),
            edgecolor=to_rgba(color, 0.6),
            label=f"{level:.0%} ellipses" if k == 0 else None,
        )
        ax.add_patch(ellipse)

    ax.plot(
        means[:, 0],
        means[:, 1],
        "+",
        color=color,
        markersize=5,
        label="predicted means",
    )
    if y is not None:
        points = np.asarray(y, float)[..., [i, j]].reshape(-1, 2)
        ax.plot(
            points[:, 0], points[:, 1], "o", color="black", markersize=2.5, label="data"
        )
    ax.set(xlabel=labels[i], ylabel=labels[j])
    ax.autoscale_view()
    ax.legend(frameon=False, fontsize="small")
    return ax


def plot_covariance(
    A: ArrayLike | SPD, *, names: Sequence[str] | None = None, ax: Axes | None = None
) -> Axes:
    """Plot a covariance matrix as a heat map, with numbers where they fit.

    Parameters
    ----------
    A : SPD or array-like of shape (d, d)
        One matrix with at most 4096 columns; `A.marginal(columns)` selects some.
    names : sequence of str, optional
        Names of the d columns.
    ax : Axes, optional
        Axes to draw on. By default a new figure is created.

    Returns
    -------
    Axes
        The axes that were drawn on.

    Raises
    ------
    ValueError
        If A is not one square matrix, or too large.

    Examples
    --------
    >>> ax = plot_covariance([[4.0, 1.0], [1.0, 1.0]], names=["u", "v"])
    >>> plt.close()
    """
    matrix = _check_matrix(A, "plot_covariance")
    limit = float(np.abs(matrix).max())
    return _plot_heat_map(matrix, limit, "covariance", names, ax)


def plot_correlation(
    A: ArrayLike | SPD, *, names: Sequence[str] | None = None, ax: Axes | None = None
) -> Axes:
    """Plot the correlations A_ij / sqrt(A_ii A_jj) of a covariance matrix.

    Parameters
    ----------
    A : SPD or array-like of shape (d, d)
        One covariance matrix with at most 4096 columns; `A.marginal(columns)` selects
        some.
    names : sequence of str, optional
        Names of the d columns.
    ax : Axes, optional
        Axes to draw on. By default a new figure is created.

    Returns
    -------
    Axes
        A heat map with colours from -1 to 1.

    Raises
    ------
    ValueError
        If A is not one square matrix, or too large.

    Examples
    --------
    >>> ax = plot_correlation([[4.0, 1.0], [1.0, 1.0]])
    >>> plt.close()
    """
    matrix = _check_matrix(A, "plot_correlation")
    scale = np.sqrt(np.diag(matrix))
    correlation = matrix / scale / scale[:, None]
    return _plot_heat_map(correlation, 1.0, "correlation", names, ax)


def plot_loadings(
    A: SPD,
    shape: tuple[int, int] | None = None,
    *,
    names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the loadings of a `LowRankGram`: what varies together, beyond the diagonal.

    The loadings are the rows of U in A = diag(scale^2) + U'U. The longest comes first.

    Parameters
    ----------
    A : LowRankGram
        One value, without batch dimensions.
    shape : pair of int, optional
        Height and width of an image, if the columns are pixels. Each loading is then
        drawn as an image. By default up to 20 columns are drawn as bars, more as lines.
    names : sequence of str, optional
        Names of the columns.
    ax : Axes, optional
        Axes to draw on. By default a new figure is created.

    Returns
    -------
    Axes
        The axes that were drawn on.

    Raises
    ------
    ValueError
        If A is not one `LowRankGram`.

    Examples
    --------
    >>> from mmlp import LowRankGram
    >>> ax = plot_loadings(LowRankGram(np.ones(6), np.eye(2, 6)), shape=(2, 3))
    >>> plt.close()
    """
    U = np.asarray(getattr(A, "U", np.nan), float)
    if U.ndim != 2:
        batch = f" with batch dimensions {U.shape[:-2]}" if U.ndim else ""
        raise ValueError(
            "`plot_loadings(A=...)` must be one `LowRankGram`, such as `network(x)` "
            f"with the output `LowRank(rank)`, got {type(A).__name__}{batch}; choose a "
            "row first."
        )
    longest_first = np.argsort(-np.sum(U**2, axis=1))
    U = U[longest_first]
    if shape is not None:
        return _plot_loading_images(U, shape, ax)

    ax = _get_axes(ax)
    m, d = U.shape
    positions = np.arange(d)
    for k, loading in enumerate(U):
        label = f"loading {k}"
        if d <= MAX_TARGETS_AS_BARS:
            offset = 0.8 * ((k + 0.5) / m - 0.5)
            ax.bar(positions + offset, loading, 0.8 / m, label=label)
        else:
            ax.plot(positions, loading, linewidth=1, label=label)
    if names is not None or d <= MAX_COLUMNS_WITH_NUMBERS:
        ax.set_xticks(positions, _check_names(names, d, ""))
    ax.axhline(0, color="0.6", linewidth=0.8, zorder=0)
    ax.set(xlabel="target", ylabel="loading")
    if m <= MAX_LEGEND_ENTRIES:
        ax.legend(frameon=False, fontsize="small")
    return ax


def plot_calibration(
    pit: ArrayLike, *, label: str | None = None, ax: Axes | None = None
) -> Axes:
    """Plot the share of rows inside each ellipsoid against its probability.

    A calibrated model lies on the diagonal. The grey band contains 95 % of the points
    of such a model. Call the function again with `ax` to compare models.

    Parameters
    ----------
    pit : array-like of shape (n_rows,)
        From `mmlp.metrics.mahalanobis_pit`.
    label : str, optional
        Name of the model in the legend.
    ax : Axes, optional
        Axes to draw on. By default a new figure is created.

    Returns
    -------
    Axes
        The axes that were drawn on.

    Examples
    --------
    >>> ax = plot_calibration(np.linspace(0, 1, 50), label="calibrated")
    >>> plt.close()
    """
    ax = _get_axes(ax)
    levels, shares = calibration_curve(pit, np.linspace(0, 1, 101))
    if not ax.has_data():
        spread = 1.96 * np.sqrt(levels * (1 - levels) / np.size(pit))
        ax.fill_between(
            levels, levels - spread, levels + spread, color="0.9", linewidth=0
        )
        ax.plot([0, 1], [0, 1], color="0.6", linewidth=1)
    ax.plot(levels, shares, label=label)
    ax.set(
        xlabel="probability of the ellipsoid",
        ylabel="share of the data inside",
        xlim=(0, 1),
        ylim=(0, 1),
        aspect="equal",
    )
    if label is not None:
        ax.legend(frameon=False, loc="upper left")
    return ax


def plot_history(
    history: Mapping[str, ArrayLike], *, log: bool = False, ax: Axes | None = None
) -> Axes:
    """Plot the training and validation losses over epochs.

    Several models are drawn as thin lines, with their mean until the first of them
    stops.

    Parameters
    ----------
    history : mapping
        `FitResult.history`: "loss" and, if there is one, "validation", arrays of shape
        (n_epochs,) or (n_epochs, n_models).
    log : bool, default False
        Whether the loss has a logarithmic axis.
    ax : Axes, optional
        Axes to draw on. By default a new figure is created.

    Returns
    -------
    Axes
        The axes that were drawn on.

    Examples
    --------
    >>> ax = plot_history({"loss": [3.0, 2.0, 1.5], "validation": [3.1, 2.4, 2.2]})
    >>> plt.close()
    """
    ax = _get_axes(ax)
    for color, name, label in (
        ("C0", "loss", "training"),
        ("C1", "validation", "validation"),
    ):
        if name not in history:
            continue
        values = np.asarray(history[name], float)
        values = values.reshape(len(values), -1)  # (n_epochs, n_models)
        epochs = np.arange(1, len(values) + 1)
        running = np.full(len(values), True)
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
    """Plot images in one grid.

    Parameters
    ----------
    images : array-like of shape (n, height, width) or (n, height * width)
        The images, or rows of their pixels.
    shape : pair of int, optional
        Height and width, if the images are rows of pixels.
    columns : int, optional
        Images side by side. By default the grid is about square.
    ax : Axes, optional
        Axes to draw on. By default a new figure is created.

    Returns
    -------
    Axes
        The axes that were drawn on.

    Raises
    ------
    ValueError
        If there is no image, or the shapes do not fit.

    Examples
    --------
    >>> ax = plot_images(np.arange(24).reshape(4, 6), shape=(2, 3))
    >>> plt.close()
    """
    images = np.asarray(images, float)
    if images.ndim == 2 and shape is not None:
        height, width = shape
        if images.shape[1] == height * width:
            images = images.reshape(-1, height, width)
    if images.ndim != 3 or not len(images):
        raise ValueError(
            "`plot_images(images, shape)` needs images (n, height, width), or rows and "
            f"the shape of an image, got shape {images.shape} and {shape!r}."
        )

    n, height, width = images.shape
    if not columns:
        columns = int(np.ceil(np.sqrt(n * height / width)))
    rows = -(-n // columns)

    # One empty line of pixels separates the images.
    canvas = np.full((rows * (height + 1) - 1, columns * (width + 1) - 1), np.nan)
    for k, image in enumerate(images):
        top = k // columns * (height + 1)
        left = k % columns * (width + 1)
        canvas[top : top + height, left : left + width] = image

    ax = _get_axes(ax)
    ax.imshow(canvas, cmap="gray", interpolation="nearest")
    ax.set_axis_off()
    return ax


def _plot_loading_images(
    U: np.ndarray, shape: tuple[int, int], ax: Axes | None
) -> Axes:
    """Plot loadings (m, d) as images with one symmetric colour scale."""
    limit = float(np.abs(U).max()) or 1.0
    ax = plot_images(U, shape, ax=ax)
    image = ax.images[0]
    image.set(cmap="RdBu_r", clim=(-limit, limit))
    ax.figure.colorbar(image, ax=ax, label="loading", fraction=0.046, pad=0.04)
    return ax


def _plot_heat_map(
    A: np.ndarray,
    limit: float,
    label: str,
    names: Sequence[str] | None,
    ax: Axes | None,
) -> Axes:
    """Plot a matrix with colours from -limit to limit."""
    ax = _get_axes(ax)
    d = len(A)
    image = ax.imshow(A, cmap="RdBu_r", vmin=-limit, vmax=limit)
    ax.figure.colorbar(image, ax=ax, label=label, fraction=0.046, pad=0.04)
    if d <= MAX_COLUMNS_WITH_NUMBERS:
        for i, j in np.ndindex(A.shape):
            ax.text(
                j,
                i,
                f"{A[i, j]:.2g}",
                ha="center",
                va="center",
                color="white" if abs(A[i, j]) > 0.6 * limit else "black",
                fontsize="small",
            )
    if names is not None or d <= MAX_COLUMNS_WITH_NUMBERS:
        labels = _check_names(names, d, "")
        longest = max(len(text) for text in labels)
        ax.set_xticks(range(d), labels, rotation=45 if longest > 3 else 0)
        ax.set_yticks(range(d), labels)
    return ax


def _check_matrix(A: ArrayLike | SPD, call: str) -> np.ndarray:
    """Return one matrix (d, d) that is small enough to be drawn."""
    if isinstance(A, SPD):
        if A.dim > MAX_COLUMNS_OF_HEAT_MAP:
            raise ValueError(
                f"`{call}(A=...)` draws at most {MAX_COLUMNS_OF_HEAT_MAP} columns, got "
                f"{A.dim}; choose some with `A.marginal(columns)`."
            )
        A = A.dense()
    matrix = np.asarray(A, float)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(
            f"`{call}(A=...)` must be one matrix (d, d), got shape {matrix.shape}; "
            "choose a row first."
        )
    return matrix


def _check_names(names: Sequence[str] | None, d: int, noun: str) -> list[str]:
    """Return d names, by default the noun with a number."""
    if names is None:
        return [f"{noun} {i}".strip() for i in range(d)]
    if len(names) != d:
        raise ValueError(
            f"`names=...` must have one name for each of the {d} targets, got "
            f"{len(names)}."
        )
    return [str(name) for name in names]


def _get_axes(ax: Axes | None) -> Axes:
    """Return the given axes, or those of a new figure."""
    if ax is not None:
        return ax
    return plt.subplots(layout="constrained")[1]
