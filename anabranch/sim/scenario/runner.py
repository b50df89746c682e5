"""Runs a scenario on a cluster and compares the replies with the expected ones.

Links are closed except in Sync rows, unless the header opens them. A Sync row opens the links
among its regions, except cut ones. It ends when, among regions joined by a path of open links,
`CRDT.SYNC` has answered 1 in each and all vectors are equal and unchanged since the round before,
so that announcements and removals that follow from a merge (S8.1, S9.2) belong to the row, too.
Then it closes the links.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional, Protocol

from anabranch.cluster.errors import ClusterError
from anabranch.region.resp.decoder import DecodedReply, ErrorText
from anabranch.sim.plan import Link
from anabranch.sim.scenario.cluster import ScenarioCluster, Ticket
from anabranch.sim.scenario.expectation import (
    Bindings,
    Expectation,
    Shape,
    matches,
    render,
    words_in,
)
from anabranch.sim.scenario.mismatch import Mismatch
from anabranch.sim.scenario.model import (
    Call,
    Cut,
    ExpectedReply,
    HangUp,
    Heal,
    Scenario,
    Step,
    Strike,
    Sync,
    Until,
    Wait,
    connection,
)
from anabranch.sim.scenario.shape import shape, shape_of_transaction

ROUNDS_MAX = 50
"""A Sync row fails if it has not come to rest after this many rounds."""


class StepWatcher(Protocol):
    """Hears of the steps, except commands of rows with a time in ms: these run in later steps."""

    def begins(self, step: Step) -> None:
        """A step begins."""

    def ends(self, step: Step) -> None:
        """The step is over."""


def run_scenario(
    scenario: Scenario, cluster: ScenarioCluster, watcher: Optional[StepWatcher] = None
) -> list[Mismatch]:
    """Runs the whole file; returns the mismatches, by line.

    A cluster that fails ends the run with a mismatch that says how. `watcher` hears of each step.
    """
    return Run(scenario, cluster, watcher).run()


@dataclass(frozen=True)
class _Posted:
    """A command whose answer the runner has not waited for."""

    call: Call
    argv: list[bytes]
    ticket: Ticket


class Run:
    """One run: bindings, cut links, open transactions, and commands without an answer."""

    def __init__(
        self, scenario: Scenario, cluster: ScenarioCluster, watcher: Optional[StepWatcher] = None
    ) -> None:
        self.watcher = watcher
        self.scenario = scenario
        self.cluster = cluster
        self.bindings = Bindings()
        self.cut: set[frozenset[int]] = set()
        self.queued: dict[int, list[tuple[bytes, ...]]] = {}
        # connection → the command that the table says is blocked.
        self.waiting: dict[int, _Posted] = {}
        # Commands to be sent together.
        self.pipeline: list[Call] = []
        # Commands of rows with a time in ms, in order.
        self.posted: list[_Posted] = []
        self.mismatches: list[Mismatch] = []

    def run(self) -> list[Mismatch]:
        step: Step | None = None
        try:
            self.cluster.prepare(self.scenario)
            for each in self.scenario.steps:
                step = each
                if isinstance(step, Call) and step.at_once:
                    self._collect(step)
                    continue
                self._post()
                if self.watcher is not None:
                    self.watcher.begins(step)
                self.perform(step)
                if self.watcher is not None:
                    self.watcher.ends(step)
            self._post()
            self._end()
        except ClusterError as error:
            line, time = (step.line, step.time) if step is not None else (0, "before the first row")
            self.mismatches.append(
                Mismatch(
                    self.scenario.path, line, time, "cluster", "", "a working cluster", str(error)
                )
            )
        self.mismatches.sort(key=lambda mismatch: mismatch.line or 1 << 30)
        return self.mismatches

    def perform(self, step: Step) -> None:
        """Performs one step; the commands of rows with a time come by `_collect`."""
        cluster = self.cluster
        if isinstance(step, Call):
            self._call(step)
        elif isinstance(step, ExpectedReply):
            waiting = self.waiting.pop(connection(step.region, step.client))
            cluster.settle(waiting.ticket)
            self._compare(step, waiting.call.argv, step.expected, self._outcome(waiting))
        elif isinstance(step, HangUp):
            cluster.hang_up(step.region, step.client)
            self.waiting.pop(connection(step.region, step.client), None)
        elif isinstance(step, Sync):
            self._sync(step)
        elif isinstance(step, (Cut, Heal)):
            self._cut(step)
        elif isinstance(step, Until):
            cluster.until(step.at_ms)
            self._gather([])
        elif isinstance(step, Strike):
            cluster.strike(step.fault)
        else:
            assert isinstance(step, Wait)
            cluster.sleep(step.duration_ms)

    # -- commands

    def _call(self, call: Call) -> None:
        self._gather([])
        argv = self.bindings.substitute(call.argv)
        (ticket,) = self.cluster.post(call.region, call.client, [argv], at_once=False)
        posted = _Posted(call, argv, ticket)
        if call.blocks:
            self.waiting[connection(call.region, call.client)] = posted
            if not self.cluster.is_blocked(posted.ticket):
                self._note(call, call.argv, "no answer yet", "an answer at once")
            return
        self.cluster.settle(posted.ticket)
        self._compare(call, call.argv, call.expected, self._outcome(posted))

    def _collect(self, call: Call) -> None:
        """Collects commands behind one label, which are sent together."""
        before = self.pipeline[-1] if self.pipeline else call
        if (before.line, before.region, before.client, before.post) != (
            call.line,
            call.region,
            call.client,
            call.post,
        ):
            self._post()
        self.pipeline.append(call)

    def _post(self) -> None:
        """Sends the collected commands, after waiting for replies with the IDs that they name."""
        calls, self.pipeline = self.pipeline, []
        if not calls:
            return
        named = {
            word.decode("utf-8", "replace").removeprefix("(")
            for call in calls
            for word in call.argv
        }
        self._gather(
            [
                one.ticket
                for one in self.posted
                if one.call.expected and not named.isdisjoint(words_in(one.call.expected))
            ]
        )
        commands = [self.bindings.substitute(call.argv) for call in calls]
        tickets = self.cluster.post(calls[0].region, calls[0].client, commands, at_once=True)
        self.posted += [_Posted(*one) for one in zip(calls, commands, tickets, strict=True)]

    def _gather(self, wanted: Sequence[Ticket]) -> None:
        """Compares the replies that have come; those of each connection in order."""
        if not self.posted:
            return
        self.cluster.gather(wanted)
        ready: list[_Posted] = []
        left: list[_Posted] = []
        behind: set[int] = set()
        for one in self.posted:
            whose = connection(one.call.region, one.call.client)
            if whose in behind or (one.ticket.is_open and not one.ticket.has_reply):
                behind.add(whose)
                left.append(one)
            else:
                ready.append(one)
        self.posted = left
        # All shapes first, because they record which IDs regions generated: the reply of a waiting
        # command may contain an ID that was generated after it.
        for one, got in [(one, self._shape_of(one)) for one in ready]:
            self._take_in(one, got)

    def _shape_of(self, one: _Posted) -> Shape:
        """The shape of a reply to a posted command; None if there is no reply."""
        got = self.shape_of(one.call, one.argv, one.ticket.reply) if one.ticket.has_reply else None
        if one.ticket.lost or one.ticket.refused:
            self.queued.pop(connection(one.call.region, one.call.client), None)
        return got

    def _take_in(self, one: _Posted, got: Shape) -> None:
        """Compares a reply; one that was lost on its way only binds IDs: no client saw it."""
        call, ticket = one.call, one.ticket
        if call.expected is None:
            return
        if ticket.refused:
            self._note(call, call.argv, str(call.expected), "(refused: the region does not run)")
        elif not ticket.lost:
            self._compare(call, call.argv, call.expected, got)
        elif ticket.has_reply:
            matches(call.expected, got, self.bindings)

    def _outcome(self, posted: _Posted) -> Shape:
        """The shape of a reply, or an error that says that the connection was lost."""
        ticket = posted.ticket
        if ticket.is_open:
            raise ClusterError("no answer")
        if ticket.lost or ticket.refused:
            self.queued.pop(connection(posted.call.region, posted.call.client), None)
            return ErrorText("(the connection was lost)")
        return self.shape_of(posted.call, posted.argv, ticket.reply)

    def _end(self) -> None:
        """Runs to the end time, asks the judges, and waits for the answers that are missing."""
        if self.scenario.until_ms:
            self.cluster.until(self.scenario.until_ms)
        self._gather([])
        for judge, text in self.cluster.conclude(self.scenario.judged):
            self.mismatches.append(
                Mismatch(self.scenario.path, 0, "the end", judge, "", "no violation", text)
            )
        for one in self.posted:
            if one.call.expected is not None and one.ticket.is_open:
                self.cluster.settle(one.ticket)
        self._gather([])
        for one in self.posted:
            if one.call.expected is not None:
                self._note(one.call, one.call.argv, str(one.call.expected), "no answer")

    def shape_of(self, call: Call, argv: Sequence[bytes], reply: DecodedReply) -> Shape:
        """The reply's shape; records generated IDs, and the commands that a transaction queues."""
        name = argv[0].upper()
        whose = connection(call.region, call.client)
        if name == b"EXEC":
            queued = self.queued.pop(whose, [])
            if isinstance(reply, list) and len(reply) == len(queued):
                for each, one in zip(queued, reply, strict=True):
                    self._note_generated(call, each, one)
            return shape_of_transaction(queued, reply)
        if name == b"MULTI":
            self.queued[whose] = []
        elif name in (b"DISCARD", b"RESET"):
            self.queued.pop(whose, None)
        elif whose in self.queued and reply == b"QUEUED":
            self.queued[whose].append(tuple(argv))
        else:
            self._note_generated(call, argv, reply)
        return shape(argv, reply)

    def _note_generated(self, call: Call, argv: Sequence[bytes], reply: DecodedReply) -> None:
        if argv[0].upper() == b"XADD" and b"*" in argv[2:] and isinstance(reply, bytes):
            wrong = self.bindings.generate(call.region, reply.decode())
            if wrong is not None:
                self._note(call, call.argv, "an ID that fits the region", wrong)

    # -- links

    def _cut(self, step: Cut | Heal) -> None:
        pairs = {frozenset((a, b)) for a in step.regions for b in step.regions if a != b}
        links = [link for link in self.scenario.links if frozenset(link) in pairs]
        if isinstance(step, Cut):
            self.cut |= pairs
            if self.scenario.links_open:
                self.cluster.close_links(links)
        else:
            self.cut -= pairs
            if self.scenario.links_open:
                self.cluster.open_links(links, waits=False)

    def _sync(self, step: Sync) -> None:
        among = [link for link in self.scenario.links if set(link) <= set(step.regions)]
        links = [link for link in among if frozenset(link) not in self.cut]
        self._gather([])
        before = self.cluster.vectors(step.regions)
        if not self.scenario.links_open:
            self.cluster.open_links(links, waits=True)
        after = self._level(step, links)
        if not self.scenario.links_open:
            self.cluster.close_links(links)
        for region, number in step.effects:
            least = min(vector.get(region, 0) for vector in before.values())
            carried = max(vector.get(region, 0) for vector in after.values()) - least
            if carried != number:
                name = self.scenario.name_of(region)
                self._note(
                    step, (b"Sync",), f"effects {name}={number}", f"effects {name}={carried}"
                )

    def _level(self, step: Sync, links: Sequence[Link]) -> dict[int, dict[int, int]]:
        """Syncs until the vectors are equal and at rest; returns them by region."""
        groups = _connected(step.regions, links)
        linked = [region for group in groups if len(group) > 1 for region in group]
        last: dict[int, dict[int, int]] = {}
        for _ in range(ROUNDS_MAX):
            answered = self.cluster.sync(linked)
            now = self.cluster.vectors(step.regions)
            if (
                answered
                and now == last
                and all(now[region] == now[group[0]] for group in groups for region in group)
            ):
                return now
            last = now
        states = self.cluster.links(step.regions)
        shown = "; ".join(
            f"{self.scenario.name_of(region)} {vector}, links {states[region]}"
            for region, vector in last.items()
        )
        raise ClusterError(
            f"the regions did not level in {ROUNDS_MAX} rounds of CRDT.SYNC: {shown}"
        )

    # -- differences

    def _compare(
        self,
        step: Call | ExpectedReply,
        argv: Sequence[bytes],
        expected: Expectation | None,
        got: Shape,
    ) -> None:
        if expected is None:
            if isinstance(got, ErrorText):
                self._note(step, argv, "no error", render(got, self.bindings))
        elif not matches(expected, got, self.bindings):
            self._note(step, argv, str(expected), render(got, self.bindings))

    def _note(self, step: Step, argv: Sequence[bytes], expected: str, got: str) -> None:
        region = (
            self.scenario.name_of(step.region)
            if isinstance(step, (Call, ExpectedReply))
            else "Sync"
        )
        command = " ".join(word.decode("utf-8", "backslashreplace") for word in argv)
        self.mismatches.append(
            Mismatch(self.scenario.path, step.line, step.time, region, command, expected, got)
        )


def _connected(regions: Sequence[int], links: Sequence[Link]) -> list[list[int]]:
    """The regions in groups that paths of links join."""
    group = {region: {region} for region in regions}
    for a, b in links:
        if group[a] is not group[b]:
            group[a] |= group[b]
            for region in group[b]:
                group[region] = group[a]
    return [sorted(one) for one in {id(one): one for one in group.values()}.values()]
