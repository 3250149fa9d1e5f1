"""Does this checkout train like another one: the same weights, in no more time?

    python benchmarks/compare.py --against DIR                 time of a training step
    python benchmarks/compare.py --against DIR --check         weights after 20 steps
    python benchmarks/compare.py --against DIR --estimators    predictions of estimators

DIR is a checkout of another commit, for example `git worktree add DIR COMMIT`. Each
checkout runs in its own process.

Times: both checkouts train in turns, epoch by epoch inside `fit`, in float32 and at the
size of the paper. Printed are the medians, their ratio (this checkout over DIR) and the
quartiles of the ratios of single turns.

`--check`: `fit` and `fit_many` train small networks in float64 with the same keys.
Printed is the largest absolute difference of the trained weights and of the losses. The
default optimiser divides by the size of the gradients and so amplifies rounding errors;
`--sgd` takes plain gradient steps instead.

`--estimators`: each estimator is fitted for a few epochs in float64 with the same seed,
in Python and with the `mmlp` command. Printed is the largest difference of the
predictions, relative to the largest prediction.
"""

import argparse
import contextlib
import importlib
import io
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

# JAX and NumPy are imported inside functions: only the child processes train.

ROOT = Path(__file__).resolve().parents[1]
BATCH_SIZES = (10, 50)
STEPS_PER_EPOCH = 20
EPOCHS_PER_TURN = 6
TURNS_PER_PROCESS = 12
PROCESSES_PER_CHECKOUT = 2
ESTIMATOR_EPOCHS = 5
ESTIMATOR_ROWS = 60

# Programs that run only a few steps need no optimised machine code.
FLOAT64_VARIABLES = {
    "JAX_ENABLE_X64": "1",
    "XLA_FLAGS": "--xla_backend_optimization_level=0",
}


class Sizes(NamedTuple):
    """The sizes of inputs, matrices, latent variables and hidden layers."""

    inputs: int
    matrix: int
    latent: int
    hidden: tuple[int, ...]


SIZES = {
    "time": Sizes(inputs=20, matrix=10, latent=3, hidden=(30, 30, 30)),
    "check": Sizes(inputs=5, matrix=4, latent=2, hidden=(6, 6)),
}
TIMED_MODELS = (
    "MatrixMLP",
    "ShallowMatrixMLP",
    "CholeskyMLP",
    "GaussianHead(MatrixMLP)",
    "VAE EfNf",
    "GaussianHead(JointMatrixMLP)",
    "PowerExponentialHead(JointMatrixMLP)",
)
ESTIMATORS = (
    "MultivariateRegressor",
    "MultivariateRegressor, gaussian",
    "MultivariateRegressor, low rank",
    "SPDRegressor",
    "MatrixVAE",
    "mmlp fit, mmlp predict",
)


# In the process of a checkout


class Case(NamedTuple):
    """One model to train: how to build it, its loss and its data."""

    build: Callable
    loss: Callable
    data: tuple


def list_models(mmlp: ModuleType, sizes: Sizes) -> dict[str, Callable]:
    """Return the functions that build a model from a key, by name.

    Checkouts before `JointMatrixMLP` had the options `joint`, `diagonal` and
    `output_kernel` instead of it and of `output`.
    """
    mercer_sigmoid = mmlp.MercerSigmoid()
    if hasattr(mmlp, "JointMatrixMLP"):
        joint_mlp = mmlp.JointMatrixMLP
        diagonal = {"output": mmlp.Diagonal()}
        mercer = {"output": mmlp.Dense(mercer_sigmoid)}
    else:
        joint_mlp = partial(mmlp.MatrixMLP, joint=True)
        diagonal = {"diagonal": True}
        mercer = {"output_kernel": mercer_sigmoid}

    networks = {
        "MatrixMLP": mmlp.MatrixMLP,
        "MatrixMLP, Mercer": partial(mmlp.MatrixMLP, **mercer),
        "MatrixMLP, diagonal": partial(mmlp.MatrixMLP, **diagonal),
        "JointMatrixMLP": joint_mlp,
        "JointMatrixMLP, diagonal": partial(joint_mlp, **diagonal),
        "CholeskyMLP": mmlp.CholeskyMLP,
        "CholeskyMLP, diagonal": partial(mmlp.CholeskyMLP, **diagonal),
    }
    shape = (sizes.inputs, sizes.matrix, sizes.hidden)
    builders = {name: partial(network, *shape) for name, network in networks.items()}

    models: dict[str, Callable] = {
        "MatrixMLP": builders["MatrixMLP"],
        "MatrixMLP, Mercer": builders["MatrixMLP, Mercer"],
        "CholeskyMLP": builders["CholeskyMLP"],
        "ShallowMatrixMLP": partial(mmlp.ShallowMatrixMLP, *shape),
    }
    n_parameters_beside_mean = {mmlp.GaussianHead: 1, mmlp.PowerExponentialHead: 3}
    for head, n_parameters in n_parameters_beside_mean.items():
        out_features = sizes.matrix + n_parameters
        for name, build_network in builders.items():
            models[f"{head.__name__}({name})"] = partial(
                build_head, head, build_network, out_features
            )
    for name in ("NdNd", "EfNf", "EfEf"):
        models[f"VAE {name}"] = partial(
            mmlp.paper_vae, name, sizes.inputs, sizes.latent, sizes.hidden
        )
    return models


def build_head(
    head: Callable, build_network: Callable, out_features: int, *, key: Any
) -> Any:
    """Build a network and put a head on it."""
    return head(build_network(out_features=out_features, key=key))


def import_checkout() -> ModuleType:
    """Import the `mmlp` of this process's checkout, and of no other."""
    mmlp = importlib.import_module("mmlp")
    assert Path(str(mmlp.__file__)).is_relative_to(os.environ["PYTHONPATH"])
    return mmlp


def prepare_case(task: str, name: str, batch_size: int) -> Case:
    """Draw the data of a case, and define its loss and how its model is built."""
    import jax
    import jax.numpy as jnp

    mmlp = import_checkout()
    sizes = SIZES[task]
    n_rows = STEPS_PER_EPOCH * batch_size
    input_key, matrix_key, target_key = jax.random.split(jax.random.key(0), 3)
    X = jax.random.normal(input_key, (n_rows, sizes.inputs))
    y = jax.random.normal(target_key, (n_rows, sizes.matrix))
    factors = jax.random.normal(matrix_key, (n_rows, sizes.matrix, sizes.matrix))
    Y = mmlp.Gram.trace_one(factors)

    def build(key: Any) -> Any:
        model = list_models(mmlp, sizes)[name](key=key)
        return mmlp.calibrate(model, X, key=key)

    def loss(model: Any, batch: tuple, key: Any, t: Any) -> Any:
        X, Y, y = batch
        if name.startswith("VAE"):
            return -jnp.mean(jax.vmap(model.elbo)(X, jax.random.split(key, len(X))))
        if "Head" in name:
            return -jnp.mean(jax.vmap(lambda x, y: model(x).log_prob(y))(X, y))
        return jnp.mean(mmlp.von_neumann(jax.vmap(model)(X), Y))

    return Case(build, loss, (X, Y, y))


def time_steps(case: Case, model: Any, batch_size: int, optimizer: Any) -> list[float]:
    """Return the seconds per step of each epoch of `fit` but the first."""
    import jax

    mmlp = import_checkout()
    epoch_ends = []
    mmlp.fit(
        model,
        case.loss,
        case.data,
        key=jax.random.key(2),
        epochs=EPOCHS_PER_TURN,
        batch_size=batch_size,
        optimizer=optimizer,
        on_epoch=(lambda info: epoch_ends.append(time.perf_counter()),),
        progress=False,
    )
    return [
        (end - start) / STEPS_PER_EPOCH for start, end in itertools.pairwise(epoch_ends)
    ]


def train_for_an_epoch(case: Case, batch_size: int, optimizer: Any) -> list[list]:
    """Return the weights and losses of `fit` and of `fit_many`, as nested lists."""
    import equinox as eqx
    import jax
    import numpy as np

    mmlp = import_checkout()
    keys = jax.random.split(jax.random.key(1), 3)
    single = mmlp.fit(
        case.build(keys[0]),
        case.loss,
        case.data,
        key=keys[1],
        epochs=1,
        batch_size=batch_size,
        optimizer=optimizer,
        progress=False,
    )
    several = mmlp.fit_many(
        eqx.filter_vmap(case.build)(keys),
        case.loss,
        case.data,
        keys=keys,
        epochs=1,
        batch_size=batch_size,
        optimizer=optimizer,
        progress=False,
    )

    results = []
    for result in (single, several):
        weights = jax.tree.leaves(eqx.filter(result.model, eqx.is_inexact_array))
        arrays = [*weights, result.history["loss"]]
        results.append([np.asarray(array, float).tolist() for array in arrays])
    return results


def predict_with_estimator(name: str) -> list:
    """Return what an estimator predicts after a few epochs, as nested lists."""
    import numpy as np

    mmlp = import_checkout()
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ESTIMATOR_ROWS, 3))
    noise = rng.standard_normal((ESTIMATOR_ROWS, 2))
    y = X[:, :2] + np.exp(X[:, 2:] / 2) * noise
    factors = rng.standard_normal((ESTIMATOR_ROWS, 2, 2)) + np.eye(2)
    settings: dict[str, Any] = {
        "max_epochs": ESTIMATOR_EPOCHS,
        "random_state": 0,
        "dtype": "float64",
    }

    if name == "SPDRegressor":
        Y = np.einsum("nij,nik->njk", factors, factors)
        arrays = [mmlp.SPDRegressor(**settings).fit(X, Y).predict(X)]
    elif name == "MatrixVAE":
        vae = mmlp.MatrixVAE(2, **settings).fit(X)
        arrays = [vae.score_samples(X), vae.transform(X)]
    elif name.startswith("MultivariateRegressor"):
        if "gaussian" in name:
            regressor = mmlp.MultivariateRegressor(family="gaussian", **settings)
        elif "low rank" in name:
            regressor = mmlp.MultivariateRegressor(
                covariance="low_rank", rank=1, **settings
            )
        else:
            regressor = mmlp.MultivariateRegressor(**settings)
        regressor.fit(X, y)
        arrays = [
            regressor.predict(X),
            regressor.predict_covariance(X),
            regressor.log_density(X, y),
        ]
    else:
        arrays = [predict_with_command(X, y)]
    return [np.asarray(array, float).tolist() for array in arrays]


def predict_with_command(X: Any, y: Any) -> Any:
    """Write a CSV file with dates and words, fit and predict it with `mmlp`."""
    import numpy as np

    cli = importlib.import_module("mmlp.cli")
    lines = ["day,place,a,b,c,u,v"]
    for i in range(ESTIMATOR_ROWS):
        day = f"2024-01-{1 + i % 28:02d}"
        place = ("north", "south", "")[i % 3]
        cells = [day, place, *X[i].tolist(), *y[i].tolist()]
        lines.append(",".join(map(str, cells)))

    commands = (
        f"fit regression table.csv --targets u,v --epochs {ESTIMATOR_EPOCHS} --quiet",
        "predict table.safetensors table.csv -o forecast.csv",
    )
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("table.csv").write_text("\n".join([*lines, ""]))
        with contextlib.redirect_stdout(io.StringIO()):
            for command in commands:
                assert cli.main(command.split()) == 0
        return np.loadtxt("forecast.csv", delimiter=",", skiprows=1)


def serve_requests() -> None:
    """Answer the requests on standard input, one line of JSON each."""
    # The case of the latest request, so that its turns share one compilation.
    current = None
    case = None
    model = None

    for line in sys.stdin:
        request = json.loads(line)
        task = request["task"]
        name = request["name"]
        batch_size = request["batch_size"]

        if task == "estimators":
            answer = predict_with_estimator(name)
            print(json.dumps(answer), flush=True)
            continue

        import jax
        import optax

        if case is None or current != (name, batch_size):
            case = prepare_case(task, name, batch_size)
            model = case.build(jax.random.key(1))
            current = (name, batch_size)
        optimizer = optax.sgd(0.01) if request["sgd"] else None
        if task == "time":
            answer = time_steps(case, model, batch_size, optimizer)
        else:
            answer = train_for_an_epoch(case, batch_size, optimizer)
        print(json.dumps(answer), flush=True)


# In the process that compares


class Checkout:
    """A process that trains with the package of one checkout."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", __file__, "--work"],
            env={
                **os.environ,
                **variables,
                "PYTHONPATH": str(folder),
                "OPENBLAS_NUM_THREADS": "1",
            },
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, task: str, name: str, batch_size: int = 0, sgd: bool = False) -> list:
        """Send one request and wait for its answer."""
        request = {"task": task, "name": name, "batch_size": batch_size, "sgd": sgd}
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def compare_times(names: Iterable[str], against: Path) -> None:
    """Print the times of a training step in both checkouts, and their ratio."""
    print(
        f"{'ms a step':42}{'batch':>6}{'before':>9}{'now':>9}{'ratio':>8}"
        "  quartiles of the turns"
    )
    cases = list(itertools.product(names, BATCH_SIZES))
    # For each case one pair (seconds before, seconds now) per turn.
    turns: dict[tuple[str, int], list[tuple[list, list]]] = {case: [] for case in cases}

    # The layout of memory differs between processes, and with it the speed.
    for _ in range(PROCESSES_PER_CHECKOUT):
        before = Checkout(against)
        now = Checkout(ROOT)
        for name, batch_size in cases:
            for turn in range(TURNS_PER_PROCESS + 1):
                order = (before, now) if turn % 2 else (now, before)
                seconds = {
                    checkout: checkout.ask("time", name, batch_size)
                    for checkout in order
                }
                is_compiling = turn == 0
                if not is_compiling:
                    turns[name, batch_size].append((seconds[before], seconds[now]))
        before.close()
        now.close()

    for (name, batch_size), pairs in turns.items():
        old = statistics.median(itertools.chain(*(pair[0] for pair in pairs)))
        new = statistics.median(itertools.chain(*(pair[1] for pair in pairs)))
        ratios = [
            statistics.median(pair[1]) / statistics.median(pair[0]) for pair in pairs
        ]
        low, _, high = statistics.quantiles(ratios, n=4)
        print(
            f"{name:42}{batch_size:6}{1e3 * old:9.3f}{1e3 * new:9.3f}{new / old:8.3f}"
            f"  {low:.3f} to {high:.3f}",
            flush=True,
        )


def compare_weights(names: Iterable[str], against: Path, sgd: bool) -> None:
    """Print how much trained weights and losses differ."""
    before = Checkout(against, **FLOAT64_VARIABLES)
    now = Checkout(ROOT, **FLOAT64_VARIABLES)
    print(f"{'largest difference after 20 steps':42}{'fit':>12}{'fit_many':>12}")
    for name in names:
        old = before.ask("check", name, BATCH_SIZES[0], sgd)
        new = now.ask("check", name, BATCH_SIZES[0], sgd)
        differences = [
            find_largest_difference(*pair) for pair in zip(old, new, strict=True)
        ]
        columns = "".join(f"{difference:12.1e}" for difference in differences)
        print(f"{name:42}{columns}", flush=True)
    before.close()
    now.close()


def compare_estimators(names: Iterable[str], against: Path) -> None:
    """Print how much predictions differ, relative to the largest of them."""
    import numpy as np

    before = Checkout(against, **FLOAT64_VARIABLES)
    now = Checkout(ROOT, **FLOAT64_VARIABLES)
    print(f"{'largest relative difference after 5 epochs':45}{'predictions':>12}")
    for name in names:
        old = [np.array(values) for values in before.ask("estimators", name)]
        new = [np.array(values) for values in now.ask("estimators", name)]
        largest = max(
            abs(a - b).max() / abs(a).max() for a, b in zip(old, new, strict=True)
        )
        print(f"{name:45}{largest:12.1e}", flush=True)
    before.close()
    now.close()


def find_largest_difference(old: list, new: list) -> float:
    """Compare two lists of arrays in any order: each with the nearest of its shape.

    An array without a partner counts as an infinite difference.
    """
    import numpy as np

    unmatched = [np.array(values) for values in new]
    largest = 0.0
    for values in old:
        array = np.array(values)
        candidates = [
            (abs(array - other).max(), i)
            for i, other in enumerate(unmatched)
            if other.shape == array.shape
        ]
        if not candidates:
            return float("inf")
        nearest, i = min(candidates)
        largest = max(largest, float(nearest))
        unmatched.pop(i)
    return float("inf") if unmatched else largest


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--against", type=Path, metavar="DIR", help="the other checkout"
    )
    parser.add_argument("--check", action="store_true", help="compare weights")
    parser.add_argument("--estimators", action="store_true", help="compare predictions")
    parser.add_argument(
        "--sgd", action="store_true", help="with --check: plain gradient steps"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="NAME",
        help="names of `list_models`, or of ESTIMATORS",
    )
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()

    if options.work:
        serve_requests()
        return
    if options.against is None or not (options.against / "mmlp").is_dir():
        parser.error("--against must name a checkout, a folder that holds mmlp/")

    against = options.against.resolve()
    if options.estimators:
        compare_estimators(options.only or ESTIMATORS, against)
    elif options.check:
        sys.path.insert(0, str(ROOT))
        models = list_models(importlib.import_module("mmlp"), SIZES["check"])
        compare_weights(options.only or models, against, options.sgd)
    else:
        compare_times(options.only or TIMED_MODELS, against)


if __name__ == "__main__":
    main()
