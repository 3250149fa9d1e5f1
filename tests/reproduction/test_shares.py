"""The forecast of share covariances: no look into the future, estimates, input file, a run."""

import gzip
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from mmlp.spd import Gram
from reproduction.harness.run import run_one
from reproduction.shares import forecasts as shares_forecasts
from reproduction.shares import market as data
from reproduction.shares import networks as shares_networks
from reproduction.shares import study as shares
from reproduction.shares.networks import CHOLESKY, HORIZONS, JOINT, LOW_RANK, Choice

TRAINED = {
    name: (name, Choice(0.2, 0.1, 0.003, (3, 4, 2))) for name in (JOINT, LOW_RANK)
}
SMALL = shares.Settings(
    shares=3,
    first=2020,
    last=2022,
    block=3,
    seeds=2,
    origins=20,
    batch_size=10,
    epochs=1,
)


@pytest.fixture(scope="module", autouse=True)
def _plain_steps():
    """Gradient descent compiles faster than Muon, and nothing here depends on how well it does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            shares_networks,
            "default_optimizer",
            lambda steps, rate, sgd=optax.sgd(1e-3): sgd,
        )
        yield


@pytest.fixture(scope="module")
def market():
    long = data.make_synthetic_market(3)
    late = long.dates >= np.datetime64("2015-01-01")
    return long._replace(dates=long.dates[late], returns=long.returns[late])


def forecasts(market, months):
    return shares_forecasts.make_forecasts(market, SMALL, months, TRAINED, every=months)


@pytest.fixture(scope="module")
def by_months(market):
    return {months: forecasts(market, months) for months in HORIZONS.values()}


@pytest.mark.slow
@pytest.mark.parametrize(("months", "changed"), [(1, 20), (12, 1)])
def test_future_returns_change_no_past_forecast(market, by_months, months, changed):
    """Nor what was tuned or trained: all that serves a block comes from the days before it."""
    found = by_months[months]
    r = market.returns.copy()
    r[found.windows.begin[changed] :] *= 3  # from this window on
    other = forecasts(market._replace(returns=r), months)
    for name, T in found.factors.items():
        np.testing.assert_array_equal(
            T[: changed + 1], other.factors[name][: changed + 1], err_msg=name
        )
        if name != "constant":
            later, changed_later = (T[-1].T @ T[-1] for T in (T, other.factors[name]))
            assert np.all(later != changed_later), name  # later windows see the change


@pytest.mark.slow
def test_every_forecast_is_positive_definite(by_months):
    for months, found in by_months.items():
        for T in found.factors.values():
            assert T.shape == (36 // months, 3, 3)
            assert np.all(np.linalg.svd(T, compute_uv=False) > 1e-3)


def test_windows_of_a_year_begin_each_month_and_end_with_the_days(market):
    months, years = data.make_windows(market, 1), data.make_windows(market, 12)
    np.testing.assert_array_equal(years.begin, months.begin[:-11])
    np.testing.assert_array_equal(years.end, months.end[11:])
    assert years.end[-1] == len(market.returns)
    assert set((years.end - years.begin).tolist()) <= set(
        range(258, 263)
    )  # weekdays, two missing
    W = years.select(np.arange(2)).covariances(market.returns)
    days = market.returns[years.begin[1] : years.end[1]]
    np.testing.assert_allclose(
        W[1], np.mean(days[:, :, None] * days[:, None, :], axis=0)
    )


def test_fewer_vectors_have_the_same_density():
    Y, T = (
        np.random.default_rng(i).normal(size=n)
        for i, n in enumerate([(2, 9, 3), (3, 3)])
    )
    few = shares_networks.reduce_days(Y)
    assert few.shape == (2, 3, 3)
    for one, all_of_them in zip(few, Y, strict=True):
        found, expected = (
            data.log_likelihood(T, x.T @ x / len(x)) for x in (one, all_of_them)
        )
        np.testing.assert_allclose(found, expected)


def test_a_factor_model_keeps_variances_and_finds_factors():
    U, s = np.random.default_rng(0).normal(size=(2, 6)), np.linspace(1, 2, 6)
    S = np.outer(s, s) * (U.T @ U + np.eye(6))
    np.testing.assert_allclose(np.diag(data.fit_factor_model(S, 1)), np.diag(S))
    np.testing.assert_allclose(data.fit_factor_model(S, 2, steps=1000), S, rtol=1e-3)


@pytest.mark.parametrize("kind", list(shares_networks.BEST_CHOICES["month"]))
def test_every_network_has_a_last_layer_to_start_small(kind):
    network = shares_networks.make_network(kind, 5, 3, (3, 4, 2), jax.random.key(0))
    W, b, *_ = shares_networks.last_layer_of(kind)(network)
    assert W.shape[0] == len(b) == (7 if kind == CHOLESKY else 1)


def test_weighted_is_the_direct_sum():
    x, decay = np.random.default_rng(0).normal(size=(data.WARMUP_DAYS + 30, 2)), 0.9
    S = data.exponentially_weighted_mean(x, decay)
    assert S.shape == (data.WARMUP_DAYS + 31, 2)
    assert np.all(np.isnan(S[: data.WARMUP_DAYS]))
    for t in (data.WARMUP_DAYS, data.WARMUP_DAYS + 1, data.WARMUP_DAYS + 30):
        recent = x[data.WARMUP_DAYS : t][::-1]  # yesterday first
        direct = decay ** len(recent) * x[: data.WARMUP_DAYS].mean(axis=0)
        direct = direct + sum(
            (1 - decay) * decay**k * value for k, value in enumerate(recent)
        )
        np.testing.assert_allclose(S[t], direct, rtol=1e-12)


def test_log_likelihood_is_the_mean_density_of_the_days():
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    x, A = rng.normal(size=(15, 4)), np.cov(rng.normal(size=(4, 30)))
    expected = stats.multivariate_normal(np.zeros(4), A).logpdf(x).mean()
    np.testing.assert_allclose(
        data.log_likelihood(data.cholesky_factor(A), x.T @ x / 15), expected
    )


def test_the_mean_of_covariances_is_taken_on_factors():
    T = np.random.default_rng(0).normal(size=(5, 2, 6, 3))
    found = data.mean_factor(T)
    np.testing.assert_allclose(found.mT @ found, (T.mT @ T).mean(axis=0))


def test_a_residual_mixes_the_identity_and_the_network():
    omega = Gram.trace_one(jnp.array([[1.0, 0.5], [0.0, 2.0]]))
    found = shares_networks.Residual(lambda x: (x, omega), 0.2)(jnp.array([0.3]))
    expected = np.exp(0.3) * (0.8 * np.eye(2) + 0.2 * 2 * omega.dense())
    np.testing.assert_allclose(found.covariance.dense(), expected, rtol=1e-6)


@pytest.mark.parametrize("horizon", HORIZONS)
def test_what_was_chosen_is_the_best_of_as_many_trials(horizon):
    path = Path(__file__).parents[2] / "results" / "search" / "shares.json"
    tried = [
        e for e in json.loads(path.read_text())["tried"] if e["horizon"] == horizon
    ]
    for kind, choice in shares_networks.BEST_CHOICES[horizon].items():
        rows = [entry for entry in tried if entry["kind"] == kind]
        assert len(rows) == shares_networks.N_TRIALS[horizon]
        best = max(rows, key=lambda entry: entry["validation"])
        assert [*choice[:3], *choice.sizes] == [
            *map(best.get, choice._fields[:3]),
            *best["sizes"],
        ]


def test_two_decays_and_principal_root():
    rng = np.random.default_rng(0)
    A, B = (np.cov(rng.normal(size=(2, 3, 20))[0]) for _ in range(2))
    mixed = data.combine_decays(A, B)
    np.testing.assert_allclose(np.diag(mixed), np.diag(A))
    np.testing.assert_allclose(data.mean_correlation(mixed), data.mean_correlation(B))
    L = data.principal_root(mixed)
    np.testing.assert_allclose(L @ L.T, mixed)
    assert np.all(np.diff(np.sum(L**2, axis=0)) < 0)
    assert np.all(L.sum(axis=0) >= 0)


def write(path, dates, prices):
    lines = [
        "Date,A,B",
        *(
            f"{day},{','.join(map(str, row))}"
            for day, row in zip(dates, prices, strict=True)
        ),
    ]
    with (gzip.open if path.suffix == ".gz" else open)(path, "wt") as file:
        file.write("\n".join(lines))
    return path


DATES = np.arange("2010-01-01", "2016-01-01", dtype="datetime64[D]")
PRICES = np.exp(
    0.01 * np.random.default_rng(0).normal(size=(len(DATES), 2)).cumsum(axis=0)
)


@pytest.mark.parametrize("name", ["prices.csv", "prices.csv.gz"])
def test_a_price_file_becomes_returns(tmp_path, name):
    market = data.find_market(write(tmp_path / name, DATES, PRICES), 20)
    assert (market.source, market.names) == (name, ["A", "B"])
    np.testing.assert_array_equal(market.dates, DATES[1:])
    np.testing.assert_allclose(
        market.returns[:5], 100 * np.log(PRICES[1:6] / PRICES[:5])
    )
    assert data.find_market(tmp_path / name, 2).returns.shape[1] == 2


def test_without_a_file_prices_are_made_up(tmp_path):
    assert data.find_market(None, 3).source == "made-up prices"
    write(tmp_path / "sp500_prices.csv.gz", DATES, PRICES)
    assert data.find_market(tmp_path, 3).source == "sp500_prices.csv.gz"


def bad(array, value):
    array = array.astype(object)
    array[(7,) * array.ndim if array.ndim == 1 else (7, 1)] = value
    return array


@pytest.mark.parametrize(
    ("dates", "prices", "message"),
    [
        (DATES, bad(PRICES, -1.0), "must be positive, got -1.0 for B on 2010-01-08"),
        (DATES, bad(PRICES, "nan"), "must be positive, got nan for B on 2010-01-08"),
        (DATES, bad(PRICES, ""), "a date .* and then numbers in each row"),
        (bad(DATES, "yesterday"), PRICES, "a date .* and then numbers in each row"),
        (bad(DATES, "2009-01-01"), PRICES, "rising order"),
        (DATES[:0], PRICES[:0], r"two shares and 1500 days at least, got shape \(0,\)"),
        (
            DATES[:100],
            PRICES[:100],
            r"two shares and 1500 days at least, got shape \(100, 2\)",
        ),
        (
            DATES,
            PRICES[:, :1],
            r"two shares and 1500 days at least, got shape \(2191, 1\)",
        ),
    ],
)
def test_a_bad_price_file_is_named(tmp_path, dates, prices, message):
    path = write(tmp_path / "prices.csv", dates, prices)
    with pytest.raises(ValueError, match=message) as error:
        data.find_market(path, 20)
    assert str(path) in str(error.value)


def test_a_missing_file_and_settings_out_of_range_are_named(tmp_path):
    with pytest.raises(ValueError, match="--data nowhere`: there is no file nowhere"):
        data.find_market(Path("nowhere"), 20)
    with pytest.raises(ValueError, match=r"there is no file .*sp500_prices\.csv\.gz"):
        data.find_market(tmp_path, 20)
    with pytest.raises(ValueError, match="--shares 21` must be 2 to 20"):
        shares.run(shares.Settings(shares=21))
    with pytest.raises(
        ValueError, match=r"--first 2020 --last 2030` must be within 1995 to 2022"
    ):
        shares.run(shares.Settings(last=2030, first=2020, shares=3))
    with pytest.raises(
        ValueError, match="--horizons` must be of month, year, got week"
    ):
        shares.run(shares.Settings(horizons=("week",)))


@pytest.mark.slow
def test_a_run_makes_a_record_and_a_picture(tmp_path, market, by_months, monkeypatch):
    def known(
        market, settings, months, chosen, every
    ):  # the others stand in for all networks
        found = by_months[months]
        return found._replace(
            factors=dict.fromkeys(chosen, found.factors[JOINT]) | found.factors
        )

    monkeypatch.setattr(shares, "find_market", lambda *_: market)
    monkeypatch.setattr(shares, "make_forecasts", known)
    flags = ["--quick", "--shares", "3", "--first", "2020", "--out", str(tmp_path)]
    run_one("shares", flags)
    record = json.loads((tmp_path / "shares.json").read_text())
    result = record["result"]
    assert record["command"] == "python -m reproduction shares --quick --shares 3"
    assert (tmp_path / "shares.png").stat().st_size > 20_000
    for horizon, table in zip(HORIZONS, result["tables"], strict=True):
        series = result["horizons"][horizon]
        assert len(series["months"]) == 36 // HORIZONS[horizon]
        assert {row["name"] for row in table["rows"]} > {
            *shares_networks.BEST_CHOICES["month"],
            "factor model",
        }
        assert all(
            len(row["cells"]) == len(table["columns"]) - 1 for row in table["rows"]
        )
        gain = {row["name"]: row["cells"][1] for row in table["rows"]}[LOW_RANK]
        scores = {
            name: np.array(by["log-likelihood"])
            for name, by in series["scores"].items()
        }
        expected = np.mean(scores[LOW_RANK] - scores[shares_forecasts.EWMA])
        np.testing.assert_allclose(gain["mean"], expected, atol=1e-3)
    assert len(result["claims"]) == 2 * len(shares.DUELS)
    assert "over years" in result["claims"][0]["evidence"]
    assert "of 3 years" in result["claims"][-1]["evidence"]


def test_a_claim_holds_only_beyond_two_standard_errors():
    noise = np.tile([-1.0, 1.0], 50)  # standard error 0.1
    verdicts = [
        shares.judge_duel("", shift + noise, np.repeat([2020, 2021], 50), "month")[
            "verdict"
        ]
        for shift in (0.3, 0.1, -0.3)
    ]
    assert verdicts == ["holds", "depends on the months", "does not hold"]
