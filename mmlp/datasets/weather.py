"""A synthetic table of weather stations with dates, names and blanks, and its truth.

    python -m mmlp.datasets.weather weather.csv [ROWS [SEED]]

The mean of temperature and wind depends on season, station, humidity and pressure;
their spread depends on sky and pressure; their correlation depends on the season. The
serial number and the remarks carry no information.
"""

import csv
import datetime
import io
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mmlp import atomic_files

COLUMNS = ("date", "station", "sky", "pressure", "humidity", "serial", "remark")
TARGETS = ("temperature", "wind")

# Offsets of temperature and wind.
STATIONS = {
    "Bergen": (0.0, 2.0),
    "Kiruna": (-8.0, 0.5),
    "Lund": (2.0, 1.0),
    "Oslo": (0.0, -0.5),
    "Tromsø": (-5.0, 1.5),
    "Uppsala": (0.5, 0.0),
    "Utö": (1.0, 3.0),
    "Visby": (1.5, 2.0),
    "Mora": (-2.0, -0.5),
    "Åre": (-4.0, 0.5),
}
# The last two stations are rare.
STATION_WEIGHTS = np.array([1.0] * 8 + [0.008, 0.006])

# How much the logarithm of the spread grows.
SKIES = {"clear": 0.0, "cloudy": 0.2, "rain": 0.5}
SKY_PROBABILITIES = (0.4, 0.4, 0.2)

REMARKS = ("", "", "", "checked by hand", "battery low", "snow on the sensor")
FIRST_DAY = datetime.date(2021, 1, 1)
DEFAULT_ROWS = 2000
DEFAULT_SEED = 0


class Weather(NamedTuple):
    """A table of text cells and the true distribution of its targets.

    The truth is based on the values before some cells were blanked.

    Parameters
    ----------
    names : tuple of str
        The column names, targets last.
    cells : list of lists of str
        One list per row.
    mean : array of shape (n, 2)
        The true conditional mean of temperature and wind.
    covariance : array of shape (n, 2, 2)
        Their true conditional covariance.
    """

    names: tuple[str, ...]
    cells: list[list[str]]
    mean: np.ndarray
    covariance: np.ndarray

    def csv(self) -> str:
        """Return the table as the text of a CSV file.

        Returns
        -------
        str
            A line of names, then a line for each row.
        """
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.names, *self.cells])
        return text.getvalue()


def weather(n: int = DEFAULT_ROWS, *, seed: int = DEFAULT_SEED) -> Weather:
    """Draw a table of days at ten weather stations.

    Parameters
    ----------
    n : int, default=2000
        The number of rows.
    seed : int, default=0
        The seed.

    Returns
    -------
    Weather
        The table and the truth.

    Examples
    --------
    >>> table = weather(3)
    >>> table.names[:3], len(table.cells), table.covariance.shape
    (('date', 'station', 'sky'), 3, (3, 2, 2))
    """
    rng = np.random.default_rng(seed)
    day = rng.integers(0, 4 * 365, n)
    station_probabilities = STATION_WEIGHTS / STATION_WEIGHTS.sum()
    station = rng.choice(len(STATIONS), n, p=station_probabilities)
    sky = rng.choice(len(SKIES), n, p=SKY_PROBABILITIES)
    pressure = rng.normal(1012, 9, n)
    humidity = rng.normal(75, 12, n).clip(20, 100)

    # The sine of the angle is one in summer.
    angle = 2 * np.pi * (day - 110) / 365.2425
    low_pressure = np.logaddexp(0, (1010 - pressure) / 5)

    temperature = 8 + 9 * np.sin(angle) - 0.05 * (humidity - 75)
    wind = 4 + 0.8 * low_pressure + 0.5 * np.cos(angle)
    offsets = np.array([*STATIONS.values()])[station]
    mean = offsets + np.stack([temperature, wind], 1)

    growth = np.exp(np.array([*SKIES.values()])[sky])
    spread = np.stack([1.2 * growth, 0.8 * growth * (1 + 0.25 * low_pressure)], 1)
    correlation = 0.8 * np.sin(angle)
    covariance = spread[:, :, None] * spread[:, None, :]
    covariance[:, 0, 1] *= correlation
    covariance[:, 1, 0] *= correlation

    noise = np.linalg.cholesky(covariance) @ rng.standard_normal((n, 2, 1))
    y = mean + noise[..., 0]

    blank = rng.random((n, 4))
    station_names = [*STATIONS]
    sky_names = [*SKIES]
    rows = []
    for i in range(n):
        date = FIRST_DAY + datetime.timedelta(days=int(day[i]))
        serial = str(rng.integers(10_000, 99_999))
        remark = f"{REMARKS[rng.integers(6)]} {i}" if blank[i, 2] > 0.9 else ""
        rows.append(
            [
                date.isoformat(),
                station_names[station[i]],
                "" if blank[i, 0] < 0.03 else sky_names[sky[i]],
                "" if blank[i, 1] < 0.05 else f"{pressure[i]:.1f}",
                "NA" if blank[i, 2] < 0.1 else f"{humidity[i]:.0f}",
                serial,
                remark,
                "" if blank[i, 3] < 0.02 else f"{y[i, 0]:.2f}",
                f"{y[i, 1]:.2f}",
            ]
        )
    return Weather(COLUMNS + TARGETS, rows, mean, covariance)


def main(arguments: list[str]) -> None:
    """Write a table to a CSV file."""
    if not 1 <= len(arguments) <= 3:
        sys.exit("usage: python -m mmlp.datasets.weather weather.csv [ROWS [SEED]]")
    path = Path(arguments[0])
    n_rows = int(arguments[1]) if len(arguments) > 1 else DEFAULT_ROWS
    seed = int(arguments[2]) if len(arguments) > 2 else DEFAULT_SEED
    table = weather(n_rows, seed=seed)
    atomic_files.replace_file(path, table.csv().encode())


if __name__ == "__main__":
    main(sys.argv[1:])
