"""What all commands share: identity, keyspace, journal, settings, sessions, and the few primitives through which state changes.

Every write goes through `issue` (effects) or `record` (local records); both refuse, before anything has changed, when the region may not
issue (S13.6, S13.7) or its disk has failed (S13.4).
"""

from __future__ import annotations

from typing import Optional

from anabranch.crdt.effects import Effect, RemoveObserved, SetDeadline
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.local import LocalRecord
from anabranch.crdt.stream import NEVER, Stream
from anabranch.crdt.vector import Vector
from anabranch.region.engine.blocking import Blocked, Blocking, Waiter
from anabranch.region.engine.gossip import PromisedAnswer
from anabranch.region.engine.journal import Journal
from anabranch.region.engine.lifecycle import RECOVERY, SERVING, Lifecycle
from anabranch.region.engine.removals import Removals
from anabranch.region.engine.replies import NO_REPLY, WAITING, CommandError, ErrorReply, Reply
from anabranch.region.engine.session import Session
from anabranch.region.engine.settings import Settings
from anabranch.region.engine.stability import Stability
from anabranch.region.engine.table import Command


class Member:
    """A region of the cluster (S1.1). `lost`: said to be gone for good, left out of every "every member" (S13.8)."""

    def __init__(self, region_id: int, name: str, lost: bool = False) -> None:
        self.region_id = region_id
        self.name = name
        self.lost = lost


class Answer:
    """A reply that comes later than its command."""

    def __init__(self, session: Session, reply: Reply) -> None:
        self.session = session
        self.reply = reply


class NotYet(Exception):
    """The command would issue an effect before the start is over: it waits (S13.6)."""


class Link:
    """What is known of the link that receives from one peer, and of the one by which that peer receives from here."""

    def __init__(self, peer: int) -> None:
        self.peer = peer
        self.state = "connecting"
        self.detail = ""
        self.is_down = False  # by CRDT.LINK … DOWN: nothing of it is applied
        self.delay_ms = 0
        self.receives_from_here = False
        self.acknowledged: Vector = {}  # what it has on its disk, said on the connection that is open


class LinkRequest:
    """What CRDT.LINK asked for: `action` is "UP", "DOWN" or "DELAY"."""

    def __init__(self, peer: int, action: str, delay_ms: int) -> None:
        self.peer = peer
        self.action = action
        self.delay_ms = delay_ms


class Statistics:
    """Counters for INFO; since the start."""

    def __init__(self) -> None:
        self.commands = 0
        self.calls: dict[str, int] = {}
        self.failed: dict[str, int] = {}
        self.rejected: dict[str, int] = {}
        self.errors: dict[str, int] = {}
        self.error_replies = 0
        self.connections = 0
        self.effects_merged = 0
        self.blocks_merged = 0
        self.snapshots_joined = 0
        self.snapshots_cut = 0
        self.gaps = 0
        self.forks = 0
        self.divergences = 0
        self.idmp_conflicts = 0
        self.idmp_evicted_early = 0
        self.expired_keys = 0
        self.expired_early = 0
        self.rounds = 0
        self.acknowledgements = 0
        self.unit_max_bytes_refused = 0

    def count_error(self, reply: ErrorReply) -> None:
        """Counts an error reply by its code; of codes, too, there are only so many."""
        code = reply.message.split(" ", 1)[0]
        self.error_replies += 1
        if code in self.errors or len(self.errors) < 128:
            self.errors[code] = self.errors.get(code, 0) + 1

    def reset(self) -> None:
        """CONFIG RESETSTAT."""
        self.__init__()  # type: ignore[misc]


class Identity:
    """Who this region is; `lives` numbers (S1.3) and the recovery come from its disk."""

    def __init__(self, cluster: str, region_id: int, name: str, members: list[Member]) -> None:
        self.cluster = cluster
        self.region_id = region_id
        self.name = name
        self.members = members


class Core:
    """The state that the engine's rooms share."""

    def __init__(
        self,
        identity: Identity,
        settings: Settings,
        keyspace: Keyspace,
        journal: Journal,
        lifecycle: Lifecycle,
    ) -> None:
        self.cluster = identity.cluster
        self.region_id = identity.region_id
        self.name = identity.name
        self.members: dict[int, Member] = {member.region_id: member for member in identity.members}
        self.settings = settings
        self.keyspace = keyspace
        self.journal = journal
        self.lifecycle = lifecycle
        self.stability = Stability()
        self.links: dict[int, Link] = {
            peer: Link(peer) for peer in self.members if peer != self.region_id
        }
        self.link_requests_made: list[LinkRequest] = []
        self.statistics = Statistics()
        self.removals = Removals()
        self.commands: dict[bytes, Command] = {}  # set by the engine
        self.sessions: dict[int, Session] = {}
        self.answers: list[Answer] = []
        self.started_ms = journal.clock_ms
        # With lost members: the first effect that this region issues after it was told so, or started; 0 without (S13.8).
        self.first_without_lost = 0
        self.note_lost()
        # The highest time that this region has read: it never runs back (S10.2).
        self.clock_ms = journal.clock_ms
        # Time for patience, intervals and time-outs: it goes on while the clock waits for a system time that was set back.
        self.steady_ms = journal.clock_ms
        self.read_ms = journal.clock_ms  # the last reading, whatever it was
        # -- the disk
        self.committed_position = journal.position
        self.disk_vector: Vector = dict(keyspace.vector)
        self.disk_chains: dict[int, bytes] = dict(keyspace.chains)
        self.disk_clock_ms = journal.clock_ms
        self.commit_error = ""  # why the last commit failed; empty: it did not (S13.4)
        self.meta_changes: dict[str, bytes] = {}  # identity facts to be stored with the next commit
        self.saved_position = journal.position  # up to which a checkpoint reflects everything
        self.log_bytes = 0  # effect log on disk, as the database says
        # -- rounds (S2.5)
        self.receiver_count = 0  # how many receive from here
        self.sync_requested = False
        self.last_round_ms = 0
        self.oldest_unsaved_ms = 0  # clock of the oldest change not yet in a commit; 0: none
        self.attest_wanted = False
        # -- replies that wait for a commit: (position, answer)
        self.held_answers: list[tuple[int, Answer]] = []
        # -- answers to recoveries that wait for a commit (S13.7)
        self.promised_answers: list[PromisedAnswer] = []
        # -- commands that wait for the end of the start
        self.not_yet: list[tuple[Session, list[bytes]]] = []
        # -- settings that hot paths read, refreshed when Settings.changes moves
        self.settings_seen = -1
        self.id_mode = "strict"
        self.is_always = False
        self.uncommitted_max_bytes = 0
        self.refresh_settings()
        self.blocking = Blocking()
        self.waiters: list[Waiter] = []
        self.is_executing = False  # inside EXEC: nothing blocks
        # The command or transaction that runs was let in: what it adds itself must not have it refused half-way (S14).
        self.had_room = False
        # -- facts that the process sets, for INFO
        self.process_facts: dict[str, str] = {}
        self.version = ""
        self.build = ""
        # -- requests to the process
        self.shutdown_requested = False
        self.shutdown_saves = True
        self.sessions_to_close: list[int] = []
        self.sleep_ms = 0

    # -- commands ----------------------------------------------------------------------------------------------------

    def find_command(self, argv: list[bytes]) -> Optional[Command]:
        """The command, or for a container its subcommand; None if there is none."""
        command = self.commands.get(argv[0].upper())
        if command is not None and command.subcommands and len(argv) > 1:
            return command.subcommands.get(argv[1].upper())
        return command

    def run(self, command: Command, session: Session, argv: list[bytes]) -> Reply:
        """Runs a command whose arity is right; client mistakes become error replies."""
        statistics = self.statistics
        statistics.calls[command.name] = statistics.calls.get(command.name, 0) + 1
        if not self.is_executing:
            self.had_room = False
        try:
            return command.handler(self, session, argv)
        except CommandError as error:
            statistics.failed[command.name] = statistics.failed.get(command.name, 0) + 1
            return ErrorReply(error.message)

    # -- settings ----------------------------------------------------------------------------------------------------

    def refresh_settings(self) -> None:
        settings = self.settings
        self.settings_seen = settings.changes
        self.id_mode = settings.text("crdt-xadd-id-uniqueness-mode")
        self.is_always = settings.text("appendfsync") == "always"
        self.uncommitted_max_bytes = settings.integer("crdt-uncommitted-max-bytes")
        self.keyspace.limits.max_entries = settings.integer("stream-node-max-entries")
        self.keyspace.limits.max_bytes = settings.integer("stream-node-max-bytes")
        self.journal.block_max_bytes = settings.integer("crdt-block-max-bytes")

    # -- time --------------------------------------------------------------------------------------------------------

    def read_clock(self, now_ms: int) -> int:
        """One reading per step; it never runs back."""
        if now_ms > self.read_ms:
            self.steady_ms += now_ms - self.read_ms
        self.read_ms = now_ms
        if now_ms > self.clock_ms:
            self.clock_ms = now_ms
            self.journal.clock_ms = now_ms
        return self.clock_ms

    # -- members -----------------------------------------------------------------------------------------------------

    def others(self) -> list[int]:
        """Every member but this one and the lost."""
        return [
            member.region_id
            for member in self.members.values()
            if member.region_id != self.region_id and not member.lost
        ]

    def note_lost(self) -> None:
        """Members were said to be lost, here or before this start."""
        self.stability.lost = [member.region_id for member in self.members.values() if member.lost]
        if self.stability.lost:
            self.first_without_lost = self.keyspace.vector.get(self.region_id, 0) + 1

    def knows_what_lost_left(self) -> bool:
        """Whether nothing of a lost member can still come from another (S13.8).

        All that they will ever have of it is in what they say once they hold an effect issued here after it was said to be lost; and that
        counts only when all of it is applied here. What they said before is no proof: a create, say, that they got afterwards would meet
        no tombstone here.
        """
        return self.first_without_lost == 0 or self.stability.all_hold(
            self.others(), self.region_id, self.first_without_lost
        )

    def member_named(self, name: str) -> Optional[Member]:
        for member in self.members.values():
            if member.name == name:
                return member
        return None

    def receivers(self) -> list[Link]:
        """The links by which others receive from here."""
        return [link for link in self.links.values() if link.receives_from_here]

    def may_issue(self) -> bool:
        return self.lifecycle.state == SERVING and not self.commit_error

    def stable_vector(self) -> Vector:
        """What every member is known to have on disk (S1); nothing while this region itself does not count."""
        if self.lifecycle.state != SERVING or not self.knows_what_lost_left():
            return {}
        return self.stability.stable(self.others(), self.disk_vector)

    def note_life(self) -> None:
        """The life or the recovery changed: to be stored with the next commit."""
        self.meta_changes["life"] = b"%d" % self.lifecycle.life
        self.meta_changes["recovery"] = b"%d" % self.lifecycle.recovery

    def changes_since_checkpoint(self) -> int:
        """How many rows no complete checkpoint on disk reflects, what is in no row yet included: 0 when all is in it."""
        return max(self.journal.next_position() - self.saved_position, 0)

    # -- reading -----------------------------------------------------------------------------------------------------

    def existing(self, key: bytes) -> Optional[Stream]:
        """The key as clients see it: None when it does not exist or a deadline hides it (S3.1)."""
        stream = self.keyspace.keys.get(key)
        if stream is None or not stream.exists_at(self.clock_ms):
            return None
        return stream

    # -- writing -----------------------------------------------------------------------------------------------------

    def require_issue(self) -> None:
        """Refuses what would issue an effect while this region may not; called before anything has changed."""
        if self.lifecycle.state == SERVING and not self.commit_error:
            self._require_room()
            return
        if self.commit_error:
            raise CommandError(
                f"MISCONF this region takes no writes: its last commit to disk failed and is being retried ({self.commit_error})"
            )
        if self.lifecycle.state == RECOVERY:
            waited = self.lifecycle.waited_for(self.others(), self.disk_vector)
            names = ", ".join(self.members[region_id].name for region_id in sorted(waited))
            raise CommandError(f"READONLY region {self.name} is in recovery, waiting for {names}")
        raise NotYet

    def require_disk(self) -> None:
        """Refuses a local record while commits fail, or too much waits for the disk."""
        if self.commit_error:
            self.require_issue()
        self._require_room()

    def _require_room(self) -> None:
        """A disk that is slower than the clients costs memory up to a limit (S14); asked once of a command or an EXEC."""
        if self.had_room:
            return
        if self.journal.pending_bytes() > self.uncommitted_max_bytes:
            raise CommandError(
                f"MISCONF this region takes no writes for now: {self.journal.pending_bytes()} bytes wait for its disk "
                f"(crdt-uncommitted-max-bytes is {self.uncommitted_max_bytes})"
            )
        self.had_room = True

    def issue(self, effect: Effect) -> int:
        """Issues an effect; its counter. The caller has called `require_issue` before its command changed anything."""
        self.note_unsaved()
        counter = self.journal.issue(effect)
        self.removals.note(effect, self.region_id, counter)
        return counter

    def record(self, record: LocalRecord) -> None:
        """Applies and writes down a local record."""
        self.require_disk()
        self.note_unsaved()
        self.journal.record(record)

    def note_unsaved(self) -> None:
        if self.oldest_unsaved_ms == 0:
            self.oldest_unsaved_ms = self.steady_ms

    def for_creation(self, key: bytes) -> Stream:
        """The key, ready for a write that creates it (S10.5).

        Where one is hidden, or something is left of an absent one, everything observed there is removed first, deadlines included;
        if there were deadlines an infinite one is set, which outlives any shorter one still on its way.
        """
        stream = self.keyspace.keys.get(key)
        if stream is None:
            return self.keyspace.get_or_create(key)
        if not stream.exists_at(self.clock_ms) and stream.has_leftovers():
            had_deadlines = bool(stream.deadlines)
            self.issue(RemoveObserved(key, dict(self.keyspace.vector), True))
            if had_deadlines:
                self.issue(SetDeadline(key, NEVER, []))
        return self.keyspace.get_or_create(key)

    # -- answering later ---------------------------------------------------------------------------------------------

    def answer(self, session: Session, reply: Reply) -> None:
        """Gives a session that waits its reply, or none if it asked for none (CLIENT REPLY)."""
        session.waiting = False
        if session.reply_mode != "on":
            if session.reply_mode == "skip":
                session.reply_mode = "on"
            reply = NO_REPLY
        self.answers.append(Answer(session, reply))

    def block(
        self, session: Session, keys: list[bytes], argv: list[bytes], timeout_ms: int
    ) -> Reply:
        """Makes a read wait for its keys (0: for ever); a retry keeps its place and its deadline."""
        if session.session_id not in self.blocking.by_session:
            deadline_ms = self.steady_ms + timeout_ms if timeout_ms else 0
            self.blocking.add(Blocked(session, keys, argv, deadline_ms))
            session.waiting = True
        return WAITING

    def wait(self, waiter: Waiter) -> Reply:
        """Makes a command wait for what peers acknowledge or what is applied here."""
        waiter.session.waiting = True
        self.waiters.append(waiter)
        return WAITING

    def answer_when_on_disk(self, session: Session, reply: Reply) -> None:
        """The same, once everything done up to now is on disk (S2.4)."""
        session.waiting = True
        position = self.journal.next_position()
        if position <= self.committed_position:
            self.answer(session, reply)
        else:
            self.attest_wanted = True
            self.held_answers.append((position, Answer(session, reply)))

    def release_answers(self) -> None:
        """Lets go the replies whose commit is on disk."""
        kept: list[tuple[int, Answer]] = []
        for position, answer in self.held_answers:
            if position <= self.committed_position:
                self.answer(answer.session, answer.reply)
            else:
                kept.append((position, answer))
        self.held_answers = kept
