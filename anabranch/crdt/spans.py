"""Sets of counters of one region log, as disjoint spans `(from, to]` (S1, S7.3).

Such a set is nearly always one span. The end of that span then serves as a cursor.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from librt.strings import BytesWriter
from mypy_extensions import mypyc_attr

from anabranch.crdt.encoding import Malformed, Reader, write_varint
from anabranch.crdt.ids import MAX_HALF

# The end of a span whose entry ID is not known.
UNKNOWN_ID = 0


@mypyc_attr(acyclic=True)
class Spans:
    """A set of spans. They ascend and never touch: `(a, b]` and `(b, c]` become `(a, c]`.

    Each span keeps the entry ID of its end (S7.6). The ID is a function of the end's dot, so equal
    sets have equal IDs, except that a piece cut out of a span may have UNKNOWN_ID.
    """

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.end_ids: list[int] = []

    def __bool__(self) -> bool:
        return bool(self.starts)

    def copy(self) -> Spans:
        other = Spans()
        other.starts = list(self.starts)
        other.ends = list(self.ends)
        other.end_ids = list(self.end_ids)
        return other

    def add(self, start: int, end: int, end_id: int) -> None:
        """Adds the counters of `(start, end]`; `end_id` is the entry ID of `end`."""
        if end <= start:
            return
        if not self.ends or start > self.ends[-1]:
            self.starts.append(start)
            self.ends.append(end)
            self.end_ids.append(end_id)
            return
        if start == self.ends[-1]:
            # Mostly the last span goes on.
            self.ends[-1] = end
            self.end_ids[-1] = end_id
            return
        low = bisect_left(self.ends, start)
        high = bisect_right(self.starts, end)
        if low < high:
            start = min(start, self.starts[low])
            if self.ends[high - 1] > end or (self.ends[high - 1] == end and end_id == UNKNOWN_ID):
                end = self.ends[high - 1]
                end_id = self.end_ids[high - 1]
        self.starts[low:high] = [start]
        self.ends[low:high] = [end]
        self.end_ids[low:high] = [end_id]

    def union(self, other: Spans) -> None:
        for index in range(len(other.starts)):
            self.add(other.starts[index], other.ends[index], other.end_ids[index])

    def contains(self, counter: int) -> bool:
        index = bisect_left(self.ends, counter)
        return index < len(self.ends) and self.starts[index] < counter

    def end_covering(self, counter: int) -> int:
        """Returns the end of the span that holds `counter`; 0 if no span holds it."""
        if not self.ends or counter > self.ends[-1]:
            return 0
        index = bisect_left(self.ends, counter)
        return self.ends[index] if self.starts[index] < counter else 0

    def truncate(self, counter: int, counter_id: int) -> None:
        """Removes the counters above `counter`.

        `counter_id` is the entry ID of `counter`; a span that is cut there ends with it.
        """
        index = bisect_left(self.ends, counter)
        if index < len(self.ends) and self.starts[index] < counter:
            if self.ends[index] > counter:
                self.ends[index] = counter
                self.end_ids[index] = counter_id
            index += 1
        del self.starts[index:]
        del self.ends[index:]
        del self.end_ids[index:]

    def minus(self, other: Spans) -> Spans:
        """Returns the counters of this set that `other` lacks."""
        result = Spans()
        for index in range(len(self.starts)):
            start = self.starts[index]
            end = self.ends[index]
            theirs = bisect_right(other.ends, start)
            while theirs < len(other.starts) and other.starts[theirs] < end:
                if other.starts[theirs] > start:
                    result.add(start, other.starts[theirs], UNKNOWN_ID)
                start = max(start, other.ends[theirs])
                theirs += 1
            result.add(start, end, self.end_ids[index])
        return result

    def highest_end(self) -> tuple[int, int]:
        """Returns (counter, entry ID) of the last end; (0, 0) for the empty set."""
        return (self.ends[-1], self.end_ids[-1]) if self.ends else (0, 0)

    def equals(self, other: Spans) -> bool:
        return self.starts == other.starts and self.ends == other.ends


def _write_spans(out: BytesWriter, spans: Spans) -> None:
    write_varint(out, len(spans.starts))
    previous = 0
    for index in range(len(spans.starts)):
        write_varint(out, spans.starts[index] - previous)
        write_varint(out, spans.ends[index] - spans.starts[index])
        write_varint(out, spans.end_ids[index] >> 64)
        write_varint(out, spans.end_ids[index] & MAX_HALF)
        previous = spans.ends[index]


def _read_spans(reader: Reader) -> Spans:
    spans = Spans()
    previous = 0
    for _ in range(reader.count()):
        start = previous + reader.varint()
        length = reader.varint()
        if length == 0:
            raise Malformed("an empty span")
        previous = start + length
        spans.add(start, previous, reader.id_())
    return spans


SpansByRegion = dict[int, Spans]


def put_spans_by_region(out: bytearray, spans: SpansByRegion) -> None:
    writer = BytesWriter()
    write_spans_by_region(writer, spans)
    out += writer.getvalue()


def write_spans_by_region(out: BytesWriter, spans: SpansByRegion) -> None:
    regions = [region_id for region_id in sorted(spans) if spans[region_id]]
    write_varint(out, len(regions))
    for region_id in regions:
        write_varint(out, region_id)
        _write_spans(out, spans[region_id])


def read_spans_by_region(reader: Reader) -> SpansByRegion:
    result: SpansByRegion = {}
    for _ in range(reader.count()):
        region_id = reader.varint()
        result[region_id] = _read_spans(reader)
    return result


def union_by_region(into: SpansByRegion, other: SpansByRegion) -> None:
    for region_id, spans in other.items():
        if region_id in into:
            into[region_id].union(spans)
        else:
            into[region_id] = spans.copy()
