"""Requests of earlier steps for a commit or a sync round (S2.5, S13.2)."""

from __future__ import annotations


class CommitSchedule:
    """Requests and times from which `rounds` decides. Times are steady times in ms."""

    def __init__(self) -> None:
        # A client or a peer waits until everything done up to now is on disk.
        self.commit_wanted = False
        # CRDT.SYNC requested a round at once.
        self.sync_requested = False
        # The clock on disk is to be fresh, although nothing else waits for a commit (S7.7).
        self.clock_wanted = False
        # Replies made under `appendfsync always` may leave once the log is on disk up to here.
        self.promised_position = 0
        self.last_round_ms = 0
        # Time of the oldest change that is in no commit yet; 0: no such change.
        self.oldest_unsaved_ms = 0

    def note_unsaved(self, steady_ms: int) -> None:
        """Notes a change that is in no commit yet."""
        if self.oldest_unsaved_ms == 0:
            self.oldest_unsaved_ms = steady_ms

    def commit_taken(self) -> None:
        """Clears the requests: everything is in a commit now."""
        self.oldest_unsaved_ms = 0
        self.commit_wanted = False
        self.clock_wanted = False
