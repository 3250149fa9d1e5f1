"""The default recipe of `fit`."""

import functools

import optax
from optax.contrib import muon

LEARNING_RATE = 0.01
CLIP = 100.0


@functools.lru_cache(maxsize=64)  # equal calls give the same object, so that `fit` does not compile again
def default_optimizer(steps: int, learning_rate: float = LEARNING_RATE) -> optax.GradientTransformation:
    """Muon (orthogonalised momentum) for matrices, Adam for vectors, cosine decay to zero over `steps`, clipping.

    >>> optimizer = default_optimizer(1000)
    """
    rate = optax.cosine_decay_schedule(learning_rate, steps)
    return optax.chain(optax.clip_by_global_norm(CLIP), muon(rate))
