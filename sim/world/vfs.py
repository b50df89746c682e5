"""SQLite on a simulated disk: the real SQL runs on a VFS (apsw) whose files live in memory."""

from __future__ import annotations

import sqlite3
import types
from collections.abc import Coroutine, Generator, Sequence
from pathlib import Path
from typing import Any, Final, Optional, TypeVar

import apsw

from anabranch.region.database import SqlConnection
from anabranch.sim.world.disk import Disk
from anabranch.sim.world.file import SECTOR_BYTES, File

T = TypeVar("T")

PAGE_BYTES: Final = 1024
"""Small, as all limits here: tables soon have more than one page, and a commit more than one frame that may be lost or torn."""
_POWERSAFE_OVERWRITE: Final = 0x1000

# Disks in use, by the directory that file names begin with. The VFS is one for all of them.
_DISKS: Final[dict[str, Disk]] = {}


class _OpenFile:
    """What SQLite calls for an open file (names and meanings: sqlite3_io_methods)."""

    def __init__(self, disk: Disk, file: File) -> None:
        self.disk = disk
        self.file = file

    def xRead(self, amount: int, offset: int) -> bytes:
        return bytes(memoryview(self.file.seen)[offset : offset + amount])

    def xWrite(self, data: bytes, offset: int) -> None:
        disk = self.disk
        if disk.failing and not disk.is_dead():
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
    """Finds the disk by the path's first part. Time and chance stand still: nothing that SQLite does here depends on them."""

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


class _Cursor:
    async def close(self) -> None: ...


class DiskConnection:
    """What `region.database` asks of a connection; a write does not wait. Errors are sqlite3's, as live."""

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

    async def executemany(self, sql: str, parameters: Sequence[Any]) -> _Cursor:
        try:
            self.plain.executemany(sql, parameters)
        except apsw.Error as error:
            raise sqlite3.OperationalError(str(error)) from error
        return _Cursor()

    async def rollback(self) -> None:
        if self.plain.in_transaction:
            try:
                self.plain.execute("ROLLBACK")
            except apsw.Error as error:
                raise sqlite3.OperationalError(str(error)) from error

    async def close(self) -> None: ...


@types.coroutine
def _moment() -> Generator[None, None, None]:
    """What a reader waits for: that somebody goes on with it."""
    yield


class ReadingConnection(DiskConnection):
    """What is read, the loop hears of later: others may have been there in between."""

    async def execute_fetchall(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        rows = self._fetched(sql, parameters)
        await _moment()
        return rows


class Opener:
    """Opens the files of one disk: one real connection, exclusive, so that SQLite needs no shared memory; its readers share it."""

    def __init__(self, disk: Disk) -> None:
        global _vfs
        if _vfs is None:
            _vfs = _Vfs()
        _DISKS[disk.name] = disk
        self.disk = disk
        self._connection: Optional[DiskConnection] = None  # that writes

    async def connect(self, path: Path, reads_only: bool) -> SqlConnection:
        if self._connection is None:
            plain = apsw.Connection(f"{self.disk.name}/{path.name}", vfs="anabranch-simulation")
            plain.execute("PRAGMA locking_mode=EXCLUSIVE").fetchall()
            plain.execute(f"PRAGMA page_size={PAGE_BYTES}").fetchall()  # only a new file takes it
            self._connection = DiskConnection(plain, self.disk)
        return (
            ReadingConnection(self._connection.plain, self.disk) if reads_only else self._connection
        )

    def close(self) -> None:
        """Closes the connection; SQLite then empties its WAL into the file, unless the disk is dead."""
        if self._connection is not None:
            plain, self._connection = self._connection.plain, None
            try:
                plain.close(True)
            except apsw.Error:  # a dead or failing disk: nothing of it counts
                pass

    def forget(self) -> None:
        """The disk is not needed any more."""
        self.close()
        _DISKS.pop(self.disk.name, None)


def go_on(work: Coroutine[Any, Any, T]) -> Optional[tuple[T]]:
    """Takes a coroutine to its next wait for the disk: None; or to its end: the result. Here, since compiled code pays for exceptions."""
    try:
        work.send(None)
    except StopIteration as end:
        return (end.value,)
    return None


def run(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for the disk alone, with nothing in between."""
    while True:
        done = go_on(work)
        if done is not None:
            return done[0]
