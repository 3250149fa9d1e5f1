"""Compiled programs in a folder, so that the next process need not compile them again.

JAX's own cache writes in place: of a process that is killed meanwhile it keeps half a program,
which warns and is compiled again for ever, and its bound on the size needs a further package. Here
each program is a whole file with its SHA-256, and those that were used least recently go. Whatever
is wrong with the folder, programs are compiled as if there were none.
"""

import contextlib
import hashlib
import os
import platform
import sys
import tempfile
import threading
from pathlib import Path

import jax

from mmlp.checkpoint import temporaries

LIMIT = 2**28  # bytes
VARIABLE = "MMLP_CACHE"  # a folder, or "off"
OFF = ("", "0", "off", "no", "false")
FATAL = 3  # of XLA's messages the only ones that are told
DIGEST = hashlib.sha256().digest_size
SUFFIX = ".program"
MACHINE = "mmlp-"  # how the folder of one kind of processors begins

active: "Programs | None" = None  # what is used now


def cache_programs(folder: str | os.PathLike | None = None) -> Path | None:
    """Keep compiled programs in a folder, by default in the user's cache; gives the folder.

    The same script then starts in a fraction of the time when it is run again. Call it first; from
    a later call that names another folder on, that one is used. It never holds more than 256 MB,
    and several processes may use it at once. `MMLP_CACHE`, in the environment, names another
    folder, or switches this off (`MMLP_CACHE=off`); then, where JAX has a cache already
    (`JAX_COMPILATION_CACHE_DIR`), and where there is no home, nothing is done, and None is given.
    Programs are code: files that others could have written are not read.

    >>> cache_programs("programs").name  # doctest: +SKIP
    'programs'
    """
    if folder is not None and not isinstance(folder, str | os.PathLike):
        got = f"got {type(folder).__name__}"
        raise ValueError(f"`cache_programs(folder=...)` must be a path, or left out, {got}.")
    global active
    if active is not None and folder is None:
        return active.path.parent
    if active is not None and folder is not None:  # another one, from now on
        path = Path(folder).expanduser()
        jax.config.update("jax_compilation_cache_dir", str(path))
        active.path = active._path = path / _machine()
        return path
    said = os.environ.get(VARIABLE)
    if jax.config.values["jax_compilation_cache_dir"] or (said is not None and said.lower() in OFF):
        return None
    try:
        path = Path(folder or said or _user_cache() / "matrix-mlp" / "programs").expanduser()
    except RuntimeError:
        return None
    jax.config.update("jax_compilation_cache_dir", str(path))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    active = Programs(path / _machine())
    _use(active)
    return path


class Programs:
    """What JAX asks of a cache: `get` and `put` bytes by a key. Neither ever fails."""

    def __init__(self, path: Path):
        self.path = self._path = path
        self.here = threading.local()  # of each thread: whether it is to find nothing

    @contextlib.contextmanager
    def unused(self):
        """Neither read nor written by this thread."""
        self.here.unused = True
        try:
            yield
        finally:
            self.here.unused = False

    def get(self, key: str) -> bytes | None:
        """What was put under this key, if it is there and whole."""
        if getattr(self.here, "unused", False):
            return None
        with contextlib.suppress(OSError):
            file = self.path / f"{key}{SUFFIX}"
            digest, value = _parted(_own_bytes(file))
            if hashlib.sha256(value).digest() == digest:
                os.utime(file)  # it was used now
                return value
            file.unlink()
        return None

    def put(self, key: str, value: bytes) -> None:
        """Write a whole file, or nothing; then remove the oldest ones beyond the limit."""
        if getattr(self.here, "unused", False):
            return
        with contextlib.suppress(OSError):
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            with temporaries.creating:
                file, name = tempfile.mkstemp(SUFFIX, ".new-", self.path)
                temporaries.known.add(Path(name))
            try:
                with open(file, "wb") as new:
                    new.write(hashlib.sha256(value).digest() + value)
                os.replace(name, self.path / f"{key}{SUFFIX}")
            except OSError:
                os.unlink(name)
                raise
            finally:
                temporaries.known.discard(Path(name))
            self._bound()

    def _bound(self) -> None:
        """Remove what was used least recently, also files that a killed process has left.

        Of these alone, whatever else is there: the folder may be one of the user's.
        """
        known = []
        for file in self.path.parent.glob(f"{MACHINE}*/*{SUFFIX}"):
            with contextlib.suppress(OSError):  # another process may have removed it
                if file.is_file():
                    known.append((file.stat().st_mtime, file.stat().st_size, file))
        size = sum(entry[1] for entry in known)
        for _, length, file in sorted(known):
            if size <= LIMIT:
                break
            file.unlink(missing_ok=True)
            size -= length


def _own_bytes(file: Path) -> bytes:
    """Of a file that nobody else has written: programs are code."""
    with file.open("rb") as opened:
        about = os.fstat(opened.fileno())
        if hasattr(os, "getuid") and (about.st_uid != os.getuid() or about.st_mode & 0o022):
            raise PermissionError(f"{file} may be another user's")
        return opened.read()


def _parted(content: bytes) -> tuple[bytes, bytes]:
    return content[:DIGEST], content[DIGEST:]


def _use(programs: Programs) -> None:
    """As JAX's cache, which has no public way to give it another one.

    Where a version of JAX lacks these names, its own cache serves.
    """
    with contextlib.suppress(ImportError, AttributeError):
        from jax._src import compilation_cache

        read = compilation_cache.get_executable_and_time

        def silently(*arguments):
            with contextlib.suppress(Exception), silent():
                return read(*arguments)
            return None, None  # it cannot be read: it is compiled again, and replaced

        compilation_cache.reset_cache()
        compilation_cache.get_file_cache = lambda path: (programs, path)
        compilation_cache.get_executable_and_time = silently


class Silence:
    """Threads that want no messages of XLA: it complains of programs made on this very machine."""

    def __init__(self):
        self.lock, self.threads = threading.Lock(), 0

    @contextlib.contextmanager
    def __call__(self):
        self._add(1)
        try:
            yield
        finally:
            self._add(-1)

    def _add(self, number: int) -> None:
        from jax._src.lib import utils  # pyright: ignore[reportPrivateImportUsage]

        with self.lock:
            self.threads += number
            usual = os.environ.get("TF_CPP_MIN_LOG_LEVEL", "")
            usual = int(usual) if usual.isdecimal() else 1
            utils.absl_set_min_log_level(FATAL if self.threads else usual)


silent = Silence()


def _user_cache() -> Path:
    """The folder that the system has for such files."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _machine() -> str:
    """A name for processors of one kind: programs of another one may not run on this one."""
    features = platform.processor()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        features += "".join(line for line in lines if line.startswith(("flags", "Features")))
    text = f"{platform.machine()} {features}"
    return f"{MACHINE}{hashlib.sha256(text.encode()).hexdigest()[:16]}"
