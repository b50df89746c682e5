"""When to commit and when to begin a sync round, as far as earlier steps have said (S2.5, S13.2)."""

from __future__ import annotations


class CommitSchedule:
    """Times are the clock's steady ones, in ms."""

    def __init__(self) -> None:
        # Somebody waits for what was done up to now to be on disk.
        self.commit_wanted = False
        # CRDT.SYNC asked for a round at once.
        self.sync_requested = False
        self.last_round_ms = 0
        # When the oldest change was made that is in no commit yet; 0: there is none.
        self.oldest_unsaved_ms = 0

    def note_unsaved(self, steady_ms: int) -> None:
        """Something was changed that is in no commit yet."""
        if self.oldest_unsaved_ms == 0:
            self.oldest_unsaved_ms = steady_ms

    def commit_taken(self) -> None:
        """Everything is in a commit."""
        self.oldest_unsaved_ms = 0
        self.commit_wanted = False
