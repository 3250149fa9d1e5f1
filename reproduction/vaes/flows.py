"""Neural spline flows on the same splits, as rivals of the VAEs.

They come from flowjax, which is an optional dependency.
"""

import dataclasses
import importlib.util
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from optax.contrib import MuonDimensionNumbers, muon

from mmlp.training import FitResult, fit_many
from mmlp.training.optimizers import MAX_GRADIENT_NORM, comparable_optimizer
from reproduction.vaes.images import Split
from reproduction.vaes.recipes import clipped_optimizer

NAME = "neural spline flow"
TUNED_SETTINGS = Path(__file__).with_name("flow_settings.json")
INSTALL_COMMAND = 'pip install -c constraints.txt ".[bench]"'

# The number of settings that reproduction/searches/flows.py tried.
N_TRIALS = 38


@dataclasses.dataclass(frozen=True)
class FlowRecipe:
    """How a neural spline flow (Durkan et al., 2019) is built and trained.

    x = f_1(... f_T(z)), z ~ N(0, I): each f_t^-1 is a rational quadratic spline of
    every component. A masked MLP of the previous components, in an order drawn for each
    t, gives its knots.

    Parameters
    ----------
    transforms : int, default=3
        The number T of transforms.
    width, depth : int
        Width and number of the hidden layers of each MLP.
    knots : int, default=8
        Knots between -`interval` and `interval`, in standard deviations.
    interval : float, default=5.0
        Beyond it the spline is the identity.
    optimizer : {"adam", "muon"}, default="adam"
    rate : float, default=2e-3
        The initial learning rate, which decays as a cosine.
    decay : float, default=0.0
        Weight decay.
    batch : int, default=50
        The batch size.
    epochs : int, default=150
    noise : float, default=0.1
        Standard deviation of noise that is added to the standardised training data.
    """

    transforms: int = 3
    width: int = 64
    depth: int = 2
    knots: int = 8
    interval: float = 5.0
    optimizer: str = "adam"
    rate: float = 2e-3
    decay: float = 0.0
    batch: int = 50
    epochs: int = 150
    noise: float = 0.1

    def make_flow(self, dim: int, key: Array) -> Any:
        """Return the flow with which training begins.

        All of its floating-point arrays are trained.
        """
        from flowjax import bijections, distributions, flows  # pyright: ignore

        return flows.masked_autoregressive_flow(
            key,
            base_dist=distributions.StandardNormal((dim,)),
            transformer=bijections.RationalQuadraticSpline(
                knots=self.knots, interval=self.interval
            ),
            flow_layers=self.transforms,
            nn_width=self.width,
            nn_depth=self.depth,
        )

    def with_sizes(
        self, epochs: int | None, hidden: tuple[int, ...] | None
    ) -> "FlowRecipe":
        """Return a copy with this number of epochs and widths; None keeps them."""
        recipe = self
        if epochs is not None:
            recipe = dataclasses.replace(recipe, epochs=epochs)
        if hidden is not None:
            recipe = dataclasses.replace(recipe, width=hidden[0], depth=len(hidden))
        return recipe

    def make_optimizer(self, n_rows: int) -> optax.GradientTransformation:
        """Return the optimizer for this many training rows."""
        steps = self.epochs * -(-n_rows // self.batch)
        if self.optimizer == "muon":
            return comparable_optimizer(stacked_muon, self.rate, steps, self.decay)
        return comparable_optimizer(
            clipped_optimizer, self.optimizer, self.rate, steps, self.decay
        )


def is_available() -> bool:
    """Tell whether flowjax is installed."""
    return importlib.util.find_spec("flowjax") is not None


def make_note() -> str:
    """Return what a reader of the table must know."""
    if not is_available():
        return (
            f"A {NAME} is left out because flowjax is missing: `{INSTALL_COMMAND}` "
            "installs it."
        )
    return (
        f"The {NAME} is flowjax's, masked and autoregressive; {N_TRIALS} settings of "
        "it were tried on splits not used here, and validation chose "
        "(results/search/flows.json)."
    )


def tuned_recipe() -> FlowRecipe:
    """Return the settings that validation chose, results/search/flows.json."""
    return FlowRecipe(**json.loads(TUNED_SETTINGS.read_text(encoding="utf-8")))


def stacked_muon(
    learning_rate: float, steps: int, weight_decay: float
) -> optax.GradientTransformation:
    """Return Muon with clipping, for weights stacked as (transforms, out, in)."""
    matrix_axes = MuonDimensionNumbers(reduction_axis=2, output_axis=1)

    def dimension_numbers(params: Any) -> Any:
        return jax.tree.map(lambda x: matrix_axes if x.ndim == 3 else None, params)

    optimizer = muon(
        optax.cosine_decay_schedule(learning_rate, steps),
        weight_decay=weight_decay,
        muon_weight_dimension_numbers=dimension_numbers,
    )
    return optax.chain(optax.clip_by_global_norm(MAX_GRADIENT_NORM), optimizer)


def negative_log_density(
    flow: Any, batch: tuple[Array, Array], key: Array, t: Array
) -> Array:
    """Return minus the mean log density of a batch (x, noise); no noise at t = 1."""
    x, noise = batch
    level = jnp.where(t < 1, noise[:, None], 0)
    noisy = x + level * jax.random.normal(key, x.shape, x.dtype)
    return -jnp.mean(flow.log_prob(noisy))


def fit_flows(
    recipes: list[FlowRecipe], splits: list[Split], *, on_epoch: Sequence[Callable] = ()
) -> FitResult:
    """Train a flow for each split and recipe, in float32.

    The epoch that is best on the validation rows is kept.

    Parameters
    ----------
    recipes : list of FlowRecipe
        They may differ in learning rate and noise only.
    splits : list of Split
    on_epoch : sequence of callables, default=()
        Called after each epoch, as in `mmlp.fit`.

    Returns
    -------
    FitResult
        With the flows along the first axis, on which recipes vary fastest.
    """
    n_recipes = len(recipes)
    # One recipe stands for all. It has the largest learning rate, to which the others
    # are relative.
    recipe = max(recipes, key=lambda recipe: recipe.rate)
    noise_levels = np.array([recipe.noise for recipe in recipes], np.float32)

    def repeat_for_flows(part: str) -> tuple[np.ndarray, np.ndarray]:
        """Stack the rows of all splits, once for each recipe, with their noise."""
        X = np.stack([getattr(split, part) for split in splits]).astype(np.float32)
        X = X.repeat(n_recipes, axis=0)
        noise = np.tile(noise_levels, len(splits))
        return X, np.repeat(noise[:, None], X.shape[1], axis=1)

    data = repeat_for_flows("train")
    _, n_rows, dim = data[0].shape
    split_keys = jax.random.split(jax.random.key(0), len(splits))
    start_keys = jnp.repeat(split_keys, n_recipes, axis=0)
    relative_rates = [r.rate / recipe.rate for _ in splits for r in recipes]
    return fit_many(
        eqx.filter_vmap(lambda key: recipe.make_flow(dim, key))(start_keys),
        negative_log_density,
        data,
        keys=jax.random.split(jax.random.key(1), len(start_keys)),
        epochs=recipe.epochs,
        batch_size=recipe.batch,
        on_epoch=on_epoch,
        rates=relative_rates,
        optimizer=recipe.make_optimizer(n_rows),
        validation=repeat_for_flows("validation"),
        own_data=True,
        progress=False,
    )


def score_flows(models: Any, splits: list[Split], *, part: str = "test") -> np.ndarray:
    """Return mean log densities over a part of each split, of shape (flows,).

    They are in nats and units of pixels.
    """
    X = np.stack([getattr(split, part) for split in splits]).astype(np.float32)
    log_jacobian = np.array([split.components.log_jacobian for split in splits])
    n_models = len(jax.tree.leaves(eqx.filter(models, eqx.is_array))[0])
    flows_per_split = n_models // len(splits)
    rows = _log_densities(models, jnp.asarray(X.repeat(flows_per_split, axis=0)))
    means = np.asarray(rows, np.float64).mean(axis=1)
    return means + log_jacobian.repeat(flows_per_split)


@eqx.filter_jit
def _log_densities(models: Any, X: Array) -> Array:
    return eqx.filter_vmap(lambda model, x: model.log_prob(x))(models, X)


def fit_and_score_flow(recipe: FlowRecipe, splits: list[Split]) -> dict[str, Any]:
    """Return log densities by split, as `score_simple_densities`, and the time."""
    start = time.perf_counter()
    models = fit_flows([recipe], splits).model
    return {
        "IW": score_flows(models, splits).tolist(),
        "validation IW": score_flows(models, splits, part="validation").tolist(),
        "seconds": round(time.perf_counter() - start, 1),
    }
