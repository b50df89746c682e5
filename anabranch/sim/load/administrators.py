"""Administrators: clients that change keys, deadlines, groups and settings (S3, S6, S9.4, S10).

There is one kind for each concern, so that a run can leave a concern out, and one kind that does
everything.
"""

from __future__ import annotations

from random import Random
from typing import ClassVar

from anabranch.region.engine.replies import Reply
from anabranch.sim.history import Operation, Words
from anabranch.sim.load.arguments import (
    APPENDFSYNC,
    ID_MODES,
    REFUSED_SETTINGS,
    consumer_of,
    group_of,
    unknown_id,
)
from anabranch.sim.load.base import Acts, Client, below, pick
from anabranch.sim.replies import field_of

# -- keys


def delete(client: Client, draw: Random, now_ms: int) -> list[Words]:
    """DEL and UNLINK of one key or two; rarely FLUSHALL."""
    if draw.random() < 0.04:
        return flush(client, draw, now_ms)
    name = b"DEL" if draw.random() < 0.7 else b"UNLINK"
    if draw.random() < 0.8:
        return [(name, client.key(draw))]
    return [(name, *client.two_keys(draw))]


def flush(client: Client, draw: Random, now_ms: int) -> list[Words]:
    """FLUSHALL and FLUSHDB."""
    return [
        pick(
            draw,
            (
                (b"FLUSHALL",),
                (b"FLUSHALL",),
                (b"FLUSHALL", b"ASYNC"),
                (b"FLUSHALL", b"SYNC"),
                (b"FLUSHDB",),
            ),
        )
    ]


def rename(client: Client, draw: Random, now_ms: int) -> list[Words]:
    """RENAME and RENAMENX, rarely of a key onto itself."""
    source, target = client.two_keys(draw)
    if draw.random() < 0.05:
        target = source
    return [(b"RENAME" if draw.random() < 0.7 else b"RENAMENX", source, target)]


def look_at_last_id(client: Client, draw: Random, now_ms: int) -> list[Words]:
    """XINFO STREAM, which shows the last ID."""
    return [(b"XINFO", b"STREAM", client.key(draw))]


def set_last_id(client: Client, draw: Random, now_ms: int) -> list[Words]:
    """XSETID to an ID above the last one, to the last one itself, and at times below it."""
    key = client.key(draw)
    one = client.known_id(draw, key)
    chance = draw.random()
    if one is None or chance < 0.5:
        last_id = b"%d-%d" % (now_ms + below(draw, 20), below(draw, 3))
    elif chance < 0.6:
        last_id = b"%d-0" % (int(one[: one.index(b"-")]) + below(draw, 50))
    else:
        last_id = one
    words = [b"XSETID", key, last_id]
    if draw.random() < 0.2:
        words += (b"ENTRIESADDED", b"%d" % below(draw, 60))
        if draw.random() < 0.7:
            words += (b"MAXDELETEDID", pick(draw, (b"0-0", last_id)))
    return [tuple(words)]


# -- deadlines


def expire(client: Client, draw: Random, now_ms: int) -> list[Words]:
    """A short deadline by one of the four commands, at times one in the past."""
    key = client.key(draw)
    chance = draw.random()
    ahead_ms = int(chance * chance * 4000) if chance > 0.1 else -100
    words = pick(
        draw,
        (
            (b"PEXPIRE", key, b"%d" % ahead_ms),
            (b"PEXPIRE", key, b"%d" % ahead_ms),
            (b"PEXPIREAT", key, b"%d" % (now_ms + ahead_ms)),
            (b"EXPIRE", key, b"%d" % (ahead_ms // 1000)),
            (b"EXPIREAT", key, b"%d" % ((now_ms + ahead_ms) // 1000 + 1)),
        ),
    )
    if draw.random() < 0.35:
        return [
            words
            + pick(draw, ((b"NX",), (b"XX",), (b"GT",), (b"LT",), (b"XX", b"GT"), (b"LT", b"XX")))
        ]
    return [words]


def persist(client: Client, draw: Random, now_ms: int) -> list[Words]:
    """PERSIST."""
    return [(b"PERSIST", client.key(draw))]


def look_at_deadline(client: Client, draw: Random, now_ms: int) -> list[Words]:
    """A command that shows the deadline of a key."""
    return [(pick(draw, (b"TTL", b"PTTL", b"EXPIRETIME", b"PEXPIRETIME")), client.key(draw))]


# -- groups


def create_group(client: Client, draw: Random, now_ms: int) -> list[Words]:
    """XGROUP CREATE at 0, $ or an ID."""
    key = client.key(draw)
    start = pick(draw, (b"0", b"0", b"$", client.known_id(draw, key) or b"%d" % now_ms))
    words = [b"XGROUP", b"CREATE", key, group_of(draw), start]
    if draw.random() < 0.7:
        words.append(b"MKSTREAM")
    if draw.random() < 0.1:
        words += (b"ENTRIESREAD", b"%d" % below(draw, 9))
    return [tuple(words)]


def destroy_group(client: Client, draw: Random, now_ms: int) -> list[Words]:
    """XGROUP DESTROY."""
    return [(b"XGROUP", b"DESTROY", client.key(draw), group_of(draw))]


def recreate_group(client: Client, draw: Random, now_ms: int) -> list[Words]:
    """XGROUP DESTROY and CREATE in one pipeline."""
    key = client.key(draw)
    group = group_of(draw)
    return [
        (b"XGROUP", b"DESTROY", key, group),
        (b"XGROUP", b"CREATE", key, group, pick(draw, (b"0", b"$")), b"MKSTREAM"),
    ]


def set_group(client: Client, draw: Random, now_ms: int) -> list[Words]:
    """XGROUP SETID: back to the beginning, to the end, to an ID."""
    key = client.key(draw)
    one = pick(draw, (b"0", b"0", b"$", client.known_id(draw, key) or unknown_id(draw, now_ms)))
    words: Words = (b"XGROUP", b"SETID", key, group_of(draw), one)
    if draw.random() < 0.1:
        words += (b"ENTRIESREAD", b"%d" % below(draw, 9))
    return [words]


def create_consumer(client: Client, draw: Random, now_ms: int) -> list[Words]:
    """XGROUP CREATECONSUMER."""
    return [(b"XGROUP", b"CREATECONSUMER", client.key(draw), group_of(draw), consumer_of(draw))]


def delete_consumer(client: Client, draw: Random, now_ms: int) -> list[Words]:
    """XGROUP DELCONSUMER, even if entries are pending for the consumer."""
    return [(b"XGROUP", b"DELCONSUMER", client.key(draw), group_of(draw), consumer_of(draw))]


# -- settings


def configure_pairs(client: Client, draw: Random, now_ms: int) -> list[Words]:
    """XCFGSET and XIDMP CFGSET, which is the older spelling."""
    key = client.key(draw)
    duration = b"%d" % (1 + below(draw, 3))
    maxsize = b"%d" % (1 + below(draw, 5))
    return [
        pick(
            draw,
            (
                (b"XCFGSET", key, b"IDMP-DURATION", duration),
                (b"XCFGSET", key, b"IDMP-MAXSIZE", maxsize),
                (b"XCFGSET", key, b"IDMP-DURATION", duration, b"IDMP-MAXSIZE", maxsize),
                (b"XIDMP", b"CFGSET", key, b"DURATION", duration, b"MAXSIZE", maxsize),
            ),
        )
    ]


def set_id_mode(client: Client, draw: Random, now_ms: int) -> list[Words]:
    """CONFIG SET of the ID mode."""
    return [(b"CONFIG", b"SET", b"crdt-xadd-id-uniqueness-mode", pick(draw, ID_MODES))]


def set_appendfsync(client: Client, draw: Random, now_ms: int) -> list[Words]:
    """CONFIG SET of appendfsync."""
    return [(b"CONFIG", b"SET", b"appendfsync", pick(draw, APPENDFSYNC))]


def set_several(client: Client, draw: Random, now_ms: int) -> list[Words]:
    """CONFIG SET of several settings. Often one of them is refused, so that none must change."""
    words = [b"crdt-xadd-id-uniqueness-mode", pick(draw, ID_MODES)]
    if draw.random() < 0.7:
        words += (b"appendfsync", pick(draw, APPENDFSYNC))
    if draw.random() < 0.3:
        words += (b"stream-node-max-entries", pick(draw, (b"2", b"4", b"100")))
    if draw.random() < 0.6:
        place = 2 * below(draw, len(words) // 2 + 1)
        words[place:place] = pick(draw, REFUSED_SETTINGS)
    return [(b"CONFIG", b"SET", *words)]


def set_pair_limit(client: Client, draw: Random, now_ms: int) -> list[Words]:
    """CONFIG SET of the number of idempotent IDs that a producer may have."""
    return [(b"CONFIG", b"SET", b"stream-idmp-maxsize", pick(draw, (b"1", b"2", b"3", b"100")))]


def look_at_settings(client: Client, draw: Random, now_ms: int) -> list[Words]:
    """CONFIG GET."""
    return [(b"CONFIG", b"GET", b"crdt-*-mode", b"appendfsync", b"stream-*")]


# -- kinds

_DELETING: Acts = ((8, delete),)
_RENAMING: Acts = ((1, rename),)
_LAST_IDS: Acts = ((3, set_last_id), (1, look_at_last_id))
_EXPIRING: Acts = ((6, expire), (2, persist), (1, look_at_deadline))
_GROUPS: Acts = (
    (3, create_group),
    (2, destroy_group),
    (1, recreate_group),
    (2, set_group),
    (1, create_consumer),
    (2, delete_consumer),
)
_PAIRS: Acts = ((1, configure_pairs),)
_SETTINGS: Acts = (
    (3, set_id_mode),
    (1, set_appendfsync),
    (1, set_pair_limit),
    (1, look_at_settings),
    (3, set_several),
)


class Administrator(Client):
    """All acts of this module; the other kinds do a part each."""

    acts: ClassVar[Acts] = (
        *_DELETING,
        *_RENAMING,
        *_LAST_IDS,
        *_EXPIRING,
        *_GROUPS,
        *_PAIRS,
        (1, set_id_mode),
    )

    def succeeded(self, operation: Operation, reply: Reply) -> None:
        """Remembers the last ID that XINFO STREAM shows."""
        argv = operation.argv
        if argv[0] == b"XINFO" and argv[1] == b"STREAM":
            last_id = field_of(reply, b"last-generated-id")
            if isinstance(last_id, bytes):
                self.know(argv[2], (last_id,))


class Deleter(Administrator):
    """DEL, UNLINK, and rarely FLUSHALL."""

    acts = _DELETING


class Renamer(Administrator):
    """RENAME and RENAMENX."""

    acts = _RENAMING


class LastIdKeeper(Administrator):
    """XSETID."""

    acts = _LAST_IDS


class Expirer(Administrator):
    """Deadlines."""

    acts = _EXPIRING


class GroupAdministrator(Administrator):
    """All XGROUP subcommands."""

    acts = _GROUPS


class PairConfigurer(Administrator):
    """XCFGSET."""

    acts = _PAIRS


class Configurer(Administrator):
    """CONFIG SET, at times with like adds right behind it, to which the new value applies."""

    acts = _SETTINGS

    def alike(self, draw: Random, now_ms: int, size: int) -> list[Words]:
        """A limit of idempotent IDs, adds of one producer, and one of them again."""
        key = self.key(draw)
        adds: list[Words] = []
        for _ in range(1 + size):
            token = self.token()
            adds.append((b"XADD", key, b"IDMP", b"p0", token, b"*", b"t", token))
        return [*set_pair_limit(self, draw, now_ms), *adds, pick(draw, adds)]
