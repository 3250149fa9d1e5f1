"""Alpha-derivatives of both estimators of the ELBO by theta and phi, Appendix J.

The formulas are corrected. Decoder and encoder are general-form networks whose outputs
are those of Section 5.2: yhat = (mu, log eta) or (mu, log eta, alpha, beta), and
Yhat = Omega. There is one x, the prior is N(0, I), and the noise of the r draws s_l is
fixed. The gradients by theta and by phi are returned as by `general.backpropagation`.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from mmlp.alpha import densities
from mmlp.alpha.basic import matrix_by_input
from mmlp.alpha.calculus import vec
from mmlp.alpha.densities import Derivatives
from mmlp.alpha.general import Layer, backpropagation, feedforward

Network = Sequence[Layer]
Gradients = list[dict[str, NDArray]]
LogDensity = Callable[..., Derivatives]
Radii = Sequence[tuple[float, float]]


def d_est_n(
    decoder: Network, encoder: Network, d_log_p: LogDensity, x: NDArray, eps: NDArray
) -> tuple[Gradients, Gradients]:
    """Return D_theta and D_phi of Eq. (est_n), for a Gaussian q.

        D_theta L = 1/r sum_l D_theta log p(x | s_l)
        D_phi L = 1/r sum_l D_s log p(x | s_l) D_phi s_l - D_phi KL(q || N(0, I))

    with s_l from Eq. (rep). eps (r, k) is normal; `d_log_p` belongs to the decoder's
    family.
    """
    mu, Omega, eta = read_output(encoder, x)
    Phi = densities.symmetric_root(eta * Omega)
    by_theta = []
    by_sample = []
    for e in eps:
        D_theta, D_s = d_log_likelihood(decoder, d_log_p, x, mu + Phi @ e)
        D_sample = densities.gaussian_sample(e, Omega, eta)
        by_theta.append(D_theta)
        by_sample.append({name: D_s @ D_sample[name] for name in D_sample})

    D_q = _mean(by_sample)
    D_kl = d_kl(mu, Omega, eta)
    D_phi = _by_weights(encoder, x, {name: D_q[name] - D_kl[name] for name in D_kl})
    return _mean_of_layers(by_theta), D_phi


def d_est_mpe(
    decoder: Network,
    encoder: Network,
    d_log_p: LogDensity,
    x: NDArray,
    nu: NDArray,
    radius: Radii,
) -> tuple[Gradients, Gradients]:
    """Return D_theta and D_phi of Eq. (est_mpe), for a power exponential q.

        D_theta L = 1/r sum_l D_theta log p(x | s_l)
        D_phi L = 1/r sum_l (D_s(log p(x | s_l) + log p(s_l) - log q(s_l | x)) D_phi s_l
                             - D_phi log q(s_l | x))

    with s_l from Eq. (rt_mpe) and the last D_phi at fixed s_l; the paper prints that
    term after the sum. nu (r, k) are unit vectors. `radius` holds each draw's radius
    and its derivative by beta (`densities.normal_radius`, `densities.gamma_radius`).
    """
    mu, Omega, eta, alpha, beta = read_output(encoder, x)
    Phi = densities.symmetric_root(alpha * eta * Omega)
    by_theta = []
    by_q = []
    for v, (varsigma, D_varsigma) in zip(nu, radius, strict=True):
        s = mu + varsigma * Phi @ v
        D_theta, D_s_log_p = d_log_likelihood(decoder, d_log_p, x, s)
        D_log_q = densities.power_exponential_log_density(
            s, mu, Omega, eta, alpha, beta
        )
        # D_s log p(s) = -s' and D_s log q = -D_mu log q.
        D_s = D_s_log_p - s + D_log_q["mu"][0]
        D_sample = densities.power_exponential_sample(
            v, varsigma, D_varsigma, Omega, eta, alpha
        )
        by_theta.append(D_theta)
        by_q.append({name: D_s @ D_sample[name] - D_log_q[name] for name in D_log_q})
    return _mean_of_layers(by_theta), _by_weights(encoder, x, _mean(by_q))


def d_log_likelihood(
    decoder: Network, d_log_p: LogDensity, x: NDArray, s: NDArray
) -> tuple[Gradients, NDArray]:
    """Return D_theta log p(x | s) and the row D_s log p(x | s).

    D_s log p = D_{Z_{j+1}} log p D_s Z_{j+1}: the input enters nowhere else. The
    appendices leave this derivative out.
    """
    D_theta = _by_weights(decoder, s, d_log_p(x, *read_output(decoder, s)))
    D_Z = vec(D_theta[-1]["B"])  # D_B Z = I
    return D_theta, D_Z @ matrix_by_input(decoder[-1].W)


def d_kl(mu: NDArray, Omega: NDArray, eta: float) -> Derivatives:
    """Return the derivatives of KL(N(mu, eta Omega) || N(0, I)).

    KL = (eta tr Omega - k - log det(eta Omega) + mu'mu) / 2.
    """
    k = len(mu)
    return {
        "mu": mu[None],
        "Omega": vec(eta * np.eye(k) - np.linalg.inv(Omega).T)[None] / 2,
        "log_eta": np.array([[eta * np.trace(Omega) - k]]) / 2,
    }


def read_output(network: Network, x: NDArray) -> tuple:
    """Return (mu, Omega, eta), then alpha and beta, as `densities` takes them."""
    latent = feedforward(network, x)
    y_hat = latent.h[0]
    Omega = latent.H[0]
    d = len(Omega)
    return y_hat[:d], Omega, np.exp(y_hat[d]), *y_hat[d + 1 :]


def _by_weights(network: Network, x: NDArray, D: Derivatives) -> Gradients:
    """Backpropagate from the derivatives by the outputs of the network."""
    names = [name for name in ("mu", "log_eta", "alpha", "beta") if name in D]
    D_y_hat = np.concatenate([np.ravel(D[name]) for name in names])
    return backpropagation(
        network, x, lambda y_hat, Y_hat: (D_y_hat, np.ravel(D["Omega"]))
    )


def _mean(terms: Sequence[dict[str, NDArray]]) -> dict[str, NDArray]:
    return {name: np.mean([term[name] for term in terms], axis=0) for name in terms[0]}


def _mean_of_layers(terms: Sequence[Gradients]) -> Gradients:
    return [_mean(layers) for layers in zip(*terms, strict=True)]
