"""Question: should a noisy table be learnt in smaller steps, and can held rows tell?

Above 1000 and up to 20,000 rows `MultivariateRegressor` tries the usual step and a quarter of it on
its first networks, and goes on with the one that is better on held rows. Here it is compared with
the usual step alone, `learning_rate=0.02`, on the tables of benchmarks/made_tables.py and on the
weather stations of mmlp/datasets/weather.py, whose truth is known.

    python benchmarks/steps.py --rows 1500 5000 --seed 1

Answer, nats a row above the truth (2000 test rows; CPU, jax 0.11.2). The rule was chosen on seed 0;
these are other tables, which nobody had seen:

                      1500 rows               5000 rows
                   usual     chosen        usual     chosen
    smooth         0.287      0.274        0.059      0.062
    tails          0.297      0.294        0.111      0.120
    moving         0.817      0.730        0.396      0.281
    ten            1.543      1.735        0.602      0.647
    wide           0.544      0.444        0.747      0.223
    weather        0.343      0.226 (1600 rows, seed 2)
    weather        0.306      0.209 (1600 rows, seed 3)

Noisy tables gain a lot; ten targets lose 0.02 a target at 1500 rows: held rows judge single
networks, and the mean of ten of them bears more noise in each.
With 10,000 rows (seed 0) chosen steps give 0.022, 0.065, 0.226, 0.444 and 0.118.
"""

import argparse
import warnings

import numpy as np
from made_tables import TABLES, TEST, made

from mmlp import MultivariateRegressor
from mmlp.datasets.weather import weather


def stations(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """X, y, the log density of the test rows, and how many rows come before these."""
    table = weather(n + TEST, seed=seed)
    y = np.array([[float(cell or "nan") for cell in row[-2:]] for row in table.cells])
    X = np.array([row[:-2] for row in table.cells], object)
    errors, V = y - table.mean, table.covariance
    u = np.einsum("ni,nij,nj->n", errors, np.linalg.inv(V), errors)
    truth = -(u + np.linalg.slogdet(V)[1] + 2 * np.log(2 * np.pi)) / 2
    known = np.asarray(~np.isnan(y).any(axis=1))
    return X[known], y[known], truth[n:][known[n:]], int(known[:n].sum())


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--rows", nargs="+", type=int, default=[1500, 5000])
    parser.add_argument("--tables", nargs="+", default=[*TABLES, "weather"])
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # a network that was still improving
    print(f"{'':24}{'usual':>9}{'chosen':>9}")
    for name in given.tables:
        for rows in given.rows:
            if name == "weather":
                X, y, truth, n = stations(rows, given.seed)
            else:
                (X, y, truth), n = made(name, rows, given.seed), rows
            gaps = []
            for rate in (0.02, None):
                model = MultivariateRegressor(random_state=0, learning_rate=rate).fit(
                    X[:n], y[:n]
                )
                gaps.append(truth.mean() - model.log_score(X[n:], y[n:]))
            print(
                f"{f'{name}, {rows} rows':24}{gaps[0]:>9.3f}{gaps[1]:>9.3f}", flush=True
            )


if __name__ == "__main__":
    main()
