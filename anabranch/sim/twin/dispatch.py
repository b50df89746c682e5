"""The commands that the twin knows, and transactions (S1.2, S10.7).

`UNJUDGED` lists the commands whose replies the twin leaves to other judges. They change no data,
but for the losers that go when a member is said lost (S9.2).
"""

from __future__ import annotations

import re
from typing import Final, Optional

from anabranch.region.engine.replies import (
    NULL_ARRAY,
    OK,
    QUEUED,
    CommandError,
    ErrorReply,
    NullArray,
    Reply,
    ReplyLater,
    SimpleString,
)
from anabranch.sim.twin import (
    adding,
    claiming,
    configuration,
    facts,
    groups,
    history,
    keys,
    looks,
    losers,
    reading,
)
from anabranch.sim.twin.core import Run, TwinCore
from anabranch.sim.twin.replies import Expected, error_with
from anabranch.sim.twin.session import Session, StartNotOver, may_issue

# Replies about the region rather than its data, or read from its disk.
UNJUDGED: Final = frozenset(
    b"INFO TIME WAIT PING CRDT.PEERS CRDT.DIGEST CRDT.STABLE CRDT.SYNC CRDT.WAIT CRDT.VECTOR"
    b" CRDT.EXPLAIN CRDT.EFFECTS CRDT.MEMBER CRDT.CLOCK CRDT.LINK CRDT.LOGS ROLE LASTSAVE MODULE"
    b" ACL OBJECT MEMORY SLOWLOG".split()
)

# name → (fewest words, handler)
HANDLERS: Final[dict[bytes, tuple[int, Run]]] = {
    b"XADD": (5, adding.xadd),
    b"XTRIM": (4, adding.xtrim),
    b"XDEL": (3, adding.xdel),
    b"XSETID": (3, adding.xsetid),
    b"XCFGSET": (3, adding.xcfgset),
    b"XIDMP": (3, adding.xcfgset),
    b"XRANGE": (4, reading.xrange),
    b"XREVRANGE": (4, reading.xrange),
    b"XLEN": (2, reading.xlen),
    b"XREAD": (4, reading.xread),
    b"XREADGROUP": (7, reading.xreadgroup),
    b"XACK": (4, groups.xack),
    b"XGROUP": (2, groups.xgroup),
    b"XCLAIM": (6, claiming.xclaim),
    b"XAUTOCLAIM": (6, claiming.xautoclaim),
    b"XPENDING": (3, claiming.xpending),
    b"XINFO": (2, facts.xinfo),
    b"CRDT.LOG": (3, facts.crdt_log),
    b"CRDT.NODES": (5, facts.crdt_nodes),
    b"CRDT.HISTORY": (2, history.crdt_history),
    b"CONFIG": (2, configuration.config),
    b"CRDT.GROUPS": (2, looks.crdt_groups),
    b"DEL": (2, keys.delete),
    b"UNLINK": (2, keys.delete),
    b"FLUSHALL": (1, keys.flush),
    b"FLUSHDB": (1, keys.flush),
    b"EXISTS": (2, keys.exists),
    b"TOUCH": (2, keys.exists),
    b"TYPE": (2, keys.type_of),
    b"RENAME": (3, keys.rename),
    b"RENAMENX": (3, keys.rename),
    b"EXPIRE": (3, keys.expire),
    b"PEXPIRE": (3, keys.expire),
    b"EXPIREAT": (3, keys.expire),
    b"PEXPIREAT": (3, keys.expire),
    b"PERSIST": (2, keys.persist),
    b"TTL": (2, keys.ttl),
    b"PTTL": (2, keys.ttl),
    b"EXPIRETIME": (2, keys.ttl),
    b"PEXPIRETIME": (2, keys.ttl),
    b"KEYS": (2, keys.keys_like),
    b"SCAN": (2, keys.scan),
    b"DBSIZE": (1, keys.dbsize),
    b"RANDOMKEY": (1, keys.randomkey),
}
_XGROUP_SUBCOMMANDS: Final = frozenset(
    b"CREATE SETID DESTROY CREATECONSUMER DELCONSUMER HELP".split()
)


def run(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    """Runs a command as the region ran it; returns the expected reply."""
    name = argv[0].upper()
    limit = _limit_met(twin.reply, "crdt-command-max-keys")
    if limit is not None and _count_keys(argv) > limit:
        twin.state.count("S14")
        session.has_failed = session.queued is not None
        return error_with("ERR")
    if name in _FRAMES:
        return _FRAMES[name](twin, session, argv)
    if session.queued is not None and not twin.is_reading:
        return _queue(twin, session, argv)
    if name in UNJUDGED:
        return _unjudged(twin, session, argv)
    if name not in HANDLERS:
        twin.state.count("S10.8")
        return error_with("ERR unknown command")
    return HANDLERS[name][1](twin, session, argv)


def _limit_met(reply: object, setting: str) -> Optional[int]:
    """The value of a setting that the region says is exceeded."""
    if isinstance(reply, ErrorReply) and (
        found := re.search(rf"{setting} \((\d+)\)", reply.message)
    ):
        return int(found[1])
    return None


def _count_keys(argv: tuple[bytes, ...]) -> int:
    """How many keys a command names, if it may name several; else 0."""
    name = argv[0].upper()
    if name in (b"DEL", b"UNLINK", b"EXISTS", b"TOUCH", b"WATCH"):
        return len(argv) - 1
    if name in (b"RENAME", b"RENAMENX"):
        return 2
    words = [word.upper() for word in argv]
    # A group may have the name STREAMS.
    start = 4 if name == b"XREADGROUP" else 1
    if name not in (b"XREAD", b"XREADGROUP") or b"STREAMS" not in words[start:]:
        return 0
    return (len(words) - words.index(b"STREAMS", start) - 1) // 2


def _unjudged(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    if isinstance(twin.reply, ReplyLater):
        session.is_unjudged = True
    if argv[0].upper() == b"CRDT.MEMBER" and twin.may_issue():
        losers.remove_all(twin)
    return Expected("anything", lambda _: True)


def _queue(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    """Queues a command of a transaction; after a refusal EXEC answers EXECABORT."""
    assert session.queued is not None
    name = argv[0].upper()
    if name.startswith(b"CRDT."):
        is_known = False
    elif name in UNJUDGED:
        # The region counts the words.
        is_known = not isinstance(twin.reply, ErrorReply)
    else:
        is_known = name in HANDLERS and len(argv) >= HANDLERS[name][0]
    if name == b"XGROUP" and is_known:
        is_known = argv[1].upper() in _XGROUP_SUBCOMMANDS
    if not is_known:
        session.has_failed = True
        return error_with("ERR")
    session.queued.append(argv)
    return Expected(
        "QUEUED or a unit that is too large", lambda reply: _queued(twin, session, reply)
    )


def _queued(twin: TwinCore, session: Session, reply: Reply) -> bool:
    """Whether the command is queued, or refused because the unit would be too large (S1.2)."""
    if isinstance(reply, SimpleString) and reply.text == QUEUED.text:
        return True
    session.has_failed = True
    is_too_large = isinstance(reply, ErrorReply) and "crdt-unit-max-bytes" in reply.message
    if (limit := _limit_met(reply, "crdt-unit-max-commands")) is not None:
        queued = session.queued or []
        is_too_large = sum(max(_count_keys(argv), 1) for argv in queued) > limit
    if is_too_large:
        twin.state.count("S14")
    return is_too_large


def _multi(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    if session.queued is not None:
        return error_with("ERR MULTI calls can not be nested")
    session.queued = []
    session.has_failed = False
    return OK


def _discard(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    if session.queued is None:
        return error_with("ERR DISCARD without MULTI")
    session.end()
    return OK


def _watch(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    if session.queued is not None:
        return error_with("ERR WATCH inside MULTI is not allowed")
    if not session.watched:
        session.watched_at = twin.vector()
    for name in argv[1:]:
        key = twin.state.keys.get(name)
        is_here = twin.state.visible(name) is not None
        session.watched.setdefault(name, (key.changes if key is not None else 0, is_here))
    return OK


def _unwatch(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    session.watched = {}
    return OK


def _is_changed(twin: TwinCore, session: Session) -> bool:
    """Whether a watched key has changed. Absent before and now counts as unchanged (S10.7)."""
    for name, (changes, was_here) in session.watched.items():
        key = twin.state.keys.get(name)
        is_here = twin.state.visible(name) is not None
        if was_here != is_here:
            return True
        if is_here and key is not None and key.changes != changes:
            return True
    return False


def _exec(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    if session.queued is None:
        return error_with("ERR EXEC without MULTI")
    queued, has_failed = session.queued, session.has_failed
    is_changed = _is_changed(twin, session)
    is_void = is_changed and isinstance(twin.reply, NullArray)
    if not has_failed and not is_void and any(map(may_issue, queued)):
        if twin.facts.state == "starting" and not twin.is_refused_for_disk():
            raise StartNotOver
    try:
        if has_failed:
            return error_with("EXECABORT")
        if any(map(may_issue, queued)) and not is_void:
            twin.require_issue()
        if is_changed:
            own = session.watched_at.get(twin.region, 0)
            if own == twin.counter() and session.watched_at != twin.state.vector:
                twin.state.count("S10.7")
            return NULL_ARRAY
        session.queued = queued
        before = twin.counter()
        answers = _run_all(twin, session, queued)
        if twin.counter() > before + 1:
            twin.state.count("S1.2")
        return answers
    finally:
        session.end()


def _run_all(twin: TwinCore, session: Session, queued: list[tuple[bytes, ...]]) -> object:
    """The replies of the commands, each checked against the region's."""
    whole = twin.reply
    actual = whole if isinstance(whole, list) else [None] * len(queued)
    answers: list[object] = []
    for place, argv in enumerate(queued):
        twin.reply = actual[place] if place < len(actual) else None
        twin.later = list(zip(queued, actual, strict=False))[place + 1 :]
        if argv[0].upper() not in HANDLERS or twin.is_refused_by_bytes():
            answers.append(twin.reply)
            continue
        try:
            answer = HANDLERS[argv[0].upper()][1](twin, session, argv)
        except CommandError as error:
            answer = ErrorReply(error.message)
        except Expected as one:
            answer = one
        if isinstance(answer, Expected) and isinstance(whole, list) and answer.holds(twin.reply):
            answer = twin.reply
        answers.append(answer)
    twin.reply = whole
    return answers


_FRAMES: Final[dict[bytes, Run]] = {
    b"MULTI": _multi,
    b"EXEC": _exec,
    b"DISCARD": _discard,
    b"WATCH": _watch,
    b"UNWATCH": _unwatch,
}

KNOWN: Final = frozenset([*HANDLERS, *UNJUDGED, *_FRAMES])
"""The names of all commands that the twin carries out, or leaves to other judges."""
