"""Commands that get Ctrl-C at random times: each ends soon, with one line and status 130.

    python tests/support/interrupts.py --interrupts 200 --seed 0

Each command is a process of its own, started as the console script `mmlp` starts it, and gets one
SIGINT at a random time of its life. It must end within two seconds, print one line besides its
progress and no traceback, leave no temporary file behind, and its output file must be whole or
absent. A signal that comes when the work is done may find the command ending with status 0.

The interpreter itself takes some hundredths of a second to start. A signal in that time is Python's
to handle: those processes must end as well, and are counted apart, beyond the number asked for.

The counts and times go to stdout as JSON. The exit status is 1 if any command ended in another way,
or if one of the commands was never interrupted.
"""

import argparse
import collections
import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
CONSOLE_SCRIPT = "import sys; from mmlp.cli import main; sys.exit(main())"
MAX_SECONDS_TO_END = 2.0
SECONDS_UNTIL_HUNG = 60.0
SECONDS_OF_START = 0.3  # every fourth signal comes within these
SECONDS_OF_TRAINING = 1.0  # after the first checkpoint
LAST_LINE = re.compile(
    r"mmlp: (interrupted(\. The same command resumes from .*\.)?"
    r"|Training stopped after epoch \d+ of \d+\. .* from .*\.)"
)
PROGRESS = re.compile(
    r"mmlp: warning: .*|report: .*|table\.csv: .*"
    r"|(.*: )?(compiling \.\.\.|epoch \d+/\d+: .*|all \d+ epochs?.*|stopped in epoch .*)"
)
TEMPORARY_FILES = (".*.tmp", ".new-*", ".download-*")
MODEL = "model.safetensors"
FIT = f"fit regression table.csv --targets u,v --models 2 --epochs 300 -o {MODEL}"


@dataclasses.dataclass(frozen=True)
class Command:
    """A command line, and what it leaves behind once it has finished."""

    name: str
    words: str
    output: str | None = None  # the file that must be whole or absent
    warm_cache: bool = True  # with the compiled programs of an earlier run
    trains: bool = False  # half of the signals come once it has written a checkpoint
    stdin: str | None = None
    share: int = 1  # it is interrupted this many times as often as others


COMMANDS = (
    Command("fit", FIT, MODEL, trains=True, share=3),
    Command(
        "fit, compiling",
        f"{FIT} --quiet",
        MODEL,
        warm_cache=False,
        trains=True,
        share=2,
    ),
    Command(
        "fit vae",
        f"fit vae numbers.csv --epochs 300 --quiet -o {MODEL}",
        MODEL,
        trains=True,
    ),
    Command(
        "predict", "predict known.safetensors long.csv -o out.csv", "out.csv", share=2
    ),
    Command(
        "predict, compiling", "predict known.safetensors table.csv", warm_cache=False
    ),
    Command("predict from stdin", "predict known.safetensors -", stdin="table.csv"),
    Command(
        "report",
        "report known.safetensors table.csv -o page",
        "page/index.html",
        share=3,
    ),
    Command("info", "info known.safetensors", share=4),
)


@dataclasses.dataclass
class Ending:
    """How a process ended that got a signal."""

    status: int
    stdout: str
    stderr: str
    seconds: float  # from the signal to the end
    cpu_seconds: float  # of these on a processor, whatever else keeps the machine busy
    in_start: bool  # the signal came before the first line of the command


class Workplace:
    """A folder with the tables and the model that the commands need."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.source = folder / "source"
        self.cache = folder / "cache"
        self.source.mkdir()
        self._write_tables()
        name = self.prepare()
        fit = Command("first fit", FIT, MODEL)
        self.run(fit, name)
        shutil.copy(name / MODEL, self.source / "known.safetensors")

    def _write_tables(self) -> None:
        rng = np.random.default_rng(0)

        def write(name: str, rows: int, columns: str) -> None:
            values = rng.normal(size=(rows, len(columns.split(","))))
            lines = "\n".join(
                ",".join(f"{value:.4f}" for value in row) for row in values
            )
            (self.source / name).write_text(f"{columns}\n{lines}\n")

        write("table.csv", 60, "a,b,u,v")
        write("numbers.csv", 60, "a,b,u,v")
        write("long.csv", 20_000, "a,b,u,v")

    def prepare(self) -> Path:
        """Make a fresh folder for one command, with temporary files of its own."""
        place = Path(tempfile.mkdtemp(dir=self.folder))
        for file in self.source.iterdir():
            os.link(file, place / file.name)
        (place / "tmp").mkdir()
        (place / "cache").mkdir()
        return place

    def start(self, command: Command, place: Path) -> subprocess.Popen:
        """Start the command in `place`."""
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "JAX_PLATFORMS": "cpu",
            "MPLBACKEND": "agg",
            "OPENBLAS_NUM_THREADS": "1",
            "TMPDIR": str(place / "tmp"),
            "MMLP_CACHE": str(self.cache if command.warm_cache else place / "cache"),
        }
        with (
            open(place / (command.stdin or os.devnull), "rb") as stdin,
            open(place / "stdout", "wb") as stdout,
            open(place / "stderr", "wb") as stderr,
        ):
            return subprocess.Popen(
                [sys.executable, "-c", CONSOLE_SCRIPT, *command.words.split()],
                cwd=place,
                env=environment,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                preexec_fn=_heed_interrupts,
            )

    def run(self, command: Command, place: Path) -> float:
        """Run the command undisturbed; returns the seconds it takes."""
        began = time.monotonic()
        status = self.start(command, place).wait()
        if status != 0:
            raise SystemExit(f"{command.name} fails: {(place / 'stderr').read_text()}")
        return time.monotonic() - began

    def interrupt(
        self, command: Command, place: Path, delay: float, *, in_training: bool
    ) -> Ending | None:
        """Send SIGINT after `delay` seconds; None if the command has ended before.

        With `in_training` the seconds count from its first checkpoint.
        """
        process = self.start(command, place)
        deadline = float("inf") if in_training else time.monotonic() + delay
        while time.monotonic() < deadline:
            if process.poll() is not None:
                return None
            if deadline == float("inf") and any(
                place.rglob("checkpoint-*.safetensors")
            ):
                deadline = time.monotonic() + delay
            time.sleep(0.001)
        try:
            in_start = not _catches(process.pid, signal.SIGTERM)
            cpu_seconds_before = _cpu_seconds(process.pid)
        except OSError:
            process.wait()
            return None
        if process.poll() is not None:
            return None
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        status, cpu_seconds = _wait(process, SECONDS_UNTIL_HUNG)
        return Ending(
            status=status,
            stdout=(place / "stdout").read_text(),
            stderr=(place / "stderr").read_text(),
            seconds=time.monotonic() - sent,
            cpu_seconds=cpu_seconds - cpu_seconds_before,
            in_start=in_start,
        )


def _heed_interrupts() -> None:
    """A process that a shell starts in the background ignores SIGINT; not here."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for the signal: that of SIGTERM is the command's own."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    raise ProcessLookupError(pid)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _wait(process: subprocess.Popen, seconds: float) -> tuple[int, float]:
    """The exit status of a process, minus the number of a signal, and its seconds on a processor.

    A process that does not end is killed.
    """
    deadline = time.monotonic() + seconds
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, usage.ru_utime + usage.ru_stime
        if time.monotonic() >= deadline:
            process.kill()
            deadline = float("inf")
        time.sleep(0.001)


def judge(
    ending: Ending, command: Command, place: Path, finished: Path
) -> tuple[str, list[str]]:
    """The kind of an ending, and what is wrong with it.

    Parameters
    ----------
    ending : how the interrupted process ended
    command : the command that it ran
    place : the folder of that process
    finished : the folder in which the same command has run undisturbed
    """
    lines = [
        line for line in ending.stderr.splitlines() if not PROGRESS.fullmatch(line)
    ]
    if ending.status == 0:
        kind = "after the work"
        problems = ["prints something"] if lines else []
    elif ending.in_start:
        kind = "before the command's first line"
        problems = [] if ending.status in (-signal.SIGINT, 130, 1) else ["wrong status"]
    else:
        kind = "after an epoch" if "Training stopped" in ending.stderr else "at once"
        problems = [] if ending.status == 130 else ["wrong status"]
        if len(lines) != 1 or not LAST_LINE.fullmatch(lines[0]):
            problems.append("not one line")
    if ending.seconds > MAX_SECONDS_TO_END:
        problems.append("too late")

    strays = [str(file) for pattern in TEMPORARY_FILES for file in place.rglob(pattern)]
    strays += [str(file) for file in (place / "tmp").iterdir()]
    if strays:
        problems.append(f"leaves {', '.join(strays)}")
    output = place / (command.output or "stdout")
    if (
        command.output is not None
        and output.exists()
        and not _is_whole(output, finished / output.name)
    ):
        problems.append(f"{output} is not whole")
    if ending.status == 0 and not output.exists():
        problems.append(f"{output} is missing")
    return kind, problems


def _is_whole(output: Path, finished: Path) -> bool:
    """Whether a file is as complete as that of an undisturbed command."""
    if output.suffix == ".safetensors":
        from mmlp.serialization import files

        files.read(output)
        return True
    if output.suffix == ".html":
        return output.read_text().rstrip().endswith("</html>")
    return output.read_bytes() == finished.read_bytes()


def main(
    number: int, seed: int, names: Sequence[str], folder: Path
) -> tuple[dict, list[str]]:
    """Interrupt commands in turn; returns counts and times, and every violation."""
    rng = np.random.default_rng(seed)
    workplace = Workplace(folder)
    commands = [command for command in COMMANDS if command.name in names]
    finished = {}
    seconds = {}
    for command in commands:
        finished[command.name] = workplace.prepare()
        seconds[command.name] = workplace.run(command, finished[command.name])
        if command.warm_cache:  # which the first run has filled
            seconds[command.name] = workplace.run(command, workplace.prepare())
    turns = [command for command in commands for _ in range(command.share)]

    counts = collections.Counter()
    slowest = collections.defaultdict(float)
    violations = []
    done = 0
    while done < number:
        command = turns[done % len(turns)]
        in_training = command.trains and rng.random() < 0.5
        longest = seconds[command.name] if rng.random() < 0.75 else SECONDS_OF_START
        if in_training:
            longest = SECONDS_OF_TRAINING
        place = workplace.prepare()
        delay = rng.uniform(0, longest)
        ending = workplace.interrupt(command, place, delay, in_training=in_training)
        if ending is None:
            counts["ended before the signal"] += 1
        else:
            done += not ending.in_start
            kind, problems = judge(ending, command, place, finished[command.name])
            counts[kind] += 1
            counts[f"{command.name}: {kind}"] += 1
            slowest[f"seconds, {kind}"] = max(
                slowest[f"seconds, {kind}"], ending.seconds
            )
            slowest["seconds on a processor"] = max(
                slowest["seconds on a processor"], ending.cpu_seconds
            )
            for problem in problems:
                violations.append(f"{command.name}, {kind}: {problem}; {ending}")
            print(json.dumps(counts), file=sys.stderr, flush=True)
        shutil.rmtree(place)
    for command in commands:
        if number >= len(turns) and not counts.keys() & _kinds_of(command):
            violations.append(f"{command.name}: never interrupted at work")
    trains = any(command.trains for command in commands)
    if trains and number >= len(turns) and not counts["after an epoch"]:
        violations.append("training was never interrupted in an epoch")
    report = {
        "counts": dict(counts),
        "slowest": dict(slowest),
        "seconds of undisturbed commands": seconds,
        "load": os.getloadavg(),
    }
    return report, violations


def _kinds_of(command: Command) -> set[str]:
    return {f"{command.name}: {kind}" for kind in ("at once", "after an epoch")}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--interrupts", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    known = [command.name for command in COMMANDS]
    parser.add_argument("--commands", nargs="+", choices=known, default=known)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        report, violations = main(
            arguments.interrupts, arguments.seed, arguments.commands, Path(name)
        )
    print(json.dumps(report, indent=1))
    if violations:
        sys.exit("\n".join(violations))
