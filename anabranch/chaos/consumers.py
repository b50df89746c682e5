"""Clients of a group: they read, acknowledge, crash, claim what others left, and fail over."""

from __future__ import annotations

from typing import Any, Final

from anabranch.chaos.clients import Client, Workplace
from anabranch.chaos.history import OK, REFUSED, UNKNOWN, Acknowledgement, Delivery
from anabranch.chaos.producers import JOBS, value_of

GROUP: Final = "workers"
COUNT: Final = 20
BLOCK_MS: Final = 200
# An entry that was delivered for so long without an acknowledgement is claimed by others.
IDLE_MS: Final = 1500
CRASHES: Final = 0.03
CLAIMS: Final = 0.2
FORGETS: Final = 0.1
DOWN_S: Final = 1.0


class Consumer(Client):
    """One consumer of the group, in one region at a time."""

    def __init__(self, place: Workplace, name: str, home: str) -> None:
        super().__init__(place, name, home)
        self._mean_s = 0.05

    def act(self) -> None:
        claims = self.random.random() < CLAIMS
        region = self.region
        outcome, reply, sent_s, answered_s = self.ask(region, self._claim if claims else self._read)
        if outcome != OK:
            self.fail_over()
            return
        way = "claim" if claims else "read"
        got = entries_of_claim(reply) if claims else entries_of_read(reply)
        found = note_deliveries(self.place, region, self.name, way, sent_s, answered_s, got)
        if self.random.random() < CRASHES:
            self.hang_up(region)
            if self.random.random() < 0.5:
                self.fail_over()
            self.place.stop.wait(DOWN_S * self.random.random())
            return
        self._acknowledge(region, [one for one in found if self.random.random() >= FORGETS])
        self.pause(self._mean_s)

    def _read(self, client: Any) -> Any:
        words = ("XREADGROUP", "GROUP", GROUP, self.name, "COUNT", COUNT, "BLOCK", BLOCK_MS)
        return client.execute_command(*words, "STREAMS", JOBS, ">")

    def _claim(self, client: Any) -> Any:
        words = ("XAUTOCLAIM", JOBS, GROUP, self.name, IDLE_MS, "0-0", "COUNT", COUNT)
        return client.execute_command(*words)

    def _acknowledge(self, region: str, ids: list[str]) -> None:
        if not ids:
            return
        outcome, reply, sent_s, answered_s = self.ask(
            region, lambda client: client.execute_command("XACK", JOBS, GROUP, *ids)
        )
        # Fewer than asked: another consumer was faster with some of them, and we do not know which.
        if outcome == OK and reply != len(ids):
            outcome = UNKNOWN
        for entry_id in ids:
            self.history.acknowledgements.append(
                Acknowledgement(JOBS, region, sent_s, answered_s, outcome, entry_id)
            )
        if outcome == REFUSED:
            self.fail_over()


def entries_of_read(reply: Any) -> list[tuple[str, Any]]:
    """The entries of an XREADGROUP, in RESP2; none if nothing came in time."""
    return [entry for _, entries in reply or [] for entry in entries]


def entries_of_claim(reply: Any) -> list[tuple[str, Any]]:
    """The entries of an XAUTOCLAIM."""
    return list(reply[1])


def note_deliveries(
    place: Workplace,
    region: str,
    client: str,
    way: str,
    sent_s: float,
    answered_s: float,
    entries: list[tuple[str, Any]],
) -> list[str]:
    """Writes the entries of one reply into the history; returns their IDs."""
    number = place.next_reply()
    for at, (entry_id, fields) in enumerate(entries):
        value = value_of(fields)
        place.history.deliveries.append(
            Delivery(JOBS, region, client, way, sent_s, answered_s, entry_id, value, number, at)
        )
    return [entry_id for entry_id, _ in entries]
