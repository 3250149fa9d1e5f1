"""Variational autoencoders: x -> q(s | x), s -> p(x | s), prior N(0, I); the paper's six models.

The encoder and the decoder are any two modules that return distributions. As everywhere, methods
map one sample; a batch is `jax.vmap`.
"""

import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import logsumexp

from mmlp.argument_checks import check_size
from mmlp.distributions import TraceOneGaussian, kl_divergence
from mmlp.divergences import von_neumann
from mmlp.networks import Dense, Diagonal, MatrixMLP, Output
from mmlp.networks.heads import GaussianHead, PowerExponentialHead
from mmlp.networks.kernels import MercerSigmoid
from mmlp.networks.layers import calibrated
from mmlp.registry import register
from mmlp.spd import DiagonalGram

KL = ("exact", "sampled", "von_neumann")
MODELS = ("NdNd", "NdNf", "NfNd", "NfNf", "EfNf", "EfEf")


@register
class VAE(eqx.Module):
    """p(x) = E[p(x | s)] with s ~ N(0, I) in `latent` dimensions, and an approximation q(s | x).

        log p(x)  >=  E_q[log p(x | s)] - KL(q(s | x) | N(0, I))        Eqs. (est_n), (est_mpe)

    `latent` is read from the decoder's `in_features` where it has them.

    >>> vae = paper_vae("NfNf", features=3, latent=2, hidden_dims=(4, 4), key=jax.random.key(0))
    >>> x = jnp.ones(3)
    >>> bool(vae.elbo(x, jax.random.key(1), 100) < vae.log_evidence(x, jax.random.key(1), 100))
    True
    >>> vae.sample(jax.random.key(2), 5).shape, vae.encode(x).mean.shape
    ((5, 3), (2,))
    """

    encoder: Callable  # x (p,) -> a distribution of s (k,)
    decoder: Callable  # s (k,) -> a distribution of x (p,)
    latent: int = eqx.field(static=True)

    def __init__(self, encoder, decoder, latent: int | None = None):
        latent = getattr(decoder, "in_features", None) if latent is None else latent
        if latent is None:
            remedy = "give the number of latent variables as `latent`"
            raise ValueError(f"`VAE(decoder=...)` has no `in_features`: {remedy}.")
        self.encoder, self.decoder = encoder, decoder
        self.latent = check_size(latent, "VAE(latent=...)")

    @property
    def in_features(self) -> int | None:
        return getattr(self.encoder, "in_features", None)

    @property
    def prior(self) -> TraceOneGaussian:
        """N(0, I), in the precision of the weights."""
        weights = jax.tree.leaves(
            eqx.filter((self.encoder, self.decoder), eqx.is_inexact_array)
        )
        return _standard_normal(self.latent, jnp.result_type(*weights or (float,)))

    def probe(self, x: Array):
        """What `load` tries, without computing: see `mmlp.networks.Network`."""
        return self.terms(x, jax.random.key(0))

    def calibrated(self, X: Array, *, key, targets: Array | None = None) -> "VAE":
        """The encoder calibrated on X (n, p), the decoder on as many draws of the prior.

        The targets (n', p) are the decoder's: data, about which it starts.
        """
        keys = jax.random.split(key, 3)
        s = self.prior.sample(keys[2], (len(X),)).astype(X.dtype)
        encoder = calibrated(self.encoder, X, key=keys[0])
        decoder = calibrated(self.decoder, s, key=keys[1], targets=targets)
        return eqx.tree_at(lambda m: (m.encoder, m.decoder), self, (encoder, decoder))

    def encode(self, x: Array):
        """q(s | x)."""
        return self.encoder(x)

    def decode(self, s: Array):
        """p(x | s)."""
        return self.decoder(s)

    def sample(self, key, n: int) -> Array:
        """n draws of x, shape (n, p)."""
        key_s, key_x = jax.random.split(key)
        s = self.prior.sample(key_s, (check_size(n, "VAE.sample(n=...)"),))
        return jax.vmap(lambda s, key: self.decode(s).sample(key))(
            s, jax.random.split(key_x, n)
        )

    def elbo(self, x: Array, key, samples: int = 1, *, kl: str = "exact") -> Array:
        """The evidence lower bound with `samples` draws: the difference of `terms`."""
        likelihood, divergence = self.terms(x, key, samples, kl=kl)
        return likelihood - divergence

    def terms(
        self, x: Array, key, samples: int = 1, *, kl: str = "exact"
    ) -> tuple[Array, Array]:
        """(E_q[log p(x | s)], KL(q | prior)), the first as the mean over draws of q.

        `kl="exact"` is Eq. (est_n), for a power exponential q too; "sampled" takes the mean over
        the same draws, Eq. (est_mpe), for any q; "von_neumann" is `von_neumann_kl`, not a bound.
        """
        if kl not in KL:
            raise ValueError(
                f"`VAE.terms(kl=...)` must be one of {', '.join(KL)}, got {kl!r}."
            )
        q, s, log_likelihood = self.draws(x, key, samples)
        if kl == "sampled":
            divergence = jnp.mean(q.log_prob(s) - self.prior.log_prob(s))
        else:
            divergence = self.kl(q) if kl == "exact" else von_neumann_kl(q)
        return jnp.mean(log_likelihood), divergence

    def kl(self, q) -> Array:
        """KL(q | prior)."""
        return kl_divergence(q, self.prior)

    def log_evidence(self, x: Array, key, samples: int) -> Array:
        """The importance-weighted bound log mean(p(x | s) p(s) / q(s | x)) (Burda et al., 2016)."""
        return logsumexp(self.log_weights(x, key, samples)) - math.log(samples)

    def log_weights(self, x: Array, key, samples: int) -> Array:
        """log p(x | s) + log p(s) - log q(s | x) at draws of q, shape (samples,)."""
        q, s, log_likelihood = self.draws(x, key, samples)
        return log_likelihood + self.prior.log_prob(s) - q.log_prob(s)

    def draws(self, x: Array, key, samples: int):
        """q(s | x), draws s (samples, k) of it, and log p(x | s) at them."""
        q = self.encode(x)
        s = q.sample(key, (check_size(samples, "VAE(samples=...)"),))
        return q, s, jax.vmap(lambda s: self.decode(s).log_prob(x))(s)


def _standard_normal(k: int, dtype) -> TraceOneGaussian:
    omega = DiagonalGram.trace_one(jnp.ones(k, dtype))
    return TraceOneGaussian(jnp.zeros(k, dtype), omega, float(k))


def von_neumann_kl(q) -> Array:
    """KL(q | N(0, I)) with the von Neumann divergence of its shape for the log-determinant's.

        KL = ... - log det(k Omega) / 2    becomes    ... + k / 2 * tr(Omega log(k Omega)),

    V[q] = tr(V[q]) Omega; shape (...). The two agree to second order about Omega = I / k. The new
    term is at most k log(k) / 2, where the old one is unbounded: a q that is flat in some direction
    costs little (docs/maths).

    >>> q = TraceOneGaussian(jnp.zeros(2), DiagonalGram.trace_one(jnp.array([1.0, 1e-9])), 2.0)
    >>> print(f"{von_neumann_kl(q):.4f}")  # log 2; the exact one is 20
    0.6931
    """
    k, prior = q.dim, _standard_normal(q.dim, q.loc.dtype)
    rounded = eqx.tree_at(lambda q: q.omega, q, prior.omega)  # its KL has no shape part
    shape = von_neumann(q.omega, prior.omega, symmetric=False)
    return kl_divergence(rounded, prior) + k / 2 * shape


def paper_vae(
    name: str,
    features: int,
    latent: int,
    hidden_dims: tuple[int, ...] = (30, 30, 30),
    *,
    network: Callable = MatrixMLP,
    outputs: dict[str, Output] | None = None,
    key,
    **network_options,
) -> VAE:
    """One of the paper's six models: "NdNd", "NdNf", "NfNd", "NfNf", "EfNf" or "EfEf".

    The first pair is the decoder, the second the encoder; N Gaussian, E power exponential, d
    diagonal, f full. `outputs` says what d and f are, such as {"f": Triangular()}: by default
    `Diagonal` and `Dense` of `MercerSigmoid()`, for another network than the paper's `Diagonal()`
    and its own default; {"decoder": LowRank(10)} is for the decoder alone.
    `network_options` go to both networks; `CholeskyMLP` is the baseline.
    """
    if name not in MODELS:
        raise ValueError(
            f"`paper_vae(name=...)` must be one of {', '.join(MODELS)}, got {name!r}."
        )
    papers = {"d": Diagonal(MercerSigmoid()), "f": Dense(MercerSigmoid())}
    known = {"d", "f", "decoder"}
    if outputs is not None and not (
        isinstance(outputs, dict) and outputs.keys() <= known
    ):
        wanted = 'a dict of "d", "f" and "decoder", such as {"f": Triangular()}'
        raise ValueError(
            f"`paper_vae(outputs=...)` must be {wanted}, got {outputs!r:.80}."
        )
    given = (papers if network is MatrixMLP else {"d": Diagonal()}) | (outputs or {})
    keys = jax.random.split(key)

    def part(family: str, form: str, inputs: int, dim: int, key):
        head = GaussianHead if family == "N" else PowerExponentialHead
        output = {"output": given[form]} if form in given else {}
        options = {"out_features": dim + head.extra} | output | network_options
        return head(network(inputs, dim, hidden_dims, key=key, **options))

    features = check_size(features, "paper_vae(features=...)")
    latent = check_size(latent, "paper_vae(latent=...)")
    encoder = part(name[2], name[3], features, latent, keys[0])
    form = "decoder" if "decoder" in given else name[1]
    return VAE(encoder, part(name[0], form, latent, features, keys[1]))
