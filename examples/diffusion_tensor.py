"""Diffusion tensors from noisy signals.

Diffusion imaging measures S_i = S_0 exp(-b g_i' D g_i) along directions g_i to find D,
a 3 x 3 SPD matrix: the shape of the diffusion of water, long where nerve fibres run.
The usual estimate solves for D by least squares in log S; it is noisy, and some of its
matrices are not positive definite. Here a `MatrixMLP` learns the map from 12 signals to
D on 2000 simulated voxels, and is tested on an unseen slice with circular fibres. Both
methods know the mean diffusivity.

The picture shows the slice; a line points along the main direction, and its length is
the anisotropy of D.
"""

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib import pyplot
from matplotlib.collections import LineCollection

import mmlp

B_VALUE = 1.0  # ms/um^2
NOISE = 0.1  # standard deviation, as a share of S_0
MEAN_DIFFUSIVITY = 0.8  # um^2/ms
TRACE = 3 * MEAN_DIFFUSIVITY

# The 12 directions lie on a spiral over half of the sphere.
HEIGHTS = (np.arange(12) + 0.5) / 12
ANGLES = np.arange(12) * np.pi * (5**0.5 - 1)
DIRECTIONS = np.stack(
    [
        np.sqrt(1 - HEIGHTS**2) * np.cos(ANGLES),
        np.sqrt(1 - HEIGHTS**2) * np.sin(ANGLES),
        HEIGHTS,
    ],
    axis=-1,
)


def simulate_signals(D: jax.Array, key: jax.Array) -> jax.Array:
    """Return S_i / S_0 (n, 12) for D (n, 3, 3), with Rician noise.

    This is the modulus of a complex measurement.
    """
    clean = jnp.exp(-B_VALUE * jnp.einsum("ki,nij,kj->nk", DIRECTIONS, D, DIRECTIONS))
    noise = NOISE * jax.random.normal(key, (2, *clean.shape))
    return jnp.hypot(clean + noise[0], noise[1])


def make_tensors(direction: jax.Array, anisotropy: jax.Array) -> jax.Array:
    """Return D (n, 3, 3), a ball (anisotropy 0) to a line (1) along `direction`."""
    line = direction[:, :, None] * direction[:, None, :]
    share = anisotropy[:, None, None]
    return TRACE * (share * line + (1 - share) * jnp.eye(3) / 3)


def estimate_by_least_squares(S: jax.Array) -> np.ndarray:
    """Solve log S_i = -b g_i' D g_i, linear in the six entries of D.

    The estimate is scaled to the known trace.
    """
    i, j = np.triu_indices(3)
    design = -B_VALUE * DIRECTIONS[:, i] * DIRECTIONS[:, j] * np.where(i == j, 1, 2)
    log_signals = np.log(np.asarray(S, np.float64))
    entries = np.linalg.lstsq(design, log_signals.T, rcond=None)[0].T
    D = np.zeros((len(entries), 3, 3))
    D[:, i, j] = entries
    D[:, j, i] = entries
    return D * TRACE / np.trace(D, axis1=1, axis2=2)[:, None, None]


def loss(model, batch, key, t):
    S, Y = batch
    return mmlp.von_neumann(jax.vmap(model)(S), Y).mean()


def fit_network(
    D: jax.Array, S: jax.Array, epochs: int, key: jax.Array
) -> mmlp.MatrixMLP:
    Y = mmlp.Gram.from_dense(D / TRACE)
    model = mmlp.calibrate(mmlp.MatrixMLP(12, 3, key=key), S, key=key)
    return mmlp.fit(
        model, loss, (S, Y), key=key, epochs=epochs, batch_size=50, progress=False
    ).model


def print_errors(name: str, D: np.ndarray, truth: np.ndarray) -> None:
    """Print the errors of an estimate; directions count where there is a fibre."""
    values, vectors = np.linalg.eigh(D)
    true_values, true_vectors = np.linalg.eigh(truth)
    cosine = np.abs(np.sum(vectors[..., -1] * true_vectors[..., -1], axis=1))
    angle = np.degrees(np.arccos(np.clip(cosine, 0, 1)))
    fibre = np.ptp(true_values, axis=1) > MEAN_DIFFUSIVITY
    error = np.sqrt(np.mean(np.sum((D - truth) ** 2, axis=(1, 2))))
    print(
        f"{name:14} error of D {error:.3f}, "
        f"of its direction {np.mean(angle[fibre]):.1f} degrees; "
        f"{np.sum(values < 0)} negative eigenvalues"
    )


def main_directions(D: np.ndarray) -> np.ndarray:
    """Return the main directions (n, 3), as long as D is anisotropic."""
    values, vectors = np.linalg.eigh(D)
    return vectors[..., -1] * np.ptp(values, axis=1, keepdims=True) / TRACE


def main(epochs: int = 60) -> None:
    keys = jax.random.split(jax.random.key(0), 5)
    direction = jax.random.normal(keys[0], (2000, 3))
    direction /= jnp.linalg.norm(direction, axis=1, keepdims=True)
    anisotropy = jax.random.uniform(keys[1], (2000,), minval=0.02, maxval=0.9)
    D = make_tensors(direction, anisotropy)
    model = fit_network(D, simulate_signals(D, keys[2]), epochs, keys[3])

    ticks = np.arange(-9.5, 10)
    x, y = (grid.ravel() for grid in np.meshgrid(ticks, ticks))
    radius = np.hypot(x, y)
    tangents = jnp.asarray(np.stack([-y, x, 0 * x], -1) / radius[:, None])
    on_ring = np.abs(radius - 6) < 2.5
    truth = make_tensors(tangents, jnp.asarray(np.where(on_ring, 0.75, 0.05)))
    S = simulate_signals(truth, keys[4])
    estimates = {
        "truth": truth,
        "least squares": estimate_by_least_squares(S),
        "matrix MLP": TRACE * jax.vmap(model)(S).dense(),
    }

    figure, axes = pyplot.subplots(1, 3, figsize=(10, 3.8), layout="constrained")
    places = np.stack([x, y], -1)
    for axis, (name, estimate) in zip(axes, estimates.items(), strict=True):
        estimate = np.asarray(estimate, np.float64)
        print_errors(name, estimate, np.asarray(truth))
        arrows = main_directions(estimate)[:, :2]
        ends = list(np.stack([places - arrows / 2, places + arrows / 2], 1))
        lines = LineCollection(ends, array=np.hypot(*arrows.T), cmap="viridis", lw=2)
        lines.set_clim(0, 1)
        axis.add_collection(lines)
        axis.set(title=name, aspect="equal", xticks=[], yticks=[])
        axis.set(xlim=(-10.5, 10.5), ylim=(-10.5, 10.5))
    figure.savefig("diffusion_tensor.png", dpi=120)


if __name__ == "__main__":
    main()
