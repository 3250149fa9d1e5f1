"""Keep finished parts of a long experiment in a folder, so that it can be resumed."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mmlp import atomic_files
from mmlp.reporting.records import list_versions


def load_or_compute(
    folder: Path | None, description: dict[str, Any], compute: Callable[[], dict]
) -> dict:
    """Return a stored result, or compute and store it.

    Parameters
    ----------
    folder : Path or None
        Where results are stored, a file for each. None computes without storing.
    description : dict
        What the result depends on, as JSON. The versions of the libraries are added;
        the device and the code are not.
    compute : callable without arguments
        Returns the result, which JSON must be able to hold.

    Returns
    -------
    dict
    """
    if folder is None:
        return compute()
    key = json.dumps([description, list_versions()], sort_keys=True)
    name = hashlib.sha256(key.encode()).hexdigest()[:20]
    path = folder / f"{name}.json"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        atomic_files.replace_file(path, json.dumps(compute()).encode())
    return json.loads(path.read_text())
