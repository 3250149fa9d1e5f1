"""Numbers as a reader wants them: a mean to the digits that its standard error supports."""

import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

SUPERSCRIPTS = str.maketrans(
    "-0123456789", "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"
)


def decimals(values: Iterable[float]) -> int:
    """The decimals that align a column: four digits of the largest, or fewer if none needs them.

    >>> decimals([0.5, 0.66667, 12.0]), decimals([2, 12]), decimals([0.5, 0.25])
    (2, 0, 2)
    """
    finite = [value for value in values if math.isfinite(value)]
    largest = _exponent(f"{max(map(abs, finite), default=0):.3e}")
    return max(0, min(3 - largest, max((-_place(value) for value in finite), default=0)))


def needs_powers(values: Iterable[float]) -> bool:
    """Whether a column of these numbers is easier to read with powers of ten.

    >>> needs_powers([0.5, -63.95]), needs_powers([0.5, 3e-4])
    (False, True)
    """
    sizes = [abs(value) for value in values if value and math.isfinite(value)]
    return bool(sizes) and (min(sizes) < 1e-2 or max(sizes) >= 1e5)


def show(
    mean: float, error: float | None = None, *, powers: bool = False, digits: int | None = None
) -> str:
    """A number, or mean and standard error, with or without a power of ten.

    The error has one significant digit, two if the first is 1. Without an error the number has
    `digits` decimals (after the power of ten is taken out), or up to four significant digits as it
    was given. Numbers from 0.1 to 9999 need no power.

    >>> show(1.0712e-2, 3.1e-4, powers=True), show(-63.954, 0.127), show(5.8e-6, powers=True)
    ('(1.07 ± 0.03)·10⁻²', '\u221263.95 ± 0.13', '5.8·10⁻⁶')
    >>> show(0.5, powers=True)
    '0.5'
    """
    error = error if error is not None and math.isfinite(error) else None
    if not math.isfinite(mean) or (mean == 0 and not error):
        return _minus(f"{mean:g}")
    if isinstance(mean, int) and error is None and not powers and not digits:
        return _minus(f"{mean:,}")
    if error:
        first = f"{error:.1e}"
        least = _exponent(f"{mean:e}") - 9  # an error that is next to nothing: ten digits
        place = max(_exponent(first) - first.startswith("1"), least)
    elif digits is None:
        place = _place(mean)
    else:
        place = (_exponent(f"{mean:.{digits}e}") if powers else 0) - digits
    values = [round(Decimal(value), -place) for value in (mean, error) if value is not None]
    exponent = _exponent(f"{max(map(abs, values)):e}") if powers else 0
    exponent = 0 if -1 <= exponent <= 3 else exponent
    text = " ± ".join(
        _minus(f"{value.scaleb(-exponent):.{max(0, exponent - place)}f}") for value in values
    )
    if exponent == 0:
        return text
    text = text if error is None else f"({text})"
    return f"{text}·10{str(exponent).translate(SUPERSCRIPTS)}"


def rounded(values: Any, digits: int = 4) -> Any:
    """A number to significant digits, or nested lists of them from an array: for a JSON file.

    >>> rounded([1.23456, 1e-9 / 3])
    [1.235, 3.333e-10]
    """
    if not isinstance(values, Iterable):
        return float(f"{values:.{digits}g}")
    return [rounded(value, digits) for value in values]


def duration(seconds: float) -> str:
    """
    >>> duration(4.2), duration(200), duration(4200)
    ('4.2 s', '3 min 20 s', '1 h 10 min')
    """
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _place(value: float) -> int:
    """The power of ten of the last of four digits that is not zero."""
    return int(Decimal(f"{value:.4g}").normalize().as_tuple().exponent)


def _exponent(scientific: str) -> int:
    return int(scientific.partition("e")[2])


def _minus(text: str) -> str:
    return text.replace("-", "\u2212")
