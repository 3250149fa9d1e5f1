"""A Bayesian model with heavy tails, in NumPyro.

The data are 200 returns of two assets, simulated from a power exponential distribution
with exponent beta = 0.6 (beta = 1 is the Gaussian; smaller means heavier tails). The
model puts priors on location, correlation, scale and beta, and NUTS samples the
posterior with the density of `mmlp.numpyro`. Only the product of eta and alpha enters
the density, so alpha is fixed at one.

The picture shows the posterior of beta with the true value, and the data with the 90 %
ellipse at the posterior mean.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from matplotlib import pyplot
from numpyro.infer import MCMC, NUTS

import mmlp
from mmlp.numpyro import TraceOnePowerExponential
from mmlp.plotting import plot_ellipses

TRUE_BETA = 0.6
N_DAYS = 200


def model(y: jax.Array) -> None:
    """Declare priors and likelihood for returns y (n, 2)."""
    loc = numpyro.sample("loc", dist.Normal(0, 1).expand([2]).to_event(1))
    correlation = numpyro.sample("correlation", dist.LKJCholesky(2))
    # The ratio of the two standard deviations.
    ratio = numpyro.sample("ratio", dist.LogNormal(0, 0.5))
    eta = numpyro.sample("eta", dist.LogNormal(0, 1))
    beta = numpyro.sample("beta", dist.LogNormal(0, 0.5))

    # T may have any scale: Omega = T'T / tr(T'T).
    factor = jnp.transpose(correlation) * jnp.array([1.0, ratio])
    distribution = TraceOnePowerExponential(loc, factor, eta, 1.0, beta)
    with numpyro.plate("days", len(y)):
        numpyro.sample("y", distribution, obs=y)


def simulate_returns(key: jax.Array, n: int) -> jax.Array:
    """Draw n returns of two correlated assets, shape (n, 2)."""
    loc = jnp.array([0.1, 0.0])
    omega = mmlp.Gram.trace_one(jnp.array([[1.0, 0.6], [0.0, 0.8]]))
    truth = mmlp.TraceOnePowerExponential(loc, omega, 1.0, 1.0, TRUE_BETA)
    return truth.sample(key, (n,))


def main(draws: int = 500) -> None:
    y = simulate_returns(jax.random.key(0), N_DAYS)
    mcmc = MCMC(NUTS(model), num_warmup=draws, num_samples=draws, progress_bar=False)
    mcmc.run(jax.random.key(1), y)
    posterior = mcmc.get_samples()
    low, high = np.quantile(posterior["beta"], [0.05, 0.95])
    print(
        f"beta: posterior mean {np.mean(posterior['beta']):.2f}, "
        f"90 % interval {low:.2f} to {high:.2f}, truth {TRUE_BETA}"
    )

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 4), layout="constrained")
    left.hist(posterior["beta"], bins=30, density=True)
    left.axvline(TRUE_BETA, color="C3", label="truth")
    left.axvline(1, color="grey", ls=":", label="Gaussian")
    left.set(xlabel=r"$\beta$", ylabel="posterior density")
    left.legend()

    mean = {name: np.mean(samples, axis=0) for name, samples in posterior.items()}
    omega = mmlp.Gram.trace_one(mean["correlation"].T * np.array([1.0, mean["ratio"]]))
    fitted = mmlp.TraceOnePowerExponential(
        mean["loc"], omega, mean["eta"], 1.0, mean["beta"]
    )
    inside = jnp.mean(fitted.mahalanobis(y) < fitted.radius_quantile(0.9))
    print(f"the 90 % ellipse holds {100 * inside:.0f} % of the data")
    plot_ellipses(fitted, y, names=["first asset", "second asset"], ax=right)
    right.set(aspect="equal")
    figure.savefig("numpyro_model.png", dpi=120)


if __name__ == "__main__":
    main()
