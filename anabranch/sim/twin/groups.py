"""XGROUP and XACK (S6, S7.4)."""

from __future__ import annotations

from typing import Optional

from anabranch.crdt.effects import CreateGroup, DestroyGroup
from anabranch.region.engine.replies import OK
from anabranch.sim.twin.adding import prepare
from anabranch.sim.twin.arguments import entry_id, integer, refuse
from anabranch.sim.twin.core import TwinCore
from anabranch.sim.twin.records import ConsumerDeleted, ConsumerMade, FloorSet, LeftPel
from anabranch.sim.twin.session import Session
from anabranch.sim.twin.state import Place

_REQUIRES_KEY = (
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use "
    "the MKSTREAM option to create an empty stream automatically."
)


def xgroup(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    """XGROUP with any subcommand."""
    sub, name, group = argv[1].upper(), argv[2], argv[3]
    key = twin.state.visible(name)
    words = [word.upper() for word in argv[5:]]
    if key is None and not (sub == b"CREATE" and b"MKSTREAM" in words):
        refuse(_REQUIRES_KEY)
    if sub == b"CREATE":
        return _create(twin, argv)
    assert key is not None
    if sub == b"DESTROY":
        if group not in key.groups:
            return 0
        twin.issue(DestroyGroup(name, group))
        return 1
    if group not in key.groups:
        refuse(f"NOGROUP No such consumer group '{group.decode()}' for key name '{name.decode()}'")
    if sub == b"SETID":
        return _set_id(twin, argv)
    now_ms = twin.state.clock_ms
    local = key.groups[group].local
    if sub == b"CREATECONSUMER":
        if argv[4] in local.consumers:
            return 0
        twin.record(ConsumerMade(key, group, now_ms, argv[4]))
        return 1
    if argv[4] not in local.consumers:
        return 0
    pending = len(local.pending(argv[4]))
    twin.record(ConsumerDeleted(key, group, now_ms, argv[4]))
    return pending


def _entries_read(argv: tuple[bytes, ...]) -> Optional[int]:
    """ENTRIESREAD; None if it is not given, or not above 0."""
    for place, word in enumerate(argv):
        if word.upper() == b"ENTRIESREAD":
            return max(integer(argv[place + 1]), 0) or None
    return None


def _create(twin: TwinCore, argv: tuple[bytes, ...]) -> object:
    name, group, word = argv[2:5]
    start_id = 0 if word == b"$" else entry_id(word)
    key = twin.state.visible(name)
    if key is not None and group in key.groups:
        refuse("BUSYGROUP Consumer Group name already exists")
    made = prepare(twin, name)
    twin.issue(CreateGroup(name, group, start_id, word == b"$", twin.vector()))
    entries_read = _entries_read(argv)
    if entries_read is not None:
        made.groups[group].local.entries_read = entries_read
        twin.hand_set.add((name, group))
    return OK


def _set_id(twin: TwinCore, argv: tuple[bytes, ...]) -> object:
    """SETID: the floor becomes x, and what is given beyond it is forgotten (S7.4)."""
    name, group, word = argv[2:5]
    key = twin.state.keys[name]
    if word == b"$":
        place = Place(False, 0, twin.vector())
    else:
        place = Place(True, entry_id(word), {})
    forgets = {region: key.last_not_above(region, place) for region in key.logs}
    entries_read = _entries_read(argv)
    twin.record(FloorSet(key, group, twin.state.clock_ms, place, forgets, entries_read))
    twin.state.added.append(name)
    return OK


def xack(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    """XACK: every pending entry that bears one of the IDs."""
    key = twin.state.visible(argv[1])
    if key is None or argv[2] not in key.groups:
        return 0
    ids = {entry_id(word) for word in argv[3:]}
    pel = key.groups[argv[2]].local.pel
    dots = [dot for dot, one in pel.items() if one.entry_id in ids]
    if dots:
        twin.record(LeftPel(key, argv[2], twin.state.clock_ms, dots))
        key.groups[argv[2]].local.acks += 1
    return len(dots)
