"""The world of one run: virtual time, regions, network, clients, judges. It carries out a plan; `sim.run` decides on phases and verdict."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from random import Random
from typing import Any, Final, Optional

from anabranch.region.engine.lifecycle import SERVING
from anabranch.region.engine.replies import Reply, Waiting
from anabranch.region.engine.settings import Settings
from anabranch.region.engine.state import EngineState
from anabranch.sim.history import Checker, Operation, Setup, Shown, Vector, Violation, Words
from anabranch.sim.load.client import Client, make
from anabranch.sim.plan import Fault, Intent, Plan
from anabranch.sim.world import faults
from anabranch.sim.world.clients import Line
from anabranch.sim.world.disk import Disk
from anabranch.sim.world.network import Network
from anabranch.sim.world.region import SimulatedRegion
from anabranch.sim.world.scheduler import Scheduler
from anabranch.sim.world.trace import Trace

EPOCH_MS: Final = 1_700_000_000_000
NAMES: Final = (
    "us",
    "eu",
    "ap",
    "sa",
    "af",
    "oc",
    "me",
    "in",
    "r9",
    "r10",
    "r11",
    "r12",
    "r13",
    "r14",
    "r15",
    "r16",
)
SHOW_EVERY_MS: Final = 97
FIGURES: Final = (
    "effects_merged", "snapshots_joined", "snapshots_cut", "gaps", "forks", "divergences", "idmp_conflicts",
    "expired_keys", "expired_early", "acknowledgements",
)  # fmt: skip


class World:
    """`judges` watch; `counters` count what happened, for the table of a sweep and for the rules."""

    def __init__(
        self,
        plan: Plan,
        judges: list[type[Checker]],
        tell: Optional[Callable[[tuple[Any, ...]], None]] = None,
        keys: tuple[bytes, ...] = (),
    ) -> None:
        """`keys`: those that are used, besides the clients' own."""
        self.plan = plan
        self.scheduler = Scheduler(EPOCH_MS)
        self.trace = Trace(tell)
        self.counters: defaultdict[str, int] = defaultdict(int)
        self.disk_prefix = f"{plan.seed}-"
        self.tick_ms = plan.tick_ms
        self.found: list[Violation] = []
        draw = Random(plan.seed ^ 0x5EED)
        self.members = {NAMES[region_id - 1]: region_id for region_id in plan.regions}
        self.network = Network(
            self,
            Random(draw.getrandbits(64)),
            plan.delay_ms,
            "encoded" in plan.traits,
            draw.choice([2, 4, 16]),
        )
        self.regions = {
            region_id: SimulatedRegion(
                self,
                region_id,
                NAMES[region_id - 1],
                plan.settings[region_id],
                Random(draw.getrandbits(64)),
            )
            for region_id in plan.regions
        }
        self.answer_draw = Random(draw.getrandbits(64))
        for region_id, region in self.regions.items():
            region.clock_offset_ms = plan.clock_offsets_ms.get(region_id, 0)
            region.peers = [peer for dialler, peer in plan.links if dialler == region_id]
        self.clients: dict[int, Client] = {
            one.number: make(one, plan.regions, self.id_mode) for one in plan.clients
        }
        self.lines: dict[int, Line] = {}  # by client
        self.sent_ms: dict[int, int] = {}  # by client: when it last sent something
        self.operations = 0
        self.undo: list[Callable[[], None]] = []  # what ends the faults that are states
        self.gone: list[SimulatedRegion] = []  # for good, and the others are told so
        self._cuts: dict[int, tuple[str, int, Callable[[Disk], None] | None]] = {}
        self.keys = tuple(sorted({*keys, *(key for one in plan.clients for key in one.keys)}))
        setup = Setup(
            plan.seed,
            plan.regions,
            {one: _all_settings(plan.settings[one]) for one in plan.regions},
            self.keys,
            self.ask,
        )
        self.judges = [judge(setup) for judge in judges]
        self.judge_began = self._judge("began")
        self.judge_stopped = self._judge("stopped")
        self.judge_moved = self._judge("moved")
        self.judge_committed = self._judge("committed")
        self.judge_executed = self._judge("executed")
        self._judge_answered = self._judge("answered")
        self._judge_lost = self._judge("lost")
        self.judge_shown = self._judge("shown")

    def _judge(self, event: str) -> Callable[[Any], None]:
        """Tells an event to the judges that look at it."""
        interested = [
            getattr(judge, event)
            for judge in self.judges
            if getattr(type(judge), event) is not getattr(Checker, event)
        ]

        def tell(value: Any) -> None:
            for each in interested:
                each(value)

        return tell

    # -- the beginning -----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Starts all regions and puts the plan's steps into the schedule."""
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
        """Ends all processes; nothing of the run is left."""
        for region in self.regions.values():
            region.stop("end")
            region.opener.forget()

    # -- what regions tell -------------------------------------------------------------------------------------------

    def note(self, region: int, what: str, *details: Any) -> None:
        self.trace.note((self.scheduler.now_ms - EPOCH_MS, region, what, *details))

    def aside(self, region: int, what: str, *details: Any) -> None:
        """A line for people alone, made only when somebody is told (`trace.is_told`)."""
        self.trace.aside(self.scheduler.now_ms - EPOCH_MS, region, what, *details)

    def said(self, source: int, target: int, message: Any) -> None:
        self.note(target, "hears", source, type(message).__name__)

    def count_figures(self, state: EngineState, counts: dict[str, int]) -> None:
        """What a process that ends had counted, as INFO shows it."""
        for name in FIGURES:
            if value := getattr(state.replication, name):
                self.counters[f"figure:{name}"] += value
        more = {
            "idmp_evicted_early": state.keyspace.pair_limits.forgotten_early,
            "unit_max_bytes_refused": state.statistics.unit_max_bytes_refused,
        }
        for name, value in more.items():
            if value:
                self.counters[f"figure:{name}"] += value
        for name, value in counts.items():
            if value:
                self.counters[f"sync:{name}"] += value

    def fault_found(self, text: str) -> None:
        """Something that no judge need look for: it must not happen at all."""
        self.found.append(Violation("world", self.scheduler.now_ms, 0, text))

    # -- clients -----------------------------------------------------------------------------------------------------

    def id_mode(self, region_id: int) -> str:
        """The ID mode in force there, as clients know it."""
        region = self.regions[region_id]
        return region.settings.text("crdt-xadd-id-uniqueness-mode") if region.running else "strict"

    def operation(
        self,
        client: int,
        region: SimulatedRegion,
        argv: Words,
        queued: tuple[Words, ...],
        before: Vector,
        clock_ms: int,
    ) -> Operation:
        self.operations += 1
        always = region.settings.text("appendfsync") == "always"
        return Operation(
            self.operations,
            client,
            region.region_id,
            region.starts,
            argv,
            queued,
            self.scheduler.now_ms,
            clock_ms,
            before,
            always,
        )

    def _intend(self, intent: Intent) -> None:
        client = self.clients[intent.client]
        line = self.lines.get(client.number)
        now_ms = self.scheduler.now_ms
        if line is not None and not line.is_idle():
            if now_ms - self.sent_ms[client.number] < client.patience_ms:
                self.counters["client busy"] += 1
                return
            self.trace.aside(now_ms - EPOCH_MS, client.region, "gives up", client.number)
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
                self.aside(former.region_id, "gives up", client.number)
            client.refused(self.scheduler.now_ms)
            return
        if line is None:
            line = self.lines[client.number] = region.clients.connect(client)
        self.sent_ms[client.number] = self.scheduler.now_ms
        self.counters["commands"] += len(commands)
        if self.trace.is_told:
            self.aside(region.region_id, "posts", client.number, commands)
        region.clients.send(line, commands)
        region.stepped("tick")

    def region_of(self, line: Line) -> Optional[SimulatedRegion]:
        """The region that a connection leads to."""
        for region in self.regions.values():
            if region.clients.lines.get(line.session.session_id) is line:
                return region
        return None

    def break_line(self, client: int) -> None:
        """The client's connection breaks, or it gives up."""
        line = self.lines.pop(client, None)
        region = self.region_of(line) if line is not None else None
        if line is not None and region is not None:
            region.clients.disconnect(line)

    def unanswered(self, client: Client) -> bool:
        """Whether the client waits for an answer."""
        line = self.lines.get(client.number)
        return line is not None and not line.is_idle()

    def answered(self, line: Line, operation: Operation) -> None:
        """A reply leaves the region; now and then it is lost on the way."""
        if self.plan.loss and not operation.lost and self.answer_draw.random() < self.plan.loss:
            self.counters["fault:answer lost"] += 1
            self.lost(line, operation)
            self.break_line(line.client.number)
            return
        operation.answered_ms = self.scheduler.now_ms
        self._judge_answered(operation)
        line.client.answered(operation)

    def lost(self, line: Line, operation: Operation) -> None:
        """The client will never have the answer."""
        operation.lost = True
        self._judge_lost(operation)
        line.client.lost(operation)

    def disconnected(self, line: Line) -> None:
        if self.lines.get(line.client.number) is line:
            del self.lines[line.client.number]
            line.client.disconnected()

    # -- faults ------------------------------------------------------------------------------------------------------

    def strike(self, fault: Fault) -> None:
        """A fault happens now."""
        self.counters[f"fault:{fault.kind}"] += 1
        self.note(0, "fault", fault.kind, list(fault.regions), fault.duration_ms)
        faults.strike(self, fault)

    def cut_disk(
        self,
        region: SimulatedRegion,
        operations: int,
        how: str,
        restart_ms: int,
        power: Callable[[Disk], None] | None,
    ) -> None:
        """The region dies at the disk operation after so many."""
        self._cuts[region.region_id] = (how, restart_ms, power)
        region.disk.cut_in(operations, lambda: None)

    def died(self, region: SimulatedRegion) -> None:
        """It has."""
        how, restart_ms, power = self._cuts.pop(region.region_id, ("kill", 50, None))
        self.counters[f"died in a write: {how}"] += 1
        region.stop(how, silently=how == "power", power=power)
        self.scheduler.after(restart_ms, region.start_if_stopped)

    # -- what the world shows ----------------------------------------------------------------------------------------

    def _show(self) -> None:
        self.judge_shown(self.shown())
        if self.gone:
            faults.say_lost(self)
        self.scheduler.after(SHOW_EVERY_MS, self._show)

    def remaining(self) -> list[SimulatedRegion]:
        """The regions that are not gone for good."""
        return [region for region in self.regions.values() if not region.is_gone]

    def is_connected_without(self, lost: int) -> bool:
        """Whether everything still gets everywhere when a region is gone."""
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
                result[region_id] = Shown(
                    region_id, dict(keyspace.vector), keyspace.digest(), self.scheduler.now_ms
                )
        return result

    def ask(self, region_id: int, argv: Words) -> Reply:
        """A reading command's reply, on a connection of its own."""
        region = self.regions[region_id]
        engine = region.engine
        session = engine.connect("judge", "", region.now_ms())
        reply = engine.execute(session, list(argv), region.now_ms())
        assert not isinstance(reply, Waiting), argv
        engine.disconnect(session)
        return reply

    def is_level(self) -> bool:
        """Whether all regions run, serve, and hold the same, on their disks, with nothing left to write; those gone for good aside."""
        first: Optional[Vector] = None
        for region in self.remaining():
            if not region.running:
                return False
            engine = region.engine
            if (
                engine.state.lifecycle.state != SERVING
                or engine.state.disk.error
                or not engine.state.journal.is_empty()
            ):
                return False
            if first is None:
                first = engine.vector
            if engine.vector != first or engine.disk_vector != first:
                return False
        return True

    def why_not_level(self) -> str:
        """For people."""
        parts: list[str] = []
        for region in self.remaining():
            if not region.running:
                parts.append(f"{region.name} does not run")
                continue
            engine = region.engine
            links = {peer: link.state for peer, link in engine.state.peers.by_id.items()}
            parts.append(
                f"{region.name} {engine.state.lifecycle.state} {engine.vector} disk {engine.disk_vector} {links} {engine.state.disk.error}"
            )
        return "; ".join(parts)


def _all_settings(values: dict[str, str]) -> dict[str, str]:
    """Every setting's value, by name."""
    return {name: str(value) for name, value in Settings(dict(values)).values.items()}
