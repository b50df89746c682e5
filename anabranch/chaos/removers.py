"""Clients that remove single entries, and clients that trim."""

from __future__ import annotations

from typing import Any, Final

from anabranch.chaos.clients import Client, Workplace
from anabranch.chaos.history import OK, UNKNOWN, Removal, Trim
from anabranch.chaos.producers import REMOVED, TRIMMED_BY_ID, TRIMMED_BY_LENGTH

# The newest entries among which one is chosen to be removed.
NEWEST: Final = 40
LENGTH_MAX: Final = 200
KEPT_BY_ID: Final = 100


class Remover(Client):
    """Removes entries that it sees, one by one."""

    def __init__(self, place: Workplace, name: str, home: str, rate: float) -> None:
        super().__init__(place, name, home)
        self._mean_s = 1 / rate

    def act(self) -> None:
        region = self.region
        outcome, entries, _, _ = self.ask(region, lambda client: newest(client, REMOVED, NEWEST))
        if outcome != OK:
            self.fail_over()
        elif entries:
            entry_id = self.random.choice(entries)
            outcome, count, sent_s, answered_s = self.ask(
                region, lambda client: client.execute_command("XDEL", REMOVED, entry_id)
            )
            removed = int(count or 0)
            self.history.removals.append(
                Removal(REMOVED, region, sent_s, answered_s, outcome, entry_id, removed)
            )
            if outcome == UNKNOWN:
                self.fail_over()
        self.pause(self._mean_s)


class Trimmer(Client):
    """Trims one stream by ID and one by length."""

    def __init__(self, place: Workplace, name: str, home: str, rate: float) -> None:
        super().__init__(place, name, home)
        self._mean_s = 1 / rate

    def act(self) -> None:
        region = self.region
        if self.random.random() < 0.5:
            self._trim(region, TRIMMED_BY_LENGTH, "MAXLEN", str(LENGTH_MAX))
        else:
            outcome, entries, _, _ = self.ask(
                region, lambda client: newest(client, TRIMMED_BY_ID, KEPT_BY_ID)
            )
            if outcome != OK:
                self.fail_over()
            elif entries:
                self._trim(region, TRIMMED_BY_ID, "MINID", entries[-1])
        self.pause(self._mean_s)

    def _trim(self, region: str, key: str, way: str, threshold: str) -> None:
        outcome, count, sent_s, answered_s = self.ask(
            region, lambda client: client.execute_command("XTRIM", key, way, "=", threshold)
        )
        removed = int(count or 0)
        self.history.trims.append(
            Trim(key, region, way, threshold, sent_s, answered_s, outcome, removed)
        )
        if outcome == UNKNOWN:
            self.fail_over()


def newest(client: Any, key: str, count: int) -> list[str]:
    """The IDs of the newest entries of a stream, newest first."""
    reply = client.execute_command("XREVRANGE", key, "+", "-", "COUNT", count)
    return [str(entry_id) for entry_id, _ in reply]
