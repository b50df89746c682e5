"""Group consumers: read, hold, acknowledge, claim, fail over, crash, resume (S7, S8)."""

from __future__ import annotations

from random import Random
from typing import Final, Optional

from anabranch.region.engine.replies import Reply
from anabranch.sim.history import Operation, Words
from anabranch.sim.load.arguments import CONSUMERS, GROUPS, unknown_id
from anabranch.sim.load.base import Client, Modes, below, pick
from anabranch.sim.plan import ClientPlan
from anabranch.sim.replies import entries_by_key, entry_ids

Held = tuple[bytes, bytes]
"""(key, entry ID)"""

HELD_MAX: Final = 32
SEEN_MAX: Final = 12


class GroupConsumer(Client):
    """One consumer of one group of one key, or of two.

    It holds an entry from its delivery until an XACK of it is answered. So an entry that was
    acknowledged in another region, or without an answer, is acknowledged again.
    """

    def __init__(self, plan: ClientPlan, regions: tuple[int, ...], modes: Modes) -> None:
        super().__init__(plan, regions, modes)
        traits = Random(plan.draw ^ 3)
        self.group = pick(traits, (GROUPS[0], GROUPS[0], GROUPS[1]))
        self.consumer = CONSUMERS[plan.number % len(CONSUMERS)]
        self.main_key = self.keys[0] if traits.random() < self.fidelity else pick(traits, self.keys)
        # The start of the groups that it creates; `id` stands for a known entry ID.
        self.starts = pick(traits, (b"0", b"0", b"0", b"$", b"id"))
        self.begins_with_create = traits.random() < 0.6
        self.no_ack = pick(traits, (0.0, 0.0, 0.0, 0.2, 1.0))
        self.blocks = pick(traits, (0.0, 0.2, 0.8))
        self.reads_two = pick(traits, (0.0, 0.0, 0.2)) if len(self.keys) > 1 else 0.0
        # Probability that it acknowledges the oldest entries first.
        self.tidy = pick(traits, (0.3, 0.7, 0.95))
        self.held: list[Held] = []
        self.acknowledged: list[Held] = []
        # IDs that XPENDING showed as other consumers'.
        self.seen: list[bytes] = []
        # Where the next XAUTOCLAIM starts.
        self.cursor = b"0-0"
        # Keys in which it must create its group.
        self.missing: list[bytes] = []
        self.forget()
        # Whether it reads its pending entries next; set by a crash.
        self.takes_up = False

    def forget(self) -> None:
        """Starts without memory; it may create its group first, then reads its pending entries."""
        self.held = []
        self.acknowledged = []
        self.seen = []
        self.cursor = b"0-0"
        self.missing = [self.main_key] if self.begins_with_create else []
        self.takes_up = True

    # -- acts

    def intend(self, draw: Random, now_ms: int) -> list[Words]:
        """Creates a missing group; else resumes after a crash, claims, or acts by its mix."""
        if self.missing:
            return self.create(draw, now_ms)
        if self.takes_up:
            self.takes_up = False
            return [self.history(draw, b"0")]
        if self.seen and draw.random() < 0.3:
            return self.claim(draw, now_ms)
        return super().intend(draw, now_ms)

    def create(self, draw: Random, now_ms: int) -> list[Words]:
        """XGROUP CREATE of a missing group."""
        key = self.missing.pop()
        start = self.starts if draw.random() < 0.9 else pick(draw, (b"0", b"$", b"id"))
        if start == b"id":
            start = self.known_id(draw, key) or b"%d" % (now_ms - below(draw, 1000))
        words = [b"XGROUP", b"CREATE", key, self.group, start]
        if draw.random() < 0.9:
            words.append(b"MKSTREAM")
        return [tuple(words)]

    def read(self, draw: Random, now_ms: int) -> list[Words]:
        """XREADGROUP … > of one key or two."""
        words = [b"XREADGROUP", b"GROUP", self.group, self.consumer]
        if draw.random() < 0.8:
            words += (b"COUNT", b"%d" % (1 + below(draw, 5)))
        if draw.random() < self.blocks:
            words += (
                b"BLOCK",
                b"%d" % (1 + below(draw, 60) if draw.random() < 0.95 else self.patience_ms * 2),
            )
        if self.no_ack and draw.random() < self.no_ack:
            words.append(b"NOACK")
        words.append(b"STREAMS")
        if self.reads_two and draw.random() < self.reads_two:
            words += self.two_keys(draw)
            words.append(b">")
        else:
            words.append(self.main_key)
        words.append(b">")
        return [tuple(words)]

    def history(self, draw: Random, above: bytes) -> Words:
        """XREADGROUP with an ID: the consumer's pending entries."""
        words = [b"XREADGROUP", b"GROUP", self.group, self.consumer]
        if draw.random() < 0.4:
            words += (b"COUNT", b"%d" % (1 + below(draw, 5)))
        return (*words, b"STREAMS", self.main_key, above)

    def reread(self, draw: Random, now_ms: int) -> list[Words]:
        """Reads its pending entries again, from the beginning or from one that it holds."""
        one = self.one_held(draw)
        return [self.history(draw, b"0" if one is None or draw.random() < 0.7 else one)]

    def acknowledge(self, draw: Random, now_ms: int) -> list[Words]:
        """XACK of some held entries, mostly the oldest.

        At times of an entry that it acknowledged before, or that it never held.
        """
        chance = draw.random()
        if chance < 0.08 and self.acknowledged:
            key, one = pick(draw, self.acknowledged)
            return [(b"XACK", key, self.group, one)]
        if chance > 0.97:
            return [
                (
                    b"XACK",
                    self.main_key,
                    self.group,
                    self.known_id(draw, self.main_key) or unknown_id(draw, now_ms),
                )
            ]
        if not self.held:
            return self.read(draw, now_ms)
        size = min(1 + below(draw, 4), len(self.held))
        if draw.random() < self.tidy:
            chosen = self.held[:size]
        else:
            first = below(draw, len(self.held))
            chosen = [self.held[(first + 5 * step) % len(self.held)] for step in range(size)]
        key = chosen[0][0]
        ids = [one for held_key, one in chosen if held_key == key]
        if chance < 0.12:
            ids.append(ids[0])
        return [(b"XACK", key, self.group, *ids)]

    def acknowledge_and_read(self, draw: Random, now_ms: int) -> list[Words]:
        """XACK of the last entries and a read of the next, in one pipeline, as workers do."""
        if not self.held:
            return self.read(draw, now_ms)
        return self.acknowledge(draw, now_ms) + self.read(draw, now_ms)

    def alike(self, draw: Random, now_ms: int, size: int) -> list[Words]:
        """One XACK for each held entry, or the same read several times.

        Among the acknowledgements are at times one that comes twice, one that comes too late, and
        one that is no ID.
        """
        held = [one for key, one in self.held if key == self.main_key]
        if len(held) < 2 or draw.random() < 0.3:
            return self.read(draw, now_ms) * size
        ids = sorted(held[:size]) if draw.random() < 0.7 else held[:size]
        for chance, one in ((0.15, pick(draw, ids)), (0.1, self.known_id(draw, self.main_key))):
            if draw.random() < chance and one is not None:
                ids.insert(below(draw, len(ids) + 1), one)
        if draw.random() < 0.1:
            ids.insert(1 + below(draw, len(ids)), b"no-id")
        return [(b"XACK", self.main_key, self.group, one) for one in ids]

    def claim_any(self, draw: Random, now_ms: int) -> list[Words]:
        """XAUTOCLAIM, mostly from where the last one ended."""
        start = (
            self.cursor
            if draw.random() < 0.8
            else pick(draw, (b"0", b"-", self.one_held(draw) or b"0-0"))
        )
        words = [b"XAUTOCLAIM", self.main_key, self.group, self.consumer, self.idle_ms(draw), start]
        if draw.random() < 0.6:
            words += (b"COUNT", b"%d" % (1 + below(draw, 4)))
        if draw.random() < 0.25:
            words.append(b"JUSTID")
        return [tuple(words)]

    def look_pending(self, draw: Random, now_ms: int) -> list[Words]:
        """XPENDING, whose IDs it claims later."""
        words = [b"XPENDING", self.main_key, self.group]
        if draw.random() < 0.3:
            words += (b"IDLE", self.idle_ms(draw))
        return [(*words, b"-", b"+", b"%d" % (1 + below(draw, SEEN_MAX)))]

    def claim(self, draw: Random, now_ms: int) -> list[Words]:
        """XCLAIM of IDs that XPENDING showed, or of a held entry, to keep it.

        With FORCE also of an entry that it acknowledged, or that it only saw in a reply.
        """
        words = [b"XCLAIM", self.main_key, self.group, self.consumer, self.idle_ms(draw)]
        chance = draw.random()
        held = [one for key, one in self.held if key == self.main_key]
        if chance < 0.05 and held:
            return self.begin_again(held[:3])
        force = chance < 0.2
        ids: list[Optional[bytes]] = (
            [pick(draw, self.seen) for _ in range(1 + below(draw, 3))] if self.seen else []
        )
        if not ids:
            ids.append(self.one_held(draw))
        if force:
            known = [one for key, one in self.acknowledged if key == self.main_key]
            ids.append(
                pick(draw, known)
                if known and draw.random() < 0.6
                else self.known_id(draw, self.main_key)
            )
        words += [one for one in ids if one is not None]
        if len(words) == 5:
            return self.look_pending(draw, now_ms)
        return [tuple(words + self.claim_options(draw, now_ms, force))]

    def begin_again(self, held: list[bytes]) -> list[Words]:
        """Deletes its consumer, and claims entries that were pending for it with FORCE (S8.1)."""
        group = (self.main_key, self.group)
        return [
            (b"XGROUP", b"DELCONSUMER", *group, self.consumer),
            (b"XCLAIM", *group, self.consumer, b"0", *held, b"FORCE"),
        ]

    def claim_options(self, draw: Random, now_ms: int, force: bool) -> list[bytes]:
        """XCLAIM's options, each with a low probability."""
        words = [b"FORCE"] if force else []
        chance = draw.random()
        if chance < 0.25:
            words.append(b"JUSTID")
        if 0.15 < chance < 0.3:
            words += (b"IDLE", b"%d" % below(draw, 500))
        elif 0.3 < chance < 0.35:
            words += (b"TIME", b"%d" % (now_ms - below(draw, 500)))
        if 0.3 < chance < 0.4:
            words += (b"RETRYCOUNT", b"%d" % pick(draw, (0, 0, 1, 3)))
        if chance > 0.95:
            words += (b"LASTID", self.known_id(draw, self.main_key) or b"0-1")
        return words

    acts = (
        (6, read),
        (4, acknowledge),
        (2, acknowledge_and_read),
        (1, claim_any),
        (1, look_pending),
        (2, claim),
        (1, reread),
    )

    # -- replies

    def succeeded(self, operation: Operation, reply: Reply) -> None:
        """Holds delivered and claimed entries, and releases acknowledged ones."""
        argv = operation.argv
        name = argv[0]
        if name == b"XREADGROUP":
            for key, entries in entries_by_key(reply):
                self.hold(key, entry_ids(entries, HELD_MAX))
        elif name == b"XACK":
            for one in argv[3:]:
                if (argv[1], one) in self.held:
                    self.held.remove((argv[1], one))
                    self.acknowledged.append((argv[1], one))
            del self.acknowledged[:-SEEN_MAX]
        elif name == b"XCLAIM":
            self.hold(argv[1], entry_ids(reply, HELD_MAX))
            self.seen = []
        elif (
            name == b"XAUTOCLAIM"
            and isinstance(reply, list)
            and len(reply) > 1
            and isinstance(reply[0], bytes)
        ):
            self.cursor = reply[0]
            self.hold(argv[1], entry_ids(reply[1], HELD_MAX))
        elif name == b"XPENDING" and isinstance(reply, list):
            self.seen = [
                row[0]
                for row in reply[:SEEN_MAX]
                if isinstance(row, list) and isinstance(row[0], bytes) and row[1] != self.consumer
            ]
        elif name == b"XGROUP":
            self.seen = []
            self.cursor = b"0-0"

    def failed(self, operation: Operation, message: str) -> None:
        """After a NOGROUP error it creates the group next."""
        if message.startswith("NOGROUP"):
            argv = operation.argv
            if argv[0] == b"XREADGROUP":
                streams = argv.index(b"STREAMS") + 1
                self.missing = list(argv[streams : (streams + len(argv)) // 2])
            else:
                self.missing = [self.main_key]

    def hold(self, key: bytes, ids: list[bytes]) -> None:
        """Holds entries; the oldest beyond HELD_MAX are forgotten."""
        for one in ids:
            if (key, one) not in self.held:
                self.held.append((key, one))
        del self.held[:-HELD_MAX]
        self.know(key, ids[-2:])

    def one_held(self, draw: Random) -> Optional[bytes]:
        """The ID of a held entry of the main key, or None."""
        if not self.held:
            return None
        key, one = pick(draw, self.held)
        return one if key == self.main_key else None

    def idle_ms(self, draw: Random) -> bytes:
        """A min-idle-time in ms: mostly 0, so that claims take entries of working consumers."""
        return b"0" if draw.random() < 0.6 else b"%d" % below(draw, 300)
