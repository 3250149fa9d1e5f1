"""Question: what does it cost in digits to hold A = diag(s^2) + U'U by s and U?

Answer: the tables this prints, a part of benchmarks/accuracy.py. In float32, nothing against a
dense factor, where the textbook's formula (Woodbury) has no digit left.

    python benchmarks/low_rank_accuracy.py        half a minute

Errors in float32 of log det A and of x'A^-1 x, x ~ N(0, A), for A = diag(s^2) + U'U: held so, as
the dense `Gram` of diag(s) on top of U, and by the textbook's formula

    x'A^-1 x = |y|^2 - |C^-1 P y|^2,    y = x / s,    P = U / s,    CC' = I + PP'

Then errors of gradients by s and U of the log-density of x; and in float32 and float64 the absolute
errors near A = B of what is computed from determinants and
traces.
"""

import jax
import jax.numpy as jnp
import numpy as np

import mmlp
from mmlp import Gram, LowRankGram

D, RANK, TRIALS = 60, 4, 50
CONDITIONS = (1e0, 1e2, 1e4, 1e6, 1e8, 1e10)  # of A
SHAPES = ("loadings", "scales", "both", "alike", "tiny")


def draw(shape: str, condition: float):
    """scale (n, d), U (n, m, d) and x (n, d) in float32; what makes the condition is `shape`."""
    rng = np.random.default_rng(0)
    U = rng.normal(size=(TRIALS, RANK, D))
    U /= np.linalg.norm(U, axis=-1, keepdims=True)
    c, scale = condition**0.5, np.exp(rng.uniform(-0.1, 0.1, (TRIALS, D)))
    if shape == "loadings":  # long ones
        U *= c
    elif shape in (
        "scales",
        "both",
    ):  # of all sizes, or half of that and longer loadings
        c = c if shape == "scales" else c**0.5
        spread = np.broadcast_to(np.geomspace(1, 1 / c, D), (TRIALS, D))
        scale = rng.permuted(spread, axis=1)
        U *= 1 if shape == "scales" else c
    elif shape == "alike":  # loadings that differ by a hundredth
        scale, U = scale / c, U[:, :1] + 0.01 * U
    else:  # three tiny scales
        scale[:, :3] /= c
    e, g = rng.normal(size=(TRIALS, D)), rng.normal(size=(TRIALS, RANK))
    x = scale * e + np.einsum("nmd,nm->nd", U, g)
    return [a.astype(np.float32) for a in (scale, U, x)]


def stacked(scale, U):
    return jnp.concatenate([jnp.eye(scale.shape[-1]) * scale[:, None], U], axis=1)


def exact(scale, U, x):
    """By QR in float64 from the same numbers, which is right to 1e-11 at condition 1e10."""
    T = np.concatenate([np.eye(D) * scale[:, None], U], axis=1, dtype=float)
    R = np.linalg.qr(T, mode="r")
    y = np.linalg.solve(np.swapaxes(R, 1, 2), x.astype(float)[..., None])
    return 2 * np.log(np.abs(np.diagonal(R, axis1=1, axis2=2))).sum(1), np.sum(
        y**2, (1, 2)
    )


def of_value(A, x):
    logdet, y = A.logdet_and_whiten(x)
    return logdet, jnp.sum(y**2, -1)


def textbook(scale, U, x):
    P, y = U / scale[:, None], x / scale
    C = jnp.linalg.cholesky(jnp.eye(RANK, dtype=P.dtype) + P @ P.mT)
    w = jax.scipy.linalg.solve_triangular(C, P @ y[..., None], lower=True)[..., 0]
    logdet = jnp.log(scale).sum(-1) + jnp.log(jnp.diagonal(C, axis1=1, axis2=2)).sum(-1)
    return 2 * logdet, jnp.sum(y**2, -1) - jnp.sum(w**2, -1)


WAYS = {
    "low rank": jax.jit(lambda s, U, x: of_value(LowRankGram(s, U), x)),
    "dense": jax.jit(lambda s, U, x: of_value(Gram(stacked(s, U)), x)),
    "textbook": jax.jit(textbook),
}


def errors(shape: str, condition: float) -> dict[str, list[float]]:
    """The largest relative errors of log det and of the square, of each way; NaN counts as inf."""
    drawn = draw(shape, condition)
    reference = exact(*drawn)
    found = {}
    for name, way in WAYS.items():
        pairs = zip(way(*drawn), reference, strict=True)
        off = [np.abs(np.asarray(value, float) - e) / np.abs(e) for value, e in pairs]
        found[name] = [float(np.max(np.where(np.isnan(x), np.inf, x))) for x in off]
    return found


def density_gradient(make):
    def log_density(scale, U, x):
        logdet, square = of_value(make(scale[None], U[None]), x[None])
        return jnp.sum(logdet + square)

    return jax.jit(jax.vmap(jax.grad(log_density, (0, 1))))


GRADIENTS = {
    "low rank": density_gradient(LowRankGram),
    "dense": density_gradient(lambda scale, U: Gram(stacked(scale, U))),
}


def gradient_errors(shape: str, condition: float) -> dict[str, list[float]]:
    """The largest relative errors of log det + x'A^-1 x by s and by U, against float64."""
    drawn, found = draw(shape, condition), {}
    with jax.enable_x64(True):
        wide = [
            np.asarray(g) for g in GRADIENTS["dense"](*(a.astype(float) for a in drawn))
        ]
    for name, gradient in GRADIENTS.items():
        pairs = zip((np.asarray(g, float) for g in gradient(*drawn)), wide, strict=True)
        off = [
            (np.reshape(g - e, (TRIALS, -1)), np.reshape(e, (TRIALS, -1)))
            for g, e in pairs
        ]
        norm = np.linalg.norm
        found[name] = [float(np.max(norm(a, axis=1) / norm(e, axis=1))) for a, e in off]
    return found


def trace_of_solution(make):
    return jax.jit(lambda s, U, r, V: make(s, U).trace_solve(make(r, V)))


# Compiled once for all conditions.
TRACES = {
    "low rank": trace_of_solution(LowRankGram),
    "dense": trace_of_solution(lambda scale, U: Gram(stacked(scale, U))),
}


def trace_errors(shape: str, condition: float) -> tuple[float, float]:
    """The largest relative errors of tr(A^-1 B) with B of condition one: low rank, dense."""
    scale, U, _ = draw(shape, condition)
    r, V, _ = draw("loadings", 1e0)
    with jax.enable_x64(True):
        wide = [a.astype(float) for a in (scale, U, r, V)]
        exact = np.asarray(TRACES["dense"](*wide))

    def largest_error(trace):
        value = np.asarray(trace(scale, U, r, V), float)
        return float(np.max(np.abs(value - exact) / exact))

    return largest_error(TRACES["low rank"]), largest_error(TRACES["dense"])


def near_equality(dtype, d: int = 1000, m: int = 8) -> dict[str, list[float]]:
    """Absolute errors at B = (1 + eps) A for each eps of `EPSILONS`, with scales of 1/2 to 2.

    The loadings have length one, so that tr(A^2) is of the size of d.
    """
    rng = np.random.default_rng(0)
    scale, U = rng.uniform(0.5, 2, d), rng.normal(size=(m, d)) / d**0.5
    A = LowRankGram(scale.astype(dtype), U.astype(dtype))
    e = np.asarray(EPSILONS)
    one_sided = d * (np.log1p(e) - e / (1 + e))
    exact = {
        "stein": d * (np.log1p(e / 2) - np.log1p(e) / 2),
        "stein one-sided": one_sided,
        "kl": one_sided / 2,
        "quadratic": e**2 * float(A.inner(A)),
    }

    def computed(A, e):
        B = A.scaled(1 + e)
        p, q = (
            mmlp.TraceOneGaussian.from_moments(jnp.zeros(d, dtype), V) for V in (B, A)
        )
        steins = mmlp.stein(A, B), mmlp.stein(A, B, symmetric=False)
        return jnp.stack([*steins, mmlp.kl_divergence(q, p), mmlp.quadratic(A, B)])

    got = np.asarray(
        jax.jit(jax.vmap(computed, (None, 0)))(A, e.astype(dtype)), float
    ).T
    return {
        name: list(np.abs(x - exact[name])) for name, x in zip(exact, got, strict=True)
    }


EPSILONS = (1e-1, 1e-3, 1e-5, 1e-7)


def main():
    print(
        f"\nfloat32, A = diag(s^2) + U'U with d = {D}, m = {RANK}: largest relative error over"
    )
    print(f"{TRIALS} draws of log det A, x'A^-1 x: low rank / dense factor / textbook;")
    print("of the gradient by s, U, and of tr(A^-1 B): low rank / dense factor\n")
    for shape in SHAPES:
        print(shape)
        for condition in CONDITIONS:
            row = [f"  cond(A) = {condition:.0e} "]
            for found in (errors(shape, condition), gradient_errors(shape, condition)):
                row.append(
                    " / ".join(" ".join(f"{x:5.0e}" for x in e) for e in found.values())
                )
            row.append(" / ".join(f"{x:5.0e}" for x in trace_errors(shape, condition)))
            print("    ".join(row))


def near():
    """Call it with 64-bit numbers enabled."""
    print(
        "\nabsolute errors at B = (1 + eps) A, d = 1000, m = 8, by determinants and traces\n"
    )
    print(f"{'eps':>34}" + "".join(f"{e:9.0e}" for e in EPSILONS))
    for dtype in (np.float32, np.float64):
        for name, row in near_equality(dtype).items():
            label = f"{np.dtype(dtype)} {name}"
            print(f"{label:>34}" + "".join(f"{x:9.0e}" for x in row))


if __name__ == "__main__":
    main()
    with jax.enable_x64(True):
        near()
