"""Question: does this tree train like another one: the same weights, in no more time?

    python benchmarks/compare.py --against DIR           time of a training step, this tree over DIR
    python benchmarks/compare.py --against DIR --check   difference after 20 steps in float64
    python benchmarks/compare.py --against DIR --estimators   of what estimators and `mmlp` predict

DIR is a checkout of another commit, such as `git worktree add DIR COMMIT`. Each tree has a process
of its own. Times: both train in turns, epoch by epoch inside `fit`, in float32 at the paper's size;
the ratio is that of the medians, and the quartiles are those of the turns. Check: `fit` and
`fit_many` of small networks with the same keys; the largest absolute difference of the trained
weights and of the losses. The default optimiser divides by the size of gradients and so enlarges
rounding; `--sgd` takes plain gradient steps instead. Estimators: each is fitted for a few epochs in
float64 with the same seed, in Python and by the command `mmlp`; the largest difference of what they
predict, relative to the largest number.
"""

import argparse
import importlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
TURNS, EPOCHS, STEPS, ROUNDS = 12, 6, 20, 2
SIZES = {
    "time": (20, 10, 3, (30, 30, 30)),
    "check": (5, 4, 2, (6, 6)),
}  # p, d, k, hidden
TIMED = (
    *(
        "MatrixMLP",
        "ShallowMatrixMLP",
        "CholeskyMLP",
        "GaussianHead(MatrixMLP)",
        "VAE EfNf",
    ),
    *(f"{head}Head(JointMatrixMLP)" for head in ("Gaussian", "PowerExponential")),
)
ESTIMATORS = (
    "MultivariateRegressor",
    "MultivariateRegressor, gaussian",
    "MultivariateRegressor, low rank",
    "SPDRegressor",
    "MatrixVAE",
    "mmlp fit, mmlp predict",
)


def models(mmlp, p: int, d: int, k: int, hidden: tuple[int, ...]) -> dict:
    """name -> function of a key, in the words of either tree: `output`, or before it `diagonal`."""
    new = hasattr(mmlp, "JointMatrixMLP")
    joint = mmlp.JointMatrixMLP if new else partial(mmlp.MatrixMLP, joint=True)
    diagonal = {"output": mmlp.Diagonal()} if new else {"diagonal": True}
    paper = mmlp.MercerSigmoid()
    mercer = {"output": mmlp.Dense(paper)} if new else {"output_kernel": paper}
    networks = {
        "MatrixMLP": mmlp.MatrixMLP,
        "MatrixMLP, Mercer": partial(mmlp.MatrixMLP, **mercer),
        "MatrixMLP, diagonal": partial(mmlp.MatrixMLP, **diagonal),
        "JointMatrixMLP": joint,
        "JointMatrixMLP, diagonal": partial(joint, **diagonal),
        "CholeskyMLP": mmlp.CholeskyMLP,
        "CholeskyMLP, diagonal": partial(mmlp.CholeskyMLP, **diagonal),
    }
    made = {name: partial(make, p, d, hidden) for name, make in networks.items()}
    cases = {
        name: made[name] for name in ("MatrixMLP", "MatrixMLP, Mercer", "CholeskyMLP")
    }
    cases["ShallowMatrixMLP"] = partial(mmlp.ShallowMatrixMLP, p, d, hidden)
    for head, extra in ((mmlp.GaussianHead, 1), (mmlp.PowerExponentialHead, 3)):
        for name, make in made.items():
            cases[f"{head.__name__}({name})"] = partial(_headed, head, make, d + extra)
    vaes = ("NdNd", "EfNf", "EfEf")
    return cases | {
        f"VAE {name}": partial(mmlp.paper_vae, name, p, k, hidden) for name in vaes
    }


def _headed(head, make, out_features, *, key):
    return head(make(out_features=out_features, key=key))


def prepared(task: str, name: str, batch: int):
    """The tree's package, a function key -> calibrated model, the loss and the data of a case."""
    import jax
    import jax.numpy as jnp

    mmlp, keys = importlib.import_module("mmlp"), jax.random.split(jax.random.key(0), 3)
    assert Path(str(mmlp.__file__)).is_relative_to(os.environ["PYTHONPATH"])
    n, (p, d, *_) = STEPS * batch, SIZES[task]
    X, y = jax.random.normal(keys[0], (n, p)), jax.random.normal(keys[2], (n, d))
    Y = mmlp.Gram.trace_one(jax.random.normal(keys[1], (n, d, d)))

    def make(key):
        return mmlp.calibrate(models(mmlp, *SIZES[task])[name](key=key), X, key=key)

    def loss(model, batch, key, t):
        X, Y, y = batch
        if name.startswith("VAE"):
            return -jnp.mean(jax.vmap(model.elbo)(X, jax.random.split(key, len(X))))
        if "Head" in name:
            return -jnp.mean(jax.vmap(lambda x, y: model(x).log_prob(y))(X, y))
        return jnp.mean(mmlp.von_neumann(jax.vmap(model)(X), Y))

    return mmlp, make, loss, (X, Y, y)


def answer(kept: dict, task: str, name: str, batch: int, sgd: bool) -> list:
    """In the tree's process: seconds a step of some epochs, or the numbers after 20 steps."""
    import equinox as eqx
    import jax
    import numpy as np
    import optax

    if (name, batch) not in kept:
        kept.clear()
        mmlp, make, loss, data = prepared(task, name, batch)
        kept[name, batch] = mmlp, make, loss, data, make(jax.random.key(1))
    mmlp, make, loss, data, model = kept[name, batch]
    options = {"batch_size": batch, "progress": False}
    if sgd:
        options["optimizer"] = optax.sgd(0.01)
    if task == "time":
        ends, options["epochs"] = [], EPOCHS
        note = (lambda info: ends.append(time.perf_counter()),)
        mmlp.fit(model, loss, data, key=jax.random.key(2), on_epoch=note, **options)
        return [(end - start) / STEPS for start, end in itertools.pairwise(ends)]
    keys = jax.random.split(jax.random.key(1), 3)
    one = mmlp.fit(make(keys[0]), loss, data, key=keys[1], epochs=1, **options)
    many = mmlp.fit_many(
        eqx.filter_vmap(make)(keys), loss, data, keys=keys, epochs=1, **options
    )
    results = []
    for result in (one, many):
        weights = jax.tree.leaves(eqx.filter(result.model, eqx.is_inexact_array))
        arrays = [*weights, result.history["loss"]]
        results.append([np.asarray(array, float).tolist() for array in arrays])
    return results


def predict_with_estimator(name: str) -> list:
    """In the tree's process: what an estimator predicts after a few epochs, as nested lists."""
    import contextlib
    import io
    import tempfile

    import numpy as np

    mmlp = importlib.import_module("mmlp")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = X[:, :2] + np.exp(X[:, 2:] / 2) * rng.standard_normal((60, 2))
    factors = rng.standard_normal((60, 2, 2)) + np.eye(2)
    settings = {"max_epochs": 5, "random_state": 0, "dtype": "float64"}
    if name == "SPDRegressor":
        Y = np.einsum("nij,nik->njk", factors, factors)
        arrays = [mmlp.SPDRegressor(**settings).fit(X, Y).predict(X)]
    elif name == "MatrixVAE":
        vae = mmlp.MatrixVAE(2, **settings).fit(X)
        arrays = [vae.score_samples(X), vae.transform(X)]
    elif name.startswith("MultivariateRegressor"):
        family = {"family": "gaussian"} if "gaussian" in name else {}
        covariance = {"covariance": "low_rank", "rank": 1} if "low rank" in name else {}
        model = mmlp.MultivariateRegressor(**settings, **family, **covariance).fit(X, y)
        arrays = [
            model.predict(X),
            model.predict_covariance(X),
            model.log_density(X, y),
        ]
    else:
        cli = importlib.import_module("mmlp.cli")
        days = [f"2024-01-{1 + i % 28:02d}" for i in range(60)]
        words = [("north", "south", "")[i % 3] for i in range(60)]
        rows = zip(days, words, X.tolist(), y.tolist(), strict=True)
        lines = [",".join(map(str, (day, word, *x, *u))) for day, word, x, u in rows]
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            Path("table.csv").write_text("\n".join(["day,place,a,b,c,u,v", *lines, ""]))
            fit = "fit regression table.csv --targets u,v --epochs 5 --quiet"
            with contextlib.redirect_stdout(io.StringIO()):
                for command in (
                    fit,
                    "predict table.safetensors table.csv -o forecast.csv",
                ):
                    assert cli.main(command.split()) == 0
            arrays = [np.loadtxt("forecast.csv", delimiter=",", skiprows=1)]
    return [np.asarray(array, float).tolist() for array in arrays]


def work() -> None:
    """Answer requests, a line of JSON each."""
    kept = {}
    for line in sys.stdin:
        request = json.loads(line)
        if request["task"] == "estimators":
            result = predict_with_estimator(request["name"])
        else:
            result = answer(kept, **request)
        print(json.dumps(result), flush=True)


class Tree:
    """A process that trains with the package of one folder."""

    def __init__(self, folder: Path, **variables: str):
        variables |= {"PYTHONPATH": str(folder), "OPENBLAS_NUM_THREADS": "1"}
        environment = {**os.environ, **variables}
        command = [sys.executable, "-P", __file__, "--work"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, env=environment, cwd=folder, **pipes)

    def ask(self, task: str, name: str, batch: int, sgd: bool = False) -> list:
        request = {"task": task, "name": name, "batch": batch, "sgd": sgd}
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def compare_times(names, against: Path) -> None:
    print(
        f"{'ms a step':42}{'batch':>6}{'before':>9}{'now':>9}{'ratio':>8}  quartiles of the turns"
    )
    times = {}
    for _ in range(ROUNDS):  # of processes, whose memory lies differently each time
        trees = Tree(against), Tree(HERE)
        for name, batch in [(name, batch) for name in names for batch in (10, 50)]:
            for turn in range(TURNS + 1):
                order = trees if turn % 2 else trees[::-1]
                pair = {tree: tree.ask("time", name, batch) for tree in order}
                if turn:  # the first compiles
                    times.setdefault((name, batch), []).append(
                        [pair[tree] for tree in trees]
                    )
        for tree in trees:
            tree.close()
    for (name, batch), turns in times.items():
        before, now = (
            statistics.median(t for turn in turns for t in turn[i]) for i in (0, 1)
        )
        ratios = [statistics.median(new) / statistics.median(old) for old, new in turns]
        low, _, high = statistics.quantiles(ratios, n=4)
        numbers = f"{1e3 * before:9.3f}{1e3 * now:9.3f}{now / before:8.3f}  {low:.3f} to {high:.3f}"
        print(f"{name:42}{batch:6}{numbers}", flush=True)


def compare_numbers(names, against: Path, sgd: bool) -> None:
    # programs that run 20 steps are compiled cheaply
    options = {"JAX_ENABLE_X64": "1", "XLA_FLAGS": "--xla_backend_optimization_level=0"}
    trees = Tree(against, **options), Tree(HERE, **options)
    print(f"{'largest difference after 20 steps':42}{'fit':>12}{'fit_many':>12}")
    for name in names:
        old, new = (tree.ask("check", name, 10, sgd) for tree in trees)
        row = [difference(*pair) for pair in zip(old, new, strict=True)]
        print(f"{name:42}" + "".join(f"{value:12.1e}" for value in row), flush=True)
    for tree in trees:
        tree.close()


def compare_estimators(names, against: Path) -> None:
    """Print how far the predictions of estimators are apart, relative to the largest of them."""
    import numpy as np

    options = {"JAX_ENABLE_X64": "1", "XLA_FLAGS": "--xla_backend_optimization_level=0"}
    trees = Tree(against, **options), Tree(HERE, **options)
    print(f"{'largest relative difference after 5 epochs':45}{'predictions':>12}")
    for name in names:
        old, new = (tree.ask("estimators", name, 0) for tree in trees)
        pairs = [(np.array(a), np.array(b)) for a, b in zip(old, new, strict=True)]
        largest = max(abs(a - b).max() / abs(a).max() for a, b in pairs)
        print(f"{name:45}{largest:12.1e}", flush=True)
    for tree in trees:
        tree.close()


def difference(old: list, new: list) -> float:
    """Of two lists of arrays in any order: each is compared with the nearest of its shape."""
    import numpy as np

    rest, largest = [np.array(b) for b in new], 0.0
    for array in map(np.array, old):
        same = [
            (abs(array - b).max(), i)
            for i, b in enumerate(rest)
            if b.shape == array.shape
        ]
        nearest, i = min(same, default=(float("inf"), 0))
        largest = max(largest, float(nearest))
        rest.pop(i) if same else None
    return largest if not rest else float("inf")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", type=Path, metavar="DIR")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--estimators", action="store_true")
    parser.add_argument("--sgd", action="store_true")
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", help="of the cases in `models`"
    )
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        return work()
    if arguments.against is None or not (arguments.against / "mmlp").is_dir():
        parser.error("--against must name a checkout, a folder that holds mmlp/")
    sys.path.insert(0, str(HERE))
    against = arguments.against.resolve()
    if arguments.estimators:
        compare_estimators(arguments.only or ESTIMATORS, against)
    elif arguments.check:
        cases = models(importlib.import_module("mmlp"), *SIZES["check"])
        compare_numbers(arguments.only or cases, against, arguments.sgd)
    else:
        compare_times(arguments.only or TIMED, against)


if __name__ == "__main__":
    main()
