"""The events of a region for the operator's log. Sans-IO; a part of the driver.

The driver reports what it meets, and `tick` finds changes of the region's state: its lifecycle,
divergences, commits that fail or work again, and links on which it falls behind.
"""

from __future__ import annotations

import logging
from typing import Final, Optional

from anabranch.crdt.vector import Vector
from anabranch.region.driver.work import Note
from anabranch.region.engine.engine import Engine
from anabranch.region.engine.figures.shared import behind, behind_ms
from anabranch.region.engine.lifecycle import APART, LOST, RECOVERY
from anabranch.sync.session.events import LoggedEvent


class EventLog:
    """Turns events into notes, which `take` hands to the driver."""

    def __init__(self, engine: Engine) -> None:
        self._engine: Final = engine
        self._notes: list[Note] = []
        self._divergences = 0
        self._lifecycle = ""
        # The members whose word that this region is lost needs another one.
        self._called_lost = ""
        # The effects that were applied when the recovery began; None: there is none.
        self._before_recovery: Optional[Vector] = None
        self._commit_fails = False
        # Peers of which this region is further behind than crdt-ready-lag-ms.
        self._slow: Final[set[int]] = set()

    def tell(self, event: LoggedEvent) -> None:
        """Adds an event."""
        self._notes.append(Note(event.level, event.line(self._engine.name), event))

    def take(self) -> list[Note]:
        """The notes since the last call."""
        notes, self._notes = self._notes, []
        return notes

    # -- reports of the driver

    def commit_failed(self, position: int, error: str) -> None:
        """A commit failed. Only the first failure in a row is an event."""
        if self._commit_fails:
            return
        self._commit_fails = True
        text = f"commit of position {position} failed, no more writes until it succeeds: {error}"
        self._error("commit_failed", text, position=position)

    def committed(self, position: int) -> None:
        """A commit is on disk."""
        if self._commit_fails:
            self._commit_fails = False
            text = "a commit succeeded: the region takes writes again"
            self._tell(logging.INFO, "commit_works", text, position=position)

    def checkpoint_failed(self, error: str) -> None:
        """A checkpoint failed."""
        self._error("checkpoint_failed", f"checkpoint failed, it will be tried again: {error}")

    def log_unreadable(self, text: str) -> None:
        """The log on disk could not be read."""
        self._error("log_unreadable", text)

    def salvaged(self, before: int, counter: int) -> None:
        """The salvage of the damaged log is dealt with: own effects went from `before` to here."""
        text = (
            "the sound part of the damaged log is merged: this region holds its own effects up to"
            f" {counter}"
        )
        self._tell(logging.INFO, "salvaged", text, counter=counter, before=before)

    def salvage_ended_early(self, reason: str, unused: str) -> None:
        """A part of the salvage cannot be used. `unused` are its sound effects, in words."""
        text = (
            f"LOSS: {reason}; sound effects of the damaged log that follow and cannot be used:"
            f" {unused}. The damaged files hold them: keep the directory damaged-…"
        )
        self._error("salvage_loss", text, reason=reason, unused=unused)

    def damaged(self, error: str) -> None:
        """A row of the effect log is damaged."""
        text = (
            "DAMAGE in the effect log on disk: peers that lag behind get snapshots from now on;"
            " stop the region when it suits, and run `anabranch check` on its data directory"
        )
        self._error("damage", text, error=error)

    # -- changes of the state

    def tick(self) -> None:
        """Finds the changes since the last call."""
        state = self._engine.state
        divergences = state.replication.divergences
        if divergences > self._divergences:
            text = (
                "DIVERGENCE: a peer with an equal vector has another digest; "
                "keep the files of both and see CRDT.EXPLAIN"
            )
            self._error("divergence", text, count=divergences)
        self._divergences = divergences
        if state.lifecycle.shown != self._lifecycle:
            self._lifecycle = state.lifecycle.shown
            self._tell_lifecycle()
        self._tell_called_lost(state.members.names_of(state.lifecycle.lost_words.unconfirmed()))
        self._find_slow_links()

    def _tell_called_lost(self, by: str) -> None:
        """Tells of a word that this region is lost, which needs another one (S13.8)."""
        if by and by != self._called_lost:
            name = self._engine.name
            text = (
                f"region {name} was said to be lost by {by} alone, and goes on: a second member's"
                f" word ends its writes, or its operator's, `CRDT.MEMBER LOST {name}` in {name}"
            )
            self._error("called_lost", text, by=by)
        self._called_lost = by

    def _tell_lifecycle(self) -> None:
        engine, state = self._engine, self._engine.state
        if self._lifecycle == RECOVERY:
            cause = state.lifecycle.recovery_cause
            self._before_recovery = dict(state.keyspace.vector)
            text = (
                f"region {engine.name} is in recovery because {cause}: it issues no effects"
                " until it holds all effects that the other members report"
                " (see docs/operations-repair.md)"
            )
            self._tell(logging.WARNING, RECOVERY, text, cause=cause)
        elif self._lifecycle == APART:
            problem = state.lifecycle.clock_problem
            text = (
                f"the clock of region {engine.name} is {problem}: it takes no writes until that"
                " is right (see docs/operations-repair.md)"
            )
            self._error(APART, text, offset=problem)
        elif self._lifecycle == LOST:
            by = state.members.names_of(state.lifecycle.lost_words.confirmed())
            text = (
                f"LOST: region {engine.name} was said to be lost by {by}: it takes no more"
                " writes; `anabranch export` saves what only it holds"
            )
            self._error(LOST, text, by=by)
        else:
            text, fields = f"region {engine.name} is {self._lifecycle}", self._recovered()
            if fields:
                text += ": the recovery is over, and brought back the effects that are counted here"
            self._tell(logging.INFO, self._lifecycle, text, **fields)

    def _recovered(self) -> dict[str, object]:
        """The field of an event that tells the effects of each region that a recovery brought."""
        before, self._before_recovery = self._before_recovery, None
        if before is None:
            return {}
        state = self._engine.state
        counts = {
            state.members.name_of(origin): counter - before.get(origin, 0)
            for origin, counter in sorted(state.keyspace.vector.items())
            if counter > before.get(origin, 0)
        }
        return {"recovered": ",".join(f"{name}:{n}" for name, n in counts.items()) or "none"}

    def _find_slow_links(self) -> None:
        """A link is slow while the region falls behind although the link is up."""
        state = self._engine.state
        late_ms = state.settings.integer("crdt-ready-lag-ms")
        for peer, link in state.peers.by_id.items():
            now_ms = behind_ms(state, peer)
            if peer not in self._slow and link.is_up and now_ms > late_ms + link.delay_ms:
                self._slow.add(peer)
                name, lacks = state.members.name_of(peer), behind(state, peer)
                text = f"is {now_ms} ms behind {name}, and lacks {lacks} of its effects"
                self._tell(
                    logging.WARNING, "link_slow", text, peer=name, behind_ms=now_ms, effects=lacks
                )
            elif peer in self._slow and (not link.is_up or now_ms <= late_ms // 2 + link.delay_ms):
                self._slow.discard(peer)
                if link.is_up:
                    name = state.members.name_of(peer)
                    self._tell(logging.INFO, "link_level", f"has caught up with {name}", peer=name)

    def _error(self, name: str, text: str, **fields: object) -> None:
        self._tell(logging.ERROR, name, text, **fields)

    def _tell(self, level: int, name: str, text: str, **fields: object) -> None:
        self.tell(LoggedEvent(level, name, text, fields))
