"""Invariant 1: after healing, every acknowledged add is in every region.

An add that a removal took or a deadline hides, by the naive state, is excepted. An add counts as
acknowledged when the client has the ID, and the region ran under `always` or no crash lost what
was not on its disk yet.

During the run: under `always` no reply leaves before the commit of everything that it reflects,
and no start finds less than was answered (S13.2); a write whose commit failed is never answered
(S13.4).
"""

from __future__ import annotations

from anabranch.crdt.vector import Vector
from anabranch.sim.checkers.ledger import LedgerJudge, answers
from anabranch.sim.checkers.state import KeyState
from anabranch.sim.history import Began, Committed, End, Operation, Setup, is_disk_refusal
from anabranch.sim.logged import Add


class AcknowledgedAdds(LedgerJudge):
    """The judge."""

    name = "acknowledged_adds"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._disk: dict[int, Vector] = {region: {} for region in self.setup.regions}
        # region_id → the vector that replies under `always` have promised to be on disk.
        self._promised: dict[int, Vector] = {region: {} for region in self.setup.regions}
        # region_id → whether a client changed `appendfsync` since the start.
        self._changed: dict[int, bool] = {}
        # region_id → the last operation that was refused because a commit had failed.
        self._refused: dict[int, int] = {}
        self._acknowledged: list[Operation] = []

    # -- during the run

    def began(self, event: Began) -> None:
        super().began(event)
        promised = self._promised[event.region]
        if event.how != "backup":
            for origin, counter in promised.items():
                if event.vector.get(origin, 0) < counter:
                    text = (
                        f"starts with {event.vector} after {event.how}; "
                        f"replies under `always` had promised {promised}"
                    )
                    self.fail(event.at_ms, event.region, text)
                    break
        self._promised[event.region] = {}
        self._disk[event.region] = event.vector
        self._changed[event.region] = False

    def committed(self, event: Committed) -> None:
        super().committed(event)
        self._disk[event.region] = event.vector

    def executed(self, operation: Operation) -> None:
        super().executed(operation)
        argv = operation.argv
        if argv[0].upper() == b"CONFIG" and len(argv) > 2 and argv[1].upper() == b"SET":
            self._changed[operation.region] = True
        if is_disk_refusal(operation.reply):
            self._refused[operation.region] = operation.number

    def answered(self, operation: Operation) -> None:
        """The client has the reply."""
        if operation.waits_for_disk():
            self._must_be_on_disk(operation)
        if any(words[0].upper() == b"XADD" for words in operation.commands()):
            self._acknowledged.append(operation)

    def _must_be_on_disk(self, operation: Operation) -> None:
        region, after = operation.region, operation.after
        assert after is not None
        # The value of appendfsync at the reply is unknown then.
        if self._changed.get(region):
            return
        first, last = operation.effects()
        refused = self._refused.get(region, 0)
        if first <= last and refused > operation.number and not operation.waited:
            text = (
                f"answered operation {operation.number}, though its commit had failed: "
                f"operation {refused} was refused for that (S13.4)"
            )
            self.fail(operation.at_ms, region, text)
        disk = self._disk[region]
        if after is not disk:
            for origin, counter in after.items():
                if disk.get(origin, 0) < counter:
                    text = (
                        f"answered operation {operation.number} under `always`, "
                        f"which reflects {after}; on its disk is {disk}"
                    )
                    self.fail(operation.at_ms, region, text)
                    break
        promised = self._promised[region]
        for origin, counter in after.items():
            if counter > promised.get(origin, 0):
                promised[origin] = counter

    # -- at the end

    def finish(self, end: End) -> None:
        """Looks for each acknowledged add in each region."""
        if end.converged_ms is None or self.ledger.blind:
            return
        adds = [
            add
            for operation in self._acknowledged
            for add in self._added(operation)
            if not self._is_lost(add, end)
        ]
        for region in sorted(end.shown):
            self._look(region, adds, end)

    def _added(self, operation: Operation) -> list[Add]:
        """The adds that the operation issued, as far as they were committed.

        A retry of an idempotent add issued none. An add is gone, too, once a region that was put
        back issues its counter again: `vectors` checks that no other region holds the former one.
        """
        assert operation.after is not None
        first, last = operation.effects()
        if operation.waited:  # Its effects came in a step of several commands.
            first, last = 1, operation.after.get(operation.region, 0)
        wanted = {
            (words[1], reply) for words, reply in answers(operation) if words[0].upper() == b"XADD"
        }
        found = [self.ledger.effect(operation.region, one) for one in range(first, last + 1)]
        return [one for one in found if isinstance(one, Add) and (one.key, one.shown_id) in wanted]

    def _is_lost(self, add: Add, end: End) -> bool:
        """Whether a restored disk lost the add before any other region had it.

        `vectors` checks that no other region holds the former effect of a dot that was reused.
        """
        return add.region in self.ledger.restored and all(
            shown.vector.get(add.region, 0) < add.counter for shown in end.shown.values()
        )

    def _look(self, region: int, adds: list[Add], end: End) -> None:
        vector = end.shown[region].vector
        state = self.ledger.state_at(vector)
        if state is None:
            return
        clock_ms = self.ledger.clock_ms(region)
        shown: dict[bytes, list[object]] = {}
        for add in adds:
            if vector.get(add.region, 0) < add.counter:
                if add.region not in self.ledger.gone:
                    self.fail(
                        end.at_ms, region, f"never received {_named(add)}, which was acknowledged"
                    )
                continue
            key = state.key(add.key)
            if not _must_be_shown(key, add, clock_ms):
                continue
            if add.key not in shown:
                reply = self.setup.ask(region, (b"XRANGE", add.key, b"-", b"+"))
                shown[add.key] = list(reply) if isinstance(reply, list) else []
            if add.shown not in shown[add.key]:
                self.fail(
                    end.at_ms,
                    region,
                    f"lacks {_named(add)}, which was acknowledged and not removed",
                )


def _must_be_shown(key: KeyState, add: Add, clock_ms: int) -> bool:
    is_here = (add.region, add.counter) in key.adds
    return is_here and key.is_present() and not key.is_hidden(clock_ms)


def _named(add: Add) -> str:
    return (
        f"{add.shown_id.decode()} of {add.key.decode('utf-8', 'replace')}, "
        f"added in region {add.region} as effect {add.counter}"
    )
