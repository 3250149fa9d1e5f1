"""Tables as files: .csv, .csv.gz, .arff, .npy and .npz in; .csv, .npz and .npy out."""

from mmlp.tables.output import (
    OUTPUTS,
    check_output,
    find_results_file,
    output_format,
    write,
)
from mmlp.tables.table import INPUTS, Table, extension, numbered, read, read_matrices

__all__ = [
    "INPUTS",
    "OUTPUTS",
    "Table",
    "check_output",
    "extension",
    "find_results_file",
    "numbered",
    "output_format",
    "read",
    "read_matrices",
    "write",
]
