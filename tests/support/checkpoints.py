"""Models to save, runs to interrupt, and how both are compared."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import mmlp

KEY = jax.random.key(0)
X = np.asarray(jax.random.normal(KEY, (20, 3)))
ADAM = optax.adam(0.05)

MODELS = {
    "basic": lambda: mmlp.MatrixMLP(3, 2, (4, 3), key=KEY),
    "general": lambda: mmlp.MatrixMLP(
        3,
        2,
        (4,),
        2,
        (5,),
        kernel=mmlp.RadialBasis(0.3),
        activation=jax.nn.gelu,
        key=KEY,
    ),
    "diagonal": lambda: mmlp.MatrixMLP(
        3, 2, (4,), output=mmlp.Diagonal(mmlp.MercerSigmoid(2.0, -0.1)), key=KEY
    ),
    "joint": lambda: mmlp.JointMatrixMLP(3, 2, (4,), 2, (5,), key=KEY),
    "shallow": lambda: mmlp.ShallowMatrixMLP(3, 2, (4, 4), key=KEY),
    "cholesky": lambda: mmlp.CholeskyMLP(3, 2, (4,), 2, key=KEY),
    "gaussian head": lambda: mmlp.GaussianHead(mmlp.MatrixMLP(3, 2, (4,), 3, key=KEY)),
    "vae": lambda: mmlp.paper_vae("EfNf", 3, 2, (4,), key=KEY),
    "power exponential head": lambda: mmlp.PowerExponentialHead(
        mmlp.CholeskyMLP(3, 2, (4,), 5, key=KEY),
        alpha_bounds=(0.3, 2),
        beta_bounds=(0.5, 1),
    ),
    "kernels of other numbers": lambda: (
        mmlp.MercerSigmoid(np.float32(2), jnp.array(1)),
        mmlp.RadialBasis(np.float64(3)),
    ),
    "gram": lambda: mmlp.Gram(jnp.eye(3)[None], upper=True),
    "a tree": lambda: {
        "a": [
            mmlp.DiagonalGram(jnp.ones(2)),
            None,
            (1, 2.5, True, "text", float("inf")),
        ]
    },
}


def loss(model, batch, key, t):
    return jnp.mean((jax.vmap(model)(batch) - 1) ** 2) + 0.01 * jax.random.normal(key)


def model():
    return eqx.nn.Linear(3, 1, key=KEY)


def fit(folder=None, /, start=None, data=X, **options):
    defaults = {
        "key": KEY,
        "epochs": 6,
        "batch_size": 8,
        "optimizer": ADAM,
        "progress": False,
    }
    return mmlp.fit(
        start or model(),
        options.pop("loss", loss),
        data,
        checkpoint=folder,
        **(defaults | options),
    )


def same(a, b):
    """Bit for bit."""
    leaves = [
        (np.asarray(x), np.asarray(y))
        for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    ]
    return all(
        x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
        for x, y in leaves
    )


def damaged(content: bytes, random) -> bytes:
    """Empty, cut short, or with one bit flipped, in the header or anywhere."""
    kind = random.integers(4)
    if kind == 0:
        return b""
    if kind == 1:
        return content[: random.integers(len(content))]
    flipped = bytearray(content)
    header = int.from_bytes(content[:8], "little") + 8
    where = random.integers(header if kind == 2 else len(content))
    flipped[where] ^= 1 << random.integers(8)
    return bytes(flipped)


class StopError(Exception):
    pass


def stop_after(epoch):
    def stop(info):
        if info.epoch > epoch:
            raise StopError

    return (stop,)
