"""The world of one run: virtual time, regions, network, clients, judges.

The world carries out a plan; `sim.run` decides on phases and verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final, Optional

from anabranch.crdt.vector import Vector
from anabranch.region.engine.batch import Batch
from anabranch.region.engine.replies import Reply, ReplyLater, listed
from anabranch.region.engine.settings import Settings
from anabranch.sim.history import Checker, Operation, Setup, Shown, Words
from anabranch.sim.load.client import Client, make
from anabranch.sim.plan import REGION_NAMES, Fault, Intent, Plan
from anabranch.sim.world.environment import EPOCH_MS, Environment
from anabranch.sim.world.lines import Line
from anabranch.sim.world.network import Network
from anabranch.sim.world.region import USUAL, SimulatedRegion
from anabranch.sim.world.trace import Trace

SHOW_EVERY_MS: Final = 97
# The most time between two pieces of what a client sends.
PIECE_MS: Final = 12

Strike = Callable[["World", Fault], None]


class World:
    """One world. `judges` receive its events. `strike` lets a fault happen (`faults.strike`)."""

    def __init__(
        self,
        plan: Plan,
        judges: Sequence[type[Checker]],
        strike: Strike,
        tell: Optional[Callable[[tuple[Any, ...]], None]] = None,
        keys: tuple[bytes, ...] = (),
    ) -> None:
        """`keys`: keys that are used besides those of the clients. `tell` receives trace lines."""
        self.plan: Final = plan
        draw = Random(plan.seed ^ 0x5EED)
        members = {REGION_NAMES[region_id - 1]: region_id for region_id in plan.regions}
        self.environment: Final = Environment(plan.seed, plan.tick_ms, members, Trace(tell))
        self.scheduler: Final = self.environment.scheduler
        self.counters: Final = self.environment.counters
        self.found: Final = self.environment.found
        self.network: Final = Network(
            self.environment,
            Random(draw.getrandbits(64)),
            plan.delay_ms,
            "encoded" in plan.traits,
            draw.choice([2, 4, 16]),
        )
        self.regions: Final = {
            region_id: SimulatedRegion(
                self.environment,
                self.network,
                self,
                region_id,
                REGION_NAMES[region_id - 1],
                plan.settings[region_id],
                Random(draw.getrandbits(64)),
            )
            for region_id in plan.regions
        }
        self._answer_draw: Final = Random(draw.getrandbits(64))
        self._piece_draw: Final = Random(draw.getrandbits(64))
        for region_id, region in self.regions.items():
            region.clock.offset_ms = plan.clock_offsets_ms.get(region_id, 0)
            region.peers = [peer for dialler, peer in plan.links if dialler == region_id]
        self.clients: dict[int, Client] = {
            one.number: make(one, plan.regions, self._id_mode) for one in plan.clients
        }
        self.lines: dict[int, Line] = {}  # by client number
        self._sent_ms: dict[int, int] = {}  # client number → when the client last sent commands
        self._operations = 0
        self._running: Optional[SimulatedRegion] = None
        # Functions that end the faults that are states.
        self.undo: list[Callable[[], None]] = []
        # Regions that are gone for good, each with a region to which it is reported as lost.
        self.gone: list[tuple[SimulatedRegion, SimulatedRegion]] = []
        self._strike: Final = strike
        self.keys: Final = tuple(sorted({*keys, *(k for one in plan.clients for k in one.keys)}))
        settings = {one: _all_settings(plan.settings[one]) for one in plan.regions}
        counts = self.environment.counts
        setup = Setup(plan.seed, plan.regions, settings, self.keys, self.ask, counts=counts)
        self.judges: Final = [judge(setup) for judge in judges]
        self.environment.watched_by(self.judges)
        self.steps_mark = 0

    @property
    def trace(self) -> Trace:
        """The trace of the run."""
        return self.environment.trace

    # -- the beginning and the end

    def begin(self) -> None:
        """Starts all regions and schedules the steps of the plan."""
        for region in self.regions.values():
            region.start()
        self.steps_mark = self.scheduler.mark()
        steps = sorted(self.plan.steps, key=lambda step: step.at_ms)
        self.scheduler.beforehand(
            (EPOCH_MS + step.at_ms, self._intend if isinstance(step, Intent) else self.strike, step)
            for step in steps
        )
        self.scheduler.after(SHOW_EVERY_MS, self._show)

    def close(self) -> None:
        """Ends all processes and releases the disks."""
        for region in self.regions.values():
            region.stop("end")
            if region.process is not None:
                region.process.files.opener.forget()

    def note(self, region: int, what: str, *details: Any) -> None:
        """Adds a line to the trace."""
        self.environment.note(region, what, *details)

    def fault_found(self, text: str) -> None:
        """Records a violation that needs no judge: an event that must never happen."""
        self.environment.fault_found(text)

    def strike(self, fault: Fault) -> None:
        """Lets a fault happen now."""
        self.counters[f"fault:{fault.kind}"] += 1
        self.note(0, "fault", fault.kind, list(fault.regions), fault.duration_ms)
        self._strike(self, fault)

    # -- clients

    def _id_mode(self, region_id: int) -> str:
        """The ID mode in force in a region, as clients know it."""
        region = self.regions[region_id]
        mode = "crdt-xadd-id-uniqueness-mode"
        return region.settings.text(mode) if region.running else "strict"

    def operation(
        self,
        client: int,
        region_id: int,
        argv: Words,
        queued: tuple[Words, ...],
        before: Vector,
        clock_ms: int,
    ) -> Operation:
        """See `ClientEvents`."""
        self._operations += 1
        region = self.regions[region_id]
        always = region.settings.text("appendfsync") == "always"
        operation = Operation(
            self._operations,
            client,
            region_id,
            region.starts,
            argv,
            queued,
            self.scheduler.now_ms,
            clock_ms,
            before,
            always,
        )
        operation.commits_fail = region.process is not None and region.process.files.commits_fail
        return operation

    def _intend(self, intent: Intent) -> None:
        client = self.clients[intent.client]
        line = self.lines.get(client.number)
        now_ms = self.scheduler.now_ms
        if line is not None and not line.is_idle():
            if now_ms - self._sent_ms[client.number] < client.patience_ms:
                self.counters["client busy"] += 1
                return
            self.environment.aside(client.region, "gives up", client.number)
            self.break_line(client.number)
        commands = client.act(Random(intent.draw), now_ms)
        if commands:
            self.send(client, commands)

    def send(self, client: Client, commands: list[Words]) -> None:
        """Sends commands to the client's region, on its connection or a new one."""
        region = self.regions[client.region]
        line = self.lines.get(client.number)
        former = self.region_of(line) if line is not None else None
        if line is not None and former is not region:
            self.break_line(client.number)
            line = None
        if not region.running or region.paused:
            self.counters["client refused"] += 1
            if former is not None and former is not region:
                self.environment.aside(former.region_id, "gives up", client.number)
            client.refused(self.scheduler.now_ms)
            return
        if line is None:
            line = self.lines[client.number] = region.lines.connect(client)
        self._sent_ms[client.number] = self.scheduler.now_ms
        self.counters["commands"] += len(commands)
        if self.trace.is_told:
            self.environment.aside(region.region_id, "posts", client.number, commands)
        data = region.lines.send(line, commands)
        assert region.process is not None
        at_ms, begin = 0, 0
        for end in self._cuts(len(data)):
            line.on_the_way.append(data[begin:end])
            if at_ms:
                self.scheduler.after(at_ms, region.process.deliver, line)
            else:
                region.process.deliver(line)
            at_ms, begin = at_ms + 1 + int(self._piece_draw.random() * PIECE_MS), end

    def _cuts(self, size: int) -> list[int]:
        """The ends of the pieces in which so many bytes of a client arrive."""
        draw = self._piece_draw
        if "pieces" not in self.plan.traits or draw.random() < 0.5:
            return [size]
        return sorted({size, *(1 + int(draw.random() * size) for _ in range(3))})

    def region_of(self, line: Line) -> Optional[SimulatedRegion]:
        """The region to which a connection leads."""
        for region in self.regions.values():
            process = region.process
            if process is not None:
                if process.lines.by_session.get(line.session.session_id) is line:
                    return region
        return None

    def break_line(self, client: int) -> None:
        """Breaks the client's connection, or lets the client give it up."""
        line = self.lines.pop(client, None)
        region = self.region_of(line) if line is not None else None
        if line is not None and region is not None:
            region.lines.disconnect(line)

    def end_load(self) -> None:
        """Clients with commands that the region has not executed yet give up their connections.

        A command behind others that wait may else add an entry when all regions are level.
        """
        for number, line in list(self.lines.items()):
            if line.sent:
                self.break_line(number)

    def unanswered(self, client: Client) -> bool:
        """Whether the client waits for an answer."""
        line = self.lines.get(client.number)
        return line is not None and not line.is_idle()

    def answered(self, line: Line, operation: Operation) -> None:
        """A reply leaves the region; the plan's share of replies is lost on the way."""
        if self.plan.loss and not operation.lost:
            if self._answer_draw.random() < self.plan.loss:
                self.counters["fault:answer lost"] += 1
                self.lost(line, operation)
                self.break_line(line.client.number)
                return
        operation.answered_ms = self.scheduler.now_ms
        if operation.answered_ms != operation.at_ms:
            if operation.argv[0].upper() in (b"CRDT.VECTOR", b"CRDT.DIGEST"):
                self.environment.counts.rule("S2.4")
            elif operation.always and not operation.waited:
                self.environment.counts.rule("S13.2")
        self.environment.events.answered(operation)
        line.client.answered(operation)

    def lost(self, line: Line, operation: Operation) -> None:
        """The client will never have the answer."""
        operation.lost = True
        self.environment.events.lost(operation)
        line.client.lost(operation)

    def disconnected(self, line: Line) -> None:
        """See `ClientEvents`."""
        if self.lines.get(line.client.number) is line:
            del self.lines[line.client.number]
            line.client.disconnected()

    # -- the state of the world

    def _show(self) -> None:
        self.environment.events.shown(self.shown())
        self.say_lost()
        self.scheduler.after(SHOW_EVERY_MS, self._show)

    def say_lost(self) -> None:
        """Tells the regions that do not know of it which regions are gone for good (S13.8).

        A region may have lost that knowledge in a restore.
        """
        for gone, region in self.gone:
            if not region.running or region.paused:
                continue
            if not region.engine.members[gone.region_id].lost:
                session = region.engine.clients.connect("operator", "", region.now_ms())
                words = [b"CRDT.MEMBER", b"LOST", gone.name.encode()]
                region.engine.clients.execute_batch(session, Batch(words), region.now_ms())
                region.engine.clients.disconnect(session)
                region.stepped()

    def gaps(self) -> int:
        """How often either end of a link closed it because blocks were missing (S2.2)."""
        running = [region for region in self.regions.values() if region.running]
        now = sum(region.driver.engine.state.replication.gaps for region in running)
        return self.counters["figure:gaps"] + now

    def remaining(self) -> list[SimulatedRegion]:
        """The regions that are not gone for good."""
        return [region for region in self.regions.values() if not region.is_gone]

    def is_connected_without(self, lost: int) -> bool:
        """Whether effects still reach every region when the region `lost` is gone."""
        rest = [region_id for region_id in self.plan.regions if region_id != lost]
        for start in rest:
            reached = [start]
            for one in reached:
                reached += [
                    peer
                    for dialler, peer in self.plan.links
                    if dialler == one and peer != lost and peer not in reached
                ]
            if len(reached) < len(rest):
                return False
        return bool(rest)

    def shown(self) -> dict[int, Shown]:
        """Vector and digest of every running region."""
        result: dict[int, Shown] = {}
        for region_id, region in self.regions.items():
            if region.running and not region.paused:
                keyspace = region.engine.keyspace
                vector, digest = dict(keyspace.vector), keyspace.digest()
                result[region_id] = Shown(region_id, vector, digest, self.scheduler.now_ms)
        return result

    def ask(self, region_id: int, argv: Words) -> Reply:
        """The reply to a reading command, sent on a separate connection."""
        self.environment.counts.is_on = False
        region = self.regions[region_id]
        engine = region.engine
        session = engine.clients.connect("judge", "", region.now_ms())
        reply = engine.clients.execute_batch(session, Batch(list(argv)), region.now_ms())[0][0]
        assert not isinstance(reply, ReplyLater), argv
        engine.clients.disconnect(session)
        self.environment.counts.is_on = True
        return listed(reply)

    def is_level(self) -> bool:
        """Whether all regions run, serve, have equal vectors on disk, and nothing left to write.

        Regions that are gone for good do not count.
        """
        first: Optional[Vector] = None
        for region in self.remaining():
            if not region.running:
                return False
            engine = region.engine
            state = engine.state
            if not state.lifecycle.serves or state.disk.error:
                return False
            if not state.journal.is_empty():
                return False
            if first is None:
                first = engine.vector
            if engine.vector != first or engine.disk_vector != first:
                return False
        return True

    def why_not_level(self) -> str:
        """The state of each region as text for a violation."""
        parts: list[str] = []
        for region in self.remaining():
            if not region.running:
                parts.append(f"{region.name} does not run")
                continue
            engine = region.engine
            links = {peer: link.state for peer, link in engine.state.peers.by_id.items()}
            parts.append(
                f"{region.name} {engine.state.lifecycle.shown} {engine.vector} "
                f"disk {engine.disk_vector} {links} {engine.state.disk.error}"
            )
        return "; ".join(parts)


def _all_settings(values: dict[str, str]) -> dict[str, str]:
    """Every setting's value as text."""
    settings = Settings({**USUAL, **values})
    return {name: str(value) for name, value in settings.values.items()}
