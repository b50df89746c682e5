"""Each group command by definition (S6.5 to S7.6), on one possible `Local` state.

A step returns the fault of the reply and leaves the state unchanged, or it changes the state as
the command did and returns "".
"""

from __future__ import annotations

from typing import Optional

from anabranch.region.engine.replies import NullArray, Reply
from anabranch.sim.checkers.delivery_arguments import (
    AutoclaimRequest,
    ClaimRequest,
    ReadRequest,
    fields_of_map,
    is_null,
)
from anabranch.sim.checkers.delivery_model import Group, Local, Name, Pending, RegionModel, text_of
from anabranch.sim.history import Vector, Words
from anabranch.sim.oracle.arguments import entry_id, lower_bound, number, shown, upper_bound
from anabranch.sim.oracle.log import Add, Dot
from anabranch.sim.oracle.state import KeyState

NOTHING: frozenset[Dot] = frozenset()


def ids_of(reply: Reply) -> str:
    """The IDs in a list of entries, as text for messages."""
    if not isinstance(reply, list):
        return "null" if is_null(reply) else repr(reply)
    return " ".join(_id_of(item).decode("utf-8", "backslashreplace") for item in reply) or "nothing"


def _id_of(item: Reply) -> bytes:
    one = item[0] if isinstance(item, list) and item else item
    return one if isinstance(one, bytes) else repr(one).encode()


def order(add: Add) -> tuple[int, int, int]:
    return add.entry_id, add.region, add.counter


def differs(what: str, got: Reply, wanted: Reply) -> str:
    """The fault if a reply differs from the required one, else "". `what` names the reply."""
    return "" if got == wanted else f"{what} is {got!r}, not {wanted!r}"


# -- new entries


def walk(
    expected: list[Add], entries: list[Reply], count: int, optional: frozenset[Dot] = NOTHING
) -> tuple[Optional[Add], list[Add]]:
    """Compares the entries of a reply with the required ones, in their order.

    Returns (the first entry that the reply leaves out or None, the matched entries up to it). If
    the reply has further entries, fewer are matched than it has. COUNT never cuts between equal
    IDs (S7.1). `optional`: entries that may have come or gone while the reader was woken.
    """
    taken: list[Add] = []
    for add in expected:
        at = len(taken)
        if 0 < count <= at and taken[-1].entry_id != add.entry_id:
            return None, taken
        if at < len(entries) and entries[at] == add.shown:
            taken.append(add)
        elif (add.region, add.counter) not in optional:
            return add, taken
    return None, taken


def deliver(
    model: RegionModel,
    name: Name,
    group: Group,
    local: Local,
    request: ReadRequest,
    entries: list[Reply],
    relaxed: bool,
) -> tuple[str, list[Add]]:
    """Compares the entries that `>` delivered with the required ones (S7.3).

    Returns (the fault or "", the matched entries), and leaves the state unchanged. `relaxed`: the
    reader was woken in the middle of a step.
    """
    key = model.state.keys[name[0]]
    expected = local.undelivered(key, group.creates)
    optional = NOTHING
    if relaxed:
        passing = model.passing(name[0], group)
        known = {(add.region, add.counter) for add in expected}
        for dot, add in passing.items():
            if (
                dot not in known
                and (dot not in local.given or dot in group.taken)
                and local.is_above(group.creates, add)
            ):
                expected.append(add)
        expected.sort(key=order)
        optional = frozenset(passing)
    left_out, taken = walk(expected, entries, request.count, optional)
    if len(taken) < len(entries):
        extra = entries[len(taken)]
        wrong = "" if any(add.shown == extra for add in expected) else _why_not(key, local, extra)
        if wrong or left_out is None:
            return wrong or f"{ids_of([extra])} is out of order, or more than COUNT", taken
    if left_out is not None:
        return (
            (
                f"skipped {text_of(left_out)} (token {left_out.token().decode()}): "
                f"handed out {ids_of(list(entries))}"
            ),
            taken,
        )
    return "", taken


def _why_not(key: KeyState, local: Local, extra: Reply) -> str:
    """The fault of a delivered entry that `>` must not deliver."""
    found = [(dot, add) for dot, add in key.adds.items() if add.shown == extra]
    if not found:
        return f"handed out {ids_of([extra])}, which is not in the stream"
    dot, add = found[0]
    what = f"{text_of(add)} (token {add.token().decode()})"
    if dot in local.given:
        return f"repeated {what}, handed out here before or acknowledged"
    return f"handed out {what}, which lies below the floor"


def take(
    local: Local, taken: list[Add], request: ReadRequest, clock_ms: int, settled: set[Dot]
) -> None:
    """Takes the delivered entries into the state (S7.3).

    `settled`: entries that were acknowledged elsewhere, or dereferenced, right after the read.
    """
    for add in taken:
        dot = (add.region, add.counter)
        local.given.add(dot)
        if request.no_ack:
            local.dropped.discard(dot)  # acknowledged at its delivery (S8.3)
        elif dot not in settled:
            local.assign(Pending(add, request.consumer, clock_ms, 1))


# -- pending entries


def limited(found: list[Pending], count: int) -> list[Pending]:
    """The first `count` entries and further ones of the last ID (S7.1); all if `count` is 0."""
    if not 0 < count < len(found):
        return found
    end = count
    while end < len(found) and found[end].add.entry_id == found[count - 1].add.entry_id:
        end += 1
    return found[:end]


def history(
    key: KeyState,
    local: Local,
    request: ReadRequest,
    above: int,
    entries: list[Reply],
    clock_ms: int,
) -> str:
    """XREADGROUP with an ID: the consumer's pending entries (S7.5); deleted ones lack fields."""
    found = limited(
        [one for one in local.pending_of(request.consumer) if one.add.entry_id > above],
        request.count,
    )
    if len(found) != len(entries):
        return (
            f"pending for {request.consumer.decode()} are {_ids(found)}, "
            f"shown are {ids_of(list(entries))}"
        )
    for one, item in zip(found, entries, strict=True):
        if _is_present(key, one):
            if item != one.add.shown:
                return (
                    f"pending for {request.consumer.decode()} is {text_of(one.add)}, "
                    f"shown is {ids_of([item])}"
                )
        elif not (isinstance(item, list) and item[0] == one.add.shown_id and is_null(item[1])):
            return f"{text_of(one.add)} is pending and deleted, shown is {ids_of([item])}"
    for one in found:
        if _is_present(key, one):
            local.assign(Pending(one.add, one.consumer, clock_ms, one.deliveries + 1))
    return ""


def _is_present(key: KeyState, pending: Pending) -> bool:
    return (pending.add.region, pending.add.counter) in key.adds


def _ids(found: list[Pending]) -> str:
    return " ".join(text_of(one.add) for one in found) or "none"


def acknowledge(local: Local, words: Words, reply: Reply) -> str:
    """XACK: all pending entries that bear one of the IDs leave the PELs."""
    wanted = {entry_id(text) for text in words[3:]}
    found = [dot for dot, one in local.pel.items() if one.add.entry_id in wanted]
    if reply != len(found):
        return f"{reply!r} acknowledged where {len(found)} were pending"
    for dot in found:
        del local.pel[dot]
    return ""


def pending(local: Local, words: Words, reply: Reply, clock_ms: int) -> str:
    """XPENDING, summary or range."""
    if len(words) == 3:
        return _pending_summary(local, reply)
    index, idle_ms = (5, number(words[4])) if words[3].upper() == b"IDLE" else (3, 0)
    start, end, count = (
        lower_bound(words[index]),
        upper_bound(words[index + 1]),
        number(words[index + 2]),
    )
    consumer = words[index + 3] if len(words) > index + 3 else None
    found = [
        one
        for one in local.pending_of(consumer)
        if start <= one.add.entry_id <= end and max(clock_ms - one.since_ms, 0) >= idle_ms
    ]
    wanted: list[Reply] = []
    for one in limited(found, count) if count > 0 else ():
        wanted.append(
            [one.add.shown_id, one.consumer, max(clock_ms - one.since_ms, 0), one.deliveries]
        )
    return differs("the range of XPENDING", reply, wanted)


def _pending_summary(local: Local, reply: Reply) -> str:
    found = local.pending_of()
    if not found:
        is_empty = (
            isinstance(reply, list)
            and reply[:3] == [0, None, None]
            and isinstance(reply[3], NullArray)
        )
        return (
            "" if is_empty else f"the summary of XPENDING is {reply!r}, though nothing is pending"
        )
    counts: dict[bytes, int] = {}
    for one in found:
        counts[one.consumer] = counts.get(one.consumer, 0) + 1
    by_consumer: list[Reply] = [[name, b"%d" % counts[name]] for name in sorted(counts)]
    return differs(
        "the summary of XPENDING",
        reply,
        [len(found), found[0].add.shown_id, found[-1].add.shown_id, by_consumer],
    )


# -- claiming


def _shown(claimed: list[Pending], just_id: bool) -> list[Reply]:
    return [one.add.shown_id if just_id else one.add.shown for one in claimed]


def claim(key: KeyState, local: Local, words: Words, reply: Reply, clock_ms: int) -> str:
    """XCLAIM (S7.4): LASTID only raises the floor; FORCE makes entries pending, but not given."""
    request = ClaimRequest(words, clock_ms)
    claimed: list[Pending] = []
    gone: list[Dot] = []
    for one_id in dict.fromkeys(request.ids):
        found = [one for one in local.pending_of() if one.add.entry_id == one_id]
        if request.force:
            found += [
                Pending(add, b"", -1, 1)
                for add in key.with_id(one_id)
                if (add.region, add.counter) not in local.pel
            ]
        for one in found:
            if not _is_present(key, one):
                gone.append((one.add.region, one.add.counter))
            elif one.since_ms < 0 or clock_ms - one.since_ms >= request.min_idle_ms:
                deliveries = one.deliveries + (0 if request.just_id else 1)
                deliveries = request.retry_count if request.retry_count >= 0 else deliveries
                claimed.append(Pending(one.add, words[3], request.since_ms, deliveries))
    wanted = _shown(claimed, request.just_id)
    if reply != wanted:
        return f"claimed {ids_of(reply)} where {ids_of(wanted)} was to be claimed"
    local.raised_id = max(local.raised_id, request.last_id)
    _claim(local, claimed, gone)
    return ""


def autoclaim(key: KeyState, local: Local, words: Words, reply: Reply, clock_ms: int) -> str:
    """XAUTOCLAIM: inspects at most ten times COUNT entries."""
    request = AutoclaimRequest(words)
    claimed: list[Pending] = []
    gone: list[Pending] = []
    next_id = 0
    last_id = -1
    looks = request.count * 10
    for one in local.pending_of():
        if one.add.entry_id < request.start:
            continue
        if (
            looks <= 0 or len(claimed) + len(gone) >= request.count
        ) and one.add.entry_id != last_id:
            next_id = one.add.entry_id
            break
        looks -= 1
        last_id = one.add.entry_id
        if not _is_present(key, one):
            gone.append(one)
        elif clock_ms - one.since_ms >= request.min_idle_ms:
            claimed.append(
                Pending(one.add, words[3], clock_ms, one.deliveries + (0 if request.just_id else 1))
            )
    wanted: list[Reply] = [
        shown(next_id),
        _shown(claimed, request.just_id),
        [one.add.shown_id for one in gone],
    ]
    if reply != wanted:
        got = " / ".join(map(ids_of, reply)) if isinstance(reply, list) else repr(reply)
        return (
            f"claimed (next / entries / deleted) {got}, must be {' / '.join(map(ids_of, wanted))}"
        )
    _claim(local, claimed, [(one.add.region, one.add.counter) for one in gone])
    return ""


def _claim(local: Local, claimed: list[Pending], gone: list[Dot]) -> None:
    for dot in gone:
        del local.pel[dot]
    for one in claimed:
        local.assign(one)


# -- floors, consumers, statistics


def set_id(key: KeyState, local: Local, words: Words, vector: Vector) -> str:
    """XGROUP SETID (S7.4): sets the floor.

    Given entries stay given up to the last entry of each log that is not above the floor.
    """
    local.floor_id, local.floor_vector = (
        (-1, dict(vector)) if words[4] == b"$" else (entry_id(words[4]), None)
    )
    local.raised_id = 0
    ends: Vector = {}
    for _, region, counter, add in key.stream:
        if local.floor_vector is not None or add.entry_id <= local.floor_id:
            ends[region] = max(ends.get(region, 0), counter)
    local.given = {dot for dot in local.given if dot[1] <= ends.get(dot[0], 0)}
    return ""


def delete_consumer(local: Local, words: Words, reply: Reply) -> str:
    """XGROUP DELCONSUMER: the consumer's pending entries are dropped (S8.1)."""
    found = [dot for dot, one in local.pel.items() if one.consumer == words[4]]
    if reply != len(found):
        return (
            f"{reply!r} entries dropped with consumer {words[4].decode()} "
            f"where {len(found)} were pending for it"
        )
    for dot in found:
        del local.pel[dot]
        local.dropped.add(dot)
    return ""


def group_figures(key: KeyState, group: Group, local: Local, item: Reply) -> str:
    """XINFO GROUPS: pending and lag (S7.6)."""
    figures = fields_of_map(item)
    return differs("pending", figures[b"pending"], len(local.pel)) or differs(
        "lag", figures[b"lag"], len(local.undelivered(key, group.creates))
    )


def consumer_figures(local: Local, reply: Reply) -> str:
    """XINFO CONSUMERS: the number of pending entries of each consumer."""
    assert isinstance(reply, list)
    shown_counts: dict[Reply, Reply] = {}
    for item in reply:
        figures = fields_of_map(item)
        name = figures[b"name"]
        assert isinstance(name, bytes)
        if figures[b"pending"]:
            shown_counts[name] = figures[b"pending"]
    counts: dict[Reply, Reply] = {}
    for one in local.pending_of():
        known = counts.get(one.consumer, 0)
        assert isinstance(known, int)
        counts[one.consumer] = known + 1
    return (
        ""
        if counts == shown_counts
        else f"pending for consumers is shown as {shown_counts!r}, not {counts!r}"
    )


# -- announcements


def announceable(key: KeyState, group: Group, local: Local) -> list[Add]:
    """The entries that a round must announce (S8.1).

    They are given, not pending, not dropped, not yet acked, and stand in a run that begins at the
    group's start, the floor, an acked entry or a dropped entry.
    """
    acked = group.acked_now()
    found: list[Add] = []
    region_now = 0
    begins = False
    log = sorted((region, counter, add) for _, region, counter, add in key.stream)
    for index, (region, counter, add) in enumerate(log):
        dot = (region, counter)
        is_last = index + 1 == len(log) or log[index + 1][0] != region
        following = None if is_last else log[index + 1][2]
        if region != region_now:
            region_now = region
            begins = _is_above_start(group, add) or local.is_above(group.creates, add)
        if (
            begins
            and dot in local.given
            and dot not in local.pel
            and dot not in local.dropped
            and dot not in acked
        ):
            found.append(add)
        else:
            begins = dot in acked or dot in local.dropped
        if following is not None and not begins:
            at_start = not _is_above_start(group, add) and _is_above_start(group, following)
            begins = at_start or (
                not local.is_above(group.creates, add) and local.is_above(group.creates, following)
            )
    return found


def _is_above_start(group: Group, add: Add) -> bool:
    return any(create.is_below(add) for create in group.creates.values())
