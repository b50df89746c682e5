"""Effects: the replicated form of writes (S1).

An effect's dot is (origin of its block, counter). A vector inside an effect covers everything that
its region has applied before it. Their bytes are those of `crdt/effect_bytes.py`.
"""

from __future__ import annotations

from typing import Final, Optional, Union

from mypy_extensions import mypyc_attr

from anabranch.crdt.encoding import Malformed
from anabranch.crdt.node import check_entries
from anabranch.crdt.place import Place, at_counters, at_id
from anabranch.crdt.scan import Scan
from anabranch.crdt.spans import SpansByRegion
from anabranch.crdt.vector import Dot, Vector


@mypyc_attr(acyclic=True)
class AddRun:
    """Consecutive adds of one region to one key; each add has its own dot.

    `data` has the layout of a packed node (`crdt/node.py`); `base_counter` is the counter before
    the first add. Raises ValueError if `data` is malformed, and its subclass Malformed if the run
    is empty, has deleted entries or leaves counters out.
    """

    def __init__(self, key: bytes, names: bytes, data: bytes, base_counter: int) -> None:
        self.key = key
        self.names = names
        self.data = data
        self.base_counter = base_counter
        count, deleted, ms, seq, counter = check_entries(names, data, base_counter)
        if count == 0 or deleted or counter != base_counter + count:
            raise Malformed("a run of adds is empty, has deleted entries or leaves counters out")
        self.count = count
        self.last_ms = ms
        self.last_seq = seq

    def first_id(self) -> int:
        """The ID of the first add, which is the lowest one."""
        scan = Scan(self.data, self.base_counter)
        scan.step()
        return scan.id()


@mypyc_attr(acyclic=True)
class AddIdempotent:
    """`XADD … IDMP pid iid` (S9): an add with its pair.

    `recorded_ms` is the time at which the adder recorded the pair; `vector` covers the effects that
    the adder had applied before it.
    """

    def __init__(
        self,
        key: bytes,
        entry_id: int,
        names: bytes,
        values: bytes,
        pid: bytes,
        iid: bytes,
        recorded_ms: int,
        vector: Vector,
    ) -> None:
        self.key = key
        self.entry_id = entry_id
        self.names = names
        self.values = values
        self.pid = pid
        self.iid = iid
        self.recorded_ms = recorded_ms
        self.vector = vector


class RemoveEntries:
    """XDEL (S5.1): removes the entries with the dots observed."""

    def __init__(self, key: bytes, dots: list[Dot]) -> None:
        self.key = key
        self.dots = dots


class Trim:
    """XTRIM (S5.2): removes a prefix of each region log.

    `prefix` maps region_id → highest counter removed; `drops_references` is the flag DELREF.
    """

    def __init__(self, key: bytes, prefix: Vector, drops_references: bool) -> None:
        self.key = key
        self.prefix = prefix
        self.drops_references = drops_references


class Delete:
    """DEL (S5.4): observed-remove of the contents, delete-wins for the groups."""

    def __init__(self, key: bytes, vector: Vector) -> None:
        self.key = key
        self.vector = vector


class Flush:
    """FLUSHALL (S5.4): as Delete, for every key, including keys that this region does not know."""

    def __init__(self, vector: Vector) -> None:
        self.vector = vector


class SetId:
    """XSETID: a new last ID in the header (S3.2)."""

    def __init__(self, key: bytes, entry_id: int) -> None:
        self.key = key
        self.entry_id = entry_id


class CreateGroup:
    """XGROUP CREATE (S6): one create.

    The group starts at `start_id`, or, with `starts_at_vector` (`$`), at `vector`, which covers the
    effects that the creator had applied.
    """

    def __init__(
        self, key: bytes, group: bytes, start_id: int, starts_at_vector: bool, vector: Vector
    ) -> None:
        self.key = key
        self.group = group
        self.start_id = start_id
        self.starts_at_vector = starts_at_vector
        self.vector = vector

    def start(self) -> Place:
        return at_counters(self.vector) if self.starts_at_vector else at_id(self.start_id)


class DestroyGroup:
    """XGROUP DESTROY (S6.1)."""

    def __init__(self, key: bytes, group: bytes) -> None:
        self.key = key
        self.group = group


class Acknowledge:
    """Coalesced acknowledgements (S8.1): spans per region log.

    `creates` are the dots of the live creates that the issuer saw.
    """

    def __init__(self, key: bytes, group: bytes, creates: list[Dot], spans: SpansByRegion) -> None:
        self.key = key
        self.group = group
        self.creates = creates
        self.spans = spans


class SetDeadline:
    """EXPIRE, PERSIST (S10.2): a deadline that replaces those it saw (the dots in `replaces`).

    `at_ms` is in ms since the epoch, or `stream.NEVER`.
    """

    def __init__(self, key: bytes, at_ms: int, replaces: list[Dot]) -> None:
        self.key = key
        self.at_ms = at_ms
        self.replaces = replaces


class RemoveObserved:
    """Observed-remove of a whole key, without delete-wins.

    Three rules issue it: the removal by expiry (S10.3), the removal before a write that creates the
    key (S10.5), and the removal of leftover deadlines and configurations (S10.6).
    """

    def __init__(self, key: bytes, vector: Vector, with_deadlines: bool) -> None:
        self.key = key
        self.vector = vector
        self.with_deadlines = with_deadlines


class Configure:
    """XCFGSET (S9.4): a configuration that replaces those it saw (the dots in `replaces`).

    It clears the pairs that `vector` covers.
    """

    def __init__(
        self, key: bytes, duration_s: int, maxsize: int, replaces: list[Dot], vector: Vector
    ) -> None:
        self.key = key
        self.duration_s = duration_s
        self.maxsize = maxsize
        self.replaces = replaces
        self.vector = vector


Effect = Union[
    AddRun,
    AddIdempotent,
    RemoveEntries,
    Trim,
    Delete,
    Flush,
    SetId,
    CreateGroup,
    DestroyGroup,
    Acknowledge,
    SetDeadline,
    RemoveObserved,
    Configure,
]


def dots_of(effect: Effect) -> int:
    """Returns the number of dots that the effect has."""
    return effect.count if isinstance(effect, AddRun) else 1


def key_of(effect: Effect) -> Optional[bytes]:
    """Returns the key that the effect changes; None if it changes every key."""
    return None if isinstance(effect, Flush) else effect.key


def usual_command(effect: Effect) -> bytes:
    """Returns the command that effects of this kind usually come from, as the table names it.

    A block marks an effect of another command. The result is empty for effects that a region issues
    by itself: announcements (S8.1), and removals by expiry and of leftovers (S10.3, S10.6).
    """
    return _USUAL_COMMANDS.get(type(effect), b"")


_USUAL_COMMANDS: Final[dict[type, bytes]] = {
    AddRun: b"xadd",
    AddIdempotent: b"xadd",
    RemoveEntries: b"xdel",
    Trim: b"xtrim",
    Delete: b"del",
    Flush: b"flushall",
    SetId: b"xsetid",
    CreateGroup: b"xgroup|create",
    DestroyGroup: b"xgroup|destroy",
    SetDeadline: b"expire",
    Configure: b"xcfgset",
}
