"""Clients that wait: for entries, for peers, for effects to arrive here, or for the start's end."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final, Optional

from anabranch.crdt.vector import Vector
from anabranch.region.engine.questions import Questions
from anabranch.region.engine.session import Session


class BlockedRead:
    """An XREAD or XREADGROUP that found no entries and blocks.

    `argv` is the command with `$` and `+` resolved, so that it can run again. `deadline_ms` is a
    steady time; 0: none. `place` is its place among all reads in order of arrival.
    """

    def __init__(
        self, session: Session, keys: list[bytes], argv: list[bytes], deadline_ms: int, place: int
    ) -> None:
        self.session: Final = session
        self.keys: Final = keys
        self.argv: Final = argv
        self.deadline_ms: Final = deadline_ms
        self.place: Final = place


# Reads that were removed and still have a deadline in the heap, beside as many as wait.
_REMOVED_MAX: Final = 64


class BlockedReads:
    """The blocked reads by key and by session. They are served in order of arrival."""

    def __init__(self) -> None:
        self.by_key: dict[bytes, dict[int, BlockedRead]] = {}
        self.by_session: dict[int, BlockedRead] = {}
        # Reads that ever blocked.
        self._arrived = 0
        # (deadline, place, read), as a heap. It keeps reads that were removed for a while.
        self._deadlines: list[tuple[int, int, BlockedRead]] = []

    def add(self, session: Session, keys: list[bytes], argv: list[bytes], deadline_ms: int) -> None:
        """Adds the newest read."""
        self._arrived += 1
        read = BlockedRead(session, keys, argv, deadline_ms, self._arrived)
        self.by_session[session.session_id] = read
        for key in keys:
            self.by_key.setdefault(key, {})[session.session_id] = read
        if deadline_ms:
            if len(self._deadlines) >= 2 * len(self.by_session) + _REMOVED_MAX:
                self._deadlines = [one for one in self._deadlines if self._waits(one[2])]
                heapify(self._deadlines)
            heappush(self._deadlines, (deadline_ms, read.place, read))

    def _waits(self, read: BlockedRead) -> bool:
        return self.by_session.get(read.session.session_id) is read

    def remove(self, session_id: int) -> Optional[BlockedRead]:
        """Removes and returns the read of a session; None if it has none."""
        read = self.by_session.pop(session_id, None)
        if read is not None:
            for key in read.keys:
                waiting = self.by_key.get(key)
                if waiting is not None:
                    waiting.pop(session_id, None)
                    if not waiting:
                        del self.by_key[key]
        return read

    def waiting_for(self, keys: list[bytes]) -> list[BlockedRead]:
        """The reads that wait for one of these keys at least, in order of arrival.

        Which key changed first does not matter: the order of keys in memory changes with a start.
        """
        found: dict[int, BlockedRead] = {}
        for key in keys:
            for read in self.by_key.get(key, {}).values():
                found[read.place] = read
        return [found[place] for place in sorted(found)]

    def has_deadline(self, steady_ms: int) -> bool:
        """Whether the deadline of a read may be over at this steady time."""
        return bool(self._deadlines) and self._deadlines[0][0] <= steady_ms

    def take_timed_out(self, steady_ms: int) -> list[BlockedRead]:
        """Removes and returns the reads whose deadline is over, the earliest first."""
        late: list[BlockedRead] = []
        while self.has_deadline(steady_ms):
            read = heappop(self._deadlines)[2]
            if self._waits(read):
                self.remove(read.session.session_id)
                late.append(read)
        return late


class Waiter:
    """A waiting command other than a blocked read. `deadline_ms` is as in `BlockedRead`."""

    def __init__(self, session: Session, deadline_ms: int) -> None:
        self.session: Final = session
        self.deadline_ms = deadline_ms


class HoldersWaiter(Waiter):
    """WAIT: waits until `count` other members hold this region's effects up to `counter`."""

    def __init__(self, session: Session, deadline_ms: int, count: int, counter: int) -> None:
        super().__init__(session, deadline_ms)
        self.count: Final = count
        self.counter: Final = counter


class VectorWaiter(Waiter):
    """CRDT.WAIT: waits until this region has `vector` on its disk."""

    def __init__(self, session: Session, deadline_ms: int, vector: Vector) -> None:
        super().__init__(session, deadline_ms)
        self.vector: Final = vector


class RoundWaiter(Waiter):
    """CRDT.SYNC: waits until every receiver has acknowledged the vector of a sync round.

    If acknowledgements are announceable then, it waits for another round. `has_begun` is True once
    the round has begun. Its commit ends at `position` with `vector`; `position` is -1 until that
    commit is taken.
    """

    def __init__(self, session: Session, deadline_ms: int) -> None:
        super().__init__(session, deadline_ms)
        self.has_begun = False
        self.position = -1
        self.vector: Vector = {}

    def begin_anew(self) -> None:
        """Makes the command wait for another round."""
        self.has_begun = False
        self.position = -1


class DigestWaiter(Waiter):
    """CRDT.DIGEST: waits until all that changed is hashed, a part at each tick.

    At the deadline the rest is hashed at once.
    """


class Waiting:
    """All clients that wait. `questions` are those of clients that wait for the log on disk."""

    def __init__(self, questions: Questions) -> None:
        self.questions: Final = questions
        self.reads: Final = BlockedReads()
        self.waiters: list[Waiter] = []
        # Commands that would issue an effect before the start is over (S13.6).
        self.for_start: list[tuple[Session, list[bytes]]] = []
        # EXEC runs its commands, which must not block.
        self.is_executing = False

    def block(
        self, session: Session, keys: list[bytes], argv: list[bytes], deadline_ms: int
    ) -> None:
        """Makes a read wait for its keys. A read that waits already keeps place and deadline."""
        if session.session_id not in self.reads.by_session:
            self.reads.add(session, keys, argv, deadline_ms)
            session.waiting = True

    def add(self, waiter: Waiter) -> None:
        """Makes a command wait."""
        waiter.session.waiting = True
        self.waiters.append(waiter)

    def take_for_start(self) -> list[tuple[Session, list[bytes]]]:
        """The commands that waited for the end of the start, in order."""
        waiting, self.for_start = self.for_start, []
        return waiting

    def forget(self, session: Session) -> None:
        """Drops all that waits for a client that is gone."""
        self.reads.remove(session.session_id)
        self.waiters = [waiter for waiter in self.waiters if waiter.session is not session]
        self.for_start = [waiting for waiting in self.for_start if waiting[0] is not session]
