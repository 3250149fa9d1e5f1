"""Several small pictures side by side on a page; on a narrow screen one below the other."""

import base64
from collections.abc import Sequence
from html import escape
from typing import NamedTuple


class Panel(NamedTuple):
    """A drawing on white, as PNG, twice as fine as it is shown; dark pages turn its lightness."""

    png: bytes
    alt: str
    width: int  # in CSS pixels


def panels_html(panels: Sequence[Panel], caption: str = "") -> str:
    """One figure of these panels, which are held in the page itself."""
    images = "".join(map(_image, panels))
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f'<figure><div class="panels">{images}</div>{below}</figure>'


def _image(panel: Panel) -> str:
    data = base64.b64encode(panel.png).decode()
    image = f'<img src="data:image/png;base64,{data}" width="{panel.width}"'
    return f'<div class="image drawn">{image} alt="{escape(panel.alt)}"></div>'
