"""Panels of a page, drawn by Matplotlib so that they can be read on a narrow screen too."""

import io
import warnings
from collections.abc import Callable
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mmlp.reporting.content import Image

DPI, SHOWN = (
    160,
    80,
)  # dots of an inch in the file, and CSS pixels of an inch on the page
STYLE: Any = {
    "font.size": 9.5,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "0.4",
    "legend.fontsize": 8.5,
    "legend.frameon": False,
}


def panel(
    draw: Callable[[Axes], object], alt: str, size: tuple[float, float] = (4.2, 3.3)
):
    """What `draw` puts on axes of this size in inches."""
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="Glyph .* missing"
        )  # names may be in any script
        figure = Figure(figsize=size, layout="constrained")
        draw(figure.subplots())
        return Image(_png(figure), alt, width=round(size[0] * SHOWN), on_white=True)


def _png(figure: Figure) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DPI)
    return file.getvalue()


def percent(share: Any) -> str:
    """
    >>> percent(0.907)
    '90.7 %'
    """
    return f"{100 * share:.1f} %"


def plain(text: str, most: int = 26) -> str:
    """A name as Matplotlib shows it as it is: no formulas, no label that it leaves out.

    >>> plain("_cost in $")
    ' _cost in \\\\$'
    """
    text = text if len(text) <= most else f"{text[: most - 1]}…"
    return (" " if text.startswith("_") else "") + text.replace("$", r"\$")
