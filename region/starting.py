"""A region's start: what is on its disk, its new life, its engine (S1.3, S13.6 to S13.8)."""

from __future__ import annotations

import logging
from typing import Final

from anabranch.crdt.region_log import NodeLimits
from anabranch.region.config import RegionConfig
from anabranch.region.database import Database
from anabranch.region.engine.core import Identity, Member
from anabranch.region.engine.engine import Engine
from anabranch.region.engine.errors import StorageError
from anabranch.region.engine.journal import Journal
from anabranch.region.engine.lifecycle import Lifecycle
from anabranch.region.storage import loading, schema
from anabranch.region.storage.checkpoint import Checkpointer

_log: Final = logging.getLogger("anabranch.region")


def _members_text(members: dict[str, int]) -> bytes:
    return ",".join(f"{name}={region_id}" for name, region_id in members.items()).encode()


def _first_meta(config: RegionConfig) -> dict[str, bytes]:
    return {
        "schema": b"%d" % schema.SCHEMA_VERSION,
        "cluster": config.cluster.encode(),
        "region_id": b"%d" % config.region_id,
        "name": config.name.encode(),
        "members": _members_text(config.members),
    }


def _stored_members(meta: dict[str, bytes], config: RegionConfig) -> list[Member]:
    """The members on disk: those given count at the first start only (S1.1)."""
    members: list[Member] = []
    try:
        lost = {int(text) for text in meta.get("lost", b"").decode().split(",") if text}
        for pair in meta["members"].decode().split(","):
            name, _, region_id = pair.rpartition("=")
            members.append(Member(int(region_id), name, int(region_id) in lost))
    except (KeyError, ValueError) as error:
        raise StorageError(f"the members on disk are damaged: {error!r}") from error
    if {member.name: member.region_id for member in members} != config.members:
        _log.warning(
            "members are %s, as at the first start; what --members says now does not count",
            meta["members"].decode(),
        )
    return members


async def start(
    config: RegionConfig, database: Database, now_ms: int
) -> tuple[Engine, Checkpointer]:
    """Loads everything and begins a new life, which is on disk before anybody hears of it. StorageError when the files are not right."""
    meta = await database.open()
    if not meta:
        meta = _first_meta(config)
        await database.write([schema.meta(name, value) for name, value in meta.items()])
    loading.check_meta(meta, config.cluster, config.region_id, config.name)
    members = _stored_members(meta, config)
    if config.region_id not in [member.region_id for member in members]:
        raise StorageError(f"region {config.region_id} is none of the members on disk")
    limits = NodeLimits(
        config.settings.integer("stream-node-max-entries"),
        config.settings.integer("stream-node-max-bytes"),
    )
    idmp_maxsize = config.settings.integer("stream-idmp-maxsize")
    stored = await database.load(
        meta, config.region_id, [member.region_id for member in members], limits, idmp_maxsize
    )
    clock_ms = max(now_ms, stored.clock_ms)
    life = max(clock_ms, stored.number("life") + 1)
    recovery = stored.number("recovery")
    if config.restored:
        recovery = life  # another recovery than the one that the backup may have been taken in: others must not take it for that (S13.7)
    await database.write(
        [schema.meta("life", b"%d" % life), schema.meta("recovery", b"%d" % recovery)]
    )
    journal = Journal(stored.keyspace, stored.position)
    journal.clock_ms = clock_ms
    lifecycle = Lifecycle(
        config.region_id,
        life,
        recovery,
        clock_ms,
        config.settings.integer("crdt-start-patience-ms"),
    )
    identity = Identity(config.cluster, config.region_id, config.name, members)
    engine = Engine(identity, config.settings, stored.keyspace, journal, lifecycle)
    engine.saved_position = stored.replay_from
    engine.disk_clock_ms = stored.clock_ms  # what this start read is in no commit yet (S10.2)
    engine.log_bytes = database.log_bytes
    checkpointer = Checkpointer(
        stored.numbers, stored.gone, stored.cut, config.settings.integer("crdt-slice-max-bytes")
    )
    return engine, checkpointer
