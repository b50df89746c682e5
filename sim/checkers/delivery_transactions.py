"""The division of a transaction's effects among its commands (S1.2).

It is needed for transactions whose commands also change local group state.
"""

from __future__ import annotations

from typing import Final

from anabranch.crdt.effects import (
    Configure,
    CreateGroup,
    Delete,
    DestroyGroup,
    Flush,
    RemoveEntries,
    RemoveObserved,
    SetDeadline,
    SetId,
    Trim,
)
from anabranch.region.engine.replies import ErrorReply, Reply
from anabranch.sim.checkers.delivery_arguments import is_null
from anabranch.sim.checkers.delivery_effects import Fact
from anabranch.sim.history import Words
from anabranch.sim.oracle.arguments import name_of
from anabranch.sim.oracle.log import Add

LOCAL: Final = frozenset(
    {
        b"XREADGROUP",
        b"XREAD",
        b"XACK",
        b"XPENDING",
        b"XCLAIM",
        b"XAUTOCLAIM",
        b"XGROUP SETID",
        b"XGROUP DELCONSUMER",
        b"XINFO GROUPS",
        b"XINFO CONSUMERS",
    }
)
"""Commands that replicate nothing; they are judged by their replies."""

_LAST: Final[dict[bytes, type]] = {
    b"XADD": Add,
    b"XDEL": RemoveEntries,
    b"XTRIM": Trim,
    b"DEL": Delete,
    b"UNLINK": Delete,
    b"FLUSHALL": Flush,
    b"FLUSHDB": Flush,
    b"XSETID": SetId,
    b"RENAME": SetId,
    b"RENAMENX": SetId,
    b"XGROUP CREATE": CreateGroup,
    b"XGROUP DESTROY": DestroyGroup,
    b"EXPIRE": SetDeadline,
    b"PEXPIRE": SetDeadline,
    b"EXPIREAT": SetDeadline,
    b"PEXPIREAT": SetDeadline,
    b"PERSIST": SetDeadline,
    b"XCFGSET": Configure,
    b"XIDMP CFGSET": Configure,
}
"""Command → the kind of its last effect.

Before it may stand the removals of a write that creates a key (S10.5)."""


Said = list[tuple[Words, Reply]]


def owned(words: Words, reply: Reply, facts: list[Fact], begin: int, later: Said) -> int:
    """The index in `facts` after the effects of this command, which begin at `begin`.

    `later`: the commands after it, with replies. Returns -1 if the end cannot be determined.
    """
    name = name_of(words)
    last = _LAST.get(name)
    if last is None or isinstance(reply, ErrorReply) or reply == 0 or is_null(reply):
        return begin  # a command that changes nothing replicates nothing (S1)
    if name[:6] == b"RENAME" and words[1] == words[2]:
        return begin  # onto itself: replicates nothing (S10.1)
    keys = (
        words[1:]
        if name in (b"DEL", b"UNLINK")
        else words[1:3]
        if name[:6] == b"RENAME"
        else words[2:3]
        if b" " in name
        else words[1:2]
    )
    end = _through(last, keys, name, reply, facts, begin)
    if name in (b"DEL", b"UNLINK"):
        for _ in range(1, reply if isinstance(reply, int) else 1):
            end = _through(last, keys, name, reply, facts, end)
    elif name == b"XADD" and begin < end < len(facts) and _has_trim(words):
        return _after_trim(words[1], facts, end, later)
    elif name[:6] == b"RENAME" and begin < end < len(facts):
        return _after_copied_deadline(words[2], facts, end, later)
    return end


def _after_copied_deadline(key: bytes, facts: list[Fact], end: int, later: Said) -> int:
    """The index after the deadline that a RENAME copied to `key`, if the source had one.

    Otherwise the next deadline of the key belongs to a command after the RENAME.
    """
    effect = facts[end][3]
    if not isinstance(effect, SetDeadline) or effect.key != key:
        return end
    found = sum(isinstance(one[3], SetDeadline) and one[3].key == key for one in facts[end:])
    others = sum(
        _LAST.get(name_of(words)) is SetDeadline and words[1] == key and reply == 1
        for words, reply in later
    )
    return end + (found > others)


def _through(
    last: type, keys: Words, name: bytes, reply: Reply, facts: list[Fact], begin: int
) -> int:
    """The index after the last effect of the command; `begin` if it issued none.

    Only effects that may precede the last one are passed over.
    """
    before: tuple[type, ...] = (
        (Delete, RemoveObserved, SetDeadline, Add)
        if name[:6] == b"RENAME"
        else (RemoveObserved, SetDeadline)
    )
    for index in range(begin, len(facts)):
        effect = facts[index][3]
        if not isinstance(effect, Flush) and effect.key not in keys:
            return begin
        if isinstance(effect, last):
            return begin if isinstance(effect, Add) and effect.shown_id != reply else index + 1
        if not isinstance(effect, before):
            return begin
    return begin


def _after_trim(key: bytes, facts: list[Fact], end: int, later: Said) -> int:
    """The index after the Trim of an XADD, if it trimmed; -1 if that cannot be determined.

    The reply of an XADD does not show whether it trimmed; the replies of XTRIMs do.
    """
    effect = facts[end][3]
    if not isinstance(effect, Trim) or effect.key != key:
        return end
    trims = sum(isinstance(fact[3], Trim) and fact[3].key == key for fact in facts[end:])
    certain = sum(
        name_of(words) == b"XTRIM" and words[1] == key and reply != 0 for words, reply in later
    )
    possible = sum(
        name_of(words) == b"XADD" and words[1] == key and _has_trim(words) for words, _ in later
    )
    if trims <= certain:
        return end
    return end + 1 if trims > certain + possible else -1


def _has_trim(words: Words) -> bool:
    return any(word.upper() in (b"MAXLEN", b"MINID") for word in words[2:8])
