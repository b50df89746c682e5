"""Clients that tail streams of one region with XREAD, from the beginning on."""

from __future__ import annotations

from typing import Any, Final

from anabranch.chaos.clients import Client, Workplace
from anabranch.chaos.history import OK, Reading
from anabranch.chaos.producers import JOBS, PLAIN, value_of

TAILED: Final = (PLAIN, JOBS)
COUNT: Final = 100
BLOCK_MS: Final = 200


class Tailer(Client):
    """One reader of one region. It never fails over: each region has IDs that others lack yet."""

    def __init__(self, place: Workplace, name: str, home: str) -> None:
        super().__init__(place, name, home)
        self._last = dict.fromkeys(TAILED, "0-0")

    def act(self) -> None:
        outcome, reply, sent_s, answered_s = self.ask(self.home, self._read)
        if outcome != OK:
            self.pause(0.2)
            return
        number = self.place.next_reply()
        for key, entries in reply or []:
            for entry_id, fields in entries:
                value = value_of(fields)
                self.history.readings.append(
                    Reading(key, self.home, self.name, sent_s, answered_s, entry_id, value, number)
                )
                self._last[key] = entry_id
        self.pause(0.05)

    def _read(self, client: Any) -> Any:
        words = ("XREAD", "COUNT", COUNT, "BLOCK", BLOCK_MS, "STREAMS", *TAILED)
        return client.execute_command(*words, *(self._last[key] for key in TAILED))
