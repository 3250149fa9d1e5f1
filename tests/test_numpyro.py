"""The NumPyro versions: shapes, constraints and batching as NumPyro expects them, NUTS and SVI."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pytest
from gamma_radius import GammaRadius
from numpyro.distributions import constraints
from numpyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO, init_to_value
from numpyro.infer.util import log_density
from sweeps import sweep

import mmlp
from mmlp.numpyro import (
    Elliptical,
    LowRankGaussian,
    LowRankPowerExponential,
    LowRankStudentT,
    TraceOneGaussian,
    TraceOnePowerExponential,
    TraceOneStudentT,
)
from mmlp.spd import Gram, LowRankGram

T = np.array([[1.0, 0.4, -0.3], [0.2, 0.8, 0.5], [0.0, -0.1, 0.6]])
MU = np.array([0.3, -1.0, 2.0])
W, DIAGONAL = T[:, :2] - 0.3, np.array([0.5, 1.0, 2.0])
CASES = [
    (LowRankGaussian, (MU, W, DIAGONAL, 2.0)),
    (LowRankGaussian, (MU, np.stack([W, -2 * W]), DIAGONAL, np.array([[1.0], [3.0]]))),
    (
        LowRankPowerExponential,
        (np.stack([MU, -MU]), W, np.stack([DIAGONAL, MU**2]), 2.0, 1.0, 0.7),
    ),
    (LowRankStudentT, (np.stack([MU, -MU]), W, DIAGONAL, 2.0, np.array([3.0, 7.0]))),
    (TraceOneStudentT, (MU, T, np.array([[1.0], [2.0]]), np.array([2.5, 4.0, 30.0]))),
    (TraceOneGaussian, (MU, T, 2.0)),
    (TraceOneGaussian, (np.stack([MU, -MU]), T, np.array([1.0, 3.0]))),
    (TraceOneGaussian, (MU, np.stack([T, T.T + np.eye(3)]), 2.0)),
    (TraceOnePowerExponential, (MU, T, 2.0, 1.0, 0.7)),
    (
        TraceOnePowerExponential,
        (
            MU,
            np.concatenate([T, T]),
            np.array([[1.0], [2.0]]),
            0.8,
            np.array([0.6, 1.0, 3.0]),
        ),
    ),
]
IDS = [
    "low-rank",
    "low-rank-batch",
    "low-rank-power",
    "low-rank-student-t",
    "student-t-batch",
    "gaussian",
    "gaussian-loc-batch",
    "gaussian-factor-batch",
    "power",
    "power-batch",
]


cases = pytest.mark.parametrize(("cls", "args"), CASES, ids=IDS)
# One case of each class is quick.
QUICK_IDS = ["low-rank", "student-t-batch", "gaussian", "power-batch"]
CASES_BY_SPEED = sorted(
    (pytest.param(*case, id=name) for case, name in zip(CASES, IDS, strict=True)),
    key=lambda case: case.id not in QUICK_IDS,
)
mostly_slow_cases = sweep(("cls", "args"), CASES_BY_SPEED, quick=len(QUICK_IDS))


@cases
def test_shapes_follow_from_the_parameters(cls, args):
    d = cls(*args)
    events = {
        "loc": 1,
        "factor": 2,
        "cov_factor": 2,
        "cov_diag": 1,
    }  # axes of one of them
    batches = (
        np.shape(x)[: np.ndim(x) - events.get(name, 0)]
        for name, x in zip(cls.arg_constraints, args, strict=True)
    )
    expected = jnp.broadcast_shapes(*batches)
    assert (d.batch_shape, d.event_shape) == (expected, (3,))
    assert cls.infer_shapes(*(np.shape(x) for x in args)) == (expected, (3,))
    x = jax.eval_shape(lambda: d.sample(jax.random.key(0), (5, 4)))
    assert x.shape == (5, 4, *expected, 3)
    assert jax.eval_shape(d.log_prob, x).shape == (5, 4, *expected)
    mean, variance, entropy = jax.eval_shape(lambda: (d.mean, d.variance, d.entropy()))
    assert mean.shape == variance.shape == d.shape() == (*expected, 3)
    assert entropy.shape == expected


@mostly_slow_cases
def test_density_and_moments_are_those_of_mmlp(cls, args):
    if issubclass(cls, TraceOneGaussian | TraceOnePowerExponential | TraceOneStudentT):
        loc, factor, *scalars = args
        omega = Gram.trace_one(factor)
    else:
        loc, factor, diagonal, *scalars = args
        omega = LowRankGram.trace_one(np.sqrt(diagonal), np.swapaxes(factor, -1, -2))
    reference = getattr(mmlp, cls.__name__.replace("LowRank", "TraceOne"))(
        loc, omega, *scalars
    )
    x = jax.random.normal(jax.random.key(1), (*reference.batch_shape, 3))
    np.testing.assert_array_equal(cls(*args).log_prob(x), reference.log_prob(x))
    diagonal = jnp.diagonal(reference.covariance.dense(), axis1=-2, axis2=-1)
    np.testing.assert_allclose(
        cls(*args).variance,
        jnp.broadcast_to(diagonal, (*reference.batch_shape, 3)),
        rtol=1e-12,
    )


@mostly_slow_cases
def test_expand_repeats_without_changing_the_density(cls, args):
    d = cls(*args)
    e = d.expand((7, *d.batch_shape))
    x = e.sample(jax.random.key(2))
    assert x.shape == (7, *d.shape())
    np.testing.assert_allclose(e.log_prob(x), d.log_prob(x), rtol=1e-12)
    assert d.to_event(len(d.batch_shape)).log_prob(x[0]).shape == ()


@mostly_slow_cases
def test_distribution_is_a_pytree_through_jit_and_vmap(cls, args):
    d = cls(*args)
    x = d.sample(jax.random.key(3))
    np.testing.assert_allclose(
        jax.jit(lambda d, x: d.log_prob(x))(d, x), d.log_prob(x), rtol=1e-12
    )
    many = jax.vmap(lambda shift: cls(args[0] + shift, *args[1:]))(jnp.arange(3.0))
    values = jax.vmap(lambda d, x: d.log_prob(x), in_axes=(0, None))(many, x)
    np.testing.assert_allclose(values[0], d.log_prob(x), rtol=1e-12)


@cases
def test_invalid_parameters_are_refused_when_validation_is_on(cls, args):
    for name, value in (
        ("eta", -1.0),
        ("beta", 0.0),
        ("alpha", -2.0),
        ("df", 0.0),
        ("cov_diag", -DIAGONAL),
    ):
        names = list(cls.arg_constraints)
        if name in names:
            bad = list(args)
            bad[names.index(name)] = value
            with pytest.raises(ValueError, match=f"invalid {name}"):
                cls(*bad, validate_args=True)
    assert cls.support is constraints.real_vector
    assert np.all(cls.support(cls(*args).sample(jax.random.key(4))))


def test_low_rank_density_and_moments_are_those_of_numpyro():
    theirs = dist.LowRankMultivariateNormal(MU, W, DIAGONAL)
    ours = LowRankGaussian(
        MU, W, DIAGONAL, np.sum(theirs.variance)
    )  # any scale, and the trace
    scaled = LowRankGaussian(MU, 3 * W, 9 * DIAGONAL, np.sum(theirs.variance))
    x = theirs.sample(jax.random.key(0), (5,))
    for p in (ours, scaled):
        np.testing.assert_allclose(p.log_prob(x), theirs.log_prob(x), rtol=1e-12)
        np.testing.assert_allclose(p.variance, theirs.variance, rtol=1e-12)
        np.testing.assert_allclose(p.entropy(), theirs.entropy(), rtol=1e-12)


def power_exponential_model(data=None, *, n=None, d=2):
    """alpha is fixed: it enters only as alpha eta. eta's prior is wide on the scale of the data."""
    loc = numpyro.sample("loc", dist.Normal(0, 5).expand((d,)).to_event(1))
    scales = numpyro.sample("scales", dist.Dirichlet(jnp.ones(d)))
    correlation = numpyro.sample("correlation", dist.LKJCholesky(d, 1.0))
    eta = numpyro.sample("eta", dist.LogNormal(0.0, 2.0))
    beta = numpyro.sample("beta", dist.LogNormal(0.0, 1.0))
    factor = (jnp.sqrt(scales)[:, None] * correlation).mT
    with numpyro.plate("n", n if data is None else len(data)):
        numpyro.sample(
            "x", TraceOnePowerExponential(loc, factor, eta, 1.0, beta), obs=data
        )


def simulated(n, seed):
    truth = {
        "loc": np.array([0.5, -1.0]),
        "eta": 3.0,
        "beta": 0.7,
        "rho": 0.6,
        "share": 0.7,
    }
    s = np.sqrt([0.7, 0.3])
    factor = np.linalg.cholesky(np.outer(s, s) * np.array([[1, 0.6], [0.6, 1]])).T
    d = TraceOnePowerExponential(truth["loc"], factor, truth["eta"], 1.0, truth["beta"])
    return truth, d.sample(jax.random.key(seed), (n,))


@pytest.mark.slow
def test_nuts_recovers_the_parameters_within_credible_intervals():
    """Six 99.7 % intervals: a right sampler fails for 2 % of seeds; the seed is fixed."""
    truth, data = simulated(400, seed=0)
    mcmc = MCMC(
        NUTS(power_exponential_model),
        num_warmup=300,
        num_samples=500,
        progress_bar=False,
    )
    mcmc.run(jax.random.key(1), data=data)
    draws = mcmc.get_samples()
    draws = {
        "loc": draws["loc"],
        "eta": draws["eta"],
        "beta": draws["beta"],
        "rho": draws["correlation"][:, 1, 0],
        "share": draws["scales"][:, 0],
    }
    for name, value in truth.items():
        low, high = np.quantile(draws[name], [0.0015, 0.9985], axis=0)
        assert np.all((low < value) & (value < high)), (name, low, value, high)
    assert int(mcmc.get_extra_fields()["diverging"].sum()) == 0
    assert (
        np.std(draws["beta"]) < 0.2
    )  # the data inform the shape: the prior's spread is 1.3


@pytest.mark.slow
def test_nuts_steps_are_finite():
    _, data = simulated(50, seed=2)
    kernel = NUTS(
        power_exponential_model,
        max_tree_depth=4,
        init_strategy=init_to_value(values={"loc": data[0]}),
    )
    mcmc = MCMC(
        kernel, num_warmup=5, num_samples=5, progress_bar=False
    )  # starts on a data point: the cusp of the density
    mcmc.run(jax.random.key(3), data=data)
    assert all(np.all(np.isfinite(x)) for x in mcmc.get_samples().values())


@pytest.mark.slow
def test_svi_fits_a_power_exponential_guide_to_a_gaussian():
    """The guide's family holds the target N(mu, diag(2, 1)): the ELBO's maximum is log Z = 0."""
    mu = jnp.array([1.0, -2.0])

    def model():
        numpyro.sample(
            "x", dist.Normal(mu, jnp.sqrt(jnp.array([2.0, 1.0]))).to_event(1)
        )

    def guide():
        loc = numpyro.param("loc", jnp.zeros(2))
        factor = numpyro.param("factor", jnp.eye(2))
        eta = numpyro.param("eta", 1.0, constraint=constraints.positive)
        beta = numpyro.param("beta", 2.0, constraint=constraints.positive)
        numpyro.sample("x", TraceOnePowerExponential(loc, factor, eta, 1.0, beta))

    svi = SVI(
        model,
        guide,
        optax.adam(optax.cosine_decay_schedule(0.05, 800)),
        Trace_ELBO(num_particles=32),
    )
    result = svi.run(jax.random.key(5), 800, progress_bar=False)
    np.testing.assert_allclose(result.params["loc"], mu, atol=0.1)
    np.testing.assert_allclose(result.params["beta"], 1.0, atol=0.1)
    assert abs(np.mean(result.losses[-100:])) < 0.02


@pytest.mark.slow
def test_svi_fits_a_low_rank_guide():
    """The guide's family holds the target, so that the ELBO's maximum is log Z = 0."""
    target = dist.LowRankMultivariateNormal(MU, W[:, :1], DIAGONAL)

    def guide():
        loc = numpyro.param("loc", jnp.zeros(3))
        factor = numpyro.param("factor", jnp.full((3, 1), 0.1))
        diagonal = numpyro.param(
            "diagonal", jnp.ones(3), constraint=constraints.positive
        )
        eta = numpyro.param("eta", 1.0, constraint=constraints.positive)
        numpyro.sample("x", LowRankGaussian(loc, factor, diagonal, eta))

    optimizer = optax.adam(optax.cosine_decay_schedule(0.1, 300))
    svi = SVI(
        lambda: numpyro.sample("x", target),
        guide,
        optimizer,
        Trace_ELBO(num_particles=16),
    )
    result = svi.run(jax.random.key(7), 300, progress_bar=False)
    np.testing.assert_allclose(result.params["loc"], MU, atol=0.2)
    assert abs(np.mean(result.losses[-50:])) < 0.02 < result.losses[0]


def test_model_density_counts_each_observation_once():
    _, data = simulated(20, seed=6)
    values = {
        "loc": jnp.zeros(2),
        "scales": jnp.array([0.5, 0.5]),
        "correlation": jnp.eye(2),
        "eta": 1.5,
        "beta": 0.8,
    }
    _, trace = log_density(power_exponential_model, (data,), {}, values)
    reference = mmlp.TraceOnePowerExponential(
        jnp.zeros(2), Gram.trace_one(jnp.eye(2)), 1.5, 1.0, 0.8
    ).log_prob(data)
    np.testing.assert_allclose(trace["x"]["fn"].log_prob(data), reference, rtol=1e-12)


# -- any distribution of mmlp


def generic(batch=()):
    """A family that the module does not know, as `mmlp` and as NumPyro have it."""
    shape = np.full((*batch,), 1.7)
    p = GammaRadius(MU, Gram.trace_one(T), 2.0, shape)
    return p, Elliptical(p)


@sweep("batch", [(), (4,), (2, 3)])
def test_any_elliptical_has_shapes_densities_and_moments(batch):
    p, q = generic(batch)
    assert (q.batch_shape, q.event_shape) == (batch, (3,))
    x = q.sample(jax.random.key(0), (5,))
    assert x.shape == (5, *batch, 3)
    np.testing.assert_array_equal(q.log_prob(x), p.log_prob(x))
    np.testing.assert_array_equal(q.entropy(), p.entropy())
    assert q.mean.shape == q.variance.shape == (*batch, 3)
    diagonal = np.broadcast_to(p.covariance.diagonal(), (*batch, 3))
    np.testing.assert_allclose(q.variance, diagonal, rtol=1e-12)
    e = q.expand((7, *batch))
    assert e.sample(jax.random.key(1)).shape == (7, *batch, 3)
    assert e.to_event(1).batch_shape == e.batch_shape[:-1]
    np.testing.assert_allclose(
        jax.jit(lambda q, x: q.log_prob(x))(q, x), q.log_prob(x), rtol=1e-12
    )


def test_any_elliptical_goes_through_plates_vmap_and_predictive():
    def model(data=None):
        eta = numpyro.sample("eta", dist.LogNormal(0.0, 1.0))
        p = GammaRadius(MU, Gram.trace_one(T), eta, 1.7)
        with numpyro.plate("n", 6):
            numpyro.sample("x", Elliptical(p), obs=data)

    draws = Predictive(model, num_samples=4)(jax.random.key(0))
    assert draws["x"].shape == (4, 6, 3)
    data = draws["x"][0]
    value, _ = log_density(model, (data,), {}, {"eta": 1.5})
    reference = GammaRadius(MU, Gram.trace_one(T), 1.5, 1.7).log_prob(data).sum()
    expected = reference + dist.LogNormal(0.0, 1.0).log_prob(1.5)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    many = jax.vmap(
        lambda eta: Elliptical(GammaRadius(MU, Gram.trace_one(T), eta, 1.7))
    )
    values = jax.vmap(lambda q: q.log_prob(data))(many(jnp.array([1.5, 2.0])))
    np.testing.assert_allclose(values[0].sum(), reference, rtol=1e-12)


def test_only_distributions_of_mmlp_are_taken():
    for wrong in (dist.Normal(), GammaRadius, None):
        with pytest.raises(
            ValueError, match=r"`Elliptical\(distribution=...\)` must be a distri"
        ):
            Elliptical(wrong)


def test_a_cauchy_has_infinite_variance():
    for q in (
        TraceOneStudentT(MU, T, 2.0, 1.0),
        Elliptical(mmlp.TraceOneStudentT(MU, Gram.trace_one(T), 2.0, 2.0)),
    ):
        np.testing.assert_array_equal(q.variance, np.full(3, np.inf))


def test_student_t_is_numpyros_own():
    scale = 2.0 * np.asarray(Gram.trace_one(T).dense())
    theirs = dist.MultivariateStudentT(4.0, MU, np.linalg.cholesky(scale))
    ours = TraceOneStudentT(MU, T, 2.0, 4.0)
    x = theirs.sample(jax.random.key(0), (5,))
    np.testing.assert_allclose(ours.log_prob(x), theirs.log_prob(x), rtol=1e-11)
    np.testing.assert_allclose(ours.variance, theirs.variance, rtol=1e-11)


@pytest.mark.slow
def test_nuts_finds_the_degrees_of_freedom():
    """300 rows with df = 3 and eta = 2, seed 0: 99.9 % intervals, a failure in 500 seeds."""
    data = TraceOneStudentT(MU, T, 2.0, 3.0).sample(jax.random.key(0), (300,))

    def model():
        eta = numpyro.sample("eta", dist.LogNormal(0.0, 2.0))
        df = numpyro.sample("df", dist.LogNormal(1.0, 1.0))
        with numpyro.plate("n", 300):
            numpyro.sample("x", TraceOneStudentT(MU, T, eta, df), obs=data)

    mcmc = MCMC(NUTS(model), num_warmup=100, num_samples=200, progress_bar=False)
    mcmc.run(jax.random.key(1))
    for name, truth in (("eta", 2.0), ("df", 3.0)):
        draws = mcmc.get_samples()[name]
        assert abs(draws.mean() - truth) < 3.3 * draws.std()
        assert draws.std() < 0.3 * truth
