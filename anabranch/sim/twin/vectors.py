"""Dots and vectors of the twin, as plain tuples and dicts."""

from __future__ import annotations

from collections.abc import Iterator

Vector = dict[int, int]


Dot = tuple[int, int]
"""(region_id, counter)"""


def covers(vector: Vector, dot: Dot) -> bool:
    """Whether a vector covers a dot."""
    return vector.get(dot[0], 0) >= dot[1]


def raise_to(vector: Vector, other: Vector) -> None:
    """Joins `other` into `vector`."""
    for region, counter in other.items():
        vector[region] = max(vector.get(region, 0), counter)


def has_more(vector: Vector, other: Vector) -> bool:
    """Whether a vector covers an effect that the other one does not cover."""
    return any(counter > other.get(region, 0) for region, counter in vector.items())


def newest(dots: Iterator[Dot]) -> Dot:
    """The highest dot: dots compare by (counter, region_id) (S1)."""
    return max(dots, key=lambda dot: (dot[1], dot[0]))
