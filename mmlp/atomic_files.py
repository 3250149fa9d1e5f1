"""Write a file in one step: it is complete, or what was there before.

The content goes to a temporary file beside the target, which then takes its place. Each
writer has a temporary file that no other writer uses. If two programs write the same
target, the result is the complete file of the one that finishes last.

A process that is killed outright leaves its temporary file behind. The next write to
the same target removes it once it is `STALE_AFTER_SECONDS` old and no process holds its
lock.
"""

import contextlib
import errno
import glob
import os
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from mmlp import temporary_files

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

TEMPORARY_SUFFIX = ".mmlp.tmp"
RANDOM_CHARACTERS = "?" * 8  # as a pattern: those that `tempfile` puts into a name
# Bytes of the target's name in that of its temporary file; systems allow 255 in all.
MAX_BYTES_OF_NAME = 200
STALE_AFTER_SECONDS = 3600

_umask_lock = threading.Lock()


def replace_file(path: Path, content: bytes) -> None:
    """Put `content` at `path` in one step that a crash or a full disk cannot split.

    Parameters
    ----------
    path : Path
        The file to write; see `open_replacement`.
    content : bytes
        All that the file holds afterwards.

    Raises
    ------
    OSError
        If the file cannot be written; the message tells what is at `path` now.
    """
    with open_replacement(path) as file:
        file.write(content)


@contextlib.contextmanager
def open_replacement(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing that takes the place of `path` at the end of the block.

    If the block raises, `path` stays as it was. A file that is replaced keeps its mode
    and, where the system allows it, its owner; a new file gets the mode that the umask
    of the process gives. A symbolic link is written through: the file that it points to
    is replaced or created. Pipes and devices cannot be replaced and are written to
    directly.

    Parameters
    ----------
    path : Path
        The file to write.

    Yields
    ------
    BinaryIO
        A file to write the content to, from its beginning.

    Raises
    ------
    OSError
        If the file cannot be written; the message tells what is at `path` now.
    """
    outcome = "what was there before is intact"
    try:
        if is_stream(path):
            outcome = "a part may have been written"
            with open(path, "wb") as stream:
                yield stream
            return

        target = resolve_target(path)
        with temporary_files.creating:
            descriptor, temporary = _create_temporary(target)
            temporary_files.known.add(temporary)
        try:
            with open(descriptor, "wb") as file:
                yield file
                file.flush()
                _copy_mode(file.fileno(), target)
                os.fsync(file.fileno())
            os.replace(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        finally:
            temporary_files.known.discard(temporary)

        outcome = "the new file is there, but may be lost if the system fails now"
        _sync_folder(target.parent)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(
            error.errno or errno.EIO,
            f"could not write {path} ({reason}); {outcome}. Free space or allow "
            "writing, then try again",
        ) from error


def is_stream(path: Path) -> bool:
    """Whether `path` is a pipe, a device or a socket, which has no content to keep.

    Raises
    ------
    OSError
        If the system cannot tell, such as for a link that points to itself.
    """
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def resolve_target(path: Path) -> Path:
    """Return the file that a write to `path` replaces or creates.

    Raises
    ------
    OSError
        If the link was planted by another user in a folder where everyone may write, or
        points to itself.
    """
    if not path.is_symlink():
        return path

    # The system's own rule (`fs.protected_symlinks` on Linux), which does not apply to
    # a link that is resolved here and not by opening it.
    if _is_planted(os.lstat(path), os.stat(path.parent), _user()):
        reason = "a link that another user made in a folder where everyone may write"
        raise PermissionError(errno.EACCES, reason, str(path))

    # A link may point to a file that is still to be created, but not to itself.
    with contextlib.suppress(FileNotFoundError):
        os.stat(path)
    return Path(os.path.realpath(path))


def _is_planted(link: os.stat_result, folder: os.stat_result, user: int | None) -> bool:
    """Whether a third user made this link, in a sticky folder open to everyone."""
    everyone_may_write = folder.st_mode & stat.S_ISVTX and folder.st_mode & stat.S_IWOTH
    return bool(everyone_may_write) and link.st_uid not in (user, folder.st_uid)


def _user() -> int | None:
    """Return the effective user ID, None on systems without one."""
    return os.geteuid() if hasattr(os, "geteuid") else None


def _create_temporary(target: Path) -> tuple[int, Path]:
    """Create a file beside `target` that no other process or user may read."""
    # Half a character at the cut is left out: some systems refuse names that are not
    # text.
    encoding = sys.getfilesystemencoding()
    name = os.fsencode(target.name)[:MAX_BYTES_OF_NAME].decode(
        encoding, errors="ignore"
    )
    prefix = f".{name}."
    _remove_stale_temporaries(target.parent, prefix)
    descriptor, path = tempfile.mkstemp(TEMPORARY_SUFFIX, prefix, target.parent)
    _lock(descriptor)
    return descriptor, Path(path)


def _remove_stale_temporaries(folder: Path, prefix: str) -> None:
    """Remove what killed processes of this user left of the same target."""
    if fcntl is None:
        return
    pattern = f"{glob.escape(prefix)}{RANDOM_CHARACTERS}{TEMPORARY_SUFFIX}"
    for leftover in folder.glob(pattern):
        with contextlib.suppress(OSError):  # another process may have removed it
            descriptor = os.open(leftover, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                status = os.fstat(descriptor)
                # On some network file systems locks do not reach other machines.
                old = time.time() - status.st_mtime > STALE_AFTER_SECONDS
                if old and status.st_uid == _user() and _lock(descriptor):
                    leftover.unlink()
            finally:
                os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Lock an open file until it is closed; return whether that worked."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _copy_mode(descriptor: int, target: Path) -> None:
    """Give an open file the mode and owner of `target`, or those of a new file."""
    if not hasattr(os, "fchmod"):  # Windows has no such modes
        return
    try:
        previous = os.stat(target)
    except FileNotFoundError:
        os.fchmod(descriptor, 0o666 & ~_umask())
        return

    status = os.fstat(descriptor)
    if (status.st_uid, status.st_gid) != (previous.st_uid, previous.st_gid):
        # Only the superuser gives files away.
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, previous.st_uid, previous.st_gid)
    os.fchmod(descriptor, previous.st_mode & 0o777)


def _umask() -> int:
    """Return the umask of the process, which can only be read by setting it."""
    with _umask_lock:
        mask = os.umask(0o077)  # strict: another thread may create a file meanwhile
        os.umask(mask)
    return mask


def _sync_folder(folder: Path) -> None:
    """Make the system write down that a file in `folder` has been replaced."""
    if os.name != "posix":  # elsewhere a folder cannot be opened
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:  # a folder that may be written to but not listed
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
