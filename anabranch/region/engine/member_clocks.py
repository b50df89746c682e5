"""The clocks of the members beside this region's (S10.2).

Theory of operation
-------------------
A region tells with each heartbeat what its machine's clock reads. The message takes time, so the
receiver learns only by how much that clock is ahead of its own *at least*. It tells that, too. So
each region knows of each other one

- by how much the other clock is ahead of its own, at least, and
- by how much its own clock is ahead of the other, at least, because the other one says so.

Both are certain, however slow a link is. A clock that is certainly further than
`crdt-clock-offset-max-ms` from more than half of the clocks that the region hears of is **apart**:
the region then takes no writes. With one other clock, nobody can tell which one is wrong. A region
that starts waits then, and one that serves goes on.

All that was heard is kept in relation to this region's steady time, so it stays true when this
machine's clock is set.
"""

from __future__ import annotations

from typing import Final, Optional

from anabranch.region.engine.clock import EngineClock
from anabranch.region.engine.members import Members

# More than a start and a recovery in the largest cluster can tell.
_FAR_FLOORS_MAX: Final = 64


class MemberClocks:
    """What this region knows of the clocks of the other members."""

    def __init__(self, clock: EngineClock, members: Members) -> None:
        self._clock: Final = clock
        self._members: Final = members
        # Peer → its clock less this region's steady time.
        self._heard: dict[int, int] = {}
        # Peer → by how much this region's steady time is ahead of the peer's clock, as that says.
        self._told: dict[int, int] = {}
        # This region's clock less steady time when an operator said that it is right.
        self._trusted: Optional[int] = None
        # Clocks told in answers that are too far ahead of this region's: they are no floors (S7.7)
        # unless this region's clock turns out to be behind.
        self.far_floors: Final[set[int]] = set()

    # -- hearing and telling

    def hear(self, peer: int, read_ms: int, ahead: dict[int, int]) -> None:
        """A member says what its clock reads, and by how much others are ahead of it."""
        clock = self._clock
        self._heard[peer] = read_ms - clock.steady_ms
        own = ahead.get(self._members.region_id)
        if own is not None:
            self._told[peer] = own - (clock.read_ms - clock.steady_ms)
        if self._is_agreed():
            clock.confirm()

    def forget(self, peer: int) -> None:
        """The peer has started anew, maybe with another clock."""
        self._heard.pop(peer, None)
        self._told.pop(peer, None)

    def ahead(self) -> dict[int, int]:
        """Peer → by how much its clock is ahead of this region's at least, in ms."""
        own_ms = self._clock.read_ms - self._clock.steady_ms
        return {peer: heard_ms - own_ms for peer, heard_ms in self._heard.items()}

    def trust(self) -> None:
        """The operator says that this region's clock is right."""
        self._trusted = self._clock.read_ms - self._clock.steady_ms
        self._clock.confirm()

    @property
    def is_alone(self) -> bool:
        """Whether no clock of another member is known."""
        return not any(one in self._heard for one in self._members.others())

    # -- what follows

    def _is_agreed(self) -> bool:
        """Whether at least half of the other clocks that are known agree with this region's."""
        offsets = self.ahead()
        known = [offsets[one] for one in self._members.others() if one in offsets]
        agreeing = sum(abs(offset) <= self._clock.offset_max_ms for offset in known)
        return 0 < len(known) <= 2 * agreeing

    def is_far(self, clock_ms: int) -> bool:
        """Whether a clock is further ahead of this region's than it may be."""
        limit_ms = self._clock.offset_max_ms
        return limit_ms > 0 and clock_ms > self._clock.read_ms + limit_ms

    def note_far(self, clock_ms: int) -> None:
        """Notes a floor that is too far ahead. Of too many, the highest is dropped."""
        self.far_floors.add(clock_ms)
        if len(self.far_floors) > _FAR_FLOORS_MAX:
            self.far_floors.remove(max(self.far_floors))

    def take_near_floors(self) -> list[int]:
        """Takes those of `far_floors` that are not too far ahead any more."""
        near = [clock_ms for clock_ms in self.far_floors if not self.is_far(clock_ms)]
        self.far_floors.difference_update(near)
        return near

    def is_past(self, at_ms: int) -> bool:
        """Whether the clock of some other member is past a time, as far as it told."""
        steady_ms = self._clock.steady_ms
        return any(
            self._heard[one] + steady_ms > at_ms
            for one in self._members.others()
            if one in self._heard
        )

    def problem(self, is_starting: bool) -> str:
        """In what way this region's clock is apart from the others; empty if it is not."""
        clock = self._clock
        limit_ms = clock.offset_max_ms
        own_ms = clock.read_ms - clock.steady_ms
        if not limit_ms or (self._trusted is not None and abs(own_ms - self._trusted) <= limit_ms):
            return ""
        heard = [one for one in self._members.others() if one in self._heard]
        if not heard or (len(heard) == 1 and not is_starting):
            return ""
        behind = {one: self._heard[one] - own_ms for one in heard}
        ahead = {one: self._told[one] + own_ms for one in heard if one in self._told}
        for word, offsets in (("behind", behind), ("ahead of", ahead)):
            far = [one for one in heard if offsets.get(one, 0) > limit_ms]
            if 2 * len(far) > len(heard):
                least_ms = min(offsets[one] for one in far)
                return f"{least_ms / 1000:.1f} s {word} {self._members.names_of(far)}"
        if is_starting and not clock.is_confirmed:
            return f"further than {limit_ms} ms from most of {self._members.names_of(heard)}"
        return ""
