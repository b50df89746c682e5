"""Performs the faults of a plan at their times."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from anabranch.chaos.clients import Workplace
from anabranch.chaos.history import Loss
from anabranch.chaos.plan import Fault, Plan
from anabranch.chaos.regions import ChaosRegions
from anabranch.cluster.errors import ClusterError, ConnectionFailed
from anabranch.cluster.toxiproxy import DOWNSTREAM, Toxic, ToxiproxyError

# The type of the toxic of each kind.
_TOXICS: Final = {
    "latency": "latency",
    "bandwidth": "bandwidth",
    "slicer": "slicer",
    "slow close": "slow_close",
    "reset": "reset_peer",
    "timeout": "timeout",
    "limited data": "limit_data",
}
# The server may die when these are removed from open connections: the connections are closed first.
_CLOSED_FIRST: Final = ("slow close", "reset", "timeout", "limited data")
_CUTS: Final = ("cut", "one-way cut")
_WATCH_S: Final = 0.2
# A kill waits for so long for the next acknowledged add.
_ACKNOWLEDGEMENT_S: Final = 0.5
# A backup is put back once other regions have so much, or after this time.
_COPIES_S: Final = 3.0


@dataclass
class Struck:
    """A fault as it was performed; times in seconds of the run. `note`: what went wrong."""

    fault: Fault
    begun_s: float
    ended_s: float = 0.0
    note: str = ""


class Breaker(threading.Thread):
    """Performs the faults of a plan, one event after the other. `error` is set if it failed."""

    def __init__(self, plan: Plan, regions: ChaosRegions, place: Workplace) -> None:
        super().__init__(name="breaker", daemon=True)
        self.struck: list[Struck] = []
        self.error: BaseException | None = None
        self._plan: Final = plan
        self._regions: Final = regions
        self._place: Final = place
        self._history: Final = place.history
        self._over = threading.Event()
        # Regions that a fault has ended and not yet started again.
        self._down: set[str] = set()
        # Region → when the backup was taken that a fault puts back.
        self._backups_s: dict[str, float] = {}

    def stop(self) -> None:
        """Begins no further fault."""
        self._over.set()

    def run(self) -> None:
        try:
            self._perform()
        except BaseException as error:
            self.error = error

    def _perform(self) -> None:
        events: list[tuple[float, int, Callable[[], None]]] = []
        for number, fault in enumerate(self._plan.faults):
            one = Struck(fault, 0.0)
            events.append((fault.begin_s, number, partial(self.begin_fault, one)))
            events.append((fault.end_s, number, partial(self.end_fault, one)))
        for at_s, _, act in sorted(events, key=lambda event: event[:2]):
            while not self._over.is_set() and (left_s := at_s - self._history.now_s()) > 0:
                self._over.wait(min(left_s, _WATCH_S))
                self._regions.note_deaths()
                self._regions.repair_toxiproxy()
            if self._over.is_set():
                return
            act()

    # -- one fault

    def begin_fault(self, one: Struck) -> None:
        """Makes a fault strike. A fault that cannot begin is noted, and the run goes on."""
        one.begun_s = self._history.now_s()
        self.struck.append(one)
        fault = one.fault
        try:
            if fault.is_of_link:
                self._break_link(fault)
            else:
                self._strike(one)
        except (ToxiproxyError, ClusterError, ConnectionFailed) as error:
            one.note = f"did not begin: {error}"
            self._regions.repair_toxiproxy()

    def end_fault(self, one: Struck) -> None:
        """Ends a fault."""
        fault = one.fault
        try:
            if fault.is_of_link:
                self._mend_link(fault)
            else:
                self._recover(one)
        except (ToxiproxyError, ClusterError, ConnectionFailed) as error:
            one.note = f"{one.note} did not end as planned: {error}".strip()
            self._regions.repair_toxiproxy()
        one.ended_s = self._history.now_s()

    # -- links

    def _break_link(self, fault: Fault) -> None:
        api = self._regions.toxiproxy.api
        sender, receiver = fault.regions
        name = self._regions.proxy(sender, receiver)
        if fault.kind in _CUTS:
            self._enable(fault, False)
            return
        kind = _TOXICS[fault.kind]
        api.add(name, Toxic("chaos", kind, DOWNSTREAM, fault.values))
        if fault.kind == "slow close":
            self._dial_again(receiver, sender)

    def _dial_again(self, receiver: str, sender: str) -> None:
        """Closes a link from inside, because slow close shows only when a side closes.

        A region that does not answer, because it starts or is paused, closes its link by itself.
        """
        if receiver in self._down:
            return
        with contextlib.suppress(ConnectionFailed), self._regions[receiver].connect(2.0) as client:
            client.call("CRDT.LINK", sender, "DOWN")
            client.call("CRDT.LINK", sender, "UP")

    def _enable(self, fault: Fault, is_open: bool) -> None:
        """Opens or closes the proxies of a cut."""
        sender, receiver = fault.regions
        for pair in ((sender, receiver), (receiver, sender))[: 2 if fault.kind == "cut" else 1]:
            self._regions.toxiproxy.api.enable(self._regions.proxy(*pair), is_open)

    def _mend_link(self, fault: Fault) -> None:
        api = self._regions.toxiproxy.api
        sender, receiver = fault.regions
        name = self._regions.proxy(sender, receiver)
        if fault.kind in _CUTS:
            self._enable(fault, True)
        elif fault.kind in _CLOSED_FIRST:
            api.clean(name)
        elif api.proxy(name).toxic("chaos") is not None:
            api.remove(name, "chaos")

    # -- regions

    def _strike(self, one: Struck) -> None:
        fault = one.fault
        for name in fault.regions:
            if fault.kind == "pause":
                self._regions.pause(name)
            elif fault.kind == "full disk":
                # A start that cannot write ends the process with an error, and rightly so. The
                # fault is for a region that serves.
                self._regions.await_answer(name)
                self._regions.fill_disk(name, is_full=True)
            else:
                self._end_region(name, kills=fault.kind in ("kill", "kill two"))
            if fault.kind == "old backup":
                self._backups_s[name] = self._history.now_s()
                self._regions.back_up(name)
                self._begin_region(name)

    def _begin_region(self, name: str) -> None:
        self._regions.begin(name)
        self._down.discard(name)

    def _end_region(
        self, name: str, kills: bool, since_s: float | None = None, backup_s: float | None = None
    ) -> None:
        """Ends a region. `since_s`: when its disk became full; for a `backup_s`, see `Loss`."""
        self._down.add(name)
        if kills:
            self._await_acknowledgement(name)
            self._regions.kill(name)
            at_s = self._history.now_s()
            since_s = at_s if since_s is None else since_s
            self._history.losses.append(Loss(name, since_s, at_s, backup_s))
        else:
            try:
                self._regions.stop(name)
            except ClusterError as error:
                self._regions.deaths[name].append(str(error))
        self._regions.forget_process(name)

    def _await_acknowledgement(self, name: str) -> None:
        """Waits for the next add that the region acknowledges: a kill is worst right after it."""
        acknowledged = self._place.acknowledged[name]
        acknowledged.clear()
        acknowledged.wait(_ACKNOWLEDGEMENT_S)

    def _recover(self, one: Struck) -> None:
        fault = one.fault
        for name in fault.regions:
            if fault.kind == "pause":
                self._regions.resume(name)
            elif fault.kind == "full disk" and not fault.values["kill"]:
                self._regions.fill_disk(name, is_full=False)
            else:
                if fault.kind == "full disk":
                    self._end_region(name, kills=True, since_s=one.begun_s)
                if fault.kind == "old backup":
                    self._put_back(name, self._backups_s.pop(name))
                if fault.kind == "clock":
                    self._regions.offsets_ms[name] = fault.values["offset_ms"]
                self._begin_region(name)

    def _put_back(self, name: str, backup_s: float) -> None:
        """Kills a region, and puts its backup back: its next start is told nothing of that."""
        asked_s = self._history.now_s()
        try:
            had = self._regions[name].vector()
            are_copied = self._regions.await_copies(name, had, _COPIES_S)
        except ConnectionFailed:
            are_copied = False
        since_s = asked_s if are_copied else backup_s
        self._end_region(name, kills=True, since_s=since_s, backup_s=backup_s)
        self._regions.put_back(name)

    def heal(self) -> None:
        """Ends everything that still stands: call it when the thread has ended."""
        self._regions.resume_all()
        for name in sorted(self._down):
            self._regions.begin(name)
        self._down.clear()
        self._regions.heal_links()
        now_s = self._history.now_s()
        for one in self.struck:
            one.ended_s = one.ended_s or now_s
