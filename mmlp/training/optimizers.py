"""The default optimiser of `fit`, and optimisers that compare equal.

`fit` compiles once for equal optimisers. Optax makes new functions at each call, so
that two `optax.adam(0.1)` are different; `comparable_optimizer` makes equal ones.
"""

import dataclasses
import functools
from collections.abc import Callable, Hashable
from typing import Any

import jax.numpy as jnp
import optax
from optax import GradientTransformation as Optimizer

from mmlp.training.muon import muon

LEARNING_RATE = 0.02
MAX_GRADIENT_NORM = 100.0  # for rare spikes, not for every step


def default_optimizer(steps: int, learning_rate: float = LEARNING_RATE) -> Optimizer:
    """Return the optimiser that `fit` uses if none is given.

    - Matrices are updated by Muon (Jordan, 2024), which replaces the momentum of a
      gradient by its orthogonal factor. All other arrays are updated by Adam with
      Nesterov momentum. The steps are those of `optax.contrib.muon`.
    - The learning rate decays to zero along a half cosine over `steps` steps.
    - A gradient whose norm over all weights exceeds 100 is scaled down to it.

    Parameters
    ----------
    steps : int
        The number of steps of the whole run: epochs times batches in an epoch.
    learning_rate : float, default=0.02
        The learning rate of the first step.

    Returns
    -------
    optax.GradientTransformation
        Equal to any other one with the same arguments, so that `fit` does not compile
        again.

    Notes
    -----
    Chosen by `benchmarks/optimizers.py`, on SPD regression with turning eigenvectors:
    the test loss after 1200 steps, over 6 seeds, is

        rate    0.001   0.003    0.01    0.02    0.04    0.08
        Adam    0.221   0.103   0.055           (0.03: 0.053)
        Muon            0.050   0.011  0.0043  0.0033   0.028

    Without decay, Muon at 0.02 ends at 0.0074. Averaging the weights of the last fifth
    of the steps then gives 0.0043, as decay alone does, and improves nothing on top of
    decay. Clipping at 1 or at 100 makes no difference (0.0042, 0.0043).

    Examples
    --------
    >>> default_optimizer(1000) == default_optimizer(1000)
    True
    """
    return comparable_optimizer(_make_muon, steps, learning_rate)


def optimizer_by_progress(learning_rate: float = LEARNING_RATE) -> Optimizer:
    """Return `default_optimizer` whose learning rate decays with the progress t.

    `fit` gives t to the optimiser, so that one program serves any number of steps.
    """
    return comparable_optimizer(_make_muon_by_progress, learning_rate)


def comparable_optimizer(
    make: Callable[..., Optimizer], *arguments: Hashable
) -> Optimizer:
    """Return `make(*arguments)`, equal to any other one made of equal arguments."""
    return optax.GradientTransformationExtraArgs(
        init=_OptimizerFunction("init", make, arguments),
        update=_OptimizerFunction("update", make, arguments),
    )


@dataclasses.dataclass(frozen=True)
class _OptimizerFunction:
    """One of the two functions of an optimiser, compared by how it is made."""

    name: str
    make: Callable[..., Optimizer]
    arguments: tuple

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return getattr(self.optimizer, self.name)(*arguments, **options)

    @functools.cached_property
    def optimizer(self) -> optax.GradientTransformationExtraArgs:
        return optax.with_extra_args_support(self.make(*self.arguments))


def _make_muon(steps: int, learning_rate: float) -> Optimizer:
    schedule = optax.cosine_decay_schedule(learning_rate, steps)
    return muon(lambda count, t: schedule(count), MAX_GRADIENT_NORM)


def _make_muon_by_progress(learning_rate: float) -> Optimizer:
    def schedule(count: Any, t: Any) -> Any:
        return learning_rate * (1 + jnp.cos(jnp.pi * t)) / 2

    return muon(schedule, MAX_GRADIENT_NORM)
