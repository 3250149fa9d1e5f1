"""Read and write tables, and encode columns of any type as numbers.

Readers and writers of files are imported at once. `TableEncoder`, which needs
scikit-learn, is imported on first use.
"""

from mmlp import _lazy
from mmlp.tables.output_files import (
    OUTPUT_EXTENSIONS,
    check_output,
    find_output_format,
    find_results_file,
    write,
)
from mmlp.tables.table import (
    INPUT_EXTENSIONS,
    Table,
    find_extension,
    make_column_names,
    read,
    read_matrices,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mmlp.tables.encoder import TableEncoder

__all__ = [
    "INPUT_EXTENSIONS",
    "OUTPUT_EXTENSIONS",
    "Table",
    "TableEncoder",
    "check_output",
    "find_extension",
    "find_output_format",
    "find_results_file",
    "make_column_names",
    "read",
    "read_matrices",
    "write",
]

__getattr__, __dir__ = _lazy.attach(__name__, {"encoder": "TableEncoder"})
