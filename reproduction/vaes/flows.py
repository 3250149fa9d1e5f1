"""Neural spline flows of the same splits: rivals of the VAEs, from flowjax, which is optional."""

import dataclasses
import importlib.util
import json
import time
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from optax.contrib import MuonDimensionNumbers, muon

from mmlp.training import FitResult, fit_many
from mmlp.training.optimizers import MAX_GRADIENT_NORM, comparable_optimizer
from reproduction.vaes.data import Split
from reproduction.vaes.recipes import clipped

NAME = "neural spline flow"
SETTINGS = Path(__file__).with_name("flow_settings.json")
TRIALS = 38  # of reproduction/searches/flows.py
INSTALL = 'pip install -c constraints.txt ".[bench]"'


@dataclasses.dataclass(frozen=True)
class Flow:
    """How a neural spline flow (Durkan et al., 2019) is made and trained.

    x = f_1(... f_T(z)), z ~ N(0, I): each f_t^-1 is a rational quadratic spline of every component,
    its knots given by a masked MLP of the components before, in an order drawn for each t.
    """

    transforms: int = 3
    width: int = 64
    depth: int = 2  # hidden layers of each MLP
    knots: int = 8  # between -`interval` and `interval`, in standard deviations
    interval: float = 5.0  # the identity beyond
    optimizer: str = "adam"  # or "muon"
    rate: float = 2e-3  # at the start; it decays as a cosine
    decay: float = 0.0  # of weights
    batch: int = 50
    epochs: int = 150
    noise: float = (
        0.1  # standard deviation of noise added to the standardised training data
    )

    def start(self, dim: int, key) -> Any:
        """A flow with which training begins; all of its floating-point arrays are trained."""
        from flowjax import bijections, distributions, flows  # pyright: ignore

        spline = bijections.RationalQuadraticSpline(
            knots=self.knots, interval=self.interval
        )
        how: Any = {
            "base_dist": distributions.StandardNormal((dim,)),
            "transformer": spline,
        }
        how |= {
            "flow_layers": self.transforms,
            "nn_width": self.width,
            "nn_depth": self.depth,
        }
        return flows.masked_autoregressive_flow(key, **how)

    def changed(self, epochs: int | None, hidden: tuple[int, ...] | None) -> "Flow":
        """With this number of epochs and these widths, where they are given."""
        changes: dict[str, Any] = {} if epochs is None else {"epochs": epochs}
        changes |= {} if hidden is None else {"width": hidden[0], "depth": len(hidden)}
        return dataclasses.replace(self, **changes)

    def make_optimizer(self, rows: int) -> optax.GradientTransformation:
        kind = self.rate, self.epochs * -(-rows // self.batch), self.decay
        if self.optimizer == "muon":
            return comparable_optimizer(stacked_muon, *kind)
        return comparable_optimizer(clipped, self.optimizer, *kind)


def available() -> bool:
    return importlib.util.find_spec("flowjax") is not None


def note() -> str:
    """What a reader of the table must know."""
    if not available():
        return f"A {NAME} is left out for want of flowjax: `{INSTALL}` brings it."
    return (
        f"The {NAME} is flowjax's, masked and autoregressive; {TRIALS} settings of it were tried "
        "on splits not used here, and validation chose (results/search/flows.json)."
    )


def tuned() -> Flow:
    """The settings that validation chose, results/search/flows.json."""
    return Flow(**json.loads(SETTINGS.read_text(encoding="utf-8")))


def stacked_muon(rate: float, steps: int, decay: float) -> optax.GradientTransformation:
    """As `clipped`; the weights of all transforms are one array (transforms, out, in)."""
    matrices = MuonDimensionNumbers(reduction_axis=2, output_axis=1)

    def numbers(params):
        return jax.tree.map(lambda x: matrices if x.ndim == 3 else None, params)

    schedule = optax.cosine_decay_schedule(rate, steps)
    make = muon(schedule, weight_decay=decay, muon_weight_dimension_numbers=numbers)
    return optax.chain(optax.clip_by_global_norm(MAX_GRADIENT_NORM), make)


def negative_log_density(flow, batch, key, t):
    """Minus its mean over a batch (x, noise); validation, t = 1, has no noise."""
    x, noise = batch
    level = jnp.where(t < 1, noise[:, None], 0)
    return -jnp.mean(
        flow.log_prob(x + level * jax.random.normal(key, x.shape, x.dtype))
    )


def fit_flows(flows: list[Flow], splits: list[Split], *, on_epoch=()) -> FitResult:
    """A flow for each split and setting, in float32, settings running fastest along the first axis.

    The settings may differ in rate and noise only. The epoch that is best on validation is kept.
    """
    count, flow = len(flows), max(flows, key=lambda flow: flow.rate)

    def stacked(part: str):
        X = np.stack([getattr(split, part) for split in splits]).astype(np.float32)
        X, noise = (
            X.repeat(count, axis=0),
            np.array([one.noise for one in flows], np.float32),
        )
        return X, np.repeat(np.tile(noise, len(splits))[:, None], X.shape[1], axis=1)

    data, keys = stacked("train"), jax.random.split(jax.random.key(0), len(splits))
    dim = data[0].shape[-1]
    models = eqx.filter_vmap(lambda key: flow.start(dim, key))(
        jnp.repeat(keys, count, axis=0)
    )
    keys = jax.random.split(jax.random.key(1), len(splits) * count)
    how: Any = {"epochs": flow.epochs, "batch_size": flow.batch, "on_epoch": on_epoch}
    how |= {"rates": [one.rate / flow.rate for _ in splits for one in flows]}
    how |= {"optimizer": flow.make_optimizer(data[0].shape[1])}
    how |= {"validation": stacked("validation"), "own_data": True, "progress": False}
    return fit_many(models, negative_log_density, data, keys=keys, **how)


def score(models, splits: list[Split], *, part: str = "test") -> np.ndarray:
    """Mean log-densities over a part of each split, in raw units, shape (flows,)."""
    X = np.stack([getattr(split, part) for split in splits]).astype(np.float32)
    jacobian = np.array([split.components.log_jacobian for split in splits])
    count = len(jax.tree.leaves(eqx.filter(models, eqx.is_array))[0]) // len(splits)
    rows = np.asarray(
        _log_densities(models, jnp.asarray(X.repeat(count, axis=0))), np.float64
    )
    return rows.mean(axis=1) + jacobian.repeat(count)


@eqx.filter_jit
def _log_densities(models, X):
    return eqx.filter_vmap(lambda model, x: model.log_prob(x))(models, X)


def flow_density(flow: Flow, splits: list[Split]) -> dict[str, Any]:
    """Its log-densities by split, as `fits.simple_densities` has them, and the time."""
    begin, models = time.perf_counter(), fit_flows([flow], splits).model
    parts = {"IW": "test", "validation IW": "validation"}
    found = {
        name: score(models, splits, part=part).tolist() for name, part in parts.items()
    }
    return found | {"seconds": round(time.perf_counter() - begin, 1)}
