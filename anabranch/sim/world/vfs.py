"""SQLite on a simulated disk: the real SQL runs on a VFS (apsw) whose files are in memory."""

from __future__ import annotations

import sqlite3
import types
from collections.abc import Coroutine, Generator, Sequence
from pathlib import Path
from typing import Any, Final, Optional, TypeVar

import apsw

from anabranch.region.live.sql_connections import SqlReader, SqlWriter
from anabranch.region.live.sql_thread import Done, Group, transact
from anabranch.sim.world.disk import Disk
from anabranch.sim.world.file import SECTOR_BYTES, File

T = TypeVar("T")

PAGE_BYTES: Final = 1024
"""Small, like all limits of the simulator.

Tables soon have several pages, and a commit has several frames that may be lost or torn.
"""
_POWERSAFE_OVERWRITE: Final = 0x1000
# A simulation runs in one thread, so connections need no mutex.
_OPEN_FLAGS: Final = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_NOMUTEX

# Directory at the beginning of a file name → disk. All disks share one VFS.
_DISKS: Final[dict[str, Disk]] = {}


class _OpenFile:
    """The methods that SQLite calls for an open file (names and meanings: sqlite3_io_methods)."""

    def __init__(self, disk: Disk, file: File) -> None:
        self.disk = disk
        self.file = file

    def xRead(self, amount: int, offset: int) -> bytes:
        return bytes(memoryview(self.file.seen)[offset : offset + amount])

    def xWrite(self, data: bytes, offset: int) -> None:
        disk = self.disk
        if disk.failing in ("io", "full") and not disk.is_dead():
            disk.errors += 1
            if disk.failing == "full":
                raise apsw.FullError("the simulated disk is full")
            raise apsw.IOError("the simulated disk fails")
        if disk.step():
            self.file.write(offset, bytes(data))

    def xTruncate(self, size: int) -> None:
        if self.disk.step():
            self.file.truncate(size)

    def xSync(self, flags: int) -> None:
        if self.disk.failing == "io" and not self.disk.is_dead():
            self.disk.errors += 1
            raise apsw.IOError("the simulated disk fails")
        if self.disk.step():
            self.file.sync()

    def xFileSize(self) -> int:
        return len(self.file.seen)

    def xSectorSize(self) -> int:
        return SECTOR_BYTES

    def xDeviceCharacteristics(self) -> int:
        return _POWERSAFE_OVERWRITE

    def xLock(self, level: int) -> None: ...

    def xUnlock(self, level: int) -> None: ...

    def xCheckReservedLock(self) -> bool:
        return False

    def xFileControl(self, operation: int, pointer: int) -> bool:
        return False

    def xClose(self) -> None: ...


class _Vfs(apsw.VFS):
    """Finds the disk by the first part of the path.

    Time and random bytes are constants; no use that SQLite makes of them here matters.
    """

    def __init__(self) -> None:
        super().__init__("anabranch-simulation", "")

    def xOpen(self, name: Any, flags: list[int]) -> Any:
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        disk = _DISKS[path.split("/")[0]]
        if path not in disk.files:
            disk.files[path] = File()
        return _OpenFile(disk, disk.files[path])

    def xDelete(self, name: str, sync: bool) -> None:
        disk = _DISKS[name.split("/")[0]]
        if disk.step():
            disk.files.pop(name, None)

    def xAccess(self, name: str, flags: int) -> bool:
        return name in _DISKS[name.split("/")[0]].files

    def xFullPathname(self, name: str) -> str:
        return name

    def xRandomness(self, amount: int) -> bytes:
        return bytes(amount)

    def xSleep(self, microseconds: int) -> int:
        return microseconds

    def xCurrentTime(self) -> float:
        return 2440587.5

    def xCurrentTimeInt64(self) -> int:
        return 210866760000000

    def xGetLastError(self) -> tuple[int, str]:
        return 0, ""


_vfs: Optional[_Vfs] = None


class DiskConnection:
    """A connection as `region.live.database` uses it. Writes do not wait; errors are sqlite3's."""

    def __init__(self, plain: apsw.Connection, disk: Disk) -> None:
        self.plain = plain
        self.disk = disk

    async def execute_fetchall(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        if sql.startswith("PRAGMA wal_autocheckpoint"):
            sql = f"PRAGMA wal_autocheckpoint={self.disk.checkpoint_pages}"
        return self._fetched(sql, parameters)

    def _fetched(self, sql: str, parameters: Sequence[Any]) -> list[Any]:
        try:
            return self.plain.execute(sql, parameters).fetchall()
        except apsw.Error as error:
            raise sqlite3.OperationalError(str(error)) from error

    async def transact(self, groups: Sequence[Group]) -> None:
        try:
            transact(self.plain, groups)
        except apsw.Error as error:
            raise sqlite3.OperationalError(str(error)) from error

    def begin_transaction(self, groups: Sequence[Group], done: Done) -> None:
        try:
            run(self.transact(groups))
        except sqlite3.Error as error:
            done(None, error)
        else:
            done(None, None)

    async def close(self) -> None: ...


@types.coroutine
def _moment() -> Generator[None, None, None]:
    """Lets a reader wait until `go_on` is called again."""
    yield


class ReadingConnection(DiskConnection):
    """A connection for reading: rows arrive later, so other events may fall between them.

    A disk that fails reads fails every read here: SQLite asks it only for pages that it has not.
    """

    async def execute_fetchall(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        if self.disk.failing == "reads" and not self.disk.is_dead():
            self.disk.errors += 1
            raise sqlite3.OperationalError("the simulated disk cannot be read")
        rows = self._fetched(sql, parameters)
        await _moment()
        return rows


class Opener:
    """Opens the files of one disk.

    There is one real connection, exclusive, so that SQLite needs no shared memory; readers share
    it.
    """

    def __init__(self, disk: Disk) -> None:
        global _vfs
        if _vfs is None:
            _vfs = _Vfs()
        _DISKS[disk.name] = disk
        self.disk = disk
        self._connection: Optional[DiskConnection] = None  # the writing one

    async def writer(self, path: Path) -> SqlWriter:
        """The connection that writes."""
        return self._opened(path)

    async def reader(self, path: Path) -> SqlReader:
        """A connection that reads."""
        return ReadingConnection(self._opened(path).plain, self.disk)

    def _opened(self, path: Path) -> DiskConnection:
        if self._connection is None:
            plain = apsw.Connection(
                f"{self.disk.name}/{path.name}", flags=_OPEN_FLAGS, vfs="anabranch-simulation"
            )
            plain.execute("PRAGMA locking_mode=EXCLUSIVE").fetchall()
            # Only a new file adopts the page size.
            plain.execute(f"PRAGMA page_size={PAGE_BYTES}").fetchall()
            self._connection = DiskConnection(plain, self.disk)
        return self._connection

    def close(self) -> None:
        """Closes the connection. SQLite copies its WAL into the file unless the disk is dead."""
        if self._connection is not None:
            plain, self._connection = self._connection.plain, None
            try:
                plain.close(True)
            except apsw.Error:  # a dead or failing disk: its writes are ignored anyway
                pass

    def forget(self) -> None:
        """Closes the connection and removes the disk from the VFS."""
        self.close()
        _DISKS.pop(self.disk.name, None)


def go_on(work: Coroutine[Any, Any, T]) -> Optional[tuple[T]]:
    """Runs a coroutine to its next wait for the disk (returns None) or to its end ((result,)).

    It is a function of this module because exceptions are slow in compiled code.
    """
    try:
        work.send(None)
    except StopIteration as end:
        return (end.value,)
    return None


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine that waits only for the disk to its end; returns its result."""
    while True:
        done = go_on(work)
        if done is not None:
            return done[0]
