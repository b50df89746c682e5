"""Which command issued each effect of one step: known from words, replies and effects alone.

The effects of a single command are all its own. Those of a transaction are divided among its
commands in every way that their words and replies allow; if several ways are left, an effect has
several possible commands.
"""

from __future__ import annotations

from typing import Final, Optional

from anabranch.crdt import effects as fx
from anabranch.region.engine.replies import ErrorReply, NullArray, Reply
from anabranch.sim.arguments import name_of
from anabranch.sim.history import Words
from anabranch.sim.logged import Add, Logged

Said = list[tuple[Words, Reply]]
Names = frozenset[str]

# The removal of an add that lost a conflict of idempotency pairs (S9.2).
CONFLICT: Final = "IDMP CONFLICT"

# Before the effects of a write that creates a key: removals and an infinite deadline (S10.5).
_PRELUDE: Final = (fx.RemoveObserved, fx.SetDeadline)
_COPYING: Final = (fx.Delete, fx.RemoveObserved, fx.SetDeadline, Add)
# Command → the kinds of its last effect.
_LAST: Final[dict[bytes, tuple[type, ...]]] = {
    b"XADD": (Add,),
    b"XDEL": (fx.RemoveEntries,),
    b"XDELEX": (fx.RemoveEntries,),
    b"XACKDEL": (fx.RemoveEntries,),
    b"XTRIM": (fx.Trim,),
    b"DEL": (fx.Delete,),
    b"UNLINK": (fx.Delete,),
    b"FLUSHALL": (fx.Flush,),
    b"FLUSHDB": (fx.Flush,),
    b"XSETID": (fx.SetId,),
    b"RENAME": (fx.SetId,),
    b"RENAMENX": (fx.SetId,),
    b"XGROUP CREATE": (fx.CreateGroup,),
    b"XGROUP DESTROY": (fx.DestroyGroup,),
    b"EXPIRE": (fx.SetDeadline, fx.Delete),
    b"PEXPIRE": (fx.SetDeadline, fx.Delete),
    b"EXPIREAT": (fx.SetDeadline, fx.Delete),
    b"PEXPIREAT": (fx.SetDeadline, fx.Delete),
    b"PERSIST": (fx.SetDeadline,),
    b"XCFGSET": (fx.Configure,),
    b"XIDMP CFGSET": (fx.Configure,),
}


def shown(words: Words) -> str:
    """The name of a command as an explanation shows it: XIDMP has no subcommands in COMMAND."""
    name = name_of(words).decode()
    return "XIDMP" if name.startswith("XIDMP ") else name


def of_command(words: Words, effects: list[Logged]) -> list[Names]:
    """The commands of the effects of a single command."""
    return [frozenset({shown(words)})] * len(effects)


def of_region(effects: list[Logged]) -> list[Names]:
    """The commands of effects that a region issued by itself."""
    return [frozenset({_own(effect)}) for effect in effects]


def of_many(said: Said, effects: list[Logged]) -> list[Names]:
    """The possible commands of effects when commands that had waited ran in one step."""
    return [
        frozenset(
            {shown(words) for words, reply in said if _may_issue(words, effect)} | {_own(effect)}
        )
        for effect in effects
    ]


def _own(effect: Logged) -> str:
    return CONFLICT if isinstance(effect, fx.RemoveEntries) else ""


def _may_issue(words: Words, effect: Logged) -> bool:
    name = name_of(words)
    last = _LAST.get(name)
    if last is None or _key(effect) not in (None, *_keys(name, words)):
        return False
    trims = (fx.Trim,) if name == b"XADD" else ()
    return isinstance(effect, (*last, *_before(name), *trims))


def _before(name: bytes) -> tuple[type, ...]:
    return _COPYING if name.startswith(b"RENAME") else _PRELUDE


def _key(effect: Logged) -> Optional[bytes]:
    return None if isinstance(effect, fx.Flush) else effect.key


def _keys(name: bytes, words: Words) -> Words:
    if name in (b"DEL", b"UNLINK"):
        return words[1:]
    if name.startswith(b"RENAME"):
        return words[1:3]
    return words[2:3] if b" " in name else words[1:2]


def of_transaction(said: Said, effects: list[Logged]) -> Optional[list[Names]]:
    """The possible commands of each effect of a transaction; None if no division is possible."""
    # Whether the first `index` effects can be those of the first commands, and likewise the others.
    count = len(effects)
    ways = [[_ends(words, reply, effects, at) for at in range(count + 1)] for words, reply in said]
    reached = [{0}]
    for of_one in ways:
        reached.append({end for at in reached[-1] for end in of_one[at]})
    leads = [{count}]
    for of_one in reversed(ways):
        leads.append({at for at in range(count + 1) if of_one[at] & leads[-1]})
    leads.reverse()
    if count not in reached[-1]:
        return None
    names: list[set[str]] = [set() for _ in effects]
    for number, of_one in enumerate(ways):
        for at in reached[number]:
            for end in of_one[at] & leads[number + 1]:
                for index in range(at, end):
                    names[index].add(shown(said[number][0]))
    return [frozenset(one) for one in names]


def _ends(words: Words, reply: Reply, effects: list[Logged], at: int) -> set[int]:
    """The possible ends of a command's effects that begin at `at`."""
    name = name_of(words)
    last = _LAST.get(name)
    if last is None or isinstance(reply, (ErrorReply, NullArray)) or reply is None or reply == 0:
        return {at}
    keys = _keys(name, words)
    if name == b"XADD":
        return _ends_of_add(words, reply, effects, at)
    if name in (b"DEL", b"UNLINK"):
        assert isinstance(reply, int)
        return _ends_of_deletes(keys, reply, effects, at)
    before = _before(name)
    found: set[int] = set()
    if isinstance(reply, list) or (name.startswith(b"RENAME") and words[1] == words[2]):
        found.add(at)
    for index in range(at, len(effects)):
        effect = effects[index]
        if _key(effect) not in (None, *keys):
            break
        if isinstance(effect, last):
            found.add(index + 1)
            if name.startswith(b"RENAME"):
                # The deadline of the source follows, if it has one.
                after = effects[index + 1] if index + 1 < len(effects) else None
                if isinstance(after, fx.SetDeadline) and after.key == words[2]:
                    found.add(index + 2)
                break
            if not isinstance(effect, before):
                break
        elif not isinstance(effect, before):
            break
    return found


def _ends_of_add(words: Words, reply: Reply, effects: list[Logged], at: int) -> set[int]:
    is_idempotent = any(word.upper() in (b"IDMP", b"IDMPAUTO") for word in words[2:8])
    found = {at} if is_idempotent else set()
    index = at
    while index < len(effects) and isinstance(effects[index], _PRELUDE):
        index += 1
    if index < len(effects):
        add = effects[index]
        if isinstance(add, Add) and add.key == words[1] and add.shown_id == reply:
            found.add(index + 1)
            after = effects[index + 1] if index + 1 < len(effects) else None
            trims = any(word.upper() in (b"MAXLEN", b"MINID") for word in words[2:10])
            if trims and isinstance(after, fx.Trim) and after.key == words[1]:
                found.add(index + 2)
    return found


def _ends_of_deletes(keys: Words, deleted: int, effects: list[Logged], at: int) -> set[int]:
    end = at
    while end < len(effects) and end < at + deleted:
        effect = effects[end]
        if not isinstance(effect, fx.Delete) or effect.key not in keys:
            break
        end += 1
    return {end} if end == at + deleted else set()
