"""Tables as files: .csv, .csv.gz, .arff, .npy and .npz in; .csv, .npz and .npy out."""

from mmlp.tables.output import OUTPUTS, check_output, write
from mmlp.tables.table import INPUTS, Table, extension, numbered, read, read_matrices

__all__ = [
    "INPUTS",
    "OUTPUTS",
    "Table",
    "check_output",
    "extension",
    "numbered",
    "read",
    "read_matrices",
    "write",
]
