"""Commands about keys: deleting, renaming, deadlines, existence, listing (S5.4, S10).

Free: the order of KEYS, which keys one SCAN returns, which key RANDOMKEY returns.
"""

from __future__ import annotations

from anabranch.crdt.effects import Delete, Flush, SetDeadline, SetId
from anabranch.region.engine.replies import OK, ErrorReply, Reply, SimpleString
from anabranch.sim.twin.adding import clear
from anabranch.sim.twin.arguments import MAX_ID, NO_KEY, integer, refuse
from anabranch.sim.twin.core import TwinCore
from anabranch.sim.twin.effects import Add
from anabranch.sim.twin.replies import Expected, error_with
from anabranch.sim.twin.session import Session
from anabranch.sim.twin.state import NEVER


def delete(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    """DEL and UNLINK."""
    count = 0
    for name in argv[1:]:
        if twin.state.visible(name) is not None:
            twin.issue(Delete(name, twin.vector()))
            count += 1
    return count


def flush(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    """FLUSHALL and FLUSHDB."""
    twin.issue(Flush(twin.vector()))
    return OK


def exists(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    """EXISTS and TOUCH."""
    return sum(twin.state.visible(name) is not None for name in argv[1:])


def type_of(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    """TYPE."""
    return SimpleString(b"none" if twin.state.visible(argv[1]) is None else b"stream")


# -- RENAME


def rename(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    """RENAME and RENAMENX (S10.1)."""
    only_new = argv[0].upper() == b"RENAMENX"
    source = twin.state.visible(argv[1])
    if source is None:
        refuse(NO_KEY)
    target = twin.state.visible(argv[2])
    if only_new and target is not None:
        return 0
    if argv[1] == argv[2]:
        return OK
    if _is_too_large(twin):
        raise error_with("ERR")
    twin.require_issue()
    entries = source.between(0, MAX_ID)
    last_id, won = source.last_id(), source.deadline()
    twin.issue(Delete(source.name, twin.vector()))
    if twin.conflicts is not None:
        twin.conflicts.rename(source.name, (twin.region, twin.counter()))
    if entries:
        twin.state.count("S10.1")
    if target is not None:
        twin.issue(Delete(target.name, twin.vector()))
    made = twin.state.key(argv[2])
    clear(twin, made)
    before = -1
    for entry in entries:
        if entry.entry_id != before:
            twin.issue(Add(made.name, entry.entry_id, entry.fields))
        before = entry.entry_id
    twin.issue(SetId(made.name, last_id))
    if won is not None:
        twin.issue(SetDeadline(made.name, won[1], list(made.deadlines)))
    return 1 if only_new else OK


def _is_too_large(twin: TwinCore) -> bool:
    """Whether the region refuses a source that is larger than a unit may be (S1.2).

    Free: how the bytes of the source are counted, so only a low limit is required.
    """
    limit, reply = twin.call.settings["crdt-unit-max-bytes"], twin.reply
    assert isinstance(limit, int)
    is_refused = isinstance(reply, ErrorReply) and "crdt-unit-max-bytes" in reply.message
    if is_refused:
        twin.state.count("S14")
    return is_refused and limit < 1_000_000


# -- deadlines


def expire(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    """EXPIRE, PEXPIRE, EXPIREAT and PEXPIREAT (S10.2)."""
    name = argv[0].upper()
    at_ms = integer(argv[2])
    if not name.startswith(b"P"):
        at_ms *= 1000
    if not name.endswith(b"AT"):
        at_ms += twin.state.clock_ms
    flags = {word.upper() for word in argv[3:]}
    if b"NX" in flags and len(flags) > 1:
        refuse("ERR NX and XX, GT or LT options at the same time are not compatible")
    if {b"GT", b"LT"} <= flags:
        refuse("ERR GT and LT options at the same time are not compatible")
    key = twin.state.visible(argv[1])
    if key is None:
        return 0
    won = key.deadline()
    present_ms = won[1] if won is not None and won[1] != NEVER else -1
    if (b"NX" in flags and present_ms >= 0) or (b"XX" in flags and present_ms < 0):
        return 0
    if b"GT" in flags and (present_ms < 0 or at_ms <= present_ms):
        return 0
    if b"LT" in flags and 0 <= present_ms <= at_ms:
        return 0
    if at_ms <= twin.state.clock_ms:
        at_ms = min(at_ms, twin.state.clock_ms - 1)
    twin.issue(SetDeadline(key.name, at_ms, list(key.deadlines)))
    return 1


def persist(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    """PERSIST: an infinite deadline."""
    key = twin.state.visible(argv[1])
    won = key.deadline() if key is not None else None
    if key is None or won is None or won[1] == NEVER:
        return 0
    twin.issue(SetDeadline(key.name, NEVER, list(key.deadlines)))
    return 1


def ttl(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    """TTL, PTTL, EXPIRETIME and PEXPIRETIME."""
    name = argv[0].upper()
    key = twin.state.visible(argv[1])
    if key is None:
        return -2
    won = key.deadline()
    if won is None or won[1] == NEVER:
        return -1
    value = won[1] if name.endswith(b"EXPIRETIME") else max(won[1] - twin.state.clock_ms, 0)
    return value if name.startswith(b"P") else (value + 500) // 1000


# -- listing


def _names(twin: TwinCore) -> set[bytes]:
    return {name for name, key in twin.state.keys.items() if key.exists(twin.state.clock_ms)}


def keys_like(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    """KEYS *."""
    names = _names(twin)
    return Expected(f"{sorted(names)} in any order", lambda reply: _lists(reply, names))


def _lists(reply: Reply, names: set[bytes]) -> bool:
    return isinstance(reply, list) and len(reply) == len(names) and set(reply) == names


def scan(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    """SCAN: a cursor, and some of the keys."""
    names = _names(twin)

    def holds(reply: Reply) -> bool:
        if not isinstance(reply, list) or len(reply) != 2:
            return False
        cursor, found = reply
        if not isinstance(found, list) or not set(found) <= names:
            return False
        is_all = argv[1] == b"0" and cursor == b"0"
        return not is_all or set(found) == names

    return Expected(f"a cursor and keys of {sorted(names)}", holds)


def dbsize(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    """DBSIZE."""
    return len(_names(twin))


def randomkey(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    """RANDOMKEY."""
    names = _names(twin)
    if not names:
        return None
    return Expected(f"one of {sorted(names)}", lambda reply: reply in names)
