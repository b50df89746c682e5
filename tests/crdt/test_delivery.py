"""Deliveries of a group: floors, starts given as IDs, dropped entries, announcements (S6 to S8).

The docstring of each test tells the bug that it once found.
"""

from __future__ import annotations

from anabranch.crdt import undelivered
from anabranch.crdt.ids import make
from tests.crdt.support import Twin

K, G = b"k", b"g"


def reading_region(ids: list[int], start: int = 0) -> Twin:
    """A region with entries of these IDs, and a group that starts at the ID `start`."""
    twin = Twin(1)
    for entry_id in ids:
        twin.add(K, entry_id=entry_id)
    twin.create(K, G, start)
    return twin


def test_noack_read_of_a_dropped_entry_lets_it_be_announced() -> None:
    """A NOACK read must end the state "dropped by DELCONSUMER" (S8.1, S8.3).

    A consumer is deleted while an entry is pending, so the entry is dropped and not announced.
    SETID moves the floor back, and a NOACK read delivers the entry again, which acknowledges it.
    From then on it must be announced like any other (S8.1, "until delivered or claimed again"). The
    bug: only reads that make an entry pending removed it from the dropped entries.
    """
    twin = reading_region([make(5, 1), make(6, 1)])
    twin.read(K, G, b"c")
    twin.acknowledge(K, G, {make(6, 1)})
    twin.delete_consumer(K, G, b"c")
    twin.check()
    twin.set_floor(K, G, 0)
    twin.read(K, G, b"d", no_ack=True)
    twin.check()
    twin.announce(K, G)
    assert twin.model.keys[K].groups[G].acked() == {(1, 1), (1, 2)}
    twin.check()


def test_raised_floor_is_heeded_by_a_cursor_made_before_it() -> None:
    """A read must respect a floor that was raised after its cursor was stored (S7.4).

    A read takes the first of three entries, so a cursor stores the position behind it. XCLAIM
    LASTID then raises the floor above the second entry. The bug: the cursor continued from its
    stored position, and `>` delivered the second entry.
    """
    twin = reading_region([make(5, 1), make(6, 1), make(7, 1)])
    twin.read(K, G, count=1)
    twin.raise_floor(K, G, make(6, 1))
    assert [entry.entry_id for entry in twin.read(K, G)] == [make(7, 1)]
    twin.check()


def test_late_arrival_below_a_start_given_as_an_id_is_skipped() -> None:
    """An entry that arrives below the group's start is skipped (S6.3).

    A group starts at 100-0, above all entries. A read finds nothing, and its cursor stores the
    beginning of the log. Then an entry below the start arrives. The bug: the cursor delivered it.
    """
    twin = reading_region([make(5, 1)], start=make(100, 0))
    assert twin.read(K, G) == []
    twin.add(K, entry_id=make(6, 1))
    assert twin.read(K, G) == []
    twin.add(K, entry_id=make(101, 1))
    assert [entry.entry_id for entry in twin.read(K, G)] == [make(101, 1)]
    twin.check()


def test_lag_counts_nothing_below_a_start_to_come() -> None:
    """Entries below the group's start do not count in `lag` (S7.6).

    The bug: `lag` counted the entries that the cursor delivered wrongly; see
    `test_late_arrival_below_a_start_given_as_an_id_is_skipped`.
    """
    twin = reading_region([make(5, 1)], start=make(100, 0))
    stream = twin.keyspace.keys[K]
    assert undelivered.lag(stream, stream.groups[G]) == 0
    twin.add(K, entry_id=make(6, 1))
    assert undelivered.lag(stream, stream.groups[G]) == 0


def test_an_announcement_adds_no_given_counters_of_deleted_entries() -> None:
    """A region's own announcement leaves its local state as it is (S8.2).

    An entry that was set back, and then deleted, lies within the announced run. The model that
    these tests compare with took it for given, and so differed once the acknowledgements had gone
    with their create.
    """
    one, two, three = Twin(1), Twin(2), Twin(3)
    one.create(K, G, 0)
    for ms in (1, 2, 3):
        one.add(K, entry_id=make(ms, 1))
    one.set_floor(K, G, make(2, 1))
    assert [entry.entry_id for entry in one.read(K, G, no_ack=True)] == [make(3, 1)]
    one.delete_entry(K, make(2, 1))
    assert len(one.announce(K, G)) == 1
    one.check()
    two.create(K, G, 0)
    three.pull(one)
    three.expire_at(K, 2000)
    three.clock_ms = 2001
    three.expire_now(K)
    one.pull(two)
    one.join(three)
    one.check()
    assert list(one.model.keys[K].groups[G].creates) == [(2, 1)]
