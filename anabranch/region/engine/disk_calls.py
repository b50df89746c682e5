"""The calls of the engine for the disk: commits, checkpoints, damage."""

from __future__ import annotations

from typing import Final, Optional

from anabranch.region.engine import gossiping, rounds
from anabranch.region.engine.rows import Commit
from anabranch.region.engine.state import EngineState


class DiskCalls:
    """The engine as the order of transactions uses it."""

    def __init__(self, state: EngineState) -> None:
        self.state: Final = state

    def want_commit(self) -> None:
        """Requests a commit of everything done up to now."""
        self.state.schedule.commit_wanted = True

    def want_clock_commit(self) -> None:
        """Requests a commit, which brings only the clock to disk if there is nothing else."""
        self.state.schedule.clock_wanted = True

    def wants_commit(self, now_ms: int) -> bool:
        """Whether to begin a commit now; never while one is under way.

        Cheap: the driver asks after each event.
        """
        self.state.clock.read(now_ms)
        return self.state.disk.in_flight is None and rounds.wants_commit(self.state)

    def take_commit(self, now_ms: int) -> Optional[Commit]:
        """The commit to write in one transaction; None if there is nothing to write.

        The driver then reports `committed` or `commit_failed`.
        """
        state = self.state
        state.clock.read(now_ms)
        wants_clock = state.schedule.clock_wanted
        commit = rounds.take_commit(state)
        if commit is None and (wants_clock or state.disk.meta_changes):
            # Without rows, the clock goes to disk as a meta row. So clocks fill no log.
            clock_ms = state.clock.now_ms
            state.disk.meta_changes["clock"] = b"%d" % clock_ms
            vector, chains = dict(state.keyspace.vector), dict(state.keyspace.chains)
            commit = Commit(state.journal.position, [], vector, chains, clock_ms)
        if commit is not None:
            state.disk.begin(commit)
        return commit

    def committed(self, now_ms: int) -> None:
        """The commit under way is on disk."""
        state = self.state
        state.clock.read(now_ms)
        state.disk.committed()
        state.peers.delays.committed(
            state.disk.vector, state.members.region_id, now_ms, state.replication
        )
        gossiping.answer_waiting(state)
        gossiping.answer_from_disk(state)
        state.outbox.release(state.disk.position)
        if state.waiting.waiters:
            rounds.answer_waiters(state)

    def commit_failed(self, error: str) -> None:
        """The commit under way failed.

        The region refuses writes until it succeeds. Clients that wait for it are disconnected
        (S13.4).
        """
        self.state.disk.error = error
        self.state.outbox.drop_held()

    def is_all_in_commits(self) -> bool:
        """Whether everything done is in commits that are on disk."""
        state = self.state
        return (
            state.disk.in_flight is None
            and not state.disk.meta_changes
            and state.journal.is_empty()
        )

    def unwritten(self) -> str:
        """What a process that ends now has not on disk, with the cause; empty if nothing."""
        state = self.state
        if state.journal.next_position() <= state.disk.position:
            return ""
        own = state.members.region_id
        effects = state.keyspace.vector.get(own, 0) - state.disk.vector.get(own, 0)
        return (
            f"its last changes could not be written: {state.disk.error}."
            f" The effects of this region that are lost: {effects}"
        )

    def transaction_took(self, kind: str, time_us: int) -> None:
        """A transaction of this kind (commit, checkpoint) was on disk after this time."""
        self.state.replication.disk_times[kind].observe(time_us)

    def note_damage(self, text: str, meta: dict[str, bytes]) -> None:
        """Damage was met on this region's disk. `meta` are rows for the next commit."""
        self.state.disk.damage = text
        self.state.disk.meta_changes.update(meta)

    def cut_block(self) -> None:
        """Closes the open block, so that everything applied is in rows."""
        self.state.journal.cut_block()

    def checkpointed(self, position: int) -> None:
        """A complete checkpoint on disk reflects all rows up to `position`."""
        self.state.disk.checkpoint_position = position
        self.state.disk.checkpoint_ms = self.state.clock.now_ms
