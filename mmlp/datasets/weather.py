"""A made table of weather stations, as tables come: dates, names, blanks; and the truth behind it.

    python -m mmlp.datasets.weather weather.csv [ROWS [SEED]]

The mean of temperature and wind depends on season, station, humidity and pressure; their spread on
the sky and the pressure; their correlation on the season. The serial number and the remarks tell
nothing.
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
# what each adds to the temperature and the wind; the last two are rare
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
OFTEN = np.array([1.0] * 8 + [0.008, 0.006])
SKIES = {
    "clear": 0.0,
    "cloudy": 0.2,
    "rain": 0.5,
}  # the logarithm by which spread grows


class Weather(NamedTuple):
    """Cells of text (n, columns), targets last; and the true mean (n, 2) and covariance (n, 2, 2).

    The truth is that of the values as they were: what is blank in the cells was known to it.
    """

    names: tuple[str, ...]
    cells: list[list[str]]
    mean: np.ndarray
    covariance: np.ndarray

    def csv(self) -> str:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.names, *self.cells])
        return text.getvalue()


def weather(n: int = 2000, *, seed: int = 0) -> Weather:
    """n days at ten stations.

    >>> table = weather(3)
    >>> table.names[:3], len(table.cells), table.covariance.shape
    (('date', 'station', 'sky'), 3, (3, 2, 2))
    """
    rng = np.random.default_rng(seed)
    day, place = (
        rng.integers(0, 4 * 365, n),
        rng.choice(len(OFTEN), n, p=OFTEN / OFTEN.sum()),
    )
    sky = rng.choice(len(SKIES), n, p=(0.4, 0.4, 0.2))
    pressure, humidity = rng.normal(1012, 9, n), rng.normal(75, 12, n).clip(20, 100)
    angle = 2 * np.pi * (day - 110) / 365.2425  # summer is where its sine is one
    local = np.array([*STATIONS.values()])[place]
    low = np.logaddexp(0, (1010 - pressure) / 5)  # how low the pressure is
    mean = local + np.stack(
        [
            8 + 9 * np.sin(angle) - 0.05 * (humidity - 75),
            4 + 0.8 * low + 0.5 * np.cos(angle),
        ],
        1,
    )
    growth = np.exp(np.array([*SKIES.values()])[sky])
    spread = np.stack([1.2 * growth, 0.8 * growth * (1 + 0.25 * low)], 1)
    rho = 0.8 * np.sin(angle)
    covariance = spread[:, :, None] * spread[:, None, :]
    covariance[:, 0, 1] *= rho
    covariance[:, 1, 0] *= rho
    noise = np.linalg.cholesky(covariance) @ rng.standard_normal((n, 2, 1))
    y = mean + noise[..., 0]

    first, blank = datetime.date(2021, 1, 1), rng.random((n, 4))
    remarks = ("", "", "", "checked by hand", "battery low", "snow on the sensor")
    rows = [
        [
            (first + datetime.timedelta(days=int(day[i]))).isoformat(),
            [*STATIONS][place[i]],
            "" if blank[i, 0] < 0.03 else [*SKIES][sky[i]],
            "" if blank[i, 1] < 0.05 else f"{pressure[i]:.1f}",
            "NA" if blank[i, 2] < 0.1 else f"{humidity[i]:.0f}",
            str(rng.integers(10_000, 99_999)),
            f"{remarks[rng.integers(6)]} {i}" if blank[i, 2] > 0.9 else "",
            "" if blank[i, 3] < 0.02 else f"{y[i, 0]:.2f}",
            f"{y[i, 1]:.2f}",
        ]
        for i in range(n)
    ]
    return Weather(COLUMNS + TARGETS, rows, mean, covariance)


def main(arguments: list[str]) -> None:
    if not 1 <= len(arguments) <= 3:
        sys.exit("usage: python -m mmlp.datasets.weather weather.csv [ROWS [SEED]]")
    rows, seed = ([*map(int, arguments[1:]), *(2000, 0)[len(arguments) - 1 :]])[:2]
    atomic_files.replace_file(
        Path(arguments[0]), weather(rows, seed=seed).csv().encode()
    )


if __name__ == "__main__":
    main(sys.argv[1:])
