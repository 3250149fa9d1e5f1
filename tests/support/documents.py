"""The code of the documentation, as a reader would run it, in less time."""

import importlib.util
import re
from pathlib import Path

import jax

ROOT = Path(__file__).parents[2]


def run_code(page: str) -> dict:
    """Execute the Python blocks of a page in order, two epochs each, in float32; their names."""
    namespace = {"__name__": page}
    with jax.enable_x64(False):
        for block in re.findall(
            r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL
        ):
            exec(
                compile(re.sub(r"epochs=\d+", "epochs=2", block), page, "exec"),
                namespace,
            )
    return namespace


def load(path: Path):
    """A program as a module."""
    specification = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module
