"""Covariance matrices that depend on an input: the paper's Example 1, and what it leaves open.

    A (d, 20)   fixed, standard normal entries
    c_i         q latent factors of class i, uniform on (-1, 1)
    mu_i        tanh(E c_i), the mean of the class and the input X_i; E (20, q) fixed, normal
    Sigma_i     the covariance of the class, a smooth function of c_i: `Setting`
    Y_i         the sample covariance of y = A t over 10^4 draws t ~ N(mu_i, Sigma_i), of trace one

The paper has A, the draws and the trace; that X_i is mu_i and that few factors drive mu_i and
Sigma_i is ours. A sample covariance of normal draws has a Wishart distribution, so that its
Cholesky factor is drawn at once (Bartlett, 1933): the targets are exactly those of the procedure,
at a thousandth of its cost, and never squared.
"""

import dataclasses
import math

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import expm

from mmlp.argument_checks import check_size
from mmlp.divergences import quadratic, stein, von_neumann
from mmlp.spd import Gram

MEASURES = {"quadratic": quadratic, "von_neumann": von_neumann, "stein": stein}


@dataclasses.dataclass(frozen=True)
class Setting:
    """How Sigma depends on the latent factors c, `factors` of them.

        Sigma = R' diag(s)^2 R,   R = exp(turn sum_q c_q (G_q - G_q')),
        log s = vary V'c - log(spread) (0, ..., 1) / 2

    with fixed normal G_q (entries of variance 1/40) and V (variance 1): the eigenvectors turn. With
    `linear`, Sigma = F'F, F = D_0 + turn sum_q c_q D_q with standard normal D: a factor linear in
    c. `orthonormal` replaces A by an orthonormal basis of its rows.
    """

    turn: float
    vary: float = 0.0
    spread: float = 1.0
    factors: int = 2
    linear: bool = False
    orthonormal: bool = False

    def __post_init__(self):
        check_size(self.factors, "Setting(factors=...)")
        for name in ("turn", "vary", "spread"):
            value = getattr(self, name)
            least = 1 if name == "spread" else 0
            if not math.isfinite(value) or value < least:
                need = f"must be a number of at least {least}"
                raise ValueError(f"`Setting({name}=...)` {need}, got {value}.")


# The default spreads the spectrum widely: the paper's Stein errors, large where its QRE errors are
# small, say that small eigenvalues were there to be missed. One factor can turn the eigenvectors
# far and still be learnt from 20 to 100 samples.
SETTINGS = {
    "turning": Setting(turn=1.0, vary=0.3, spread=1e7, factors=1),
    "linear": Setting(turn=0.5, linear=True),
    "well-conditioned": Setting(
        turn=1.0, vary=0.3, spread=3.0, factors=1, orthonormal=True
    ),
}


@dataclasses.dataclass(frozen=True)
class Covariances:
    """Inputs and trace-one covariances, float64: what `synthetic_covariances` returns.

    Matrices are held by upper triangular factors T with Y = T'T, as in `Gram`.
    """

    X: np.ndarray  # (n, 20)
    sampled: np.ndarray  # (n, d, d), factors of the targets Y
    population: np.ndarray  # (n, d, d), factors of the covariances that Y estimates
    latent: np.ndarray  # (n, q), the factors c that X and the covariances are made of
    A: np.ndarray  # (d, 20), the same for all

    def targets(self) -> Gram:
        """The sampled covariances Y, in the default precision."""
        return Gram(jnp.asarray(self.sampled), upper=True)

    def noise_floor(self) -> dict[str, float]:
        """Mean errors of predicting the population covariance, by measure: none can do better."""
        truth, target = Gram(jnp.asarray(self.population), upper=True), self.targets()
        return {
            name: float(jnp.mean(measure(truth, target)))
            for name, measure in MEASURES.items()
        }

    def condition(self) -> float:
        """The median condition number of the population covariances."""
        s = np.linalg.svd(self.population, compute_uv=False)
        return float(np.median(s[:, 0] / s[:, -1]) ** 2)


def synthetic_covariances(
    dim: int,
    n: int,
    *,
    seed: int,
    setting: str | Setting = "turning",
    samples: int | None = 10_000,
    features: int = 20,
) -> Covariances:
    """`n` inputs (features,) and covariances `dim` x `dim`; population ones if `samples` is None.

    `setting` is one of `SETTINGS` or your own. One seed makes one task: A, E and the dependence on
    c, and then samples that do not depend on `n`: a larger set begins with a smaller one.

    >>> data = synthetic_covariances(10, 50, seed=0)
    >>> data.X.shape, data.targets().dense().shape, 1e-4 < data.noise_floor()["von_neumann"] < 1e-3
    ((50, 20), (50, 10, 10), True)
    """
    chosen = _checked(dim, n, setting, samples, features)
    d, p = dim, features
    # a stream for each kind of draw: none moves when another is longer
    streams = map(np.random.default_rng, np.random.SeedSequence(seed).spawn(6))
    rng_A, rng_E, rng_Sigma, rng_c, rng_square, rng_normal = streams
    A = rng_A.standard_normal((d, p))
    if chosen.orthonormal:
        A = np.linalg.qr(A.T)[0].T
    E = rng_E.standard_normal((p, chosen.factors))
    c = rng_c.uniform(-1, 1, (n, chosen.factors))
    F = _factors(chosen, c, p, rng_Sigma) @ A.T  # (n, p, d), A Sigma A' = F'F
    population = _trace_one(np.linalg.qr(F).R)
    sampled = population
    if samples is not None:
        sampled = _trace_one(
            _bartlett(samples - 1, n, d, rng_square, rng_normal) @ population
        )
    return Covariances(
        X=np.tanh(c @ E.T), sampled=sampled, population=population, latent=c, A=A
    )


def turning_factors(
    c: ArrayLike, generators: ArrayLike, scale: ArrayLike
) -> np.ndarray:
    """Factors F (n, p, p) of covariances F'F whose eigenvectors turn with c (n, q).

        F = diag(s) R,   R = exp(sum_q c_q (G_q - G_q')), a rotation,

    for any generators G (q, p, p); s, shape (p,) or (n, p), are the roots of the eigenvalues.

    >>> F = turning_factors([[0.0], [np.pi / 4]], [[[0.0, 1.0], [0.0, 0.0]]], [2.0, 1.0])
    >>> (F.mT @ F).round(12).tolist()
    [[[4.0, 0.0], [0.0, 1.0]], [[2.5, 1.5], [1.5, 2.5]]]
    """
    c, G, s = np.asarray(c), np.asarray(generators), np.asarray(scale)
    return s[..., None] * expm(np.tensordot(c, G - np.swapaxes(G, 1, 2), 1))


def _checked(dim, n, setting, samples, features) -> Setting:
    """The setting by its name; every argument of `synthetic_covariances` is checked."""
    name = "synthetic_covariances"
    for argument, size in (("dim", dim), ("n", n), ("features", features)):
        check_size(size, f"{name}({argument}=...)")
    if dim > features:
        limit = f"at most features = {features}, or A Sigma A' is singular, got {dim}"
        raise ValueError(f"`{name}(dim=...)` must be {limit}.")
    if samples is not None and check_size(samples, f"{name}(samples=...)") <= dim:
        limit = f"more than dim = {dim}, or covariances are singular, got {samples}"
        raise ValueError(f"`{name}(samples=...)` must be {limit}.")
    chosen = SETTINGS.get(setting) if isinstance(setting, str) else setting
    if not isinstance(chosen, Setting):
        known = f"a `Setting` or one of {', '.join(SETTINGS)}"
        raise ValueError(f"`{name}(setting=...)` must be {known}, got {setting!r}.")
    return chosen


def _factors(
    setting: Setting, c: np.ndarray, p: int, rng: np.random.Generator
) -> np.ndarray:
    """F (n, p, p) with Sigma = F'F."""
    q = c.shape[1]
    if setting.linear:
        D_0, D = rng.standard_normal((p, p)), rng.standard_normal((q, p, p))
        return D_0 + setting.turn * np.tensordot(c, D, 1)
    G, V = rng.standard_normal((q, p, p)), rng.standard_normal((q, p))
    s = np.exp(setting.vary * c @ V - np.linspace(0, np.log(setting.spread) / 2, p))
    return turning_factors(setting.turn * c, G / (2 * p) ** 0.5, s)


def _bartlett(degrees: int, n: int, d: int, rng_square, rng_normal) -> np.ndarray:
    """Upper triangular U (n, d, d), U'U ~ Wishart(I, degrees) / degrees: chi on its diagonal."""
    # U' is the lower triangular factor: entry (i, i) has degrees - i degrees of freedom
    U = np.triu(rng_normal.standard_normal((n, d, d)), 1)
    U[:, np.arange(d), np.arange(d)] = np.sqrt(
        rng_square.chisquare(degrees - np.arange(d), (n, d))
    )
    return U / degrees**0.5


def _trace_one(T: np.ndarray) -> np.ndarray:
    """T / |T| with a positive diagonal, which makes the factor unique."""
    T = np.sign(np.diagonal(T, axis1=1, axis2=2))[:, :, None] * T
    return np.triu(T) / np.linalg.norm(T, axis=(1, 2), keepdims=True)
