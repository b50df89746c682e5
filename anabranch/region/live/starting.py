"""A region's start: loads its state from disk, begins a new life, makes the engine (S1.3, S13.6).

Recovery after a restore: S13.7. Lost members: S13.8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Optional

from anabranch.crdt.idempotency import NO_LIMIT, PairLimits
from anabranch.crdt.region_log import NodeLimits
from anabranch.region.config import RegionConfig
from anabranch.region.driver.clock import Clock
from anabranch.region.driver.driver import Driver
from anabranch.region.driver.effect_log import EffectLog
from anabranch.region.driver.turn_limits import TurnLimits
from anabranch.region.engine import registry
from anabranch.region.engine.clock import EngineClock
from anabranch.region.engine.engine import Engine
from anabranch.region.engine.errors import Damaged, StorageError
from anabranch.region.engine.journal import Journal
from anabranch.region.engine.lifecycle import Lifecycle
from anabranch.region.engine.members import Member, Members, ids_in_row
from anabranch.region.engine.settings import Settings
from anabranch.region.engine.stable_time import StableTime
from anabranch.region.engine.state import EngineState
from anabranch.region.live.data_files import missing_commits
from anabranch.region.live.database import Database
from anabranch.region.option_values import ConfigError, listed_members
from anabranch.region.storage import loading, schema
from anabranch.region.storage.checkpoint import Checkpointer

_DAY_MS: Final = 24 * 3600 * 1000


def _members_text(members: dict[str, int]) -> bytes:
    return ",".join(f"{name}={region_id}" for name, region_id in members.items()).encode()


def _first_meta(config: RegionConfig) -> dict[str, bytes]:
    return {
        "schema": b"%d" % schema.SCHEMA_VERSION,
        "cluster": config.cluster.encode(),
        "region_id": b"%d" % config.region_id,
        "name": config.name.encode(),
        "members": _members_text(config.members),
    } | ({} if _is_known_first(config) else {"never_served": b"1"})


def _is_known_first(config: RegionConfig) -> bool:
    """Whether a start in an empty directory is known to be the first one of its region (S13.6)."""
    return config.first_start or len(config.members) == 1


def stored_members(meta: dict[str, bytes]) -> list[Member]:
    """The members on disk; Damaged if they cannot be read."""
    members: list[Member] = []
    try:
        lost = ids_in_row(meta.get("lost", b""))
        for pair in meta["members"].decode().split(","):
            name, _, region_id = pair.rpartition("=")
            members.append(Member(int(region_id), name, int(region_id) in lost))
    except (KeyError, ValueError) as error:
        raise Damaged(f"the members on disk are damaged: {error!r}") from error
    return members


def _called_lost_by(meta: dict[str, bytes]) -> list[int]:
    """The members that called this region lost (S13.8); Damaged if the row cannot be read."""
    try:
        return ids_in_row(meta.get("called_lost", b""))
    except ValueError as error:
        raise Damaged(f"called_lost in the database is damaged: {error}") from error


def _members(meta: dict[str, bytes], config: RegionConfig) -> list[Member]:
    """The members on disk. The configured members count at the first start only (S1.1).

    Raises:
        ConfigError: Other members are configured.
        StorageError: The members on disk are damaged, or do not name this region.
    """
    members = stored_members(meta)
    stored = {member.name: member.region_id for member in members}
    if config.region_id not in stored.values():
        raise StorageError(f"region {config.region_id} is none of the members on disk")
    if stored != config.members:
        raise ConfigError(
            f"the members given are {listed_members(config.members)}, but {config.data} has had"
            f" {listed_members(stored)} since its first start: give these, or another --data"
        )
    return members


def _peers(config: RegionConfig, members: list[Member]) -> dict[str, int]:
    """The peers that this region receives from: name → region_id.

    Raises:
        ConfigError: A configured peer is not another member of the cluster.
    """
    ids = {one.name: one.region_id for one in members if one.region_id != config.region_id}
    for name in config.peers:
        if name not in ids:
            names = ", ".join(sorted(ids))
            raise ConfigError(f"peer '{name}' is not one of the other members: {names}")
    return {name: ids[name] for name in config.peers}


def replay_limits(settings: Settings) -> tuple[NodeLimits, PairLimits]:
    """The limits of nodes and of pairs while the log is replayed."""
    node_limits = NodeLimits(
        settings.integer("stream-node-max-entries"), settings.integer("stream-node-max-bytes")
    )
    pair_limits = PairLimits()
    pair_limits.maxsize = settings.integer("stream-idmp-maxsize")
    # Replay does not collect stable pairs, so it may hold more retired pairs than the region held
    # before. The configured limit applies from the first command on.
    pair_limits.retired_max = NO_LIMIT
    return node_limits, pair_limits


def _clock(settings: Settings, clock: Clock, kept_ms: int, members: int) -> EngineClock:
    """The engine's time, from `kept_ms`, the highest time on disk (S10.2).

    In a cluster of several `members`, what the machine's clock reads needs a confirmation.
    """
    made = EngineClock(max(clock.now_ms(), kept_ms), clock.steady_ms)
    offset_max_ms = settings.integer("crdt-clock-offset-max-ms")
    if offset_max_ms and members > 1:
        made.distrust(kept_ms, offset_max_ms)
    return made


class Beginning:
    """A new life (S1.3): its number, and the life in which the recovery began, 0 without one.

    `cause` says in words why the region is in recovery (S13.7). `has_served`: see `Lifecycle`.
    """

    def __init__(self, life: int, recovery: int, cause: str, has_served: bool) -> None:
        self.life: Final = life
        self.recovery: Final = recovery
        self.cause: Final = cause
        self.has_served: Final = has_served

    def lifecycle(self, region_id: int, clock: EngineClock, patience_ms: int) -> Lifecycle:
        """The state machine of this life. Its start waits `patience_ms` for answers."""
        return Lifecycle(
            region_id, self.life, self.recovery, clock, patience_ms, self.cause, self.has_served
        )


def _next_life(now_ms: int, stored: loading.Stored, is_alone: bool) -> int:
    """The number of the next life (S1.3): the clock, unless that may have leapt (S10.2).

    No member takes a life that is more than a day ahead of its own clock. So the number is at most
    a day above the time on the disk, whatever the clock reads. If that is too low for a region that
    lost its files, the members tell it.
    """
    if not is_alone and stored.clock_ms < now_ms - _DAY_MS:
        now_ms = stored.clock_ms + now_ms % _DAY_MS
    return max(now_ms, stored.number("life") + 1)


async def _begin_life(
    config: RegionConfig, database: Database, stored: loading.Stored, now_ms: int
) -> Beginning:
    """Writes the new life, the recovery and the identity of the database file.

    `now_ms` is the real clock. The engine's clock may have run ahead of it: if a life took its
    number from that, two starts from the same backup would have one number (S1.3).
    """
    life = _next_life(now_ms, stored, len(config.members) == 1)
    recovery = stored.number("recovery")
    has_served = not stored.number("never_served")
    said: list[schema.Statement] = []
    if not has_served and _is_known_first(config):
        # A region that has never served has issued nothing, so its recovery has nothing to find.
        has_served, recovery = True, 0
        said.append(schema.meta("never_served", b"0"))
    cause = _restored_because(config, database, stored)
    if cause:
        # The backup may have been taken during a recovery. A new number keeps the peers from
        # taking this recovery for that one (S13.7).
        recovery = life
    elif recovery:
        cause = "a recovery that began before this start"
    await database.write(
        [
            schema.meta("life", b"%d" % life),
            schema.meta("recovery", b"%d" % recovery),
            schema.meta("file", database.file_identity()),
            schema.meta("restored", b"0"),
            *said,
        ]
    )
    database.set_mark(stored.position)
    return Beginning(life, recovery, cause, has_served)


def _restored_because(config: RegionConfig, database: Database, stored: loading.Stored) -> str:
    """Why the files count as restored from a backup (S13.6); empty if they do not.

    Raises:
        Damaged: Commits are missing, and there is no other member that could have them.
    """
    if config.restored:
        return "it was started with --restored"
    if stored.number("restored"):
        # A backup has a life, and a database that was rebuilt has none (`inspection`).
        if not stored.number("life"):
            source = _rebuild_from(stored, list(config.members.values()))
            names = [name for name, its in config.members.items() if its == source]
            return "it was rebuilt with `anabranch repair`" + "".join(f" from {n}" for n in names)
        return "its files were put back with `anabranch restore`"
    missing = missing_commits(database.wal_damage, stored.position, database.mark())
    if missing:
        if len(config.members) == 1:
            raise Damaged(
                f"{missing}; no other region has what is missing: put a backup back, or start once"
                " with --restored to go on without it"
            )
        return missing
    former, found = stored.meta.get("file", b""), database.file_identity()
    if former and found != former and not config.moved:
        return (
            "the database is not the file of the last start (device:inode:birth was"
            f" {former.decode(errors='replace')}, is {found.decode()}), and copied files may be"
            " old; if the region was stopped and its files moved, --moved says so"
        )
    return ""


def _rebuild_from(stored: loading.Stored, region_ids: list[int]) -> int:
    """The member that `anabranch repair --from` named; 0 without one."""
    source = stored.number("rebuild_from")
    return source if source in region_ids else 0


async def start(
    config: RegionConfig,
    database: Database,
    clock: Clock,
    limits: Optional[TurnLimits] = None,
    make_engine: Callable[[EngineState], Engine] = Engine,
) -> Driver:
    """Loads the region from disk and begins a new life, which is on disk before any peer hears it.

    `make_engine` creates the engine; the simulator passes its own to observe the engine. Raises
    StorageError if the database cannot be read, is damaged, or belongs to another region, and
    ConfigError if the configured members or peers differ from those on disk.
    """
    meta = await database.open()
    if not meta:
        meta = _first_meta(config)
        await database.write([schema.meta(name, value) for name, value in meta.items()])
    loading.check_meta(meta, config.cluster, config.region_id, config.name)
    members = _members(meta, config)
    peers = _peers(config, members).values()
    settings = config.settings
    region_ids = [member.region_id for member in members]
    node_limits, pair_limits = replay_limits(settings)
    stored = await database.load(meta, config.region_id, region_ids, node_limits, pair_limits)
    engine_clock = _clock(settings, clock, stored.clock_ms, len(members))
    begun = await _begin_life(config, database, stored, clock.now_ms())
    patience_ms = settings.integer("crdt-start-patience-ms")
    state = EngineState(
        Members(config.cluster, config.region_id, config.name, members),
        settings,
        stored.keyspace,
        Journal(stored.keyspace, stored.position, engine_clock),
        begun.lifecycle(config.region_id, engine_clock, patience_ms),
        stored.clock_ms,  # The clock of the last commit; the clock just read is in none (S10.2).
        registry.commands(),
        StableTime(*map(stored.number, ("id_floor", "patience", "lost_at", "clock_reset_at"))),
    )
    state.lifecycle.call_lost(_called_lost_by(meta))
    state.disk.note_rebuild(_rebuild_from(stored, region_ids))
    state.disk.note_salvage(begun.recovery > 0 and await database.has_salvage())
    engine = make_engine(state)
    engine.disk.checkpointed(stored.replay_from)
    limits = limits or TurnLimits()
    engine.peers.snapshots.limit_preparation(limits.cut_weight)
    slice_max_bytes = settings.integer("crdt-slice-max-bytes")
    checkpointer = Checkpointer(
        stored.numbers,
        stored.gone,
        stored.cut,
        slice_max_bytes,
        limits.capture_bytes,
        limits.encode_stretch,
    )
    tail_bytes = settings.integer("crdt-log-tail-max-bytes")
    log = EffectLog(
        stored.position, stored.log_floor, stored.log_size, settings, tail_bytes, limits.index_bytes
    )
    return Driver(engine, checkpointer, log, peers, clock, limits)
