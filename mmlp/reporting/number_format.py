"""Numbers as a reader wants to see them: few digits, aligned columns, powers of ten.

Columns of a table are aligned by `column_format`; `format_number` writes one number, or
a mean with its standard error.
"""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, SupportsFloat

MINUS = "\u2212"
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

SIGNIFICANT_DIGITS = 4
SMALLEST_PLAIN_NUMBER = 1e-2
LARGEST_PLAIN_NUMBER = 1e5
MAX_DECIMALS = 6


@dataclasses.dataclass(frozen=True)
class NumberFormat:
    """How the numbers of a column are written.

    Attributes
    ----------
    powers : bool
        Whether numbers with a size below 0.1, or of 10,000 and more, are written with a
        power of ten.
    decimals : int or None
        Decimals of numbers without an error; None writes up to four significant digits.
    """

    powers: bool = False
    decimals: int | None = None


def column_format(
    numbers: Iterable[float], without_error: Iterable[float]
) -> NumberFormat:
    """Choose the format that aligns a column.

    Parameters
    ----------
    numbers : iterable of float
        All numbers of the column.
    without_error : iterable of float
        Those that stand without a standard error, which decide the number of decimals.

    Returns
    -------
    NumberFormat
    """
    if needs_powers(numbers):
        return NumberFormat(powers=True, decimals=2)
    return NumberFormat(powers=False, decimals=count_decimals(without_error))


def count_decimals(values: Iterable[float]) -> int:
    """Return the decimals that align a column.

    The largest value gets four significant digits, or fewer if no value needs them.

    >>> count_decimals([0.5, 0.66667, 12.0])
    2
    >>> count_decimals([2, 12])
    0
    >>> count_decimals([0.5, 0.25])
    2
    """
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return 0
    largest = max(abs(value) for value in finite)
    allowed = SIGNIFICANT_DIGITS - 1 - _exponent(f"{largest:.3e}")
    needed = max(-_last_place(value) for value in finite)
    return max(0, min(allowed, needed))


def needs_powers(values: Iterable[float]) -> bool:
    """Return whether a column of these numbers is easier to read with powers of ten.

    >>> needs_powers([0.5, -63.95])
    False
    >>> needs_powers([0.5, 3e-4])
    True
    """
    sizes = [abs(value) for value in values if value and math.isfinite(value)]
    if not sizes:
        return False
    return min(sizes) < SMALLEST_PLAIN_NUMBER or max(sizes) >= LARGEST_PLAIN_NUMBER


def format_number(
    mean: float,
    error: float | None = None,
    *,
    powers: bool = False,
    decimals: int | None = None,
) -> str:
    """Write a number, or a mean and its standard error.

    The error has one significant digit, two if the first is a 1, and the mean ends at
    the same place.

    Parameters
    ----------
    mean : float
    error : float, optional
        Standard error of the mean; None or a non-finite value writes the mean alone.
    powers : bool, default=False
        Whether numbers with a size below 0.1, or of 10,000 and more, are written with a
        power of ten.
    decimals : int, optional
        Decimals of a number without an error, after the power of ten is taken out. By
        default it has up to four significant digits.

    Returns
    -------
    str

    Examples
    --------
    >>> format_number(-63.954, 0.127)
    '\u221263.95 ± 0.13'
    >>> format_number(1.0712e-2, 3.1e-4, powers=True)
    '(1.07 ± 0.03)·10⁻²'
    >>> format_number(5.8e-6, powers=True)
    '5.8·10⁻⁶'
    >>> format_number(0.5, powers=True)
    '0.5'
    """
    if error is not None and not math.isfinite(error):
        error = None
    if not math.isfinite(mean) or (mean == 0 and not error):
        return f"{mean:g}".replace("-", MINUS)
    if isinstance(mean, int) and error is None and not powers and not decimals:
        return f"{mean:,}".replace("-", MINUS)

    place = _rounding_place(mean, error, powers=powers, decimals=decimals)
    values = [
        round(Decimal(value), -place) for value in (mean, error) if value is not None
    ]

    exponent = 0
    if powers:
        exponent = _exponent(f"{max(map(abs, values)):e}")
    if -1 <= exponent <= 3:
        exponent = 0

    shown_decimals = max(0, exponent - place)
    text = " ± ".join(
        f"{value.scaleb(-exponent):.{shown_decimals}f}" for value in values
    )
    if exponent and error is not None:
        text = f"({text})"
    text = text.replace("-", MINUS)
    if exponent:
        text += f"·10{str(exponent).translate(SUPERSCRIPTS)}"
    return text


def round_digits(values: Any, digits: int = 4) -> Any:
    """Round a number, or nested sequences of numbers, to significant digits.

    This keeps the JSON files of results small.

    Parameters
    ----------
    values : float, array or nested sequence of float
    digits : int, default=4

    Returns
    -------
    float or nested list of float

    Examples
    --------
    >>> round_digits([1.23456, 1e-9 / 3])
    [1.235, 3.333e-10]
    """
    if not isinstance(values, Iterable):
        return float(f"{values:.{digits}g}")
    return [round_digits(value, digits) for value in values]


def format_duration(seconds: float) -> str:
    """Write a time.

    >>> format_duration(4.2)
    '4.2 s'
    >>> format_duration(200)
    '3 min 20 s'
    >>> format_duration(4200)
    '1 h 10 min'
    """
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, remaining_seconds = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {remaining_seconds} s"
    return f"{minutes // 60} h {minutes % 60} min"


def format_percent(share: SupportsFloat) -> str:
    """Write a share.

    >>> format_percent(0.907)
    '90.7 %'
    """
    return f"{100 * float(share):.1f} %"


def format_count(n: int, noun: str) -> str:
    """Write a number of things.

    >>> format_count(1, "row")
    '1 row'
    >>> format_count(12_000, "row")
    '12,000 rows'
    """
    plural = "" if n == 1 else "s"
    return f"{n:,} {noun}{plural}"


def format_to_deviation(values: Sequence[float], deviation: float) -> list[str]:
    """Write numbers to the place of the second digit of a standard deviation.

    Where that takes too many digits, each has three digits of its own.

    >>> format_to_deviation([10.4812, -0.31], 3.94)
    ['10.5', '\u22120.3']
    """
    decimals = MAX_DECIMALS + 1
    if deviation > 0:
        decimals = max(0, 1 - math.floor(math.log10(deviation)))
    if decimals > MAX_DECIMALS or max(map(abs, values)) >= 1e7:
        return [f"{value:.3g}".replace("-", MINUS) for value in values]

    # Adding zero turns -0.0 into 0.0.
    rounded = [round(float(value), decimals) + 0.0 for value in values]
    return [f"{value:.{decimals}f}".replace("-", MINUS) for value in rounded]


def format_observed(observed: float, predicted: float, deviation: float) -> str:
    """Write a value and, in brackets, its prediction and standard deviation.

    >>> format_observed(10.4812, 0.31, 3.94)
    '10.5 (0.3 ± 3.9)'
    >>> format_observed(1200.0, 31.0, 250.0)
    '1200 (31 ± 250)'
    """
    numbers = format_to_deviation((observed, predicted, deviation), deviation)
    return "{} ({} ± {})".format(*numbers)


def _rounding_place(
    mean: float, error: float | None, *, powers: bool, decimals: int | None
) -> int:
    """Return the power of ten of the last digit that is written."""
    if error:
        scientific = f"{error:.1e}"
        place = _exponent(scientific)
        if scientific.startswith("1"):
            place -= 1
        # An error that is next to nothing must not write hundreds of digits.
        return max(place, _exponent(f"{mean:e}") - 9)
    if decimals is None:
        return _last_place(mean)
    leading = _exponent(f"{mean:.{decimals}e}") if powers else 0
    return leading - decimals


def _last_place(value: float) -> int:
    """Return the power of ten of the last of four digits that is not zero."""
    rounded = Decimal(f"{value:.{SIGNIFICANT_DIGITS}g}").normalize()
    return int(rounded.as_tuple().exponent)


def _exponent(scientific: str) -> int:
    """Return the exponent of a number in scientific notation."""
    return int(scientific.partition("e")[2])
