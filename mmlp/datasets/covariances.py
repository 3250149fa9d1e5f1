"""Synthetic covariance matrices that depend on an input, as in the paper's Example 1.

    A (d, 20)   fixed, standard normal entries
    c_i         q latent factors of class i, uniform on (-1, 1)
    mu_i        tanh(E c_i), the mean of the class and the input X_i; E (20, q) fixed,
                standard normal entries
    Sigma_i     the covariance of the class, a smooth function of c_i: see `Setting`
    Y_i         the sample covariance of y = A t over 10^4 draws t ~ N(mu_i, Sigma_i),
                scaled to trace one

The paper specifies A, the draws and the trace. That X_i is mu_i, and that few factors
drive mu_i and Sigma_i, is our choice. A sample covariance of normal draws has a Wishart
distribution, so its Cholesky factor is drawn directly (Bartlett, 1933): the targets are
exactly those of the procedure, at a thousandth of its cost, and never squared.
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
    """How the covariance Sigma depends on the latent factors c.

        Sigma = R' diag(s)^2 R,   R = exp(turn sum_q c_q (G_q - G_q')),
        log s = vary V'c - log(spread) (0, ..., 1) / 2

    with fixed normal G_q (entries of variance 1/40) and V (variance 1): the
    eigenvectors turn with c.

    Parameters
    ----------
    turn : float
        How far the eigenvectors turn, at least 0.
    vary : float, default=0.0
        How much the eigenvalues vary with c, at least 0.
    spread : float, default=1.0
        The ratio of the largest to the smallest eigenvalue at c = 0, at least 1.
    factors : int, default=2
        The number of latent factors q.
    linear : bool, default=False
        Use Sigma = F'F, F = D_0 + turn sum_q c_q D_q with standard normal D instead: a
        factor that is linear in c.
    orthonormal : bool, default=False
        Replace A by an orthonormal basis of its rows.

    Raises
    ------
    ValueError
        If a number is not finite or too small.
    """

    turn: float
    vary: float = 0.0
    spread: float = 1.0
    factors: int = 2
    linear: bool = False
    orthonormal: bool = False

    def __post_init__(self):
        check_size(self.factors, "Setting(factors=...)")
        for name, minimum in (("turn", 0), ("vary", 0), ("spread", 1)):
            value = getattr(self, name)
            if not math.isfinite(value) or value < minimum:
                raise ValueError(
                    f"`Setting({name}=...)` must be a number of at least {minimum}, "
                    f"got {value}."
                )


# The default spreads the spectrum widely, because the paper's Stein errors are large
# where its QRE errors are small: there must have been small eigenvalues to miss. One
# factor can turn the eigenvectors far and still be learnt from 20 to 100 samples.
SETTINGS = {
    "turning": Setting(turn=1.0, vary=0.3, spread=1e7, factors=1),
    "linear": Setting(turn=0.5, linear=True),
    "well-conditioned": Setting(
        turn=1.0, vary=0.3, spread=3.0, factors=1, orthonormal=True
    ),
}


@dataclasses.dataclass(frozen=True)
class Covariances:
    """Inputs and trace-one covariances, as returned by `synthetic_covariances`.

    All arrays are float64. A matrix Y is stored as an upper triangular factor T with
    Y = T'T, as in `Gram`.

    Parameters
    ----------
    X : array of shape (n, features)
        The inputs.
    sampled : array of shape (n, d, d)
        Factors of the targets Y.
    population : array of shape (n, d, d)
        Factors of the covariances that Y estimates.
    latent : array of shape (n, q)
        The latent factors c, on which X and the covariances depend.
    A : array of shape (d, features)
        The matrix that all samples share.
    """

    X: np.ndarray
    sampled: np.ndarray
    population: np.ndarray
    latent: np.ndarray
    A: np.ndarray

    def targets(self) -> Gram:
        """Return the sampled covariances Y.

        Returns
        -------
        Gram of shape (n, d, d)
            In the default precision of JAX.
        """
        return Gram(jnp.asarray(self.sampled), upper=True)

    def noise_floor(self) -> dict[str, float]:
        """Return the mean errors of predicting the population covariances.

        No prediction can do better.

        Returns
        -------
        dict of float
            By the name of the divergence.
        """
        truth = Gram(jnp.asarray(self.population), upper=True)
        targets = self.targets()
        return {
            name: float(jnp.mean(measure(truth, targets)))
            for name, measure in MEASURES.items()
        }

    def condition(self) -> float:
        """Return the median condition number of the population covariances.

        Returns
        -------
        float
            The ratio of the largest to the smallest eigenvalue.
        """
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
    """Draw inputs and covariance matrices that depend on them.

    A seed makes one task: A, E and the dependence on c. Then it draws samples that do
    not depend on `n`, so a larger set begins with a smaller one.

    Parameters
    ----------
    dim : int
        The size d of the covariance matrices.
    n : int
        The number of inputs.
    seed : int
        The seed of the task and the samples.
    setting : str or Setting, default="turning"
        "turning", "linear", "well-conditioned", or a `Setting`.
    samples : int or None, default=10_000
        The number of draws in each sample covariance. None returns the population
        covariances as targets.
    features : int, default=20
        The number of input features, at least `dim`.

    Returns
    -------
    Covariances
        The inputs and the covariances.

    Raises
    ------
    ValueError
        If a size is not positive, the covariances would be singular, or the setting is
        unknown.

    Examples
    --------
    >>> data = synthetic_covariances(10, 50, seed=0)
    >>> data.X.shape, data.targets().dense().shape
    ((50, 20), (50, 10, 10))
    >>> 1e-4 < data.noise_floor()["von_neumann"] < 1e-3
    True
    """
    setting = _check_arguments(dim, n, setting, samples, features)

    # Each kind of draw has its own stream, so that a longer one does not shift others.
    streams = map(np.random.default_rng, np.random.SeedSequence(seed).spawn(6))
    rng_A, rng_E, rng_Sigma, rng_c, rng_square, rng_normal = streams

    A = rng_A.standard_normal((dim, features))
    if setting.orthonormal:
        A = np.linalg.qr(A.T)[0].T
    E = rng_E.standard_normal((features, setting.factors))
    c = rng_c.uniform(-1, 1, (n, setting.factors))

    # A Sigma A' = F'F with F of shape (n, features, dim).
    F = _covariance_factors(setting, c, features, rng_Sigma) @ A.T
    population = _scale_to_trace_one(np.linalg.qr(F).R)
    sampled = population
    if samples is not None:
        noise = _draw_wishart_factors(samples - 1, n, dim, rng_square, rng_normal)
        sampled = _scale_to_trace_one(noise @ population)
    return Covariances(
        X=np.tanh(c @ E.T), sampled=sampled, population=population, latent=c, A=A
    )


def turning_factors(
    c: ArrayLike, generators: ArrayLike, scale: ArrayLike
) -> np.ndarray:
    """Return factors F of covariances F'F whose eigenvectors turn with c.

        F = diag(s) R,   R = exp(sum_q c_q (G_q - G_q')), a rotation

    Parameters
    ----------
    c : array of shape (n, q)
        The angles of the rotations.
    generators : array of shape (q, p, p)
        Any matrices G.
    scale : array of shape (p,) or (n, p)
        The square roots s of the eigenvalues.

    Returns
    -------
    array of shape (n, p, p)
        The factors.

    Examples
    --------
    >>> angles = [[0.0], [np.pi / 4]]
    >>> F = turning_factors(angles, [[[0.0, 1.0], [0.0, 0.0]]], [2.0, 1.0])
    >>> (F.mT @ F).round(12).tolist()
    [[[4.0, 0.0], [0.0, 1.0]], [[2.5, 1.5], [1.5, 2.5]]]
    """
    c = np.asarray(c)
    G = np.asarray(generators)
    s = np.asarray(scale)
    return s[..., None] * expm(np.tensordot(c, G - np.swapaxes(G, 1, 2), 1))


def _check_arguments(
    dim: int, n: int, setting: str | Setting, samples: int | None, features: int
) -> Setting:
    """Check the arguments of `synthetic_covariances` and look up the setting."""
    call = "synthetic_covariances"
    for argument, size in (("dim", dim), ("n", n), ("features", features)):
        check_size(size, f"{call}({argument}=...)")
    if dim > features:
        raise ValueError(
            f"`{call}(dim=...)` must be at most features = {features}, or A Sigma A' "
            f"is singular, got {dim}."
        )
    if samples is not None and check_size(samples, f"{call}(samples=...)") <= dim:
        raise ValueError(
            f"`{call}(samples=...)` must be more than dim = {dim}, or covariances are "
            f"singular, got {samples}."
        )
    known_setting = SETTINGS.get(setting) if isinstance(setting, str) else setting
    if not isinstance(known_setting, Setting):
        raise ValueError(
            f"`{call}(setting=...)` must be a `Setting` or one of "
            f"{', '.join(SETTINGS)}, got {setting!r}."
        )
    return known_setting


def _covariance_factors(
    setting: Setting, c: np.ndarray, p: int, rng: np.random.Generator
) -> np.ndarray:
    """Return F (n, p, p) with Sigma = F'F."""
    q = c.shape[1]
    if setting.linear:
        D_0 = rng.standard_normal((p, p))
        D = rng.standard_normal((q, p, p))
        return D_0 + setting.turn * np.tensordot(c, D, 1)

    G = rng.standard_normal((q, p, p))
    V = rng.standard_normal((q, p))
    s = np.exp(setting.vary * c @ V - np.linspace(0, np.log(setting.spread) / 2, p))
    return turning_factors(setting.turn * c, G / (2 * p) ** 0.5, s)


def _draw_wishart_factors(
    degrees: int,
    n: int,
    d: int,
    rng_square: np.random.Generator,
    rng_normal: np.random.Generator,
) -> np.ndarray:
    """Draw upper triangular U (n, d, d) with U'U ~ Wishart(I, degrees) / degrees.

    Entries above the diagonal are normal. The square of entry (i, i) is chi-squared
    with degrees - i degrees of freedom (Bartlett, 1933).
    """
    diagonal = np.arange(d)
    U = np.triu(rng_normal.standard_normal((n, d, d)), 1)
    U[:, diagonal, diagonal] = np.sqrt(rng_square.chisquare(degrees - diagonal, (n, d)))
    return U / degrees**0.5


def _scale_to_trace_one(T: np.ndarray) -> np.ndarray:
    """Return T / |T| with a positive diagonal, which makes the factor unique."""
    T = np.sign(np.diagonal(T, axis1=1, axis2=2))[:, :, None] * T
    return np.triu(T) / np.linalg.norm(T, axis=(1, 2), keepdims=True)
