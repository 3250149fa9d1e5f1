"""What the experiments on VAEs share: a recipe, all seeds of it trained in one compiled program, and the scores."""

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.scipy.special import logsumexp
from optax.contrib import muon

from mmlp.datasets import Components, random_split
from mmlp.initialisation import calibrate
from mmlp.kernels import Linear, MercerSigmoid
from mmlp.networks import CholeskyMLP, Dense, Diagonal, JointMatrixMLP, MatrixMLP
from mmlp.training.core import FitResult, fit_many
from mmlp.training.optimizers import CLIP
from mmlp.vae import VAE, paper_vae

ROWS = 50  # that one call of the compiled program scores
CALIBRATION_ROWS = 300
COLLAPSED = 0.1  # nats of KLD: with less an encoder says nothing
BRIEF = 300  # steps, all models counted: fewer are not worth the time to optimise their program


class Split(NamedTuple):
    """Standardised components of one random split: training, validation and test rows, and the way back."""

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray
    components: Components


def make_split(images: np.ndarray, seed: int, *, train: int, validation: int, count: int) -> Split:
    """`train` images, of which `validation` are held out for early stopping; the components are of all `train`."""
    rows, rest = random_split(len(images), train, seed)
    components = Components.fit(images[rows], count)
    S = components.encode(images[rows])
    return Split(S[validation:], S[:validation], components.encode(images[rest]), components)


def direct_matrix_mlp(*sizes, **options) -> JointMatrixMLP:
    """`JointMatrixMLP` without D and V, which results/ measured."""
    return eqx.tree_at(
        lambda network: (network.matrices[-1].V, *(layer.D for layer in network.vectors)),
        JointMatrixMLP(*sizes, **options),
        replace_fn=lambda _: None,
    )


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How a VAE is made and trained. `Recipe(model, literal=True)` is the paper's own; its number of epochs is unsaid."""

    model: str = "NfNf"
    network: str = "matrix"  # or "cholesky"
    hidden: tuple[int, ...] = (30, 30, 30)
    features: tuple[int, ...] | None = (
        None  # widths of the vector path of a matrix MLP, by default `hidden`
    )
    output: str = "mercer"  # or "linear": the output kernel of a matrix MLP
    direct: bool = False  # see MatrixMLP
    joint: bool = False  # likewise
    literal: bool = False  # initial weights of scale 1/sqrt(fan-in) in the paper's constants, in place of the library's
    scale: float = 1.0  # of the initial weights, biases of matrices included
    calibrated: bool = False
    unit: bool = (
        False  # the decoder's covariance starts with a mean variance of about 1, not of 1 / d
    )
    optimizer: str = "adam"  # or "muon"
    rate: float = 1e-3
    cosine: bool = False  # decay of the rate over the run
    decay: float = 0.0  # of weights
    batch: int = 10
    epochs: int = 100
    warm_up: float = (
        0.0  # the part of training in which the weight of the KL term rises from 0 to 1
    )
    noise: float = 0.0  # standard deviation of noise added to the (standardised) training data
    noise_end: float | None = None  # to which it goes, linearly over training; None: it stays
    stopping: bool = False  # keep the epoch with the best validation bound
    kl: str = "exact"
    samples: int = 1

    def make(self, features: int, latent: int, key) -> VAE:
        """A fresh VAE of this kind."""
        if self.network == "cholesky":
            vae = paper_vae(self.model, features, latent, self.hidden, network=CholeskyMLP, key=key)
        else:
            kernel = {"mercer": MercerSigmoid, "linear": Linear}[self.output]()
            network = MatrixMLP
            if self.direct or self.joint:
                network = JointMatrixMLP if self.joint else direct_matrix_mlp
            options = {
                "hidden_features": self.features,
                "outputs": {"d": Diagonal(kernel), "f": Dense(kernel)},
                "network": network,
            }
            vae = paper_vae(self.model, features, latent, self.hidden, key=key, **options)
            vae = in_papers_constants(vae) if self.literal else vae
        return jax.tree.map(lambda x: self.scale * x if eqx.is_inexact_array(x) else x, vae)

    def untrained(self) -> "Recipe":
        """Equal for recipes whose models start alike."""
        names = ("model", "network", "hidden", "features", "output", "direct", "joint")
        names += ("literal", "scale", "calibrated", "unit")
        return Recipe(**{name: getattr(self, name) for name in names})

    def levels(self) -> tuple[float, float, float]:
        """What `loss` reads from the batch, so that models that differ in it are trained together."""
        return self.noise, self.noise if self.noise_end is None else self.noise_end, self.warm_up

    def steps(self, rows: int) -> int:
        """Of the whole run."""
        return self.epochs * -(-rows // self.batch)

    def make_optimizer(self, steps: int) -> optax.GradientTransformation:
        return _optimizer(self.optimizer, self.rate, steps if self.cosine else None, self.decay)


@functools.lru_cache(
    maxsize=64
)  # equal ones are one object, so that `fit_many` does not compile again
def loss_of(kl: str, samples: int) -> Callable:
    """The negative bound, mean over the batch (x, `Recipe.levels`); validation (t = 1) has no noise and the full KL term."""

    def loss(model: VAE, batch, key, t):
        x, (noise, noise_end, warm_up) = batch[0], batch[1][0]
        key_noise, key_draws = jax.random.split(key)
        training = t < 1
        level = noise + (noise_end - noise) * t
        x = x + jnp.where(training, level, 0) * jax.random.normal(key_noise, x.shape, x.dtype)
        weight: Any = jnp.where(t < warm_up, t / jnp.where(warm_up > 0, warm_up, 1), 1)

        def one(x, key):
            likelihood, divergence = model.terms(x, key, samples, kl=kl)
            if kl == "von_neumann":  # which is no bound, and is validated by one
                divergence = jnp.where(training, divergence, model.kl(model.encode(x)))
            return weight * divergence - likelihood

        return jnp.mean(jax.vmap(one)(x, jax.random.split(key_draws, len(x))))

    return loss


@functools.lru_cache(maxsize=64)
def _optimizer(
    name: str, rate: float, steps: int | None, decay: float
) -> optax.GradientTransformation:
    schedule = (
        optax.constant_schedule(rate) if steps is None else optax.cosine_decay_schedule(rate, steps)
    )
    if name == "adam":
        return optax.chain(
            optax.clip_by_global_norm(CLIP), optax.adamw(schedule, weight_decay=decay)
        )
    return optax.chain(optax.clip_by_global_norm(CLIP), muon(schedule, weight_decay=decay))


def train(
    recipe: Recipe,
    splits: list[Split],
    latent: int,
    *,
    cells: Sequence[dict[str, Any]] = ({},),
    start: int = 0,
    calibration_rows: int = CALIBRATION_ROWS,
    on_epoch: Sequence[Callable] = (),
) -> FitResult:
    """Models and history with a leading axis of splits (times cells), in float32; another `start` is another seed.

    `cells` are values for `rate`, `noise`, `noise_end` and `warm_up` in place of the recipe's; every split is trained with
    each, cells running fastest, all in one program.
    """
    tried = [dataclasses.replace(recipe, **cell) for cell in cells]
    recipe = dataclasses.replace(recipe, rate=max(one.rate for one in tried))
    levels = np.tile(np.array([one.levels() for one in tried], np.float32), (len(splits), 1))

    def stacked(parts):
        X = np.repeat(np.stack(list(parts)).astype(np.float32), len(tried), axis=0)
        return X, np.repeat(levels[:, None], X.shape[1], axis=1)

    held_out = recipe.stopping
    data = stacked(
        split.train if held_out else np.concatenate([split.train, split.validation])
        for split in splits
    )
    keys = jnp.repeat(
        jax.random.split(jax.random.key(100 * start), len(splits)), len(tried), axis=0
    )
    with compiled_for(1):
        models = _start(
            recipe.untrained(), latent, keys, jnp.asarray(data[0][:, :calibration_rows])
        )
    steps = recipe.steps(data[0].shape[1])
    with compiled_for(steps * len(keys)):
        return fit_many(
            models,
            loss_of(recipe.kl, recipe.samples),
            data,
            keys=jax.random.split(jax.random.key(100 * start + 1), len(keys)),
            epochs=recipe.epochs,
            batch_size=recipe.batch,
            optimizer=recipe.make_optimizer(steps),
            validation=stacked(split.validation for split in splits) if held_out else None,
            rates=[one.rate / recipe.rate for _ in splits for one in tried],
            own_data=True,
            progress=False,
            on_epoch=on_epoch,
        )


@contextlib.contextmanager
def compiled_for(steps: int) -> Iterator[None]:
    """On a CPU, programs that run for a few steps only are compiled without the passes that take most of the time."""
    known = jax.config.read("jax_disable_most_optimizations")
    jax.config.update(
        "jax_disable_most_optimizations",
        known or (steps < BRIEF and jax.default_backend() == "cpu"),
    )
    try:
        yield
    finally:
        jax.config.update("jax_disable_most_optimizations", known)


@eqx.filter_jit
def _start(recipe: Recipe, latent: int, keys, X):
    def one(key, X):
        model = recipe.make(X.shape[1], latent, key)
        model = calibrate(model, X, key=key) if recipe.calibrated else model
        return with_unit_variance(model) if recipe.unit else model

    return eqx.filter_vmap(one)(keys, X)


def in_papers_constants(vae: VAE) -> VAE:
    """Weights drawn at scale 1/sqrt(fan-in) for H of trace one, not for d H (see networks.py): smaller W_l and C_l."""

    def inner(vae) -> list:
        return [
            layer.W
            for network in (vae.encoder.network, vae.decoder.network)
            for layer in network.matrices[1:]
        ]

    def outer(vae) -> list:
        return [
            layer.C
            for network in (vae.encoder.network, vae.decoder.network)
            for layer in network.vectors
        ]

    vae = eqx.tree_at(inner, vae, replace_fn=lambda W: W / W.shape[1] ** 0.5)
    return eqx.tree_at(outer, vae, replace_fn=lambda C: C / C.shape[1])


def with_unit_variance(vae: VAE) -> VAE:
    """The decoder's eta, the trace of its covariance, times d: else it is about one, and log d is far for a bias to go."""

    def bias(vae):
        network: Any = vae.decoder.network
        return network.vectors[-1].b if hasattr(network, "vectors") else network.perceptron.b[-1]

    d = vae.decoder.dim  # where log eta stands in the vector, after mu
    return eqx.tree_at(bias, vae, replace_fn=lambda b: b.at[d].add(math.log(d)))


def score(
    models: VAE, splits: list[Split], samples: int, *, part: str = "test", cells: int = 1
) -> dict[str, np.ndarray]:
    """Means over a part of each split, in raw units: LL, KLD, ELBO, IW, and the Monte Carlo error of IW; shape (models,).

    LL, KLD and ELBO are means over the same `samples` draws of q as IW, the KLD exact.
    """
    X = (
        np.stack([getattr(split, part) for split in splits])
        .astype(np.float32)
        .repeat(cells, axis=0)
    )
    jacobian = np.repeat([split.components.log_jacobian for split in splits], cells)
    values = scores_of_rows(models, X, samples)
    LL, KLD, IW = values[..., :3].mean(axis=1).T
    error = np.sqrt(np.mean(values[..., 3], axis=1) / X.shape[1])
    return {
        "LL": LL + jacobian,
        "KLD": KLD,
        "ELBO": LL - KLD + jacobian,
        "IW": IW + jacobian,
        "IW error": error,
    }


def scores_of_rows(models: VAE, X: np.ndarray, samples: int) -> np.ndarray:
    """LL, KLD, IW and the Monte Carlo variance of IW for X (models, n, p), shape (models, n, 4), in standardised units.

    A few rows at a time, always as many: data of any length use one program.
    """
    n = X.shape[1]
    parts = []
    with compiled_for(len(X) * n * samples // 1000):  # a draw takes about a thousandth of a step
        for start in range(0, n, ROWS):
            rows = np.arange(start, start + min(ROWS, n)) % n  # the last ones are filled up
            key = jax.random.fold_in(jax.random.key(2), start)
            parts.append(_scores(models, jnp.asarray(X[:, rows]), key, samples))
    return np.concatenate([np.asarray(part, np.float64) for part in parts], axis=1)[:, :n]


@eqx.filter_jit
def _scores(models, X, key, samples: int):
    """One row after the other, its draws of all models at once: more would leave the cache."""

    def one(model, x, key):
        q, s, log_likelihood = model.draws(x, key, samples)
        weights = log_likelihood + model.prior.log_prob(s) - q.log_prob(s)
        bound = jnp.asarray(logsumexp(weights)) - math.log(samples)
        variance = jnp.var(jnp.exp(weights - bound)) / samples  # of the bound, by the delta method
        return jnp.stack([jnp.mean(log_likelihood), model.kl(q), bound, variance])

    def row(x_and_key):
        return eqx.filter_vmap(one, in_axes=(eqx.if_array(0), 0, None))(models, *x_and_key)

    rows = jnp.moveaxis(X, 1, 0), jax.random.split(key, X.shape[1])
    return jnp.moveaxis(jax.lax.map(row, rows), 0, 1)


def take(models: Any, index: int) -> Any:
    """One of many models."""
    return jax.tree.map(lambda x: x[index] if eqx.is_array(x) else x, models)


def put(models: Any, indices: Sequence[int], others: Any) -> Any:
    """Many models, with `others` in these places."""
    return jax.tree.map(
        lambda x, y: x.at[jnp.array(indices)].set(y) if eqx.is_array(x) else x, models, others
    )
