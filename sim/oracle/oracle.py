"""All regions together: takes each event once, passes steps to followers, findings to judges."""

from __future__ import annotations

from typing import Final, Optional

from anabranch.crdt.effects import RemoveEntries
from anabranch.region.engine.replies import ErrorReply, NullArray, Reply
from anabranch.sim.history import Began, Committed, Moved, Operation, Setup, Stopped, Vector
from anabranch.sim.oracle import own_effects, reads, watching
from anabranch.sim.oracle.arguments import NotUnderstood, Words, name_of
from anabranch.sim.oracle.follower import Follower, Judge, described
from anabranch.sim.oracle.log import Add, Logged
from anabranch.sim.oracle.reads import READS
from anabranch.sim.oracle.record import Record
from anabranch.sim.oracle.verdicts import Wrong
from anabranch.sim.oracle.writes import WRITES

JUDGES: Final[dict[bytes, Judge]] = {**READS, **WRITES, b"WATCH": watching.watch}


class Oracle:
    """All regions of a run together: `followers`, by region, on one `record`."""

    def __init__(self, setup: Setup) -> None:
        self.record = Record(setup)
        # The effects of the last commit.
        self.fresh: list[Logged] = []
        # Each region's vector; while the region is down, the vector on its disk.
        self.now: dict[int, Vector] = {region: {} for region in setup.regions}
        # Regions that are lost for good (S13.8).
        self.gone: dict[int, None] = {}
        # By region: origin → the first counter of that origin that was issued anew while the
        # region was down. Its disk must not bring back the former effects from there on.
        self.stale: dict[int, Vector] = {region: {} for region in setup.regions}
        # The reported commits have a gap, so not all effects are known any more.
        self.blind = False
        self.down: dict[int, bool] = dict.fromkeys(setup.regions, True)
        # (region_id, first counter of a block) → the chain value after that block (S13.5).
        self._chains: dict[tuple[int, int], bytes] = {}
        # By region: the counter of its own effects on its disk, as reported.
        self._on_disk: dict[int, int] = dict.fromkeys(setup.regions, 0)
        # Starts that found more own effects on disk than that.
        self._found: dict[int, Began] = {}
        self.followers = {region: Follower(self.record, self, region) for region in setup.regions}

    @staticmethod
    def of(setup: Setup) -> Oracle:
        """The oracle that all judges of one run share."""
        oracle = setup.shared.get("oracle")
        if not isinstance(oracle, Oracle):
            oracle = setup.shared["oracle"] = Oracle(setup)
        return oracle

    # -- events

    def executed(self, operation: Operation) -> None:
        """A region has computed a reply."""
        assert operation.after is not None
        self.now[operation.region] = operation.after
        follower = self.followers[operation.region]
        if not operation.queued:
            follower.pending.note(operation.argv, operation.reply)
        elif isinstance(operation.reply, list):
            for words, reply in zip(operation.queued, operation.reply, strict=True):
                follower.pending.note(words, reply)
        follower.take(operation, False, {})

    def moved(self, event: Moved) -> None:
        """A region's vector moved without a command."""
        region = event.region
        relearned = event.learned and event.after.get(region, 0) <= self.record.log.last(region)
        others: dict[int, Vector] = {}
        if event.how == "tick":
            # A region that is down may be lost for good; then it is not waited for (S13.8).
            others = {
                other: vector
                for other, vector in self.now.items()
                if other != region and not self.down[other]
            }
        self.now[region] = event.after
        self.followers[region].take(event, relearned, others)

    def held_by_others(self, region: int) -> int:
        """The highest counter of that region in the vectors of all other regions."""
        return max(
            (vector.get(region, 0) for other, vector in self.now.items() if other != region),
            default=0,
        )

    def committed(self, event: Committed) -> None:
        """A commit is on disk: from now on its effects are known."""
        self.fresh = []
        follower = self.followers[event.region]
        self._on_disk[event.region] = event.vector.get(event.region, 0)
        for block in event.blocks:
            region = block.origin
            if self._chains.get(
                (region, block.first)
            ) == block.chain and block.last <= self.record.log.last(region):
                continue  # this block was reported before
            self._chains[(region, block.first)] = block.chain
            if block.first <= self.record.log.last(region):
                self._written_again(event, block.first)
            if block.first != self.record.log.last(region) + 1:
                self.blind = True
                follower.go_blind()
                return
            self.fresh += self.record.log.append(block)
            follower.trusted = block.last
        found = self._found.pop(event.region, None)
        if found is not None:
            follower.begin(found)
        else:
            follower.drain()

    def _written_again(self, event: Committed, first: int) -> None:
        """Counters were issued a second time, after a restored backup lost their first effects.

        Legal only if no other region held those effects (S13.3, S13.7).
        """
        if self.held_by_others(event.region) >= first:
            self.record.find(
                "vectors",
                event.at_ms,
                event.region,
                f"issued other effects with counters from {first} that other regions hold",
            )
        for other, is_down in self.down.items():
            if is_down:
                self.stale[other][event.region] = min(
                    first, self.stale[other].get(event.region, first)
                )
        self.record.log.truncate(event.region, first - 1)

    def stopped(self, event: Stopped) -> None:
        """A process has ended."""
        self.down[event.region] = True
        if event.how == "gone":
            self.gone[event.region] = None
            del self.now[event.region]
        else:
            self.now[event.region] = event.on_disk

    def began(self, event: Began) -> None:
        """A process has started."""
        region = event.region
        if event.how == "backup":
            self.record.restores += 1
            self.record.restored[region] = None
        for origin, first in self.stale[region].items():
            if event.vector.get(origin, 0) >= first:
                text = (
                    f"brought back effects of region {origin} from {first} on, "
                    "which that region had issued anew"
                )
                self.record.find("vectors", event.at_ms, region, text)
        self.stale[region] = {}
        self.down[region] = False
        self.now[region] = event.vector
        counter = event.vector.get(region, 0)
        if counter > self._on_disk[region]:
            # The commit that the former process did not report is reported next. Its counters may
            # be known already, from effects that a restored backup lost.
            self._found[region] = event
        else:
            self.followers[region].begin(event)
        self._on_disk[region] = counter

    # -- judgement

    def judge_operation(self, follower: Follower, op: Operation) -> None:
        """Judges the reply and the effects of a command, or of each command of a transaction.

        Raises Wrong for the first fault found, Unsure if the step cannot be decided.
        """
        reply = op.reply
        is_exec = op.argv[0].upper() == b"EXEC"
        if is_exec:
            watching.before_exec(follower, op)
        if op.waited:
            self._losers_first(follower, op)
        if is_exec:
            if isinstance(reply, list):
                for words, one in zip(op.queued, reply, strict=True):
                    self._judge(follower, words, one)
            elif not isinstance(reply, (ErrorReply, NullArray)):
                raise Wrong("the reply of EXEC is not a list")
        else:
            self._judge(follower, op.argv, reply)
        if not op.waited:
            self._nothing_more(follower)

    def _judge(self, follower: Follower, words: Words, reply: Reply) -> None:
        if isinstance(reply, ErrorReply):
            reads.error(follower, words, reply.message)
            return
        judge = JUDGES.get(name_of(words))
        if judge is not None:
            try:
                judge(follower, words, reply)
            except (NotUnderstood, IndexError) as error:
                raise Wrong(f"took arguments that do not parse: {error}") from error

    def _losers_first(self, follower: Follower, op: Operation) -> None:
        """Applies the removals of conflict losers that were due at the end of a start (S9.2).

        They come before the effects of commands that waited for that end. A removal that an XDEL
        of the operation may have issued is left to the judge of that XDEL.
        """
        effect = follower.next()
        while own_effects.is_loser(follower, effect) and not self._may_delete(op, effect):
            follower.apply()
            effect = follower.next()

    def _may_delete(self, op: Operation, effect: Optional[Logged]) -> bool:
        """Whether an XDEL of the operation names one of the entries that the effect removes."""
        assert isinstance(effect, RemoveEntries)
        named = {
            text
            for words in op.commands()
            if words[0].upper() == b"XDEL" and words[1] == effect.key
            for text in words[2:]
        }
        adds = [self.record.log.get(*dot) for dot in effect.dots]
        return any(
            isinstance(add, Add)
            and (add.shown_id in named or add.shown_id.removesuffix(b"-0") in named)
            for add in adds
        )

    def _nothing_more(self, follower: Follower) -> None:
        """A command issues only the effects that its rule demands."""
        effect = follower.next()
        if effect is not None:
            raise Wrong(f"issued an effect that the command does not call for: {described(effect)}")

    def judge_own(self, follower: Follower, others: dict[int, Vector]) -> None:
        """Judges the next effect that a region issued without a command."""
        own_effects.judge_own(follower, others)
