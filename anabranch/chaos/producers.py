"""Clients that add: plain adds, which are never repeated, and idempotent ones, which are."""

from __future__ import annotations

import heapq
from typing import Final

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
# The share of idempotent adds that are repeated although they were answered, and how late.
REPEATED: Final = 0.3
REPEAT_S_MAX: Final = 15.0
_WAITING_MAX: Final = 1000


class _Adder(Client):
    """What both kinds of producers share. `rate`: adds per second."""

    def __init__(self, place: Workplace, name: str, home: str, rate: float) -> None:
        super().__init__(place, name, home)
        self._mean_s = 1 / rate
        self._number = 0

    def _entry_id(self, region: str, outcome: str, reply: object) -> str:
        """The ID that a region answered; the breaker hears of it at once."""
        if outcome != OK:
            return ""
        self.place.acknowledged[region].set()
        return str(reply)


class Producer(_Adder):
    """Adds entries with different values to several streams."""

    def act(self) -> None:
        self._number += 1
        key = self.random.choice(_PLAIN_KEYS)
        value = f"{self.name}:{self._number}"
        region = self.region
        outcome, reply, sent_s, answered_s = self.ask(
            region, lambda client: client.execute_command("XADD", key, "*", FIELD, value)
        )
        entry_id = self._entry_id(region, outcome, reply)
        add = Add(key, value, region, self.name, False, sent_s, answered_s, outcome, entry_id)
        self.history.adds.append(add)
        if outcome != OK:
            self.fail_over()
        self.pause(self._mean_s)


class IdempotentProducer(_Adder):
    """Adds with IDMP, and repeats each add in other regions until one has answered.

    Some adds are repeated although they were answered, as by a client that lost the answer.
    """

    def __init__(self, place: Workplace, name: str, home: str, rate: float) -> None:
        super().__init__(place, name, home, rate)
        # (due time, value) of the adds to repeat.
        self._waiting: list[tuple[float, str]] = []

    def act(self) -> None:
        if self._waiting and self._waiting[0][0] <= self.history.now_s():
            _, value = heapq.heappop(self._waiting)
            others = [name for name in self.place.ports if name != self.region]
            self._add(self.random.choice(others), value)
        else:
            self._number += 1
            self._add(self.region, f"{self.name}:{self._number}")
        self.pause(self._mean_s)

    def _add(self, region: str, value: str) -> None:
        words = ("XADD", IDEMPOTENT, "IDMP", self.name, value, "*", FIELD, value)
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
            self._repeat(value, self.random.random() * REPEAT_S_MAX)

    def _repeat(self, value: str, in_s: float) -> None:
        if len(self._waiting) < _WAITING_MAX:
            heapq.heappush(self._waiting, (self.history.now_s() + in_s, value))
