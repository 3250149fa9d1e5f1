"""Networks from a vector to an SPD value of trace one, or to a vector and such a value."""

from mmlp.networks.cholesky import CholeskyMLP
from mmlp.networks.joint import JointMatrixMLP
from mmlp.networks.layers import MatrixLayer, Network, Perceptron, VectorLayer
from mmlp.networks.low_rank import LowRank
from mmlp.networks.matrix_mlp import MatrixMLP
from mmlp.networks.outputs import Dense, Diagonal, Output, Triangular
from mmlp.networks.shallow import ShallowMatrixMLP

__all__ = [
    "CholeskyMLP",
    "Dense",
    "Diagonal",
    "JointMatrixMLP",
    "LowRank",
    "MatrixLayer",
    "MatrixMLP",
    "Network",
    "Output",
    "Perceptron",
    "ShallowMatrixMLP",
    "Triangular",
    "VectorLayer",
]
