"""The generator of Examples 1 and 2: its laws, its noise, the distribution of its samples."""

import dataclasses

import numpy as np
import pytest

from mmlp.datasets import Setting, synthetic_covariances
from mmlp.datasets.covariances import SETTINGS, _covariance_factors

each_setting = pytest.mark.parametrize("setting", SETTINGS)


def dense(T):
    return np.swapaxes(T, -1, -2) @ T


@each_setting
@pytest.mark.parametrize("dim", [1, 10, 20])
def test_targets_are_positive_definite_with_trace_one_and_held_by_their_cholesky_factor(
    setting, dim
):
    data = synthetic_covariances(dim, 30, seed=1, setting=setting)
    for T in (data.sampled, data.population):
        assert T.shape == (30, dim, dim)
        assert T.dtype == np.float64
        np.testing.assert_array_equal(T, np.triu(T))
        assert np.all(np.diagonal(T, axis1=1, axis2=2) > 0)
        np.testing.assert_allclose(np.trace(dense(T), axis1=1, axis2=2), 1, rtol=1e-12)
    np.testing.assert_allclose(
        data.targets().dense(), dense(data.sampled), rtol=1e-12, atol=1e-15
    )


@each_setting
def test_a_seed_makes_a_task_and_more_samples_only_add_to_it(setting):
    small, large = (
        synthetic_covariances(4, n, seed=3, setting=setting) for n in (7, 20)
    )
    for field in dataclasses.fields(small):
        a, b = getattr(small, field.name), getattr(large, field.name)
        np.testing.assert_array_equal(a, b if field.name == "A" else b[:7])
    other = synthetic_covariances(4, 7, seed=4, setting=setting)
    assert not np.allclose(other.A, small.A)
    assert not np.allclose(other.X, small.X)


def test_one_A_serves_all_settings_and_the_orthonormal_one_spans_the_same_rows():
    A = {
        setting: synthetic_covariances(4, 2, seed=0, setting=setting).A
        for setting in SETTINGS
    }
    np.testing.assert_array_equal(A["turning"], A["linear"])
    Q = A["well-conditioned"]
    np.testing.assert_allclose(Q @ Q.T, np.eye(4), atol=1e-14)
    np.testing.assert_allclose(A["linear"] @ Q.T @ Q, A["linear"], atol=1e-13)


@each_setting
def test_the_input_determines_the_latent_factors_and_they_the_covariance(setting):
    """X = tanh(E c) has full column rank in c; equal c give equal covariances A Sigma(c) A'."""
    data = synthetic_covariances(5, 40, seed=2, setting=setting)
    E_transposed, residual, rank, _ = np.linalg.lstsq(
        data.latent, np.arctanh(data.X), rcond=None
    )
    assert rank == SETTINGS[setting].factors
    assert np.all(residual < 1e-12)
    recovered = np.linalg.lstsq(E_transposed.T, np.arctanh(data.X).T, rcond=None)[0].T
    np.testing.assert_allclose(recovered, data.latent, atol=1e-10)
    rng = np.random.default_rng(np.random.SeedSequence(2).spawn(6)[2])
    F = _covariance_factors(SETTINGS[setting], data.latent, 20, rng)
    Y = data.A @ dense(F) @ data.A.T
    np.testing.assert_allclose(
        dense(data.population),
        Y / np.trace(Y, axis1=1, axis2=2)[:, None, None],
        atol=1e-12,
    )


def test_settings_differ_in_what_they_say():
    turning = Setting(turn=0.7, spread=100.0)
    c = np.random.default_rng(0).uniform(-1, 1, (3, 2))
    F = _covariance_factors(turning, c, 6, np.random.default_rng(1))
    # without `vary` the spectrum is the same for all, only the eigenvectors turn
    np.testing.assert_allclose(
        np.linalg.svd(F, compute_uv=False) ** 2,
        np.broadcast_to(np.geomspace(1, 1 / 100, 6), (3, 6)),
        rtol=1e-10,
    )
    assert not np.allclose(dense(F[0]), dense(F[1]))
    linear = SETTINGS["linear"]
    F = [
        _covariance_factors(linear, k * c, 6, np.random.default_rng(1))
        for k in (0, 1, 2)
    ]
    np.testing.assert_allclose(F[2] - F[1], F[1] - F[0], atol=1e-12)
    conditions = {
        name: synthetic_covariances(10, 50, seed=0, setting=name).condition()
        for name in SETTINGS
    }
    assert (
        conditions["well-conditioned"]
        < 10
        < conditions["linear"]
        < conditions["turning"]
    )


def test_bartlett_agrees_with_direct_sampling():
    """Two moments of the entries of 4000 sample covariances of 8 draws each, to five sigma."""
    n, samples, d = 4000, 8, 3
    setting = Setting(turn=0.0, spread=5.0)  # one population covariance for all
    data = synthetic_covariances(
        d, n, seed=5, setting=setting, samples=samples, features=4
    )
    T = data.population[0]
    np.testing.assert_allclose(
        data.population, np.broadcast_to(T, data.population.shape), atol=1e-14
    )
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((n, samples, d)) @ T
    centred = draws - draws.mean(1, keepdims=True)
    direct = np.swapaxes(centred, 1, 2) @ centred / (samples - 1)
    direct /= np.trace(direct, axis1=1, axis2=2)[:, None, None]
    ours = dense(data.sampled)
    for power in (1, 2, 3):
        a, b = direct**power, ours**power
        error = np.sqrt((a.var(0) + b.var(0)) / n)
        np.testing.assert_array_less(np.abs(a.mean(0) - b.mean(0)), 5 * error + 1e-12)


def test_noise_floor_is_that_of_theory_for_a_round_covariance():
    """At I/d and N draws: Stein (d(d+1)/2 - 1)/(4N), von Neumann that times 4/d, to order 1/N."""
    d, samples = 10, 10_000
    data = synthetic_covariances(
        d, 400, seed=0, setting=Setting(turn=0.0, orthonormal=True), samples=samples
    )
    np.testing.assert_allclose(
        dense(data.population), np.broadcast_to(np.eye(d) / d, (400, d, d)), atol=1e-14
    )
    free = d * (d + 1) / 2 - 1  # the trace is fixed
    floor = data.noise_floor()
    assert floor["stein"] == pytest.approx(free / (4 * samples), rel=0.03)
    assert floor["von_neumann"] == pytest.approx(free / (d * samples), rel=0.03)
    assert floor["quadratic"] == pytest.approx(2 * free / (d**2 * samples), rel=0.03)


def test_population_covariances_have_no_noise():
    data = synthetic_covariances(3, 5, seed=0, samples=None)
    np.testing.assert_array_equal(data.sampled, data.population)
    assert data.noise_floor() == pytest.approx(
        {"quadratic": 0, "von_neumann": 0, "stein": 0}, abs=1e-25
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"dim": 0}, r"dim=\.\.\..*at least 1, got 0"),
        ({"n": 2.5}, r"n=\.\.\..*whole number.*2\.5"),
        ({"dim": 21}, r"dim=\.\.\..*at most features = 20.*got 21"),
        ({"samples": 3}, r"samples=\.\.\..*more than dim = 3.*got 3"),
        ({"samples": 0}, r"samples=\.\.\..*at least 1, got 0"),
        (
            {"setting": "round"},
            r"setting=\.\.\..*turning, linear, well-conditioned, got 'round'",
        ),
        ({"setting": None}, r"setting=\.\.\..*got None"),
    ],
)
def test_bad_arguments_are_named(arguments, text):
    with pytest.raises(ValueError, match=text):
        synthetic_covariances(**({"dim": 3, "n": 5, "seed": 0} | arguments))


@pytest.mark.parametrize(
    "bad", [{"turn": -1.0}, {"turn": float("nan")}, {"spread": 0.5}, {"factors": 0}]
)
def test_bad_settings_are_named(bad):
    with pytest.raises(
        ValueError, match=r"`Setting\(\w+=...\)` must be a (whole )?number of at least"
    ):
        Setting(**({"turn": 1.0} | bad))
