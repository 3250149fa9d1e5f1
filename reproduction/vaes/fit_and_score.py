"""Train VAEs on all splits at once, score them, and score simpler densities.

All models of a call are trained and scored in a single compiled program.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import logsumexp
from sklearn.mixture import GaussianMixture

from mmlp.compilation import Compiled
from mmlp.training import FitResult, fit_many
from mmlp.vae import VAE
from reproduction.vaes.images import Split
from reproduction.vaes.recipes import Recipe

# Rows that a call of the compiled program scores.
ROWS_PER_CALL = 50

# With a KLD below this, in nats, an encoder carries no information.
MAX_COLLAPSED_KLD = 0.1

# Numbers of components of the Gaussian mixtures among which validation chooses.
MIXTURE_SIZES = (2, 3, 5, 8, 12, 16, 20, 25, 30, 40)

SCORES = ("LL", "KLD", "ELBO", "IW")


@dataclasses.dataclass(frozen=True)
class NegativeBound:
    """The loss: minus the mean bound of a batch.

    A batch is a pair of images and `Recipe.loss_levels`, repeated for each row. The
    progress of training, t, rises from 0 to 1. Validation has t = 1, so there the loss
    has no noise and, in place of the von Neumann term, the exact KL term. So does the
    last training step.

    Parameters
    ----------
    kl : {"exact", "sampled", "von_neumann"}
    draws : int, default=1
        With more than one draw of q, the importance-weighted bound is trained.
    """

    kl: str
    draws: int = 1

    def __call__(
        self, model: VAE, batch: tuple[Array, Array], key: Array, t: Array
    ) -> Array:
        x, levels = batch
        # All rows have the same levels.
        noise = levels[0, 0]
        noise_end = levels[0, 1]
        warm_up = levels[0, 2]
        is_before_end = t < 1
        noise_key, draws_key = jax.random.split(key)

        noise_level = jnp.where(is_before_end, noise + (noise_end - noise) * t, 0)
        x = x + noise_level * jax.random.normal(noise_key, x.shape, x.dtype)
        kl_weight: Any = jnp.where(
            t < warm_up, t / jnp.where(warm_up > 0, warm_up, 1), 1
        )

        def negative_bound(x: Array, key: Array) -> Array:
            if self.draws > 1:
                return -importance_weighted_bound(model, x, key, self.draws, kl_weight)
            likelihood, divergence = model.terms(x, key, kl=self.kl)
            if self.kl == "von_neumann":
                # This objective is no bound, so validation uses the exact KL term.
                divergence = jnp.where(
                    is_before_end, divergence, model.kl(model.encode(x))
                )
            return kl_weight * divergence - likelihood

        keys = jax.random.split(draws_key, len(x))
        return jnp.mean(jax.vmap(negative_bound)(x, keys))


def importance_weighted_bound(
    model: VAE, x: Array, key: Array, draws: int, kl_weight: Array
) -> Array:
    """Return the importance-weighted bound, tempered by the weight of the KL term.

    log mean p(x | s) (p(s) / q(s | x))^kl_weight,   s ~ q(s | x)
    """
    q, s, log_likelihood = model.draws(x, key, draws)
    log_ratio = model.prior.log_prob(s) - q.log_prob(s)
    log_weights = log_likelihood + kl_weight * log_ratio
    return jnp.asarray(logsumexp(log_weights)) - math.log(draws)


def fit_recipes(
    recipes: list[Recipe],
    splits: list[Split],
    latent: int,
    *,
    on_epoch: Sequence[Callable] = (),
) -> FitResult:
    """Train a model for each split and recipe, in float32.

    Parameters
    ----------
    recipes : list of Recipe
        They may differ in learning rate, noise and warm-up only; this is not checked.
    splits : list of Split
    latent : int
        The number of latent variables.
    on_epoch : sequence of callables, default=()
        Called after each epoch, as in `mmlp.fit`.

    Returns
    -------
    FitResult
        With the models along the first axis, on which recipes vary fastest.
    """
    n_recipes = len(recipes)
    # One recipe stands for all. It has the largest learning rate, to which the others
    # are relative.
    recipe = max(recipes, key=lambda recipe: recipe.rate)
    levels_of_recipes = np.array(
        [recipe.loss_levels() for recipe in recipes], np.float32
    )
    levels = np.tile(levels_of_recipes, (len(splits), 1))

    def repeat_for_models(
        parts: Sequence[np.ndarray],
    ) -> tuple[np.ndarray, np.ndarray]:
        """Stack the rows of all splits, once for each recipe, with their levels."""
        X = np.repeat(np.stack(parts).astype(np.float32), n_recipes, axis=0)
        return X, np.repeat(levels[:, None], X.shape[1], axis=1)

    train_parts = [split.train for split in splits]
    validation_parts = [split.validation for split in splits]
    validation = None
    if recipe.stopping:
        validation = repeat_for_models(validation_parts)
    else:
        train_parts = [
            np.concatenate(pair)
            for pair in zip(train_parts, validation_parts, strict=True)
        ]
    data = repeat_for_models(train_parts)
    X, _ = data

    split_keys = jax.random.split(jax.random.key(0), len(splits))
    start_keys = jnp.repeat(split_keys, n_recipes, axis=0)
    models = _make_vaes(
        (recipe, latent), start_keys, jnp.asarray(X[:, : recipe.calibrated])
    )
    relative_rates = [r.rate / recipe.rate for _ in splits for r in recipes]
    return fit_many(
        models,
        NegativeBound(recipe.kl, recipe.draws),
        data,
        keys=jax.random.split(jax.random.key(1), len(start_keys)),
        epochs=recipe.epochs,
        batch_size=recipe.batch,
        optimizer=recipe.make_optimizer(recipe.count_steps(X.shape[1])),
        validation=validation,
        rates=relative_rates,
        own_data=True,
        progress=False,
        on_epoch=on_epoch,
    )


@functools.partial(Compiled, effort="least")
def _make_vaes(recipe_and_latent: tuple[Recipe, int], keys: Array, X: Array) -> VAE:
    """Return the VAEs of all models before training.

    Recipe and latent are one argument because `Compiled` has one static argument, the
    first.
    """
    recipe, latent = recipe_and_latent
    return jax.vmap(lambda key, X: recipe.make_vae(X, latent, key))(keys, X)


def score_models(
    models: VAE, splits: list[Split], samples: int, *, part: str = "test"
) -> dict[str, np.ndarray]:
    """Return mean scores over a part of each split, in nats and units of pixels.

    LL is a mean over the same draws of q as IW. The KLD needs no draws, and
    ELBO = LL - KLD.

    Parameters
    ----------
    models : VAE
        With the models along the first axis, as in `fit_recipes`.
    splits : list of Split
    samples : int
        The number of importance samples.
    part : {"train", "validation", "test"}, default="test"

    Returns
    -------
    dict of arrays of shape (models,)
        `SCORES`, and "IW error", the standard error of IW by Monte Carlo.
    """
    models_per_split = len(jax.tree.leaves(models)[0]) // len(splits)
    X = np.stack([getattr(split, part) for split in splits]).astype(np.float32)
    log_jacobian = np.repeat(
        [split.components.log_jacobian for split in splits], models_per_split
    )
    values = score_rows(models, X.repeat(models_per_split, axis=0), samples)
    LL, KLD, IW = values[..., :3].mean(axis=1).T
    variance_of_rows = values[..., 3]
    return {
        "LL": LL + log_jacobian,
        "KLD": KLD,
        "ELBO": LL - KLD + log_jacobian,
        "IW": IW + log_jacobian,
        "IW error": np.sqrt(np.mean(variance_of_rows, axis=1) / X.shape[1]),
    }


def score_rows(models: VAE, X: np.ndarray, samples: int) -> np.ndarray:
    """Return LL, KLD, IW and its Monte Carlo variance for each row.

    Scores are in standardised units. Each call of the compiled program gets the same
    number of rows, so that one program serves any number of rows.

    Parameters
    ----------
    models : VAE
        With the models along the first axis.
    X : array of shape (models, n, p)
    samples : int
        The number of importance samples.

    Returns
    -------
    array of shape (models, n, 4)
    """
    n = X.shape[1]
    parts = []
    for start in range(0, n, ROWS_PER_CALL):
        # The last call is filled up with rows from the beginning.
        rows = np.arange(start, start + min(ROWS_PER_CALL, n)) % n
        key = jax.random.fold_in(jax.random.key(2), start)
        parts.append(_score_rows(samples, models, jnp.asarray(X[:, rows]), key))
    return np.concatenate(parts, axis=1).astype(np.float64)[:, :n]


@Compiled
def _score_rows(samples: int, models: VAE, X: Array, key: Array) -> Array:
    """Score one row after the other, so that its draws fit into the CPU's cache."""

    def score_row(model: VAE, x: Array, key: Array) -> Array:
        q, s, log_likelihood = model.draws(x, key, samples)
        log_weights = log_likelihood + model.prior.log_prob(s) - q.log_prob(s)
        bound = jnp.asarray(logsumexp(log_weights)) - math.log(samples)
        # The variance of the bound by the delta method.
        variance = jnp.var(jnp.exp(log_weights - bound)) / samples
        return jnp.stack([jnp.mean(log_likelihood), model.kl(q), bound, variance])

    score_all_models = jax.vmap(score_row, in_axes=(0, 0, None))
    keys = jax.random.split(key, X.shape[1])
    rows = jax.lax.map(
        lambda row: score_all_models(models, *row), (jnp.moveaxis(X, 1, 0), keys)
    )
    return jnp.moveaxis(rows, 0, 1)


def score_simple_densities(splits: list[Split]) -> dict[str, dict[str, list[float]]]:
    """Return log densities of one Gaussian and of a mixture chosen by validation.

    The Gaussian has nothing to choose, so for the test it is fitted to the validation
    images, too.

    Returns
    -------
    dict of dict of list
        "IW" and "validation IW" of each split, by the name of the density.
    """
    gaussian_scores = {"IW": [], "validation IW": []}
    mixture_scores = {"IW": [], "validation IW": []}
    for train, validation, test, components in splits:
        log_jacobian = components.log_jacobian

        gaussian = GaussianMixture(1).fit(train)
        gaussian_of_all = GaussianMixture(1).fit(np.concatenate([train, validation]))
        mixtures = [
            GaussianMixture(n, reg_covar=1e-3, n_init=2, random_state=0).fit(train)
            for n in MIXTURE_SIZES
        ]
        mixture = max(mixtures, key=lambda mixture: mixture.score(validation))

        for scores, validated, tested in (
            (gaussian_scores, gaussian, gaussian_of_all),
            (mixture_scores, mixture, mixture),
        ):
            scores["validation IW"].append(
                float(validated.score(validation)) + log_jacobian
            )
            scores["IW"].append(float(tested.score(test)) + log_jacobian)
    return {"one Gaussian": gaussian_scores, "Gaussian mixture": mixture_scores}
