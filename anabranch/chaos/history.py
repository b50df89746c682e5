"""What clients saw: each request with its times and its outcome. Judges read nothing else of a run.

Times are seconds since the beginning of the run, on one steady clock. `sent_s` is the time before a
request was sent, `answered_s` the time after its reply or its failure.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

# Outcomes. "unknown": the connection broke or timed out, so the request may have been executed.
OK: Final = "ok"
UNKNOWN: Final = "unknown"
REFUSED: Final = "refused"
# The way of a delivery at the end of the run, when the group is read to its end.
DRAIN: Final = "drain"


@dataclass(slots=True)
class Add:
    """One attempt of XADD. `value` names the entry; the retries of an idempotent add share it."""

    key: str
    value: str
    region: str
    client: str
    is_idempotent: bool
    sent_s: float
    answered_s: float
    outcome: str
    # The ID that the region answered; empty without an answer.
    entry_id: str = ""


@dataclass(slots=True)
class Delivery:
    """One entry that a client received from a group. `way`: "read", "claim" or `DRAIN`."""

    key: str
    region: str
    client: str
    way: str
    sent_s: float
    answered_s: float
    entry_id: str
    value: str
    # Number of the reply that held it, and place in that reply.
    reply: int
    place: int


@dataclass(slots=True)
class Reading:
    """One entry that a client received from XREAD. `reply`: the number of the reply that held it.

    The readings of one client and key are in the order in which the client got them.
    """

    key: str
    region: str
    client: str
    sent_s: float
    answered_s: float
    entry_id: str
    value: str
    reply: int


@dataclass(slots=True)
class Acknowledgement:
    """One entry that a client acknowledged with XACK."""

    key: str
    region: str
    sent_s: float
    answered_s: float
    outcome: str
    entry_id: str


@dataclass(slots=True)
class Removal:
    """One XDEL of one entry. `count`: what the region answered."""

    key: str
    region: str
    sent_s: float
    answered_s: float
    outcome: str
    entry_id: str
    count: int


@dataclass(slots=True)
class Trim:
    """One XTRIM. `threshold`: an ID with MINID, a length with MAXLEN."""

    key: str
    region: str
    way: str
    threshold: str
    sent_s: float
    answered_s: float
    outcome: str
    count: int


@dataclass(slots=True)
class Loss:
    """A region was killed. `since_s`: its disk had taken all commits up to then.

    With everysec, writes that were acknowledged in the second before `since_s`, or later, may be
    gone. `backup_s`: an old backup of that time was put back. All other regions had effects on
    their disks that were acknowledged before `since_s`. Later ones may be gone, and so may be what
    only this region knew since `backup_s`.
    """

    region: str
    since_s: float
    at_s: float
    backup_s: float | None = None


@dataclass
class History:
    """The records of one run. Many threads append to its lists; appending is atomic."""

    began_s: float = field(default_factory=time.monotonic)
    adds: list[Add] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    acknowledgements: list[Acknowledgement] = field(default_factory=list)
    removals: list[Removal] = field(default_factory=list)
    trims: list[Trim] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    # Text of an error → how often a region refused a request with it.
    refusals: Counter[str] = field(default_factory=Counter)

    def now_s(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.began_s

    def lists(self) -> Iterator[tuple[str, list[Any]]]:
        """The names of the lists, with the lists."""
        for name in (
            "adds",
            "deliveries",
            "readings",
            "acknowledgements",
            "removals",
            "trims",
            "losses",
        ):
            yield name, getattr(self, name)

    def write(self, path: Path) -> None:
        """Writes one JSON object per record."""
        with path.open("w", encoding="utf-8") as file:
            for name, records in self.lists():
                for record in records:
                    file.write(json.dumps({"what": name, **asdict(record)}) + "\n")


def id_pair(entry_id: str) -> tuple[int, int]:
    """``5-1`` → (5, 1), which compares as IDs do."""
    ms, _, seq = entry_id.partition("-")
    return int(ms), int(seq or "0")
