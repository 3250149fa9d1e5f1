"""VAEs trained on all splits at once, in one compiled program; their scores, and simpler ones."""

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from sklearn.mixture import GaussianMixture

from mmlp.compilation import Compiled
from mmlp.training import FitResult, fit_many
from mmlp.vae import VAE
from reproduction.vaes.data import Split
from reproduction.vaes.recipes import Recipe

ROWS = 50  # that one call of the compiled program scores
COLLAPSED = 0.1  # nats of KLD: with less an encoder says nothing
MIXTURES = (2, 3, 5, 8, 12, 16, 20, 25, 30, 40)
SCORES = ("LL", "KLD", "ELBO", "IW")


@dataclasses.dataclass(frozen=True)
class NegativeBound:
    """Minus the mean bound of a batch (x, `Recipe.levels`); validation, t = 1, has no noise."""

    kl: str
    draws: int = 1

    def __call__(self, model: VAE, batch, key, t):
        x, (noise, noise_end, warm_up), training = batch[0], batch[1][0], t < 1
        key_noise, key_draws = jax.random.split(key)
        level = jnp.where(training, noise + (noise_end - noise) * t, 0)
        x = x + level * jax.random.normal(key_noise, x.shape, x.dtype)
        weight: Any = jnp.where(t < warm_up, t / jnp.where(warm_up > 0, warm_up, 1), 1)

        def one(x, key):
            if self.draws > 1:
                return -weighted_bound(model, x, key, self.draws, weight)
            likelihood, divergence = model.terms(x, key, kl=self.kl)
            if self.kl == "von_neumann":  # which is no bound, and is validated by one
                divergence = jnp.where(training, divergence, model.kl(model.encode(x)))
            return weight * divergence - likelihood

        return jnp.mean(jax.vmap(one)(x, jax.random.split(key_draws, len(x))))


def weighted_bound(model: VAE, x, key, draws: int, weight):
    """The importance-weighted bound, with q drawn to the prior as the KL term's weight is less.

    log mean p(x | s) (p(s) / q(s | x))^weight,   s ~ q(s | x)
    """
    q, s, log_likelihood = model.draws(x, key, draws)
    ratios = log_likelihood + weight * (model.prior.log_prob(s) - q.log_prob(s))
    return jnp.asarray(logsumexp(ratios)) - math.log(draws)


def fit_recipes(
    recipes: list[Recipe], splits: list[Split], latent: int, *, on_epoch=()
) -> FitResult:
    """A model for each split and recipe, in float32, recipes running fastest along the first axis.

    The recipes may differ in rate, noise and warm-up only.
    """
    count, recipe = len(recipes), max(recipes, key=lambda recipe: recipe.rate)
    levels = np.tile(
        np.array([one.levels() for one in recipes], np.float32), (len(splits), 1)
    )

    def stacked(parts):
        X = np.repeat(np.stack(parts).astype(np.float32), count, axis=0)
        return X, np.repeat(levels[:, None], X.shape[1], axis=1)

    train, held_out, _, _ = zip(*splits, strict=True)
    if not recipe.stopping:
        train = [np.concatenate(pair) for pair in zip(train, held_out, strict=True)]
    data = stacked(train)
    keys = jnp.repeat(jax.random.split(jax.random.key(0), len(splits)), count, axis=0)
    models = _start(
        (recipe, latent), keys, jnp.asarray(data[0][:, : recipe.calibrated])
    )
    keys = jax.random.split(jax.random.key(1), len(keys))
    optimizer = recipe.make_optimizer(recipe.steps(data[0].shape[1]))
    rates = [one.rate / recipe.rate for _ in splits for one in recipes]
    how: Any = {
        "epochs": recipe.epochs,
        "batch_size": recipe.batch,
        "optimizer": optimizer,
    }
    how |= {
        "validation": stacked(held_out) if recipe.stopping else None,
        "rates": rates,
    }
    how |= {"own_data": True, "progress": False, "on_epoch": on_epoch}
    return fit_many(
        models, NegativeBound(recipe.kl, recipe.draws), data, keys=keys, **how
    )


@functools.partial(Compiled, effort="least")
def _start(recipe_and_latent: tuple[Recipe, int], keys, X):
    recipe, latent = recipe_and_latent
    return jax.vmap(lambda key, X: recipe.start(X, latent, key))(keys, X)


def score(
    models: VAE, splits: list[Split], samples: int, *, part="test"
) -> dict[str, np.ndarray]:
    """Means over a part of each split in raw units, shape (models,): `SCORES` and the error of IW.

    LL, KLD and ELBO are means over the same `samples` draws of q as IW, the KLD exact.
    """
    count = len(jax.tree.leaves(models)[0]) // len(splits)  # models of each split
    X = np.stack([getattr(split, part) for split in splits]).astype(np.float32)
    jacobian = np.repeat([split.components.log_jacobian for split in splits], count)
    values = scores_of_rows(models, X.repeat(count, axis=0), samples)
    LL, KLD, IW = values[..., :3].mean(axis=1).T
    error = np.sqrt(np.mean(values[..., 3], axis=1) / X.shape[1])
    found = LL + jacobian, KLD, LL - KLD + jacobian, IW + jacobian, error
    return dict(zip((*SCORES, "IW error"), found, strict=True))


def scores_of_rows(models: VAE, X: np.ndarray, samples: int) -> np.ndarray:
    """LL, KLD, IW and its Monte Carlo variance for X (models, n, p), shape (models, n, 4).

    In standardised units; a few rows at a time, always as many: one program for any length.
    """
    n, parts = X.shape[1], []
    for start in range(0, n, ROWS):
        rows = np.arange(start, start + min(ROWS, n)) % n  # the last ones are filled up
        key = jax.random.fold_in(jax.random.key(2), start)
        parts.append(_scores(samples, models, jnp.asarray(X[:, rows]), key))
    return np.concatenate(parts, axis=1).astype(np.float64)[:, :n]


@Compiled
def _scores(samples: int, models, X, key):
    """One row after the other, its draws of all models at once: more would leave the cache."""

    def one(model, x, key):
        q, s, log_likelihood = model.draws(x, key, samples)
        weights = log_likelihood + model.prior.log_prob(s) - q.log_prob(s)
        bound = jnp.asarray(logsumexp(weights)) - math.log(samples)
        variance = (
            jnp.var(jnp.exp(weights - bound)) / samples
        )  # of the bound, by the delta method
        return jnp.stack([jnp.mean(log_likelihood), model.kl(q), bound, variance])

    of_all, keys = (
        jax.vmap(one, in_axes=(0, 0, None)),
        jax.random.split(key, X.shape[1]),
    )
    rows = jax.lax.map(lambda row: of_all(models, *row), (jnp.moveaxis(X, 1, 0), keys))
    return jnp.moveaxis(rows, 0, 1)


def simple_densities(splits: list[Split]) -> dict[str, dict[str, list[float]]]:
    """Log-densities of one Gaussian and of the Gaussian mixture that validation images choose.

    The Gaussian has nothing to choose: for the test it is fitted to the validation images, too.
    """
    found = {
        name: {"IW": [], "validation IW": []}
        for name in ("one Gaussian", "Gaussian mixture")
    }
    for train, validation, test, components in splits:
        mixtures = [
            GaussianMixture(n, reg_covar=1e-3, n_init=2, random_state=0)
            for n in MIXTURES
        ]
        mixture = max(
            (m.fit(train) for m in mixtures), key=lambda m: m.score(validation)
        )
        one, added = GaussianMixture(1).fit(train), components.log_jacobian
        whole = GaussianMixture(1).fit(np.concatenate([train, validation]))
        pairs = (one, whole), (mixture, mixture)
        for scores, (validated, tested) in zip(found.values(), pairs, strict=True):
            scores["validation IW"].append(float(validated.score(validation)) + added)
            scores["IW"].append(float(tested.score(test)) + added)
    return found
