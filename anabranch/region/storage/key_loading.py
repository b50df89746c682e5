"""Loading the keys of the checkpoint at a start, each with its parts and nodes.

A region can have millions of keys, and a key can have gigabytes of nodes. So the tables are read
side by side in the order of the numbers under which the keys are stored, some rows at a time.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterable, Sequence
from typing import Any, Final, Optional

from anabranch.crdt.encoding import Malformed
from anabranch.crdt.node import PackedNode
from anabranch.crdt.state import push_node, read_converged, read_local, read_node
from anabranch.crdt.stream import Stream
from anabranch.region.engine.errors import Damaged
from anabranch.region.storage import sums
from anabranch.region.storage.checkpoint import checked
from anabranch.region.storage.loading import Stored, shown_name
from anabranch.region.storage.schema import Statement
from anabranch.region.storage.slices import GONE

_KEYS: Final = "SELECT key, number, cut, position, sum FROM key_state"
# Rows of the first question to a table, and of any one; and about how many bytes come at once.
_FIRST_ROWS: Final = 64
_ROWS_MAX: Final = 1000
_BYTES: Final = 4 << 20
# Above the number of every key.
_NO_NUMBER: Final = 1 << 62

Rows = Iterable[Sequence[Any]]


class StoredRows:
    """The rows of a table whose primary key begins with the number of a key, in that order."""

    def __init__(self, table: str, primary_key: tuple[str, ...]) -> None:
        names = ", ".join(primary_key)
        places = ", ".join("?" * len(primary_key))
        self._sql: Final = (
            f"SELECT {names}, body, sum FROM {table} WHERE ({names}) > ({places}) "
            f"ORDER BY {names} LIMIT ?"
        )
        self._body_at: Final = len(primary_key)
        # The primary key of the last row that was read.
        self._last: tuple[object, ...] = (-1,) * len(primary_key)
        self._rows: list[Sequence[Any]] = []
        self._at = 0
        self._rows_max = _FIRST_ROWS
        self._is_over = False
        # Numbers of rows that were passed over.
        self.passed: dict[int, None] = {}

    def some_of(self, number: int) -> Generator[Statement, Rows, list[Sequence[Any]]]:
        """Returns the next rows of a key that were read together; none after its last row.

        It yields what is to be read, and is sent the rows. The numbers must ascend: rows of a lower
        one belong to no key.
        """
        while True:
            rows = self._rows
            at = self._at
            while at < len(rows) and _is_below(rows[at][0], number):
                self.passed[rows[at][0]] = None
                at += 1
            begin = at
            while at < len(rows) and rows[at][0] == number:
                at += 1
            self._at = at
            if at > begin:
                return rows[begin:at]
            if at < len(rows) or self._is_over:
                return []
            self._take((yield self._sql, (*self._last, self._rows_max)))

    def _take(self, rows: Rows) -> None:
        self._rows = list(rows)
        self._at = 0
        count = len(self._rows)
        self._is_over = count < self._rows_max
        size = 1
        for row in self._rows:
            body = row[self._body_at]
            if isinstance(body, bytes):
                size += len(body)
        if count:
            self._last = tuple(self._rows[-1][: self._body_at])
        self._rows_max = max(1, min(4 * self._rows_max, _ROWS_MAX, count * _BYTES // size))


def _is_below(found: object, number: int) -> bool:
    """Whether a row belongs to a lower number. In a damaged file it may be no number."""
    return isinstance(found, int) and found < number


def load_keys(stored: Stored) -> Generator[Statement, Rows, None]:
    """Loads all keys of the checkpoint into `stored`.

    It yields each statement that is to be run, and is sent its rows.

    Raises:
        Damaged: A key is damaged.
    """
    keys = yield _KEYS, ()
    parts = StoredRows("part", ("number", "cut", "part"))
    nodes = StoredRows("node", ("number", "region", "node", "cut"))
    for row in sorted(keys, key=_number_of):
        try:
            yield from _load_key(stored, row, parts, nodes)
        except (Malformed, ValueError, TypeError, AttributeError, struct.error) as error:
            raise Damaged(
                f"the checkpoint of key {shown_name(row[0])} is damaged: {error}"
            ) from error
    for table in (parts, nodes):
        yield from table.some_of(_NO_NUMBER)
        stored.needless.numbers.update(table.passed)


def _number_of(row: Sequence[Any]) -> int:
    number = row[1]
    return number if isinstance(number, int) else -1


def _load_key(
    stored: Stored, row: Sequence[Any], parts: StoredRows, nodes: StoredRows
) -> Generator[Statement, Rows, None]:
    """Loads the key of a row of `key_state`; Malformed if its state and nodes do not fit."""
    key, number, cut, position, found = row
    sums.require(found, sums.of_key(key, number, cut, position))
    stored.skip_keys[key] = position
    stored.cut = max(stored.cut, cut)
    if number == GONE:
        stored.gone[key] = position
        return
    state = yield from _read_state(stored, number, cut, parts)
    keyspace = stored.keyspace
    stream = Stream(key, keyspace.limits, keyspace.pair_limits)
    reader = checked(state)
    read_local(reader, stream, read_converged(reader, stream))
    yield from _load_nodes(stored, stream, number, cut, nodes)
    length = reader.varint()
    if stream.length() != length:
        raise Malformed(f"it has {stream.length()} entries instead of {length}")
    for log in stream.logs.values():
        log.next_number = max((node.number for node in log.node_map.nodes), default=0) + 1
    stream.stored_number = number
    keyspace.put_loaded(stream)
    stored.numbers[key] = number


def _read_state(
    stored: Stored, number: int, cut: int, parts: StoredRows
) -> Generator[Statement, Rows, bytes]:
    """Returns the state of a key without its nodes."""
    bodies: list[bytes] = []
    while some := (yield from parts.some_of(number)):
        for _, its_cut, part, body, found in some:
            if its_cut == cut:
                sums.require(found, sums.of_part(number, cut, part, body))
                bodies.append(body)
            else:
                stored.needless.cuts[number] = cut
    return b"".join(bodies)


def _load_nodes(
    stored: Stored, stream: Stream, number: int, cut: int, nodes: StoredRows
) -> Generator[Statement, Rows, None]:
    """Puts the nodes of a key into its region logs: of each the newest that the cut includes."""
    made: list[tuple[int, int, PackedNode]] = []
    region_id = node_number = newest_cut = 0
    newest: Optional[bytes] = None
    needless = stored.needless
    while some := (yield from nodes.some_of(number)):
        for _, region, node, its_cut, body, found in some:
            if its_cut > cut:
                needless.cuts[number] = cut
                continue
            sums.require(found, sums.of_node(number, region, node, its_cut, body))
            if region != region_id or node != node_number:
                _make_node(made, region_id, node_number, newest)
                region_id, node_number = region, node
            elif newest is not None:
                needless.nodes.append((number, region, node, newest_cut))
            if body is None:
                needless.nodes.append((number, region, node, its_cut))
            newest, newest_cut = body, its_cut
    _make_node(made, region_id, node_number, newest)
    for region_id, _, one in sorted(made, key=_base_counter):
        push_node(stream, region_id, one)


def _make_node(
    made: list[tuple[int, int, PackedNode]], region_id: int, number: int, body: Optional[bytes]
) -> None:
    """Reads a node, unless it is gone."""
    if body is not None:
        node = read_node(body)
        node.number = number
        node.is_unsaved = False
        made.append((region_id, node.base_counter, node))


def _base_counter(one: tuple[int, int, PackedNode]) -> int:
    """The nodes of a region log are put in by this."""
    return one[1]
