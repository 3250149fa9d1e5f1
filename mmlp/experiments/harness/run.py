"""One experiment is one script: a frozen dataclass of settings, flags made from it, one JSON out, figures from the JSON.

The entries of the result that the page of all results shows are listed in report.py.
"""

import argparse
import dataclasses
import datetime
import hashlib
import importlib.metadata
import json
import multiprocessing
import os
import platform
import shlex
import sys
import threading
import time
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from tqdm import tqdm

from mmlp._version import __version__
from mmlp.checkpoint import files
from mmlp.pages import page as report
from mmlp.training.compiled import compile_all_quickly
from mmlp.training.progress import FIRST


def main(
    name: str,
    settings: type,
    run: Callable[[Any], dict],
    draw: Callable[[dict, Path], None],
    argv=None,
    program: str | None = None,
) -> dict:
    """Parse the flags, run, write OUT/NAME.json, draw the figures into OUT, build OUT/index.html and print the verdicts.

    `settings.QUICK` holds what `--quick` changes. A tuple is given as values separated by commas. `name` is that of the
    module, with dashes; what is no module of this package says in `program` how it is called. A path is recorded as DIR:
    where the files of one machine lie is nobody else's concern.
    """
    program = program or f"python -m mmlp.experiments.{name.replace('-', '_')}"
    parser = argparse.ArgumentParser(prog=program, description=settings.__doc__)
    parser.add_argument("--quick", action="store_true", help="a small run, to see that it works")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("report"),
        help="folder of the JSON, the figures and the page",
    )
    hints = typing.get_type_hints(settings)
    for field in dataclasses.fields(settings):
        flag, text = "--" + field.name.replace("_", "-"), f"default: {field.default}"
        parser.add_argument(
            flag, dest=field.name, default=None, help=text, **_option(hints[field.name])
        )
    flags = vars(parser.parse_args(argv))
    quick, out = flags.pop("quick"), flags.pop("out")
    given = {key: value for key, value in flags.items() if value is not None}
    for count in ("seeds", "duel", "jobs"):
        if given.get(count, 1) < 1:
            parser.error(f"--{count} must be at least 1, got {given[count]}")

    out.mkdir(
        parents=True, exist_ok=True
    )  # before the work: a folder that cannot be made costs nothing
    chosen, start = settings(**((settings.QUICK if quick else {}) | given)), time.perf_counter()
    result = run(chosen)
    record = {
        "experiment": name,
        "command": shlex.join([*program.split(), *(["--quick"] if quick else []), *_flags(given)]),
        "quick": quick,
        "settings": {key: _placed(value) for key, value in dataclasses.asdict(chosen).items()},
        "versions": versions(),
        "device": device(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "seconds": round(time.perf_counter() - start, 1),
        "result": result,
    }
    path = out / f"{name}.json"
    files.replace(path, (json.dumps(record) + "\n").encode())
    draw(json.loads(path.read_text()), out)
    skipped = report.build(out)
    if path.name in skipped:
        raise ValueError(
            f"the result of {name} does not fit the page: {skipped[path.name]} (see mmlp/experiments/report.py)"
        )
    for claim in result.get("claims", []):
        print(f"{claim['verdict']}: {claim['claim']} {claim.get('evidence', '')}".rstrip())
    print(f"{path}: {record['seconds']} s; page: {out / 'index.html'}")
    return record


def progress(items: Iterable, label: str, total: int | None = None) -> Iterable:
    """The items, with a bar on a terminal from the second second on; `total` is for those that come one by one."""
    items, quiet = (list(items) if total is None else items), not sys.stderr.isatty()
    return tqdm(
        items, desc=label, total=total, delay=FIRST, disable=quiet, dynamic_ncols=True, leave=False
    )


def each(function: Callable, work: Sequence[tuple], label: str, jobs: int = 1) -> list:
    """`function(*one)` for each of `work`, in its order; on a CPU, `jobs` processes take one after the other.

    The programs of small matrices keep one core busy, compilation as well: two jobs on two cores take half the time. On
    Linux each has cores of its own, so that threads do not wait for those of another. If one fails, or on Ctrl-C, all stop.
    """
    jobs = min(jobs, len(work))
    if jobs <= 1 or jax.default_backend() != "cpu":
        return [function(*one) for one in progress(work, label)]
    context = multiprocessing.get_context("spawn")
    turns = context.SimpleQueue()
    for turn in range(jobs):
        turns.put(turn)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read as a process starts, before `_begin`
    with ProcessPoolExecutor(jobs, context, initializer=_begin, initargs=(turns, jobs)) as pool:
        try:
            futures = [pool.submit(function, *one) for one in work]
            for future in progress(as_completed(futures), label, len(work)):
                future.result()  # the first that fails is seen at once
            return [future.result() for future in futures]
        except BaseException:
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def _begin(turns: Any, jobs: int) -> None:
    """In a process of `each`: it compiles quickly, keeps to its own cores, and ends with a parent that is killed."""
    compile_all_quickly()
    if sys.platform == "linux":
        share = sorted(os.sched_getaffinity(0))[turns.get() :: jobs]
        if share:  # there may be more jobs than cores
            os.sched_setaffinity(0, share)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()


def kept(folder: Path | None, about: dict[str, Any], make: Callable[[], dict]) -> dict:
    """What `make` gives, from `folder` if it was made for equal settings `about` before: a long run can be done in parts.

    The versions of the libraries count, the device and the code do not.
    """
    if folder is None:
        return make()
    name = hashlib.sha256(json.dumps([about, versions()], sort_keys=True).encode()).hexdigest()[:20]
    path = folder / f"{name}.json"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        files.replace(path, json.dumps(make()).encode())
    return json.loads(path.read_text())


def versions() -> dict[str, str]:
    """What the numbers may depend on."""
    libraries = {
        name: importlib.metadata.version(name)
        for name in ("jax", "jaxlib", "equinox", "optax", "numpy")
    }
    return {"mmlp": __version__, **libraries, "python": platform.python_version()}


def device() -> str:
    """Where this process computes, and the precision."""
    first = jax.devices()[0]
    kind = (
        f"CPU ({platform.machine()}, {os.cpu_count()} cores)"
        if first.platform == "cpu"
        else first.device_kind
    )
    return f"{kind}, {jnp.result_type(float)}"


def _option(hint) -> dict[str, Any]:
    """How argparse reads a field of this type: int, float, str, Path, bool, a tuple of one of these, each perhaps None."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        hint = next(part for part in typing.get_args(hint) if part is not types.NoneType)
    if hint is bool:
        return {"action": argparse.BooleanOptionalAction}
    if typing.get_origin(hint) is tuple:
        return {"type": _tuple_of(typing.get_args(hint)[0])}
    return {"type": hint}


def _tuple_of(convert: type) -> Callable[[str], tuple]:
    return lambda text: tuple(convert(part) for part in text.split(","))


def _flags(given: dict[str, Any]) -> list[str]:
    """The flags that give these settings."""
    words = []
    for name, value in given.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words += [f"--{flag}" if value else f"--no-{flag}"]
        else:
            words += [
                f"--{flag}",
                ",".join(map(str, value)) if isinstance(value, tuple) else str(_placed(value)),
            ]
    return words


def _placed(value: Any) -> Any:
    return "DIR" if isinstance(value, Path) else value
