"""Variational autoencoders, among them the paper's six models.

The encoder maps x to q(s | x), the decoder s to p(x | s); the prior is N(0, I). Both
are any modules that return distributions. Methods map one sample; a batch is
`jax.vmap`.
"""

import math
from collections.abc import Callable
from typing import Any

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
from mmlp.networks.layers import calibrate_model
from mmlp.registry import register
from mmlp.spd import DiagonalGram

KL = ("exact", "sampled", "von_neumann")
MODELS = ("NdNd", "NdNf", "NfNd", "NfNf", "EfNf", "EfEf")


@register
class VAE(eqx.Module):
    """A variational autoencoder, p(x) = E[p(x | s)] with s ~ N(0, I).

        log p(x)  >=  E_q[log p(x | s)] - KL(q(s | x) | N(0, I))

    The right side is the evidence lower bound, Eqs. (est_n) and (est_mpe).

    Parameters
    ----------
    encoder : callable
        x (p,) -> a distribution q(s | x) of s (latent,), such as a head.
    decoder : callable
        s (latent,) -> a distribution p(x | s) of x (p,).
    latent : int, optional
        Number of latent variables. By default it is read from the decoder's attribute
        `in_features`.

    Raises
    ------
    ValueError
        If `latent` is not a positive whole number, or missing.

    See Also
    --------
    paper_vae : One of the paper's models.

    Examples
    --------
    >>> import jax
    >>> import jax.numpy as jnp
    >>> from mmlp import paper_vae
    >>> key = jax.random.key(0)
    >>> vae = paper_vae("NfNf", features=3, latent=2, hidden_dims=(4, 4), key=key)
    >>> x = jnp.ones(3)
    >>> bool(vae.elbo(x, key, 100) < vae.log_evidence(x, key, 100))
    True
    >>> vae.sample(key, 5).shape, vae.encode(x).mean.shape
    ((5, 3), (2,))
    """

    encoder: Callable
    decoder: Callable
    latent: int = eqx.field(static=True)

    def __init__(
        self, encoder: Callable, decoder: Callable, latent: int | None = None
    ) -> None:
        if latent is None:
            latent = getattr(decoder, "in_features", None)
        if latent is None:
            raise ValueError(
                "`VAE(decoder=...)` has no `in_features`: "
                "give the number of latent variables as `latent`."
            )
        self.encoder = encoder
        self.decoder = decoder
        self.latent = check_size(latent, "VAE(latent=...)")

    @property
    def in_features(self) -> int | None:
        """The size p of x, if the encoder tells it."""
        return getattr(self.encoder, "in_features", None)

    @property
    def prior(self) -> TraceOneGaussian:
        """The prior N(0, I), in the precision of the weights."""
        weights = jax.tree.leaves(
            eqx.filter((self.encoder, self.decoder), eqx.is_inexact_array)
        )
        return _standard_normal(self.latent, jnp.result_type(*weights or (float,)))

    def probe(self, x: Array) -> Any:
        """Evaluate the terms of the bound, as `load` tries without computing.

        Parameters
        ----------
        x : array of shape (p,)

        Returns
        -------
        tuple of Array
        """
        return self.terms(x, jax.random.key(0))

    def calibrated(
        self, X: Array, *, key: Array, targets: Array | None = None
    ) -> "VAE":
        """Return this VAE with calibrated networks; see `mmlp.calibrate`.

        The decoder is calibrated on as many draws of the prior as there are inputs.

        Parameters
        ----------
        X : array of shape (n, p)
        key : PRNG key
        targets : array of shape (n', p), optional
            Data, about which the decoder starts.

        Returns
        -------
        VAE
        """
        key_encoder, key_decoder, key_prior = jax.random.split(key, 3)
        s = self.prior.sample(key_prior, (len(X),)).astype(X.dtype)
        encoder = calibrate_model(self.encoder, X, key=key_encoder)
        decoder = calibrate_model(self.decoder, s, key=key_decoder, targets=targets)
        return eqx.tree_at(lambda m: (m.encoder, m.decoder), self, (encoder, decoder))

    def encode(self, x: Array) -> Any:
        """Return the approximate posterior q(s | x).

        Parameters
        ----------
        x : array of shape (p,)

        Returns
        -------
        Elliptical
        """
        return self.encoder(x)

    def decode(self, s: Array) -> Any:
        """Return the likelihood p(x | s).

        Parameters
        ----------
        s : array of shape (latent,)

        Returns
        -------
        Elliptical
        """
        return self.decoder(s)

    def sample(self, key: Array, n: int) -> Array:
        """Draw samples of x.

        Parameters
        ----------
        key : PRNG key
        n : int
            Number of samples.

        Returns
        -------
        Array of shape (n, p)
        """
        key_s, key_x = jax.random.split(key)
        s = self.prior.sample(key_s, (check_size(n, "VAE.sample(n=...)"),))

        def sample_given(s: Array, key: Array) -> Array:
            return self.decode(s).sample(key)

        return jax.vmap(sample_given)(s, jax.random.split(key_x, n))

    def elbo(
        self, x: Array, key: Array, samples: int = 1, *, kl: str = "exact"
    ) -> Array:
        """Return the evidence lower bound, the difference of `terms`.

        Parameters
        ----------
        x : array of shape (p,)
        key : PRNG key
        samples : int, default=1
            Number of draws of q.
        kl : {"exact", "sampled", "von_neumann"}, default="exact"
            See `terms`.

        Returns
        -------
        Array of shape ()
        """
        likelihood, divergence = self.terms(x, key, samples, kl=kl)
        return likelihood - divergence

    def terms(
        self, x: Array, key: Array, samples: int = 1, *, kl: str = "exact"
    ) -> tuple[Array, Array]:
        """Return E_q[log p(x | s)] and KL(q | prior).

        Parameters
        ----------
        x : array of shape (p,)
        key : PRNG key
        samples : int, default=1
            Number of draws of q, over which the first term is a mean.
        kl : {"exact", "sampled", "von_neumann"}, default="exact"
            "exact" is Eq. (est_n), for a power exponential q too. "sampled" takes the
            mean over the same draws, Eq. (est_mpe), for any q. "von_neumann" is
            `von_neumann_kl`, which does not give a bound.

        Returns
        -------
        log_likelihood : Array of shape ()
        divergence : Array of shape ()

        Raises
        ------
        ValueError
            If `kl` is not one of the three, or `samples` not a positive whole number.
        """
        if kl not in KL:
            raise ValueError(
                f"`VAE.terms(kl=...)` must be one of {', '.join(KL)}, got {kl!r}."
            )
        q, s, log_likelihood = self.draws(x, key, samples)
        if kl == "sampled":
            divergence = jnp.mean(q.log_prob(s) - self.prior.log_prob(s))
        elif kl == "exact":
            divergence = self.kl(q)
        else:
            divergence = von_neumann_kl(q)
        return jnp.mean(log_likelihood), divergence

    def kl(self, q: Any) -> Array:
        """Return KL(q | prior).

        Parameters
        ----------
        q : Elliptical
            A distribution of s.

        Returns
        -------
        Array of shape ()
        """
        return kl_divergence(q, self.prior)

    def log_evidence(self, x: Array, key: Array, samples: int) -> Array:
        """Return the importance-weighted bound log mean(p(x | s) p(s) / q(s | x)).

        It tends to log p(x) with the number of draws (Burda et al., 2016).

        Parameters
        ----------
        x : array of shape (p,)
        key : PRNG key
        samples : int
            Number of draws of q.

        Returns
        -------
        Array of shape ()
        """
        return logsumexp(self.log_weights(x, key, samples)) - math.log(samples)

    def log_weights(self, x: Array, key: Array, samples: int) -> Array:
        """Return log p(x | s) + log p(s) - log q(s | x) at draws of q.

        Parameters
        ----------
        x : array of shape (p,)
        key : PRNG key
        samples : int
            Number of draws of q.

        Returns
        -------
        Array of shape (samples,)
        """
        q, s, log_likelihood = self.draws(x, key, samples)
        return log_likelihood + self.prior.log_prob(s) - q.log_prob(s)

    def draws(self, x: Array, key: Array, samples: int) -> tuple[Any, Array, Array]:
        """Return q(s | x), draws of it, and log p(x | s) at them.

        Parameters
        ----------
        x : array of shape (p,)
        key : PRNG key
        samples : int
            Number of draws of q.

        Returns
        -------
        q : Elliptical
        s : Array of shape (samples, latent)
        log_likelihood : Array of shape (samples,)
        """
        q = self.encode(x)
        s = q.sample(key, (check_size(samples, "VAE(samples=...)"),))
        return q, s, jax.vmap(lambda s: self.decode(s).log_prob(x))(s)


def _standard_normal(k: int, dtype: Any) -> TraceOneGaussian:
    """Return N(0, I) in k dimensions."""
    omega = DiagonalGram.trace_one(jnp.ones(k, dtype))
    return TraceOneGaussian(jnp.zeros(k, dtype), omega, float(k))


def von_neumann_kl(q: Any) -> Array:
    """Return KL(q | N(0, I)) with its shape part replaced by a von Neumann divergence.

        KL = ... - log det(k Omega) / 2   becomes   ... + k / 2 * tr(Omega log(k Omega))

    where V[q] = tr(V[q]) Omega. The two agree to second order about Omega = I / k. The
    new term is at most k log(k) / 2, where the old one is unbounded: a q that is flat
    in some direction costs little (docs/maths).

    Parameters
    ----------
    q : Elliptical
        Any distribution with a closed-form KL divergence from N(0, I).

    Returns
    -------
    Array of shape (...)

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from mmlp import DiagonalGram, TraceOneGaussian
    >>> omega = DiagonalGram.trace_one(jnp.array([1.0, 1e-9]))
    >>> q = TraceOneGaussian(jnp.zeros(2), omega, 2.0)
    >>> print(f"{von_neumann_kl(q):.4f}")  # log 2; the exact one is 20
    0.6931
    """
    k = q.dim
    prior = _standard_normal(k, q.loc.dtype)
    # The KL divergence of a q with Omega = I / k has no shape part.
    isotropic = eqx.tree_at(lambda q: q.omega, q, prior.omega)
    shape = von_neumann(q.omega, prior.omega, symmetric=False)
    return kl_divergence(isotropic, prior) + k / 2 * shape


def paper_vae(
    name: str,
    features: int,
    latent: int,
    hidden_dims: tuple[int, ...] = (30, 30, 30),
    *,
    network: Callable = MatrixMLP,
    outputs: dict[str, Output] | None = None,
    key: Array,
    **network_options: Any,
) -> VAE:
    """Make one of the paper's six models.

    Parameters
    ----------
    name : {"NdNd", "NdNf", "NfNd", "NfNf", "EfNf", "EfEf"}
        The first pair is the decoder, the second the encoder: N Gaussian, E power
        exponential, d diagonal, f full.
    features : int
        Size p of x.
    latent : int
        Number of latent variables.
    hidden_dims : tuple of int, default=(30, 30, 30)
        Sizes of the hidden layers of both networks, from the input to the output.
    network : callable, default=MatrixMLP
        The class of both networks; `CholeskyMLP` is the baseline.
    outputs : dict of str to Output, optional
        The outputs for "d" and "f", such as ``{"f": Triangular()}``, and for "decoder",
        whichever its form is. By default they are `Diagonal` and `Dense` of
        `MercerSigmoid()`; for other networks than the paper's, `Diagonal()` and the
        network's own default.
    key : PRNG key
        For the initial weights.
    **network_options : dict
        Further keyword arguments of both networks.

    Returns
    -------
    VAE

    Raises
    ------
    ValueError
        If the name, a size or the outputs are not valid.

    Examples
    --------
    >>> import jax
    >>> from mmlp import paper_vae
    >>> vae = paper_vae("EfNf", features=3, latent=2, key=jax.random.key(0))
    >>> type(vae.decoder).__name__, type(vae.encoder).__name__
    ('PowerExponentialHead', 'GaussianHead')
    """
    if name not in MODELS:
        raise ValueError(
            f"`paper_vae(name=...)` must be one of {', '.join(MODELS)}, got {name!r}."
        )
    known = {"d", "f", "decoder"}
    if outputs is not None and not (
        isinstance(outputs, dict) and outputs.keys() <= known
    ):
        raise ValueError(
            '`paper_vae(outputs=...)` must be a dict of "d", "f" and "decoder", '
            f'such as {{"f": Triangular()}}, got {outputs!r:.80}.'
        )
    features = check_size(features, "paper_vae(features=...)")
    latent = check_size(latent, "paper_vae(latent=...)")

    output_of_form: dict[str, Output]
    if network is MatrixMLP:
        output_of_form = {"d": Diagonal(MercerSigmoid()), "f": Dense(MercerSigmoid())}
    else:
        output_of_form = {"d": Diagonal()}
    output_of_form.update(outputs or {})

    def make_head(family: str, form: str, inputs: int, dim: int, key: Array) -> Any:
        head = GaussianHead if family == "N" else PowerExponentialHead
        options: dict[str, Any] = {"out_features": dim + head.extra}
        if form in output_of_form:
            options["output"] = output_of_form[form]
        # Options of the caller take precedence.
        options.update(network_options)
        return head(network(inputs, dim, hidden_dims, key=key, **options))

    decoder_family, decoder_form, encoder_family, encoder_form = name
    if "decoder" in output_of_form:
        decoder_form = "decoder"
    key_encoder, key_decoder = jax.random.split(key)
    encoder = make_head(encoder_family, encoder_form, features, latent, key_encoder)
    decoder = make_head(decoder_family, decoder_form, latent, features, key_decoder)
    return VAE(encoder, decoder)
