"""Imports point one way, and the core needs only JAX, Equinox and Optax."""

import ast
import graphlib
import subprocess
import sys
from pathlib import Path

import pytest
from command import without_jax

import mmlp

ROOT = Path(mmlp.__file__).parent
# A folder or module may import what stands before it.
ORDER = """
_version _lazy errors registry terminal temporary_files atomic_files program_cache compilation
argument_checks linalg spd divergences distributions networks vae serialization training
metrics datasets plotting tables estimators reporting demo cli
""".split()
MOVED = {
    "checkpoint",
    "heads",
    "initialisation",
    "kernels",
}  # only names of other modules
RANK = {name: rank for rank, name in enumerate(ORDER)}
LIGHT = {"jax", "jaxlib", "equinox", "optax", "numpy"}  # what `import mmlp` may load
HEAVY = {"numpyro", *ORDER[ORDER.index("metrics") :]}
PATHS = {
    path.relative_to(ROOT).as_posix(): path
    for path in sorted(ROOT.rglob("*.py"))
    if path.parent != ROOT or path.stem not in {"__init__", *MOVED}
}
each = pytest.mark.parametrize("module", list(PATHS))


def imported(path, *, top_level_only):
    tree = ast.parse(path.read_text())
    nodes = tree.body if top_level_only else ast.walk(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@each
def test_imports_point_down(module):
    path, name = PATHS[module], Path(module).with_suffix("").parts[0]
    for target in imported(path, top_level_only=False):
        package, _, rest = target.partition(".")
        assert package != "reproduction", "it is not part of the wheel"
        if package != "mmlp":
            continue
        other = rest.split(".")[0]
        assert other, f"{path} imports the package itself"
        if name == "alpha" or other == "alpha":
            assert name == other == "alpha", (
                "alpha is a reference: it imports nothing of the rest, and only tests import it"
            )
        elif name == "numpyro":
            assert other in ("distributions", "spd", "linalg")
        elif name != other:
            assert RANK[other] < RANK[name], f"{name} must not import {other}"


def module_of(target):
    """The module, as in `PATHS`, that `import target` needs; None if it is not of this package."""
    package, *parts = target.split(".")
    names = ["/".join(parts[:n]) for n in range(len(parts), 0, -1)]
    files = [file for name in names for file in (f"{name}.py", f"{name}/__init__.py")]
    return (
        next((file for file in files if file in PATHS), None)
        if package == "mmlp"
        else None
    )


def test_no_module_imports_itself_by_way_of_others():
    """Late imports count. A folder's modules import each other, never the folder itself."""
    graph = {
        module: {module_of(target) for target in imported(path, top_level_only=False)}
        - {None}
        for module, path in PATHS.items()
    }
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


@each
def test_the_core_needs_only_jax_equinox_and_optax(module):
    path, name = PATHS[module], Path(module).with_suffix("").parts[0]
    if name in HEAVY:
        return
    for target in imported(path, top_level_only=True):
        package = target.partition(".")[0]
        assert package in LIGHT | {"mmlp"} | sys.stdlib_module_names, (
            f"{name} imports {package}"
        )


MINIMAL = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        blocked = "sklearn matplotlib pooch tqdm safetensors numpyro torch pyriemann".split()
        if name.partition(".")[0] in blocked:
            raise ImportError(f"{name} is not installed")

sys.meta_path.insert(0, Refuse())
import jax, jax.numpy as jnp, optax, mmlp

key = jax.random.key(0)
X = jax.random.normal(key, (8, 3))
Y = mmlp.Gram.from_dense(jnp.eye(2)[None].repeat(8, 0) / 2)
model = mmlp.calibrate(mmlp.MatrixMLP(3, 2, (4,), key=key), X, key=key)
loss = lambda model: mmlp.von_neumann(jax.vmap(model)(X), Y).mean()
optimizer = optax.sgd(1e-6)
value, gradient = jax.jit(jax.value_and_grad(loss))(model)
updates, _ = optimizer.update(gradient, optimizer.init(model))
print(float(value), float(loss(optax.apply_updates(model, updates))))
"""


def test_import_and_a_training_step_work_without_the_optional_dependencies():
    command = [sys.executable, "-c", MINIMAL]
    run = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT.parent, timeout=300
    )
    assert run.returncode == 0, run.stderr
    before, after = map(float, run.stdout.split())
    assert after < before


@pytest.mark.parametrize(
    ("words", "status"),
    [("--version", 0), ("fit --help", 0), ("fit regresion wind.csv", 2)],
)
def test_help_and_wrong_arguments_need_no_jax(words, status):
    assert without_jax(*words.split())[0] == status


def test_the_names_are_those_that_type_checkers_see():
    tree = ast.parse((ROOT / "__init__.py").read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname or alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    names = {
        name: home for home, words in mmlp._NAMES.items() for name in words.split()
    }
    modules = {name for name, home in seen.items() if home == "mmlp"}
    assert {n: f"mmlp.{home}" for n, home in names.items()} == {
        name: home for name, home in seen.items() if name not in modules
    }
    assert modules <= set(mmlp._MODULES.split())
    heavy = {
        "MatrixVAE",
        "MultivariateRegressor",
        "SPDRegressor",
        "TableEncoder",
        "report",
    }
    assert {*mmlp.__all__} | heavy == {*names, "__version__"}


def test_every_name_can_be_had():
    for name in (*mmlp.__all__, *mmlp._MODULES.split()):
        assert getattr(mmlp, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Grams'"):
        _ = mmlp.Grams
    everything = {}
    exec("from mmlp import *", everything)
    assert set(mmlp.__all__) <= set(everything)
