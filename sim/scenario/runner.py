"""Runs a scenario on a cluster and compares what comes back.

Links are closed except in Sync rows. A Sync row opens the links among its regions, cut ones excepted, and ends when, among regions that
a path of open links joins, `CRDT.SYNC` has answered 1 in each and all vectors are equal and at rest: nothing moved since the round
before, so that what a merge makes a region announce (S8.1, S9.2) belongs to the row too. Then it closes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sim.scenario.cluster import ClusterError, Link, ScenarioCluster
from sim.scenario.expectation import Bindings, ErrorText, Expectation, Shape, matches, render
from sim.scenario.model import Answer, Call, Cut, Heal, Scenario, Step, Sync, Wait
from sim.scenario.shape import Reply, shape, shape_of_transaction

ROUNDS_MAX = 50
"""A Sync row that has not come to rest after so many rounds fails."""


@dataclass(frozen=True)
class Mismatch:
    """One thing that is not as the table says."""

    path: str
    line: int
    time: str
    region: str
    command: str
    expected: str
    got: str

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}: {self.time}, {self.region}: {self.command}"
        return f"{where}\n    expected {self.expected}\n    got      {self.got}"


def run_scenario(scenario: Scenario, cluster: ScenarioCluster) -> list[Mismatch]:
    """Runs the whole file; what differed, in order. A cluster that fails ends the run with a mismatch that says how."""
    return _Run(scenario, cluster).run()


class _Run:
    """One run: bindings, cut links and open transactions."""

    def __init__(self, scenario: Scenario, cluster: ScenarioCluster) -> None:
        self.scenario = scenario
        self.cluster = cluster
        self.bindings = Bindings()
        self.cut: set[frozenset[int]] = set()
        self.queued: dict[int, list[tuple[bytes, ...]]] = {}
        self.waiting: dict[int, Call] = {}
        self.mismatches: list[Mismatch] = []

    def run(self) -> list[Mismatch]:
        step: Step | None = None
        try:
            self.cluster.prepare(self.scenario)
            for each in self.scenario.steps:
                step = each
                self._step(step)
        except ClusterError as error:
            line, time = (step.line, step.time) if step is not None else (0, "before the first row")
            self.mismatches.append(Mismatch(self.scenario.path, line, time, "cluster", "", "to go on", str(error)))
        return self.mismatches

    def _step(self, step: Step) -> None:
        if isinstance(step, Call):
            self._call(step)
        elif isinstance(step, Answer):
            call = self.waiting.pop(step.region)
            self._compare(step, call.argv, step.expected, shape(call.argv, self.cluster.finish(step.region)))
        elif isinstance(step, Sync):
            self._sync(step)
        elif isinstance(step, Cut):
            self.cut |= _pairs(step.regions)
        elif isinstance(step, Heal):
            self.cut -= _pairs(step.regions)
        else:
            assert isinstance(step, Wait)
            self.cluster.sleep(step.duration_ms)

    def _call(self, call: Call) -> None:
        argv = self.bindings.substitute(call.argv)
        if call.blocks:
            self.cluster.begin(call.region, argv)
            self.waiting[call.region] = call
            if not self.cluster.waits(call.region):
                self._note(call, call.argv, "no answer yet", "an answer at once")
            return
        reply = self.cluster.execute(call.region, argv)
        self._compare(call, call.argv, call.expected, self._shape(call, argv, reply))

    def _shape(self, call: Call, argv: Sequence[bytes], reply: Reply) -> Shape:
        """The reply's shape; notes IDs that the region generated, and what a transaction queues."""
        name = argv[0].upper()
        if name == b"EXEC":
            queued = self.queued.pop(call.region, [])
            if isinstance(reply, list) and len(reply) == len(queued):
                for each, one in zip(queued, reply, strict=True):
                    self._note_generated(call, each, one)
            return shape_of_transaction(queued, reply)
        if name == b"MULTI":
            self.queued[call.region] = []
        elif name in (b"DISCARD", b"RESET"):
            self.queued.pop(call.region, None)
        elif call.region in self.queued and reply == b"QUEUED":
            self.queued[call.region].append(tuple(argv))
        else:
            self._note_generated(call, argv, reply)
        return shape(argv, reply)

    def _note_generated(self, call: Call, argv: Sequence[bytes], reply: Reply) -> None:
        if argv[0].upper() == b"XADD" and b"*" in argv[2:] and isinstance(reply, bytes):
            wrong = self.bindings.generate(call.region, reply.decode())
            if wrong is not None:
                self._note(call, call.argv, "an ID that fits the region", wrong)

    def _sync(self, step: Sync) -> None:
        links = [link for link in _links(step.regions) if frozenset(link) not in self.cut]
        before = self.cluster.vectors(step.regions)
        self.cluster.open_links(links)
        after = self._level(step, links)
        self.cluster.close_links(links)
        for region, number in step.effects:
            least = min(vector.get(region, 0) for vector in before.values())
            carried = max(vector.get(region, 0) for vector in after.values()) - least
            if carried != number:
                name = self.scenario.name_of(region)
                self._note(step, (b"Sync",), f"effects {name}={number}", f"effects {name}={carried}")

    def _level(self, step: Sync, links: Sequence[Link]) -> dict[int, dict[int, int]]:
        """Syncs until nothing moves; the vectors then."""
        groups = _connected(step.regions, links)
        linked = [region for group in groups if len(group) > 1 for region in group]
        last: dict[int, dict[int, int]] = {}
        for _ in range(ROUNDS_MAX):
            answered = self.cluster.sync(linked)
            now = self.cluster.vectors(step.regions)
            if answered and now == last and all(now[region] == now[group[0]] for group in groups for region in group):
                return now
            last = now
        shown = "; ".join(f"{self.scenario.name_of(region)} {vector}" for region, vector in last.items())
        raise ClusterError(f"the regions did not level in {ROUNDS_MAX} rounds of CRDT.SYNC: {shown}")

    def _compare(self, step: Call | Answer, argv: Sequence[bytes], expected: Expectation | None, got: Shape) -> None:
        if expected is None:
            if isinstance(got, ErrorText):
                self._note(step, argv, "no error", render(got, self.bindings))
        elif not matches(expected, got, self.bindings):
            self._note(step, argv, str(expected), render(got, self.bindings))

    def _note(self, step: Step, argv: Sequence[bytes], expected: str, got: str) -> None:
        region = self.scenario.name_of(step.region) if isinstance(step, (Call, Answer)) else "Sync"
        command = " ".join(word.decode("utf-8", "backslashreplace") for word in argv)
        self.mismatches.append(Mismatch(self.scenario.path, step.line, step.time, region, command, expected, got))


def _pairs(regions: Sequence[int]) -> set[frozenset[int]]:
    return {frozenset((a, b)) for a in regions for b in regions if a != b}


def _links(regions: Sequence[int]) -> list[Link]:
    return [(receiver, sender) for receiver in regions for sender in regions if receiver != sender]


def _connected(regions: Sequence[int], links: Sequence[Link]) -> list[list[int]]:
    """The regions in groups that paths of links join."""
    group = {region: {region} for region in regions}
    for a, b in links:
        if group[a] is not group[b]:
            group[a] |= group[b]
            for region in group[b]:
                group[region] = group[a]
    return [sorted(one) for one in {id(one): one for one in group.values()}.values()]
