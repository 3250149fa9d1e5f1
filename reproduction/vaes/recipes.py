"""Recipes: how a VAE is built and trained.

The settings that validation chose are in frey_settings.json.
"""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array
from optax.contrib import muon

from mmlp.networks import (
    CholeskyMLP,
    Dense,
    Diagonal,
    JointMatrixMLP,
    LowRank,
    MatrixMLP,
    Output,
    Triangular,
)
from mmlp.networks.calibration import calibrate
from mmlp.networks.heads import GaussianHead
from mmlp.networks.kernels import Linear, MercerSigmoid
from mmlp.training.optimizers import MAX_GRADIENT_NORM, comparable_optimizer
from mmlp.vae import VAE, paper_vae

TUNED_SETTINGS = Path(__file__).with_name("frey_settings.json")
# By the name of a group of networks.
TUNED: dict[str, dict[str, Any]] = json.loads(
    TUNED_SETTINGS.read_text(encoding="utf-8")
)


def direct_matrix_mlp(*sizes: Any, **options: Any) -> JointMatrixMLP:
    """Return a `JointMatrixMLP` without its standard MLP, that is without D and V.

    It is kept to reproduce records in results/; new experiments should not use it.
    """

    def joined_weights(network: Any) -> tuple[Any, ...]:
        return network.matrices[-1].V, *(layer.D for layer in network.vectors)

    network = JointMatrixMLP(*sizes, **options)
    return eqx.tree_at(joined_weights, network, replace_fn=lambda _: None)


NETWORKS: dict[str, Any] = {
    "matrix": MatrixMLP,
    "direct": direct_matrix_mlp,
    "joint": JointMatrixMLP,
    "cholesky": CholeskyMLP,
}
# Diagonal and full covariances, by the name of the output.
OUTPUTS: dict[str, dict[str, Output]] = {
    "mercer": {"d": Diagonal(MercerSigmoid()), "f": Dense(MercerSigmoid())},
    "linear": {"d": Diagonal(Linear()), "f": Dense(Linear())},
    "triangular": {"d": Diagonal(), "f": Triangular()},
}


class IdentityTurn(eqx.Module):
    """The identity, in place of the matrix that turns loadings."""

    size: int = eqx.field(static=True)

    def __call__(self, H_1: Array) -> Array:
        return jnp.eye(self.size)


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How a VAE is built and trained; `Recipe(model, literal=True)` is the paper's.

    Parameters
    ----------
    model : str, default="NfNf"
        One of the paper's six models, `mmlp.vae.MODELS`.
    network : {"matrix", "direct", "joint", "cholesky"}, default="matrix"
    hidden : tuple of int, default=(30, 30, 30)
        Sizes of the hidden matrices or layers.
    features : tuple of int, optional
        Widths of a vector path, by default `hidden`.
    output : {"mercer", "linear", "triangular"}, default="mercer"
        The kernel of a matrix MLP's output, or a triangular output.
    literal : bool, default=False
        Start with the paper's constants, see `use_papers_constants`.
    scale : float, default=1.0
        Scale of the initial weights, biases of matrices included.
    calibrated : int, default=0
        The number of rows that calibrate the initial weights.
    unit : bool, default=False
        Start with a decoder whose mean variance is about 1 instead of 1 / d.
    rank : int, default=0
        Rank of a low-rank decoder, which starts at principal directions. With 0, the
        covariance depends on `model`.
    turned : bool, default=True
        Whether a matrix turns the loadings of a low-rank decoder. Otherwise they are
        constants.
    optimizer : {"adam", "muon"}, default="adam"
    rate : float, default=1e-3
        The learning rate.
    rise : float, default=0.0
        The part of training in which the learning rate rises from 0, with `cosine`.
    cosine : bool, default=False
        Let the learning rate decay to 0 over the run.
    decay : float, default=0.0
        Weight decay.
    batch : int, default=10
        The batch size.
    epochs : int, default=100
        The paper does not report its number of epochs.
    warm_up : float, default=0.0
        The part of training in which the weight of the KL term rises from 0 to 1.
    noise : float, default=0.0
        Standard deviation of noise that is added to the standardised training data.
    noise_end : float, optional
        The noise at the end of training, reached linearly. By default it is constant.
    stopping : bool, default=False
        Hold the validation images out and keep the epoch with the best validation
        bound. Otherwise the model is trained on them, too, and its last epoch is kept.
    kl : {"exact", "sampled", "von_neumann"}, default="exact"
        The KL term of the loss.
    draws : int, default=1
        Draws of q for an image. With more than one, the importance-weighted bound is
        trained.
    """

    model: str = "NfNf"
    network: str = "matrix"
    hidden: tuple[int, ...] = (30, 30, 30)
    features: tuple[int, ...] | None = None
    output: str = "mercer"
    literal: bool = False
    scale: float = 1.0
    calibrated: int = 0
    unit: bool = False
    rank: int = 0
    turned: bool = True
    optimizer: str = "adam"
    rate: float = 1e-3
    rise: float = 0.0
    cosine: bool = False
    decay: float = 0.0
    batch: int = 10
    epochs: int = 100
    warm_up: float = 0.0
    noise: float = 0.0
    noise_end: float | None = None
    stopping: bool = False
    kl: str = "exact"
    draws: int = 1

    def make_vae(self, X: Array, latent: int, key: Array) -> VAE:
        """Return the VAE with which training begins.

        Parameters
        ----------
        X : array of shape (calibrated, p)
            Some of the training data.
        latent : int
            The number of latent variables.
        key : JAX random key

        Returns
        -------
        VAE
        """
        if self.rank:
            return self._make_low_rank_vae(X, latent, key)

        options = {}
        if self.network != "cholesky":
            options = {
                "outputs": OUTPUTS[self.output],
                "hidden_features": self.features,
            }
        vae = paper_vae(
            self.model,
            X.shape[1],
            latent,
            self.hidden,
            network=NETWORKS[self.network],
            key=key,
            **options,
        )
        if self.literal:
            vae = use_papers_constants(vae)
        vae = jax.tree.map(lambda x: self.scale * x, vae)
        if self.calibrated:
            vae = calibrate(vae, X, key=key)
        if self.unit:
            vae = _start_at_unit_variance(vae)
        return vae

    def _make_low_rank_vae(self, X: Array, latent: int, key: Array) -> VAE:
        """Return a VAE with a dense encoder and a low-rank decoder.

        The encoder has all hidden layers of the recipe, the decoder only the last.
        """
        n_pixels = X.shape[1]
        encoder_key, decoder_key = jax.random.split(key)

        def make_head(
            layers: slice, inputs: int, dim: int, key: Array, **options: Any
        ) -> GaussianHead:
            if self.features is not None:
                options["hidden_features"] = self.features[layers]
            network = NETWORKS[self.network](
                inputs,
                dim,
                self.hidden[layers],
                dim + GaussianHead.extra,
                key=key,
                **options,
            )
            return GaussianHead(network)

        encoder = make_head(slice(None), n_pixels, latent, encoder_key)
        decoder = make_head(
            slice(-1, None), latent, n_pixels, decoder_key, output=LowRank(self.rank)
        )
        vae = calibrate(VAE(encoder, decoder), X, key=key, targets=X)
        if self.turned:
            return vae
        return eqx.tree_at(
            lambda vae: vae.decoder.network.matrices[-1].turn,
            vae,
            IdentityTurn(self.rank),
        )

    def with_sizes(
        self, epochs: int | None, hidden: tuple[int, ...] | None
    ) -> "Recipe":
        """Return a copy with this number of epochs and widths; None keeps them."""
        recipe = self
        if epochs is not None:
            recipe = dataclasses.replace(recipe, epochs=epochs)
        if hidden is not None:
            recipe = dataclasses.replace(recipe, hidden=hidden, features=None)
        return recipe

    def loss_levels(self) -> tuple[float, float, float]:
        """Return noise, noise at the end, and warm-up, which the loss reads as data.

        Models that differ only in these, and in the learning rate, are trained
        together.
        """
        noise_end = self.noise if self.noise_end is None else self.noise_end
        return self.noise, noise_end, self.warm_up

    def count_steps(self, n_rows: int) -> int:
        """Return the number of training steps of the whole run."""
        return self.epochs * -(-n_rows // self.batch)

    def make_optimizer(self, steps: int) -> optax.GradientTransformation:
        """Return the optimizer for this many training steps."""
        return comparable_optimizer(
            clipped_optimizer,
            self.optimizer,
            self.rate,
            steps if self.cosine else None,
            self.decay,
            round(self.rise * steps),
        )


def _start_at_unit_variance(vae: VAE) -> VAE:
    """Multiply the decoder's eta, the trace of its covariance, by d.

    Training would take long to move a bias that far.
    """
    network = vae.decoder.network
    d = vae.decoder.dim
    # The outputs are (mu, log eta, ...).
    offset = jnp.zeros(network.out_features).at[d].set(math.log(d))
    return eqx.tree_at(lambda vae: vae.decoder.network, vae, network.shifted(offset))


def clipped_optimizer(
    name: str,
    learning_rate: float,
    decay_steps: int | None,
    weight_decay: float,
    rise_steps: int = 0,
) -> optax.GradientTransformation:
    """Return Adam or Muon, with clipping of gradients.

    Parameters
    ----------
    name : {"adam", "muon"}
    learning_rate : float
    decay_steps : int or None
        Steps over which the learning rate decays as a cosine; None keeps it constant.
    weight_decay : float
    rise_steps : int, default=0
        Steps over which the learning rate rises from 0, before it decays. A constant
        learning rate does not rise.

    Returns
    -------
    optax.GradientTransformation
    """
    if decay_steps is None:
        schedule = optax.constant_schedule(learning_rate)
    else:
        initial_rate = 0.0 if rise_steps else learning_rate
        schedule = optax.warmup_cosine_decay_schedule(
            initial_rate, learning_rate, rise_steps, decay_steps
        )
    make_optimizer = {"adam": optax.adamw, "muon": muon}[name]
    return optax.chain(
        optax.clip_by_global_norm(MAX_GRADIENT_NORM),
        make_optimizer(schedule, weight_decay=weight_decay),
    )


def tuned_pixel_recipe(name: str) -> tuple[Recipe, int]:
    """Return the settings chosen for a model of all pixels.

    Parameters
    ----------
    name : str
        The name of the model, such as "low rank".

    Returns
    -------
    recipe : Recipe
    latent : int
        The number of latent variables.
    """
    settings = dict(TUNED[f"pixels, {name}"])
    latent = settings.pop("latent")
    return Recipe(**_lists_to_tuples(settings)), latent


def tuned_recipe(group: str, model: str) -> Recipe:
    """Return the settings chosen for a group of networks, for one of the six models."""
    return Recipe(model, **_lists_to_tuples(TUNED[group]))


def _lists_to_tuples(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings with tuples in place of JSON's lists."""
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in settings.items()
    }


def use_papers_constants(vae: VAE) -> VAE:
    """Reduce W_l and C_l, as if the network had the paper's H_l in place of d_l H_l.

    A start with weights of variance 1/fan-in in the paper's parametrisation has these
    weights in ours. See docs/maths, "The constants".
    """

    def list_weights(vae: VAE) -> list[tuple[Array, float]]:
        """Return the weights, each with the power of its size to divide by."""
        networks: list[Any] = [vae.encoder.network, vae.decoder.network]
        matrix_weights = [
            (layer.W, 0.5) for network in networks for layer in network.matrices[1:]
        ]
        vector_weights = [
            (layer.C, 1.0) for network in networks for layer in network.vectors
        ]
        return matrix_weights + vector_weights

    reduced = [weight / weight.shape[1] ** power for weight, power in list_weights(vae)]
    return eqx.tree_at(
        lambda vae: [weight for weight, _ in list_weights(vae)], vae, reduced
    )
