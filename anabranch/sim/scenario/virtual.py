"""Scenarios in virtual time: a `ScenarioCluster` in the simulator's world.

Every region runs the real engine, sync and storage. A step with a time falls exactly where a
plan's step would: after all events that were due earlier and after the events that the starts of
the regions had scheduled for that moment, but before all other events of the moment. So a
simulated run that was written as a file is repeated exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, Optional

from anabranch.cluster.errors import ClusterError
from anabranch.region.engine.commands.introspection import keys_of
from anabranch.region.engine.registry import commands
from anabranch.region.engine.replies import CommandError
from anabranch.region.resp.decoder import DecodedReply
from anabranch.sim.checkers import ALL
from anabranch.sim.history import Began, Checker, Operation, Violation
from anabranch.sim.plan import Fault, Link, Plan
from anabranch.sim.run import conclude
from anabranch.sim.scenario.cluster import Ticket
from anabranch.sim.scenario.mismatch import Mismatch
from anabranch.sim.scenario.model import CLIENT_MAX, TIME_MS_MAX, Scenario
from anabranch.sim.scenario.runner import StepWatcher, run_scenario
from anabranch.sim.scenario.table_client import TableClient
from anabranch.sim.timeline.recorder import Recorder
from anabranch.sim.world import faults
from anabranch.sim.world.environment import EPOCH_MS
from anabranch.sim.world.faults import new_world
from anabranch.sim.world.watchers import JudgeFailed, described
from anabranch.sim.world.world import World

SYNC_PATIENCE_MS: Final = 2000
PATIENCE_MS: Final = 30_000
"""How long the cluster waits for an answer, a link or a region."""
BLOCKED_PROOF_MS: Final = 150
"""A command without an answer for this long counts as blocked."""
# The administrator of a region has this number plus the region_id; the regions' own clients have
# lower numbers.
_ADMINISTRATORS: Final = CLIENT_MAX + 101

Tell = Optional[Callable[[tuple[Any, ...]], None]]


class _ReplyObserver(Checker):
    """Sees the replies that regions compute, and their starts."""

    name = "reply observer"
    cluster: VirtualCluster

    def began(self, event: Began) -> None:
        """See `Checker`."""
        self.cluster.began(event)

    def executed(self, operation: Operation) -> None:
        """See `Checker`."""
        client = self.cluster.world.clients.get(operation.client)
        if isinstance(client, TableClient):
            client.computed(operation)


class VirtualCluster:
    """The world of one scenario; `prepare` makes it. A `recorder` records what happens in it."""

    world: World

    def __init__(
        self,
        judges: Sequence[type[Checker]] = ALL,
        tell: Tell = None,
        recorder: Optional[Recorder] = None,
    ) -> None:
        self._judges = list(judges)
        self._recorder = recorder
        self._tell = tell if recorder is None else recorder.tell
        self._zero_ms = EPOCH_MS
        self._mark = 0
        self._time_ms_max = TIME_MS_MAX
        self._closed: dict[Link, None] = {}  # links that the table has closed
        self.violations: list[Violation] = []

    # -- the beginning and the end

    def prepare(self, scenario: Scenario) -> None:
        """See `ScenarioCluster`."""
        try:
            self.world = new_world(
                plan_of(scenario),
                [
                    _ReplyObserver,
                    *(self._judges if scenario.judged else []),
                    *([self._recorder.judge] if self._recorder is not None else []),
                ],
                self._tell,
                keys_named(scenario),
            )
        except (KeyError, ValueError) as error:
            raise ClusterError(f"a setting is wrong: {error}") from error
        self._time_ms_max = scenario.time_ms_max
        observer = self.world.judges[0]
        assert isinstance(observer, _ReplyObserver)
        observer.cluster = self
        for number in dict.fromkeys(
            [
                *scenario.surroundings.clients,
                *sorted({call.client for call in scenario.calls() if call.client}),
            ]
        ):
            self.world.clients[number] = TableClient(number, scenario.regions[0])
        self.world.begin()
        self._mark = self.world.steps_mark
        if not scenario.links_open:
            self._await(
                lambda: self.world.is_level() and all(self._is_up(link) for link in scenario.links),
                "the regions to start",
            )
            self.close_links(scenario.links)
            self._mark = self.world.scheduler.mark()
            self._zero_ms = self.world.scheduler.now_ms
        if self._recorder is not None:
            self._recorder.watch(self.world, self._zero_ms)

    def close(self) -> None:
        """Releases the world."""
        self.world.close()

    def conclude(self, judged: bool) -> list[tuple[str, str]]:
        """See `ScenarioCluster`."""
        world = self.world
        world.scheduler.run_until(world.scheduler.now_ms)
        if judged:
            if self._closed:
                faults.heal(world)
                self.open_links(list(self._closed), waits=False)
            conclude(world)
        self.violations = world.found + [
            violation for judge in world.judges for violation in judge.violations
        ]
        self.violations.sort(key=lambda violation: violation.at_ms)
        if self._recorder is not None:
            self._recorder.conclude()
        return [(one.checker, str(one)) for one in self.violations]

    def began(self, event: Began) -> None:
        """Closes the links that the table has closed, because a start opens all links.

        It runs before anything comes over them.
        """
        for receiver, sender in self._closed:
            if receiver == event.region:
                self.world.ask(receiver, (b"CRDT.LINK", b"%d" % sender, b"DOWN"))

    # -- clients

    def post(
        self, region: int, client: int, commands: Sequence[Sequence[bytes]], at_once: bool
    ) -> list[Ticket]:
        """See `ScenarioCluster`."""
        sender = self._client(client or CLIENT_MAX + region, region)
        if not at_once:
            self.sleep(1)  # the time that a quick client takes
            self._await(lambda: self._is_reachable(region), f"region {region} to run")
        return self._send(sender, region, commands)

    def settle(self, ticket: Ticket) -> None:
        """See `ScenarioCluster`."""
        self._let_pass(lambda: not ticket.is_open, PATIENCE_MS)

    def is_blocked(self, ticket: Ticket) -> bool:
        """See `ScenarioCluster`."""
        self._let_pass(lambda: not ticket.is_open, BLOCKED_PROOF_MS)
        return ticket.is_open

    def gather(self, wanted: Sequence[Ticket]) -> None:
        """See `ScenarioCluster`."""

    def hang_up(self, region: int, client: int) -> None:
        """See `ScenarioCluster`."""
        sender = self._client(client or CLIENT_MAX + region, region)
        self.world.break_line(sender.number)
        sender.lose()

    def _client(self, number: int, region: int) -> TableClient:
        sender = self.world.clients.setdefault(number, TableClient(number, region))
        assert isinstance(sender, TableClient)
        return sender

    def _send(
        self, sender: TableClient, region: int, commands: Sequence[Sequence[bytes]]
    ) -> list[Ticket]:
        world = self.world
        if sender.region != region or sender.number not in world.lines:
            sender.region = region
            world.break_line(sender.number)
            sender.lose()
        reachable = self._is_reachable(region)
        tickets = [Ticket() for _ in commands]
        if reachable:
            sender.to_run.extend(tickets)
        else:
            for ticket in tickets:
                ticket.refuse()
        world.send(sender, [tuple(argv) for argv in commands])
        return tickets

    def _is_reachable(self, region: int) -> bool:
        return self.world.regions[region].running and not self.world.regions[region].paused

    def _administer(self, region: int, *argv: bytes) -> Ticket:
        self._await(lambda: self._is_reachable(region), f"region {region} to run")
        return self._send(self._client(_ADMINISTRATORS + region, region), region, [argv])[0]

    # -- links

    def open_links(self, links: Iterable[Link], waits: bool) -> None:
        """See `ScenarioCluster`."""
        wanted = dict.fromkeys(links)
        for link in wanted:
            self._closed.pop(link, None)
            self._switch(link, b"UP")
        if waits:
            self._await(lambda: all(self._is_up(link) for link in wanted), "links to open")

    def close_links(self, links: Iterable[Link]) -> None:
        """See `ScenarioCluster`."""
        for link in links:
            self._closed[link] = None
            self._switch(link, b"DOWN")

    def _switch(self, link: Link, state: bytes) -> None:
        """Sets the link's state in the receiver if that runs.

        A receiver that starts later closes the link then (`began`), or opens it by itself.
        """
        receiver, sender = link
        region = self.world.regions[receiver]
        if region.running:
            self.world.ask(receiver, (b"CRDT.LINK", b"%d" % sender, state))
            region.stepped()

    def _is_up(self, link: Link) -> bool:
        region = self.world.regions[link[0]]
        return (
            region.running
            and region.engine.state.peers.by_id[link[1]].state == "up"
            and not region.engine.state.peers.by_id[link[1]].is_down
        )

    def links(self, regions: Sequence[int]) -> dict[int, dict[int, str]]:
        """See `ScenarioCluster`."""
        return {
            region: {
                peer: link.state
                for peer, link in self.world.regions[region].engine.state.peers.by_id.items()
            }
            for region in regions
        }

    def sync(self, regions: Sequence[int]) -> bool:
        """See `ScenarioCluster`."""
        tickets = [
            self._administer(region, b"CRDT.SYNC", b"%d" % SYNC_PATIENCE_MS) for region in regions
        ]
        return [self._answer(ticket) for ticket in tickets] == [1] * len(tickets)

    def vectors(self, regions: Sequence[int]) -> dict[int, dict[int, int]]:
        """See `ScenarioCluster`."""
        tickets = {region: self._administer(region, b"CRDT.VECTOR") for region in regions}
        found: dict[int, dict[int, int]] = {}
        for region, ticket in tickets.items():
            reply = self._answer(ticket)
            numbers = (
                [one for one in reply if isinstance(one, int)] if isinstance(reply, list) else []
            )
            found[region] = dict(zip(numbers[0::2], numbers[1::2], strict=True))
        return found

    def _answer(self, ticket: Ticket) -> DecodedReply:
        """The reply; None if the command was refused, lost or not answered in time."""
        self.settle(ticket)
        return None if ticket.is_open or ticket.lost or ticket.refused else ticket.reply

    # -- time and faults

    def strike(self, fault: Fault) -> None:
        """See `ScenarioCluster`."""
        self.world.strike(fault)

    def sleep(self, duration_ms: int) -> None:
        """See `ScenarioCluster`."""
        self._require_time(duration_ms)
        self.world.scheduler.run_until(self.world.scheduler.now_ms + duration_ms)

    def until(self, at_ms: int) -> None:
        """See `ScenarioCluster`."""
        self._require_time()
        if self._zero_ms + at_ms >= self.world.scheduler.now_ms:
            self.world.scheduler.run_before(self._zero_ms + at_ms, self._mark)

    def _let_pass(self, done: Callable[[], bool], patience_ms: int) -> bool:
        """Lets time pass until `done` holds or patience is over; whether `done` holds."""
        self._require_time()
        scheduler = self.world.scheduler
        end_ms = scheduler.now_ms + patience_ms
        scheduler.run_until(scheduler.now_ms)  # events that are due now
        while not done() and scheduler.now_ms < end_ms:
            scheduler.run_until(scheduler.now_ms + 1)
        return done()

    def _require_time(self, further_ms: int = 0) -> None:
        """ClusterError if the scenario would go on for too long."""
        if self.world.scheduler.now_ms + further_ms > EPOCH_MS + self._time_ms_max:
            raise ClusterError(
                f"the scenario takes more than {self._time_ms_max} ms of virtual time"
            )

    def _await(self, done: Callable[[], bool], what: str) -> None:
        if not done() and not self._let_pass(done, PATIENCE_MS):
            raise ClusterError(
                f"waited {PATIENCE_MS} ms for {what} without success: {self.world.why_not_level()}"
            )


def plan_of(scenario: Scenario) -> Plan:
    """The world of a scenario as a plan without clients and steps."""
    around = scenario.surroundings
    return Plan(
        seed=around.seed,
        regions=scenario.regions,
        settings={region: scenario.settings_of(region) for region in scenario.regions},
        clients=(),
        steps=(),
        links=scenario.links,
        load_ms=scenario.until_ms,
        tick_ms=around.tick_ms,
        delay_ms=around.delay_ms,
        loss=around.loss,
        clock_offsets_ms=dict(around.clocks),
        traits=frozenset(around.traits),
    )


def keys_named(scenario: Scenario) -> tuple[bytes, ...]:
    """The keys of the scenario's commands."""
    table = commands()
    found: set[bytes] = set()
    for call in scenario.calls():
        command = table.get(call.argv[0].upper())
        if command is not None and command.subcommands:
            command = command.subcommands.get(call.argv[1].upper()) if len(call.argv) > 1 else None
        if command is not None:
            with suppress(CommandError):  # a wrong command names no keys
                found.update(keys_of(command, list(call.argv)))
    return tuple(sorted(found))


def run_virtually(
    scenario: Scenario,
    judges: Sequence[type[Checker]] = ALL,
    tell: Tell = None,
    recorder: Optional[Recorder] = None,
    watcher: Optional[StepWatcher] = None,
) -> tuple[list[Mismatch], list[Violation]]:
    """Runs a scenario in a new world; returns the mismatches and the judges' violations.

    The violations are among the mismatches. An exception of the code under test is a mismatch, too.
    `recorder` records the run, and takes the lines of the trace instead of `tell`; `watcher` hears
    of the steps.
    """
    cluster = VirtualCluster(judges, tell, recorder)
    try:
        mismatches = run_scenario(scenario, cluster, watcher)
    except (Exception, JudgeFailed) as raised:
        text = described(raised)
        violation = Violation("world", cluster.world.scheduler.now_ms, 0, text)
        return [Mismatch(scenario.path, 0, "while it ran", "world", "", "no exception", text)], [
            *cluster.world.found,
            violation,
        ]
    finally:
        if hasattr(cluster, "world"):
            cluster.close()
    return mismatches, cluster.violations
