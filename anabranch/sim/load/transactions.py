"""Clients that send MULTI … EXEC (S1.2, S10.7)."""

from __future__ import annotations

from random import Random
from typing import Final

from anabranch.region.engine.replies import Reply
from anabranch.sim.history import Operation, Words
from anabranch.sim.load import administrators
from anabranch.sim.load.arguments import consumer_of, group_of, unknown_id
from anabranch.sim.load.base import Client, Modes, below, pick
from anabranch.sim.plan import ClientPlan

# Commands that the server refuses to queue; EXEC then answers EXECABORT.
WRONG: Final[tuple[Words, ...]] = (
    (b"XADD",),
    (b"XLEN",),
    (b"NOSUCHCOMMAND", b"x"),
    (b"XGROUP", b"NOSUCH", b"k", b"g"),
    (b"CRDT.VECTOR",),
)


class Transactor(Client):
    """Several commands as one unit: adds, trims, acks, deletes, renames, reads.

    At times under WATCH, discarded, or with a wrong command.
    """

    SIZES: Final = (1, 2, 2, 3, 3, 4, 6)

    def __init__(self, plan: ClientPlan, regions: tuple[int, ...], modes: Modes) -> None:
        super().__init__(plan, regions, modes)
        traits = Random(plan.draw ^ 5)
        self.watches = pick(traits, (0.0, 0.3, 0.8))
        self.blunders = pick(traits, (0.0, 0.05, 0.2))
        self.discards = pick(traits, (0.0, 0.05, 0.2))
        # The keys that the connection watches for the next transaction.
        self.watching: Words = ()
        self.items = 0

    def intend(self, draw: Random, now_ms: int) -> list[Words]:
        """A transaction; at times WATCH and a read first, and the transaction in the next step.

        Other clients and merges may then change the watched keys in between. At times it watches
        them once more, which must not hide such a change.
        """
        if self.watching:
            chance = draw.random()
            if 0.1 <= chance < 0.25:
                return [(b"WATCH", *self.watching)]
            self.watching = ()
            return [(b"UNWATCH",)] if chance < 0.1 else self.transaction(draw, now_ms)
        if draw.random() < self.watches:
            if draw.random() < 0.2:
                return [(b"WATCH", self.key(draw)), *self.transaction(draw, now_ms)]
            if draw.random() < 0.3:
                self.watching = tuple(self.two_keys(draw))
                return [(b"WATCH", *self.watching)]
            key = self.key(draw)
            self.watching = (key,)
            return [(b"WATCH", key), self.look(draw, key)]
        return self.transaction(draw, now_ms)

    def alike(self, draw: Random, now_ms: int, size: int) -> list[Words]:
        """Like adds between WATCH and a transaction, which changes of others or its own abort."""
        watched, key = self.key(draw), self.key(draw)
        adds: list[Words] = [
            (b"XADD", key, b"*", b"t", self.token(), b"a", self.value(draw)) for _ in range(size)
        ]
        return [(b"WATCH", watched), *adds, *self.transaction(draw, now_ms)]

    def transaction(self, draw: Random, now_ms: int) -> list[Words]:
        """MULTI, the commands, and EXEC or DISCARD."""
        words: list[Words] = [(b"MULTI",)]
        for _ in range(pick(draw, self.SIZES)):
            words += self.choose(draw)(self, draw, now_ms)
        if draw.random() < self.blunders:
            words.insert(1 + below(draw, len(words)), pick(draw, WRONG))
        words.append((b"DISCARD",) if draw.random() < self.discards else (b"EXEC",))
        return words

    # -- acts that are queued

    def add(self, draw: Random, now_ms: int) -> list[Words]:
        """XADD, at times with trimming."""
        key = self.key(draw)
        trim = (
            self.trims.words(draw, now_ms, self.known_id(draw, key)) if draw.random() < 0.15 else []
        )
        return [(b"XADD", key, *trim, b"*", *self.fields(draw))]

    def add_idempotent(self, draw: Random, now_ms: int) -> list[Words]:
        """XADD under a pair of its own, at times under its last pair again."""
        if draw.random() < 0.7:
            self.items += 1
        pair = (
            (b"IDMP", b"m%d" % (self.number % 2), b"%d" % self.items)
            if draw.random() < 0.7
            else (b"IDMPAUTO", b"m")
        )
        return [(b"XADD", self.key(draw), *pair, b"*", *self.fields(draw))]

    def trim(self, draw: Random, now_ms: int) -> list[Words]:
        """XTRIM."""
        key = self.key(draw)
        return [(b"XTRIM", key, *self.trims.words(draw, now_ms, self.known_id(draw, key)))]

    def delete(self, draw: Random, now_ms: int) -> list[Words]:
        """XDEL of a known entry."""
        key = self.key(draw)
        return [(b"XDEL", key, self.known_id(draw, key) or unknown_id(draw, now_ms))]

    def acknowledge(self, draw: Random, now_ms: int) -> list[Words]:
        """XACK of a known entry, whichever consumer it was delivered to."""
        key = self.key(draw)
        return [
            (b"XACK", key, group_of(draw), self.known_id(draw, key) or unknown_id(draw, now_ms))
        ]

    def deliver(self, draw: Random, now_ms: int) -> list[Words]:
        """XREADGROUP, which never blocks in a transaction."""
        words: Words = (
            b"XREADGROUP",
            b"GROUP",
            group_of(draw),
            consumer_of(draw),
            b"COUNT",
            b"%d" % (1 + below(draw, 3)),
        )
        if draw.random() < 0.2:
            words += (b"BLOCK", b"10")
        if draw.random() < 0.2:
            words += (b"NOACK",)
        return [(*words, b"STREAMS", self.key(draw), b">")]

    def claim(self, draw: Random, now_ms: int) -> list[Words]:
        """XAUTOCLAIM."""
        return [
            (
                b"XAUTOCLAIM",
                self.key(draw),
                group_of(draw),
                consumer_of(draw),
                b"0",
                b"0",
                b"COUNT",
                b"2",
            )
        ]

    def read(self, draw: Random, now_ms: int) -> list[Words]:
        """A command that shows entries, length or groups."""
        key = self.key(draw)
        return [pick(draw, ((b"XLEN", key), self.look(draw, key), (b"XINFO", b"GROUPS", key)))]

    acts = (
        (8, add),
        (2, add_idempotent),
        (2, trim),
        (2, delete),
        (2, acknowledge),
        (2, deliver),
        (1, claim),
        (2, read),
        (1, administrators.delete),
        (1, administrators.create_group),
        (1, administrators.destroy_group),
        (1, administrators.rename),
        (1, administrators.expire),
        (1, administrators.persist),
        (1, administrators.set_last_id),
        (1, administrators.set_group),
        (1, administrators.configure_pairs),
    )

    # -- replies

    def succeeded(self, operation: Operation, reply: Reply) -> None:
        """Learns the entry IDs of each reply of EXEC."""
        if operation.queued:
            if isinstance(reply, list):
                for argv, one in zip(operation.queued, reply, strict=False):
                    self.learn(argv, one)
        else:
            self.learn(operation.argv, reply)

    def disconnected(self) -> None:
        """The WATCHes of the connection are void."""
        self.watching = ()

    def forget(self) -> None:
        """Numbers its items from the start; new entries then come under former pairs."""
        self.items = 0
