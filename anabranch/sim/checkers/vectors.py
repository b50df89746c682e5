"""Invariant 5: vectors never regress, restarts included, and effects are applied without gaps.

A region's effects are applied as a prefix of its counters. Further rules:

- A region has of another region only effects on the latter's disk (S13.3), up to the end of a
  block (S1.4), together with everything that the block may rest on (S2.1).
- The blocks of a region follow each other without gaps and are chained (S13.5).
- A region tells others only of vectors that are on its disk (S2.4).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

from xxhash import xxh3_128_digest

from anabranch.crdt.block import Block
from anabranch.crdt.vector import Vector
from anabranch.sim.checkers.known_region import Region, includes
from anabranch.sim.checkers.ledger import LedgerJudge
from anabranch.sim.history import Began, Committed, End, Moved, Operation, Setup, Shown, Stopped
from anabranch.sim.plan import REGION_NAMES

_IDS: Final = {name.encode(): number for number, name in enumerate(REGION_NAMES, 1)}


class Vectors(LedgerJudge):
    """The judge."""

    name = "vectors"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.regions = {region: Region() for region in self.setup.regions}
        self._turn = 0
        # By region that is down: origin → the first counter of that origin that was issued anew
        # meanwhile. Its disk must not bring back the former effects from there on.
        self._stale: dict[int, Vector] = {region: {} for region in setup.regions}
        # Client → (region_id, time in ms, counter) of its last write.
        self._writes: dict[int, tuple[int, int, int]] = {}
        # Number of a WAIT without an answer → the last write of its client before it.
        self._waits: dict[int, tuple[int, int, int]] = {}

    # -- starts

    def began(self, event: Began) -> None:
        super().began(event)
        self._brings_nothing_back(event)
        known = self.regions[event.region]
        if event.how != "backup" and not includes(event.vector, known.disk):
            self.fail(
                event.at_ms,
                event.region,
                f"starts with {event.vector} after {event.how}; {known.disk} was on its disk",
            )
        if event.how == "clean" and not includes(event.vector, known.now):
            self.fail(
                event.at_ms,
                event.region,
                f"starts with {event.vector} after a clean end at {known.now}",
            )
        if event.how != "backup" and event.life <= known.life:
            # S1.3
            self.fail(event.at_ms, event.region, f"begins the life {event.life} after {known.life}")
        known.life = event.life
        if not includes(event.vector, known.disk):
            known.lost_ms = event.at_ms
        known.found = event.vector.get(event.region, 0)
        if event.how != "backup":
            # Effects that a restored disk lost may come back from others, and rest on the same.
            keep = bisect_right(known.issued, event.vector.get(event.region, 0))
            del known.issued[keep:], known.rests_on[keep:], known.at_most[keep:]
        known.units = {
            counter: last
            for counter, last in known.units.items()
            if last <= event.vector.get(event.region, 0)
        }
        known.now = event.vector
        known.holds(event.vector)

    def _brings_nothing_back(self, event: Began) -> None:
        """A start finds no former effect of a counter that was issued anew (S13.7)."""
        for origin, first in self._stale.pop(event.region, {}).items():
            if event.vector.get(origin, 0) >= first:
                text = (
                    f"brought back effects of region {origin} from {first} on, "
                    "which that region had issued anew"
                )
                self.fail(event.at_ms, event.region, text)

    def stopped(self, event: Stopped) -> None:
        super().stopped(event)
        self._stale[event.region] = {}
        if not includes(self.regions[event.region].now, event.on_disk):
            self.fail(
                event.at_ms,
                event.region,
                f"had {event.on_disk} on its disk and {self.regions[event.region].now} applied",
            )

    # -- steps

    def executed(self, operation: Operation) -> None:
        super().executed(operation)
        if operation.argv[0].upper() == b"WAIT":
            # Commands after it in a pipeline may write before the client has its answer.
            written = self._writes.get(operation.client, (0, 0, 0))
            self._waits[operation.number] = written
        region, after = operation.region, operation.after
        assert after is not None
        if after is operation.before and after is self.regions[region].now:
            return
        self._step(operation.at_ms, region, operation.before, after)
        own = after.get(region, 0)
        first = operation.before.get(region, 0) + 1
        if own >= first:
            self._writes[operation.client] = (region, operation.at_ms, own)
            for counter in range(first, own):
                self.regions[region].units[counter] = own
            if {**after, region: 0} != {**operation.before, region: 0}:
                self.fail(
                    operation.at_ms,
                    region,
                    f"a command moved the vector from {operation.before} to {after}",
                )

    def moved(self, event: Moved) -> None:
        super().moved(event)
        self._step(event.at_ms, event.region, event.before, event.after)
        for origin, counter in event.after.items():
            if origin != event.region and counter > event.before.get(origin, 0):
                self._received(event, origin, counter)

    def _step(self, at_ms: int, region: int, before: Vector, after: Vector) -> None:
        known = self.regions[region]
        if not includes(before, known.now) or not includes(after, before):
            self.fail(at_ms, region, f"the vector goes from {known.now} over {before} to {after}")
        known.now = after
        own = after.get(region, 0)
        if own > before.get(region, 0) and own > self.ledger.held_by_others(region):
            keep = bisect_left(known.issued, before.get(region, 0) + 1)
            del known.issued[keep:], known.rests_on[keep:], known.at_most[keep:]
            known.issued.append(own)
            known.rests_on.append(before)
            known.at_most.append(after)

    def _received(self, event: Moved, origin: int, counter: int) -> None:
        """Judges the effects of another region that arrived here.

        They must be on that region's disk, reach to the end of a block, and lack nothing that they
        rest on.
        """
        source = self.regions[origin]
        if self.ledger.blind:
            return
        if counter > self.ledger.log.last(origin):
            text = (
                f"has effect {counter} of region {origin}, "
                f"which never had it on its disk: {source.disk}"
            )
            self.fail(event.at_ms, event.region, text)  # S13.3
            return
        place = bisect_left(source.ends, counter)
        if place == len(source.ends) or source.ends[place] != counter:
            # S1.4
            self.fail(
                event.at_ms,
                event.region,
                f"stopped at {counter} of region {origin}, in the middle of a block",
            )
        place = bisect_right(source.issued, counter) - 1
        if place >= 0 and not includes(
            {**event.after, origin: counter}, {**source.rests_on[place], origin: counter}
        ):
            text = (
                f"has effect {counter} of region {origin}, "
                f"which had applied {source.rests_on[place]} before it"
            )
            self.fail(event.at_ms, event.region, f"{text}, and itself has {event.after}")  # S2.1

    # -- disks

    def _written_again(self, event: Committed, first: int) -> None:
        """Counters were issued a second time, after a restored backup lost their first effects.

        Legal only if no other region held those effects (S13.3, S13.7).
        """
        origin = event.region
        if self.ledger.held_by_others(origin) >= first:
            text = f"issued other effects with counters from {first} that other regions hold"
            self.fail(event.at_ms, origin, text)
        for stale in self._stale.values():
            stale[origin] = min(first, stale.get(origin, first))

    def committed(self, event: Committed) -> None:
        super().committed(event)
        if self.ledger.rewritten:
            self._written_again(event, self.ledger.rewritten)
        known = self.regions[event.region]
        for block in event.blocks:
            place = bisect_left(known.ends, block.first)
            if place < len(known.ends) and known.chains[place] == block.chain:
                continue  # this block was reported before
            if place < len(known.ends):
                # Issued again after a restore; `_written_again` judges whether that is allowed.
                del known.ends[place:], known.chains[place:]
            last = known.ends[-1] if known.ends else 0
            chain = xxh3_128_digest((known.chains[-1] if known.chains else bytes(16)) + block.body)
            if block.origin != event.region or block.first != last + 1 or block.last < block.first:
                if block.first - 1 != known.found:
                    # Otherwise the start found blocks that were never reported; the chain restarts.
                    self.fail(
                        event.at_ms,
                        event.region,
                        f"committed {block.first}–{block.last} of region {block.origin} "
                        f"after {last}",
                    )
                chain = block.chain
            if block.chain != chain:
                self.fail(
                    event.at_ms,
                    event.region,
                    f"the chain after its block {block.first}–{block.last} is wrong",
                )
            self._holds_units(event, known, block)
            known.ends.append(block.last)
            known.chains.append(block.chain)
        if not includes(event.vector, known.disk) or (
            event.start and not includes(known.now, event.vector)
        ):
            self.fail(
                event.at_ms,
                event.region,
                f"committed {event.vector} after {known.disk}, with {known.now} applied",
            )
        known.holds(event.vector)

    def _holds_units(self, event: Committed, known: Region, block: Block) -> None:
        """A block holds whole units, all issued before anything else was merged (S1.2, S1.4)."""
        if block.last in known.units:
            text = (
                f"its block ends at {block.last}, "
                f"within a unit that ends at {known.units[block.last]}"
            )
            self.fail(event.at_ms, event.region, text)
        low, high = bisect_left(known.issued, block.first), bisect_left(known.issued, block.last)
        if low < high < len(known.issued):
            first, last = known.at_most[low], {**known.rests_on[high], event.region: 0}
            if not includes(first, last):
                self.fail(
                    event.at_ms,
                    event.region,
                    f"its block {block.first}–{block.last} has effects issued at {first} "
                    f"and at {last}",
                )

    # -- replies that speak of disks

    def answered(self, operation: Operation) -> None:
        """CRDT.VECTOR, CRDT.WAIT and WAIT speak of disks (S2.4)."""
        name, reply, region = operation.argv[0].upper(), operation.reply, operation.region
        if name == b"CRDT.VECTOR" and isinstance(reply, list):
            numbers = [one for one in reply if isinstance(one, int)]
            told = dict(zip(numbers[::2], numbers[1::2], strict=True))
            if not includes(self.regions[region].disk, told):
                self.fail(
                    operation.at_ms,
                    region,
                    f"told of the vector {told}; on its disk is {self.regions[region].disk}",
                )
        elif name == b"CRDT.WAIT" and reply == 1:
            words = operation.argv[2:]
            told = {int(words[place]): int(words[place + 1]) for place in range(0, len(words), 2)}
            if not includes(self.regions[region].disk, told):
                self.fail(
                    operation.at_ms,
                    region,
                    f"told that it holds {told}; on its disk is {self.regions[region].disk}",
                )
        elif name == b"WAIT" and isinstance(reply, int):
            self._waited_for(operation, reply)

    def lost(self, operation: Operation) -> None:
        self._writes.pop(operation.client, None)
        self._waits.pop(operation.number, None)

    def _waited_for(self, operation: Operation, reply: int) -> None:
        """WAIT counts the regions that have the connection's writes on their disks.

        Only a write just before the WAIT is certainly one of its connection.
        """
        region, at_ms, counter = self._waits.pop(operation.number, (0, 0, 0))
        if (region, at_ms) != (operation.region, operation.at_ms):
            return
        holders: list[int] = []
        for other, known in self.regions.items():
            # WAIT's answer was true when given, even if a restore has lost the effects since.
            held = known.ever if known.lost_ms >= at_ms else known.disk
            if other != region and held.get(region, 0) >= counter:
                holders.append(other)
        if reply > len(holders):
            self.fail(
                operation.at_ms,
                region,
                f"told that {reply} regions hold effect {counter}; those that do are {holders}",
            )

    def shown(self, shown: dict[int, Shown]) -> None:
        """A region shows the vector that its steps reported. INFO is judged of one after the other.

        `stable_times` judges the same INFO.
        """
        regions = sorted(shown)
        for region in regions:
            if shown[region].vector != self.regions[region].now:
                self.fail(
                    shown[region].at_ms,
                    region,
                    f"shows {shown[region].vector}; its steps led to {self.regions[region].now}",
                )
        if regions:
            self._turn += 1
            self._look(shown[regions[self._turn % len(regions)]])

    def _look(self, one: Shown) -> None:
        """INFO raises no alarm, and vectors that it says to be on disks are there.

        Sources: S2.4, S6.2, S13.9.
        """
        region, at_ms = one.region, one.at_ms
        figures = self.ledger.figures(one)
        for name in (b"crdt_divergence", b"crdt_gaps", b"crdt_forks"):
            if figures.get(name, b"0") != b"0":
                self.fail(at_ms, region, f"raises {name.decode()}: {figures[name].decode()}")
        here = _vector(figures.get(b"crdt_disk_vector", b""))
        if not includes(self.regions[region].disk, here):
            self.fail(
                at_ms,
                region,
                f"says that {here} is on its disk; there is {self.regions[region].disk}",
            )
        everywhere = _vector(figures.get(b"crdt_stable_vector", b""))
        lost = [_IDS.get(name) for name in figures.get(b"crdt_members_lost", b"").split(b",")]
        for other, known in self.regions.items():
            if other not in lost and not includes(known.ever, everywhere):
                self.fail(
                    at_ms,
                    region,
                    f"says that {everywhere} is on every disk; "
                    f"region {other} never had more than {known.ever}",
                )

    def finish(self, end: End) -> None:
        """Judges the final vectors, and INFO of every region."""
        self.shown(end.shown)
        for region in sorted(end.shown):
            self._look(end.shown[region])


def _vector(text: bytes) -> Vector:
    """A vector from its text `region_id=counter,…`."""
    return {
        int(region): int(counter)
        for region, _, counter in (part.partition(b"=") for part in text.split(b",") if part)
    }
