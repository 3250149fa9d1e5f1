"""Estimate diffusion tensors from noisy signals.

Diffusion imaging measures S_i = S_0 exp(-b g_i' D g_i) along directions g_i. D, a 3 x 3
SPD matrix, describes the diffusion of water, which is strong along nerve fibres. The
usual estimate solves for D by least squares in log S; it is noisy, and some of its
matrices are not positive definite. Here a `MatrixMLP` learns the map from 12 signals to
D on 2000 simulated voxels and is tested on an unseen slice with circular fibres. Both
methods know the mean diffusivity.

The picture shows the slice; each line points along the main direction of D, and its
length is the anisotropy.
"""

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

import mmlp

B_VALUE = 1.0  # ms / um^2
NOISE_LEVEL = 0.1  # relative to S_0
MEAN_DIFFUSIVITY = 0.8  # um^2 / ms
TRACE = 3 * MEAN_DIFFUSIVITY
N_DIRECTIONS = 12
N_TRAINING_VOXELS = 2000


def place_directions(n: int) -> np.ndarray:
    """Return n unit vectors (n, 3) on a spiral over half of the sphere."""
    turn = np.arange(n) * np.pi * (5**0.5 - 1)
    height = (np.arange(n) + 0.5) / n
    radius = np.sqrt(1 - height**2)
    return np.stack([radius * np.cos(turn), radius * np.sin(turn), height], axis=-1)


DIRECTIONS = place_directions(N_DIRECTIONS)


def simulate_signals(D: jax.Array, key: jax.Array) -> jax.Array:
    """Return S_i / S_0 (n, 12) for tensors D (n, 3, 3).

    The noise is Rician: the signal is the modulus of a complex measurement.
    """
    exponents = jnp.einsum("ki,nij,kj->nk", DIRECTIONS, D, DIRECTIONS)
    noiseless = jnp.exp(-B_VALUE * exponents)
    noise = NOISE_LEVEL * jax.random.normal(key, (2, *noiseless.shape))
    return jnp.hypot(noiseless + noise[0], noise[1])


def make_tensors(direction: jax.Array, anisotropy: jax.Array) -> jax.Array:
    """Return tensors (n, 3, 3), from a ball (anisotropy 0) to a line (1)."""
    line = direction[:, :, None] * direction[:, None, :]
    weight = anisotropy[:, None, None]
    return TRACE * (weight * line + (1 - weight) * jnp.eye(3) / 3)


def estimate_by_least_squares(S: jax.Array) -> np.ndarray:
    """Solve log S_i = -b g_i' D g_i for the six entries of D.

    The solution is scaled to the known trace.
    """
    i, j = np.triu_indices(3)
    multiplicity = np.where(i == j, 1, 2)
    design = -B_VALUE * DIRECTIONS[:, i] * DIRECTIONS[:, j] * multiplicity
    log_signals = np.log(np.asarray(S, np.float64))
    entries = np.linalg.lstsq(design, log_signals.T, rcond=None)[0].T

    D = np.zeros((len(entries), 3, 3))
    D[:, i, j] = entries
    D[:, j, i] = entries
    return D * 3 * MEAN_DIFFUSIVITY / np.trace(D, axis1=1, axis2=2)[:, None, None]


def loss(
    model: mmlp.MatrixMLP,
    batch: tuple[jax.Array, mmlp.Gram],
    key: jax.Array,
    t: jax.Array,
) -> jax.Array:
    """Return the mean von Neumann divergence of a batch."""
    S, Y = batch
    return mmlp.von_neumann(jax.vmap(model)(S), Y).mean()


def train(
    training_keys: tuple[jax.Array, jax.Array, jax.Array, jax.Array], epochs: int
) -> mmlp.MatrixMLP:
    """Train a network on voxels with random directions and anisotropies."""
    direction_key, anisotropy_key, noise_key, key = training_keys
    direction = jax.random.normal(direction_key, (N_TRAINING_VOXELS, 3))
    direction /= jnp.linalg.norm(direction, axis=1, keepdims=True)
    anisotropy = jax.random.uniform(
        anisotropy_key, (N_TRAINING_VOXELS,), minval=0.02, maxval=0.9
    )
    D = make_tensors(direction, anisotropy)
    S = simulate_signals(D, noise_key)
    Y = mmlp.Gram.from_dense(D / TRACE)

    model = mmlp.MatrixMLP(N_DIRECTIONS, 3, key=key)
    model = mmlp.calibrate(model, S, key=key)
    result = mmlp.fit(
        model, loss, (S, Y), key=key, epochs=epochs, batch_size=50, progress=False
    )
    return result.model


def make_slice() -> tuple[np.ndarray, jax.Array]:
    """Return the places (400, 2) of a slice with circular fibres, and its tensors."""
    ticks = np.arange(-9.5, 10)
    x, y = (grid.ravel() for grid in np.meshgrid(ticks, ticks))
    radius = np.hypot(x, y)
    tangent = np.stack([-y, x, 0 * x], axis=-1) / radius[:, None]
    anisotropy = np.where(np.abs(radius - 6) < 2.5, 0.75, 0.05)
    tensors = make_tensors(jnp.asarray(tangent), jnp.asarray(anisotropy))
    return np.stack([x, y], axis=-1), tensors


def print_errors(name: str, D: np.ndarray, truth: np.ndarray) -> None:
    """Print the errors of an estimate: of D, and of its direction in fibres."""
    eigenvalues, eigenvectors = np.linalg.eigh(D)
    true_eigenvalues, true_eigenvectors = np.linalg.eigh(truth)
    cosine = np.abs(np.sum(eigenvectors[..., -1] * true_eigenvectors[..., -1], axis=1))
    angle = np.degrees(np.arccos(np.clip(cosine, 0, 1)))
    is_fibre = np.ptp(true_eigenvalues, axis=1) > MEAN_DIFFUSIVITY
    error = np.sqrt(np.mean(np.sum((D - truth) ** 2, axis=(1, 2))))
    print(
        f"{name:14} error of D {error:.3f}, "
        f"of its direction {np.mean(angle[is_fibre]):.1f} degrees; "
        f"{np.sum(eigenvalues < 0)} negative eigenvalues"
    )


def draw_directions(axis: Axes, places: np.ndarray, D: np.ndarray) -> None:
    """Draw a line at each place along the main direction of its tensor."""
    eigenvalues, eigenvectors = np.linalg.eigh(D)
    anisotropy = np.ptp(eigenvalues, axis=1, keepdims=True) / TRACE
    arrows = (eigenvectors[..., -1] * anisotropy)[:, :2]
    ends = np.stack([places - arrows / 2, places + arrows / 2], axis=1)
    lines = LineCollection(list(ends), array=np.hypot(*arrows.T), cmap="viridis", lw=2)
    lines.set_clim(0, 1)
    axis.add_collection(lines)
    axis.set(aspect="equal", xticks=[], yticks=[])
    axis.set(xlim=(-10.5, 10.5), ylim=(-10.5, 10.5))


def main(epochs: int = 60) -> None:
    *training_keys, test_key = jax.random.split(jax.random.key(0), 5)
    model = train(tuple(training_keys), epochs)

    places, truth = make_slice()
    S = simulate_signals(truth, test_key)
    estimates = {
        "truth": truth,
        "least squares": estimate_by_least_squares(S),
        "matrix MLP": TRACE * jax.vmap(model)(S).dense(),
    }

    figure, axes = pyplot.subplots(1, 3, figsize=(10, 3.8), layout="constrained")
    for axis, (name, estimate) in zip(axes, estimates.items(), strict=True):
        D = np.asarray(estimate, np.float64)
        print_errors(name, D, np.asarray(truth))
        draw_directions(axis, places, D)
        axis.set_title(name)
    figure.savefig("diffusion_tensor.png", dpi=120)


if __name__ == "__main__":
    main()
