"""Random histories of three regions, each of them a `Twin`.

A step is a tuple of numbers, so that Hypothesis can shrink a failing history.
"""

from __future__ import annotations

from collections.abc import Callable

from anabranch.crdt.ids import make
from anabranch.crdt.region_log import NodeLimits
from anabranch.crdt.vector import Vector
from anabranch.sim.twin.state import NEVER
from tests.crdt.support import Twin, assert_equal

# One key and one group are the most frequent, so that many steps meet on them.
KEYS = (b"k", b"k", b"k", b"l")
GROUPS = (b"g", b"g", b"h")
REGIONS = (1, 2, 3)

# Numbers of the action and of the region, and two arguments of the action.
Step = tuple[int, int, int, int]


class History:
    """Three regions and the steps they take.

    With `checks`, the two forms of a region are compared after each of its steps. `attested` holds
    the vectors that each region has had, `done` the number of effective steps by action.
    """

    def __init__(self, checks: bool = True) -> None:
        self.twins = {region_id: Twin(region_id, NodeLimits(3, 200)) for region_id in REGIONS}
        self.attested: dict[int, list[Vector]] = {region_id: [{}] for region_id in REGIONS}
        self.checks = checks
        self.done: dict[str, int] = {}

    def run(self, steps: list[Step]) -> None:
        for what, region, one, two in steps:
            action = ACTIONS[what % len(ACTIONS)]
            twin = self.twins[REGIONS[region % 3]]
            twin.clock_ms += one % 3
            before = len(twin.log), len(twin.records)
            action(self, twin, one, two)
            if (len(twin.log), len(twin.records)) != before:
                self.done[action.__name__] = self.done.get(action.__name__, 0) + 1
            self.attested[twin.region_id].append(dict(twin.model.vector))
            if self.checks:
                twin.check()
                if two % 3 == 0:
                    self.check_digest(twin)

    def check_digest(self, twin: Twin) -> None:
        """Compares the digest, updated step by step, with that of a region built anew."""
        fresh = Twin(9)
        fresh.pull(twin)
        assert_equal(twin, fresh)

    def stable_at(self, twin: Twin) -> Vector:
        """The highest vector that `twin` may take as stable (S6.2).

        It is the minimum over all regions, counting of each region its newest vector whose own
        effects `twin` has applied.
        """
        newest = []
        for region_id, vectors in self.attested.items():
            counting = [
                vector
                for vector in vectors
                if vector.get(region_id, 0) <= twin.model.vector.get(region_id, 0)
            ]
            newest.append(counting[-1])
        least = {
            region_id: min(vector.get(region_id, 0) for vector in newest) for region_id in REGIONS
        }
        return {region_id: counter for region_id, counter in least.items() if counter}

    def other(self, twin: Twin, number: int) -> Twin:
        others = [each for each in self.twins.values() if each is not twin]
        return others[number % 2]

    def heal(self) -> None:
        """Sends every effect to every region, and asserts that all regions are equal.

        They must also equal a new region that received nothing but the effects.
        """
        for _ in range(2):
            for twin in self.twins.values():
                for other in self.twins.values():
                    twin.pull(other)
        one, two, three = self.twins.values()
        assert_equal(one, two)
        assert_equal(one, three)
        fresh = Twin(9)
        fresh.pull(one)
        fresh.check()
        assert_equal(one, fresh)
        for twin in self.twins.values():
            twin.check()


def ids_of(twin: Twin, key: bytes) -> list[int]:
    """The IDs of a key's entries, ascending; entries may share one."""
    held = twin.model.keys.get(key)
    return [entry_id for entry_id, _, _ in held.order] if held else []


def groups_of(twin: Twin) -> list[tuple[bytes, bytes]]:
    """The live groups: (key, group)."""
    return [(name, group) for name, key in twin.model.keys.items() for group in key.groups]


def add(history: History, twin: Twin, one: int, two: int) -> None:
    twin.add(KEYS[one % 4], (b"f", b"v%d" % two))


def add_with_id(history: History, twin: Twin, one: int, two: int) -> None:
    twin.add(KEYS[one % 4], (b"f%d" % (two % 3), b"v", b"", b""), make(1000 + two % 4, 1 + one % 3))


def add_idempotent(history: History, twin: Twin, one: int, two: int) -> None:
    twin.add(KEYS[one % 4], (b"f", b"v"), 0, b"p%d" % (two % 2), b"i%d" % (two % 3))


def delete_entry(history: History, twin: Twin, one: int, two: int) -> None:
    entry_ids = ids_of(twin, KEYS[one % 4])
    if entry_ids:
        twin.delete_entry(KEYS[one % 4], entry_ids[two % len(entry_ids)])


def trim(history: History, twin: Twin, one: int, two: int) -> None:
    twin.trim(KEYS[one % 4], two % 4, two % 5 == 0)


def delete(history: History, twin: Twin, one: int, two: int) -> None:
    if two % 3 == 0:
        twin.delete(KEYS[one % 4])


def flush(history: History, twin: Twin, one: int, two: int) -> None:
    if two % 10 == 0:
        twin.flush()


def set_id(history: History, twin: Twin, one: int, two: int) -> None:
    twin.set_id(KEYS[one % 4], make(1000 + two, 0))


def create(history: History, twin: Twin, one: int, two: int) -> None:
    start = (0, None, make(1001, 0), 0)[two // 3 % 4]
    twin.create(KEYS[one % 4], GROUPS[two % 3], start)


def destroy(history: History, twin: Twin, one: int, two: int) -> None:
    if two % 2 == 0:
        twin.destroy(KEYS[one % 4], GROUPS[two % 3])


def expire_at(history: History, twin: Twin, one: int, two: int) -> None:
    twin.expire_at(KEYS[one % 4], NEVER if two % 4 == 0 else twin.clock_ms + two % 5)


def expire_now(history: History, twin: Twin, one: int, two: int) -> None:
    twin.clock_ms += two % 30
    twin.expire_now(KEYS[one % 4])


def configure(history: History, twin: Twin, one: int, two: int) -> None:
    twin.configure(KEYS[one % 4], 60 + two, 1000)


def rename(history: History, twin: Twin, one: int, two: int) -> None:
    if two % 3 == 0:
        twin.rename(KEYS[one % 4], KEYS[3 - one % 4])


def announce(history: History, twin: Twin, one: int, two: int) -> None:
    for key, group in groups_of(twin):
        twin.announce(key, group)


def local_step(history: History, twin: Twin, one: int, two: int) -> None:
    """A step on local group state: read, acknowledge, claim, delete a consumer, move a floor."""
    groups = groups_of(twin)
    if not groups:
        return
    key, group = groups[two % len(groups)]
    entry_ids = ids_of(twin, key)
    local = twin.model.keys[key].groups[group].local
    pending = sorted({one.entry_id for one in local.pel.values()})
    kind = one % 16
    if kind < 6:
        twin.read(key, group, b"c%d" % (two % 2), 1 + two % 4, kind == 3)
    elif kind in (7, 8, 9, 10):
        twin.acknowledge(key, group, set(pending[max(0, two % 5 - 3) : 2 + two % 4]))
    elif kind == 11 and entry_ids:
        twin.claim(key, group, b"c2", entry_ids[two % len(entry_ids)])
    elif kind == 12:
        twin.delete_consumer(key, group, b"c%d" % (two % 2))
    elif kind in (13, 14) and entry_ids:
        counters = tuple(sorted(twin.model.vector.items()))
        twin.set_floor(
            key, group, counters if two % 4 == 0 else entry_ids[two % len(entry_ids)] - two % 2
        )
    elif entry_ids:
        twin.raise_floor(key, group, entry_ids[two % len(entry_ids)])


def pull(history: History, twin: Twin, one: int, two: int) -> None:
    """Receives all effects that another region has, or its next few."""
    other = history.other(twin, one)
    missing = [sent for sent in other.log if sent.dot[1] > twin.model.vector.get(sent.dot[0], 0)]
    for sent in missing if two % 2 else missing[: 1 + two % 3]:
        twin.receive(sent)


def join(history: History, twin: Twin, one: int, two: int) -> None:
    twin.join(history.other(twin, one), 1 + two * 20)


def collect(history: History, twin: Twin, one: int, two: int) -> None:
    twin.collect(history.stable_at(twin))


Action = Callable[[History, Twin, int, int], None]
# Repeated actions are drawn more often.
ACTIONS: tuple[Action, ...] = (
    add,
    add,
    add,
    add,
    add,
    add_with_id,
    add_idempotent,
    delete_entry,
    trim,
    delete,
    flush,
    set_id,
    create,
    create,
    create,
    destroy,
    expire_at,
    expire_now,
    configure,
    rename,
    announce,
    announce,
    local_step,
    local_step,
    local_step,
    local_step,
    local_step,
    local_step,
    local_step,
    local_step,
    pull,
    pull,
    pull,
    pull,
    join,
    join,
    collect,
    collect,
)
