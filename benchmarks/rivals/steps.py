"""Training steps in JAX: the bound of a VAE NfNf, its gradient, and an update.

`library` is this library, a whole epoch in one `lax.scan`; `by_hand` is the same model as one would
write it down from the paper, one compiled step at a time; `jacobians` is the paper's
backpropagation (`mmlp.alpha`); `product` is for comparison.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import mmlp
from mmlp.alpha import activations, densities, general, vae

FEATURES, LATENT, STEPS = 10, 5, 40
MODELS = {
    "matrix": {"network": mmlp.MatrixMLP},
    "cholesky": {"network": mmlp.CholeskyMLP},
    "joint": {"network": mmlp.JointMatrixMLP, "hidden_features": (100, 100)},
    "triangular": {
        "network": mmlp.JointMatrixMLP,
        "hidden_features": (100, 100),
        "outputs": {"f": mmlp.Triangular()},
    },
}


def library(
    model: str,
    hidden: list[int],
    batch: int,
    optimizer: str = "adam",
    count: bool = False,
):
    """`count`: also the arithmetic of a step, by XLA's own account."""
    key = jax.random.key(0)
    X = jax.random.normal(key, (STEPS, batch, FEATURES))
    net = mmlp.paper_vae(
        "NfNf", FEATURES, LATENT, tuple(hidden), key=key, **MODELS[model]
    )
    net = mmlp.calibrate(net, X[0], key=key)
    params, static = eqx.partition(net, eqx.is_inexact_array)
    adam = optax.flatten(optax.adam(1e-3))
    update = {"adam": adam, "default": mmlp.default_optimizer(100_000)}[optimizer]

    def loss(params, X, key):
        bounds = jax.vmap(eqx.combine(params, static).elbo)(
            X, jax.random.split(key, len(X))
        )
        return -jnp.mean(bounds)

    def step(carry, X):
        params, state, key = carry
        key, draw = jax.random.split(key)
        value, gradient = jax.value_and_grad(loss)(params, X, draw)
        updates, state = update.update(gradient, state, params)
        return (optax.apply_updates(params, updates), state, key), value

    start = params, update.init(params), key
    epoch = jax.jit(lambda carry, X: jax.lax.scan(step, carry, X))
    facts = {}
    if count:
        account = jax.jit(step).lower(start, X[0]).cost_analysis() or {}
        facts["mflop"] = float(account["flops"]) / 1e6
    return lambda: jax.block_until_ready(epoch(start, X)), STEPS, facts


def by_hand(batch: int, density: str):
    """H formed as matrices, Eq. (mmlpb), and the Gaussian by a "cholesky" or "lu" of Omega."""
    keys = jax.random.split(jax.random.key(0), 3)
    X = jax.random.normal(keys[0], (STEPS, batch, FEATURES))
    params = weights(keys[1], FEATURES, LATENT), weights(keys[2], LATENT, FEATURES)
    adam = optax.adam(1e-3)

    @jax.jit
    def step(params, state, X, key):
        def loss(params):
            draws = jax.random.normal(key, (batch, LATENT))
            return -jnp.mean(
                jax.vmap(lambda x, e: bound(params, x, e, density))(X, draws)
            )

        value, gradient = jax.value_and_grad(loss)(params)
        updates, state = adam.update(gradient, state, params)
        return optax.apply_updates(params, updates), state, value

    draws = jax.random.split(keys[0], STEPS)

    def run():
        now, state = params, adam.init(params)
        for x, key in zip(X, draws, strict=True):
            now, state, value = step(now, state, x, key)
        if not jnp.isfinite(value):
            raise FloatingPointError(f"Error: the loss is {value} after {STEPS} steps")

    return run, STEPS, {}


def weights(key, inputs: int, dim: int, hidden=(30, 30, 30)) -> list[dict]:
    """Layers from the input to the output."""
    layers, sizes, widths = [], (inputs, *hidden, dim), (hidden[0], *hidden, dim + 1)
    for i, own in enumerate(jax.random.split(key, len(sizes) - 1)):
        shapes = {
            "W": (sizes[i + 1], sizes[i]),
            "B": (sizes[i + 1], sizes[i + 1]),
            "A": (sizes[i + 1], widths[i]),
            "C": (widths[i + 1], sizes[i + 1]),
        }
        keys = dict(zip(shapes, jax.random.split(own, 4), strict=True))
        layer = {
            k: jax.random.normal(keys[k], s) / math.sqrt(s[1])
            for k, s in shapes.items()
        }
        layers.append({**layer, "b": jnp.zeros(widths[i + 1])})
    return layers


def network(layers, x):
    """(vector, Omega, its factor T)."""
    H = T = jnp.outer(x, jnp.ones(len(x)))
    h = jnp.ones(layers[0]["A"].shape[1])
    for i, p in enumerate(layers):
        W, d = p["W"], len(H) if i else 1
        Z = d * W @ H @ W.T + p["B"]
        T = jnp.tanh(Z)
        T = T / jnp.linalg.norm(T)
        H = T.T @ T
        z = len(H) * p["C"] @ H @ p["A"] @ h + p["b"]
        h = jnp.tanh(z) if i < len(layers) - 1 else z
    return h, H, T


def bound(params, x, draw, density: str):
    """The evidence lower bound with one draw."""
    vector, Omega, T = network(params[0], x)
    mu, log_eta = vector[:-1], vector[-1]
    s = mu + jnp.exp(log_eta / 2) * T.T @ draw
    logdet = log_determinant_and_solution(Omega, mu, density)[0]
    kl = 0.5 * (jnp.exp(log_eta) + mu @ mu - LATENT - LATENT * log_eta - logdet)
    vector, Omega, _ = network(params[1], s)
    mu, log_eta = vector[:-1], vector[-1]
    logdet, solution = log_determinant_and_solution(Omega, x - mu, density)
    quadratic = (x - mu) @ solution / jnp.exp(log_eta)
    return -0.5 * (FEATURES * (jnp.log(2 * jnp.pi) + log_eta) + logdet + quadratic) - kl


def log_determinant_and_solution(A, b, density: str):
    if density == "lu":
        return jnp.linalg.slogdet(A)[1], jnp.linalg.solve(A, b)
    L = jnp.linalg.cholesky(A)
    return 2 * jnp.sum(jnp.log(jnp.diag(L))), jax.scipy.linalg.cho_solve((L, True), b)


def jacobians():
    """The gradient of one sample's bound, NumPy in float64; no update."""
    rng = np.random.default_rng(0)
    decoder, encoder = paper_layers(LATENT, FEATURES), paper_layers(FEATURES, LATENT)
    x, draws = rng.normal(size=FEATURES), rng.normal(size=(1, LATENT))
    density = densities.gaussian_log_density
    return lambda: vae.d_est_n(decoder, encoder, density, x, draws), 1, {}


def paper_layers(inputs: int, dim: int) -> list[general.Layer]:
    """Of the same sizes, from the output to the input."""
    layers = []
    for i, p in enumerate(reversed(weights(jax.random.key(0), inputs, dim))):
        p = {name: np.asarray(value, float) for name, value in p.items()}
        h = activations.tanh if i else activations.identity
        layers.append(general.Layer(**p, H=activations.mercer_sigmoid(), h=h))
    return layers


def product(size: int = 2000):
    """A large product: what the machine can do in float32."""
    A = jax.random.normal(jax.random.key(0), (size, size))
    multiply = jax.jit(jnp.matmul)
    return (
        lambda: jax.block_until_ready(multiply(A, A)),
        1,
        {"mflop": 2 * size**3 / 1e6},
    )
