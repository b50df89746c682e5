"""Clients that add: plain adds, which are never repeated, and idempotent ones, which are."""

from __future__ import annotations

import heapq
import random
from functools import lru_cache
from typing import Any, Final

from anabranch.chaos.clients import Client, Workplace
from anabranch.chaos.history import OK, REFUSED, Add

# The streams of a run. Only plain adds go into all but `IDEMPOTENT`.
PLAIN: Final = "plain"
IDEMPOTENT: Final = "idempotent"
JOBS: Final = "jobs"
REMOVED: Final = "removed"
TRIMMED_BY_ID: Final = "minid"
TRIMMED_BY_LENGTH: Final = "maxlen"
KEYS: Final = (PLAIN, IDEMPOTENT, JOBS, REMOVED, TRIMMED_BY_ID, TRIMMED_BY_LENGTH)
_PLAIN_KEYS: Final = (PLAIN, JOBS, JOBS, REMOVED, TRIMMED_BY_ID, TRIMMED_BY_LENGTH)
FIELD: Final = "v"
_NAMES: Final = ("a", "Long-Name", "n\xfcr €", "with space", "")
_TEXTS: Final = (
    "",
    "0",
    "two words",
    " line\r\nline\n",
    "ü€𝄞",
    "no UTF-8: \udcff\udc80",
    "x" * 300,
)
# How many adds a producer sends at once.
_AT_ONCE: Final = (1, 1, 1, 1, 1, 1, 1, 1, 1, 16)
# The share of idempotent adds that are repeated although they were answered, and how late.
REPEATED: Final = 0.3
REPEAT_S_MAX: Final = 15.0
# They are repeated before so large a share of the pairs that a region keeps is newer.
_SHARE_OF_PAIRS: Final = 0.4
_WAITING_MAX: Final = 1000


@lru_cache(maxsize=100_000)
def fields_of(value: str) -> dict[str, str]:
    """The fields of the entry with that value: `FIELD`, and up to five others that it decides."""
    chance = random.Random(value)
    names = chance.sample(_NAMES, chance.randrange(len(_NAMES) + 1))
    return {FIELD: value, **{name: chance.choice(_TEXTS) for name in names}}


def value_of(fields: Any) -> str:
    """The value of an entry; a text that no entry has if its fields are not those that it had.

    The fields of a removed entry, which groups may still know, are None: that is "".
    """
    found = dict(fields or {})
    value = str(found.get(FIELD, ""))
    if not found or list(found.items()) == list(fields_of(value).items()):
        return value
    return f"{value} as {found!r}"


def request(key: str, value: str, *options: str) -> list[bytes]:
    """An XADD of that value."""
    fields = [word for pair in fields_of(value).items() for word in pair]
    words = ["XADD", key, *options, "*", *fields]
    return [word.encode("utf-8", "surrogateescape") for word in words]


class _Adder(Client):
    """What both kinds of producers share. `rate`: adds per second."""

    def __init__(self, place: Workplace, name: str, home: str, rate: float) -> None:
        super().__init__(place, name, home)
        self._mean_s = 1 / rate
        self._number = 0

    def _next_value(self) -> str:
        self._number += 1
        return f"{self.name}:{self._number}"

    def _entry_id(self, region: str, outcome: str, reply: object) -> str:
        """The ID that a region answered; the breaker hears of it at once."""
        if outcome != OK:
            return ""
        self.place.acknowledged[region].set()
        return str(reply)


class Producer(_Adder):
    """Adds entries with different values to several streams, at times many at once."""

    def act(self) -> None:
        region = self.region
        count = self.random.choice(_AT_ONCE)
        adds = [(self.random.choice(_PLAIN_KEYS), self._next_value()) for _ in range(count)]
        came, replies, sent_s, answered_s = self.ask(region, lambda client: _sent(client, adds))
        outcomes = set()
        for (key, value), reply in zip(adds, replies or [None] * count, strict=True):
            outcome = self.refused(reply) if isinstance(reply, Exception) else came
            outcomes.add(outcome)
            entry_id = self._entry_id(region, outcome, reply)
            self.history.adds.append(
                Add(key, value, region, self.name, False, sent_s, answered_s, outcome, entry_id)
            )
        if outcomes != {OK}:
            self.fail_over()
        self.pause(self._mean_s * count)


def _sent(client: Any, adds: list[tuple[str, str]]) -> list[Any]:
    """The replies to adds that are sent together; an error that refuses one is an exception."""
    pipeline = client.pipeline(transaction=False)
    for key, value in adds:
        pipeline.execute_command(*request(key, value))
    return list(pipeline.execute(raise_on_error=False))


class IdempotentProducer(_Adder):
    """Adds with IDMP, and repeats each add in other regions until one has answered.

    Some adds are repeated although they were answered, as by a client that lost the answer.
    `pairs_max`: how many adds of one producer a region recognises.
    """

    def __init__(self, place: Workplace, name: str, home: str, rate: float, pairs_max: int) -> None:
        super().__init__(place, name, home, rate)
        self._repeat_s_max = min(REPEAT_S_MAX, _SHARE_OF_PAIRS * pairs_max * self._mean_s)
        # (due time, value) of the adds to repeat.
        self._waiting: list[tuple[float, str]] = []

    def act(self) -> None:
        if self._waiting and self._waiting[0][0] <= self.history.now_s():
            _, value = heapq.heappop(self._waiting)
            others = [name for name in self.place.ports if name != self.region]
            self._add(self.random.choice(others), value)
        else:
            self._add(self.region, self._next_value())
        self.pause(self._mean_s)

    def _add(self, region: str, value: str) -> None:
        words = request(IDEMPOTENT, value, "IDMP", self.name, value)
        outcome, reply, sent_s, answered_s = self.ask(
            region, lambda client: client.execute_command(*words)
        )
        entry_id = self._entry_id(region, outcome, reply)
        self.history.adds.append(
            Add(IDEMPOTENT, value, region, self.name, True, sent_s, answered_s, outcome, entry_id)
        )
        if outcome != OK:
            if region == self.region:
                self.fail_over()
            if outcome != REFUSED or self.random.random() < 0.5:
                self._repeat(value, 0.0)
        elif self.random.random() < REPEATED:
            self._repeat(value, self.random.random() * self._repeat_s_max)

    def _repeat(self, value: str, in_s: float) -> None:
        if len(self._waiting) < _WAITING_MAX:
            heapq.heappush(self._waiting, (self.history.now_s() + in_s, value))
