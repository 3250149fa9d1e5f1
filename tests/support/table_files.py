"""Files of tables."""

import io

import numpy as np

from mmlp import tables

TABLE = "a,b,c\n1,2,3\n4,5,6\n"


def read(folder, name, content):
    """The table in a file of that name; NumPy writes arrays and dictionaries of them."""
    path = folder / name
    if isinstance(content, np.ndarray):
        with open(path, "wb") as file:
            np.save(file, content, allow_pickle=True)
    elif isinstance(content, dict):
        with open(path, "wb") as file:
            np.savez(file, **content)
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return tables.read(path)


def buffer(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()
