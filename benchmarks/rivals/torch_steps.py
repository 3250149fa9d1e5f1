"""The same training step in PyTorch: the paper's VAE NfNf with fused Adam."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]

N_INPUTS = 10
N_LATENT = 5
STEPS_PER_RUN = 40
LEARNING_RATE = 1e-3


class Network(nn.Module):
    """Map x (n, p) to a vector (n, d + 1) and T (n, d, d), with tr(T'T) = 1.

    H is not formed.
    """

    def __init__(
        self, n_inputs: int, dim: int, hidden: tuple[int, ...] = (30, 30, 30)
    ) -> None:
        super().__init__()
        sizes = (n_inputs, *hidden, dim)
        widths = (hidden[0], *hidden, dim + 1)
        self.W = nn.ParameterList(
            torch.randn(b, a) / a**0.5 for a, b in itertools.pairwise(sizes)
        )
        self.B = nn.ParameterList(
            0.5 * d**0.5 * torch.linalg.qr(torch.randn(d, d))[0] for d in sizes[1:]
        )
        self.A = nn.ParameterList(
            torch.randn(d, r) / r**0.5 for d, r in zip(sizes[1:], widths, strict=False)
        )
        self.C = nn.ParameterList(
            torch.randn(r, d) / d**0.5
            for d, r in zip(sizes[1:], widths[1:], strict=True)
        )
        self.b = nn.ParameterList(torch.zeros(r) for r in widths[1:])

    def forward(self, x: Any) -> tuple[Any, Any]:
        h = None
        T = None
        layers = zip(self.W, self.B, self.A, self.C, self.b, strict=True)
        for i, (W, B, A, C, b) in enumerate(layers):
            is_last = i == len(self.W) - 1
            if T is None:
                Z = (x @ W.T)[:, :, None] * W.sum(1) + B
                v = A.sum(1)[:, None].expand(len(x), -1, 1)
            else:
                M = T @ (T.shape[-1] ** 0.5 * W.T)
                Z = M.mT @ M + B
                v = (h @ A.T)[..., None]
            S = torch.tanh(Z)
            T = S / torch.linalg.matrix_norm(S, keepdim=True)
            z = (T.shape[-1] * (T.mT @ (T @ v)))[..., 0] @ C.T + b
            h = z if is_last else torch.tanh(z)
        return h, T


def logdet_and_whiten(T: Any, r: Any, density: str) -> tuple[Any, Any]:
    """Return log det T'T, and y with |y|^2 = r'(T'T)^-1 r."""
    if density == "lu":
        LU, pivots = torch.linalg.lu_factor(T)
        y = torch.linalg.lu_solve(LU, pivots, r[..., None], adjoint=True)[..., 0]
        return 2 * take_diagonal(LU).abs().log().sum(-1), y
    L = torch.linalg.cholesky(T.mT @ T)
    y = torch.linalg.solve_triangular(L, r[..., None], upper=False)[..., 0]
    return 2 * take_diagonal(L).log().sum(-1), y


def compute_logdet(T: Any, density: str) -> Any:
    """Return log det T'T."""
    if density == "lu":
        return 2 * take_diagonal(torch.linalg.lu_factor(T)[0]).abs().log().sum(-1)
    return 2 * take_diagonal(torch.linalg.cholesky(T.mT @ T)).log().sum(-1)


def take_diagonal(A: Any) -> Any:
    """Return the diagonals of a batch of matrices."""
    return torch.diagonal(A, dim1=-2, dim2=-1)


def compute_bound(encoder: Network, decoder: Network, x: Any, density: str) -> Any:
    """Return the evidence lower bound of each row with one draw."""
    vector, T = encoder(x)
    mu = vector[:, :-1]
    log_eta = vector[:, -1]
    logdet = compute_logdet(T, density)
    noise = (T.mT @ torch.randn_like(mu)[..., None])[..., 0]
    s = mu + torch.exp(log_eta / 2)[:, None] * noise
    kl = 0.5 * (
        torch.exp(log_eta) + (mu**2).sum(-1) - N_LATENT - N_LATENT * log_eta - logdet
    )

    vector, T = decoder(s)
    mu = vector[:, :-1]
    log_eta = vector[:, -1]
    logdet, y = logdet_and_whiten(T, x - mu, density)
    quadratic = (y**2).sum(-1) / torch.exp(log_eta)
    constant = N_INPUTS * (math.log(2 * math.pi) + log_eta)
    return -0.5 * (constant + logdet + quadratic) - kl


def run_steps(
    batch: int, compiled: bool, density: str = "lu"
) -> tuple[Callable[[], None], int, dict[str, Any]]:
    """Train eagerly, or with the bound under `torch.compile`."""
    torch.manual_seed(0)
    encoder = Network(N_INPUTS, N_LATENT)
    decoder = Network(N_LATENT, N_INPUTS)
    networks = (encoder, decoder)
    adam = torch.optim.Adam(
        [*encoder.parameters(), *decoder.parameters()], LEARNING_RATE, fused=True
    )

    def loss(x: Any) -> Any:
        return -compute_bound(encoder, decoder, x, density).mean()

    evaluate = torch.compile(loss) if compiled else loss
    X = torch.randn(STEPS_PER_RUN, batch, N_INPUTS)
    first_weights = [
        {name: value.clone() for name, value in network.state_dict().items()}
        for network in networks
    ]

    def run() -> None:
        torch.manual_seed(1)
        for network, weights in zip(networks, first_weights, strict=True):
            network.load_state_dict(weights)
        for x in X:
            adam.zero_grad(set_to_none=True)
            evaluate(x).backward()
            adam.step()

    run()  # compiles
    return run, STEPS_PER_RUN, {"torch": torch.__version__}
