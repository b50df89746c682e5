"""Producers: plain ones, and producers that retry under an idempotency pair (S4, S9)."""

from __future__ import annotations

from random import Random
from typing import Final

from anabranch.region.engine.replies import Reply
from anabranch.sim.history import Operation, Words
from anabranch.sim.load.base import TROUBLES, Client, Modes, below, pick
from anabranch.sim.plan import ClientPlan

# Full IDs made by producers are rounded up to multiples of this, so that producers in several
# regions make equal IDs.
ROUNDED_MS: Final = 20
# A mirror numbers the events of its feed anew in each period of this length.
MIRRORED_MS: Final = 250
MAX_HALF: Final = (1 << 64) - 1


# -- plain


def made_id(draw: Random, mode: str, now_ms: int) -> bytes:
    """An ID for XADD other than `*`; mostly one that `mode` accepts."""
    chance = draw.random()
    if chance < 0.02:
        return pick(
            draw,
            (
                b"0-0",
                b"0-1",
                b"%d-1" % (now_ms - 500),
                b"%d" % (now_ms - 500),
                b"0-*",
                b"%d-*" % (now_ms - 500),
            ),
        )
    if chance < 0.024:
        # After such an ID the ms of IDs stays ahead of the clock.
        return pick(draw, (b"%d" % (now_ms + 100_000), b"%d-*" % (now_ms + 100_000)))
    if chance < 0.025:
        # The ID space is exhausted afterwards.
        return pick(draw, (b"%d-*" % MAX_HALF, b"%d-%d" % (MAX_HALF, MAX_HALF)))
    ms = now_ms + -now_ms % ROUNDED_MS if chance < 0.7 else now_ms + below(draw, 3)
    if mode == "strict" and draw.random() < 0.97:
        return b"%d" % ms if chance < 0.4 else b"%d-*" % ms
    if chance < 0.2:
        return b"%d" % ms
    if chance < 0.4:
        return b"%d-*" % ms
    return b"%d-%d" % (ms, below(draw, 4))


# So many adds in one pipeline are alike.
RUN_ADDS: Final = 5


class PlainProducer(Client):
    """XADD with every kind of ID, at times with trimming, at times several in one pipeline.

    It does not retry: an add without an answer is forgotten.
    """

    def __init__(self, plan: ClientPlan, regions: tuple[int, ...], modes: Modes) -> None:
        super().__init__(plan, regions, modes)
        traits = Random(plan.draw ^ 1)
        # Probabilities that it makes the ID itself, and that it trims.
        self.makes_ids = pick(traits, (0.0, 0.0, 0.3, 0.9))
        self.trims_often = pick(traits, (0.0, 0.1, 0.5))
        # A mirror publishes a feed that other mirrors publish under the same IDs in their regions;
        # so two entries may bear one ID (S1).
        self.is_mirror = plan.draw % 8 == 0
        self.period = 0
        self.position = 0

    def an_add(self, draw: Random, now_ms: int, key: bytes) -> Words:
        """One XADD."""
        words = [b"XADD", key]
        chance = draw.random()
        if chance < 0.03:
            words.append(b"NOMKSTREAM")
        if draw.random() < self.trims_often:
            words += self.trims.words(draw, now_ms, self.known_id(draw, key))
        mode = self.modes(self.region)
        if self.is_mirror and mode != "strict":
            words.append(self.mirrored_id(now_ms))
        else:
            words.append(made_id(draw, mode, now_ms) if draw.random() < self.makes_ids else b"*")
        words += self.fields(draw)
        return tuple(words)

    def mirrored_id(self, now_ms: int) -> bytes:
        """The ID of the feed's next event."""
        period = now_ms // MIRRORED_MS
        self.position = self.position + 1 if period == self.period else 0
        self.period = period
        return b"%d-%d" % (period * MIRRORED_MS, self.position)

    def add(self, draw: Random, now_ms: int) -> list[Words]:
        """One entry."""
        return [self.an_add(draw, now_ms, self.key(draw))]

    def add_some(self, draw: Random, now_ms: int) -> list[Words]:
        """Several entries in one pipeline, of one key or several, at times a run of like ones."""
        key = self.key(draw)
        stays = draw.random() < 0.8
        adds = [
            self.an_add(draw, now_ms, key if stays else self.key(draw))
            for _ in range(2 + below(draw, 4))
        ]
        first = adds[0]
        if len(adds) != RUN_ADDS or b"*" not in first:
            return adds
        token_at = first.index(b"*") + 2
        more = [(*first[:token_at], self.token(), *first[token_at + 1 :]) for _ in adds[1:]]
        return [first, *more]

    def alike(self, draw: Random, now_ms: int, size: int) -> list[Words]:
        """Entries with the same field names, of one key or of several."""
        first = self.an_add(draw, now_ms, self.key(draw))
        if b"*" not in first:
            first = (b"XADD", first[1], b"*", b"t", self.token(), *first[-2:])
        stays = draw.random() < 0.6
        adds = [first]
        for _ in range(size):
            add = with_values(self, draw, first)
            adds.append(add if stays else (add[0], self.key(draw), *add[2:]))
        return adds

    acts = ((8, add), (1, add_some))


def with_values(client: Client, draw: Random, add: Words) -> Words:
    """An XADD like this one, with another token, and at times with other values."""
    token_at = add.index(b"*") + 2
    values = [
        client.value(draw) if place % 2 == 0 and draw.random() < 0.3 else word
        for place, word in enumerate(add[token_at + 1 :], 1)
    ]
    return (*add[:token_at], client.token(), *values)


# -- idempotent


class IdempotentProducer(Client):
    """XADD … IDMP | IDMPAUTO: sends unacknowledged items again, here or in another region.

    Producers whose `draw` is even share one pid, those with an odd `draw` another. Even ones work
    through one sequence of items; odd ones make items by the clock, one for each period. So two
    producers of one pid send one pair at nearly the same time, possibly in two regions.
    """

    UNACKNOWLEDGED_MAX: Final = 6
    DONE_MAX: Final = 4
    TRIES_MAX: Final = 12
    PERIOD_MS: Final = 250
    # A crash takes the sequence back to the last multiple of this, the last position that the
    # source of the items remembers.
    SOURCE_REMEMBERS: Final = 4

    def __init__(self, plan: ClientPlan, regions: tuple[int, ...], modes: Modes) -> None:
        super().__init__(plan, regions, modes)
        traits = Random(plan.draw ^ 2)
        self.by_clock = plan.draw % 2 == 1
        self.pid = b"p%d" % (plan.draw % 2)
        # Probabilities: to use IDMPAUTO, to repeat an acknowledged item, to repeat an item in
        # another region.
        self.automatic = pick(traits, (0.0, 0.5, 1.0))
        self.repeats = pick(traits, (0.05, 0.2, 0.5))
        self.wanders = pick(traits, (0.0, 0.3, 0.8))
        self.trims_often = pick(traits, (0.0, 0.0, 0.3))
        self.position = 0
        self.period = 0
        self.unacknowledged: list[Words] = []
        self.tries: list[int] = []
        self.done: list[Words] = []

    def intend(self, draw: Random, now_ms: int) -> list[Words]:
        """A repeated item, or a new one."""
        chance = draw.random()
        if self.unacknowledged and (
            chance < 0.75 or len(self.unacknowledged) >= self.UNACKNOWLEDGED_MAX
        ):
            return self.again(draw, below(draw, len(self.unacknowledged)))
        if self.done and chance < self.repeats:
            if draw.random() < self.wanders:
                self.move(draw)
            return [pick(draw, self.done)]
        period = now_ms // self.PERIOD_MS
        if self.by_clock and period == self.period and self.unacknowledged:
            return self.again(draw, len(self.unacknowledged) - 1)
        return self.new_item(draw, now_ms, period)

    def again(self, draw: Random, index: int) -> list[Words]:
        """Sends an unacknowledged item once more with the same words.

        The item is given up after TRIES_MAX tries.
        """
        words = self.unacknowledged[index]
        self.tries[index] += 1
        if self.tries[index] > self.TRIES_MAX:
            self.drop(index)
        if draw.random() < self.wanders:
            self.move(draw)
        return [words]

    def new_item(self, draw: Random, now_ms: int, period: int) -> list[Words]:
        """A new item.

        Its iid is its place in the sequence (even `draw`), or its period and its number therein.
        """
        key = self.key(draw)
        words = [b"XADD", key]
        if draw.random() < 0.03:
            words.append(b"NOMKSTREAM")
        if draw.random() < self.trims_often:
            words += self.trims.words(draw, now_ms, self.known_id(draw, key))
        if draw.random() < self.automatic:
            words += (b"IDMPAUTO", self.pid)
        else:
            if self.by_clock:
                self.position = self.position + 1 if period == self.period else 0
                self.period = period
                iid = b"%d.%d" % (period % 1000, self.position)
            else:
                self.position += 1
                iid = b"%d" % self.position
            words += (b"IDMP", self.pid, iid)
        words.append(b"*")
        words += self.fields(draw)
        self.unacknowledged.append(tuple(words))
        self.tries.append(1)
        return [self.unacknowledged[-1]]

    def alike(self, draw: Random, now_ms: int, size: int) -> list[Words]:
        """New items with the same field names, at times with one that comes twice, or a retry.

        One of those after the first is sent again by itself until it is acknowledged.
        """
        (first,) = self.new_item(draw, now_ms, now_ms // self.PERIOD_MS)
        items = [first]
        iid_at = first.index(b"IDMP") + 2 if b"IDMP" in first else 0
        for _ in range(size):
            item = list(with_values(self, draw, first))
            if iid_at:
                self.position += 1
                item[iid_at] = first[iid_at] + b".%d" % self.position
            items.append(tuple(item))
        self.unacknowledged.append(items[1 + below(draw, size)])
        self.tries.append(1)
        if draw.random() < 0.2:
            items.insert(below(draw, len(items)), pick(draw, items))
        if draw.random() < 0.2 and self.done:
            items.insert(below(draw, len(items)), pick(draw, self.done))
        return items

    def drop(self, index: int) -> None:
        """Forgets an unacknowledged item."""
        del self.unacknowledged[index]
        del self.tries[index]

    def succeeded(self, operation: Operation, reply: Reply) -> None:
        """The item is done; with NOMKSTREAM and a nil reply it was not added."""
        self.learn(operation.argv, reply)
        if operation.argv in self.unacknowledged:
            self.drop(self.unacknowledged.index(operation.argv))
            if reply is not None:
                self.done.append(operation.argv)
                del self.done[: -self.DONE_MAX]

    def failed(self, operation: Operation, message: str) -> None:
        """Forgets an item that the region would never accept; keeps it after a passing trouble."""
        if not message.startswith(TROUBLES) and operation.argv in self.unacknowledged:
            self.drop(self.unacknowledged.index(operation.argv))

    def forget(self) -> None:
        """Forgets all items; the source then yields its last items again.

        They become new entries under the former pairs.
        """
        self.unacknowledged = []
        self.tries = []
        self.done = []
        self.position -= self.position % self.SOURCE_REMEMBERS


class TwinProducer(IdempotentProducer):
    """An idempotent producer that sends items to a second region before the first has answered.

    So conflicts (S9.2) are frequent.
    """

    def __init__(self, plan: ClientPlan, regions: tuple[int, ...], modes: Modes) -> None:
        super().__init__(plan, regions, modes)
        self.owed: list[Words] = []

    def intend(self, draw: Random, now_ms: int) -> list[Words]:
        """The last commands again, to another region; otherwise as the base class."""
        if self.owed:
            self.move(draw)
            return [self.owed.pop()]
        sent = super().intend(draw, now_ms)
        if draw.random() < 0.6:
            self.owed = list(sent)
        return sent

    def forget(self) -> None:
        """Forgets the commands that it was about to repeat."""
        super().forget()
        self.owed = []
