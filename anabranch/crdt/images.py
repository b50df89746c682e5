"""The state of a key as it was at a cut, encoded later and some of it at a time (S13.1).

A key is cut in one step of the engine. Most of its state is few numbers, which are encoded then.
Pending entries and idempotency pairs can be a million, so the cut only refers to them: to the
columns of the chunks that hold pending entries, which a chunk copies before it changes an entry
(`Chunk.is_shared`), and to the bytes of packed pairs, which never change (`crdt/pair_run.py`).
`StateImage.encode` puts them into bytes while the key changes on. What is encoded is let go of at
once: the pairs may have been collected meanwhile, and to free all of them at the end would take
long. So an image is encoded once. An encoding that was broken off is continued by the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Optional, Union

from librt.strings import BytesWriter
from mypy_extensions import mypyc_attr

from anabranch.crdt.encoding import Reader, put_varint, varint, write_bytes, write_id, write_varint
from anabranch.crdt.idempotency import Pairs
from anabranch.crdt.pair import Pair
from anabranch.crdt.pair_run import PairRun, read_pair
from anabranch.crdt.pel import Pel
from anabranch.crdt.pel_chunk import Chunk
from anabranch.crdt.vector import Vector

# A reference costs a cut as much time as so many bytes that it encodes.
_CHUNK_WEIGHT: Final = 32
_RUN_WEIGHT: Final = 64
# Bytes of a consumer's entries above which they are a piece of their own.
_PIECE_BYTES: Final = 64 << 10
# A pair is encoded in the time of so many pending entries.
_PAIR_TIME: Final = 4


@mypyc_attr(acyclic=True)
class ChunkImage:
    """A chunk of pending entries as it was at a cut. Entries appended since are not looked at."""

    def __init__(self, region_id: int, chunk: Chunk) -> None:
        chunk.is_shared = True
        self._region_id: Final = region_id
        self._ms: Final = chunk.ms
        self._seqs: Final = chunk.seqs
        self._counters: Final = chunk.counters
        self._delivered_ms: Final = chunk.delivered_ms
        self._deliveries: Final = chunk.deliveries
        self._consumers: Final = chunk.consumers
        self.size: Final = chunk.size()
        # The consumers of the entries.
        self.held: Final = list(chunk.held)
        # The first entry that is not encoded.
        self.start = 0

    def put(self, outs: dict[int, BytesWriter], stop: int) -> None:
        """Appends the next entries, up to offset `stop`, to the bytes of their consumers."""
        start, self.start = self.start, stop
        all_ms = self._ms[start:stop].tolist()
        seqs = self._seqs[start:stop].tolist()
        counters = self._counters[start:stop].tolist()
        delivered_ms = self._delivered_ms[start:stop].tolist()
        deliveries = self._deliveries[start:stop].tolist()
        consumers = self._consumers[start:stop].tolist()
        region_id = self._region_id
        for n in range(len(counters)):
            out = outs[consumers[n]]
            write_varint(out, region_id)
            write_varint(out, counters[n])
            write_varint(out, all_ms[n])
            write_varint(out, seqs[n])
            write_varint(out, delivered_ms[n])
            write_varint(out, deliveries[n])


@mypyc_attr(acyclic=True)
class PelImage:
    """The consumers of a group as they were at a cut, each with its pending entries."""

    def __init__(self, pel: Pel) -> None:
        # What precedes the entries of a consumer, and its number.
        self._heads: Final[list[tuple[bytes, int]]] = []
        # The bytes of the entries of each consumer: pieces that are full, and the last one.
        self._full: Final[dict[int, list[bytes]]] = {number: [] for number in pel.totals}
        self._last: Final = {number: BytesWriter() for number in pel.totals}
        # The next one last.
        self._chunks: Final = [
            ChunkImage(region_id, chunk)
            for region_id in sorted(pel.parts, reverse=True)
            for chunk in reversed(pel.parts[region_id].chunks)
        ]

    def add(self, head: bytes, number: int) -> None:
        """Adds the next consumer: the bytes before its entries, and its number in the PEL."""
        self._heads.append((head, number))

    def weight(self) -> int:
        return sum(len(head) for head, _ in self._heads) + _CHUNK_WEIGHT * len(self._chunks)

    def is_large(self) -> bool:
        return bool(self._chunks)

    def encode(self, out: list[bytes], stretch: int) -> Iterator[int]:
        """Appends the bytes; see `StateImage.encode`."""
        while self._chunks:
            chunk = self._chunks[-1]
            while chunk.start < chunk.size:
                stop = min(chunk.start + stretch, chunk.size)
                yield stop - chunk.start
                chunk.put(self._last, stop)
            for number in chunk.held:
                if len(self._last[number]) > _PIECE_BYTES:
                    self._full[number].append(self._last[number].getvalue())
                    self._last[number] = BytesWriter()
            self._chunks.pop()
        for head, number in self._heads:
            out.append(head)
            if number in self._last:
                out += self._full[number]
                out.append(self._last[number].getvalue())


@mypyc_attr(acyclic=True)
class RunImage:
    """Pairs that follow each other, as they were at a cut."""

    def __init__(self, run: PairRun) -> None:
        self._pid: Final = run.pid
        self._seen: Final = run.seen
        # It stands on the first pair that is not encoded.
        self._reader: Final = Reader(run.data, run.start)
        self.left = run.count

    def next(self) -> Pair:
        self.left -= 1
        return read_pair(self._reader, self._pid, self._seen)


@mypyc_attr(acyclic=True)
class PairsImage:
    """The idempotency pairs of a stream as they were at a cut."""

    def __init__(self, pairs: Pairs) -> None:
        self._runs: Final = [
            RunImage(run) for producer in pairs.producers.values() for run in producer.runs
        ]
        self._runs.reverse()  # The next one is the last.
        self._has_begun = False
        # What the adder of the last pair had seen of other regions, and its bytes: those of the
        # regions below its own, and those above.
        self._seen: Optional[Vector] = None
        self._region_id = 0
        self._below = b""
        self._above = b""

    def weight(self) -> int:
        return _RUN_WEIGHT * len(self._runs)

    def is_large(self) -> bool:
        return bool(self._runs)

    def encode(self, out: list[bytes], stretch: int) -> Iterator[int]:
        """Appends the bytes; see `StateImage.encode`."""
        if not self._has_begun:
            self._has_begun = True
            out.append(varint(sum(run.left for run in self._runs)))
        step = max(stretch // _PAIR_TIME, 1)
        while self._runs:
            run = self._runs[-1]
            while run.left:
                count = min(step, run.left)
                yield _PAIR_TIME * count
                piece = BytesWriter()
                for _ in range(count):
                    self._put(piece, run.next())
                out.append(piece.getvalue())
            self._runs.pop()

    def _put(self, out: BytesWriter, pair: Pair) -> None:
        write_bytes(out, pair.pid)
        write_bytes(out, pair.iid)
        write_varint(out, pair.region_id)
        write_varint(out, pair.counter)
        write_id(out, pair.entry_id)
        write_varint(out, pair.recorded_ms)
        self._put_vector(out, pair)
        write_varint(out, pair.held_ms)

    def _put_vector(self, out: BytesWriter, pair: Pair) -> None:
        """Appends the vector of a pair. Mostly only the part of its own region is new."""
        seen = pair.seen
        region_id = pair.region_id
        if seen is not self._seen or region_id != self._region_id:
            self._seen = seen
            self._region_id = region_id
            below = bytearray()
            above = bytearray()
            for other in sorted(seen):
                part = below if other < region_id else above
                put_varint(part, other)
                put_varint(part, seen[other])
            self._below = bytes(below)
            self._above = bytes(above)
        write_varint(out, len(seen) + (1 if pair.seen_own else 0))
        out.write(self._below)
        if pair.seen_own:
            write_varint(out, region_id)
            write_varint(out, pair.seen_own)
        out.write(self._above)


_Piece = Union[bytes, PelImage, PairsImage]


@mypyc_attr(acyclic=True)
class StateImage:
    """The state of a key as it was at a cut.

    The writers of `crdt/state.py` append to `out`, and hand over what is encoded later to `add`.
    """

    def __init__(self) -> None:
        self.out = bytearray()
        self._pieces: Final[list[_Piece]] = []
        # Of so many pieces, the bytes are in `_encoded`.
        self._done = 0
        self._encoded: Final[list[bytes]] = []

    def add(self, image: Union[PelImage, PairsImage]) -> None:
        """Adds what follows the bytes that `out` has now. It is encoded now if that is little."""
        if not image.is_large():
            found: list[bytes] = []
            list(image.encode(found, 1))
            self.out += b"".join(found)
            return
        self._pieces.extend([bytes(self.out), image])
        self.out = bytearray()

    def weight(self) -> int:
        """Returns how long the cut took, as the number of bytes that are encoded in that time."""
        total = len(self.out)
        for piece in self._pieces:
            total += len(piece) if isinstance(piece, bytes) else piece.weight()
        return total

    def encode(self, stretch: int) -> Iterator[int]:
        """Encodes what is not encoded yet; `taken` has the bytes afterwards.

        It yields before each stretch that takes about as long as `stretch` pending entries: for how
        many it takes as long.
        """
        while self._done < len(self._pieces):
            piece = self._pieces[self._done]
            if isinstance(piece, bytes):
                self._encoded.append(piece)
            else:
                yield from piece.encode(self._encoded, stretch)
            self._done += 1

    def taken(self) -> list[bytes]:
        """Returns the bytes of an image that is encoded, in pieces."""
        return [*self._encoded, bytes(self.out)]

    def encoded(self) -> bytes:
        """Encodes all at once; returns the bytes."""
        for _ in self.encode(1 << 30):
            pass
        return b"".join(self.taken())
