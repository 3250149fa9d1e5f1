"""What a page is made of: sections with verdicts, tables, figures and notes.

Everything here is plain text and numbers. The templates write it as HTML and escape it.
"""

import base64
import dataclasses
import re
from collections.abc import Sequence

from mmlp.reporting.tables import Table

GOOD = "holds"
BAD = "does not hold"
NEUTRAL = "depends"
CSS_CLASSES = {GOOD: "holds", BAD: "fails", NEUTRAL: "depends"}


@dataclasses.dataclass(frozen=True)
class Claim:
    """A sentence with a verdict, which is shown as a coloured badge.

    Attributes
    ----------
    verdict : str
        Text of the badge.
    text : str
    evidence : str, default=""
    tone : str, default=""
        Colour of the badge: `GOOD`, `BAD` or `NEUTRAL`. By default the verdict itself
        is one of these, or begins with "depends".
    """

    verdict: str
    text: str
    evidence: str = ""
    tone: str = ""

    @property
    def css_class(self) -> str:
        """Class of the badge.

        Raises
        ------
        ValueError
            If neither the tone nor the verdict is a known one.
        """
        tone = self.tone or self.verdict
        if re.match("depends($| )", tone):
            tone = NEUTRAL
        if tone not in CSS_CLASSES:
            raise ValueError(
                "a verdict must be 'holds', 'does not hold' or 'depends on ...', "
                f"got {self.verdict!r:.80}"
            )
        return CSS_CLASSES[tone]


@dataclasses.dataclass(frozen=True)
class Image:
    """A picture inside the page.

    Attributes
    ----------
    data : bytes
        The file.
    alt : str
        What it shows, for readers who do not see it.
    media_type : str, default="image/png"
    width : int, optional
        Width on a wide screen, in CSS pixels.
    on_white : bool, default=False
        Whether it is a drawing on white, whose lightness dark pages invert.
    """

    data: bytes
    alt: str
    media_type: str = "image/png"
    width: int | None = None
    on_white: bool = False

    @property
    def url(self) -> str:
        """The file as a data URL."""
        return f"data:{self.media_type};base64,{base64.b64encode(self.data).decode()}"


@dataclasses.dataclass(frozen=True)
class Figure:
    """Pictures side by side, one below the other on a narrow screen, with a caption."""

    images: Sequence[Image]
    caption: str = ""


@dataclasses.dataclass
class Section:
    """A section of the page about a model.

    Attributes
    ----------
    name : str
        Anchor of the section.
    title : str
    about : str
        First paragraph.
    claims : list of Claim
        The verdicts, which the contents list too.
    parts : list of Table and Figure
    notes : list of str
        How to read the section.
    warning : str
    """

    name: str
    title: str
    about: str = ""
    claims: list[Claim] = dataclasses.field(default_factory=list)
    parts: list[Table | Figure] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    warning: str = ""
