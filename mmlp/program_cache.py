"""Compiled programs on disk, so that the next process need not compile them again.

JAX's own cache writes files in place: if a process is killed meanwhile, half a program
stays there, and every later process warns and compiles again. Here each program is a
complete file with a checksum, and the least recently used ones are removed. A problem
with the folder causes at most a warning, and programs are compiled.

Programs are code. So a file is only read if nobody but its owner, the user of this
process, could have written it, and if it holds the program of its own key.
"""

import contextlib
import hashlib
import os
import platform
import stat
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

from mmlp import temporary_files

MAX_BYTES = 2**28
ENVIRONMENT_VARIABLE = "MMLP_CACHE"  # a folder, or a word that switches the cache off
WORDS_FOR_OFF = ("", "0", "off", "no", "false")
SUFFIX = ".program"
FOLDER_PREFIX = "mmlp-"  # of the folder of one kind of processor
OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
DIGEST_BYTES = hashlib.sha256().digest_size
# XLA warns that a program was compiled for another machine although it was compiled on
# this one: it compares the processor's features with preferences of its own.
LOADER_MESSAGE = b"cpu_aot_loader"

_store: "ProgramStore | None" = None
_stderr_lock = threading.Lock()


def cache_programs(folder: str | os.PathLike | None = None) -> Path | None:
    """Store compiled programs on disk, so that a script starts faster the next time.

    Call it before the first fit. The folder never holds more than 256 MB of programs,
    and several processes may use it at once.

    Parameters
    ----------
    folder : path, default=None
        Where to store programs; by default a folder in the user's cache. The
        environment variable `MMLP_CACHE` names another default, or switches the cache
        off (`MMLP_CACHE=off`). A later call with another folder changes it.

    Returns
    -------
    pathlib.Path or None
        The folder; None if the cache is off: because of `MMLP_CACHE`, because JAX has a
        cache already (`JAX_COMPILATION_CACHE_DIR`), or because the user has no home.

    Warns
    -----
    UserWarning
        If the folder belongs to another user or if others may write to it. It is not
        used then.

    Examples
    --------
    >>> cache_programs("programs").name  # doctest: +SKIP
    'programs'
    """
    if folder is not None and not isinstance(folder, str | os.PathLike):
        received = type(folder).__name__
        raise ValueError(
            f"`cache_programs(folder=...)` must be a path, or left out, got {received}."
        )
    global _store
    if _store is not None and folder is None:
        return _store.path.parent

    variable = os.environ.get(ENVIRONMENT_VARIABLE)
    is_off = variable is not None and variable.lower() in WORDS_FOR_OFF
    if is_off or jax_has_a_cache():
        return None
    try:
        path = Path(
            folder or variable or _user_cache() / "matrix-mlp" / "programs"
        ).expanduser()
    except RuntimeError:  # there is no home
        return None
    path = path.absolute()  # the process may change its working directory
    _store = ProgramStore(path / _processor_folder())
    return path


def jax_has_a_cache() -> bool:
    """Whether JAX's own cache of compiled programs is in use."""
    import jax

    folder = getattr(jax.config, "jax_compilation_cache_dir", None)
    return bool(folder) and getattr(jax.config, "jax_enable_compilation_cache", True)


def active_store() -> "ProgramStore | None":
    """Return the store that `cache_programs` chose, if any."""
    return _store


class ProgramStore:
    """Bytes by key in the files of one folder; neither `get` nor `put` ever fails.

    Parameters
    ----------
    path : Path
        The folder. It is created, for its owner alone, when the first program is
        stored.
    """

    def __init__(self, path: Path):
        self.path = path
        self.has_warned = False

    def get(self, key: str) -> bytes | None:
        """Return what is stored under a key, if it is complete and of this user."""
        file = self.path / f"{key}{SUFFIX}"
        with contextlib.suppress(OSError):
            if not self._is_safe():
                return None
            content = _read_own_file(file)
            digest = content[:DIGEST_BYTES]
            value = content[DIGEST_BYTES:]
            if digest == _digest(key, value):
                os.utime(file)  # the time of its last use
                return value
            file.unlink()
        return None

    def put(self, key: str, value: bytes) -> None:
        """Store a program, and remove the oldest ones beyond the limit."""
        with contextlib.suppress(OSError):
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not self._is_safe():
                return
            with temporary_files.creating:
                # Its mode is 0600.
                descriptor, name = tempfile.mkstemp(SUFFIX, ".new-", self.path)
                temporary_files.known.add(Path(name))
            try:
                with open(descriptor, "wb") as file:
                    file.write(_digest(key, value) + value)
                os.replace(name, self.path / f"{key}{SUFFIX}")
            except OSError:
                os.unlink(name)
                raise
            finally:
                temporary_files.known.discard(Path(name))
            self._remove_oldest()

    def _is_safe(self) -> bool:
        """Whether only this user can write into the folder; warn once if not."""
        try:
            status = self.path.lstat()
        except FileNotFoundError:
            return False
        safe = stat.S_ISDIR(status.st_mode) and _is_own(status)
        if not safe and not self.has_warned:
            self.has_warned = True
            warnings.warn(
                f"`cache_programs`: {self.path} is not a folder of this user that "
                "nobody else may write to, so programs are compiled again; make it so "
                "(`chmod 700`), or choose another folder.",
                stacklevel=2,
            )
        return safe

    def _remove_oldest(self) -> None:
        """Remove what was used least recently, and what killed processes have left.

        Only programs are removed: the folder above may be one of the user's own.
        """
        files = []
        for file in self.path.parent.glob(f"{FOLDER_PREFIX}*/*{SUFFIX}"):
            with contextlib.suppress(OSError):  # another process may have removed it
                status = file.lstat()
                if stat.S_ISREG(status.st_mode):
                    files.append((status.st_mtime, status.st_size, file))
        total = sum(size for _, size, _ in files)
        for _, size, file in sorted(files):
            if total <= MAX_BYTES:
                break
            file.unlink(missing_ok=True)
            total -= size


@contextlib.contextmanager
def hide_loader_messages() -> Iterator[None]:
    """Drop what XLA prints on stderr about programs from disk, and nothing else."""
    with _stderr_lock, tempfile.TemporaryFile() as captured:
        try:
            stderr = os.dup(2)
        except OSError:  # stderr is closed
            yield
            return
        try:
            os.dup2(captured.fileno(), 2)
            yield
        finally:
            os.dup2(stderr, 2)
            captured.seek(0)
            lines = captured.read().splitlines(keepends=True)
            others = [line for line in lines if LOADER_MESSAGE not in line]
            with contextlib.suppress(OSError):
                os.write(2, b"".join(others))
            os.close(stderr)


def _digest(key: str, value: bytes) -> bytes:
    """Return the checksum of a program and its key, so that renamed files fail."""
    return hashlib.sha256(key.encode() + b"\0" + value).digest()


def _read_own_file(file: Path) -> bytes:
    """Read a regular file of this user, not a link and not writable by others."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    flags |= getattr(os, "O_BINARY", 0)
    with open(os.open(file, flags), "rb") as opened:
        status = os.fstat(opened.fileno())
        if not (stat.S_ISREG(status.st_mode) and _is_own(status)):
            raise PermissionError(f"{file} may be another user's")
        return opened.read()


def _is_own(status: os.stat_result) -> bool:
    if not hasattr(os, "getuid"):  # Windows: the folder is in the user's profile
        return True
    return status.st_uid == os.getuid() and not status.st_mode & OTHERS_MAY_WRITE


def _user_cache() -> Path:
    """Return the folder that the system has for files of this kind."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _processor_folder() -> str:
    """Return a folder name for this kind of processor: programs may need its kind."""
    features = platform.processor()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        features += "".join(
            line for line in lines if line.startswith(("flags", "Features"))
        )
    text = f"{platform.machine()} {features}"
    return f"{FOLDER_PREFIX}{hashlib.sha256(text.encode()).hexdigest()[:16]}"
