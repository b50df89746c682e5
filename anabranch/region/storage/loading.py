"""Loading at a start (S13.1): the checkpoint, then the log after it.

Each key replays the log from the position that its checkpoint reflects.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Optional

from anabranch.crdt.apply import apply_block
from anabranch.crdt.encoding import Malformed
from anabranch.crdt.idempotency import PairLimits
from anabranch.crdt.join import join
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.local import apply_local, read_records
from anabranch.crdt.region_log import NodeLimits
from anabranch.crdt.snapshot import read_snapshot
from anabranch.crdt.vector import Vector
from anabranch.escapes import shown
from anabranch.region.engine.errors import Damaged, ReplayFailed, StorageError
from anabranch.region.engine.rows import BlockRow, LogRow, RecordsRow, SnapshotRow
from anabranch.region.storage import sums
from anabranch.region.storage.checkpoint import checked, read_region_state
from anabranch.region.storage.log import LogSize, check_of
from anabranch.region.storage.schema import SCHEMA_VERSION, UPGRADES, Statement


class NeedlessRows:
    """Rows of the checkpoint that no start needs; the load meets them and leaves them out.

    A stop interrupted a checkpoint before they became valid, or before it deleted them.
    """

    def __init__(self) -> None:
        # Numbers that no key has.
        self.numbers: dict[int, None] = {}
        # Number of a key that has parts of other cuts, or nodes of later ones → its valid cut.
        self.cuts: dict[int, int] = {}
        # (number, region, node, cut) of nodes that are gone, or of which there is a newer row.
        self.nodes: list[tuple[int, int, int, int]] = []

    def statements(self) -> list[Statement]:
        """The statements that delete them. A later checkpoint may use their cuts again."""
        of_node = "DELETE FROM node WHERE number = ? AND region = ? AND node = ? AND cut = ?"
        return [
            *[("DELETE FROM part WHERE number = ?", (number,)) for number in self.numbers],
            *[("DELETE FROM node WHERE number = ?", (number,)) for number in self.numbers],
            *[("DELETE FROM part WHERE number = ? AND cut <> ?", one) for one in self.cuts.items()],
            *[("DELETE FROM node WHERE number = ? AND cut > ?", one) for one in self.cuts.items()],
            *[(of_node, row) for row in self.nodes],
        ]


class Stored:
    """The state of a region as loaded from its disk."""

    def __init__(self) -> None:
        self.meta: dict[str, bytes] = {}
        self.keyspace: Keyspace = Keyspace(0, NodeLimits())
        # Position of the last row.
        self.position = 0
        # Position of the region's state in the checkpoint: rows after it are replayed.
        self.replay_from = 0
        self.clock_ms = 0
        # The clocks of rows up to this position do not count.
        self.clock_reset = 0
        # The highest valid cut.
        self.cut = 0
        # Key → number under which its rows are stored.
        self.numbers: dict[bytes, int] = {}
        # Key → position at which the checkpoint found it gone.
        self.gone: dict[bytes, int] = {}
        self.log_size = LogSize(0, 0, 0)
        # The vector that a peer must hold for the log to reach back far enough (S2.6).
        self.log_floor: Vector = {}
        # Key → position that its checkpoint reflects.
        self.skip_keys: dict[bytes, int] = {}
        self.needless = NeedlessRows()

    def note_clock(self, position: int, clock_ms: int) -> None:
        """Takes the clock of a row, unless the clock was reset after it (S10.2)."""
        if position > self.clock_reset:
            self.clock_ms = max(self.clock_ms, clock_ms)

    def number(self, name: str) -> int:
        try:
            return int(self.meta.get(name, b"0"))
        except ValueError as error:
            raise Damaged(f"{name} in the database is damaged: {error}") from error


def check_meta(meta: dict[str, bytes], cluster: str, region_id: int, name: str) -> None:
    """Checks that the files belong to this version, cluster and region; StorageError if not."""
    try:
        version = int(meta.get("schema", b"0"))
        stored = (meta["cluster"].decode(), int(meta["region_id"]), meta["name"].decode())
    except (KeyError, ValueError) as error:
        raise Damaged(
            f"the identity of the region in the database is damaged: {error!r}"
        ) from error
    if version != SCHEMA_VERSION and version not in UPGRADES:
        raise StorageError(
            f"the database has schema version {version}, "
            f"this release reads versions up to {SCHEMA_VERSION}"
        )
    if stored != (cluster, region_id, name):
        raise StorageError(
            f"the data directory belongs to region {stored[2]} ({stored[1]}) "
            f"of cluster {stored[0]}, not to {name} ({region_id}) of {cluster}"
        )


def read_meta(rows: Iterable[tuple[object, object, Optional[int]]]) -> dict[str, bytes]:
    """The meta rows (name, value, sum) as a dict; Damaged if a row is."""
    meta: dict[str, bytes] = {}
    for name, value, found in rows:
        try:
            if not isinstance(name, str) or not isinstance(value, bytes):
                raise Malformed("it has other types")
            sums.require(found, sums.of_meta(name, value))
        except (Malformed, ValueError) as error:
            raise Damaged(
                f"the row '{shown_name(name)}' of the table meta is damaged: {error}"
            ) from error
        meta[name] = value
    return meta


def shown_name(name: object) -> str:
    """The name of a row as commands show it. A damaged one may have any type."""
    return shown(name) if isinstance(name, (bytes, str)) else repr(name)


def begin(
    meta: dict[str, bytes], region_id: int, limits: NodeLimits, pair_limits: PairLimits
) -> Stored:
    """Begins the load with the region's own state, from the meta rows.

    Raises:
        Damaged: A meta row is damaged.
    """
    stored = Stored()
    stored.meta = meta
    stored.keyspace = Keyspace(region_id, limits, pair_limits)
    stored.cut = stored.number("cut")
    stored.clock_ms = stored.number("clock")
    stored.clock_reset = stored.number("clock_reset")
    try:
        if "collected" in meta:
            stored.keyspace.collected = checked(meta["collected"]).vector()
    except Malformed as error:
        raise Damaged(f"the vector `collected` is damaged: {error}") from error
    body = meta.get("region_state")
    if body is not None:
        try:
            state = read_region_state(body)
        except Malformed as error:
            raise Damaged(f"the region's state is damaged: {error}") from error
        keyspace = stored.keyspace
        keyspace.vector = state.vector
        keyspace.chains = state.chains
        keyspace.flush_tombstone = state.flush_tombstone
        keyspace.flush_clears = state.flush_clears
        keyspace.position = state.position
        stored.position = stored.replay_from = state.position
        stored.note_clock(state.position, state.clock_ms)
    return stored


def replay(stored: Stored, row: LogRow, check: bytes) -> None:
    """Applies one row of the log. `check` is the chain value or checksum stored with it.

    Raises:
        Damaged: A row before it is missing, or the row is damaged.
    """
    keyspace = stored.keyspace
    if row.position != stored.position + 1:
        raise Damaged(f"row {stored.position + 1} of the log is missing")
    keyspace.position = row.position - 1
    try:
        if check != check_of(row, keyspace):
            raise Malformed("its checksum is wrong")
        if isinstance(row, BlockRow):
            apply_block(keyspace, row.block, row.clock_ms, row.source == 0, stored.skip_keys)
        elif isinstance(row, SnapshotRow):
            other = read_snapshot(row.chunks, keyspace.limits)
            join(keyspace, other, row.clock_ms, stored.skip_keys)
        elif isinstance(row, RecordsRow):
            for record in read_records(row.records):
                if stored.skip_keys.get(record.head.key, 0) < row.position:
                    apply_local(keyspace, record)
    except (Malformed, ValueError) as error:
        raise Damaged(f"row {row.position} of the log is damaged: {error}") from error
    except Exception as error:
        raise ReplayFailed(row.position, error) from error
    keyspace.position = row.position
    stored.position = row.position
    stored.note_clock(row.position, row.clock_ms)
