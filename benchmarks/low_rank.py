"""Question: what does a training step cost with thousands of targets, by the output `LowRank(32)`?

Answer (2 CPU cores, jax 0.9.0.1): the table this prints, quoted in docs/numerics.md. The work is
linear in d: there is nothing of size d^2. Each row is a process of its own, so that its peak memory
is its own, and has the fastest of a few steps.

    python benchmarks/low_rank.py                                      5 minutes
    python benchmarks/low_rank.py --dims 100000 --rank 64              on a GPU, also its memory
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time

import numpy as np

INPUTS, LATENT, HIDDEN, BATCH = 20, 20, (20, 20), 10


def regression(d: int, rank: int, key):
    """A head on a joint matrix MLP, and its mean negative log-density."""
    import jax
    import jax.numpy as jnp

    import mmlp

    output = mmlp.LowRank(rank)
    head = mmlp.GaussianHead(
        mmlp.JointMatrixMLP(
            INPUTS, d, HIDDEN, out_features=d + 1, output=output, key=key
        )
    )
    X = jax.random.normal(key, (BATCH, INPUTS))

    def loss(head, Y, key):
        return -jnp.mean(jax.vmap(lambda x, y: head(x).log_prob(y))(X, Y))

    return head, loss, X


def vae(d: int, rank: int, key):
    """The same network as a decoder, and the negative evidence lower bound."""
    import jax
    import jax.numpy as jnp

    import mmlp

    encoder = mmlp.JointMatrixMLP(d, LATENT, HIDDEN, out_features=LATENT + 1, key=key)
    model = mmlp.VAE(mmlp.GaussianHead(encoder), regression(d, rank, key)[0])

    def loss(vae, Y, key):
        return -jnp.mean(jax.vmap(vae.elbo)(Y, jax.random.split(key, BATCH)))

    return model, loss, None


def measure(kind: str, d: int, rank: int, steps: int):
    """Seconds of a step, value, gradient and update, and bytes at the peak, as one line of JSON."""
    import equinox as eqx
    import jax
    import optax

    import mmlp

    key = jax.random.key(0)
    Y = jax.random.normal(jax.random.key(1), (BATCH, d))
    model, loss, X = {"regression": regression, "vae": vae}[kind](d, rank, key)
    start = eqx.filter_jit(mmlp.calibrate)
    model = start(model, Y if X is None else X, key=key, targets=Y)
    optimizer = optax.adam(1e-3)
    state = optimizer.init(eqx.filter(model, eqx.is_inexact_array))

    @eqx.filter_jit(donate="all-except-first")
    def step(Y, model, state, key):
        value, gradient = eqx.filter_value_and_grad(loss)(model, Y, key)
        updates, state = optimizer.update(gradient, state)
        return eqx.apply_updates(model, updates), state, value

    times = []
    for i in range(steps + 1):
        begun = time.perf_counter()
        model, state, value = step(Y, model, state, jax.random.key(i))
        if not np.isfinite(float(value)):  # waits for it, too
            raise FloatingPointError(f"the loss of step {i} is {value}")
        times.append(time.perf_counter() - begun)
    stats = jax.devices()[0].memory_stats() or {}
    host = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    row = {
        "seconds": min(times[1:]),
        "host": host,
        "device": stats.get("peak_bytes_in_use"),
    }
    print(json.dumps(row | {"name": jax.devices()[0].device_kind}))


def in_a_process_of_its_own(kind: str, d: int, rank: int, steps: int) -> dict:
    environment = {"OPENBLAS_NUM_THREADS": "1", **os.environ}
    arguments = [
        "--kind",
        kind,
        "--dims",
        str(d),
        "--rank",
        str(rank),
        "--steps",
        str(steps),
    ]
    command = [sys.executable, __file__, *arguments]
    return json.loads(
        subprocess.check_output(command, env=environment).splitlines()[-1]
    )


def gibibytes(size: int | None) -> str:
    return "-" if size is None else f"{size / 2**30:.2f}"


def table(dims: list[int], rank: int, steps: int):
    print(
        f"one step, LowRank({rank}), batch {BATCH}, float32; memory in GiB at the peak\n"
    )
    print(f"{'':>10} {'d':>7} {'seconds':>9} {'process':>8} {'device':>7}")
    for kind in ("regression", "vae"):
        times = []
        for d in dims:
            row = in_a_process_of_its_own(kind, d, rank, steps)
            times.append(row["seconds"])
            memory = f"{gibibytes(row['host']):>8} {gibibytes(row['device']):>7}"
            print(
                f"{kind:>10} {d:7d} {row['seconds']:9.4f} {memory}  {row['name']}",
                flush=True,
            )
        if len(dims) > 1:
            power = np.polyfit(np.log(dims), np.log(times), 1)[0]
            print(f"{'':>10} time grows like d^{power:.2f}\n")


def main():
    parser = argparse.ArgumentParser(
        description="One training step with the output LowRank."
    )
    parser.add_argument(
        "--dims", type=int, nargs="+", default=[1_000, 3_000, 10_000, 30_000]
    )
    parser.add_argument("--rank", type=int, default=32)
    parser.add_argument(
        "--steps", type=int, default=10, help="of which the fastest counts"
    )
    parser.add_argument(
        "--kind", choices=["regression", "vae"], help="measure this one, here"
    )
    options = parser.parse_args()
    if options.kind is None:
        table(options.dims, options.rank, options.steps)
    else:
        measure(options.kind, options.dims[0], options.rank, options.steps)


if __name__ == "__main__":
    main()
