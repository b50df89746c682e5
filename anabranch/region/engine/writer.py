"""The changes that commands make: effects and local records.

XADD and RENAME issue their adds by `Journal.add`, after `require_issue`: adds are the hot path.

A write is refused, before it has changed anything, while this region may not issue effects (S13.6,
S13.7), while its disk fails (S13.4), and while too many bytes wait for the disk (S14).
"""

from __future__ import annotations

from typing import Final

from anabranch.crdt.effects import Effect, RemoveObserved, SetDeadline
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.local import LocalRecord
from anabranch.crdt.stream import NEVER, Stream
from anabranch.region.engine.clock import EngineClock
from anabranch.region.engine.commit_schedule import CommitSchedule
from anabranch.region.engine.disk import DiskState
from anabranch.region.engine.journal import Journal
from anabranch.region.engine.lifecycle import LOST, RECOVERY, Lifecycle
from anabranch.region.engine.members import Members
from anabranch.region.engine.replies import CommandError
from anabranch.region.engine.settings import CachedSettings


class NotYet(Exception):
    """The command would issue an effect before the start is over, so it waits (S13.6)."""


class WriteRefused(CommandError):
    """A write is refused because the disk fails. The reply reflects no state and leaves at once."""


class Writer:
    """Issues effects and makes local records, or refuses to."""

    def __init__(
        self,
        keyspace: Keyspace,
        journal: Journal,
        clock: EngineClock,
        disk: DiskState,
        lifecycle: Lifecycle,
        members: Members,
        schedule: CommitSchedule,
        cached: CachedSettings,
    ) -> None:
        self._keyspace: Final = keyspace
        self._journal: Final = journal
        self._clock: Final = clock
        self._disk: Final = disk
        self._lifecycle: Final = lifecycle
        self._members: Final = members
        self._schedule: Final = schedule
        self._cached: Final = cached
        # The current command or transaction passed the check for room. Later checks are skipped, so
        # that its own writes cannot get it refused half-way (S14).
        self._had_room = False
        # Commands refused because too many bytes waited for the disk.
        self.room_refused = 0

    def begin_command(self) -> None:
        """Begins a command or a whole transaction: the next write checks for room again."""
        self._had_room = False

    def may_issue(self) -> bool:
        """Whether this region may issue effects now."""
        return self._lifecycle.serves and not self._disk.error

    def require_issue(self) -> None:
        """Refuses a command that would issue an effect while this region may not.

        Call it before the command changes anything.

        Raises:
            NotYet: The start is not over: the command waits (S13.6).
            WriteRefused: Commits fail (S13.4).
            CommandError: The region is in recovery or lost (S13.8), its clock is apart (S10.2), or
                too many bytes wait for the disk.
        """
        if self._lifecycle.serves and not self._disk.error:
            self._require_room()
            return
        if self._disk.error:
            raise WriteRefused(
                "MISCONF this region takes no writes: its last commit to disk failed and is being "
                f"retried ({self._disk.error})"
            )
        if self._lifecycle.state == RECOVERY:
            waited = self._lifecycle.waited_for(self._members.others(), self._disk.vector)
            raise CommandError(
                f"READONLY region {self._members.name} is in recovery, waiting for"
                f" {self._members.names_of(waited)}"
            )
        if self._lifecycle.state == LOST:
            by = self._members.names_of(self._lifecycle.lost_words.confirmed())
            raise CommandError(
                f"READONLY region {self._members.name} was said to be lost by {by}: nothing is"
                " taken from it any more; `anabranch export` saves what only it holds"
            )
        if self._lifecycle.clock_problem:
            raise CommandError(
                f"READONLY region {self._members.name} takes no writes: its clock is"
                f" {self._lifecycle.clock_problem}; set the clock right, or see `anabranch clock`"
            )
        raise NotYet

    def require_disk(self) -> None:
        """Refuses a local record while commits fail or too many bytes wait for the disk."""
        if self._disk.error:
            self.require_issue()
        self._require_room()

    def _require_room(self) -> None:
        """Bounds the memory of rows that wait for a disk slower than the clients (S14)."""
        if self._had_room:
            return
        if self._journal.pending_bytes() > self._cached.uncommitted_max_bytes:
            self.room_refused += 1
            raise CommandError(
                "MISCONF this region takes no writes for now: "
                f"{self._journal.pending_bytes()} bytes wait for its disk "
                f"(crdt-uncommitted-max-bytes is {self._cached.uncommitted_max_bytes})"
            )
        self._had_room = True

    def issue(self, effect: Effect) -> int:
        """Issues an effect and returns its counter.

        The caller has called `require_issue` before its command changed anything.
        """
        self._schedule.note_unsaved(self._clock.steady_ms)
        return self._journal.issue(effect)

    def record(self, record: LocalRecord) -> None:
        """Applies a local record and adds it to the journal."""
        self.require_disk()
        self._schedule.note_unsaved(self._clock.steady_ms)
        self._journal.record(record)

    def for_creation(self, key: bytes) -> Stream:
        """The key, ready for a write that creates it (S10.5).

        If a deadline hides the key, or the key is absent but has leftovers, everything observed of
        it is removed first, deadlines included. If there were deadlines, an infinite one is set,
        which wins over any shorter deadline that is still in flight.
        """
        keyspace = self._keyspace
        stream = keyspace.keys.get(key)
        if stream is None:
            return keyspace.get_or_create(key)
        if not stream.exists_at(self._clock.now_ms) and stream.has_leftovers():
            had_deadlines = bool(stream.deadlines)
            self.issue(RemoveObserved(key, dict(keyspace.vector), True))
            if had_deadlines:
                self.issue(SetDeadline(key, NEVER, []))
        return keyspace.get_or_create(key)
