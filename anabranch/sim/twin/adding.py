"""XADD, XTRIM, XDEL, XSETID, XCFGSET (S4, S5, S9).

Free: `~` may remove less than its threshold allows. Free: with ACKED, how far a trim that stops in
one region log goes on in the others. Free: whether something is left of an absent key of which this
twin holds nothing but pairs that the region may have dropped.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

from xxhash import xxh3_128_intdigest

from anabranch.crdt.effects import (
    Configure,
    RemoveEntries,
    RemoveObserved,
    SetDeadline,
    SetId,
    Trim,
)
from anabranch.crdt.encoding import put_varint
from anabranch.crdt.ids import format_id
from anabranch.region.engine.replies import OK, ErrorReply, Reply
from anabranch.sim.twin.arguments import MAX_ID, NO_KEY, SYNTAX, entry_id, integer, refuse
from anabranch.sim.twin.core import TwinCore
from anabranch.sim.twin.effects import Add, Pairing, content
from anabranch.sim.twin.ids import ZERO, count_id, form, id_for
from anabranch.sim.twin.losers import answers, may_be_gone
from anabranch.sim.twin.replies import Expected, Mismatch
from anabranch.sim.twin.session import Session, may_issue
from anabranch.sim.twin.state import NEVER, Entry, Key
from anabranch.sim.twin.vectors import Dot


class Trimming(NamedTuple):
    """The trimming options. `least_id` is -1 for MAXLEN, `length` for MINID."""

    length: int
    least_id: int
    is_exact: bool
    limit: int
    references: bytes


class Options(NamedTuple):
    """The options of XADD and XTRIM; `rest` are the words after them."""

    makes_stream: bool
    trimming: Optional[Trimming]
    pid: bytes
    iid: Optional[bytes]
    rest: tuple[bytes, ...]


def options(words: tuple[bytes, ...]) -> Options:
    """Reads options up to the first word that is none."""
    makes_stream, pid, iid = True, b"", None
    length = least_id = -1
    is_exact, limit, references = True, -1, b"KEEPREF"
    place = 0
    while place < len(words):
        name = words[place].upper()
        if name == b"NOMKSTREAM":
            makes_stream = False
        elif name in (b"KEEPREF", b"DELREF", b"ACKED"):
            references = name
        elif name in (b"MAXLEN", b"MINID"):
            place += 1
            if words[place] in (b"~", b"="):
                is_exact = words[place] == b"="
                place += 1
            if name == b"MAXLEN":
                length = integer(words[place])
            else:
                least_id = entry_id(words[place])
        elif name == b"LIMIT":
            place += 1
            limit = integer(words[place])
        elif name == b"IDMP":
            pid, iid = words[place + 1], words[place + 2]
            place += 2
        elif name == b"IDMPAUTO":
            pid = words[place + 1]
            place += 1
        else:
            break
        place += 1
    if limit >= 0 and is_exact:
        refuse(f"{SYNTAX}, LIMIT cannot be used without the special ~ option")
    trimming = None
    if length >= 0 or least_id >= 0:
        trimming = Trimming(length, least_id, is_exact, limit, references)
    return Options(makes_stream, trimming, pid, iid, words[place:])


# -- XADD


def xadd(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    """XADD (S4, S9.1)."""
    name = argv[1]
    given = options(argv[2:])
    word, fields = given.rest[0], list(given.rest[1:])
    state = twin.state
    key = state.visible(name)
    last_id = key.last_id() if key is not None else 0
    kind = form(word)
    if not given.makes_stream and key is None:
        # Redis refuses this ID before it looks for the key.
        if kind in ("ms-seq", "ms") and entry_id(word) == 0:
            refuse(ZERO)
        return None
    iid = given.iid
    if given.pid and iid is None:
        iid = automatic_iid(fields)
    if given.pid and iid is not None and key is not None:
        found, may_add = answers(state, key, given.pid, iid)
        ids = {format_id(one) for one in found}
        if twin.reply in ids or not may_add:
            adders = [
                one.dot[0] for one in key.pairs.values() if format_id(one.entry_id) == twin.reply
            ]
            if any(adder != twin.region for adder in adders):
                state.count("S9.1")
            if given.iid is None:
                state.count("S9.5")
            return Expected(f"one of {sorted(ids)}", lambda reply: reply in ids)
    new_id = id_for(twin, word, kind, last_id)
    created = prepare(twin, name)
    pairing = None
    if given.pid and iid is not None:
        pairing = Pairing(given.pid, iid, state.clock_ms, twin.vector())
    twin.issue(Add(name, new_id, fields, pairing))
    count_id(twin, kind, new_id)
    if given.trimming is not None:
        trim(twin, created, given.trimming)
    return format_id(new_id)


def automatic_iid(fields: list[bytes]) -> bytes:
    """The iid of IDMPAUTO (S9.5)."""
    total = 0
    for place in range(0, len(fields), 2):
        out = bytearray()
        put_varint(out, len(fields[place]))
        total += xxh3_128_intdigest(bytes(out) + fields[place] + fields[place + 1])
    return (total % (1 << 128)).to_bytes(16, "big")


def prepare(twin: TwinCore, name: bytes) -> Key:
    """Removes what is left of a hidden or absent key before a write that creates it (S10.5)."""
    key = twin.state.key(name)
    if not key.exists(twin.state.clock_ms):
        clear(twin, key)
    return key


def clear(twin: TwinCore, key: Key) -> None:
    """Removes everything observed; an infinite deadline outlives those still on their way."""
    if not key.has_remnants():
        return
    is_certain = key.holds_more() or not all(may_be_gone(twin, one) for one in key.pairs.values())
    issued = twin.next_issued()
    is_issued = isinstance(issued, RemoveObserved) and issued.key == key.name
    if not is_certain and not is_issued:
        key.pairs.clear()
        return
    had_deadlines = bool(key.deadlines)
    twin.issue(RemoveObserved(key.name, twin.vector(), True))
    twin.state.count("S10.5")
    if had_deadlines:
        twin.issue(SetDeadline(key.name, NEVER, []))


# -- trimming


def xtrim(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    """XTRIM (S5.2)."""
    given = options(argv[2:])
    key = twin.state.visible(argv[1])
    if given.rest or given.trimming is None:
        refuse(SYNTAX)
    return 0 if key is None else trim(twin, key, given.trimming, is_counted=True)


def trim(twin: TwinCore, key: Key, trimming: Trimming, is_counted: bool = False) -> int:
    """Trims the logical stream and returns how many entries it removed.

    `is_counted`: the region's reply tells how many it removed.
    """
    candidates = _candidates(key, trimming)
    flag = trimming.references == b"DELREF"
    if trimming.references == b"ACKED":
        wanted, candidates = candidates, _unblocked(key, candidates)
        if trimming.is_exact and len(candidates) < len(wanted):
            twin.state.count("S5.3")
    prefix: dict[int, int] = {}
    for entry in candidates:
        region, counter = entry.dot
        prefix[region] = max(prefix.get(region, 0), counter)
    if trimming.is_exact and trimming.references != b"ACKED":
        if prefix:
            twin.issue(Trim(key.name, prefix, flag))
        return len(candidates)
    effect = twin.next_issued()
    is_own = isinstance(effect, Trim) and effect.key == key.name
    if is_own and not trimming.is_exact:
        is_own = twin.reply != 0 if is_counted else not _is_of_a_later_command(twin, key)
    if not candidates or not isinstance(effect, Trim) or not is_own:
        if trimming.is_exact and prefix:
            twin.issue(Trim(key.name, prefix, flag))
        return 0
    allowed = {entry.dot for entry in candidates}
    removed = {dot for dot in key.entries if dot[1] <= effect.prefix.get(dot[0], 0)}
    # The end of a prefix may be an entry that was deleted before.
    is_allowed = removed <= allowed and effect.drops_references == flag
    is_allowed = is_allowed and {region for region, _ in removed} == set(effect.prefix)
    if trimming.is_exact:
        is_allowed = is_allowed and removed == allowed
    if trimming.limit > 0:
        is_allowed = is_allowed and len(removed) <= trimming.limit
    if not removed or not is_allowed:
        if trimming.is_exact:
            raise Mismatch(f"issued {content(effect)!r}; it may remove {sorted(allowed)} only")
        return 0  # it is the effect of another command, or a violation
    twin.follow(effect)
    return len(removed)


def _is_of_a_later_command(twin: TwinCore, key: Key) -> bool:
    """Whether the next trim that the region issued is one that a later XTRIM of the call counts.

    Between an XADD with `~` and that XTRIM, no command of the transaction has issued an effect, nor
    has one that waited for the end of the start as this one did.
    """
    trims = 0
    counter = twin.counter() + 1
    while isinstance(effect := twin.to_follow.get(counter), Trim) and effect.key == key.name:
        trims, counter = trims + 1, counter + 1
    for argv, reply in [*twin.later, *twin.waited]:
        if argv[0].upper() == b"XTRIM" and argv[1] == key.name and isinstance(reply, int):
            trims -= reply > 0
        elif may_issue(argv) and not _issued_nothing(twin, argv, reply):
            break
    return trims <= 0


def _issued_nothing(twin: TwinCore, argv: tuple[bytes, ...], reply: Reply) -> bool:
    """Whether the reply of a command proves that it issued no effect."""
    if argv[0].upper() == b"XADD" and isinstance(reply, bytes):
        added = [one.entry_id for one in twin.to_follow.values() if isinstance(one, Add)]
        return entry_id(reply) not in added
    return reply is None or reply == 0 or isinstance(reply, ErrorReply)


def _candidates(key: Key, trimming: Trimming) -> list[Entry]:
    """The entries beyond the threshold: a prefix of the logical stream."""
    if trimming.length >= 0:
        return key.between(0, MAX_ID)[: max(len(key.entries) - trimming.length, 0)]
    return key.between(0, trimming.least_id - 1) if trimming.least_id else []


def _unblocked(key: Key, candidates: list[Entry]) -> list[Entry]:
    """Of the candidates, those before the first one in their log that a group still needs."""
    stopped: set[int] = set()
    found: list[Entry] = []
    for entry in candidates:
        if is_needed(key, entry.dot, entry.entry_id):
            stopped.add(entry.dot[0])
        if entry.dot[0] not in stopped:
            found.append(entry)
    return found


def is_needed(key: Key, dot: Dot, entry_id_: int) -> bool:
    """Whether some group has not got the entry yet, or has it pending (S5.3)."""
    return any(
        group.is_undelivered(dot, entry_id_) or dot in group.local.pel
        for group in key.groups.values()
    )


# -- XDEL, XSETID, XCFGSET


def xdel(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    """XDEL: all entries that bear the IDs (S5.1)."""
    key = twin.state.visible(argv[1])
    if key is None:
        return 0
    ids = [entry_id(word) for word in argv[2:]]
    dots = [entry.dot for one in dict.fromkeys(ids) for entry in key.with_id(one)]
    if dots:
        twin.issue(RemoveEntries(key.name, dots))
        if len({key.ids[dot] for dot in dots}) < len(dots):
            twin.state.count("S5.1")
    return len(dots)


def xsetid(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    """XSETID (S3.2)."""
    last_id = entry_id(argv[2])
    added, deleted = -1, -1
    for place in range(3, len(argv), 2):
        if argv[place] == b"ENTRIESADDED":
            added = integer(argv[place + 1])
        else:
            deleted = entry_id(argv[place + 1])
    key = twin.state.visible(argv[1])
    if deleted > last_id:
        refuse("ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id")
    if key is None:
        refuse(NO_KEY)
    if last_id < key.last_id():
        refuse("ERR The ID specified in XSETID is smaller than the target stream top item")
    if 0 <= added < len(key.entries):
        refuse("ERR The entries_added specified in XSETID is smaller than the target stream length")
    if last_id != key.last_id() or not key.header:
        twin.issue(SetId(key.name, last_id))
    if added >= 0 or deleted >= 0:
        twin.hand_set.add(key.name)
    if added >= 0:
        key.added = added
    if deleted >= 0:
        key.max_deleted = deleted
    return OK


def xcfgset(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    """XCFGSET, and XIDMP CFGSET, which is the older spelling (S9.4)."""
    if argv[0].upper() == b"XIDMP":
        return _xidmp(twin, session, argv)
    key = twin.state.visible(argv[1])
    if key is None:
        refuse(NO_KEY)
    duration_ms, maxsize = twin.state.idempotency(key)
    duration_s, new_maxsize = duration_ms // 1000, maxsize
    for place in range(2, len(argv), 2):
        if argv[place] == b"IDMP-DURATION":
            duration_s = integer(argv[place + 1])
        else:
            new_maxsize = integer(argv[place + 1])
    if (duration_s, new_maxsize) != (duration_ms // 1000, maxsize):
        replaces = list(key.configurations)
        twin.issue(Configure(key.name, duration_s, new_maxsize, replaces, twin.vector()))
    return OK


def _xidmp(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    if argv[1].upper() == b"CFGSET":
        words = [b"IDMP-" + word if word.isalpha() else word for word in argv[3:]]
        return xcfgset(twin, session, (b"XCFGSET", argv[2], *words))
    key = twin.state.visible(argv[2])
    if key is None:
        refuse(NO_KEY)
    duration_ms, maxsize = twin.state.idempotency(key)
    reply: list[Reply] = [b"duration", duration_ms // 1000, b"maxsize", maxsize]
    return reply
