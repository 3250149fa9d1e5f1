"""What a new process of a test needs to find the tests and the library."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
CACHE = os.environ.get("MMLP_TEST_CACHE", str(ROOT / ".cache" / "jax"))


def environment(test: str, **variables: str) -> dict[str, str]:
    """Of a process that imports what the file `test` of a test may import, and itself."""
    folders = (Path(test).parent, ROOT / "tests" / "support", ROOT)
    path = os.pathsep.join(map(str, folders))
    return {**os.environ, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu", **variables}
