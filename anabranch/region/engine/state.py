"""The parts of an engine, which all its modules and all commands share.

Each part has a module of its own. Functions that need several parts are methods of `EngineState`.
"""

from __future__ import annotations

from typing import Final, Optional

from anabranch.crdt.gossip import Heard
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.stream import Stream
from anabranch.crdt.vector import Vector, includes
from anabranch.region.engine.clock import EngineClock
from anabranch.region.engine.commit_schedule import CommitSchedule
from anabranch.region.engine.contents import Contents
from anabranch.region.engine.disk import DiskState
from anabranch.region.engine.journal import Journal
from anabranch.region.engine.lifecycle import RECOVERY, SERVING, STARTING, Lifecycle
from anabranch.region.engine.members import Members
from anabranch.region.engine.outbox import Outbox
from anabranch.region.engine.peers import Peers
from anabranch.region.engine.questions import Questions
from anabranch.region.engine.replies import Reply
from anabranch.region.engine.session import Session
from anabranch.region.engine.settings import CachedSettings, Settings
from anabranch.region.engine.stability import Stability
from anabranch.region.engine.stable_time import StableTime
from anabranch.region.engine.statistics import CommandStatistics, ReplicationStatistics
from anabranch.region.engine.table import Command
from anabranch.region.engine.waiting import Waiting
from anabranch.region.engine.writer import Writer


class EngineState:
    """The parts of one engine. The class of each part describes it."""

    def __init__(
        self,
        members: Members,
        settings: Settings,
        keyspace: Keyspace,
        journal: Journal,
        lifecycle: Lifecycle,
        disk_clock_ms: int,
        commands: dict[bytes, Command[EngineState]],
        stable: Optional[StableTime] = None,
    ) -> None:
        self.members: Final = members
        self.settings: Final = settings
        self.keyspace: Final = keyspace
        self.journal: Final = journal
        self.lifecycle: Final = lifecycle
        self.clock: Final[EngineClock] = journal.clock
        self.cached: Final = CachedSettings(settings)
        self.disk: Final = DiskState(
            journal.position,
            dict(keyspace.vector),
            dict(keyspace.chains),
            disk_clock_ms,
            self.clock.read_ms,
        )
        self.schedule: Final = CommitSchedule()
        self.writer: Final = Writer(
            keyspace, journal, self.clock, self.disk, lifecycle, members, self.schedule, self.cached
        )
        self.contents: Final = Contents(keyspace)
        self.stability: Final = Stability(stable)
        self.peers: Final = Peers(members, self.clock)
        self.sessions: Final[dict[int, Session]] = {}
        self.outbox: Final = Outbox()
        self.waiting: Final = Waiting(Questions(self.outbox, self.sessions))
        self.statistics: Final = CommandStatistics()
        self.replication: Final = ReplicationStatistics()
        # The replay of the log has counted the conflicts of former runs again.
        keyspace.conflicts.reset()
        # Every command by its name in upper case.
        self.commands: Final = commands
        # Facts that only the process knows, by INFO field name.
        self.process_facts: dict[str, str] = {}
        self.refresh_settings()
        self.note_lost()
        self.disk.lost = members.lost()

    # -- members and stability

    def note_lost(self) -> None:
        """Takes the lost members from the table, at the start and after `member lost` (S13.8)."""
        self.stability.lost = self.members.lost()
        self.lifecycle.note_lost(self.members.lost())

    def stable_vector(self) -> Vector:
        """The vector that every member is known to have on disk (S1).

        Empty while this region itself does not count, and while effects of a lost member may still
        arrive.
        """
        others = self.members.others()
        if self.lifecycle.state != SERVING or not self.stability.knows_what_lost_left(others):
            return {}
        return self.stability.stable(others, self.disk.vector)

    def counter_held_by(self, peer: int) -> int:
        """The highest counter of this region's effects known to be on a peer's disk.

        A vector that reached this region by gossip counts as well as an acknowledgement on the open
        connection, which is empty after each new handshake.
        """
        own = self.members.region_id
        heard = self.stability.newest(peer)
        gossiped = 0 if heard is None else heard.vector.get(own, 0)
        return max(self.peers.by_id[peer].acknowledged.get(own, 0), gossiped)

    def note_lags(self) -> None:
        """Notes what this region and each peer hold now (`lags`)."""
        lags, steady_ms = self.peers.lags, self.clock.steady_ms
        own = self.disk.vector.get(self.members.region_id, 0)
        others = self.members.others()
        held = min((self.counter_held_by(peer) for peer in others), default=own)
        lags.note_own(own, held, steady_ms)
        for peer in others:
            link, heard = self.peers.by_id[peer], self.stability.newest(peer)
            newest = 0 if heard is None else heard.vector.get(peer, 0)
            applied = self.keyspace.vector.get(peer, 0)
            hears = link.is_up or link.state == "none"
            lags.note_peer(peer, hears, newest, applied, steady_ms)

    def hear_life(self, region_id: int, life: int) -> None:
        """Notes a life of another member, whatever message names it (S1.3, S13.6).

        It replaces all statements of lower lives (S6.2), and gossip passes it on. So a region whose
        files and clock were set back hears of every life that a peer knows of it.
        """
        if self.lifecycle.hear_life(region_id, life):
            self.stability.hear(Heard(region_id, life, False, {}, 0))
            self.peers.clocks.forget(region_id)

    def check_held_by_peer(self, held: Vector) -> None:
        """Enters recovery if `held`, the vector of a peer, shows that this region lost effects.

        That is so if the peer holds more of this region's effects than the region itself (S13.7).
        """
        own = self.members.region_id
        if held.get(own, 0) > self.keyspace.vector.get(own, 0):
            self.lifecycle.enter_recovery()

    def check_collected_by_peer(self, collected: Vector) -> None:
        """Enters recovery if this region lacks effects that were once on its own disk.

        `collected` joins the stable vectors with which members collected, so all of it was once on
        every member's disk, this region's included. If the region lacks part of it, its files were
        restored from a backup. It must not issue effects that have not seen all of it, because a
        member has dropped the tombstones that such effects would have to meet (S6.1).
        """
        if not includes(self.keyspace.vector, collected):
            self.lifecycle.enter_recovery("it lacks effects that were once on its own disk")

    def stable_time(self) -> tuple[int, str]:
        """The stable time T in ms, and an empty text; or 0 and the reason why there is none (S7.7).

        T is the lowest of this region's clock on disk and of the clocks that came with the newest
        counting vectors of the other members.
        """
        if self.lifecycle.state != SERVING:
            return 0, f"this region is in the state {self.lifecycle.state}"
        if self.disk.clock_ms == 0:
            return 0, "this region has committed nothing yet"
        stable_ms = self.disk.clock_ms
        without: list[int] = []
        for other in self.members.others():
            clock_ms = self.stability.clock_that_counts(other)
            if clock_ms is None:
                without.append(other)
            elif clock_ms < stable_ms:
                stable_ms = clock_ms
        if without:
            return 0, f"no vector counts here yet of {self.members.names_of(without)}"
        if stable_ms > self.stability.time.highest_ms:
            self.stability.time.highest_ms = stable_ms
            self.keyspace.late.stable_id = stable_ms << 64
        return stable_ms, ""

    def hear_clock(self, peer: int, read_ms: int, ahead: dict[int, int]) -> None:
        """A member says what its clock reads, and by how much others are ahead of it (S10.2)."""
        if read_ms and peer in self.peers.by_id:
            self.peers.clocks.hear(peer, read_ms, ahead)
            self.note_clocks()

    def note_clocks(self) -> None:
        """Notes whether this region's clock is apart from the others' (S10.2)."""
        lifecycle = self.lifecycle
        if lifecycle.may_serve_alone and self.peers.clocks.is_alone:
            self.clock.confirm()
        lifecycle.clock_problem = self.peers.clocks.problem(lifecycle.state == STARTING)
        if self.peers.clocks.far_floors and not lifecycle.clock_problem:
            for clock_ms in self.peers.clocks.take_near_floors():
                self.raise_id_floor(clock_ms)

    def raise_id_floor(self, clock_ms: int) -> None:
        """Takes the clock on a member's disk from its answer to a start or a recovery (S7.7).

        Generated IDs never lie below it from now on. The floor goes to disk with the next commit,
        so with or before the first ID that it raises. A clock that is further ahead than
        `crdt-clock-offset-max-ms` counts for nothing, unless this region's own was behind.
        """
        if self.peers.clocks.is_far(clock_ms):
            self.peers.clocks.note_far(clock_ms)
        elif clock_ms > self.stability.time.id_floor_ms:
            self.stability.time.id_floor_ms = clock_ms
            self.disk.meta_changes["id_floor"] = b"%d" % clock_ms

    def is_taken_from(self, source: int) -> bool:
        """Whether blocks and snapshots of a peer are taken: its link is up, and it is not lost."""
        status = self.peers.by_id.get(source)
        return status is None or not (status.is_down or self.members.by_id[source].lost)

    # -- the disk

    def note_life(self) -> None:
        """Stores life and recovery with the next commit."""
        self.disk.meta_changes["life"] = b"%d" % self.lifecycle.life
        self.disk.meta_changes["recovery"] = b"%d" % self.lifecycle.recovery

    def note_ended_by_patience(self) -> None:
        """Notes that patience alone ended this region's start (S13.6), which may void T (S7.7)."""
        self.stability.time.patience_ms = self.clock.now_ms
        self.disk.meta_changes["patience"] = b"%d" % self.clock.now_ms

    def reset_clock(self) -> None:
        """Goes on from what the clock reads now, though this region had read a later time (S10.2).

        A new life (S1.3) replaces what others heard of the later time. The stable times that it
        made hold no longer (S7.7).
        """
        self.clock.reset()
        self.lifecycle.life += 1
        self.note_life()
        now_ms, time = self.clock.now_ms, self.stability.time
        time.highest_ms = self.keyspace.late.stable_id = 0
        time.reset_ms = now_ms
        self.peers.clocks.far_floors.clear()
        if self.peers.clocks.is_far(time.id_floor_ms):
            time.id_floor_ms = 0
            self.disk.meta_changes["id_floor"] = b"0"
        self.disk.reset_clock(now_ms)
        self.disk.meta_changes["clock"] = b"%d" % now_ms
        self.disk.meta_changes["clock_reset_at"] = b"%d" % now_ms
        self.contents.deadlines.are_unread = True
        # The clocks of rows up to this one count no more.
        self.journal.push_clock()
        self.store_meta("clock_reset", b"%d" % self.journal.position)

    def note_said_lost(self) -> None:
        """Notes that a member was declared lost here, which may void T (S7.7)."""
        self.stability.time.lost_ms = self.clock.now_ms
        self.disk.meta_changes["lost_at"] = b"%d" % self.clock.now_ms

    def note_called_lost(self) -> None:
        """Stores who calls this region lost (S13.8)."""
        by = sorted(self.lifecycle.lost_words.by)
        self.store_meta("called_lost", ",".join(map(str, by)).encode())

    @property
    def rebuilds_from(self) -> int:
        """The member whose snapshot this region joins before it merges anything (S13.7); 0: none.

        `anabranch repair --from` names it. A member that is lost gives nothing any more.
        """
        source = self.disk.rebuild_from
        if not source or self.lifecycle.state != RECOVERY or self.members.by_id[source].lost:
            return 0
        return source

    def end_rebuild(self) -> None:
        """The snapshot that a rebuilt region waited for is joined, or not needed any more."""
        if self.disk.rebuild_from:
            self.disk.note_rebuild(0)
            self.store_meta("rebuild_from", b"0")

    def store_meta(self, name: str, value: bytes) -> None:
        """Stores a meta row with a commit of its own, so that a reply can wait for it."""
        self.disk.meta_changes[name] = value
        # A row gives the commit a position. `meta_changes` goes into the same commit.
        self.journal.push_clock()
        self.schedule.note_unsaved(self.clock.steady_ms)

    def changes_since_checkpoint(self) -> int:
        """The number of rows that no complete checkpoint reflects, rows not yet cut included."""
        return max(self.journal.next_position() - self.disk.checkpoint_position, 0)

    def answer_when_on_disk(self, session: Session, reply: Reply) -> None:
        """Sends the reply once everything done up to now is on disk (S2.4)."""
        position = self.journal.next_position()
        if position <= self.disk.position:
            self.outbox.answer(session, reply)
        else:
            self.schedule.commit_wanted = True
            self.outbox.hold(session, reply, position)

    # -- reading

    def existing(self, key: bytes) -> Optional[Stream]:
        """The key as clients see it: None if it does not exist or a deadline hides it (S3.1)."""
        stream = self.keyspace.keys.get(key)
        if stream is None or not stream.exists_at(self.clock.now_ms):
            return None
        return stream

    # -- settings

    def refresh_settings(self) -> None:
        """Copies the settings to the parts that keep copies. Call it after a change."""
        was_always = self.cached.is_always
        self.cached.refresh(self.settings)
        if was_always and not self.cached.is_always:
            self.schedule.promised_position = self.journal.next_position()
            self.schedule.commit_wanted = True
        self.statistics.slow_log.refresh(self.settings)
        self.statistics.access_log.refresh(self.settings)
        self.keyspace.limits.max_entries = self.settings.integer("stream-node-max-entries")
        self.keyspace.limits.max_bytes = self.settings.integer("stream-node-max-bytes")
        self.keyspace.pair_limits.maxsize = self.settings.integer("stream-idmp-maxsize")
        self.keyspace.pair_limits.retired_max = self.settings.integer("crdt-idmp-retired-max")
        self.journal.block_max_bytes = self.settings.integer("crdt-block-max-bytes")
