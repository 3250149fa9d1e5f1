"""Diffusion tensors from noisy signals.

Diffusion imaging measures S_i = S_0 exp(-b g_i' D g_i) along directions g_i and wants D, a 3 x 3
SPD matrix: the shape of the diffusion of water, long where nerve fibres run. The usual estimate
solves for D by least squares in log S; it is noisy, and some of its matrices are not positive
definite. Here a `MatrixMLP` learns the map from 12 signals to D on 2000 simulated voxels, and is
tried on a slice that it has not seen: fibres in circles. The mean diffusivity is known to both.

The picture shows the slice; a line points along the main direction and is longer where D is longer.
"""

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib import pyplot
from matplotlib.collections import LineCollection

import mmlp

B, NOISE, MEAN = 1.0, 0.1, 0.8  # ms/um^2; of S_0; um^2/ms, the mean diffusivity
# a spiral over half of the sphere
TURN, HEIGHT = np.arange(12) * np.pi * (5**0.5 - 1), (np.arange(12) + 0.5) / 12
DIRECTIONS = np.stack(
    [*np.sqrt(1 - HEIGHT**2) * (np.cos(TURN), np.sin(TURN)), HEIGHT], -1
)


def signals(D, key):
    """S_i / S_0 for D (n, 3, 3), with Rician noise: the modulus of a complex measurement."""
    clean = jnp.exp(-B * jnp.einsum("ki,nij,kj->nk", DIRECTIONS, D, DIRECTIONS))
    noise = NOISE * jax.random.normal(key, (2, *clean.shape))
    return jnp.hypot(clean + noise[0], noise[1])


def tensors(direction, anisotropy):
    """D (n, 3, 3) of trace 3 MEAN, from a ball (`anisotropy` 0) to a line along `direction` (1)."""
    line, share = (
        direction[:, :, None] * direction[:, None, :],
        anisotropy[:, None, None],
    )
    return 3 * MEAN * (share * line + (1 - share) * jnp.eye(3) / 3)


def least_squares(S) -> np.ndarray:
    """log S_i = -b g_i' D g_i is linear in the six entries of D; then scaled to the known trace."""
    i, j = np.triu_indices(3)
    design = -B * DIRECTIONS[:, i] * DIRECTIONS[:, j] * np.where(i == j, 1, 2)
    entries = np.linalg.lstsq(design, np.log(np.asarray(S, np.float64)).T, rcond=None)[
        0
    ].T
    D = np.zeros((len(entries), 3, 3))
    D[:, i, j] = D[:, j, i] = entries
    return D * 3 * MEAN / np.trace(D, axis1=1, axis2=2)[:, None, None]


def loss(model, batch, key, t):
    S, Y = batch
    return mmlp.von_neumann(jax.vmap(model)(S), Y).mean()


def report(name: str, D: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Print the errors of an estimate; returns (main direction) * (its strength), (n, 3)."""
    values, vectors = np.linalg.eigh(D)
    main, right = vectors[..., -1], np.linalg.eigh(truth)[1][..., -1]
    fibre = np.ptp(np.linalg.eigvalsh(truth), axis=1) > MEAN
    angle = np.degrees(np.arccos(np.clip(np.abs(np.sum(main * right, axis=1)), 0, 1)))[
        fibre
    ]
    error = np.sqrt(np.mean(np.sum((D - truth) ** 2, axis=(1, 2))))
    errors = f"error of D {error:.3f}, of its direction {np.mean(angle):.1f} degrees"
    print(f"{name:14} {errors}; {np.sum(values < 0)} negative eigenvalues")
    return main * np.ptp(values, axis=1, keepdims=True) / (3 * MEAN)


def main(epochs: int = 60) -> None:
    keys = jax.random.split(jax.random.key(0), 5)
    direction = jax.random.normal(keys[0], (2000, 3))
    direction /= jnp.linalg.norm(direction, axis=1, keepdims=True)
    D = tensors(
        direction, jax.random.uniform(keys[1], (2000,), minval=0.02, maxval=0.9)
    )
    S, Y, key = signals(D, keys[2]), mmlp.Gram.from_dense(D / (3 * MEAN)), keys[3]
    model = mmlp.calibrate(mmlp.MatrixMLP(12, 3, key=key), S, key=key)
    options = {"epochs": epochs, "batch_size": 50, "progress": False}
    model = mmlp.fit(model, loss, (S, Y), key=key, **options).model

    x, y = (
        grid.ravel() for grid in np.meshgrid(np.arange(-9.5, 10), np.arange(-9.5, 10))
    )
    radius = np.hypot(x, y)
    circles = jnp.asarray(np.stack([-y, x, 0 * x], -1) / radius[:, None])
    truth = tensors(
        circles, jnp.asarray(np.where(np.abs(radius - 6) < 2.5, 0.75, 0.05))
    )
    S = signals(truth, keys[4])
    estimates = {
        "truth": truth,
        "least squares": least_squares(S),
        "matrix MLP": 3 * MEAN * jax.vmap(model)(S).dense(),
    }
    figure, axes = pyplot.subplots(1, 3, figsize=(10, 3.8), layout="constrained")
    places, frame = np.stack([x, y], -1), {"xlim": (-10.5, 10.5), "ylim": (-10.5, 10.5)}
    for axis, (name, estimate) in zip(axes, estimates.items(), strict=True):
        arrows = report(name, np.asarray(estimate, np.float64), np.asarray(truth))[
            :, :2
        ]
        ends = list(np.stack([places - arrows / 2, places + arrows / 2], 1))
        lines = LineCollection(ends, array=np.hypot(*arrows.T), cmap="viridis", lw=2)
        lines.set_clim(0, 1)
        axis.add_collection(lines)
        axis.set(title=name, aspect="equal", xticks=[], yticks=[], **frame)
    figure.savefig("diffusion_tensor.png", dpi=120)


if __name__ == "__main__":
    main()
