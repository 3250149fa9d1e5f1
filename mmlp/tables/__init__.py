"""Tables as files: .csv, .csv.gz, .arff, .npy and .npz in; .csv, .npz and .npy out."""

from mmlp.tables.table import (
    INPUTS,
    OUTPUTS,
    Table,
    check_output,
    extension,
    numbered,
    read,
    read_matrices,
    write,
)

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
