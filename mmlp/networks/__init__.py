"""Networks from a vector to an SPD value, or to a vector and such a value."""

from mmlp.networks.core import (
    CholeskyMLP,
    MatrixLayer,
    MatrixMLP,
    Perceptron,
    ShallowMatrixMLP,
    VectorLayer,
)

__all__ = [
    "CholeskyMLP",
    "MatrixLayer",
    "MatrixMLP",
    "Perceptron",
    "ShallowMatrixMLP",
    "VectorLayer",
]
