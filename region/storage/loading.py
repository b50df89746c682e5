"""A start (S13.1): the checkpoint, then the log from there, per key from its own position."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Optional

from anabranch.crdt.apply import apply_block
from anabranch.crdt.block import Block, read_effects
from anabranch.crdt.effects import Trim
from anabranch.crdt.encoding import Malformed
from anabranch.crdt.join import join
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.local import apply_local, read_records
from anabranch.crdt.node import PackedNode
from anabranch.crdt.region_log import NodeLimits
from anabranch.crdt.state import push_node, read_converged, read_local, read_node, read_snapshot
from anabranch.crdt.stream import Stream
from anabranch.region.engine.errors import StorageError
from anabranch.region.engine.journal import Row
from anabranch.region.storage.checkpoint import GONE, checked, read_region_state
from anabranch.region.storage.log import check_of
from anabranch.region.storage.schema import SCHEMA_VERSION


class Stored:
    """What a region finds on its disk."""

    def __init__(self) -> None:
        self.meta: dict[str, bytes] = {}
        self.keyspace: Keyspace = Keyspace(0, NodeLimits())
        self.position = 0  # of the last row
        self.replay_from = 0
        self.clock_ms = 0
        self.cut = 0  # the highest that made anything valid
        self.numbers: dict[bytes, int] = {}  # key → number its rows are stored under
        self.gone: dict[bytes, int] = {}  # key → position at which the checkpoint found it gone
        self.cuts: dict[int, int] = {}  # that number → the key's cut
        self.skip_keys: dict[bytes, int] = {}  # key → position that its checkpoint reflects
        self.idmp_maxsize = 0  # of streams without a configuration (S9.3)
        self.own_block: Optional[Block] = None  # this region's, if it is the row before

    def number(self, name: str) -> int:
        try:
            return int(self.meta.get(name, b"0"))
        except ValueError as error:
            raise StorageError(f"{name} in the database is damaged: {error}") from error


def check_meta(meta: dict[str, bytes], cluster: str, region_id: int, name: str) -> None:
    """StorageError when the files are those of another version, cluster or region."""
    try:
        version = int(meta.get("schema", b"0"))
        stored = (meta["cluster"].decode(), int(meta["region_id"]), meta["name"].decode())
    except (KeyError, ValueError) as error:
        raise StorageError(f"what the database says of its region is damaged: {error!r}") from error
    if version != SCHEMA_VERSION:
        raise StorageError(
            f"the database has schema version {version}, this release reads version {SCHEMA_VERSION}"
        )
    if stored != (cluster, region_id, name):
        raise StorageError(
            f"the data directory belongs to region {stored[2]} ({stored[1]}) of cluster {stored[0]}, "
            f"not to {name} ({region_id}) of {cluster}"
        )


def begin(meta: dict[str, bytes], region_id: int, limits: NodeLimits, idmp_maxsize: int) -> Stored:
    """The region's own state."""
    stored = Stored()
    stored.idmp_maxsize = idmp_maxsize
    stored.meta = meta
    stored.keyspace = Keyspace(region_id, limits)
    stored.cut = stored.number("cut")
    body = meta.get("region_state")
    if body is not None:
        try:
            state = read_region_state(body)
        except Malformed as error:
            raise StorageError(f"the region's state is damaged: {error}") from error
        keyspace = stored.keyspace
        keyspace.vector = state.vector
        keyspace.chains = state.chains
        keyspace.flush_tombstone = state.flush_tombstone
        keyspace.flush_clears = state.flush_clears
        keyspace.position = state.position
        stored.position = stored.replay_from = state.position
        stored.clock_ms = state.clock_ms
    return stored


def load_key(
    stored: Stored,
    key: bytes,
    number: int,
    cut: int,
    position: int,
    parts: list[bytes],
    nodes: Iterable[tuple[int, int, bytes]],
) -> None:
    """One key of the checkpoint; `nodes` are (region_id, node number, body)."""
    stored.skip_keys[key] = position
    stored.cut = max(stored.cut, cut)
    if number == GONE:
        stored.gone[key] = position
        return
    keyspace = stored.keyspace
    stream = Stream(key, keyspace.limits)
    try:
        reader = checked(b"".join(parts))
        read_converged(reader, stream)
        read_local(reader, stream)
        length = reader.varint()
        read: list[tuple[int, int, int]] = []
        made: list[PackedNode] = []
        for region_id, node_number, body in nodes:
            node = read_node(body)
            node.number = node_number
            node.is_unsaved = False
            read.append((region_id, node.base_counter, len(made)))
            made.append(node)
        for region_id, _, index in sorted(read):
            push_node(stream, region_id, made[index])
        if stream.length() != length:
            raise Malformed(f"it has {stream.length()} entries instead of {length}")
    except Malformed as error:
        raise StorageError(f"the checkpoint of key {key!r} is damaged: {error}") from error
    for log in stream.logs.values():
        log.next_number = max(node.number for node in log.rax.nodes) + 1
    stream.stored_number = number
    keyspace.keys[key] = stream
    keyspace.note_visible(stream)
    keyspace.mark_undigested(key)
    stored.numbers[key] = number
    stored.cuts[number] = cut


def replay(stored: Stored, row: Row, check: bytes, chunks: list[bytes]) -> None:
    """Applies one row of the log. `check` stands with it, `chunks` are those of the snapshot that it speaks of."""
    keyspace = stored.keyspace
    if row.position != stored.position + 1:
        raise StorageError(f"row {stored.position + 1} of the log is missing")
    keyspace.position = row.position - 1
    try:
        if check != check_of(row, chunks, keyspace):
            raise Malformed("its checksum is wrong")
        if row.block is not None:
            apply_block(keyspace, row.block, row.clock_ms, row.source == 0, stored.skip_keys)
            _evict_pairs(stored)
        elif row.snapshot:
            join(keyspace, read_snapshot(chunks, keyspace.limits), row.clock_ms, stored.skip_keys)
            _evict_pairs(stored)
        else:
            for record in read_records(row.body):
                if stored.skip_keys.get(record.key, 0) < row.position:
                    apply_local(keyspace, record)
            if stored.own_block is not None:
                _drop_references(stored, stored.own_block)
    except (Malformed, ValueError) as error:
        raise StorageError(f"row {row.position} of the log is damaged: {error}") from error
    stored.own_block = row.block if row.source == 0 else None
    keyspace.position = row.position
    stored.position = row.position
    stored.clock_ms = max(stored.clock_ms, row.clock_ms)


def _drop_references(stored: Stored, block: Block) -> None:
    """Drops again what DELREF trims of `block` dropped, among it what records brought back that were older than the trim (S5.2).

    Records are replayed after the block that was open when they arose. What such a trim removed cannot become pending after it.
    """
    for effect in read_effects(block):
        if isinstance(effect, Trim) and effect.drops_references:
            stream = stored.keyspace.get(effect.key)
            if (
                stream is not None
                and stored.skip_keys.get(effect.key, 0) <= stored.keyspace.position
            ):
                for group in stream.groups.values():
                    for region_id, counter in effect.prefix.items():
                        for pending in group.delivery.pel.covered_by(region_id, 0, counter):
                            group.delivery.unassign(region_id, pending.counter, pending.entry_id)


def _evict_pairs(stored: Stored) -> None:
    """Evicts what the region evicted (S9.3): by itself, so that no row says it."""
    changes = stored.keyspace.changes
    for key, pid, _ in changes.pairs:
        stream = stored.keyspace.get(key)
        if stream is not None:
            configuration = stream.configuration()
            stream.pairs.evict(
                pid, stored.idmp_maxsize if configuration is None else configuration[1]
            )
    changes.pairs = []
