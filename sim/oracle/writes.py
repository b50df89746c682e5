"""The required effects and replies of writing commands but XADD (S3.2, S5, S6, S9.4, S10)."""

from __future__ import annotations

from typing import Final, Optional

from anabranch.crdt import effects as fx
from anabranch.region.engine.replies import Reply, SimpleString
from anabranch.sim.oracle.adds import clean_slate, observes_all, xadd, xtrim
from anabranch.sim.oracle.arguments import Words, entry_id, number
from anabranch.sim.oracle.follower import Follower, Judge
from anabranch.sim.oracle.log import Add
from anabranch.sim.oracle.reads import configuration, describe, must_be
from anabranch.sim.oracle.state import NEVER, KeyState
from anabranch.sim.oracle.verdicts import Wrong, readable


def ok(reply: Reply, what: str) -> None:
    """Raises Wrong unless the reply is OK."""
    if not isinstance(reply, SimpleString) or reply.text != b"OK":
        raise Wrong(f"{what} answered {describe(reply)}")


def _must_exist(follower: Follower, key: bytes, what: str) -> KeyState:
    state = follower.existing(key)
    if state is None:
        raise Wrong(f"{what}: {readable(key)} does not exist")
    return state


# -- entries


def xdel(follower: Follower, words: Words, reply: Reply) -> None:
    """XDEL: removes the dots of all entries that bear an ID (S5.1)."""
    state = follower.existing(words[1])
    wanted: list[tuple[int, int]] = []
    if state is not None:
        for one in dict.fromkeys(entry_id(word) for word in words[2:]):
            wanted += [(add.region, add.counter) for add in state.with_id(one)]
    must_be(reply, len(wanted), "XDEL")
    if wanted:
        effect = follower.issued(fx.RemoveEntries, words[1], "XDEL")
        if sorted(effect.dots) != sorted(wanted):
            raise Wrong(f"XDEL removes {effect.dots}, must remove {wanted}")
        follower.apply()


def xsetid(follower: Follower, words: Words, reply: Reply) -> None:
    """XSETID: never goes below the last ID, and issues no effect for the present one (S3.2)."""
    ok(reply, "XSETID")
    state = _must_exist(follower, words[1], "XSETID")
    new_id = entry_id(words[2])
    if new_id < state.last_id():
        raise Wrong("XSETID went below the last ID")
    if new_id > state.last_id() or not state.has_header():
        effect = follower.issued(fx.SetId, words[1], "XSETID")
        must_be(effect.entry_id, new_id, "XSETID's effect")
        follower.apply()


# -- keys


def _delete_one(follower: Follower, key: bytes, what: str) -> None:
    observes_all(follower, follower.issued(fx.Delete, key, what).vector, what)
    follower.apply()


def delete(follower: Follower, words: Words, reply: Reply) -> None:
    """DEL and UNLINK (S5.4)."""
    deleted = 0
    for key in words[1:]:
        if follower.existing(key) is not None:
            _delete_one(follower, key, "DEL")
            deleted += 1
    must_be(reply, deleted, "DEL")


def flush(follower: Follower, words: Words, reply: Reply) -> None:
    """FLUSHALL and FLUSHDB: always one effect (S5.4)."""
    ok(reply, "FLUSHALL")
    effect = follower.next()
    if not isinstance(effect, fx.Flush):
        raise Wrong("FLUSHALL issued no Flush")
    observes_all(follower, effect.vector, "Flush")
    follower.apply()


def rename(follower: Follower, words: Words, reply: Reply) -> None:
    """RENAME and RENAMENX (S10.1)."""
    source, target = words[1], words[2]
    _must_exist(follower, source, "RENAME")
    if words[0].upper() == b"RENAMENX":
        taken = follower.existing(target) is not None
        must_be(reply, 0 if taken else 1, "RENAMENX")
        if taken:
            return
    else:
        ok(reply, "RENAME")
    if source != target:
        _move(follower, source, target)


def _move(follower: Follower, source: bytes, target: bytes) -> None:
    state = follower.state.keys[source]
    last_id, deadline = state.last_id(), state.winning_deadline()
    copies: dict[int, list[list[bytes]]] = {}
    for entry, _, _, add in state.stream:
        copies.setdefault(entry, []).append(add.fields)
    _delete_one(follower, source, "RENAME")
    if follower.existing(target) is not None:
        _delete_one(follower, target, "RENAME")
    clean_slate(follower, target)
    for entry, fields in copies.items():
        copy = follower.issued(Add, target, "RENAME copies in ID order, each ID once")
        if copy.entry_id != entry or copy.fields not in fields or copy.pid:
            raise Wrong(
                f"RENAME copied {describe(copy.shown)}, must copy {entry >> 64}-{entry % (1 << 64)}"
            )
        copy.kind = "copy"
        follower.apply()
    must_be(follower.issued(fx.SetId, target, "RENAME").entry_id, last_id, "RENAME's last ID")
    follower.apply()
    if deadline is None or (
        deadline[1] == NEVER and not isinstance(follower.next(), fx.SetDeadline)
    ):
        # An infinite deadline need not be copied: a key without a deadline lives for ever, too.
        return
    _deadline_must_be(follower, target, deadline[1], "RENAME")


# -- deadlines


def _deadline_must_be(follower: Follower, key: bytes, at_ms: int, what: str) -> None:
    effect = follower.issued(fx.SetDeadline, key, what)
    seen = sorted(follower.state.keys[key].deadlines)
    if effect.at_ms != at_ms or sorted(effect.replaces) != seen:
        raise Wrong(
            f"{what} set the deadline {effect.at_ms} in place of {effect.replaces}, "
            f"must be {at_ms} in place of {seen}"
        )
    follower.apply()


def expire(follower: Follower, words: Words, reply: Reply) -> None:
    """EXPIRE, PEXPIRE, EXPIREAT, PEXPIREAT with NX, XX, GT, LT (S10.2).

    A deadline that is not in the future hides the key at once.
    """
    name = words[0].upper()
    at_ms = number(words[2]) * (1 if name[:1] == b"P" else 1000) + (
        0 if name.endswith(b"AT") else follower.clock_ms
    )
    state = follower.existing(words[1])
    if state is None:
        must_be(reply, 0, readable(name))
        return
    winner = state.winning_deadline()
    now = NEVER if winner is None else winner[1]
    allowed = True
    for option in (word.upper() for word in words[3:]):
        allowed = (
            allowed
            and {b"NX": now == NEVER, b"XX": now != NEVER, b"GT": at_ms > now, b"LT": at_ms < now}[
                option
            ]
        )
    must_be(reply, 1 if allowed else 0, readable(name))
    if allowed:
        _deadline_must_be(
            follower,
            words[1],
            max(at_ms - 1 if at_ms == follower.clock_ms else at_ms, 0),
            readable(name),
        )


def persist(follower: Follower, words: Words, reply: Reply) -> None:
    """PERSIST: sets an infinite deadline if there is a finite one."""
    state = follower.existing(words[1])
    winner = None if state is None else state.winning_deadline()
    has_one = winner is not None and winner[1] != NEVER
    must_be(reply, 1 if has_one else 0, "PERSIST")
    if has_one:
        _deadline_must_be(follower, words[1], NEVER, "PERSIST")


# -- groups


def create_group(follower: Follower, words: Words, reply: Reply) -> None:
    """XGROUP CREATE (S6)."""
    ok(reply, "XGROUP CREATE")
    key, group, start = words[2:5]
    state = follower.existing(key)
    if state is None and b"MKSTREAM" not in [word.upper() for word in words[5:]]:
        raise Wrong(f"XGROUP CREATE: {readable(key)} does not exist")
    if state is not None and group in state.groups:
        raise Wrong(f"XGROUP CREATE: {readable(group)} is live")
    clean_slate(follower, key)
    effect = follower.issued(fx.CreateGroup, key, "XGROUP CREATE")
    observes_all(follower, effect.vector, "CreateGroup")
    expected: Optional[int] = None if start == b"$" else entry_id(start)
    if effect.group != group or (None if effect.starts_at_vector else effect.start_id) != expected:
        raise Wrong(f"XGROUP CREATE made {readable(effect.group)} at {effect.start_id}")
    follower.apply()


def destroy_group(follower: Follower, words: Words, reply: Reply) -> None:
    """XGROUP DESTROY (S6.1)."""
    state = _must_exist(follower, words[2], "XGROUP DESTROY")
    lives = words[3] in state.groups
    must_be(reply, 1 if lives else 0, "XGROUP DESTROY")
    if lives:
        effect = follower.issued(fx.DestroyGroup, words[2], "XGROUP DESTROY")
        if effect.group != words[3]:
            raise Wrong(f"XGROUP DESTROY destroyed {readable(effect.group)}")
        follower.apply()


# -- configuration


def _configure(follower: Follower, key: bytes, options: Words, reply: Reply) -> None:
    """A change replaces the configurations and clears the pairs that it observed (S9.4).

    A command that changes nothing issues no effect.
    """
    ok(reply, "XCFGSET")
    state = _must_exist(follower, key, "XCFGSET")
    current = configuration(follower, state)
    duration_s, maxsize = current
    for index in range(0, len(options), 2):
        if options[index].upper().endswith(b"DURATION"):
            duration_s = number(options[index + 1])
        else:
            maxsize = number(options[index + 1])
    if (duration_s, maxsize) == current:
        return
    effect = follower.issued(fx.Configure, key, "XCFGSET")
    observes_all(follower, effect.vector, "Configure")
    seen = sorted(state.configurations)
    if (effect.duration_s, effect.maxsize) != (duration_s, maxsize) or sorted(
        effect.replaces
    ) != seen:
        raise Wrong(
            f"XCFGSET set {effect.duration_s}, {effect.maxsize} in place of {effect.replaces}, "
            f"must replace {seen}"
        )
    follower.apply()


def xcfgset(follower: Follower, words: Words, reply: Reply) -> None:
    """XCFGSET."""
    _configure(follower, words[1], words[2:], reply)


def xidmp_cfgset(follower: Follower, words: Words, reply: Reply) -> None:
    """XIDMP CFGSET."""
    _configure(follower, words[2], words[3:], reply)


def config_set(follower: Follower, words: Words, reply: Reply) -> None:
    """CONFIG SET: holds until the process ends."""
    ok(reply, "CONFIG SET")
    for index in range(2, len(words), 2):
        follower.defaults[words[index].decode().lower()] = words[index + 1].decode()


WRITES: Final[dict[bytes, Judge]] = {
    b"XADD": xadd,
    b"XTRIM": xtrim,
    b"XDEL": xdel,
    b"XSETID": xsetid,
    b"DEL": delete,
    b"UNLINK": delete,
    b"FLUSHALL": flush,
    b"FLUSHDB": flush,
    b"RENAME": rename,
    b"RENAMENX": rename,
    b"EXPIRE": expire,
    b"PEXPIRE": expire,
    b"EXPIREAT": expire,
    b"PEXPIREAT": expire,
    b"PERSIST": persist,
    b"XGROUP CREATE": create_group,
    b"XGROUP DESTROY": destroy_group,
    b"XCFGSET": xcfgset,
    b"XIDMP CFGSET": xidmp_cfgset,
    b"CONFIG SET": config_set,
}
