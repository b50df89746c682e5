"""The intervals in which a region hears nothing from another one, or stands still.

The state of links and regions is looked at with every line of the trace. So a change is dated with
the next event of the run, and in the right order among the events.
"""

from __future__ import annotations

from anabranch.sim.plan import Link
from anabranch.sim.world.world import World
from anabranch.study.diagram.model import Gap, Moment, Outage


class Links:
    """The gaps and the pauses of a run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._closed: dict[Link, Moment] = {}
        self._paused: dict[int, Moment] = {}
        self._starts: dict[int, int] = {}  # region_id → its starts at the last look
        self.gaps: list[Gap] = []
        self.pauses: list[Outage] = []

    def look(self, now: Moment) -> None:
        """Notes the changes since the last look."""
        for link in self._world.plan.links:
            closed = self._is_closed(link)
            if closed and link not in self._closed:
                self._closed[link] = now
            elif not closed and link in self._closed and not self._has_just_started(link[0]):
                receiver, sender = link
                self.gaps.append(Gap(sender, receiver, self._closed.pop(link), now))
        for region_id, region in self._world.regions.items():
            self._starts[region_id] = region.starts
            if region.paused and region_id not in self._paused:
                self._paused[region_id] = now
            elif not region.paused and region_id in self._paused:
                self.pauses.append(Outage(region_id, self._paused.pop(region_id), now, True))

    def _has_just_started(self, region: int) -> bool:
        """Whether a process has started since the last look.

        A start opens all links, and the runner closes those of the table again at once.
        """
        return self._world.regions[region].starts != self._starts.get(region)

    def are_closed(self) -> bool:
        """Whether any region hears nothing from another one now."""
        return bool(self._closed)

    def _is_closed(self, link: Link) -> bool:
        """Whether the receiver gets nothing. A receiver that does not run changes nothing."""
        receiver, sender = link
        if self._world.network.is_cut(sender, receiver):
            return True
        region = self._world.regions[receiver]
        if not region.running:
            return link in self._closed
        return region.engine.state.peers.by_id[sender].is_down

    def finish(self) -> None:
        """Ends the record: what is open stays open to the end of the drawing."""
        for (receiver, sender), since in self._closed.items():
            self.gaps.append(Gap(sender, receiver, since, None))
        for region, since in self._paused.items():
            self.pauses.append(Outage(region, since, None, True))
        self._closed = {}
        self._paused = {}
