"""The join of a snapshot into a keyspace (S11.3).

The join is state-based and needs no tombstones for entries (ORSWOT, Bieniusa et al. 2012). Suppose
that only one side holds an element with a dot. If the other side's vector does not cover the dot,
the element is new to the other side; otherwise the other side has removed it. The join is
commutative, associative and idempotent, and has the result of receiving the effects (pair records
aside).
"""

from __future__ import annotations

from typing import Optional, TypeVar

from anabranch.crdt.apply import retire_pairs
from anabranch.crdt.cursor import LogCursor
from anabranch.crdt.delivery import Delivery
from anabranch.crdt.groups import Create, Group, is_buried
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.new_keys import take_new
from anabranch.crdt.node import PackedNode
from anabranch.crdt.pair import pair_of
from anabranch.crdt.region_log import RegionLog
from anabranch.crdt.scan import DELETED
from anabranch.crdt.spans import Spans, union_by_region
from anabranch.crdt.stream import Stream
from anabranch.crdt.vector import Dot, Vector, covers, includes, raise_to

Value = TypeVar("Value")


def join(
    keyspace: Keyspace, other: Keyspace, now_ms: int, skip_keys: Optional[dict[bytes, int]] = None
) -> None:
    """Joins `other`, a read snapshot, into `keyspace` in one step.

    WATCH counts it as a change of every key (S10.7). For all others, a key that is equal on both
    sides has not changed, which saves most of the work where many are. `keyspace` takes over parts
    of `other`, so the caller must not use `other` afterwards. `skip_keys` is as in
    `apply.apply_block`; `now_ms` is the time from which joined pairs are held.
    """
    joined: dict[bytes, None] = {}
    for ours in list(keyspace.keys.values()):
        theirs = other.keys.pop(ours.key, None)
        if skip_keys is not None and skip_keys.get(ours.key, 0) > keyspace.position:
            continue
        if theirs is None:
            theirs = Stream(ours.key, other.limits, other.pair_limits)
        elif _is_same(ours, theirs):
            keyspace.note_visible(ours)
            continue
        _join_stream(keyspace, ours, other, theirs, now_ms)
        joined[ours.key] = None
    # The keys that are left are new here.
    new = [
        theirs
        for key, theirs in other.keys.items()
        if skip_keys is None or skip_keys.get(key, 0) <= keyspace.position
    ]
    for theirs in take_new(keyspace, new, other.scan_order):
        _join_stream(keyspace, keyspace.create(theirs.key), other, theirs, now_ms)
        joined[theirs.key] = None
    keyspace.touch_joined(joined)
    keyspace.changes.changed_keys.update(joined)
    raise_to(keyspace.flush_tombstone, other.flush_tombstone)
    raise_to(keyspace.flush_clears, other.flush_clears)
    raise_to(keyspace.collected, other.collected)
    for region_id, counter in other.vector.items():
        if counter > keyspace.vector.get(region_id, 0):
            keyspace.vector[region_id] = counter
            keyspace.chains[region_id] = other.chain(region_id)
    keyspace.is_dirty = True


def _is_same(ours: Stream, theirs: Stream) -> bool:
    """Whether two streams are plainly equal, so that the join of them is what both are.

    False says nothing: equal entries may stand in other nodes, and rare parts are not compared.
    """
    if ours.rare is not None or theirs.rare is not None:
        return False
    if not ours.header.is_same(theirs.header):
        return False
    only, twin = ours.only_log(), theirs.only_log()
    if only is not None and twin is not None:
        return only.region_id == twin.region_id and _is_same_log(only, twin)
    our_logs = ours.each_log()
    if len(our_logs) != len(theirs.each_log()):
        return False
    for log in our_logs:
        twin = theirs.find_log(log.region_id)
        if twin is None or not _is_same_log(log, twin):
            return False
    return True


def _is_same_log(ours: RegionLog, theirs: RegionLog) -> bool:
    node_map, twins = ours.node_map, theirs.node_map
    if ours.trimmed != theirs.trimmed or ours.began != theirs.began:
        return False
    if node_map.size() != twins.size():
        return False
    for index in range(node_map.size()):
        node, twin = node_map.node(index), twins.node(index)
        if node.base_counter != twin.base_counter or node.data != twin.data:
            return False
        if node.names != twin.names:
            return False
    return True


def _is_begun_by(theirs: PackedNode, ours: PackedNode) -> bool:
    """Whether `theirs` begins with all entries of `ours`, present or deleted as they are there."""
    return (
        ours.base_counter == theirs.base_counter
        and ours.names == theirs.names
        and theirs.data.startswith(ours.data)
    )


def _join_stream(
    keyspace: Keyspace, ours: Stream, other: Keyspace, theirs: Stream, now_ms: int
) -> None:
    """Joins a stream of the other side into ours, which the caller notes as touched."""
    our_vector = keyspace.vector
    their_vector = other.vector
    region_ids = [log.region_id for log in ours.each_log()]
    for log in theirs.each_log():
        if log.region_id not in region_ids:
            region_ids.append(log.region_id)
    for region_id in region_ids:
        our_counter = our_vector.get(region_id, 0)
        their_counter = their_vector.get(region_id, 0)
        if not _joins_marks(ours, region_id, theirs, our_counter, their_counter):
            continue
        if join_log(ours, region_id, theirs.find_log(region_id), our_counter, their_counter):
            keyspace.changes.added_keys[ours.key] = None
            _count_late(keyspace, ours, region_id, our_counter)
    if not ours.header.replace(theirs.header, our_vector):
        _join_header(ours, theirs, our_vector, their_vector)
    if ours.rare is not None or theirs.rare is not None:
        _join_rare(keyspace, ours, other, theirs, now_ms)
    keyspace.note_joined(ours)
    keyspace.drop_if_empty(ours)


def _joins_marks(
    ours: Stream, region_id: int, theirs: Stream, our_counter: int, their_counter: int
) -> bool:
    """Joins since when a log is held, and notes what is removed from it with the key (S5.4).

    Returns False if there is nothing more to join: the log is not here, because it was removed with
    the key, and the other side has nothing newer, and no mark of a trim.
    """
    log, twin = ours.find_log(region_id), theirs.find_log(region_id)
    if log is None:
        if their_counter <= our_counter and (twin is None or not twin.trimmed):
            return False
        began = 0 if twin is None else twin.began
        ours.log(region_id).began = max(began, our_counter + 1) if began else 0
        return True
    if twin is not None:
        log.began = max(log.began, twin.began)
    elif their_counter > our_counter:
        # The other side has forgotten the log with the key, perhaps with entries never seen here.
        log.trimmed = max(log.trimmed, their_counter)
    if not theirs.header.has_head(region_id):
        # Without a removal of the whole key the other side would have the head (S3.1).
        removed = log.last_counter_up_to(min(our_counter, their_counter))
        log.trimmed = max(log.trimmed, removed)
    return True


def _join_header(ours: Stream, theirs: Stream, our_vector: Vector, their_vector: Vector) -> None:
    """Joins the header by `join_dotted`, and `touched` by the maximum."""
    heads = join_dotted(
        {(region_id, head[0]): head[1] for region_id, head in ours.header.heads.items()},
        {(region_id, head[0]): head[1] for region_id, head in theirs.header.heads.items()},
        our_vector,
        their_vector,
    )
    touched = dict(ours.header.touched)
    raise_to(touched, theirs.header.touched)
    ours.header.set_heads({dot[0]: (dot[1], entry_id) for dot, entry_id in heads.items()})
    ours.header.set_touched(touched)


def _join_rare(
    keyspace: Keyspace, ours: Stream, other: Keyspace, theirs: Stream, now_ms: int
) -> None:
    our_vector = keyspace.vector
    their_vector = other.vector
    deadlines = join_dotted(ours.deadlines, theirs.deadlines, our_vector, their_vector)
    if deadlines != ours.deadlines:
        ours.deadlines = deadlines
        keyspace.changes.deadlines[ours.key] = None
    ours.configurations = join_dotted(
        ours.configurations, theirs.configurations, our_vector, their_vector
    )
    for name in {**ours.groups, **theirs.groups}:
        _join_group(keyspace, ours, other, theirs, name)
    for name, tombstone in theirs.tombstones.items():
        raise_to(ours.tombstones.setdefault(name, {}), tombstone)
    raise_to(ours.tombstone_of_all, theirs.tombstone_of_all)
    _join_pairs(keyspace, ours, other, theirs, now_ms)
    raise_to(ours.clears, theirs.clears)


def join_dotted(
    ours: dict[Dot, Value], theirs: dict[Dot, Value], our_vector: Vector, their_vector: Vector
) -> dict[Dot, Value]:
    """Joins elements that are a dot and a value, by the rule of the module docstring."""
    result = {
        dot: value for dot, value in ours.items() if dot in theirs or not covers(their_vector, *dot)
    }
    for dot, value in theirs.items():
        if dot not in ours and not covers(our_vector, *dot):
            result[dot] = value
    return result


# -- region logs


def join_log(
    stream: Stream,
    region_id: int,
    theirs: Optional[RegionLog],
    our_counter: int,
    their_counter: int,
) -> int:
    """Joins a region log by the rule of `join_dotted`; nodes are compared as a whole if possible.

    `our_counter` and `their_counter` are the counters of `region_id` in the two vectors. Returns
    the number of entries added.
    """
    ours = stream.log(region_id)
    common = min(our_counter, their_counter)
    lowest = 0 if theirs is None else theirs.first_counter()
    if ours.length:
        ours.remove_prefix(min(lowest - 1, common) if lowest else common)
    if theirs is None:
        return 0
    for counter in _missing_in(theirs, ours, common):
        stream.remove_entry(region_id, counter)
    added = _append_above(ours, theirs, our_counter) if their_counter > our_counter else 0
    stream.entries_added += added
    ours.trimmed = max(ours.trimmed, theirs.trimmed)
    return added


def _missing_in(theirs: RegionLog, ours: RegionLog, common: int) -> list[int]:
    """Returns the counters up to `common` that are present in `ours` and not in `theirs`."""
    missing: list[int] = []
    cursor: Optional[LogCursor] = None
    for index in range(ours.node_map.size()):
        node = ours.node_map.node(index)
        if node.base_counter >= common:
            break
        twin = theirs.node_map.index_by_counter(ours.node_map.first_counter(index))
        if twin >= 0 and _is_begun_by(theirs.node_map.node(twin), node):
            continue
        if cursor is None:
            cursor = LogCursor(theirs)
        cursor.seek_counter(node.base_counter)
        scan = node.scan()
        while scan.step() and scan.counter <= common:
            if scan.flags & DELETED:
                continue
            while cursor.valid and cursor.counter < scan.counter:
                cursor.step()
            if not cursor.valid or cursor.counter != scan.counter:
                missing.append(scan.counter)
    return missing


def _append_above(ours: RegionLog, theirs: RegionLog, counter: int) -> int:
    """Takes the entries of `theirs` above `counter`, as whole nodes where possible.

    Returns the number of entries taken.
    """
    before = ours.length
    node_map = theirs.node_map
    for index in range(max(node_map.index_by_counter(counter), 0), node_map.size()):
        node = node_map.node(index)
        if node.base_counter >= counter:
            node.number = 0
            node.is_unsaved = True
            ours.push(node, node_map.first_id(index), node_map.first_counter(index))
            continue
        scan = node.scan()
        while scan.step():
            if scan.counter > counter and not scan.flags & DELETED:
                ours.append_entry(scan, node.names)
    return ours.length - before


def _count_late(keyspace: Keyspace, stream: Stream, region_id: int, our_counter: int) -> None:
    """Counts the joined entries that come late.

    These are entries not above the highest ID that an XREAD had returned (S7.2), and entries below
    the highest stable time (S7.7).
    """
    highest = max(stream.xread_high_id, keyspace.late.stable_id)
    log = stream.log(region_id)
    if highest and log.last_counter_not_above(highest) > our_counter:
        cursor = LogCursor(log)
        cursor.seek_counter(our_counter)
        while cursor.valid and (entry_id := cursor.id()) <= highest:
            keyspace.late.arrivals += entry_id <= stream.xread_high_id
            keyspace.late.below_stable += entry_id < keyspace.late.stable_id
            cursor.step()


# -- groups


def _join_group(
    keyspace: Keyspace, ours: Stream, other: Keyspace, theirs: Stream, name: bytes
) -> None:
    """Joins a group: creates by `join_dotted`, acked spans by union.

    A create that only one side holds also dies by a tombstone of the other side that its own side's
    vector lacks.
    """
    group = ours.groups.get(name) or Group(name)
    their_group = theirs.groups.get(name) or Group(name)
    acked_before = {region_id: group.acked(region_id).copy() for region_id in group.acked_regions()}
    before = set(group.creates)
    our_tombstones = [*ours.tombstones_of(name), keyspace.flush_tombstone]
    their_tombstones = [*theirs.tombstones_of(name), other.flush_tombstone]
    creates: dict[Dot, Create] = {}
    for dot, create in join_dotted(
        group.creates, their_group.creates, keyspace.vector, other.vector
    ).items():
        twin = their_group.creates.get(dot)
        if dot not in group.creates:
            if is_buried(our_tombstones, other.vector):
                continue
        elif twin is None:
            if is_buried(their_tombstones, keyspace.vector):
                continue
        else:
            union_by_region(create.acked, twin.acked)
        creates[dot] = create
    if before and not before & set(creates):
        group.delivery = Delivery()
        acked_before = {}
        keyspace.changes.dropped_groups.append((ours.key, name))
    group.creates = creates
    group.delivery.memos.clear()
    if not creates:
        ours.groups.pop(name, None)
        keyspace.acknowledgeable.pop((ours.key, name), None)
        return
    if not before:
        keyspace.changes.added_keys[ours.key] = None
    ours.groups[name] = group
    for region_id in group.acked_regions():
        new = group.acked(region_id).minus(acked_before.get(region_id, Spans()))
        if new:
            group.take_as_given(region_id, new)


# -- idempotency


def _join_pairs(
    keyspace: Keyspace, ours: Stream, other: Keyspace, theirs: Stream, now_ms: int
) -> None:
    """Joins the pairs. Only a clear of the other side removes a pair of ours (S11.3).

    A region collects pairs by itself, so the absence of a pair does not mean that it was removed.
    But if we lack effects that were once on our own disk, we were put back to a backup, and the
    other side may have forgotten the clear of a pair that it has no more: it collects clears up to
    `collected`, and a pair covered by that which it lacks goes.
    Only a pair that is new here pushes others of its producer out, as the effect of its add does.
    """
    ours.pairs.clear(theirs.clears)
    ours.pairs.clear(other.flush_clears)
    if not includes(keyspace.vector, other.collected):
        ours.pairs.keep_only(theirs.pairs, other.collected)
    producers: dict[bytes, None] = {}
    for pair in theirs.pairs.everything():
        if not covers(keyspace.vector, *pair.dot):
            ours.pairs.merge(
                pair_of(
                    pair.pid,
                    pair.iid,
                    pair.dot,
                    pair.entry_id,
                    pair.recorded_ms,
                    pair.vector,
                    now_ms,
                )
            )
            ours.iids_added += 1
            keyspace.changes.pairs.append((ours.key, pair.pid, pair.iid))
            producers[pair.pid] = None
    for pid in producers:
        retire_pairs(keyspace, ours, pid)
