"""A place in every region log of a stream: the start of a group, or a floor that SETID set.

(S6.3, S6.4.) A place is an entry ID only where a user gave an ID. Every other place (`$`) is a
counter per region log, because an ID can recur after an expiry and a counter cannot.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

from anabranch.crdt.encoding import Reader, put_id, put_varint, put_vector
from anabranch.crdt.region_log import RegionLog
from anabranch.crdt.vector import Vector


@mypyc_attr(acyclic=True)
class Place:
    """Either one entry ID for every region log, or a counter per region log (0 where absent)."""

    def __init__(self, is_id: bool, entry_id: int, counters: Vector) -> None:
        self.is_id: Final = is_id
        self.entry_id: Final = entry_id
        self.counters: Final = counters

    def is_below(self, region_id: int, counter: int, entry_id: int) -> bool:
        """Whether the entry with this dot and ID lies above this place."""
        return entry_id > self.entry_id if self.is_id else counter > self.counters.get(region_id, 0)

    def counter_in(self, log: RegionLog) -> int:
        """Returns the counter of the log's last entry not above this place, 0 if none.

        A run of acknowledgements that begins here must not begin lower (S8.1).
        """
        return (
            log.last_counter_not_above(self.entry_id)
            if self.is_id
            else log.last_counter_up_to(self.counters.get(log.region_id, 0))
        )


def at_id(entry_id: int) -> Place:
    return Place(True, entry_id, {})


def at_counters(counters: Vector) -> Place:
    return Place(False, 0, dict(counters))


def put_place(out: bytearray, place: Place) -> None:
    if place.is_id:
        put_varint(out, 0)
        put_id(out, place.entry_id)
    else:
        put_varint(out, 1)
        put_vector(out, place.counters)


def read_place(reader: Reader) -> Place:
    return at_id(reader.id_()) if reader.varint() == 0 else at_counters(reader.vector())
