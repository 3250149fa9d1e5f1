"""Under `jax.shard_map` with its checks: the same values and derivatives, and their axes."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import DIVERGENCES
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from processes import environment
from sweeps import sweep

from mmlp import Gram, LowRankGram, TraceOneGaussian, TraceOnePowerExponential

AXIS = "rows"
FUNCTIONS = {  # of factors T and S (n, d, d) and vectors x (n, d), to numbers (n,)
    **{
        name: lambda T, S, x, f=f: f(Gram(T), Gram(S))
        for name, f in DIVERGENCES.items()
    },
    "a divergence from a constant": lambda T, S, x: DIVERGENCES["stein"](
        Gram(T), Gram(jnp.eye(3, dtype=T.dtype))
    ),
    "logm": lambda T, S, x: Gram(T).logm()[:, 0, 1],
    "solve": lambda T, S, x: jnp.sum(Gram(T).solve(x), -1),
    "solve a constant": lambda T, S, x: jnp.sum(
        Gram(T).solve(jnp.ones(3, T.dtype)), -1
    ),
    "whiten by a constant": lambda T, S, x: jnp.sum(
        Gram(jnp.eye(3, dtype=x.dtype) + 1).whiten(x), -1
    ),
    "gaussian": lambda T, S, x: TraceOneGaussian(x, Gram.trace_one(T), 2.0).log_prob(
        x + 1
    ),
    "power exponential": lambda T, S, x: TraceOnePowerExponential(
        x, Gram.trace_one(T), 2.0, 1.0, 0.7
    ).log_prob(x + 1),
    "low rank": lambda T, S, x: TraceOneGaussian(
        x, LowRankGram.trace_one(jnp.exp(x), T[:, :2]), 2.0
    ).log_prob(x + 1),
    "solve low rank of a constant": lambda T, S, x: jnp.sum(
        LowRankGram(jnp.ones(3, T.dtype), S[:, :1]).solve(x), -1
    ),
    "a draw": lambda T, S, x: jnp.sum(drawn(T, x), -1),
}


def drawn(T, x):
    """By a radius whose derivative has a rule of its own; each row has its own beta."""

    def one(T, x):
        q = TraceOnePowerExponential(x, Gram.trace_one(T), 2.0, 1.0, 1 + x[0] ** 2)
        return q.sample(
            jax.random.key(jnp.int32(1000 * x[1]))
        )  # a key of its own, as JAX asks for

    return jax.vmap(one)(T, x)


def mapped(function, *, out=P(AXIS)):
    mesh = Mesh(np.array(jax.devices()), (AXIS,))
    return jax.jit(jax.shard_map(function, mesh=mesh, in_specs=P(AXIS), out_specs=out))


def derivatives(f):
    """The value and the gradients of its sum by all arguments."""
    return lambda *args: (
        f(*args),
        jax.grad(lambda *args: jnp.sum(f(*args)), argnums=(0, 1, 2))(*args),
    )


def data(dtype=np.float64):
    rng = np.random.default_rng(0)
    return (
        *rng.normal(size=(2, 4, 3, 3)).astype(dtype),
        rng.normal(size=(4, 3)).astype(dtype),
    )


def everything(*args):
    return {name: derivatives(f)(*args) for name, f in FUNCTIONS.items()}


@sweep("dtype", ["float32", "float64"])
def test_gradients_vary_over_the_axes_of_the_values(dtype):
    """Else tracing raises."""
    traced = mapped(everything).trace(*data(dtype))
    assert len(jax.tree.leaves(traced.out_info)) == 4 * len(FUNCTIONS)


def check_derivatives(dtype, tolerance):
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance),
        mapped(everything)(*data(dtype)),
        jax.jit(everything)(*data(dtype)),
    )


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-4), ("float64", 1e-9)])
def test_values_and_gradients_are_those_without_it(dtype, tolerance):
    check_derivatives(dtype, tolerance)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_numbers_of_rows_are_not_taken_for_common_to_all_devices(name):
    with pytest.raises(ValueError, match="out_specs"):
        mapped(FUNCTIONS[name], out=P()).lower(*data())


@pytest.mark.slow
def test_values_and_gradients_on_two_devices():
    flags = {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
        "JAX_ENABLE_X64": "1",
    }
    program = [sys.executable, __file__]
    subprocess.run(program, env=environment(__file__, **flags), check=True, timeout=400)


if __name__ == "__main__":
    assert len(jax.devices()) == 2
    check_derivatives(np.float64, 1e-9)
