"""The committed effects of a run and the facts about its regions that several judges need.

`LedgerJudge` is the base class of these judges. Effects are known from commits alone: peers get
only committed effects (S13.3).
"""

from __future__ import annotations

from typing import Final, Optional

from anabranch.crdt.vector import Vector
from anabranch.region.engine.replies import ErrorReply, Reply
from anabranch.sim.arguments import AddRequest, add_request
from anabranch.sim.checkers.state import State
from anabranch.sim.history import (
    Began,
    Checker,
    Committed,
    Moved,
    Operation,
    Setup,
    Shown,
    Stopped,
    Words,
)
from anabranch.sim.logged import Add, Dot, EffectLog, Logged, decoded
from anabranch.sim.replies import figures_of, time_ms

Named = tuple[bytes, bytes, bool]
"""(key, entry ID as replies show it, whether the add is idempotent)

A retry of an idempotent add is answered with the ID of another add. That ID stays without a match,
because a region issues no second idempotent add with it."""


class Ledger:
    """One run.

    - `log`: the committed effects. `fresh`: those of the commit that was reported last.
    - `rewritten`: the first counter that this commit issued a second time, 0 if none.
    - `now`: each region's vector. A region that is gone for good has none.
    - `gone`: regions that are gone for good. `restored`: regions that were put back to a backup.
    - `blind`: the reported commits have a gap, so not all effects are known any more.
    """

    def __init__(self, setup: Setup) -> None:
        self.setup: Final = setup
        self.log: Final = EffectLog(setup.regions)
        self.fresh: list[Logged] = []
        self.rewritten = 0
        self.now: dict[int, Vector] = {region: {} for region in setup.regions}
        self.gone: Final[set[int]] = set()
        self.restored: Final[set[int]] = set()
        self.blind = False
        # The state that was asked for last: its vector, the number of commits then, the state.
        self._asked: tuple[Vector, int, Optional[State]] = ({}, -1, None)
        self._commits = 0
        # By region: what it showed last, and its figures then.
        self._figures: Final[dict[int, tuple[Shown, dict[bytes, bytes]]]] = {}
        # (region_id, first counter of a block) → the chain value after that block (S13.5).
        self._chains: Final[dict[tuple[int, int], bytes]] = {}
        # By region: (origin, first, last) of the effects that came with snapshots.
        self._joined: Final[dict[int, list[tuple[int, int, int]]]] = {}
        # By region that was put back to a backup and issues lost counters again: the last counter
        # before them, until a commit reports them. Above it the log has the former effects.
        self._anew: Final[dict[int, int]] = {}
        # By region: the adds whose IDs the region chose by its clock, until they are committed.
        self._by_clock: Final[dict[int, list[Named]]] = {region: [] for region in setup.regions}

    @staticmethod
    def of(setup: Setup) -> Ledger:
        """The ledger that all judges of one run share."""
        ledger = setup.shared.get("ledger")
        if not isinstance(ledger, Ledger):
            ledger = setup.shared["ledger"] = Ledger(setup)
        return ledger

    # -- events

    def began(self, event: Began) -> None:
        """A process has started: the IDs chosen by the former process may have been lost."""
        if event.how == "backup":
            self.restored.add(event.region)
        self.now[event.region] = event.vector
        self._by_clock[event.region] = []

    def stopped(self, event: Stopped) -> None:
        """A process has ended: what it issued since its last commit is lost."""
        self._anew.pop(event.region, None)
        if event.how == "gone":
            self.gone.add(event.region)
            del self.now[event.region]
        else:
            self.now[event.region] = event.on_disk

    def executed(self, operation: Operation) -> None:
        """A region has computed a reply."""
        assert operation.after is not None
        self._note_anew(operation.region, operation.before, operation.after)
        self.now[operation.region] = operation.after
        for words, reply in answers(operation):
            request = _by_clock_request(words)
            if request is not None and isinstance(reply, bytes):
                self._by_clock[operation.region].append((words[1], reply, request.pid != b""))

    def moved(self, event: Moved) -> None:
        """A region's vector moved without a command."""
        if not event.learned:
            self._note_anew(event.region, event.before, event.after)
        self.now[event.region] = event.after
        if event.how == "join":
            for origin, last in event.after.items():
                first = event.before.get(origin, 0) + 1
                if first <= last:
                    self._joined.setdefault(event.region, []).append((origin, first, last))

    def committed(self, event: Committed) -> None:
        """A commit is on disk: from now on its effects are known."""
        self.fresh = []
        self.rewritten = 0
        self._commits += 1
        for block, effects in decoded(event):
            region = block.origin
            known = self.log.last(region)
            if self._chains.get((region, block.first)) == block.chain and block.last <= known:
                continue  # This block was reported before.
            self._chains[(region, block.first)] = block.chain
            if block.first <= known:
                self.rewritten = self.rewritten or block.first
                self._anew.pop(region, None)
                self.log.truncate(region, block.first - 1)
            if block.first != self.log.last(region) + 1:
                self.blind = True
                return
            self.log.append(region, effects)
            self.fresh += effects
            by_clock = self._by_clock[region]
            for effect in effects if by_clock else []:
                if isinstance(effect, Add):
                    named = (effect.key, effect.shown_id, effect.pid != b"")
                    if named in by_clock:
                        by_clock.remove(named)
                        effect.has_clock = True

    def _note_anew(self, region: int, before: Vector, after: Vector) -> None:
        """Notes a step in which the region issued counters that the log knows already."""
        counter = before.get(region, 0)
        if counter < min(after.get(region, 0), self.log.last(region)):
            self._anew.setdefault(region, counter)

    # -- facts

    def held_by_others(self, region: int) -> int:
        """The highest counter of that region in the vectors of all other regions."""
        counters = [vector.get(region, 0) for other, vector in self.now.items() if other != region]
        return max(counters, default=0)

    def came_joined(self, region: int, dot: Dot) -> bool:
        """Whether the effect came to the region with a snapshot."""
        return any(
            origin == dot[0] and first <= dot[1] <= last
            for origin, first, last in self._joined.get(region, ())
        )

    def effect(self, region: int, counter: int) -> Optional[Logged]:
        """The effect that was committed under a counter; None if none is known.

        None too, if a region that was put back issues the counter again and has not committed it.
        """
        if counter > self._anew.get(region, counter):
            return None
        return self.log.get(region, counter)

    def state_at(self, vector: Vector) -> Optional[State]:
        """The state at a vector by definition; None if not all of its effects are known."""
        if self.blind or any(last > self.log.last(region) for region, last in vector.items()):
            return None
        if any(vector.get(region, 0) > counter for region, counter in self._anew.items()):
            return None
        if self._asked[:2] == (vector, self._commits):
            return self._asked[2]
        state = State()
        for region, last in vector.items():
            for counter in range(1, last + 1):
                state.apply(region, counter, self.log.at(region, counter))
        self._asked = (dict(vector), self._commits, state)
        return state

    def figures(self, one: Shown) -> dict[bytes, bytes]:
        """The section CRDT of the region's INFO when it shows its vector, by name of the figure."""
        asked = self._figures.get(one.region)
        if asked is not None and asked[0] is one:
            return asked[1]
        found = figures_of(self.setup.ask(one.region, (b"INFO", b"crdt")))
        self._figures[one.region] = (one, found)
        return found

    def clock_ms(self, region: int) -> int:
        """The region's clock in ms: the highest that it has read (S10.2)."""
        return time_ms(self.setup.ask(region, (b"TIME",)))


class LedgerJudge(Checker):
    """Passes the history on to the ledger of the run; only the first judge of a run does so."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.feeds = "ledger" not in setup.shared
        self.ledger = Ledger.of(setup)

    def began(self, event: Began) -> None:
        if self.feeds:
            self.ledger.began(event)

    def stopped(self, event: Stopped) -> None:
        if self.feeds:
            self.ledger.stopped(event)

    def executed(self, operation: Operation) -> None:
        if self.feeds:
            self.ledger.executed(operation)

    def moved(self, event: Moved) -> None:
        if self.feeds:
            self.ledger.moved(event)

    def committed(self, event: Committed) -> None:
        if self.feeds:
            self.ledger.committed(event)


def answers(operation: Operation) -> list[tuple[Words, Reply]]:
    """The command with its reply, or the commands of a transaction with theirs."""
    if not operation.queued:
        return [(operation.argv, operation.reply)]
    replies = operation.reply
    return list(zip(operation.queued, replies, strict=True)) if isinstance(replies, list) else []


def _by_clock_request(words: Words) -> Optional[AddRequest]:
    """The arguments, if the command is an XADD for which the region chooses the whole ID (S4.1)."""
    if words[0].upper() != b"XADD":
        return None
    try:
        request = add_request(words)
    except IndexError:
        return None
    return request if request.has_clock else None


def is_refused(reply: Reply) -> bool:
    """Whether an XADD has added nothing."""
    return reply is None or isinstance(reply, ErrorReply)
