"""Version vectors and dots (S1).

A version vector maps region_id → highest counter applied. It holds only counters above 0: an
absent region counts as 0.
"""

from __future__ import annotations

from collections.abc import Iterable

Vector = dict[int, int]
# (region_id, counter)
Dot = tuple[int, int]


def covers(vector: Vector, region_id: int, counter: int) -> bool:
    return vector.get(region_id, 0) >= counter


def includes(greater: Vector, lesser: Vector) -> bool:
    """Whether `greater` covers every dot that `lesser` covers."""
    return all(greater.get(region_id, 0) >= counter for region_id, counter in lesser.items())


def raise_to(vector: Vector, other: Vector) -> None:
    """Joins `other` into `vector`, in place: the component-wise maximum."""
    for region_id, counter in other.items():
        if counter > vector.get(region_id, 0):
            vector[region_id] = counter


def joined(one: Vector, other: Vector) -> Vector:
    result = dict(one)
    raise_to(result, other)
    return result


def minimum(vectors: Iterable[Vector]) -> Vector:
    """Returns the component-wise minimum, which covers the dots that every vector covers.

    The minimum of no vectors is the empty vector.
    """
    result: Vector | None = None
    for vector in vectors:
        if result is None:
            result = dict(vector)
            continue
        for region_id in list(result):
            counter = min(result[region_id], vector.get(region_id, 0))
            if counter:
                result[region_id] = counter
            else:
                del result[region_id]
    return result or {}


def dot_order(dot: Dot) -> Dot:
    """Returns the sort key of a dot: dots compare by (counter, region_id) (S1)."""
    return (dot[1], dot[0])
