"""Readers that follow streams with XREAD, and clients that only look (S7.1, S7.2)."""

from __future__ import annotations

from random import Random
from typing import Final

from anabranch.region.engine.replies import Reply
from anabranch.sim.history import Operation, Words
from anabranch.sim.load.arguments import consumer_of, group_of, unknown_id
from anabranch.sim.load.base import LEARNT_IDS_MAX, Client, Modes, below, pick
from anabranch.sim.plan import ClientPlan
from anabranch.sim.replies import entries_by_key, entry_ids

OTHER_TYPES: Final = (b"SET", b"GETSET", b"LPUSH", b"SADD", b"INCRBY")
"""Commands that the server does not have (S10.8)."""


class StreamReader(Client):
    """XREAD above the last ID that it has read. After a crash it begins anew."""

    def __init__(self, plan: ClientPlan, regions: tuple[int, ...], modes: Modes) -> None:
        super().__init__(plan, regions, modes)
        traits = Random(plan.draw ^ 4)
        self.begins = pick(traits, (b"0", b"0", b"0-0", b"$", b"+"))
        self.blocks = pick(traits, (0.0, 0.2, 0.8))
        self.counts = pick(traits, (0.0, 0.7, 1.0))
        self.reads_all = pick(traits, (0.0, 0.2, 1.0))
        self.last_ids: dict[bytes, bytes] = {}

    def read(self, draw: Random, now_ms: int) -> list[Words]:
        """XREAD of one key or of all. A client of the newest entries may begin at the end again."""
        words = [b"XREAD"]
        if draw.random() < self.counts:
            words += (b"COUNT", b"%d" % (1 + below(draw, 6)))
        if draw.random() < self.blocks:
            words += (
                b"BLOCK",
                b"%d" % (1 + below(draw, 60) if draw.random() < 0.95 else self.patience_ms * 2),
            )
        keys = self.keys if draw.random() < self.reads_all else (self.key(draw),)
        if self.begins == b"$" and draw.random() < 0.5:
            self.last_ids, keys = {}, self.keys
        return [(*words, b"STREAMS", *keys, *(self.last_ids.get(key, self.begins) for key in keys))]

    def read_anew(self, draw: Random, now_ms: int) -> list[Words]:
        """One XREAD from the beginning, from the end, or of the last entry."""
        return [
            (
                b"XREAD",
                b"COUNT",
                b"%d" % (1 + below(draw, 6)),
                b"STREAMS",
                self.key(draw),
                pick(draw, (b"0", b"$", b"+")),
            )
        ]

    acts = ((12, read), (1, read_anew))

    def succeeded(self, operation: Operation, reply: Reply) -> None:
        """Continues after the last ID of each key."""
        for key, entries in entries_by_key(reply):
            ids = entry_ids(entries, 1)
            if ids:
                self.last_ids[key] = ids[0]

    def forget(self) -> None:
        """Forgets its positions."""
        self.last_ids = {}


class Looker(Client):
    """Reads of every kind. They must change nothing, and must agree with the writes."""

    def bound(self, draw: Random, now_ms: int, key: bytes, extreme: bytes) -> bytes:
        """A bound of a range: the extreme, a known ID in all its forms, or an unknown ID."""
        chance = draw.random()
        one = self.known_id(draw, key)
        if chance < 0.3 or one is None:
            return extreme if chance < 0.9 else unknown_id(draw, now_ms)
        if chance < 0.6:
            return one
        if chance < 0.75:
            return b"(" + one
        return one[: one.index(b"-")] if chance < 0.95 else unknown_id(draw, now_ms)

    def ranges(self, draw: Random, now_ms: int) -> list[Words]:
        """XRANGE and XREVRANGE."""
        key = self.key(draw)
        low = self.bound(draw, now_ms, key, b"-")
        high = self.bound(draw, now_ms, key, b"+")
        words = (
            (b"XRANGE", key, low, high) if draw.random() < 0.5 else (b"XREVRANGE", key, high, low)
        )
        if draw.random() < 0.6:
            return [(*words, b"COUNT", b"%d" % below(draw, 9))]
        return [words]

    def pending(self, draw: Random, now_ms: int) -> list[Words]:
        """XPENDING in all its forms."""
        key = self.key(draw)
        words = [b"XPENDING", key, group_of(draw)]
        if draw.random() < 0.4:
            return [tuple(words)]
        if draw.random() < 0.3:
            words += (b"IDLE", b"%d" % below(draw, 300))
        words += (
            self.bound(draw, now_ms, key, b"-"),
            self.bound(draw, now_ms, key, b"+"),
            b"%d" % (1 + below(draw, 9)),
        )
        if draw.random() < 0.3:
            words.append(consumer_of(draw))
        return [tuple(words)]

    def information(self, draw: Random, now_ms: int) -> list[Words]:
        """XINFO."""
        key = self.key(draw)
        chance = draw.random()
        if chance < 0.25:
            return [(b"XINFO", b"STREAM", key)]
        if chance < 0.4:
            return [(b"XINFO", b"STREAM", key, b"FULL")]
        if chance < 0.5:
            return [(b"XINFO", b"STREAM", key, b"FULL", b"COUNT", b"%d" % below(draw, 4))]
        if chance < 0.75:
            return [(b"XINFO", b"GROUPS", key)]
        return [(b"XINFO", b"CONSUMERS", key, group_of(draw))]

    def keyspace(self, draw: Random, now_ms: int) -> list[Words]:
        """Commands about keys: length, existence, deadline, listing."""
        key = self.key(draw)
        return [
            pick(
                draw,
                (
                    (b"XLEN", key),
                    (b"EXISTS", *self.two_keys(draw)),
                    (b"TOUCH", key),
                    (b"TYPE", key),
                    (b"TTL", key),
                    (b"PTTL", key),
                    (b"EXPIRETIME", key),
                    (b"PEXPIRETIME", key),
                    (b"KEYS", b"*"),
                    (b"SCAN", b"0", b"COUNT", b"2"),
                    (b"DBSIZE",),
                    (b"RANDOMKEY",),
                    (b"XIDMP", b"CFGGET", key),
                ),
            )
        ]

    def regions_(self, draw: Random, now_ms: int) -> list[Words]:
        """Commands about regions: vector, digest, stable time, explanation, region log, peers."""
        key = self.key(draw)
        chance = draw.random()
        if chance < 0.2:
            return [(b"CRDT.VECTOR",)]
        if chance < 0.4:
            return [(b"CRDT.STABLE",)]
        if chance < 0.5:
            return [(b"CRDT.DIGEST",)]
        if chance < 0.57:
            return [(b"CRDT.DIGEST", key)]
        if chance < 0.61:
            return [(b"CRDT.EXPLAIN", key)]
        if chance < 0.64:
            return [(b"CRDT.HISTORY", key, b"NEWEST", b"%d" % (1 + below(draw, 9)))]
        if chance < 0.65:
            return [(b"CRDT.GROUPS", key)]
        if chance < 0.66:
            origin, after = pick(draw, self.regions), below(draw, 60)
            return [(b"CRDT.EFFECTS", b"%d" % origin, b"%d" % after, b"COUNT", b"9")]
        if chance < 0.75:
            return [(b"CRDT.EXPLAIN", key, self.known_id(draw, key) or unknown_id(draw, now_ms))]
        if chance < 0.79:
            region = b"%d" % pick(draw, self.regions)
            return [(b"CRDT.NODES", key, region, b"0", b"%d" % (1 + below(draw, 300)))]
        if chance < 0.84:
            return [(b"CRDT.HISTORY", key)]
        if chance < 0.9:
            return [
                (
                    b"CRDT.LOG",
                    key,
                    b"%d" % pick(draw, self.regions),
                    b"-",
                    b"+",
                    b"COUNT",
                    b"%d" % (1 + below(draw, LEARNT_IDS_MAX)),
                )
            ]
        if chance < 0.95:
            return [(b"CRDT.PEERS",)]
        return [(b"INFO", b"crdt")]

    def other_types(self, draw: Random, now_ms: int) -> list[Words]:
        """A command of another type, which the region must refuse (S10.8)."""
        return [(pick(draw, OTHER_TYPES), self.key(draw), b"1")]

    acts = (
        (12, ranges),
        (6, pending),
        (6, information),
        (6, keyspace),
        (6, regions_),
        (1, other_types),
    )
