"""Training steps in JAX: the bound of a VAE NfNf, its gradient, and an update.

`run_mmlp` is this library, a whole epoch in one `lax.scan`. `run_by_hand` is the same
model as one would write it down from the paper, one compiled step at a time.
`run_jacobians` is the paper's backpropagation (`mmlp.alpha`). `run_product` is a large
matrix product, for comparison.

Each `run_` function returns (run, n_steps, facts), see `rivals.turns`.
"""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import mmlp
from mmlp.alpha import activations, densities, general, vae

N_INPUTS = 10
N_LATENT = 5
STEPS_PER_RUN = 40
LEARNING_RATE = 1e-3

NETWORK_OPTIONS: dict[str, dict[str, Any]] = {
    "matrix": {"network": mmlp.MatrixMLP},
    "cholesky": {"network": mmlp.CholeskyMLP},
    "joint": {"network": mmlp.JointMatrixMLP, "hidden_features": (100, 100)},
    "triangular": {
        "network": mmlp.JointMatrixMLP,
        "hidden_features": (100, 100),
        "outputs": {"f": mmlp.Triangular()},
    },
}

RunAndFacts = tuple[Callable[[], Any], int, dict[str, Any]]
Layer = dict[str, jax.Array]


def run_mmlp(
    model: str,
    hidden: list[int],
    batch: int,
    optimizer: str = "adam",
    count: bool = False,
) -> RunAndFacts:
    """Train with this library; with `count`, also report the arithmetic of a step.

    The arithmetic is what XLA's cost analysis says.
    """
    key = jax.random.key(0)
    X = jax.random.normal(key, (STEPS_PER_RUN, batch, N_INPUTS))
    autoencoder = mmlp.paper_vae(
        "NfNf", N_INPUTS, N_LATENT, tuple(hidden), key=key, **NETWORK_OPTIONS[model]
    )
    autoencoder = mmlp.calibrate(autoencoder, X[0], key=key)
    params, static = eqx.partition(autoencoder, eqx.is_inexact_array)
    if optimizer == "adam":
        update_rule = optax.flatten(optax.adam(LEARNING_RATE))
    else:
        update_rule = mmlp.default_optimizer(100_000)

    def loss(params: Any, X: jax.Array, key: jax.Array) -> jax.Array:
        autoencoder = eqx.combine(params, static)
        return -jnp.mean(jax.vmap(autoencoder.elbo)(X, jax.random.split(key, len(X))))

    def step(carry: tuple, X: jax.Array) -> tuple[tuple, jax.Array]:
        params, state, key = carry
        key, step_key = jax.random.split(key)
        value, gradient = jax.value_and_grad(loss)(params, X, step_key)
        updates, state = update_rule.update(gradient, state, params)
        return (optax.apply_updates(params, updates), state, key), value

    start = (params, update_rule.init(params), key)
    epoch = jax.jit(lambda carry, X: jax.lax.scan(step, carry, X))
    facts = {}
    if count:
        cost: Any = jax.jit(step).lower(start, X[0]).cost_analysis() or {}
        facts["mflop"] = float(cost["flops"]) / 1e6
    return lambda: jax.block_until_ready(epoch(start, X)), STEPS_PER_RUN, facts


def run_by_hand(batch: int, density: str) -> RunAndFacts:
    """Form H as matrices, Eq. (mmlpb), and decompose Omega for the Gaussian.

    `density` is "cholesky" or "lu".
    """
    data_key, encoder_key, decoder_key = jax.random.split(jax.random.key(0), 3)
    X = jax.random.normal(data_key, (STEPS_PER_RUN, batch, N_INPUTS))
    first_params = (
        draw_weights(encoder_key, N_INPUTS, N_LATENT),
        draw_weights(decoder_key, N_LATENT, N_INPUTS),
    )
    adam = optax.adam(LEARNING_RATE)

    @jax.jit
    def step(params: tuple, state: Any, X: jax.Array, key: jax.Array) -> tuple:
        def loss(params: tuple) -> jax.Array:
            noise = jax.random.normal(key, (batch, N_LATENT))
            bounds = jax.vmap(lambda x, e: compute_bound(params, x, e, density))
            return -jnp.mean(bounds(X, noise))

        value, gradient = jax.value_and_grad(loss)(params)
        updates, state = adam.update(gradient, state, params)
        return optax.apply_updates(params, updates), state, value

    step_keys = jax.random.split(data_key, STEPS_PER_RUN)

    def run() -> None:
        params = first_params
        state = adam.init(params)
        value = jnp.nan
        for x, key in zip(X, step_keys, strict=True):
            params, state, value = step(params, state, x, key)
        if not jnp.isfinite(value):
            raise FloatingPointError(
                f"Error: the loss is {value} after {STEPS_PER_RUN} steps"
            )

    return run, STEPS_PER_RUN, {}


def draw_weights(
    key: jax.Array, n_inputs: int, dim: int, hidden: tuple[int, ...] = (30, 30, 30)
) -> list[Layer]:
    """Draw the weights of a network by hand, from the input to the output."""
    layers = []
    sizes = (n_inputs, *hidden, dim)
    widths = (hidden[0], *hidden, dim + 1)
    for i, layer_key in enumerate(jax.random.split(key, len(sizes) - 1)):
        shapes = {
            "W": (sizes[i + 1], sizes[i]),
            "B": (sizes[i + 1], sizes[i + 1]),
            "A": (sizes[i + 1], widths[i]),
            "C": (widths[i + 1], sizes[i + 1]),
        }
        keys = jax.random.split(layer_key, 4)
        layer = {}
        for weight_key, (name, shape) in zip(keys, shapes.items(), strict=True):
            layer[name] = jax.random.normal(weight_key, shape) / math.sqrt(shape[1])
        layer["b"] = jnp.zeros(widths[i + 1])
        layers.append(layer)
    return layers


def apply_network(
    layers: list[Layer], x: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the vector, Omega and its factor T for one input x."""
    T = jnp.outer(x, jnp.ones(len(x)))
    H = T
    h = jnp.ones(layers[0]["A"].shape[1])
    for i, p in enumerate(layers):
        is_first = i == 0
        is_last = i == len(layers) - 1
        W = p["W"]
        d = 1 if is_first else len(H)
        Z = d * W @ H @ W.T + p["B"]
        T = jnp.tanh(Z)
        T = T / jnp.linalg.norm(T)
        H = T.T @ T
        z = len(H) * p["C"] @ H @ p["A"] @ h + p["b"]
        h = z if is_last else jnp.tanh(z)
    return h, H, T


def compute_bound(params: tuple, x: jax.Array, noise: jax.Array, density: str) -> Any:
    """Return the evidence lower bound of one row with one draw."""
    encoder, decoder = params
    vector, Omega, T = apply_network(encoder, x)
    mu = vector[:-1]
    log_eta = vector[-1]
    s = mu + jnp.exp(log_eta / 2) * T.T @ noise
    logdet, _ = decompose(Omega, mu, density)
    kl = 0.5 * (jnp.exp(log_eta) + mu @ mu - N_LATENT - N_LATENT * log_eta - logdet)

    vector, Omega, _ = apply_network(decoder, s)
    mu = vector[:-1]
    log_eta = vector[-1]
    logdet, solution = decompose(Omega, x - mu, density)
    quadratic = (x - mu) @ solution / jnp.exp(log_eta)
    constant = N_INPUTS * (jnp.log(2 * jnp.pi) + log_eta)
    return -0.5 * (constant + logdet + quadratic) - kl


def decompose(A: jax.Array, b: jax.Array, density: str) -> tuple[jax.Array, jax.Array]:
    """Return log det A and A^-1 b."""
    if density == "lu":
        return jnp.linalg.slogdet(A)[1], jnp.linalg.solve(A, b)
    L = jnp.linalg.cholesky(A)
    logdet = 2 * jnp.sum(jnp.log(jnp.diag(L)))
    return logdet, jax.scipy.linalg.cho_solve((L, True), b)


def run_jacobians() -> RunAndFacts:
    """Compute the gradient of one row's bound in NumPy and float64; no update."""
    rng = np.random.default_rng(0)
    decoder = make_paper_layers(N_LATENT, N_INPUTS)
    encoder = make_paper_layers(N_INPUTS, N_LATENT)
    x = rng.normal(size=N_INPUTS)
    noise = rng.normal(size=(1, N_LATENT))
    density = densities.gaussian_log_density
    return lambda: vae.d_est_n(decoder, encoder, density, x, noise), 1, {}


def make_paper_layers(n_inputs: int, dim: int) -> list[general.Layer]:
    """Return layers of the same sizes, from the output to the input."""
    layers = []
    weights = draw_weights(jax.random.key(0), n_inputs, dim)
    for i, jax_weights in enumerate(reversed(weights)):
        arrays = {name: np.asarray(value, float) for name, value in jax_weights.items()}
        is_output = i == 0
        layers.append(
            general.Layer(
                **arrays,
                H=activations.mercer_sigmoid(),
                h=activations.identity if is_output else activations.tanh,
            )
        )
    return layers


def run_product(size: int = 2000) -> RunAndFacts:
    """Multiply large matrices: what the machine can do in float32."""
    A = jax.random.normal(jax.random.key(0), (size, size))
    multiply = jax.jit(jnp.matmul)
    facts = {"mflop": 2 * size**3 / 1e6}
    return lambda: jax.block_until_ready(multiply(A, A)), 1, facts
