"""XCLAIM, XAUTOCLAIM and XPENDING (S7.4, S7.5)."""

from __future__ import annotations

from anabranch.crdt.ids import format_id
from anabranch.region.engine.replies import NULL_ARRAY, Reply
from anabranch.sim.twin.arguments import entry_id, high_bound, integer, low_bound, refuse
from anabranch.sim.twin.core import TwinCore
from anabranch.sim.twin.reading import see
from anabranch.sim.twin.records import Claimed, FloorRaised, LeftPel
from anabranch.sim.twin.replies import entry_reply
from anabranch.sim.twin.session import Session
from anabranch.sim.twin.state import Key, Pending, Place
from anabranch.sim.twin.vectors import Dot


def _group_key(twin: TwinCore, name: bytes, group: bytes) -> Key:
    key = twin.state.visible(name)
    if key is None or group not in key.groups:
        refuse(f"NOGROUP No such key '{name.decode()}' or consumer group '{group.decode()}'")
    return key


class ClaimOptions:
    """The options of XCLAIM; `first` is the place of the first word after the IDs."""

    def __init__(self, argv: tuple[bytes, ...], now_ms: int) -> None:
        self.ids: list[int] = []
        self.is_forced = self.is_just_id = False
        self.delivered_ms = now_ms
        self.deliveries = -1
        self.last_id = 0
        place = 5
        while place < len(argv) and argv[place][:1].isdigit():
            self.ids.append(entry_id(argv[place]))
            place += 1
        while place < len(argv):
            name = argv[place].upper()
            if name == b"FORCE":
                self.is_forced = True
            elif name == b"JUSTID":
                self.is_just_id = True
            else:
                place += 1
                if name == b"IDLE":
                    self.delivered_ms = now_ms - integer(argv[place])
                elif name == b"TIME":
                    self.delivered_ms = integer(argv[place])
                elif name == b"RETRYCOUNT":
                    self.deliveries = integer(argv[place])
                else:
                    self.last_id = entry_id(argv[place])
            place += 1
        if not 0 <= self.delivered_ms <= now_ms:
            self.delivered_ms = now_ms


def xclaim(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    """XCLAIM."""
    key = _group_key(twin, argv[1], argv[2])
    name, consumer = argv[2], argv[3]
    least_idle_ms = max(integer(argv[4]), 0)
    now_ms = twin.state.clock_ms
    given = ClaimOptions(argv, now_ms)
    local = key.groups[name].local
    if given.last_id > local.raised:
        twin.record(FloorRaised(key, name, now_ms, given.last_id))
    see(twin, key, name, consumer)
    claims: list[Pending] = []
    gone: list[Dot] = []
    for one_id in dict.fromkeys(given.ids):
        dots = {entry.dot for entry in key.with_id(one_id)} if given.is_forced else set()
        dots |= {dot for dot, one in local.pel.items() if one.entry_id == one_id}
        for dot in sorted(dots):
            old = local.pel.get(dot)
            if dot not in key.entries:
                gone.append(dot)
                continue
            if old is not None and now_ms - old.delivered_ms < least_idle_ms:
                continue
            count = old.deliveries if old is not None else 1
            if given.deliveries >= 0:
                count = given.deliveries
            elif not given.is_just_id:
                count += 1
            claims.append(Pending(dot, one_id, consumer, given.delivered_ms, count))
    if gone:
        twin.record(LeftPel(key, name, now_ms, gone))
    if claims:
        twin.record(Claimed(key, name, now_ms, consumer, claims))
    return _claimed(key, claims, given.is_just_id)


def last_delivered(key: Key, name: bytes) -> int:
    """The highest end of what is given, or the floor (S7.6): the lowest of several starts."""
    group = key.groups[name]
    highest: dict[int, int] = {}
    for region, counter in group.local.given:
        highest[region] = max(highest.get(region, 0), counter)
    ends = [key.ids.get(dot, 0) for dot in highest.items()]
    floor = min(_floor_id(key, place) for place in group.floors())
    return max([*ends, floor, group.local.raised])


def _floor_id(key: Key, place: Place) -> int:
    """The ID of a floor; for `$` that of the newest entry up to it that still exists."""
    if place.is_id:
        return place.entry_id
    ends = [(region, key.last_not_above(region, place)) for region in key.logs]
    return max((key.ids[dot] for dot in ends if dot[1]), default=0)


def _claimed(key: Key, claims: list[Pending], is_just_id: bool) -> list[Reply]:
    if is_just_id:
        return [format_id(one.entry_id) for one in claims]
    return [entry_reply(key.entries[one.dot]) for one in claims]


def xautoclaim(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    """XAUTOCLAIM. COUNT never cuts between entries of one ID (S7.1)."""
    least_idle_ms = max(integer(argv[4]), 0)
    start = low_bound(argv[5])
    count, is_just_id = 100, False
    for place in range(6, len(argv)):
        if argv[place].upper() == b"COUNT":
            # More are claimed by none, and the reply says where to go on.
            count = min(integer(argv[place + 1]), 5000)
        elif argv[place].upper() == b"JUSTID":
            is_just_id = True
    key = _group_key(twin, argv[1], argv[2])
    name, consumer = argv[2], argv[3]
    now_ms = twin.state.clock_ms
    see(twin, key, name, consumer)
    attempts = count * 10
    claims: list[Pending] = []
    gone: list[Pending] = []
    cursor = 0
    last_id = -1
    for one in key.groups[name].local.pending():
        if one.entry_id < start:
            continue
        is_over = attempts <= 0 or len(claims) + len(gone) >= count
        if is_over:
            if one.entry_id != last_id:
                cursor = one.entry_id
                break
            twin.state.count("S7.1")
        attempts -= 1
        last_id = one.entry_id
        if one.dot not in key.entries:
            gone.append(one)
        elif now_ms - one.delivered_ms >= least_idle_ms:
            more = 0 if is_just_id else 1
            claims.append(Pending(one.dot, one.entry_id, consumer, now_ms, one.deliveries + more))
    if gone:
        twin.record(LeftPel(key, name, now_ms, [one.dot for one in gone]))
    if claims:
        twin.record(Claimed(key, name, now_ms, consumer, claims))
    deleted: list[Reply] = [format_id(one.entry_id) for one in gone]
    return [format_id(cursor), _claimed(key, claims, is_just_id), deleted]


def xpending(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    """XPENDING, the summary and the extended form."""
    rest = list(argv[3:])
    least_idle_ms = 0
    if rest and rest[0].upper() == b"IDLE":
        least_idle_ms = integer(rest[1])
        rest = rest[2:]
    if rest:
        low, high, count = low_bound(rest[0]), high_bound(rest[1]), integer(rest[2])
    key = _group_key(twin, argv[1], argv[2])
    local = key.groups[argv[2]].local
    if not rest:
        return _summary(local.pending())
    now_ms = twin.state.clock_ms
    rows: list[Pending] = []
    for one in local.pending(rest[3] if len(rest) > 3 else None):
        if not low <= one.entry_id <= high or now_ms - one.delivered_ms < least_idle_ms:
            continue
        if len(rows) >= count and one.entry_id != rows[-1].entry_id:
            break
        rows.append(one)
    if len(rows) > count:
        twin.state.count("S7.1")
    answer: list[Reply] = []
    for one in rows:
        idle_ms = max(now_ms - one.delivered_ms, 0)
        answer.append([format_id(one.entry_id), one.consumer, idle_ms, one.deliveries])
    return answer


def _summary(pending: list[Pending]) -> Reply:
    if not pending:
        return [0, None, None, NULL_ARRAY]
    counts: dict[bytes, int] = {}
    for one in pending:
        counts[one.consumer] = counts.get(one.consumer, 0) + 1
    rows: list[Reply] = [[name, b"%d" % counts[name]] for name in sorted(counts)]
    return [len(pending), format_id(pending[0].entry_id), format_id(pending[-1].entry_id), rows]
