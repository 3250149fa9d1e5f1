"""Question: how fast is this beside other ways to do the same, and beside what the machine can do?

Answer: results/speed.json, drawn and tabled in docs/speed.md. All of one group take turns in one
run, each in a process of its own, so that ratios mean something on a machine that does other work
too; each has one or two threads, whichever is faster for it. What is not installed (the extra
`bench` has it all) or fails is left out, and the record says why.

    python benchmarks/peers.py [steps joint growth jacobians densities divergences size first]
"""

import argparse
import json
import os
from importlib.metadata import version
from pathlib import Path

import first_fit
import scaling
from rivals.turns import Rival, in_turns

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "results" / "speed.json"
TURNS, PAPER = 11, [30, 30, 30]


def of_library(name: str, threads: int = 2, **arguments) -> Rival:
    return Rival(name, "rivals.steps:library", arguments, threads)


def steps() -> dict[str, list[dict]]:
    """The paper's VAE: name of the batch -> rows."""
    return {f"batch {batch}": in_turns(step_rivals(batch), TURNS) for batch in (10, 50)}


def step_rivals(batch: int) -> list[Rival]:
    rivals = [
        of_library("MatrixMLP, 3 x 30", n, model="matrix", hidden=PAPER, batch=batch)
        for n in (1, 2)
    ]
    rivals.append(
        of_library("CholeskyMLP, 3 x 30", model="cholesky", hidden=PAPER, batch=batch)
    )
    make = "rivals.torch_steps:steps"
    for density, threads in (("cholesky", (1,)), ("lu", (1, 2))):
        given = {"batch": batch, "density": density}
        rivals.append(Rival("JAX, by hand", "rivals.steps:by_hand", given))
        eager = {**given, "compiled": False}
        rivals += [Rival("PyTorch, eager", make, eager, n) for n in threads]
    compiled = {"batch": batch, "density": "lu", "compiled": True}
    rivals += [Rival("PyTorch, compiled", make, compiled, n) for n in (1, 2)]
    return rivals


def joint() -> dict[str, list[dict]]:
    """The network that we recommend against a Cholesky MLP of the same width."""
    kinds = {
        "JointMatrixMLP, 2 x 16 + 100": {"model": "joint", "hidden": [16, 16]},
        "the same, triangular output": {"model": "triangular", "hidden": [16, 16]},
        "CholeskyMLP, 2 x 100": {"model": "cholesky", "hidden": [100, 100]},
    }
    return {
        f"{optimizer}, batch {batch}": in_turns(
            [of_library(name, **kind, batch=batch, optimizer=optimizer)
             for name, kind in kinds.items()],
            TURNS,
        )
        for optimizer in ("adam", "default")
        for batch in (10, 50)
    }  # fmt: skip


def growth() -> list[dict]:
    """The same step with more rows and more layers, and a large matrix product."""
    rivals = [
        of_library(f"batch {n}", model="matrix", hidden=PAPER, batch=n, count=True)
        for n in (10, 50, 250)
    ]
    rivals += [
        of_library(f"depth {n}", model="matrix", hidden=[30] * n, batch=50, count=True)
        for n in (2, 4, 8)
    ]
    return in_turns([*rivals, Rival("product", "rivals.steps:product")], TURNS)


def jacobians() -> list[dict]:
    """The paper's explicit Jacobians on one sample, against a step of ours on ten."""
    ours = of_library("MatrixMLP, 3 x 30", model="matrix", hidden=PAPER, batch=10)
    name, make = "explicit Jacobians, one sample", "rivals.steps:jacobians"
    return in_turns([ours, Rival(name, make, threads=1)], 3)


def densities() -> dict[str, list[dict]]:
    """Log densities with gradients: size and what is given -> rows."""
    makes = [("ours", "library", 2), ("NumPyro", "numpyro", 2)]
    makes += [("PyTorch", "pytorch", threads) for threads in (1, 2)]
    tables = {}
    for n, d in ((50, 10), (100, 100)):
        for given, triangle in (("dense", False), ("triangle", True)):
            arguments = {"n": n, "d": d, "triangle": triangle}
            tables[f"{n} x {d}, {given}"] = in_turns(
                [Rival(name, f"rivals.densities:{make}", arguments, threads)
                 for name, make, threads in makes],
                TURNS,
            )  # fmt: skip
    return tables


def divergences() -> dict[str, list[dict]]:
    """von Neumann with gradient; the first size also has errors."""
    peers = {"spd-learn": "spd_learn", "geoopt": "geoopt"}.items()
    makes = [("ours", "library", 2)]
    makes += [(name, make, threads) for name, make in peers for threads in (1, 2)]
    tables = {}
    for n, d in ((50, 10), (100, 64), (10, 128)):
        tables[f"{n} x {d}"] = in_turns(
            [Rival(name, f"rivals.logarithms:{make}",
                   {"n": n, "d": d, "errors": d == 10 and threads == 2}, threads)
             for name, make, threads in makes],
            TURNS,
        )  # fmt: skip
    return tables


def size() -> dict[str, list[dict]]:
    """Growth with d."""
    return {loss: scaling.rows(loss) for loss in scaling.LOSSES}


def first() -> dict[str, dict]:
    """Import, first fit and second run of a script, in seconds."""
    medians = first_fit.measure_first_fits({"here": ROOT}, 3, 300)
    return {kind: values for (_, kind), values in medians.items()}


PARTS = (steps, joint, growth, jacobians, densities, divergences, size, first)


def main() -> None:
    names = {part.__name__: part for part in PARTS}
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "parts", nargs="*", help=f"of {', '.join(names)}; all unless named"
    )
    wanted = parser.parse_args().parts or list(names)
    if unknown := set(wanted) - set(names):
        parser.error(
            f"no such part: {', '.join(sorted(unknown))}; known: {', '.join(names)}"
        )
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    cores = (
        len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count()
    )
    record |= {"command": "make bench", "machine": f"{cores} CPU cores"}
    record |= {name: version(name) for name in ("jax", "torch")}
    for name in wanted:
        print(name, flush=True)
        before = os.getloadavg()[0]  # of others: ours runs one at a time
        record[name] = names[name]()
        record["load"] = {**record.get("load", {}), name: round(before, 1)}
        RECORD.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
