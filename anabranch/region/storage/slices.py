"""The rows of captured keys, in transactions of bounded size (S13.1).

The rows of a key may be spread over several transactions. The row that makes them valid comes in
the last of these, and the removal of older rows not before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Optional

from mypy_extensions import mypyc_attr
from xxhash import xxh3_64

from anabranch.crdt.images import StateImage
from anabranch.crdt.state import NodeImage
from anabranch.region.storage import sums
from anabranch.region.storage.schema import Statement, in_bulk

_PART_BYTES: Final = 256 << 10
# A row takes about as much time as so many bytes of a body.
_ROW_BYTES: Final = 192
_PARTS: Final = "INSERT OR REPLACE INTO part (number, cut, part, body, sum) VALUES {}"
_NODES: Final = "INSERT OR REPLACE INTO node (number, region, node, cut, body, sum) VALUES {}"
_KEYS: Final = "INSERT OR REPLACE INTO key_state (key, number, cut, position, sum) VALUES {}"
_OLD_PARTS: Final = "DELETE FROM part WHERE number IN (VALUES {}) AND cut < ?"
# The join finds the rows by the primary key. Without it SQLite would read the whole table.
_OLD_NODES: Final = (
    "DELETE FROM node WHERE (number, region, node, cut) IN ("
    "SELECT node.number, node.region, node.node, node.cut FROM (VALUES {}) AS old"
    " CROSS JOIN node ON node.number = old.column1 AND node.region = old.column2"
    " AND node.node = old.column3 WHERE node.cut < ?)"
)
_FORMER_PARTS: Final = "DELETE FROM part WHERE number IN (VALUES {})"
_FORMER_NODES: Final = "DELETE FROM node WHERE number IN (VALUES {})"
# The number of a key that is gone.
GONE: Final = 0


@mypyc_attr(acyclic=True)
class KeyCut:
    """One key as it was at `position`.

    Its rows are stored under `number`, which is GONE if the key was absent. `former` is the number
    under which an earlier checkpoint stored it, if different, else 0.
    """

    def __init__(self, key: bytes, position: int, number: int, former: int) -> None:
        self.key = key
        self.position = position
        self.number = number
        self.former = former
        # An earlier checkpoint stored the key under `number`.
        self.has_older = False
        # The state without the nodes: as it was cut, then as pieces of bytes after their checksum.
        self.image: Optional[StateImage] = None
        self.state: list[bytes] = []
        self.images: list[NodeImage] = []
        # Nodes of `images` that an earlier checkpoint stored, too: (region_id, node number).
        self.rewritten: list[tuple[int, int]] = []
        # Nodes that are gone: (region_id, node number).
        self.dropped: list[tuple[int, int]] = []

    def encode(self, stretch: int) -> Iterator[int]:
        """Makes the bytes of the state; yields as `StateImage.encode` does."""
        image = self.image
        if image is None:
            return
        yield from image.encode(stretch)
        pieces = image.taken()
        total = xxh3_64()
        for piece in pieces:
            total.update(piece)
        self.state = [total.digest(), *pieces]
        self.image = None

    def parts(self, size: int) -> Iterator[bytes]:
        """The bytes of the state, in parts of `size` bytes."""
        part = bytearray()
        for piece in self.state:
            part += piece
            while len(part) >= size:
                yield bytes(part[:size])
                del part[:size]
        if part:
            yield bytes(part)


class _Rows:
    """The rows of one transaction by kind, so that rows of a kind share statements."""

    def __init__(self, cut: int) -> None:
        self._cut: Final = cut
        self._clear()

    def _clear(self) -> None:
        self.size = 0
        self.parts: list[tuple[object, ...]] = []
        self.nodes: list[tuple[object, ...]] = []
        self.keys: list[tuple[object, ...]] = []
        self.old_parts: list[tuple[object, ...]] = []
        self.old_nodes: list[tuple[object, ...]] = []
        self.dropped: list[tuple[object, ...]] = []
        self.former: list[tuple[object, ...]] = []

    def take(self) -> list[Statement]:
        """The statements in the order in which they run; afterwards there are no rows."""
        statements = [
            *in_bulk(_PARTS, self.parts),
            *in_bulk(_NODES, self.nodes),
            *in_bulk(_KEYS, self.keys),
            *in_bulk(_OLD_PARTS, self.old_parts, (self._cut,)),
            *in_bulk(_OLD_NODES, self.old_nodes, (self._cut,)),
            *in_bulk(_OLD_NODES, self.dropped, (self._cut + 1,)),
            *in_bulk(_FORMER_PARTS, self.former),
            *in_bulk(_FORMER_NODES, self.former),
        ]
        self._clear()
        return statements

    def add(self, kind: list[tuple[object, ...]], row: tuple[object, ...], size: int = 0) -> int:
        """Adds a row to one of the lists; returns the size of all rows. `size`: of its body."""
        kind.append(row)
        self.size += _ROW_BYTES + size
        return self.size


def slices(
    cuts: Sequence[KeyCut], cut: int, max_bytes: int, stretch: int, first: Statement
) -> Iterator[list[Statement]]:
    """The transactions that write keys under the cut number `cut`, each of about `max_bytes`.

    `first` is in the first one. An empty one means a rest: since the last one, as much was encoded
    as `stretch` pending entries are.
    """
    head = [first]
    rows = _Rows(cut)
    part_bytes = min(_PART_BYTES, max_bytes)
    encoded = 0
    for one in cuts:
        for count in one.encode(stretch):
            if encoded + count > stretch:
                encoded = 0
                yield []
            encoded += count
        for size in _fill(rows, one, cut, part_bytes):
            if size >= max_bytes:
                yield head + rows.take()
                head = []
    if head or rows.size:
        yield head + rows.take()


def _fill(rows: _Rows, one: KeyCut, cut: int, part_bytes: int) -> Iterator[int]:
    """Adds the rows of a key one by one; yields the size of the transaction after each."""
    number = one.number
    if number != GONE:
        for part, body in enumerate(one.parts(part_bytes)):
            total = sums.of_part(number, cut, part, body)
            yield rows.add(rows.parts, (number, cut, part, body, total), len(body))
        for image in one.images:
            encoded = image.encoded()
            total = sums.of_node(number, image.region_id, image.number, cut, encoded)
            row = (number, image.region_id, image.number, cut, encoded, total)
            yield rows.add(rows.nodes, row, len(encoded))
        for region_id, node in one.dropped:
            total = sums.of_node(number, region_id, node, cut, None)
            yield rows.add(rows.nodes, (number, region_id, node, cut, None, total))
    # A key that is gone keeps its position, too. If a start replayed earlier effects on it, they
    # would meet a key without its tombstones.
    total = sums.of_key(one.key, number, cut, one.position)
    yield rows.add(rows.keys, (one.key, number, cut, one.position, total), len(one.key))
    if one.has_older:
        yield rows.add(rows.old_parts, (number,))
    for region_id, node in one.rewritten:
        yield rows.add(rows.old_nodes, (number, region_id, node))
    for region_id, node in one.dropped:
        yield rows.add(rows.dropped, (number, region_id, node))
    if one.former:
        yield rows.add(rows.former, (one.former,))
