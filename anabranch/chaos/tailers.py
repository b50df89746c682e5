"""Clients that tail streams of one region with XREAD, from the beginning on."""

from __future__ import annotations

from typing import Any, Final

from anabranch.chaos.clients import Client, Workplace
from anabranch.chaos.history import OK, Reading
from anabranch.chaos.producers import FIELD, JOBS, PLAIN

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
        for key, entries in streams_of(reply):
            for entry_id, fields in entries:
                value = str((fields or {}).get(FIELD, ""))
                self.history.readings.append(
                    Reading(key, self.home, self.name, sent_s, answered_s, entry_id, value, number)
                )
                self._last[key] = entry_id
        self.pause(0.05)

    def _read(self, client: Any) -> Any:
        words = ("XREAD", "COUNT", COUNT, "BLOCK", BLOCK_MS, "STREAMS", *TAILED)
        return client.execute_command(*words, *(self._last[key] for key in TAILED))


def streams_of(reply: Any) -> list[tuple[str, list[tuple[str, Any]]]]:
    """The streams of an XREAD with their entries, in RESP2; none if nothing came in time."""
    return [
        (str(key), [(str(entry_id), fields) for entry_id, fields in entries])
        for key, entries in reply or []
    ]
