"""Recipes: how a VAE is made and trained. Those that were chosen are in frey_settings.json."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
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

SETTINGS = Path(__file__).with_name("frey_settings.json")
TUNED: dict[str, dict[str, Any]] = json.loads(
    SETTINGS.read_text(encoding="utf-8")
)  # by group


def direct_matrix_mlp(*sizes, **options) -> JointMatrixMLP:
    """`JointMatrixMLP` without its standard MLP, D and V: as results/ has it, not for new work."""

    def joined(network):
        return network.matrices[-1].V, *(layer.D for layer in network.vectors)

    return eqx.tree_at(
        joined, JointMatrixMLP(*sizes, **options), replace_fn=lambda _: None
    )


NETWORKS = {"matrix": MatrixMLP, "direct": direct_matrix_mlp}
NETWORKS |= {"joint": JointMatrixMLP, "cholesky": CholeskyMLP}
OUTPUTS: dict[str, dict[str, Output]] = {
    name: {"d": Diagonal(kernel), "f": Dense(kernel)}
    for name, kernel in (("mercer", MercerSigmoid()), ("linear", Linear()))
}
OUTPUTS["triangular"] = {"d": Diagonal(), "f": Triangular()}


class Still(eqx.Module):
    """In place of the matrix that turns loadings: the identity."""

    size: int = eqx.field(static=True)

    def __call__(self, H_1):
        return jnp.eye(self.size)


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How a VAE is made and trained; `Recipe(model, literal=True)` is the paper's own."""

    model: str = "NfNf"
    network: str = "matrix"  # "direct", "joint" or "cholesky"
    hidden: tuple[int, ...] = (30, 30, 30)
    features: tuple[int, ...] | None = (
        None  # widths of a vector path, by default `hidden`
    )
    output: str = (
        "mercer"  # or "linear", kernels of a matrix MLP's output, or "triangular"
    )
    literal: bool = (
        False  # initial weights of scale 1/sqrt(fan-in) in the paper's constants
    )
    scale: float = 1.0  # of the initial weights, biases of matrices included
    calibrated: int = 0  # rows that calibrate the initial weights
    unit: bool = False  # the decoder's mean variance starts at about 1, not at 1 / d
    rank: int = (
        0  # of a low-rank decoder, which starts at principal directions; 0: see `model`
    )
    turned: bool = (
        True  # whether its loadings are, by a matrix; if not they are constants
    )
    optimizer: str = "adam"  # or "muon"
    rate: float = 1e-3
    rise: float = 0.0  # the part of training in which the rate rises from 0
    cosine: bool = False  # decay of the rate over the run
    decay: float = 0.0  # of weights
    batch: int = 10
    epochs: int = 100  # the paper does not say
    warm_up: float = (
        0.0  # the part of training in which the KL term's weight rises from 0 to 1
    )
    noise: float = (
        0.0  # standard deviation of noise added to the standardised training data
    )
    noise_end: float | None = (
        None  # to which it goes, linearly over training; None: it stays
    )
    stopping: bool = False  # keep the epoch with the best validation bound
    kl: str = "exact"
    draws: int = (
        1  # of q for an image; with more, the importance-weighted bound is trained
    )

    def start(self, X, latent: int, key) -> VAE:
        """A VAE with which training begins; X (calibrated, p) are some of its data."""
        if self.rank:
            return self.low_rank(X, latent, key)
        options = {}
        if self.network != "cholesky":
            options = {
                "outputs": OUTPUTS[self.output],
                "hidden_features": self.features,
            }
        sizes, network = (X.shape[1], latent, self.hidden), NETWORKS[self.network]
        vae = paper_vae(self.model, *sizes, network=network, key=key, **options)
        vae = in_papers_constants(vae) if self.literal else vae
        vae = jax.tree.map(lambda x: self.scale * x, vae)
        vae = calibrate(vae, X, key=key) if self.calibrated else vae
        return self.with_unit_variance(vae) if self.unit else vae

    def with_unit_variance(self, vae: VAE) -> VAE:
        """The decoder's eta, the trace of its covariance, times d: far for a bias to go."""
        network, d = vae.decoder.network, vae.decoder.dim
        offset = (
            jnp.zeros(network.out_features).at[d].set(math.log(d))
        )  # (mu, log eta, ...)
        return eqx.tree_at(
            lambda vae: vae.decoder.network, vae, network.shifted(offset)
        )

    def low_rank(self, X, latent: int, key) -> VAE:
        """A full encoder; a decoder with the last of the hidden layers and `rank` loadings."""
        keys, p = jax.random.split(key), X.shape[1]

        def head(layers: slice, inputs: int, dim: int, key, **options) -> GaussianHead:
            if self.features is not None:
                options["hidden_features"] = self.features[layers]
            sizes = inputs, dim, self.hidden[layers], dim + GaussianHead.extra
            return GaussianHead(NETWORKS[self.network](*sizes, key=key, **options))

        encoder = head(slice(None), p, latent, keys[0])
        decoder = head(slice(-1, None), latent, p, keys[1], output=LowRank(self.rank))
        vae = calibrate(VAE(encoder, decoder), X, key=key, targets=X)
        if self.turned:
            return vae
        return eqx.tree_at(
            lambda vae: vae.decoder.network.matrices[-1].turn, vae, Still(self.rank)
        )

    def changed(self, epochs: int | None, hidden: tuple[int, ...] | None) -> "Recipe":
        """With this number of epochs and these widths of all paths, where they are given."""
        changes: dict[str, Any] = {} if epochs is None else {"epochs": epochs}
        changes |= {} if hidden is None else {"hidden": hidden, "features": None}
        return dataclasses.replace(self, **changes)

    def levels(self) -> tuple[float, float, float]:
        """What the loss reads from the batch: models that differ in it are trained together."""
        return (
            self.noise,
            self.noise if self.noise_end is None else self.noise_end,
            self.warm_up,
        )

    def steps(self, rows: int) -> int:
        """Of the whole run."""
        return self.epochs * -(-rows // self.batch)

    def make_optimizer(self, steps: int) -> optax.GradientTransformation:
        kind = self.optimizer, self.rate, steps if self.cosine else None, self.decay
        return comparable_optimizer(clipped, *kind, round(self.rise * steps))


def clipped(name: str, rate: float, steps: int | None, decay: float, rise: int = 0):
    """Adam or Muon, with clipping; the rate rises over `rise` steps and, over `steps`, decays."""
    constant, cosine = optax.constant_schedule, optax.warmup_cosine_decay_schedule
    schedule = (
        constant(rate)
        if steps is None
        else cosine(0.0 if rise else rate, rate, rise, steps)
    )
    make = {"adam": optax.adamw, "muon": muon}[name]
    return optax.chain(
        optax.clip_by_global_norm(MAX_GRADIENT_NORM), make(schedule, weight_decay=decay)
    )


def of_pixels(name: str) -> tuple[Recipe, int]:
    """The chosen settings of a model of all pixels, and its number of latent variables."""
    settings = dict(TUNED[f"pixels, {name}"])
    latent = settings.pop("latent")
    return Recipe(**_with_tuples(settings)), latent


def tuned(group: str, model: str) -> Recipe:
    """The chosen settings of a group of frey_settings.json, for one of the six models."""
    return Recipe(model, **_with_tuples(TUNED[group]))


def _with_tuples(settings: dict[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()}


def in_papers_constants(vae: VAE) -> VAE:
    """Smaller W_l and C_l, for H of trace one and not for d H: see docs/maths, "The constants"."""

    def weights(vae) -> list:
        networks = vae.encoder.network, vae.decoder.network
        inner = [
            (layer.W, 0.5) for network in networks for layer in network.matrices[1:]
        ]
        return inner + [
            (layer.C, 1.0) for network in networks for layer in network.vectors
        ]

    smaller = [weight / weight.shape[1] ** power for weight, power in weights(vae)]
    return eqx.tree_at(lambda vae: [weight for weight, _ in weights(vae)], vae, smaller)
