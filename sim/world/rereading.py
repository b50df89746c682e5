"""Reads the files of a region as a start would, and compares them with the region (S13.1).

One run of four does it for one region at its end, before and after a clean stop. A state that is on
no disk is then noticed even if the region never starts again.
"""

from __future__ import annotations

from pathlib import Path

from anabranch.crdt.vector import includes
from anabranch.region.database import Database
from anabranch.region.engine.engine import Engine
from anabranch.region.engine.errors import StorageError
from anabranch.region.starting import replay_limits
from anabranch.region.storage.loading import Stored
from anabranch.sim.world.disk import Disk
from anabranch.sim.world.vfs import Opener, run


def difference(engine: Engine, disk: Disk) -> str:
    """How the files on `disk`, as they are after a crash now, differ from the state of the region.

    Empty if they do not. Vectors and digests are compared. The files are not changed.
    """
    copy = Disk(f"{disk.name}-reread")
    for path, file in disk.backup().items():
        copy.files[copy.name + path.removeprefix(disk.name)] = file
    opener = Opener(copy)
    try:
        stored = run(_load(Database(Path(disk.name), opener.connect), engine))
    except StorageError as error:
        return f"its files cannot be read: {error}"
    finally:
        opener.forget()
    found = stored.keyspace
    if not includes(found.vector, engine.disk_vector):
        return f"its files hold {found.vector}; on its disk is {engine.disk_vector}"
    if found.vector == engine.vector and found.digest() != engine.keyspace.digest():
        return f"its files hold another state of {found.vector} than the region"
    return ""


async def _load(database: Database, engine: Engine) -> Stored:
    meta = await database.open()
    node_limits, pair_limits = replay_limits(engine.settings)
    members = list(engine.members)
    return await database.load(meta, engine.region_id, members, node_limits, pair_limits)
