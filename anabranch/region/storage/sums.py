"""Checksums of the rows of a region's database.

Every row has a column `sum` over all its other columns, so a flipped byte is found whenever the row
is read. The checksum is xxh3-64, moved into the range of SQLite's signed integers. It is NULL in
rows that a build with schema version 1 wrote; these are not checked.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, Optional

from xxhash import xxh3_64_intdigest

from anabranch.crdt.encoding import Malformed

_LOG: Final = Struct(">6q").pack
_TWO: Final = Struct(">2q").pack
_THREE: Final = Struct(">3q").pack
_FOUR: Final = Struct(">4q").pack
_ZERO: Final = 1 << 63


def _sum(head: bytes, body: bytes) -> int:
    return xxh3_64_intdigest(body, xxh3_64_intdigest(head)) - _ZERO


def of_log(
    position: int,
    origin: int,
    first: int,
    last: int,
    source: int,
    clock_ms: int,
    chain: bytes,
    body: bytes,
) -> int:
    return _sum(_LOG(position, origin, first, last, source, clock_ms) + chain, body)


def of_staged(position: int, part: int, body: bytes) -> int:
    return _sum(_TWO(position, part), body)


def of_key(key: bytes, number: int, cut: int, position: int) -> int:
    return _sum(_THREE(number, cut, position), key)


def of_part(number: int, cut: int, part: int, body: bytes) -> int:
    return _sum(_THREE(number, cut, part), body)


def of_node(number: int, region: int, node: int, cut: int, body: Optional[bytes]) -> int:
    head = _FOUR(number, region, node, cut)
    return _sum(head, b"") if body is None else _sum(head + b"+", body)


def of_segment(first: int, last: int, found: bytes) -> int:
    return _sum(_TWO(first, last), found)


def of_meta(name: str, value: bytes) -> int:
    return _sum(name.encode(), value)


def require(found: Optional[int], wanted: int) -> None:
    """Raises Malformed if the stored sum `found` is not the one of the row."""
    if found is not None and found != wanted:
        raise Malformed("its checksum is wrong")
