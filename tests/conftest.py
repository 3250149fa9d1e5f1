"""Tests run in float64 unless they ask for float32; compiled programs are cached between runs."""

import ctypes
import gc
import os
import sys
from importlib.metadata import version
from pathlib import Path

os.environ["MMLP_CACHE"] = "off"  # the command line's; this is the user's own
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # the compilation cache is talkative
# compilation is most of the time of small tests: spend less on it
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    + " --xla_cpu_parallel_codegen_split_count=1"
)
if version("jaxlib").startswith(
    "0.9."
):  # a third of the time; later versions end at this flag
    os.environ["XLA_FLAGS"] += " --xla_cpu_use_fusion_emitters=false"

# a core for each worker: their threads do not wait for each other
if sys.platform == "linux" and "PYTEST_XDIST_WORKER" in os.environ:
    cores = sorted(os.sched_getaffinity(0))
    worker = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
    os.sched_setaffinity(0, {cores[worker % len(cores)]})

import jax
import pytest

jax.config.update("jax_enable_x64", True)
jax.config.update(
    "jax_compilation_cache_dir",
    os.environ.get(
        "MMLP_TEST_CACHE", str(Path(__file__).parent.parent / ".cache" / "jax")
    ),
)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)


collect_ignore = ["support"]
ENOUGH = 1600 * 2**20  # bytes of a worker's memory; 500 MB of them are not programs
STATM = Path("/proc/self/statm")


@pytest.fixture(autouse=True)
def drop_compiled_programs():
    """JAX keeps every compiled program for ever: on Linux they are dropped when they are many."""
    yield
    if (
        STATM.exists()
        and int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") > ENOUGH
    ):
        jax.clear_caches()
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # what is free goes back to the system
