"""Reads the files of a region as a start would, and compares them with the region (S13.1).

One run of four does it for one region at its end, before and after a clean stop. A state that is on
no disk is then noticed even if the region never starts again. After the stop, the tables of the
checkpoint must have no rows that a start does not need: such rows would stay for ever.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Optional

from anabranch.crdt.vector import includes
from anabranch.region.engine.engine import Engine
from anabranch.region.engine.errors import StorageError
from anabranch.region.live.database import FILE_NAME, Database
from anabranch.region.live.starting import replay_limits
from anabranch.region.storage.loading import Stored
from anabranch.region.storage.log import LogSize
from anabranch.sim.world.disk import Disk
from anabranch.sim.world.vfs import Opener, run

# Rows of the checkpoint that no key has: parts of another cut, nodes without a key, and nodes that
# are gone or have a newer row.
_NEEDLESS: Final = """
    SELECT
        (SELECT count(*) FROM part WHERE NOT EXISTS (SELECT 1 FROM key_state AS one
            WHERE one.number = part.number AND one.cut = part.cut))
        + (SELECT count(*) FROM node WHERE body IS NULL OR NOT EXISTS (SELECT 1 FROM key_state
            AS one WHERE one.number = node.number AND one.cut >= node.cut))
        + (SELECT count(*) FROM node JOIN node AS newer USING (number, region, node)
            WHERE node.cut < newer.cut)"""


def difference(engine: Engine, disk: Disk, size: Optional[LogSize] = None) -> str:
    """How the files on `disk`, as they are after a crash now, differ from the state of the region.

    Empty if they do not. Vectors and digests are compared, and the size of the log, if given. The
    files are not changed.
    """
    opener = _copied(disk)
    try:
        stored = run(_load(Database(Path(disk.name), opener), engine))
    except StorageError as error:
        return f"its files cannot be read: {error}"
    finally:
        opener.forget()
    found = stored.keyspace
    if not includes(found.vector, engine.disk_vector):
        return f"its files hold {found.vector}; on its disk is {engine.disk_vector}"
    if found.vector == engine.vector and found.digest() != engine.keyspace.digest():
        return f"its files hold another state of {found.vector} than the region"
    if size is not None and _numbers_of(stored.log_size) != _numbers_of(size):
        held, counted = _numbers_of(stored.log_size), _numbers_of(size)
        return f"its log has {held} rows, bytes and effects, and it counts {counted}"
    return ""


def _numbers_of(size: LogSize) -> tuple[int, int, int]:
    """Returns the rows, bytes and effects of a log."""
    return size.rows, size.bytes, size.effects


def needless_rows(disk: Disk) -> int:
    """Returns how many rows of the checkpoint on `disk` no start needs."""
    opener = _copied(disk)
    try:
        connection = run(opener.writer(Path(disk.name) / FILE_NAME))
        return int(next(iter(run(connection.execute_fetchall(_NEEDLESS))))[0])
    finally:
        opener.forget()


def _copied(disk: Disk) -> Opener:
    """Opens a copy of the files, as they are after a crash now."""
    copy = Disk(f"{disk.name}-reread")
    for path, file in disk.backup().items():
        copy.files[copy.name + path.removeprefix(disk.name)] = file
    return Opener(copy)


async def _load(database: Database, engine: Engine) -> Stored:
    meta = await database.open()
    node_limits, pair_limits = replay_limits(engine.settings)
    members = list(engine.members)
    return await database.load(meta, engine.region_id, members, node_limits, pair_limits)
