"""The change that each effect makes to a keyspace (S5 to S10): one function per effect.

`is_own` is True when this region issues the effect, or replays an effect that it issued. An effect
of this region that a peer sends back after a restore is applied like an effect of any other region
(S8.2), with `is_own` False.
"""

from __future__ import annotations

from typing import Optional

from anabranch.crdt import effects as fx
from anabranch.crdt.adds import Adds, AddsPiece, IdempotentAdds
from anabranch.crdt.block import Block, read_effects
from anabranch.crdt.groups import Create, Group, is_buried
from anabranch.crdt.ids import MAX_HALF
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.pair import pair_of
from anabranch.crdt.scan import Scan
from anabranch.crdt.stream import Stream
from anabranch.crdt.vector import Dot, covers, includes, raise_to


def apply_block(
    keyspace: Keyspace,
    block: Block,
    now_ms: int,
    is_own: bool,
    skip_keys: Optional[dict[bytes, int]] = None,
) -> None:
    """Reads and applies a whole block; raises Malformed before it changes anything."""
    apply_effects(keyspace, block, read_effects(block), now_ms, is_own, skip_keys)


def apply_effects(
    keyspace: Keyspace,
    block: Block,
    effects: list[fx.Effect],
    now_ms: int,
    is_own: bool,
    skip_keys: Optional[dict[bytes, int]] = None,
) -> None:
    """Applies the effects that were read from a block, and moves the vector to the block's end.

    `skip_keys` is given when a log is replayed: it maps a key to the position up to which its
    loaded checkpoint reflects the log. `keyspace.position` is then the position before the block.
    """
    counter = block.first
    for effect in effects:
        if (
            skip_keys is None
            or isinstance(effect, fx.Flush)
            or skip_keys.get(effect.key, 0) <= keyspace.position
        ):
            apply(keyspace, effect, block.origin, counter, now_ms, is_own, skip_keys)
        counter += fx.dots_of(effect)
    if block.last > keyspace.vector.get(block.origin, 0):
        keyspace.vector[block.origin] = block.last
        keyspace.chains[block.origin] = block.chain


def apply(
    keyspace: Keyspace,
    effect: fx.Effect,
    origin: int,
    counter: int,
    now_ms: int,
    is_own: bool,
    skip_keys: Optional[dict[bytes, int]] = None,
) -> None:
    """Applies one effect with dot (origin, counter). The caller moves the vector."""
    if isinstance(effect, fx.Flush):
        apply_flush(keyspace, effect, origin, counter, skip_keys)
        return
    stream = keyspace.get_or_create(effect.key)
    if isinstance(effect, fx.AddRun):
        apply_add_run(keyspace, stream, effect, origin)
        counter += effect.count - 1
    elif isinstance(effect, fx.AddIdempotent):
        apply_add_idempotent(keyspace, stream, effect, (origin, counter), now_ms, is_own)
    elif isinstance(effect, fx.RemoveEntries):
        apply_remove_entries(keyspace, stream, effect)
    elif isinstance(effect, fx.Trim):
        apply_trim(keyspace, stream, effect)
    elif isinstance(effect, fx.Delete):
        apply_delete(keyspace, stream, effect, origin, counter)
    elif isinstance(effect, fx.SetId):
        stream.header.note(origin, counter, effect.entry_id >> 64, effect.entry_id & MAX_HALF)
    elif isinstance(effect, fx.CreateGroup):
        apply_create_group(keyspace, stream, effect, (origin, counter))
    elif isinstance(effect, fx.DestroyGroup):
        apply_destroy_group(keyspace, stream, effect, origin, counter)
    elif isinstance(effect, fx.Acknowledge):
        apply_acknowledge(stream, effect, is_own)
    elif isinstance(effect, fx.SetDeadline):
        apply_set_deadline(keyspace, stream, effect, (origin, counter))
    elif isinstance(effect, fx.RemoveObserved):
        apply_remove_observed(keyspace, stream, effect)
    else:
        apply_configure(keyspace, stream, effect, (origin, counter))
    stream.header.touch(origin, counter)
    # A round announces acknowledgements at any time. Such an announcement must not abort the
    # transaction of a client that watches the key (S10.7).
    note_change(keyspace, stream, not isinstance(effect, fx.Acknowledge))
    keyspace.drop_if_empty(stream)


def note_change(keyspace: Keyspace, stream: Stream, is_visible: bool = True) -> None:
    """Notes a change of a key, for clients, the checkpoint, the digest and the engine.

    Every effect on a key calls it. `is_visible`: WATCH counts the change.
    """
    if is_visible:
        keyspace.note_visible(stream)
    keyspace.touch(stream)
    keyspace.changes.changed_keys[stream.key] = None
    keyspace.note_parts(stream)


# -- entries (observed-remove)


def add(
    keyspace: Keyspace, stream: Stream, ms: int, seq: int, counter: int, names: bytes, values: bytes
) -> bool:
    """Applies a plain add of this region: the hot path, equal to `apply` of an AddRun of one.

    Returns True when the add opened a new packed node.
    """
    opened = stream.log(keyspace.region_id).append(ms, seq, counter, names, values)
    _note_adds(keyspace, stream, ms, seq, counter, 1)
    return opened


def hold_own_pairs(
    keyspace: Keyspace, stream: Stream, adds: IdempotentAdds, counter: int, now_ms: int
) -> None:
    """Holds the pairs of adds that this region has just made.

    With `add` or `add_some` for their entries it is equal to `apply` of an AddIdempotent for each.
    They are recorded and held from `now_ms` on. `counter` is that of the first; the vector covers
    all before it.
    """
    stream.pairs.add_own(adds, keyspace.region_id, counter, now_ms, keyspace.vector)
    stream.iids_added += adds.count()
    retire_pairs(keyspace, stream, adds.pid)


def add_some(keyspace: Keyspace, stream: Stream, adds: Adds) -> tuple[AddsPiece, bool]:
    """Applies the next adds of a run of this region, as many as one packed node takes.

    Returns these adds, and whether they opened a new node.
    """
    piece, opened = stream.log(keyspace.region_id).append_adds(adds)
    _note_adds(keyspace, stream, piece.ms, piece.last_seq, piece.last_counter, piece.count)
    return piece, opened


def _note_adds(
    keyspace: Keyspace, stream: Stream, ms: int, seq: int, counter: int, count: int
) -> None:
    """Notes plain adds of this region, of which the last has this ID and counter."""
    region_id = keyspace.region_id
    stream.header.note(region_id, counter, ms, seq)
    stream.entries_added += count
    stream.header.touch(region_id, counter)
    keyspace.note_visible(stream)
    unseen = keyspace.unseen
    if (
        stream.share is not None
        or stream.key not in unseen.uncounted
        or stream.key not in keyspace.dirty
        or unseen.unrecorded is not None
    ):
        keyspace.touch(stream)
    changes = keyspace.changes
    changes.added_keys[stream.key] = None
    changes.changed_keys[stream.key] = None


def apply_add_run(keyspace: Keyspace, stream: Stream, effect: fx.AddRun, origin: int) -> None:
    """Appends a run of adds to the log of its region, as a packed node where possible."""
    first = Scan(effect.data, effect.base_counter)
    first.step()
    if first.id() <= stream.xread_high_id:
        scan = Scan(effect.data, effect.base_counter)
        while scan.step() and scan.id() <= stream.xread_high_id:
            keyspace.late.arrivals += 1
    if first.id() < keyspace.late.stable_id:
        scan = Scan(effect.data, effect.base_counter)
        while scan.step() and scan.id() < keyspace.late.stable_id:
            keyspace.late.below_stable += 1
    last_counter = effect.base_counter + effect.count
    stream.log(origin).append_run(
        effect.names,
        effect.data,
        effect.base_counter,
        effect.count,
        effect.last_ms,
        effect.last_seq,
        last_counter,
    )
    stream.header.note(origin, last_counter, effect.last_ms, effect.last_seq)
    stream.entries_added += effect.count
    keyspace.changes.added_keys[stream.key] = None


def apply_add_idempotent(
    keyspace: Keyspace,
    stream: Stream,
    effect: fx.AddIdempotent,
    dot: Dot,
    now_ms: int,
    is_own: bool,
) -> None:
    """Applies an add and its pair (S9).

    This region holds the pair from `now_ms` on, or, for its own add, from the recorded time on.
    """
    entry_id, held_ms = effect.entry_id, effect.recorded_ms if is_own else now_ms
    # Own adds can be as low after a DEL by another region, but they are not merged entries.
    if not is_own and entry_id <= stream.xread_high_id:
        keyspace.late.arrivals += 1
    if not is_own and entry_id < keyspace.late.stable_id:
        keyspace.late.below_stable += 1
    stream.log(dot[0]).append(
        entry_id >> 64, entry_id & MAX_HALF, dot[1], effect.names, effect.values
    )
    stream.header.note(dot[0], dot[1], entry_id >> 64, entry_id & MAX_HALF)
    stream.entries_added += 1
    keyspace.changes.added_keys[stream.key] = None
    pair = pair_of(
        effect.pid, effect.iid, dot, entry_id, effect.recorded_ms, effect.vector, held_ms
    )
    if is_own:
        stream.pairs.add(pair)
    else:
        stream.pairs.merge(pair)
        keyspace.changes.pairs.append((stream.key, effect.pid, effect.iid))
    stream.iids_added += 1
    retire_pairs(keyspace, stream, effect.pid)


def retire_pairs(keyspace: Keyspace, stream: Stream, pid: bytes) -> None:
    """Retires the pairs of a producer above the maxsize in force (S9.3)."""
    configuration = stream.configuration()
    maxsize = keyspace.pair_limits.maxsize if configuration is None else configuration[1]
    stream.pairs.retire(pid, maxsize)


def apply_remove_entries(keyspace: Keyspace, stream: Stream, effect: fx.RemoveEntries) -> None:
    for region_id, counter in effect.dots:
        if not stream.remove_entry(region_id, counter):
            keyspace.conflicts.removed_twice += 1


def apply_trim(keyspace: Keyspace, stream: Stream, effect: fx.Trim) -> None:
    for region_id, counter in effect.prefix.items():
        stream.trim(region_id, counter, keyspace.flush_clears.get(region_id, 0))
        if effect.drops_references:
            for group in stream.groups.values():
                group.delivery.drop_references(region_id, counter)


# -- the whole key


def apply_delete(
    keyspace: Keyspace, stream: Stream, effect: fx.Delete, origin: int, counter: int
) -> None:
    """Observed-remove of the contents, delete-wins for the groups; deadlines stay (S3.3, S5.4)."""
    stream.remove_observed(effect.vector)
    raise_to(stream.clears, effect.vector)
    stream.tombstone_of_all[origin] = counter
    _drop_all_groups(keyspace, stream)
    keyspace.conflicts.kept_from_delete += stream.length()


def apply_flush(
    keyspace: Keyspace,
    effect: fx.Flush,
    origin: int,
    counter: int,
    skip_keys: Optional[dict[bytes, int]],
) -> None:
    """As a Delete of every key, including keys not known here (S5.4).

    One vector and one tombstone serve for all keys. If the FLUSHALL has seen everything that was
    applied here, most keys end without a look at their entries.
    """
    seen = effect.vector
    if skip_keys is None and seen.get(origin, 0) == counter - 1 and includes(seen, keyspace.vector):
        keyspace.drop_plain(seen)
    for key in list(keyspace.keys):
        if skip_keys is not None and skip_keys.get(key, 0) > keyspace.position:
            continue
        stream = keyspace.keys[key]
        stream.remove_observed(effect.vector)
        keyspace.conflicts.kept_from_delete += stream.length()
        _drop_all_groups(keyspace, stream)
        note_change(keyspace, stream)
        keyspace.drop_if_empty(stream)
    raise_to(keyspace.flush_clears, effect.vector)
    raise_to(keyspace.flush_tombstone, {origin: counter})
    keyspace.is_dirty = True


def apply_remove_observed(keyspace: Keyspace, stream: Stream, effect: fx.RemoveObserved) -> None:
    """Removes everything observed, create dots included (S10.3, S10.5, S10.6).

    This is no delete-wins and leaves no tombstone.
    """
    vector = effect.vector
    stream.remove_observed(vector)
    keyspace.conflicts.kept_from_expiry += stream.length()
    raise_to(stream.clears, vector)
    for name in stream.group_names():
        dots = [dot for dot in stream.groups[name].creates if covers(vector, *dot)]
        if dots:
            _drop_creates(keyspace, stream, name, dots)
    if effect.with_deadlines:
        stream.deadlines = {
            dot: at_ms for dot, at_ms in stream.deadlines.items() if not covers(vector, *dot)
        }
        keyspace.changes.deadlines[stream.key] = None


# -- groups (delete-wins)


def _drop_creates(keyspace: Keyspace, stream: Stream, name: bytes, dots: list[Dot]) -> None:
    if stream.drop_creates(name, dots):
        keyspace.acknowledgeable.pop((stream.key, name), None)
        keyspace.changes.dropped_groups.append((stream.key, name))


def _drop_all_groups(keyspace: Keyspace, stream: Stream) -> None:
    for name in stream.group_names():
        _drop_creates(keyspace, stream, name, list(stream.groups[name].creates))


def apply_create_group(
    keyspace: Keyspace, stream: Stream, effect: fx.CreateGroup, dot: Dot
) -> None:
    """Adds a create, unless its vector does not cover a tombstone here (S6.1)."""
    if is_buried([*stream.tombstones_of(effect.group), keyspace.flush_tombstone], effect.vector):
        keyspace.conflicts.creates_lost += 1
        return
    stream.add_create(effect.group, dot, Create(effect.start()))
    keyspace.changes.added_keys[stream.key] = None


def apply_destroy_group(
    keyspace: Keyspace, stream: Stream, effect: fx.DestroyGroup, origin: int, counter: int
) -> None:
    """Removes every present create of the name and leaves a tombstone (S6.1).

    By causality no present create had seen the destroy.
    """
    stream.tombstones.setdefault(effect.group, {})[origin] = counter
    group = stream.find_group(effect.group)
    if group is not None:
        _drop_creates(keyspace, stream, effect.group, list(group.creates))


def apply_acknowledge(stream: Stream, effect: fx.Acknowledge, is_own: bool) -> None:
    group: Optional[Group] = stream.find_group(effect.group)
    if group is not None:
        group.acknowledge(effect.creates, effect.spans, is_own)


# -- deadlines, idempotency configuration


def apply_set_deadline(
    keyspace: Keyspace, stream: Stream, effect: fx.SetDeadline, dot: Dot
) -> None:
    for replaced in effect.replaces:
        stream.deadlines.pop(replaced, None)
    if stream.deadlines:
        keyspace.conflicts.deadlines += 1
    stream.deadlines[dot] = effect.at_ms
    keyspace.changes.deadlines[stream.key] = None


def apply_configure(keyspace: Keyspace, stream: Stream, effect: fx.Configure, dot: Dot) -> None:
    for replaced in effect.replaces:
        stream.configurations.pop(replaced, None)
    if stream.configurations:
        keyspace.conflicts.configurations += 1
    stream.configurations[dot] = (effect.duration_s, effect.maxsize)
    stream.pairs.clear(effect.vector)
    raise_to(stream.clears, effect.vector)
