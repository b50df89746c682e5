"""A region's data directory while no region uses it: check, backup, restore, repair.

Nothing here decides about data. A restored or rebuilt region recovers from the other regions when
it starts (S13.7).
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, Optional

from anabranch.region.engine.errors import Damaged, StorageError
from anabranch.region.engine.settings import Settings
from anabranch.region.live.damaged_log import DamagedLog, Salvaged
from anabranch.region.live.data_files import (
    MARK_NAME,
    DataFiles,
    give_to_owner,
    missing_commits,
    read_only_uri,
    write_problem,
)
from anabranch.region.live.database import FILE_NAME, Database
from anabranch.region.live.sql_errors import cannot_write
from anabranch.region.live.sql_safety import defend, refusal, strange_schema
from anabranch.region.live.starting import replay_limits, stored_members
from anabranch.region.storage import loading, schema
from anabranch.region.storage.schema import IDENTITY_ROWS

_FINDINGS_MAX: Final = 20
# Steps of SQLite's machine between two words about the progress of a copy.
_STEPS_BETWEEN: Final = 500
# Meta rows that a rebuilt region keeps beside its identity (S13.8).
_KEPT_ROWS: Final = ("lost", "called_lost", "lost_at", "id_floor", "patience", "rebuild_from")
# The new database, until the damaged one is moved.
_REBUILT_NAME: Final = "rebuilt.sqlite"


class TargetExists(StorageError):
    """The file of a new backup exists."""


class Inspection:
    """What a look at a data directory found. `findings` say what is damaged; none if all is sound.

    `name` and `cluster` are those of the region, empty if they could not be read. `members` are
    the names of the members that are not lost. `repaired` is set if `set_aside` has made the
    database and the region has not started since: the blocks that wait in its salvage, and the
    highest counter of its own effects in them. `gaps` say which effects are in no row of the log,
    although later ones are: the region can be served, and other regions get a snapshot (S13.10).
    """

    def __init__(self) -> None:
        self.findings: list[str] = []
        self.gaps: list[str] = []
        self.name = ""
        self.cluster = ""
        self.members: list[str] = []
        self.repaired: Optional[Salvaged] = None
        self.position = 0
        self.keys = 0
        self.entries = 0

    def find(self, text: str) -> None:
        """Adds a finding; after the first twenty they are left out."""
        if text not in self.findings and len(self.findings) < _FINDINGS_MAX:
            self.findings.append(text)


def database_file(directory: Path) -> Path:
    """The database in a data directory. Raises StorageError if there is none."""
    path = directory / FILE_NAME
    if not path.exists():
        raise StorageError(f"there is no {FILE_NAME} in {directory}")
    return path


async def inspect(directory: Path) -> Inspection:
    """Reads everything in a data directory, and compares it with its checksums.

    Raises:
        StorageError: There is no database, or it cannot be opened for another reason than damage.
    """
    path = database_file(directory)
    inspection = Inspection()
    try:
        with closing(sqlite3.connect(read_only_uri(path), uri=True)) as connection:
            defend(connection)
            if found := strange_schema(connection):
                inspection.find(refusal(path, found))
                return inspection
    except sqlite3.Error:
        pass  # The database says below what is wrong.
    files = DataFiles(path)
    wal_damage = files.wal_damage()
    database = Database(directory)
    try:
        await _read_all(database, inspection)
    except Damaged as error:
        inspection.find(str(error))
    except StorageError as error:
        problem = await asyncio.to_thread(_problem, error, directory)
        raise StorageError(f"{error}{problem}") from error
    finally:
        await database.close()
    if wal_damage or not inspection.findings:
        # The mark of a rebuilt database is that of the damaged one, until the next start.
        mark = files.read_mark() if inspection.repaired is None else 0
        missing = missing_commits(wal_damage, inspection.position, mark)
        if missing:
            inspection.find(missing)
    return inspection


async def _read_all(database: Database, inspection: Inspection) -> None:
    meta = await database.open_read_only()
    if not meta:
        raise StorageError(f"{database.path} is not the database of a region")
    members = stored_members(meta)
    inspection.name = meta.get("name", b"").decode(errors="replace")
    inspection.cluster = meta.get("cluster", b"").decode(errors="replace")
    inspection.members = [member.name for member in members if not member.lost]
    async for text in database.damaged_rows():
        inspection.find(text)
    own = next((one.region_id for one in members if one.name == inspection.name), 0)
    ids = [member.region_id for member in members]
    stored = await database.load(meta, own, ids, *replay_limits(Settings()))
    inspection.position = stored.position
    inspection.keys = len(stored.keyspace.keys)
    inspection.entries = sum(stream.length() for stream in stored.keyspace.keys.values())
    names = {member.region_id: member.name for member in members}
    for gap in (await database.gaps())[:_FINDINGS_MAX]:
        inspection.gaps.append(
            f"the effects {gap.first} to {gap.last} of {names.get(gap.origin, gap.origin)} before"
            f" row {gap.position} of the log are in no row"
        )
    # Every start writes a life. A backup has one, and a database that was rebuilt has none.
    if stored.number("restored") and not stored.number("life"):
        inspection.repaired = Salvaged()
        figures = await database.salvage_figures(own)
        inspection.repaired.carried, inspection.repaired.last = figures


async def back_up(
    directory: Path, target: Path, progress: Optional[Callable[[int, int], None]] = None
) -> Inspection:
    """Copies the database of a region, which may be running, to one file, and reads the copy.

    The copy is the state of one moment. The file appears under its name once it is whole.
    `progress` hears of the bytes copied, and of about how many there are.

    Raises:
        TargetExists: The file exists.
        StorageError: The database cannot be read, or the file cannot be written.
        Damaged: The copy is damaged, so the database is.
    """
    source = database_file(directory)
    if target.exists():
        raise TargetExists(f"{target} exists already; a backup overwrites nothing")
    if not target.parent.is_dir():
        raise StorageError(f"there is no directory {target.parent} for the backup")
    try:
        with tempfile.TemporaryDirectory(prefix=".backup-", dir=target.parent) as temporary:
            copy = Path(temporary) / FILE_NAME
            with closing(sqlite3.connect(read_only_uri(source), uri=True)) as database:
                _tell_progress(database, copy, progress)
                database.execute("VACUUM INTO ?", (str(copy),))
            inspection = await _require_sound(Path(temporary), source)
            _sync(copy)
            copy.rename(target)
    except (OSError, sqlite3.Error) as error:
        problem = f"{_told(error)}{_problem(error, directory, target.parent)}"
        raise StorageError(f"cannot back up {directory} to {target}: {problem}") from error
    return inspection


def _tell_progress(
    database: sqlite3.Connection, copy: Path, progress: Optional[Callable[[int, int], None]]
) -> None:
    """Has SQLite tell, while it copies, how large the copy is."""
    if progress is None:
        return
    pages, unused, page_bytes = (
        database.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    total = (pages - unused) * page_bytes

    def tell() -> None:
        with suppress(OSError):
            progress(min(copy.stat().st_size, total), total)

    progress(0, total)
    database.set_progress_handler(tell, _STEPS_BETWEEN)


async def restore(file: Path, directory: Path) -> Inspection:
    """Puts a backup into a data directory that has no database. Its next start is a recovery.

    Raises:
        StorageError: The file cannot be read or is no backup, or the directory has a database.
        Damaged: The file is damaged.
    """
    if (directory / FILE_NAME).exists():
        raise StorageError(
            f"{directory} has a database already: move it away first, it is not overwritten"
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".restore-", dir=directory) as temporary:
            copy = Path(temporary) / FILE_NAME
            shutil.copyfile(file, copy)
            inspection = await _require_sound(Path(temporary), file)
            with closing(sqlite3.connect(copy)) as database, database:
                database.execute(*schema.meta("restored", b"1"))
            _sync(copy)
            copy.rename(directory / FILE_NAME)
        (directory / MARK_NAME).unlink(missing_ok=True)
        give_to_owner(directory)
    except (OSError, sqlite3.Error) as error:
        problem = f"{_told(error)}{_problem(error, directory)}"
        raise StorageError(f"cannot restore {file} to {directory}: {problem}") from error
    return inspection


def set_aside(directory: Path, source: int = 0) -> tuple[Path, Optional[Salvaged]]:
    """Moves a damaged database away, so that the next start rebuilds the region from the others.

    `source` above 0: the database is sound, and holds another state than the member with this id,
    whose snapshot the next start takes before anything else.

    A new database keeps the identity of the region, which members are lost, and the salvage of the
    effect log (`region.storage.salvage`), as far as these are sound. Without the identity there is
    no new database, and the mark, which stays or is made, makes the next start a recovery.
    Returns the directory that holds the former files now, and the figures of the salvage.

    Raises:
        StorageError: The files cannot be moved.
    """
    path = directory / FILE_NAME
    try:
        prefix = "replaced-" if source else "damaged-"
        aside = Path(tempfile.mkdtemp(prefix=prefix, dir=directory))
        files = DataFiles(path)
        files.write_mark(max(files.read_mark(), 1))
        files.close()
        rebuilt = aside / _REBUILT_NAME
        # An end before the files are moved leaves them as they were.
        salvaged = _rebuild(path, rebuilt, source)
        for file in directory.glob(f"{FILE_NAME}*"):
            file.rename(aside / file.name)
        if salvaged is not None:
            rebuilt.rename(path)
        give_to_owner(directory)
    except (OSError, sqlite3.Error) as error:
        problem = f"{_told(error)}{_problem(error, directory)}"
        raise StorageError(f"cannot move the files in {directory}: {problem}") from error
    return aside, salvaged


def _rebuild(damaged: Path, target: Path, source_id: int) -> Optional[Salvaged]:
    """Makes the new database; None without it if the identity of the region is damaged."""
    kept = _sound_meta(damaged)
    if not set(IDENTITY_ROWS) <= kept.keys() or not kept["region_id"].isdigit():
        return None
    with closing(sqlite3.connect(target)) as database, database:
        for table in schema.TABLES:
            database.execute(table)
        for name in (*IDENTITY_ROWS, *_KEPT_ROWS):
            if name in kept:
                database.execute(*schema.meta(name, kept[name]))
        database.execute(*schema.meta("restored", b"1"))
        if source_id:
            database.execute(*schema.meta("rebuild_from", b"%d" % source_id))
        with closing(sqlite3.connect(read_only_uri(damaged), uri=True)) as source:
            return DamagedLog(source, int(kept["region_id"])).copy_to(database)


def _sound_meta(path: Path) -> dict[str, bytes]:
    """The meta rows of a damaged database whose checksums are right; none if it cannot be read."""
    kept: dict[str, bytes] = {}
    try:
        with closing(sqlite3.connect(read_only_uri(path), uri=True)) as database:
            for row in database.execute("SELECT name, value, sum FROM meta"):
                with suppress(Damaged):
                    kept.update(loading.read_meta([row]))
    except sqlite3.Error:
        pass  # What was read until then is sound.
    return kept


def _told(error: Exception) -> str:
    """The words of an error. A temporary file that it names is gone, and is left out."""
    if not isinstance(error, OSError):
        return str(error)
    text = error.strerror or str(error)
    # With two names it may be either file.
    if error.filename is None or error.filename2 is not None or not os.path.exists(error.filename):
        return text
    return f"{text}: {os.fsdecode(error.filename)}"


def _problem(error: Exception, *directories: Path) -> str:
    """How to go on if files cannot be written in one of these directories; empty if they can.

    SQLite makes files beside a database even to read it. Where it cannot, its error is the one of a
    broken disk.
    """
    if not isinstance(error, OSError) and not cannot_write(error):
        return ""
    for directory in directories:
        problem = write_problem(directory)
        if problem:
            return f"; no file can be written in {directory}: {problem}"
    return ""


async def _require_sound(directory: Path, original: Path) -> Inspection:
    """Inspects a copy in a temporary directory. Errors name the file that was copied.

    Raises:
        StorageError: The copy cannot be read, or is not the database of a region.
        Damaged: The copy is damaged.
    """
    copy, name = str(directory / FILE_NAME), str(original)
    try:
        inspection = await inspect(directory)
    except StorageError as error:
        raise StorageError(str(error).replace(copy, name)) from error
    if inspection.findings:
        raise Damaged("; ".join(inspection.findings).replace(copy, name))
    return inspection


def _sync(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
