"""Invariant 5: vectors never regress, restart included; a region's effects are applied as a gap-free prefix.

Besides: a region has of another only what is on that one's disk (S13.3), up to the end of a block (S1.4), with everything that the block
may rest on (S2.1); its blocks run on without gaps and are chained (S13.5); what it tells of vectors is on its disk (S2.4).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

from xxhash import xxh3_128_digest

from anabranch.crdt.block import Block
from anabranch.region.engine.replies import Reply, VerbatimText
from anabranch.sim.history import (
    Began,
    Committed,
    End,
    Moved,
    Operation,
    Setup,
    Shown,
    Stopped,
    Vector,
)
from anabranch.sim.oracle.arguments import number
from anabranch.sim.oracle.judge import OracleJudge

ASKS_EVERY: Final = 3  # times that vectors are shown


class Region:
    """What is known of one region. Vectors are kept as they were given."""

    def __init__(self) -> None:
        self.now: Vector = {}
        self.disk: Vector = {}  # of its last commit
        self.ever: Vector = {}  # the most that was ever on its disk
        self.life = 0
        self.found = 0  # its own effects that its last start found
        self.lost_ms = -1  # when it last began with less than it had had
        self.ends: list[int] = []  # counters at which its blocks end
        self.chains: list[bytes] = []  # after each of its blocks
        self.issued: list[int] = []  # counters that its steps ended at …
        # … and what it had before; in a merge it may have issued before all was merged …
        self.rests_on: list[Vector] = []
        self.at_most: list[Vector] = []  # … and what it had afterwards
        self.units: dict[int, int] = {}  # a counter inside a command's effects → the last of them

    def holds(self, vector: Vector) -> None:
        """This is on its disk."""
        self.disk = vector
        for origin, counter in vector.items():
            if counter > self.ever.get(origin, 0):
                self.ever[origin] = counter


def includes(greater: Vector, lesser: Vector) -> bool:
    """Whether `greater` covers all that `lesser` does."""
    if greater is not lesser:
        get = greater.get
        for region, counter in lesser.items():
            if get(region, 0) < counter:
                return False
    return True


class Vectors(OracleJudge):
    """The oracle tells it, besides, of counters that stand for two contents."""

    name = "vectors"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.regions = {region: Region() for region in self.setup.regions}
        self._turn = 0
        # client → region, time and counter of its last write
        self._writes: dict[int, tuple[int, int, int]] = {}

    # -- starts

    def began(self, event: Began) -> None:
        super().began(event)
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
            # what a restored disk has lost may come back from others, with what it rests on
            keep = bisect_right(known.issued, event.vector.get(event.region, 0))
            del known.issued[keep:], known.rests_on[keep:], known.at_most[keep:]
        known.units = {
            counter: last
            for counter, last in known.units.items()
            if last <= event.vector.get(event.region, 0)
        }
        known.now = event.vector
        known.holds(event.vector)

    def stopped(self, event: Stopped) -> None:
        super().stopped(event)
        if not includes(self.regions[event.region].now, event.on_disk):
            self.fail(
                event.at_ms,
                event.region,
                f"had {event.on_disk} on its disk and {self.regions[event.region].now} applied",
            )

    # -- steps

    def executed(self, operation: Operation) -> None:
        super().executed(operation)
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
        if own > before.get(region, 0) and own > self.oracle.held_by_others(region):
            keep = bisect_left(known.issued, before.get(region, 0) + 1)
            del known.issued[keep:], known.rests_on[keep:], known.at_most[keep:]
            known.issued.append(own)
            known.rests_on.append(before)
            known.at_most.append(after)

    def _received(self, event: Moved, origin: int, counter: int) -> None:
        """Another region's effects: committed there, to the end of a block, and nothing missing that they rest on."""
        source = self.regions[origin]
        if self.oracle.blind:
            return
        if counter > self.oracle.record.log.last(origin):
            text = f"has effect {counter} of region {origin}, which never had it on its disk: {source.disk}"
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
            text = f"has effect {counter} of region {origin}, which had applied {source.rests_on[place]} before it"
            self.fail(event.at_ms, event.region, f"{text}, and itself has {event.after}")  # S2.1

    # -- disks

    def committed(self, event: Committed) -> None:
        super().committed(event)
        known = self.regions[event.region]
        for block in event.blocks:
            place = bisect_left(known.ends, block.first)
            if place < len(known.ends) and known.chains[place] == block.chain:
                continue  # told of already
            if place < len(known.ends):
                # written again after a restore; the oracle judges whether it may be
                del known.ends[place:], known.chains[place:]
            last = known.ends[-1] if known.ends else 0
            chain = xxh3_128_digest((known.chains[-1] if known.chains else bytes(16)) + block.body)
            if block.origin != event.region or block.first != last + 1 or block.last < block.first:
                if block.first - 1 != known.found:
                    # else nobody saw what the start found on the disk, and the chain begins anew
                    self.fail(
                        event.at_ms,
                        event.region,
                        f"committed {block.first}–{block.last} of region {block.origin} after {last}",
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
        """A block holds whole units, all of them issued before anything else was merged (S1.2, S1.4)."""
        if block.last in known.units:
            text = f"its block ends at {block.last}, within a unit that ends at {known.units[block.last]}"
            self.fail(event.at_ms, event.region, text)
        low, high = bisect_left(known.issued, block.first), bisect_left(known.issued, block.last)
        if low < high < len(known.issued):
            first, last = known.at_most[low], {**known.rests_on[high], event.region: 0}
            if not includes(first, last):
                self.fail(
                    event.at_ms,
                    event.region,
                    f"its block {block.first}–{block.last} has effects issued at {first} and at {last}",
                )

    # -- what regions tell

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
            told = {
                number(words[place]): number(words[place + 1]) for place in range(0, len(words), 2)
            }
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

    def _waited_for(self, operation: Operation, reply: int) -> None:
        """WAIT counts the regions that have the connection's writes on their disks; only a write just before it is surely its own."""
        region, at_ms, counter = self._writes.get(operation.client, (0, 0, 0))
        if (region, at_ms) != (operation.region, operation.at_ms):
            return
        holders: list[int] = []
        for other, known in self.regions.items():
            # a restore takes back nothing of what was true when it was said
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
        """What a region shows is what it was moved to; at times one of them, in turn, is asked what it says of all disks."""
        regions = sorted(shown)
        for region in regions:
            if shown[region].vector != self.regions[region].now:
                self.fail(
                    shown[region].at_ms,
                    region,
                    f"shows {shown[region].vector}, was moved to {self.regions[region].now}",
                )
        self._turn += 1
        if regions and self._turn % ASKS_EVERY == 0:
            region = regions[self._turn // ASKS_EVERY % len(regions)]
            self._look(region, shown[region].at_ms)

    def _look(self, region: int, at_ms: int) -> None:
        """`INFO`: what is said to be on a disk, here or everywhere, is there; and no alarm was raised (S2.4, S6.2, S13.9)."""
        figures = _figures(self.setup.ask(region, (b"INFO", b"crdt")))
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
        lost = [
            self.oracle.record.names.get(name)
            for name in figures.get(b"crdt_members_lost", b"").split(b",")
        ]
        for other, known in self.regions.items():
            if other not in lost and not includes(known.ever, everywhere):
                self.fail(
                    at_ms,
                    region,
                    f"says that {everywhere} is on every disk; region {other} never had more than {known.ever}",
                )

    def finish(self, end: End) -> None:
        """The same once more, in every region."""
        self.shown(end.shown)
        for region in sorted(end.shown):
            self._look(region, end.at_ms)


def _figures(reply: Reply) -> dict[bytes, bytes]:
    """The lines of a section of INFO."""
    text = reply.text if isinstance(reply, VerbatimText) else reply
    lines = text.split(b"\r\n") if isinstance(text, bytes) else []
    return {name: value for name, colon, value in (line.partition(b":") for line in lines) if colon}


def _vector(text: bytes) -> Vector:
    """`region_id=counter,…`"""
    return {
        number(region): number(counter)
        for region, _, counter in (part.partition(b"=") for part in text.split(b",") if part)
    }
