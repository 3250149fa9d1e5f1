"""Text from files that is safe to print: what a file holds must not control the terminal."""

import unicodedata

# Control characters, invisible formatting such as reversed writing, surrogates (bytes
# of file names that are not text), and separators of lines other than the newline.
UNSAFE_CATEGORIES = {"Cc", "Cf", "Cs", "Zl", "Zp"}
JOINERS = "\u200c\u200d"  # formatting that Persian, Indic scripts and emoji need


def escape_controls(text: str) -> str:
    r"""Replace characters that control a terminal by their escapes, as `repr` shows them.

    Parameters
    ----------
    text : str
        Any text; newlines stay.

    Returns
    -------
    str
        The text, with an escape such as ``\x1b`` for each unsafe character.

    Examples
    --------
    >>> print(escape_controls("wind\x1b[2J, \u00e9t\u00e9"))
    wind\x1b[2J, été
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escape(character) for character in text)


def _escape(character: str) -> str:
    """Return the character, or its escape if it is unsafe."""
    harmless = character == "\n" or character in JOINERS
    if harmless or unicodedata.category(character) not in UNSAFE_CATEGORIES:
        return character
    return character.encode("unicode_escape").decode("ascii")
