"""A timeline: what happened in the regions of a cluster.

    lanes        one for each region
    points       commands of clients, and effects that a region issued by itself
    arrows       effects that a region applied, and the peer that sent them
    gaps         intervals in which a region received nothing from another one
    bands        sync rows of a scenario
    outages      intervals in which a region did not run, or stood still
    marks        cuts, heals and faults, with words
    effects      each dot: the kind of its effect, and words for it
    fates        each entry: where it was added, where it arrived, which effect removed it
    finals       the last state of each key in each region

Times are ms since the beginning of the run. Events are in the order of their moments' numbers. In a
timeline of live regions, the time of an event is that of its region's own clock, so times may
contradict the order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple, Optional

from anabranch.crdt.vector import Dot

# Kinds of effects.
ADD: Final = "add"
GROUP: Final = "group"
"""A create of a group."""
REMOVAL: Final = "removal"
OTHER: Final = "other"

# Kinds of points.
COMMAND: Final = "command"
WAITS: Final = "waits"
"""A command that waits; a point of the kind `LATE` has its reply."""
LATE: Final = "late"
OWN: Final = "own"
"""The region issued effects without a command of a client."""
LOGGED: Final = "logged"
"""A command, or a local record, as a log tells it: its reply is not known."""

# Kinds of marks.
CUT: Final = "cut"
HEAL: Final = "heal"
FAULT: Final = "fault"
STOP: Final = "stop"
START: Final = "start"
NOTE: Final = "note"
"""No event: words about the record of a lane, at its beginning."""


class Moment(NamedTuple):
    """A time in ms, and a number that orders all events of a run."""

    ms: int
    order: int


@dataclass(frozen=True)
class Lane:
    """A region. With `is_unknown` its events are not known, and its line is dotted."""

    region_id: int
    name: str
    is_unknown: bool = False


@dataclass(frozen=True)
class Effect:
    """One effect. `key` None: it concerns every key. `names`: the entries that its text names."""

    dot: Dot
    kind: str
    text: str
    key: Optional[bytes]
    at_ms: int
    names: tuple[Dot, ...] = ()


@dataclass(frozen=True)
class Point:
    """A command with its reply, or effects of the region's own.

    `text` and `reply` are as typed and shown. `first` and `last` are the counters of the effects
    that it issued; first > last if it issued none. `keys` are the keys that the command names.
    `row` is the name of the row of the table in which the command stands, or empty. A crash took
    its effects from the counter `lost_from` on before any peer had them; 0: it took none.
    """

    when: Moment
    region: int
    kind: str
    text: str
    reply: str = ""
    first: int = 1
    last: int = 0
    keys: tuple[bytes, ...] = ()
    client: int = 0
    row: str = ""
    lost_from: int = 0

    def dots(self) -> list[Dot]:
        """The dots of the effects that the point issued."""
        return [(self.region, counter) for counter in range(self.first, self.last + 1)]


@dataclass(frozen=True)
class Arrow:
    """A run of effects of one region that another region applied in one step.

    The effects of region `origin` with the counters `first` to `last` were issued at `issued_ms`
    (the last of them; None: not known), and region `to` applied them at `when`, from its peer
    `via`. With `is_snapshot` they came as state. `removes` are the entries that left region `to`
    with them.
    """

    when: Moment
    origin: int
    first: int
    last: int
    issued_ms: Optional[int]
    via: int
    to: int
    removes: tuple[Dot, ...] = ()
    is_snapshot: bool = False


@dataclass(frozen=True)
class Gap:
    """Region `to` receives nothing from region `source`; `end` None: until the end of the run."""

    source: int
    to: int
    begin: Moment
    end: Optional[Moment]


@dataclass(frozen=True)
class Band:
    """A sync of these regions, named as its row in the table."""

    regions: tuple[int, ...]
    begin: Moment
    end: Moment
    row: str = ""


@dataclass(frozen=True)
class Outage:
    """A region does not run, or stands still (`is_pause`)."""

    region: int
    begin: Moment
    end: Optional[Moment]
    is_pause: bool = False


@dataclass(frozen=True)
class Mark:
    """An event in words. Without regions it concerns all; with one, it stands in that lane."""

    when: Moment
    kind: str
    regions: tuple[int, ...]
    text: str
    row: str = ""


@dataclass(frozen=True)
class Fate:
    """One entry of one stream: `entry_id` and `fields` as shown.

    `arrivals` are (region, ms) pairs: when the entry was there first. `removals` are (region, ms,
    dot of the effect that removed it); the dot is None if no single effect can be named.
    """

    dot: Dot
    key: bytes
    entry_id: str
    fields: tuple[bytes, ...]
    arrivals: tuple[tuple[int, int], ...] = ()
    removals: tuple[tuple[int, int, Optional[Dot]], ...] = ()

    def removed_by(self) -> tuple[Dot, ...]:
        """The dots of the effects that removed the entry anywhere, each once, in order."""
        return tuple(dict.fromkeys(dot for _, _, dot in self.removals if dot is not None))


@dataclass(frozen=True)
class LastState:
    """The last state of a key in a region that runs.

    `entries` are dots in the order of the stream. `groups` are (name, dots of its live creates)
    pairs. `is_hidden`: a deadline hides the key (S10.2). `note` says what of the state is not
    known; empty: all of it is.
    """

    region: int
    key: bytes
    exists: bool
    is_hidden: bool = False
    entries: tuple[Dot, ...] = ()
    groups: tuple[tuple[bytes, tuple[Dot, ...]], ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Timeline:
    """A run, or a part of one; see the docstring of the module.

    `left_out` says what is missing. `notes` are sentences for the head of the drawing.
    """

    title: str
    lanes: tuple[Lane, ...]
    points: tuple[Point, ...] = ()
    arrows: tuple[Arrow, ...] = ()
    gaps: tuple[Gap, ...] = ()
    bands: tuple[Band, ...] = ()
    outages: tuple[Outage, ...] = ()
    marks: tuple[Mark, ...] = ()
    effects: dict[Dot, Effect] = field(default_factory=dict)
    fates: dict[Dot, Fate] = field(default_factory=dict)
    finals: tuple[LastState, ...] = ()
    end_ms: int = 0
    left_out: str = ""
    notes: tuple[str, ...] = ()

    def name_of(self, region: int) -> str:
        """The name of a region; ValueError if it has no lane."""
        for lane in self.lanes:
            if lane.region_id == region:
                return lane.name
        raise ValueError(f"region {region} has no lane")

    def has_applied(self, region: int, dot: Dot) -> bool:
        """Whether the effect was issued in the region, or an arrow brought it there."""
        return dot[0] == region or any(
            (arrow.to, arrow.origin) == (region, dot[0]) and arrow.first <= dot[1] <= arrow.last
            for arrow in self.arrows
        )

    def run_name(self, origin: int, first: int, last: int) -> str:
        """``us:1`` or ``us:1–3``."""
        until = f"–{last}" if last > first else ""
        return f"{self.name_of(origin)}:{first}{until}"

    def events(self) -> int:
        """The number of events that a drawing shows."""
        return len(self.points) + len(self.arrows) + len(self.marks) + len(self.bands)
