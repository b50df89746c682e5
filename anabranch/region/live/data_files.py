"""The database as a file: what can be told of it without opening it (S13.6).

Files that were put back from a copy may be old. Two facts show it without being told:

- The *identity* of the file: device, inode and time of birth. Each start stores it in the database.
  A copy of the file has another identity.
- The *mark*: a small file beside the database, which holds the position of the newest commit. A
  database whose log ends earlier was overwritten with an older copy, or has lost a part of its
  write-ahead log. The mark is written after the commit is on disk and not synced, so it is never
  ahead of what a power failure leaves.

Neither shows a rollback of the whole volume, which brings back the inodes and the mark as well.

Files may also be removed or replaced under a running region. SQLite does not notice it in WAL mode:
it goes on writing into the open files, which no start will find.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final, Optional
from urllib.parse import quote

from xxhash import xxh3_64_hexdigest

from anabranch.region.storage import wal

MARK_NAME: Final = "region.mark"

# A start writes less than this.
_PROBE_BYTES: Final = 64 << 10
_SPACE: Final = "free space on its file system, or raise the limit"
_RIGHTS: Final = "a region must be able to write there"
# errno → what would be right.
_RIGHT: Final = {
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.EFBIG: _SPACE,
    errno.EROFS: _RIGHTS,
    errno.EACCES: _RIGHTS,
    errno.EPERM: _RIGHTS,
}

_AT_FDCWD: Final = -100
_STATX_BTIME: Final = 0x800
_STATX_BYTES: Final = 256
# Offsets in `struct statx`: the mask of known fields, and the time of birth (seconds, nanoseconds).
_MASK_AT: Final = 0
_BIRTH_AT: Final = 80


class DataFiles:
    """The files of one database: identity, mark and write-ahead log."""

    def __init__(self, path: Path) -> None:
        self._path: Final = path
        self._wal: Final = path.with_name(f"{path.name}-wal")
        self._mark: Final = path.with_name(MARK_NAME)
        self._file: Optional[int] = None
        # Device and inode of the database and of its write-ahead log, as they were opened.
        self._open: dict[Path, tuple[int, int]] = {}

    def identity(self) -> bytes:
        """``device:inode:birth`` of the file; birth is 0 where the file system does not tell it.

        Raises:
            OSError: The file does not exist or cannot be reached.
        """
        found = os.stat(self._path)
        return b"%d:%d:%d" % (found.st_dev, found.st_ino, _birth_ns(self._path))

    def wal_damage(self) -> str:
        """What is damaged in the write-ahead log, in words; empty if it is sound or absent.

        Call it before SQLite opens the database, because SQLite drops what follows a damaged frame.
        """
        try:
            return wal.damage(self._wal.read_bytes())
        except OSError:
            return ""

    def opened(self) -> None:
        """Notes that SQLite has opened the files. `lost` compares with those that it opened."""
        for path in (self._path, self._wal):
            with suppress(OSError):
                self._open[path] = _inode(path)

    def lost(self) -> str:
        """How an open file is no longer the one at its path, in words; empty if none is known."""
        for path, former in self._open.items():
            try:
                if _inode(path) != former:
                    return f"{path} was replaced by another file while the region runs"
            except (FileNotFoundError, NotADirectoryError):
                return f"{path} was removed while the region runs"
            except OSError:
                pass  # The path cannot be looked at, so nothing is known.
        return ""

    def read_mark(self) -> int:
        """The position that the mark holds; 0 if there is no readable mark."""
        try:
            digits, check = self._mark.read_bytes().split()
            return int(digits) if check == _check(digits) else 0
        except (OSError, ValueError):
            return 0

    def write_mark(self, position: int) -> None:
        """Overwrites the mark in place; it takes some microseconds.

        A failure is ignored: the former mark is still true, because positions only grow.
        """
        try:
            if self._file is None:
                self._file = os.open(self._mark, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            digits = b"%020d" % position
            os.pwrite(self._file, digits + b" " + _check(digits) + b"\n", 0)
        except OSError:
            pass

    def close(self) -> None:
        """Closes the file of the mark."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def write_problem(directory: Path) -> str:
    """Why files in a directory cannot be written, and what would be right; found by writing one.

    Empty if a file of `_PROBE_BYTES` can be written.
    """
    try:
        with tempfile.NamedTemporaryFile(prefix=".probe-", dir=directory, buffering=0) as file:
            if file.write(bytes(_PROBE_BYTES)) < _PROBE_BYTES:
                file.write(b"-")  # The rest does not fit: this attempt says why.
            os.fsync(file.fileno())
    except OSError as error:
        free = ""
        with suppress(OSError):
            free = f" ({shutil.disk_usage(directory).free:,} bytes are free)"
        right = _RIGHT.get(error.errno or 0, "check the device and the kernel's log")
        return f"{error.strerror}{free}: {right}"
    return ""


def read_only_uri(path: Path) -> str:
    """The URI with which SQLite opens a file of any name without writing to it."""
    return f"file:{quote(os.fsencode(path.absolute()))}?mode=ro"


def give_to_owner(directory: Path) -> None:
    """Gives the files in a data directory to its owner, if this process is root.

    `restore` and `repair` often run as root, and the region as a user of its own. Raises OSError.
    """
    if os.geteuid() != 0:
        return
    owner = directory.stat()
    for path in directory.rglob("*"):
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def missing_commits(wal_damage: str, position: int, mark: int) -> str:
    """How files show that they lack commits that were once on disk; empty if they do not.

    `position` is the last row of the log, `mark` the position in the mark.
    """
    if wal_damage:
        return f"the write-ahead log of the database is damaged: {wal_damage}"
    if position < mark:
        return (
            f"the database ends at row {position} of the log, and row {mark} was once on disk: the"
            " file is an older copy, or has lost a part of its write-ahead log"
        )
    return ""


def _inode(path: Path) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino


def _check(digits: bytes) -> bytes:
    return xxh3_64_hexdigest(digits).encode()


def _birth_ns(path: Path) -> int:
    """The time of birth of a file in ns, through statx(2); 0 if it is unknown."""
    answer = ctypes.create_string_buffer(_STATX_BYTES)
    try:
        call = ctypes.CDLL(None).statx
    except AttributeError:  # A C library without statx.
        return 0
    if call(_AT_FDCWD, os.fsencode(path), 0, _STATX_BTIME, answer) != 0:
        return 0
    if not ctypes.c_uint32.from_buffer(answer, _MASK_AT).value & _STATX_BTIME:
        return 0
    seconds = ctypes.c_int64.from_buffer(answer, _BIRTH_AT).value
    return seconds * 1_000_000_000 + ctypes.c_uint32.from_buffer(answer, _BIRTH_AT + 8).value
