"""A Bayesian model with heavy tails, in NumPyro.

200 returns of two assets, simulated with a power exponential of exponent beta = 0.6 (beta = 1 is
the Gaussian; smaller means heavier tails). The model puts priors on location, correlation, scale
and beta, and NUTS draws from the posterior through the density of `mmlp.numpyro`. eta and alpha
enter as a product, so alpha is one.

The picture shows the posterior of beta, with the truth, and the data with the ellipse that holds
90 % by the posterior mean.
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

BETA = 0.6


def model(y):
    loc = numpyro.sample("loc", dist.Normal(0, 1).expand([2]).to_event(1))
    correlation = numpyro.sample("correlation", dist.LKJCholesky(2))
    ratio = numpyro.sample(
        "ratio", dist.LogNormal(0, 0.5)
    )  # of the two standard deviations
    eta = numpyro.sample("eta", dist.LogNormal(0, 1))
    beta = numpyro.sample("beta", dist.LogNormal(0, 0.5))
    # T, of any scale: Omega = T'T / tr(T'T)
    factor = jnp.transpose(correlation) * jnp.array([1.0, ratio])
    with numpyro.plate("days", len(y)):
        numpyro.sample(
            "y", TraceOnePowerExponential(loc, factor, eta, 1.0, beta), obs=y
        )


def simulate(key, n: int) -> jax.Array:
    omega, loc = (
        mmlp.Gram.trace_one(jnp.array([[1.0, 0.6], [0.0, 0.8]])),
        jnp.array([0.1, 0.0]),
    )
    return mmlp.TraceOnePowerExponential(loc, omega, 1.0, 1.0, BETA).sample(key, (n,))


def main(draws: int = 500) -> None:
    y = simulate(jax.random.key(0), 200)
    mcmc = MCMC(NUTS(model), num_warmup=draws, num_samples=draws, progress_bar=False)
    mcmc.run(jax.random.key(1), y)
    posterior = mcmc.get_samples()
    low, high = np.quantile(posterior["beta"], [0.05, 0.95])
    interval = f"90 % interval {low:.2f} to {high:.2f}"
    print(
        f"beta: posterior mean {np.mean(posterior['beta']):.2f}, {interval}, truth {BETA}"
    )

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 4), layout="constrained")
    left.hist(posterior["beta"], bins=30, density=True)
    left.axvline(BETA, color="C3", label="truth")
    left.axvline(1, color="grey", ls=":", label="Gaussian")
    left.set(xlabel=r"$\beta$", ylabel="posterior density")
    left.legend()

    mean = {name: np.mean(draws, axis=0) for name, draws in posterior.items()}
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
