"""What `Elliptical` promises: a new family is one file, and all else follows from its radius."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gamma_radius import GammaRadius
from helpers import trace_one_factor
from scipy import stats
from sweeps import sweep

import mmlp
from mmlp import (
    DiagonalGram,
    Elliptical,
    Gram,
    TraceOneGaussian,
    TraceOnePowerExponential,
    TraceOneStudentT,
    kl_divergence,
)

D = 3
TAILS = {
    TraceOneGaussian: (),
    TraceOnePowerExponential: (0.8, 0.6),
    TraceOneStudentT: (5.0,),
    GammaRadius: (1.7,),  # a user's, with nothing but its fields and the five methods
}
each = pytest.mark.parametrize("family", TAILS, ids=lambda family: family.__name__)
one_family = sweep("family", TAILS, ids=lambda family: family.__name__)


def one_of(family, dtype=float, *, eta=2.0):
    rng = np.random.default_rng(0)
    omega = Gram(trace_one_factor(rng, D, 5.0).astype(dtype))
    return family(rng.normal(size=D).astype(dtype), omega, eta, *TAILS[family])


def test_a_family_of_fields_and_five_methods_has_a_constructor():
    """Version 0.2.0 said that it takes 2 positional arguments but 5 were given."""
    loc, omega = np.zeros(D), DiagonalGram.trace_one(np.ones(D))
    p = GammaRadius(loc, omega, 2.0, 1.5)
    q = GammaRadius(loc, omega, shape=1.5, eta=2.0)
    for family in (p, q):
        assert isinstance(family.eta, jax.Array)
        assert isinstance(family.shape, jax.Array)
        assert family.batch_shape == ()
    assert p.tail_names() == ("shape",)
    assert p.tail == (p.shape,)
    x = np.random.default_rng(0).normal(size=(5, D))
    np.testing.assert_array_equal(p.log_prob(x), q.log_prob(x))
    many = GammaRadius(loc, omega, np.ones((4, 1)), np.array([0.5, 1.0]))
    assert many.batch_shape == (4, 2)
    assert many[1:3, 0].shape.shape == (2,)
    for wrong, argument in ((-1.0, "shape"), (np.nan, "shape")):
        with pytest.raises(
            ValueError, match=rf"`GammaRadius\({argument}=...\)` must be"
        ):
            GammaRadius(loc, omega, 1.0, wrong)


@pytest.mark.parametrize(
    ("tail", "named"),
    [((), {}), ((1.0, 2.0), {}), ((1.0,), {"shape": 2.0}), ((), {"form": 1.0})],
)
def test_wrong_arguments_of_a_family_are_named(tail, named):
    omega = DiagonalGram.trace_one(np.ones(D))
    with pytest.raises(
        TypeError, match=r"`GammaRadius\(...\)` takes loc, omega, eta, shape, got"
    ):
        GammaRadius(np.zeros(D), omega, 1.0, *tail, **named)


def test_a_gaussian_is_the_gamma_radius_of_shape_one():
    p, q = one_of(GammaRadius), one_of(TraceOneGaussian)
    p = GammaRadius(p.loc, p.omega, p.eta, 1.0)
    x = np.random.default_rng(0).normal(size=(5, D))
    np.testing.assert_allclose(p.log_prob(x), q.log_prob(x), rtol=1e-12)
    np.testing.assert_allclose(p.entropy(), q.entropy(), rtol=1e-12)
    levels = np.array([0.01, 0.3, 0.5, 0.975])
    np.testing.assert_allclose(
        p.marginal_quantile(levels), q.marginal_quantile(levels), atol=1e-6
    )
    for scalar in (p.marginal_quantile(0.975), p.marginal_cdf(1.96)):
        assert scalar.shape == ()
    np.testing.assert_allclose(
        p.marginal_quantile(0.975), stats.norm.ppf(0.975), atol=1e-6
    )


class PlainNumbers(GammaRadius):
    """A variance factor without a tail dimension may be a Python number."""

    def variance_factor(self, dim=None):
        return 1.5


def test_methods_may_return_python_numbers():
    p = PlainNumbers(np.zeros(D), DiagonalGram.trace_one(np.ones(D)), 2.0, 1.5)
    reference = GammaRadius(p.loc, p.omega, p.eta, 1.5)
    assert p.marginal_quantile(0.9) == reference.marginal_quantile(0.9)
    assert p.marginal_cdf(0.9) == reference.marginal_cdf(0.9)
    np.testing.assert_array_equal(p.covariance.dense(), reference.covariance.dense())
    again = PlainNumbers.from_moments(p.mean, p.covariance, 1.5)
    np.testing.assert_allclose(again.eta, p.eta, rtol=1e-12)


class OtherConstructor(GammaRadius):
    def __init__(self, shape):
        super().__init__(np.zeros(D), DiagonalGram.trace_one(np.ones(D)), 1.0, shape)


class GammaOrShell(GammaRadius):
    """With an option that changes the radius, and a converter that is not idempotent."""

    shape: jax.Array = eqx.field(converter=jnp.sqrt)
    shell: bool = eqx.field(static=True)

    def __init__(self, loc, omega, eta, shape, *, shell=False):
        super().__init__(loc, omega, eta, shape)
        self.shell = shell

    def radius_cdf(self, r, dim=None):
        if self.shell:  # the whole volume of a ball, for which shape is its radius
            return jnp.clip(r / self.shape, 0, 1) ** D
        return super().radius_cdf(r, dim)

    def variance_factor(self, dim=None):
        return self.shape**2 / (D + 2) if self.shell else super().variance_factor(dim)


def test_marginals_and_metrics_keep_options_and_do_not_convert_again():
    """They reconstructed the distribution from loc, omega, eta and the tail alone."""
    omega = DiagonalGram.trace_one(np.ones(D))
    p = GammaOrShell(np.zeros((1, D)), omega, float(D), 4.0, shell=True)
    assert p.shape == 2
    x = np.array([[0.5, 0.0, 0.0]])
    np.testing.assert_allclose(
        mmlp.metrics.mahalanobis_pit(p, x), (0.5 / 2) ** 3, rtol=1e-10
    )
    # a coordinate x of a ball of radius one has the density 3 / 4 (1 - x^2)
    z = 0.5 * np.sqrt(5)
    np.testing.assert_allclose(
        p.marginal_cdf(z), 0.5 + 3 / 4 * (0.5 - 0.5**3 / 3), atol=1e-6
    )
    np.testing.assert_allclose(p.marginal_quantile(p.marginal_cdf(z)), z, atol=1e-6)

    gamma = GammaOrShell(np.zeros((1, D)), omega, float(D), 4.0)
    pit = mmlp.metrics.mahalanobis_pit(gamma, x)
    np.testing.assert_allclose(pit, gamma.radius_cdf(0.5), rtol=1e-10)


def test_a_constructor_that_breaks_the_contract_is_named():
    p = OtherConstructor(1.5)
    assert np.isfinite(p.log_prob(np.ones(D)))
    assert np.isfinite(p.marginal_quantile(0.9))
    for call in (
        lambda: OtherConstructor.radius_law(D, 1.5),
        lambda: OtherConstructor.from_moments(
            np.zeros(D), DiagonalGram(np.ones(D)), 1.5
        ),
    ):
        with pytest.raises(
            TypeError, match=r"constructor of `OtherConstructor` must take loc, om"
        ):
            call()


@one_family
def test_entropy_variance_and_radius_are_those_of_draws(family):
    """200,000 draws, seed 2: five standard errors, a failure in a million."""
    p, n = one_of(family), 200_000
    x = p.sample(jax.random.key(2), n)
    minus_log_p = -np.asarray(p.log_prob(x))
    error = 5 * minus_log_p.std() / n**0.5
    np.testing.assert_allclose(p.entropy(), minus_log_p.mean(), atol=error)
    r = np.asarray(p.mahalanobis(x))
    for level in (0.1, 0.5, 0.9, 0.99):
        quantile = float(p.radius_quantile(level))
        assert (
            abs(np.mean(r <= quantile) - level) < 5 * (level * (1 - level) / n) ** 0.5
        )
    squares = r**2 / D
    error = 5 * squares.std() / n**0.5
    np.testing.assert_allclose(p.variance_factor(), squares.mean(), atol=error)


@one_family
def test_density_is_that_of_the_radius(family):
    """P(|x - loc| <= r) integrates the generator over shells: d/dr = 2 pi^(d/2)/Gamma(d/2) ..."""
    p, r = one_of(family), jnp.linspace(0.2, 4, 9)
    shells = 4 * np.pi * r**2  # surface of a sphere in three dimensions
    derivative = jax.vmap(jax.grad(p.radius_cdf))(r)
    np.testing.assert_allclose(
        derivative, shells * jnp.exp(p.log_generator(r**2)), rtol=1e-8
    )


@each
@sweep("dtype", ["float32", "float64"])
def test_quantiles_are_the_inverse_of_the_law_of_the_radius(family, dtype):
    p = one_of(family, dtype)
    for level, dim in ((0.05, None), (0.5, 2), (0.9, 1), (0.999, None)):
        r = p.radius_quantile(level, dim)
        assert r.dtype == dtype
        np.testing.assert_allclose(
            p.radius_cdf(r, dim), level, rtol=1e-5 if dtype == "float32" else 1e-12
        )


@each
@pytest.mark.parametrize(
    "covariance", [Gram, DiagonalGram], ids=lambda kind: kind.__name__
)
def test_from_moments_has_these_moments(family, covariance):
    rng = np.random.default_rng(3)
    V = covariance(rng.normal(size=(4, D, D) if covariance is Gram else (4, D)))
    mean = rng.normal(size=(4, D))
    p = family.from_moments(mean, V, *(np.full(4, t) for t in TAILS[family]))
    assert type(p) is family
    assert type(p.covariance) is covariance
    np.testing.assert_allclose(p.mean, mean)
    np.testing.assert_allclose(p.covariance.dense(), V.dense(), rtol=1e-11)
    np.testing.assert_allclose(p.omega.trace(), 1, rtol=1e-12)
    for parameter, value in zip(p.tail, TAILS[family], strict=True):
        np.testing.assert_array_equal(parameter, value)


@pytest.mark.parametrize("tail", [(), (3.0, 4.0)])
def test_from_moments_asks_for_the_parameters_of_the_tail(tail):
    """The message blamed the signature of the constructor."""
    with pytest.raises(
        TypeError, match=rf"`TraceOneStudentT` has df .*got {len(tail)}"
    ):
        TraceOneStudentT.from_moments(np.zeros(D), DiagonalGram(np.ones(D)), *tail)


@one_family
def test_kl_from_a_gaussian_is_the_mean_of_draws(family):
    """200,000 draws, seed 4: five standard errors, a failure in a million."""
    q, n = one_of(family), 200_000
    p = TraceOneGaussian(
        jnp.zeros(D), DiagonalGram.trace_one(jnp.array([1.0, 2.0, 3.0])), 4.0
    )
    x = q.sample(jax.random.key(4), n)
    terms = np.asarray(q.log_prob(x) - p.log_prob(x))
    np.testing.assert_allclose(
        kl_divergence(q, p), terms.mean(), atol=5 * terms.std() / n**0.5
    )


@each
def test_mahalanobis_is_the_distance_by_the_dispersion(family):
    p = one_of(family)
    x = np.array([[1.0, 2.0, 3.0], [np.inf, 0.0, 0.0]])
    e = x[0] - np.asarray(p.loc)
    expected = np.sqrt(
        e @ np.linalg.solve(np.asarray(p.omega.dense()), e) / float(p.eta)
    )
    np.testing.assert_allclose(p.mahalanobis(x), [expected, np.inf], rtol=1e-11)
    assert p.log_prob(x)[1] == -np.inf
    with pytest.raises(
        ValueError, match=r"mahalanobis\(x=...\)` must have shape \(..., 3\)"
    ):
        p.mahalanobis(np.ones(2))


@pytest.mark.slow
def test_a_new_family_works_at_once_in_metrics_plots_and_files(tmp_path):
    from mmlp import metrics, plotting

    one = one_of(GammaRadius)
    p = jax.vmap(lambda loc: GammaRadius(loc, one.omega, one.eta, one.shape))(
        np.random.default_rng(5).normal(size=(500, D))
    )
    y = np.asarray(p.sample(jax.random.key(6)))
    pit = metrics.mahalanobis_pit(p, y)
    assert (
        stats.kstest(pit, "uniform").pvalue > 1e-4
    )  # seed 6: a failure in ten thousand
    assert abs(metrics.ellipsoid_coverage(p, y) - 0.9) < 5 * (0.09 / 500) ** 0.5
    assert np.isfinite(metrics.negative_log_likelihood(p, y))
    assert np.isfinite(metrics.energy_score(p, y))
    plotting.plot_ellipses(p, y, columns=(0, 2))
    plotting.plt.close("all")
    mmlp.save(p, tmp_path / "p.safetensors")
    again = mmlp.load(tmp_path / "p.safetensors")
    assert isinstance(again, GammaRadius)
    assert isinstance(again, Elliptical)
    np.testing.assert_array_equal(again.log_prob(y), p.log_prob(y))


@each
def test_levels_and_covariances_that_make_no_sense_are_refused(family):
    p = one_of(family)
    for level in (0.0, 1.0, 1.5, np.nan):
        with pytest.raises(
            ValueError, match=r"radius_quantile\(level=...\)` must lie between 0"
        ):
            p.radius_quantile(level)
    with pytest.raises(
        ValueError, match=r"from_moments\(covariance=...\)` must be an SPD value"
    ):
        family.from_moments(np.zeros(2), np.eye(2), *TAILS[family])
    huge = DiagonalGram(np.full(2, 1e20, "float32"))
    with pytest.raises(
        ValueError, match=r"trace of .*from_moments\(covariance=...\)` must be fin"
    ):
        family.from_moments(np.zeros(2, "float32"), huge, *TAILS[family])


@one_family
def test_the_distance_has_a_gradient_at_the_mean(family):
    p = one_of(family)
    np.testing.assert_array_equal(jax.grad(p.mahalanobis)(p.loc), np.zeros(D))
