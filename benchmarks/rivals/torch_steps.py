"""The same training step in PyTorch: the paper's VAE NfNf on a batch, Adam in its fused form."""

import itertools
import math

import torch  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]

FEATURES, LATENT, STEPS = 10, 5, 40


class Network(nn.Module):
    """x (n, p) -> (vector (n, d + 1), T (n, d, d)), Omega = T'T of trace one; H is not formed."""

    def __init__(self, inputs: int, dim: int, hidden=(30, 30, 30)):
        super().__init__()
        sizes, widths = (inputs, *hidden, dim), (hidden[0], *hidden, dim + 1)
        pairs = list(itertools.pairwise(sizes))
        self.W = nn.ParameterList(torch.randn(b, a) / a**0.5 for a, b in pairs)
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

    def forward(self, x):
        h = T = None
        for i, (W, B, A, C, b) in enumerate(
            zip(self.W, self.B, self.A, self.C, self.b, strict=True)
        ):
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
            h = torch.tanh(z) if i < len(self.W) - 1 else z
        return h, T


def log_determinant_and_white(T, r, density: str):
    """log det T'T, and y with |y|^2 = r'(T'T)^-1 r."""
    if density == "lu":
        LU, pivots = torch.linalg.lu_factor(T)
        y = torch.linalg.lu_solve(LU, pivots, r[..., None], adjoint=True)[..., 0]
        return 2 * diagonal(LU).abs().log().sum(-1), y
    L = torch.linalg.cholesky(T.mT @ T)
    y = torch.linalg.solve_triangular(L, r[..., None], upper=False)[..., 0]
    return 2 * diagonal(L).log().sum(-1), y


def diagonal(A):
    return torch.diagonal(A, dim1=-2, dim2=-1)


def bound(encoder, decoder, x, density: str):
    """The evidence lower bound of each row with one draw."""
    vector, T = encoder(x)
    mu, log_eta = vector[:, :-1], vector[:, -1]
    if density == "lu":
        logdet = 2 * diagonal(torch.linalg.lu_factor(T)[0]).abs().log().sum(-1)
    else:
        logdet = 2 * diagonal(torch.linalg.cholesky(T.mT @ T)).log().sum(-1)
    draw = (T.mT @ torch.randn_like(mu)[..., None])[..., 0]
    s = mu + torch.exp(log_eta / 2)[:, None] * draw
    kl = 0.5 * (
        torch.exp(log_eta) + (mu**2).sum(-1) - LATENT - LATENT * log_eta - logdet
    )
    vector, T = decoder(s)
    mu, log_eta = vector[:, :-1], vector[:, -1]
    logdet, y = log_determinant_and_white(T, x - mu, density)
    quadratic = (y**2).sum(-1) / torch.exp(log_eta)
    return (
        -0.5 * (FEATURES * (math.log(2 * math.pi) + log_eta) + logdet + quadratic) - kl
    )


def steps(batch: int, compiled: bool, density: str = "lu"):
    """Eager, or with the bound under `torch.compile`."""
    torch.manual_seed(0)
    encoder, decoder = Network(FEATURES, LATENT), Network(LATENT, FEATURES)
    adam = torch.optim.Adam(
        [*encoder.parameters(), *decoder.parameters()], 1e-3, fused=True
    )

    def loss(x):
        return -bound(encoder, decoder, x, density).mean()

    evaluate = torch.compile(loss) if compiled else loss
    X = torch.randn(STEPS, batch, FEATURES)
    start = [net.state_dict() for net in (encoder, decoder)]
    start = [
        {name: value.clone() for name, value in weights.items()} for weights in start
    ]

    def run():
        torch.manual_seed(1)
        for net, weights in zip((encoder, decoder), start, strict=True):
            net.load_state_dict(weights)
        for x in X:
            adam.zero_grad(set_to_none=True)
            evaluate(x).backward()
            adam.step()

    run()  # compiles
    return run, STEPS, {"torch": torch.__version__}
