"""The default recipe of `fit`."""

import functools

import optax
from optax.contrib import muon

LEARNING_RATE = 0.02
CLIP = 100.0  # on the norm of the gradient: for rare spikes, not for every step


@functools.lru_cache(
    maxsize=64
)  # equal calls give the same object, so that `fit` does not compile again
def default_optimizer(
    steps: int, learning_rate: float = LEARNING_RATE
) -> optax.GradientTransformation:
    """Muon (orthogonalised momentum; Jordan, 2024) for matrices, Adam for vectors, cosine decay over `steps`, clipping.

    Chosen by benchmarks/recipe.py: SPD regression with turning eigenvectors, 1200 steps, test loss over 6 seeds:

        rate        0.001   0.003    0.01    0.02    0.04    0.08
        Adam        0.221   0.103   0.055           (0.03: 0.053)
        Muon                0.050   0.011  0.0043  0.0033   0.028

    Without decay Muon at 0.02 ends at 0.0074; averaging the weights of the last fifth then gives 0.0043, what decay gives
    by itself, and nothing on top of decay. Clipping at 1 or at 100 makes no difference (0.0042, 0.0043).

    >>> optimizer = default_optimizer(1000)
    """
    rate = optax.cosine_decay_schedule(learning_rate, steps)
    return optax.chain(optax.clip_by_global_norm(CLIP), muon(rate))
