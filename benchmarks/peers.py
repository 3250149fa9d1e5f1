"""How fast is this library beside other ways to do the same, and beside the machine?

    python benchmarks/peers.py
    python benchmarks/peers.py steps joint growth jacobians
    python benchmarks/peers.py densities divergences size first

Without arguments all parts are measured. Writes results/speed.json, which docs/speed.md
draws and tabulates.

The rivals of one group take turns in one run, each in its own process, so that ratios
are meaningful on a machine that does other work as well. Each has one or two threads,
whichever is faster. A rival that is not installed (the extra `bench` has them all) or
fails is left out, and the record says why.
"""

import argparse
import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import first_fit
import scaling
from rivals.tables import JACOBIANS, JOINT, MATRIX, OURS, PRODUCT, WIDE
from rivals.turns import Rival, time_in_turns

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "results" / "speed.json"
TURNS = 11
TURNS_OF_JACOBIANS = 3
BATCH_SIZES = (10, 50)
THREADS = (1, 2)
PAPER_SIZES = [30, 30, 30]
FIRST_FIT_REPEATS = 3
FIRST_FIT_ROWS = 300

Rows = list[dict[str, Any]]


def make_our_step(name: str, threads: int = 2, **arguments: Any) -> Rival:
    """Return a training step of this library."""
    return Rival(name, "rivals.steps:run_mmlp", arguments, threads)


def measure_steps() -> dict[str, Rows]:
    """Time a step of the paper's VAE, by batch size."""
    return {
        f"batch {batch}": time_in_turns(list_step_rivals(batch), TURNS)
        for batch in BATCH_SIZES
    }


def list_step_rivals(batch: int) -> list[Rival]:
    """Return all ways to take a step of the paper's VAE."""
    rivals = [
        make_our_step(MATRIX, threads, model="matrix", hidden=PAPER_SIZES, batch=batch)
        for threads in THREADS
    ]
    rivals.append(
        make_our_step(
            "CholeskyMLP, 3 x 30", model="cholesky", hidden=PAPER_SIZES, batch=batch
        )
    )
    for density, all_threads in (("cholesky", (1,)), ("lu", (1, 2))):
        arguments = {"batch": batch, "density": density}
        rivals.append(Rival("JAX, by hand", "rivals.steps:run_by_hand", arguments))
        for threads in all_threads:
            rivals.append(
                Rival(
                    "PyTorch, eager",
                    "rivals.torch_steps:run_steps",
                    {**arguments, "compiled": False},
                    threads,
                )
            )
    for threads in THREADS:
        rivals.append(
            Rival(
                "PyTorch, compiled",
                "rivals.torch_steps:run_steps",
                {"batch": batch, "density": "lu", "compiled": True},
                threads,
            )
        )
    return rivals


def measure_joint() -> dict[str, Rows]:
    """Time the recommended network against a Cholesky MLP of the same width."""
    networks = {
        JOINT: {"model": "joint", "hidden": [16, 16]},
        "the same, triangular output": {"model": "triangular", "hidden": [16, 16]},
        WIDE: {"model": "cholesky", "hidden": [100, 100]},
    }
    tables = {}
    for optimizer in ("adam", "default"):
        for batch in BATCH_SIZES:
            rivals = [
                make_our_step(name, **network, batch=batch, optimizer=optimizer)
                for name, network in networks.items()
            ]
            tables[f"{optimizer}, batch {batch}"] = time_in_turns(rivals, TURNS)
    return tables


def measure_growth() -> Rows:
    """Time the same step with more rows and more layers, and a large product."""
    rivals = []
    for batch in (10, 50, 250):
        rivals.append(
            make_our_step(
                f"batch {batch}",
                model="matrix",
                hidden=PAPER_SIZES,
                batch=batch,
                count=True,
            )
        )
    for depth in (2, 4, 8):
        rivals.append(
            make_our_step(
                f"depth {depth}",
                model="matrix",
                hidden=[30] * depth,
                batch=50,
                count=True,
            )
        )
    rivals.append(Rival(PRODUCT, "rivals.steps:run_product"))
    return time_in_turns(rivals, TURNS)


def measure_jacobians() -> Rows:
    """Time the paper's explicit Jacobians on one row, and our step on ten rows."""
    ours = make_our_step(MATRIX, model="matrix", hidden=PAPER_SIZES, batch=10)
    theirs = Rival(JACOBIANS, "rivals.steps:run_jacobians", threads=1)
    return time_in_turns([ours, theirs], TURNS_OF_JACOBIANS)


def measure_densities() -> dict[str, Rows]:
    """Time log densities with gradients, by size and by what is passed."""
    tables = {}
    for n, d in ((50, 10), (100, 100)):
        for name, triangle in (("dense", False), ("triangle", True)):
            arguments = {"n": n, "d": d, "triangle": triangle}
            rivals = [
                Rival(OURS, "rivals.densities:run_mmlp", arguments),
                Rival("NumPyro", "rivals.densities:run_numpyro", arguments),
            ]
            for threads in THREADS:
                rivals.append(
                    Rival("PyTorch", "rivals.densities:run_pytorch", arguments, threads)
                )
            tables[f"{n} x {d}, {name}"] = time_in_turns(rivals, TURNS)
    return tables


def measure_divergences() -> dict[str, Rows]:
    """Time the von Neumann divergence with gradient; the first size also has errors."""
    peers = {
        "spd-learn": "rivals.logarithms:run_spd_learn",
        "geoopt": "rivals.logarithms:run_geoopt",
    }
    tables = {}
    for n, d in ((50, 10), (100, 64), (10, 128)):
        # Errors do not depend on the number of threads: measure them once.
        has_errors = d == 10
        arguments = {"n": n, "d": d, "errors": has_errors}
        rivals = [Rival(OURS, "rivals.logarithms:run_mmlp", arguments)]
        for name, make in peers.items():
            rivals.append(Rival(name, make, {**arguments, "errors": False}, 1))
            rivals.append(Rival(name, make, arguments, 2))
        tables[f"{n} x {d}"] = time_in_turns(rivals, TURNS)
    return tables


def measure_size() -> dict[str, Rows]:
    """Measure how time and memory grow with d."""
    return {loss: scaling.measure_sizes(loss) for loss in scaling.LOSSES}


def measure_first() -> dict[str, dict[str, float]]:
    """Time import, first fit and second run of a script, in seconds."""
    medians = first_fit.measure_first_fits(
        {"here": ROOT}, FIRST_FIT_REPEATS, FIRST_FIT_ROWS
    )
    return {kind: values for (_, kind), values in medians.items()}


PARTS = {
    "steps": measure_steps,
    "joint": measure_joint,
    "growth": measure_growth,
    "jacobians": measure_jacobians,
    "densities": measure_densities,
    "divergences": measure_divergences,
    "size": measure_size,
    "first": measure_first,
}


def count_cores() -> int | None:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "parts", nargs="*", help=f"of {', '.join(PARTS)}; all unless named"
    )
    parts = parser.parse_args().parts or list(PARTS)
    if unknown := set(parts) - set(PARTS):
        parser.error(
            f"no such part: {', '.join(sorted(unknown))}; known: {', '.join(PARTS)}"
        )

    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    record["command"] = "make bench"
    record["machine"] = f"{count_cores()} CPU cores"
    record["jax"] = version("jax")
    record["torch"] = version("torch")
    for part in parts:
        print(part, flush=True)
        # The load of other programs: ours run one at a time.
        load = os.getloadavg()[0]
        record[part] = PARTS[part]()
        record["load"] = {**record.get("load", {}), part: round(load, 1)}
        RECORD.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
