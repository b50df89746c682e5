"""Histories and final states without any region: a sound run, to be spoilt by tests."""

from __future__ import annotations

from anabranch.chaos.final_state import FinalState, RegionState
from anabranch.chaos.history import (
    OK,
    Acknowledgement,
    Add,
    Delivery,
    History,
    Loss,
    Reading,
    Removal,
    Trim,
)
from anabranch.chaos.judges import Case, judge


class Run:
    """A sound run of us and eu, in which every entry is in `streams` of both."""

    def __init__(self, is_always: bool = True) -> None:
        self.is_always = is_always
        self.history = History()
        self.streams: dict[str, list[tuple[str, str]]] = {}
        # region → the streams in which it differs from the others.
        self.own: dict[str, dict[str, list[tuple[str, str]]]] = {}
        self.info: dict[str, str] = {"crdt_gaps": "0"}
        self.level_s: float | None = 1.0
        self.vectors = {"us": {1: 9, 2: 9}, "eu": {1: 9, 2: 9}}
        self.digests = {"us": "d", "eu": "d"}
        self.deaths: list[str] = []
        self.bad_lines: list[str] = []
        self.errors: list[str] = []
        self.restores = self.recoveries = 0
        self._reply = 0

    def add(
        self,
        key: str,
        entry_id: str,
        value: str,
        at_s: float,
        region: str = "us",
        outcome: str = OK,
        stays: bool = True,
        is_idempotent: bool = False,
    ) -> None:
        """An attempt to add, answered half a second later; the entry is in the streams."""
        said = entry_id if outcome == OK else ""
        self.history.adds.append(
            Add(key, value, region, "p", is_idempotent, at_s, at_s + 0.5, outcome, said)
        )
        if stays:
            self.streams.setdefault(key, []).append((entry_id, value))

    def deliver(
        self,
        entry_id: str,
        at_s: float,
        region: str = "us",
        key: str = "jobs",
        reply: int = 0,
        value: str = "",
    ) -> None:
        """A delivery in a reply of its own, or in the given one."""
        self._reply += 1
        place = sum(one.reply == reply for one in self.history.deliveries) if reply else 0
        number = reply or 1000 + self._reply
        self.history.deliveries.append(
            Delivery(key, region, "c", "read", at_s, at_s + 0.1, entry_id, value, number, place)
        )

    def read(self, entry_id: str, value: str, at_s: float, key: str = "plain") -> None:
        """An entry that the reader in us received."""
        self._reply += 1
        self.history.readings.append(
            Reading(key, "us", "tailer-us", at_s, at_s + 0.1, entry_id, value, self._reply)
        )

    def acknowledge(
        self, entry_id: str, at_s: float, region: str = "us", outcome: str = OK
    ) -> None:
        self.history.acknowledgements.append(
            Acknowledgement("jobs", region, at_s, at_s + 0.1, outcome, entry_id)
        )

    def remove(
        self, key: str, entry_id: str, at_s: float, count: int = 1, outcome: str = OK
    ) -> None:
        self.history.removals.append(Removal(key, "us", at_s, at_s + 0.1, outcome, entry_id, count))

    def trim(self, key: str, way: str, threshold: str, at_s: float, outcome: str = OK) -> None:
        self.history.trims.append(Trim(key, "us", way, threshold, at_s, at_s + 0.1, outcome, 1))

    def kill(
        self, region: str, at_s: float, since_s: float | None = None, backup_s: float | None = None
    ) -> None:
        """A kill; the disk took commits up to `since_s`, or up to the kill. See `Loss`."""
        since_s = at_s if since_s is None else since_s
        self.history.losses.append(Loss(region, since_s, at_s, backup_s))

    def case(self) -> Case:
        """The run as judges see it."""
        regions = [
            RegionState(
                name,
                {**self.streams, **self.own.get(name, {})},
                self.digests[name],
                self.vectors[name],
                self.info,
                self.bad_lines,
                restores=self.restores,
                recoveries=self.recoveries,
                errors=self.errors,
                deaths=self.deaths,
            )
            for name in ("us", "eu")
        ]
        return Case(
            self.history, FinalState(regions, self.level_s, 60.0, "eu lags"), self.is_always
        )

    def found(self) -> dict[str, list[str]]:
        """The violations by judge, of the judges that found any."""
        return {name: lines for name, lines in judge(self.case()).items() if lines}


def sound(is_always: bool = True) -> Run:
    """A run in which everything happens and nothing goes wrong."""
    run = Run(is_always)
    run.add("plain", "10-1", "a", 1.0)
    run.add("plain", "11-2", "b", 1.0, region="eu")
    run.add("plain", "20-1", "c", 2.0, outcome="unknown")
    run.add("plain", "", "d", 3.0, outcome="refused", stays=False)
    run.add("plain", "", "e", 3.5, outcome="unknown", stays=False)
    # Both attempts of one idempotent add were answered, and the lower ID has won.
    run.add("idempotent", "31-2", "i", 3.0, region="eu", stays=False, is_idempotent=True)
    run.add("idempotent", "30-1", "i", 4.0, is_idempotent=True)
    run.add("jobs", "40-1", "j", 4.0)
    run.add("jobs", "41-1", "k", 5.0)
    for region in ("us", "eu"):
        run.deliver("40-1", 6.0, region)
    run.deliver("41-1", 6.0)
    run.acknowledge("41-1", 7.0)
    # Delivered before the acknowledgement was answered, and in another region after it.
    run.deliver("41-1", 7.05)
    run.deliver("41-1", 8.0, "eu")
    run.add("removed", "50-1", "r", 5.0, stays=False)
    run.remove("removed", "50-1", 6.0)
    run.add("minid", "60-1", "m", 6.0, stays=False)
    run.add("minid", "61-1", "n", 7.0)
    run.trim("minid", "MINID", "61-1", 8.0)
    run.add("maxlen", "70-1", "x", 7.0, stays=False)
    run.add("maxlen", "71-1", "y", 8.0)
    run.trim("maxlen", "MAXLEN", "1", 9.0)
    # The reader got c before a region merged b, and so never got b.
    run.read("10-1", "a", 1.6)
    run.read("20-1", "c", 2.6)
    run.read("40-1", "j", 5.0, key="jobs")
    return run
