"""The forecast of share covariances: no look into the future, estimates, input file, a run."""

import gzip
import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from mmlp.experiments import shares, shares_forecasts
from mmlp.experiments import shares_data as data
from mmlp.experiments.harness.run import main
from mmlp.spd import Gram

SMALL = shares.Settings(
    shares=3, first=2020, last=2022, block=3, seeds=2, origins=20, batch_size=10, epochs=1
)


@pytest.fixture(scope="module", autouse=True)
def _plain_steps():
    """Gradient descent compiles faster than Muon, and nothing here depends on how well it does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            shares_forecasts, "default_optimizer", lambda steps, rate, sgd=optax.sgd(1e-3): sgd
        )
        yield


@pytest.fixture(scope="module")
def market():
    long = data.made_up_market(3)
    late = long.dates >= np.datetime64("2015-01-01")
    return long._replace(dates=long.dates[late], returns=long.returns[late])


@pytest.fixture(scope="module")
def forecast(market):
    return shares_forecasts.forecasts(market, SMALL)


def test_future_returns_change_no_past_forecast(market, forecast):
    """Nor what was tuned or trained: all that serves a block comes from the days before it."""
    S, _, spans = forecast
    changed = 20  # the months from this one on
    r = market.returns.copy()
    r[spans[changed, 0] :] *= 3
    other, *_ = shares_forecasts.forecasts(market._replace(returns=r), SMALL)
    for name in S:
        np.testing.assert_array_equal(
            S[name][: changed + 1], other[name][: changed + 1], err_msg=name
        )
        if name != "constant":
            later, changed_later = (T[-1].T @ T[-1] for T in (S[name], other[name]))
            assert np.all(later != changed_later), name  # later months see the change


def test_every_forecast_is_positive_definite(forecast):
    for S in forecast[0].values():
        assert S.shape == (36, 3, 3)
        assert np.all(np.linalg.svd(S, compute_uv=False) > 1e-3)  # factors


def test_weighted_is_the_direct_sum():
    x, decay = np.random.default_rng(0).normal(size=(data.WARMUP + 30, 2)), 0.9
    S = data.weighted(x, decay)
    assert S.shape == (data.WARMUP + 31, 2)
    assert np.all(np.isnan(S[: data.WARMUP]))
    for t in (data.WARMUP, data.WARMUP + 1, data.WARMUP + 30):
        recent = x[data.WARMUP : t][::-1]  # yesterday first
        direct = decay ** len(recent) * x[: data.WARMUP].mean(axis=0)
        direct = direct + sum((1 - decay) * decay**k * value for k, value in enumerate(recent))
        np.testing.assert_allclose(S[t], direct, rtol=1e-12)


def test_log_likelihood_is_the_mean_density_of_the_days():
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    x, A = rng.normal(size=(15, 4)), np.cov(rng.normal(size=(4, 30)))
    expected = stats.multivariate_normal(np.zeros(4), A).logpdf(x).mean()
    np.testing.assert_allclose(data.log_likelihood(data.factored(A), x.T @ x / 15), expected)


def test_the_mean_of_covariances_is_taken_on_factors():
    T = np.random.default_rng(0).normal(size=(5, 2, 6, 3))
    found = data.mean_factor(T)
    np.testing.assert_allclose(found.mT @ found, (T.mT @ T).mean(axis=0))


def test_a_residual_mixes_the_identity_and_the_network():
    omega = Gram.trace_one(jnp.array([[1.0, 0.5], [0.0, 2.0]]))
    found = shares_forecasts.Residual(lambda x: (x, omega), 0.2)(jnp.array([0.3]))
    expected = np.exp(0.3) * (0.8 * np.eye(2) + 0.2 * 2 * omega.dense())
    np.testing.assert_allclose(found.covariance.dense(), expected, rtol=1e-6)


def test_two_decays_and_principal_root():
    rng = np.random.default_rng(0)
    A, B = (np.cov(rng.normal(size=(2, 3, 20))[0]) for _ in range(2))
    mixed = data.two_decays(A, B)
    np.testing.assert_allclose(np.diag(mixed), np.diag(A))
    np.testing.assert_allclose(data.mean_correlation(mixed), data.mean_correlation(B))
    L = data.principal_root(mixed)
    np.testing.assert_allclose(L @ L.T, mixed)
    assert np.all(np.diff(np.sum(L**2, axis=0)) < 0)
    assert np.all(L.sum(axis=0) >= 0)


def write(path, dates, prices):
    lines = [
        "Date,A,B",
        *(f"{day},{','.join(map(str, row))}" for day, row in zip(dates, prices, strict=True)),
    ]
    with (gzip.open if path.suffix == ".gz" else open)(path, "wt") as file:
        file.write("\n".join(lines))
    return path


DATES = np.arange("2010-01-01", "2016-01-01", dtype="datetime64[D]")
PRICES = np.exp(0.01 * np.random.default_rng(0).normal(size=(len(DATES), 2)).cumsum(axis=0))


@pytest.mark.parametrize("name", ["prices.csv", "prices.csv.gz"])
def test_a_price_file_becomes_returns(tmp_path, name):
    market = data.find_market(write(tmp_path / name, DATES, PRICES), 20)
    assert (market.source, market.names) == (name, ["A", "B"])
    np.testing.assert_array_equal(market.dates, DATES[1:])
    np.testing.assert_allclose(market.returns[:5], 100 * np.log(PRICES[1:6] / PRICES[:5]))
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
        (DATES[:100], PRICES[:100], r"two shares and 1500 days at least, got shape \(100, 2\)"),
        (DATES, PRICES[:, :1], r"two shares and 1500 days at least, got shape \(2191, 1\)"),
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
    with pytest.raises(ValueError, match=r"--first 2020 --last 2030` must be within 199. to 2022"):
        shares.run(shares.Settings(last=2030, first=2020, shares=3))


def test_a_run_makes_a_record_and_a_picture(tmp_path, market, forecast, monkeypatch):
    monkeypatch.setattr(shares, "find_market", lambda *_: market)
    monkeypatch.setattr(shares, "forecasts", lambda market, settings: forecast)  # trained above
    flags = ["--quick", "--shares", "3", "--first", "2020", "--out", str(tmp_path)]
    main("shares", flags)
    record = json.loads((tmp_path / "shares.json").read_text())
    result = record["result"]
    assert record["command"] == "python -m mmlp.experiments.shares --quick --shares 3"
    assert (tmp_path / "shares.png").stat().st_size > 20_000
    assert len(result["months"]) == 36
    table = result["tables"][0]
    assert [row["name"] for row in table["rows"]][: len(forecast[0])] == list(forecast[0])
    assert all(len(row["cells"]) == len(table["columns"]) - 1 for row in table["rows"])
    gain = {row["name"]: row["cells"][1] for row in table["rows"]}[shares_forecasts.MATRIX]
    scores = {name: np.array(by["log-likelihood"]) for name, by in result["scores"].items()}
    np.testing.assert_allclose(
        gain["mean"],
        np.mean(scores[shares_forecasts.MATRIX] - scores[shares_forecasts.EWMA]),
        atol=1e-3,
    )
    assert "nats a day" in result["claims"][0]["evidence"]


def test_a_claim_holds_only_beyond_two_standard_errors():
    noise = np.tile([-1.0, 1.0], 50)  # standard error 0.1
    verdicts = [
        shares.claim("", shift + noise, np.repeat([2020, 2021], 50))["verdict"]
        for shift in (0.3, 0.1, -0.3)
    ]
    assert verdicts == ["holds", "depends on the months", "does not hold"]
