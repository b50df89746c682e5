"""The required replies of reading commands (S3, S7.1, S10.2), and the errors a state justifies."""

from __future__ import annotations

from typing import Final, Optional

from anabranch.region.engine.replies import ErrorReply, MapReply, NullArray, Reply, SimpleString
from anabranch.sim.oracle.arguments import (
    MAX_ID,
    Words,
    entry_id,
    lower_bound,
    number,
    shown,
    upper_bound,
)
from anabranch.sim.oracle.follower import Follower, Judge
from anabranch.sim.oracle.log import Add
from anabranch.sim.oracle.state import NEVER, KeyState
from anabranch.sim.oracle.verdicts import Unsure, Wrong, readable


def describe(reply: Reply) -> str:
    """A reply as text for messages."""
    if isinstance(reply, ErrorReply):
        return reply.message
    if isinstance(reply, SimpleString):
        return readable(reply.text)
    if isinstance(reply, NullArray):
        return "nil"
    if isinstance(reply, MapReply):
        return describe(reply.flat)
    if isinstance(reply, list):
        return (
            "["
            + ", ".join(describe(item) for item in reply[:12])
            + (", …]" if len(reply) > 12 else "]")
        )
    return repr(reply)


def must_be(reply: Reply, expected: Reply, what: str) -> None:
    """Raises Wrong unless the reply, of a plain type, equals `expected`."""
    if reply != expected:
        raise Wrong(f"{what}: answered {describe(reply)}, must be {describe(expected)}")


def fields_of(reply: Reply) -> dict[bytes, Reply]:
    """A map reply, or an array of key, value, …, as a dict."""
    flat = reply.flat if isinstance(reply, MapReply) else reply
    assert isinstance(flat, list)
    return {flat[index]: flat[index + 1] for index in range(0, len(flat), 2)}  # type: ignore[misc]


# -- entries


def limited(adds: list[Add], count: int) -> list[Add]:
    """The first `count` adds, all if `count` < 0; COUNT never cuts inside one ID (S7.1)."""
    if 0 <= count < len(adds):
        while 0 < count < len(adds) and adds[count].entry_id == adds[count - 1].entry_id:
            count += 1
        return adds[:count]
    return adds


def entries_must_be(
    follower: Follower, key: bytes, reply: Reply, expected: list[Add], what: str
) -> None:
    """Raises Wrong unless the reply shows these entries with their fields, in order.

    An entry that is shown although a removal took it has come back (invariant 10).
    """
    if reply == [add.shown for add in expected]:
        return
    if not isinstance(reply, list):
        raise Wrong(f"{what}: answered {describe(reply)}, must be {len(expected)} entries")
    present: list[Reply] = [add.shown for add in expected]
    for item in reply:
        if item not in present:
            state = follower.state.keys.get(key)
            if state is not None and isinstance(item, list) and was_removed(follower, state, item):
                raise Wrong(f"{what}: shows {describe(item)}, which was removed", "no_return")
            raise Wrong(f"{what}: shows {describe(item)}, which is not there")
    for one in present:
        if one not in reply:
            raise Wrong(f"{what}: lacks {describe(one)}")
    raise Wrong(f"{what}: answered {describe(reply)}, must be {describe(present)}")


def was_removed(follower: Follower, state: KeyState, item: list[Reply]) -> bool:
    """Whether the state covers an add of this ID and these fields that is not present any more."""
    for region, counter in follower.state.vector.items():
        for effect in follower.log.effects[region][:counter]:
            if (
                isinstance(effect, Add)
                and effect.key == state.key
                and effect.shown == item
                and (region, effect.counter) not in state.adds
            ):
                return True
    return False


def _count(words: Words, index: int) -> int:
    return max(number(words[index + 1]), 0) if len(words) > index else -1


def _range(
    follower: Follower, words: Words, reply: Reply, start: bytes, end: bytes, backwards: bool
) -> None:
    low, high, count = lower_bound(start), upper_bound(end), _count(words, 4)
    state = follower.existing(words[1])
    name = readable(words[0])
    if count == 0:
        if not (isinstance(reply, NullArray) if state is not None else reply == []):
            raise Wrong(f"{name} with COUNT 0: answered {describe(reply)}")
        return
    adds = [] if state is None else state.between(low, high)
    if backwards:
        adds = adds[::-1]
    entries_must_be(follower, words[1], reply, limited(adds, count), name)


def xrange(follower: Follower, words: Words, reply: Reply) -> None:
    """XRANGE."""
    _range(follower, words, reply, words[2], words[3], False)


def xrevrange(follower: Follower, words: Words, reply: Reply) -> None:
    """XREVRANGE."""
    _range(follower, words, reply, words[3], words[2], True)


def xread(follower: Follower, words: Words, reply: Reply) -> None:
    """XREAD that did not block: all entries above each ID (S7.2 concerns later arrivals)."""
    if follower.op is not None and follower.op.waited:
        raise Unsure("read that waited")
    index, count = 1, -1
    while words[index].upper() != b"STREAMS":
        if words[index].upper() == b"COUNT":
            count = number(words[index + 1])
        index += 2
    keys = words[index + 1 : index + 1 + (len(words) - index - 1) // 2]
    answers = _by_key(reply)
    for key, text in zip(keys, words[index + 1 + len(keys) :], strict=True):
        state = follower.existing(key)
        if state is None or text == b"$":
            expected: list[Add] = []
        elif text == b"+":
            expected = state.with_id(state.stream[-1][0]) if state.stream else []
        else:
            expected = limited(
                state.between(entry_id(text) + 1, MAX_ID), count if count > 0 else -1
            )
        entries_must_be(
            follower,
            key,
            answers.pop(key, []),
            expected,
            f"XREAD of {readable(key)} above {readable(text)}",
        )
    if answers:
        raise Wrong(f"XREAD shows {[readable(key) for key in answers]}, not among its keys")


def _by_key(reply: Reply) -> dict[bytes, Reply]:
    if isinstance(reply, MapReply):
        return fields_of(reply)
    if not isinstance(reply, list):
        return {}
    return {pair[0]: pair[1] for pair in reply}  # type: ignore[index,misc]


def xlen(follower: Follower, words: Words, reply: Reply) -> None:
    """XLEN."""
    state = follower.existing(words[1])
    must_be(reply, 0 if state is None else len(state.stream), "XLEN")


def xinfo_stream(follower: Follower, words: Words, reply: Reply) -> None:
    """XINFO STREAM, statistics left out (S3.4)."""
    state = follower.existing(words[2])
    if state is None:
        raise Wrong(
            f"XINFO STREAM: {readable(words[2])} does not exist, answered {describe(reply)}"
        )
    found = fields_of(reply)
    must_be(found[b"length"], len(state.stream), "length of XINFO STREAM")
    must_be(
        found[b"last-generated-id"], shown(state.last_id()), "last-generated-id of XINFO STREAM"
    )
    first = state.stream[0][3] if state.stream else None
    must_be(
        found[b"recorded-first-entry-id"],
        b"0-0" if first is None else first.shown_id,
        "recorded-first-entry-id of XINFO STREAM",
    )
    duration_s, maxsize = configuration(follower, state)
    must_be(found[b"idmp-duration"], duration_s, "idmp-duration of XINFO STREAM")
    must_be(found[b"idmp-maxsize"], maxsize, "idmp-maxsize of XINFO STREAM")
    tracked, most = found[b"iids-tracked"], state.open_pair_count()
    # A region may drop pairs by itself. A restored region has pairs again that others have cleared,
    # because it lost those clears.
    if not isinstance(tracked, int) or (
        tracked > most and follower.region not in follower.record.restored
    ):
        raise Wrong(
            f"XINFO STREAM: keeps {describe(tracked)} idempotent adds; {most} are not cleared",
            "idempotent_once",
        )
    if len(words) == 3:
        must_be(found[b"groups"], len(state.groups), "number of groups in XINFO STREAM")
        must_be(
            found[b"first-entry"],
            None if first is None else first.shown,
            "first-entry of XINFO STREAM",
        )
        last: list[Reply] = (
            [add.shown for add in state.with_id(state.stream[-1][0])] if state.stream else [None]
        )
        if found[b"last-entry"] not in last:
            raise Wrong(f"last-entry of XINFO STREAM: {describe(found[b'last-entry'])}")


def crdt_log(follower: Follower, words: Words, reply: Reply) -> None:
    """CRDT.LOG: one region log, with counters."""
    state = follower.existing(words[1])
    region = number(words[2]) if words[2].isdigit() else follower.record.names.get(words[2], 0)
    options = words[3:]
    count = -1
    if len(options) >= 2 and options[-2].upper() == b"COUNT":
        count = max(number(options[-1]), 0)
        options = options[:-2]
    low = lower_bound(options[0]) if options else 0
    high = upper_bound(options[1]) if len(options) > 1 else MAX_ID
    adds = (
        [] if state is None else [add for add in state.between(low, high) if add.region == region]
    )
    expected = [
        (add.shown_id, add.counter, add.fields) for add in (adds if count < 0 else adds[:count])
    ]
    found = [fields_of(item) for item in reply] if isinstance(reply, list) else []
    if [(one[b"id"], one[b"counter"], one[b"fields"]) for one in found] != expected:
        raise Wrong(f"CRDT.LOG: answered {describe(reply)}, must be {expected}")


# -- keys


def exists(follower: Follower, words: Words, reply: Reply) -> None:
    """EXISTS and TOUCH."""
    must_be(
        reply, sum(1 for key in words[1:] if follower.existing(key) is not None), readable(words[0])
    )


def type_(follower: Follower, words: Words, reply: Reply) -> None:
    """TYPE."""
    expected = b"none" if follower.existing(words[1]) is None else b"stream"
    if not isinstance(reply, SimpleString) or reply.text != expected:
        raise Wrong(f"TYPE: answered {describe(reply)}, must be {readable(expected)}")


def _existing_keys(follower: Follower) -> list[bytes]:
    return sorted(key for key in follower.state.keys if follower.existing(key) is not None)


def keys(follower: Follower, words: Words, reply: Reply) -> None:
    """KEYS *."""
    if words[1] == b"*" and isinstance(reply, list):
        must_be(sorted(reply), list(_existing_keys(follower)), "KEYS")  # type: ignore[type-var]


def dbsize(follower: Follower, words: Words, reply: Reply) -> None:
    """DBSIZE."""
    must_be(reply, len(_existing_keys(follower)), "DBSIZE")


def randomkey(follower: Follower, words: Words, reply: Reply) -> None:
    """RANDOMKEY."""
    expected: list[Reply] = [*_existing_keys(follower)]
    if reply not in (expected or [None]):
        raise Wrong(f"RANDOMKEY: answered {describe(reply)}")


def remaining(follower: Follower, words: Words, reply: Reply) -> None:
    """TTL, PTTL, EXPIRETIME, PEXPIRETIME."""
    name = words[0].upper()
    state = follower.existing(words[1])
    winner = None if state is None else state.winning_deadline()
    if state is None:
        expected = -2
    elif winner is None or winner[1] == NEVER:
        expected = -1
    elif name in (b"EXPIRETIME", b"PEXPIRETIME"):
        expected = winner[1] if name == b"PEXPIRETIME" else (winner[1] + 500) // 1000
    else:
        left_ms = winner[1] - follower.clock_ms
        expected = left_ms if name == b"PTTL" else (left_ms + 500) // 1000
    must_be(reply, expected, readable(name))


def configuration(follower: Follower, state: Optional[KeyState]) -> tuple[int, int]:
    """(duration in s, maxsize) in force (S9.4)."""
    value = None if state is None else state.configuration()
    return value or (
        follower.integer("stream-idmp-duration"),
        follower.integer("stream-idmp-maxsize"),
    )


def xidmp_cfgget(follower: Follower, words: Words, reply: Reply) -> None:
    """XIDMP CFGGET."""
    duration_s, maxsize = configuration(follower, follower.existing(words[2]))
    expected = {b"duration": duration_s, b"maxsize": maxsize}
    for name, value in fields_of(reply).items():
        must_be(value, expected[name], f"{readable(name)} of XIDMP CFGGET")


# -- groups


def groups_must_be(follower: Follower, key: bytes, names: list[bytes], what: str) -> None:
    """Raises Wrong unless `names` are the live groups of the key.

    A group that is shown although a tombstone or an expiry killed it has come back (invariant 10).
    """
    state = follower.existing(key)
    expected = [] if state is None else sorted(state.groups)
    if sorted(names) == expected:
        return
    for name in names:
        if name not in expected:
            raise Wrong(f"{what}: shows group {readable(name)}, which does not live", "no_return")
    raise Wrong(
        f"{what}: lacks groups {[readable(name) for name in expected if name not in names]}"
    )


def xinfo_groups(follower: Follower, words: Words, reply: Reply) -> None:
    """XINFO GROUPS shows exactly the live groups (S6.1)."""
    if follower.existing(words[2]) is None:
        raise Wrong(
            f"XINFO GROUPS: {readable(words[2])} does not exist, answered {describe(reply)}"
        )
    assert isinstance(reply, list)
    groups_must_be(
        follower,
        words[2],
        [fields_of(item)[b"name"] for item in reply],  # type: ignore[misc]
        "XINFO GROUPS",
    )


def group_lives(place: int) -> Judge:
    """The judge of a command on a live group: word `place` is its key, the next word its name."""

    def judge(follower: Follower, words: Words, reply: Reply) -> None:
        _group_must_live(follower, words[place], words[place + 1], reply)

    return judge


def xreadgroup(follower: Follower, words: Words, reply: Reply) -> None:
    """XREADGROUP that did not block: the group is live on every key.

    Other judges check the entries that it delivers.
    """
    if follower.op is not None and follower.op.waited:
        raise Unsure("read that waited")
    index, group, no_ack = 1, b"", False
    while words[index].upper() != b"STREAMS":
        option = words[index].upper()
        if option == b"GROUP":
            group = words[index + 1]
        no_ack = no_ack or option == b"NOACK"
        index += 3 if option == b"GROUP" else 1 if option == b"NOACK" else 2
    keys = words[index + 1 : index + 1 + (len(words) - index - 1) // 2]
    for key in keys:
        _group_must_live(follower, key, group, reply)
    if not no_ack:
        for (key, entries), start in zip(
            _by_key(reply).items(), words[index + 1 + len(keys) :], strict=False
        ):
            if start == b">" and len(keys) == 1:
                follower.pending.deliver(follower.state.keys[key], group, entries)


def _group_must_live(follower: Follower, key: bytes, group: bytes, reply: Reply) -> None:
    state = follower.existing(key)
    if state is None or group not in state.groups:
        raise Wrong(
            f"{readable(group)} is not a live group of {readable(key)}, answered {describe(reply)}",
            "no_return",
        )


def xack(follower: Follower, words: Words, reply: Reply) -> None:
    """XACK: the entries that it acknowledges are not pending any more."""
    state = follower.state.keys.get(words[1])
    if state is not None:
        follower.pending.settle(state, words[2], [entry_id(word) for word in words[3:]])


def delete_consumer(follower: Follower, words: Words, reply: Reply) -> None:
    """XGROUP DELCONSUMER: the consumer's pending entries are dropped."""
    _group_must_live(follower, words[2], words[3], reply)
    follower.pending.drop(words[2], words[3])


# -- errors


def error(follower: Follower, words: Words, message: str) -> None:
    """Raises Wrong if an error reply contradicts the state, for the errors that speak of it."""
    key, group = _key_and_group(words)
    state = None if key is None else follower.existing(key)
    if message.startswith(("ERR no such key", "ERR The XGROUP subcommand requires")):
        if state is not None:
            raise Wrong(f"{readable(key or b'')} exists, answered: {message}")
    elif message.startswith("BUSYGROUP"):
        if state is None or group not in state.groups:
            raise Wrong(f"{readable(group or b'')} is not live, answered: {message}", "no_return")
    elif (
        message.startswith("NOGROUP")
        and words[0].upper() not in (b"XREADGROUP",)
        and state is not None
        and group in state.groups
    ):
        raise Wrong(f"{readable(group or b'')} is live, answered: {message}")


def _key_and_group(words: Words) -> tuple[Optional[bytes], Optional[bytes]]:
    first = 2 if words[0].upper() in (b"XGROUP", b"XINFO", b"XIDMP") else 1
    return (words[first] if len(words) > first else None), (
        words[first + 1] if len(words) > first + 1 else None
    )


READS: Final[dict[bytes, Judge]] = {
    b"XRANGE": xrange,
    b"XREVRANGE": xrevrange,
    b"XREAD": xread,
    b"XLEN": xlen,
    b"XINFO STREAM": xinfo_stream,
    b"XINFO GROUPS": xinfo_groups,
    b"XIDMP CFGGET": xidmp_cfgget,
    b"XINFO CONSUMERS": group_lives(2),
    b"XPENDING": group_lives(1),
    b"XCLAIM": group_lives(1),
    b"XAUTOCLAIM": group_lives(1),
    b"XREADGROUP": xreadgroup,
    b"XGROUP SETID": group_lives(2),
    b"XGROUP CREATECONSUMER": group_lives(2),
    b"XGROUP DELCONSUMER": delete_consumer,
    b"XACK": xack,
    b"CRDT.LOG": crdt_log,
    b"EXISTS": exists,
    b"TOUCH": exists,
    b"TYPE": type_,
    b"KEYS": keys,
    b"DBSIZE": dbsize,
    b"RANDOMKEY": randomkey,
    b"TTL": remaining,
    b"PTTL": remaining,
    b"EXPIRETIME": remaining,
    b"PEXPIRETIME": remaining,
}
