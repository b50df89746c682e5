"""What the judge of vectors knows of one region."""

from __future__ import annotations

from anabranch.crdt.vector import Vector


class Region:
    """The facts known of one region. Vectors are kept as the history gave them."""

    def __init__(self) -> None:
        self.now: Vector = {}
        # The vector of its last commit.
        self.disk: Vector = {}
        # The component-wise maximum of all vectors that were on its disk.
        self.ever: Vector = {}
        self.life = 0
        # The counter of the last own effect that its last start found.
        self.found = 0
        # Time in ms of the last start that found less than was on disk before; -1: none.
        self.lost_ms = -1
        # The counters at which its blocks end, ascending.
        self.ends: list[int] = []
        # The chain value after each of these blocks.
        self.chains: list[bytes] = []
        # The counters at which its steps ended, ascending.
        self.issued: list[int] = []
        # Of each of these steps: the vector before it. A merge may issue effects before all of it
        # is merged, so these effects rest on no more than that.
        self.rests_on: list[Vector] = []
        # Of each of these steps: the vector after it.
        self.at_most: list[Vector] = []
        # A counter inside a command's effects → the last counter of these effects.
        self.units: dict[int, int] = {}

    def holds(self, vector: Vector) -> None:
        """Notes a vector that is on the region's disk."""
        self.disk = vector
        for origin, counter in vector.items():
            if counter > self.ever.get(origin, 0):
                self.ever[origin] = counter


def includes(greater: Vector, lesser: Vector) -> bool:
    """Whether `greater` covers everything that `lesser` covers."""
    if greater is not lesser:
        get = greater.get
        for region, counter in lesser.items():
            if get(region, 0) < counter:
                return False
    return True
