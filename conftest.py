"""Settings of all tests: float64, fast compilation and a cache of compiled programs."""

import ctypes
import gc
import os
import signal
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

# The command's own cache of programs belongs to the user and stays untouched.
os.environ["MMLP_CACHE"] = "off"
# Otherwise XLA logs each use of the compilation cache.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Programs of tests need no source locations, and thousands of them take time.
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")
# Small tests spend most of their time on compilation, so programs are optimised less.
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    + " --xla_cpu_parallel_codegen_split_count=1"
)
# This flag saves a third of the time; later versions of jaxlib do not start with it.
if version("jaxlib").startswith("0.9."):
    os.environ["XLA_FLAGS"] += " --xla_cpu_use_fusion_emitters=false"

# Each worker has a core of its own, so that their threads do not wait for each other.
if sys.platform == "linux" and "PYTEST_XDIST_WORKER" in os.environ:
    cores = sorted(os.sched_getaffinity(0))
    worker = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
    os.sched_setaffinity(0, {cores[worker % len(cores)]})

import jax
import pytest

if TYPE_CHECKING:
    from browser import Browser

ROOT = Path(__file__).parent
PROGRAM_FOLDER = os.environ.get("MMLP_TEST_CACHE", str(ROOT / ".cache" / "jax"))
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_compilation_cache_dir", PROGRAM_FOLDER)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
# JAX makes many objects that live long: look for garbage less often.
gc.set_threshold(100_000, 50, 100)

# `nohup` and shells that run tests in the background ignore these signals, and commands
# that tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP"):  # not on Windows
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

collect_ignore = ["tests/support"]
STATM = Path("/proc/self/statm")  # Linux only

# Docstring examples that train for several seconds.
SLOW_EXAMPLES = {
    "mmlp.estimators.density.MatrixVAE",
    "mmlp.estimators.model_files.load",
    "mmlp.vae.VAE",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the slow examples of docstrings, which cannot carry a mark."""
    for item in items:
        if isinstance(item, pytest.DoctestItem) and item.name in SLOW_EXAMPLES:
            item.add_marker(pytest.mark.slow)


def find_memory_limit() -> int:
    """Return how many bytes a worker may use: a sixth of the memory, 1.6 to 4 GB."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(max(total // 6, 1600 * 2**20), 4000 * 2**20)


@pytest.fixture(autouse=True)
def drop_compiled_programs() -> Iterator[None]:
    """Drop compiled programs, which JAX keeps for ever, when they fill the memory."""
    yield
    if not STATM.exists():
        return
    resident_pages = int(STATM.read_text().split()[1])
    if resident_pages * os.sysconf("SC_PAGE_SIZE") > find_memory_limit():
        jax.clear_caches()
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # returns free memory to the system


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """One headless browser for the tests of a module."""
    from browser import Browser

    with Browser() as browser:
        yield browser
