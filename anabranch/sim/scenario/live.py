"""Scenarios against real regions, over TCP.

Between two files the cluster opens every link, flushes all keys, ships everything, restores the
settings and closes the links again. Deadlines survive a flush (S3.3) and are removed later, by an
effect of their own (S10.6). So a cluster refuses a file that uses a key of an earlier file's
deadline, or that counts effects after such a file (`LiveCluster.fits`).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from anabranch.cluster.client import RespClient
from anabranch.cluster.errors import ClusterError, ConnectionFailed
from anabranch.cluster.regions import ProcessCluster
from anabranch.region.resp.decoder import DecodedReply
from anabranch.region.resp.request import Word
from anabranch.sim.plan import Fault, Link
from anabranch.sim.scenario.admins import ANSWER_PATIENCE_S, Admins, Endpoint
from anabranch.sim.scenario.cluster import Ticket
from anabranch.sim.scenario.leftovers import deadline_keys, settings_named
from anabranch.sim.scenario.model import Scenario, Sync, connection
from anabranch.sim.scenario.outages import Outages, only_simulated
from anabranch.sim.scenario.runner import ROUNDS_MAX

MODE_SETTING = "crdt-xadd-id-uniqueness-mode"
LINK_PATIENCE_S = 20.0
BINDING_PATIENCE_S = 2.0
"""How long the runner waits for an answer whose ID a later command names."""
BLOCKED_PROOF_S = 0.15
"""A command without an answer for this long counts as blocked."""


class _Line:
    """A client's connection."""

    def __init__(self, region: int, client: RespClient) -> None:
        self.region = region
        self.client = client
        self.tickets: deque[Ticket] = deque()  # of commands without an answer, in order
        self.is_closed = False

    def close(self) -> None:
        """Closes the connection; the open tickets are lost."""
        self.is_closed = True
        self.client.close()
        while self.tickets:
            self.tickets.popleft().lose()

    def take_in(self, patience_s: float) -> None:
        """Waits `patience_s` for a reply, and reads all replies that have come."""
        try:
            while self.tickets and self.client.readable(patience_s):
                self.tickets[0].computed(self.client.read())
                self.tickets.popleft().answered()
                patience_s = 0.0
        except ConnectionFailed:
            self.close()


class LiveCluster:
    """A `ScenarioCluster` over TCP.

    Besides the clients' connections, the runner has one connection of its own to each region.
    """

    def __init__(
        self, endpoints: Mapping[int, Endpoint], processes: ProcessCluster | None = None
    ) -> None:
        self.endpoints = dict(endpoints)
        self._clients: dict[int, _Line] = {}
        self._originals: dict[tuple[int, str], str] = {}
        self._outages = Outages(processes, self._stopped, self._started, self._closed_from)
        self._admins = Admins(self.endpoints, self._outages.await_reachable)
        self._scenario: Scenario | None = None
        self._closed: dict[Link, None] = {}
        self._zero_s = 0.0
        self.deadline_keys: set[bytes] = set()

    @property
    def broken(self) -> bool:
        """Whether a connection broke."""
        return self._admins.broken

    def fits(self, scenario: Scenario) -> str:
        """Empty if the scenario can run here after the earlier ones; otherwise the reason."""
        if self.broken:
            return "an earlier scenario broke the cluster"
        if scenario.members > len(self.endpoints):
            return f"it needs {scenario.members} regions, and the cluster has {len(self.endpoints)}"
        if self.deadline_keys and any(
            isinstance(step, Sync) and step.effects for step in scenario.steps
        ):
            return (
                "it counts effects, and deadlines of an earlier scenario"
                " may still be on their way out"
            )
        again = sorted(self.deadline_keys & scenario.words)
        return f"key {again[0].decode()} had a deadline in an earlier scenario" if again else ""

    def prepare(self, scenario: Scenario) -> None:
        """See `ScenarioCluster`."""
        impossible = only_simulated(scenario)
        if impossible:
            raise ClusterError(f"only the simulator can do this: {', '.join(impossible)}")
        why = self.fits(scenario)
        if why:
            raise ClusterError(why)
        self.clear()
        names = [
            word.decode().lower() for call in scenario.calls() for word in settings_named(call)
        ]
        for region in self.endpoints:
            for name in [*names, MODE_SETTING, *scenario.settings_of(region)]:
                self._originals.setdefault((region, name), self._admins.setting(region, name))
        self._scenario = scenario
        for region in self.endpoints:
            self._set_up(region)
        self.close_links(
            [
                link
                for link in self._all_links()
                if not (scenario.links_open and link in scenario.links)
            ]
        )
        self.deadline_keys |= deadline_keys(scenario)
        self._zero_s = time.monotonic()

    def _set_up(self, region: int) -> None:
        """Applies the scenario's settings to a region; other settings stay as they are."""
        assert self._scenario is not None
        for name, value in {
            MODE_SETTING: self._scenario.id_mode,
            **self._scenario.settings_of(region),
        }.items():
            self._admins.ok(region, "CONFIG", "SET", name, value)

    def clear(self) -> None:
        """Opens all links, restores all settings, and empties all regions."""
        self._scenario = None
        self._closed = {}
        self._outages.finish()
        self._drop_clients()
        for (region, name), value in self._originals.items():
            self._admins.ok(region, "CONFIG", "SET", name, value)
        self._originals = {}
        self.open_links(self._all_links(), waits=True)
        self._level(sorted(self.endpoints))
        self._admins.ok(min(self.endpoints), "FLUSHALL")
        self._level(sorted(self.endpoints))
        for region in self.endpoints:
            held = self._admins.call(region, "DBSIZE")
            if held != 0:
                raise ClusterError(
                    f"region {self.endpoints[region].name} holds {held!r} keys"
                    " after FLUSHALL and sync"
                )

    def conclude(self, judged: bool) -> list[tuple[str, str]]:
        """See `ScenarioCluster`. The only judge of a live cluster compares digests."""
        if not judged:
            return []
        assert self._scenario is not None
        regions = self._scenario.regions
        self._closed = {}
        self._outages.finish()
        self.open_links(self._scenario.links, waits=True)
        try:
            self._level(regions)
        except ClusterError as error:
            return [("convergence", str(error))]
        digests = {
            self.endpoints[region].name: self._admins.call(region, "CRDT.DIGEST")
            for region in regions
        }
        return (
            []
            if len({str(digest) for digest in digests.values()}) == 1
            else [("digests", f"they differ: {digests}")]
        )

    # -- clients

    def post(
        self, region: int, client: int, commands: Sequence[Sequence[bytes]], at_once: bool
    ) -> list[Ticket]:
        """See `ScenarioCluster`."""
        self._outages.pump()
        tickets = [Ticket() for _ in commands]
        if not self._outages.is_reachable(region):
            if at_once:
                for ticket in tickets:
                    ticket.refuse()
                return tickets
            self._outages.await_reachable(region)
        whose = connection(region, client)
        line = self._clients.get(whose)
        if line is not None and (line.region != region or line.is_closed):
            line.close()
            line = None
        try:
            if line is None:
                line = self._clients[whose] = _Line(region, self._admins.connect(region))
            for argv in commands:
                line.client.send(*argv)
        except ConnectionFailed as error:
            raise self._admins.broke(error) from error
        line.tickets.extend(tickets)
        return tickets

    def settle(self, ticket: Ticket) -> None:
        """See `ScenarioCluster`."""
        self._settle(ticket, ANSWER_PATIENCE_S)

    def is_blocked(self, ticket: Ticket) -> bool:
        """See `ScenarioCluster`."""
        self._settle(ticket, BLOCKED_PROOF_S)
        return ticket.is_open

    def gather(self, wanted: Sequence[Ticket]) -> None:
        """See `ScenarioCluster`."""
        self._outages.pump()
        for line in self._clients.values():
            line.take_in(0.0)
        for ticket in wanted:
            self._settle(ticket, BINDING_PATIENCE_S)

    def hang_up(self, region: int, client: int) -> None:
        """See `ScenarioCluster`."""
        line = self._clients.pop(connection(region, client), None)
        if line is not None:
            line.close()

    def _settle(self, ticket: Ticket, patience_s: float) -> None:
        line = next((each for each in self._clients.values() if ticket in each.tickets), None)
        deadline = time.monotonic() + patience_s
        while line is not None and ticket.is_open and (left_s := deadline - time.monotonic()) > 0:
            line.take_in(self._outages.pause_s(left_s))
            self._outages.pump()

    # -- links

    def open_links(self, links: Iterable[Link], waits: bool) -> None:
        """See `ScenarioCluster`."""
        wanted = list(links)
        for link in wanted:
            self._closed.pop(link, None)
            self._admins.ok(link[0], "CRDT.LINK", self.endpoints[link[1]].name, "UP")
        deadline = time.monotonic() + LINK_PATIENCE_S
        waiting = wanted if waits else []
        while waiting:
            states = self.links([receiver for receiver, _ in waiting])
            waiting = [link for link in waiting if states[link[0]].get(link[1]) != "up"]
            if waiting and time.monotonic() > deadline:
                receiver, sender = waiting[0]
                names = f"{self.endpoints[receiver].name} from {self.endpoints[sender].name}"
                raise ClusterError(
                    f"the link by which {names} receives is {states[receiver].get(sender)}"
                    f" after {LINK_PATIENCE_S} s"
                )
            if waiting:
                time.sleep(0.005)

    def close_links(self, links: Iterable[Link]) -> None:
        """See `ScenarioCluster`."""
        for link in links:
            self._closed[link] = None
            self._admins.ok(link[0], "CRDT.LINK", self.endpoints[link[1]].name, "DOWN")

    def sync(self, regions: Sequence[int]) -> bool:
        """See `ScenarioCluster`."""
        return self._admins.sync(regions)

    def vectors(self, regions: Sequence[int]) -> dict[int, dict[int, int]]:
        """See `ScenarioCluster`."""
        return self._admins.vectors(regions)

    def links(self, regions: Sequence[int]) -> dict[int, dict[int, str]]:
        """See `ScenarioCluster`."""
        return self._admins.links(regions)

    def sleep(self, duration_ms: int) -> None:
        """See `ScenarioCluster`."""
        self._sleep_until(time.monotonic() + duration_ms / 1000)

    def until(self, at_ms: int) -> None:
        """See `ScenarioCluster`."""
        self._sleep_until(self._zero_s + at_ms / 1000)

    def _sleep_until(self, end_s: float) -> None:
        while (left_s := end_s - time.monotonic()) > 0:
            time.sleep(self._outages.pause_s(left_s))
            self._outages.pump()

    def strike(self, fault: Fault) -> None:
        """See `ScenarioCluster`."""
        self._outages.pump()
        self._outages.strike(fault)

    def _closed_from(self, region: int) -> list[int]:
        """The regions whose links to this one are closed."""
        return [sender for receiver, sender in self._closed if receiver == region]

    def _stopped(self, region: int) -> None:
        """Closes the connections to a process that has ended; replies that came before count."""
        for whose in [whose for whose, line in self._clients.items() if line.region == region]:
            line = self._clients.pop(whose)
            line.take_in(0.0)
            line.close()
        self._admins.drop(region)

    def _started(self, region: int) -> None:
        """Repeats the settings and closed links to a region that has started again."""
        for receiver, sender in self._closed:
            if receiver == region:
                self._admins.ok(receiver, "CRDT.LINK", self.endpoints[sender].name, "DOWN")
        if self._scenario is not None:
            self._set_up(region)

    def ask(self, region: int, *argv: Word) -> DecodedReply:
        """The reply to a command on the runner's own connection."""
        return self._admins.call(region, *argv)

    def setting(self, region: int, name: str) -> str:
        """The value of a setting, as CONFIG GET shows it."""
        return self._admins.setting(region, name)

    def release(self) -> None:
        """Opens all links, restores all settings, and disconnects; the data stays.

        ClusterError, once that is done with all others, if some regions do not take it.
        """
        self._drop_clients()
        problems: list[str] = []
        for region in self.endpoints:
            try:
                self._release(region)
            except ClusterError as error:
                problems.append(f"{self.endpoints[region].name}: {error}")
        self._originals = {}
        self._closed = {}
        self.disconnect()
        if problems:
            raise ClusterError("; ".join(problems))

    def _release(self, region: int) -> None:
        """Restores the settings of one region, and opens the links by which it receives."""
        for (one, name), value in self._originals.items():
            if one == region:
                self._admins.ok(region, "CONFIG", "SET", name, value)
        self.open_links([link for link in self._all_links() if link[0] == region], waits=False)

    def disconnect(self) -> None:
        """Closes all connections."""
        self._drop_clients()
        self._admins.close()

    def _level(self, regions: Sequence[int]) -> None:
        vectors: list[dict[int, int]] = []
        for _ in range(ROUNDS_MAX):
            answered = self.sync(regions)
            vectors = list(self.vectors(regions).values())
            if answered and all(vector == vectors[0] for vector in vectors):
                return
        raise ClusterError(f"regions did not level: {vectors}; their links: {self.links(regions)}")

    def _all_links(self) -> list[Link]:
        return [
            (receiver, sender)
            for receiver in self.endpoints
            for sender in self.endpoints
            if receiver != sender
        ]

    def _drop_clients(self) -> None:
        for line in self._clients.values():
            line.close()
        self._clients = {}
