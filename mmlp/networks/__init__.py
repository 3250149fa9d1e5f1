"""Networks from a vector to an SPD value of trace one, or to a vector and such a value.

The package holds the networks and their components (kernels, layers and outputs),
heads, which turn the output of a network into a distribution, and `calibrate`, which
prepares a network for training.
"""

from mmlp.networks.calibration import calibrate
from mmlp.networks.cholesky import CholeskyMLP
from mmlp.networks.heads import GaussianHead, Head, PowerExponentialHead, StudentTHead
from mmlp.networks.joint import JointMatrixMLP
from mmlp.networks.kernels import Linear, MercerSigmoid, RadialBasis
from mmlp.networks.layers import MatrixLayer, Network, Perceptron, VectorLayer
from mmlp.networks.low_rank import LowRank
from mmlp.networks.matrix_mlp import MatrixMLP
from mmlp.networks.outputs import Dense, Diagonal, Output, Triangular
from mmlp.networks.shallow import ShallowMatrixMLP

__all__ = [
    "CholeskyMLP",
    "Dense",
    "Diagonal",
    "GaussianHead",
    "Head",
    "JointMatrixMLP",
    "Linear",
    "LowRank",
    "MatrixLayer",
    "MatrixMLP",
    "MercerSigmoid",
    "Network",
    "Output",
    "Perceptron",
    "PowerExponentialHead",
    "RadialBasis",
    "ShallowMatrixMLP",
    "StudentTHead",
    "Triangular",
    "VectorLayer",
    "calibrate",
]
