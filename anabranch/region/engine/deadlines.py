"""The deadlines that are in force, by time (S10.2)."""

from __future__ import annotations

import heapq

from anabranch.crdt.stream import NEVER, Stream


class Deadlines:
    """Keys by the deadlines that will hide them. Times are wall times in ms."""

    def __init__(self) -> None:
        # Heap of (deadline, key). It may hold deadlines that are no longer in force.
        self._heap: list[tuple[int, bytes]] = []
        # Key → its deadline in the heap that is in force.
        self._in_force: dict[bytes, int] = {}
        # The clock was reset: which keys are hidden must be read anew.
        self.are_unread = False

    def __contains__(self, key: bytes) -> bool:
        return key in self._in_force

    def note(self, stream: Stream) -> None:
        """Takes the winning deadline of a key instead of its former one."""
        winner = stream.winning_deadline()
        if winner is None or winner[1] == NEVER:
            self._in_force.pop(stream.key, None)
        elif self._in_force.get(stream.key) != winner[1]:
            self._in_force[stream.key] = winner[1]
            heapq.heappush(self._heap, (winner[1], stream.key))
            if len(self._heap) > 2 * len(self._in_force) + 1000:
                self._heap = [(at_ms, key) for key, at_ms in self._in_force.items()]
                heapq.heapify(self._heap)

    def forget(self, key: bytes) -> None:
        """Forgets the deadline of a key that is gone."""
        self._in_force.pop(key, None)

    def passed(self, clock_ms: int) -> list[bytes]:
        """The keys whose deadlines have passed and were not taken yet."""
        found: list[bytes] = []
        places = [0]
        while places:
            place = places.pop()
            if place < len(self._heap) and self._heap[place][0] < clock_ms:
                at_ms, key = self._heap[place]
                if self._in_force.get(key) == at_ms:
                    found.append(key)
                places += (2 * place + 1, 2 * place + 2)
        return found

    def take_passed(self, clock_ms: int) -> list[bytes]:
        """Takes the keys whose deadlines have passed, in the order of these."""
        taken: list[bytes] = []
        while self._heap and self._heap[0][0] < clock_ms:
            at_ms, key = heapq.heappop(self._heap)
            if self._in_force.get(key) == at_ms:
                del self._in_force[key]
                taken.append(key)
        return taken

    def waiting(self) -> int:
        """The size of the heap, deadlines no longer in force included."""
        return len(self._heap)
