"""The state of a key as it was at a cut, encoded later and some of it at a time (S13.1).

A key is cut in one step of the engine. Most of its state is few numbers, which are encoded then.
Pending entries and idempotency pairs can be a million, so the cut only refers to them: to the
columns of the chunks that hold pending entries, which a chunk copies before it changes an entry
(`Chunk.is_shared`), and to pairs, which do not change. `StateImage.encode` puts them into bytes
while the key changes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Union

from librt.strings import BytesWriter
from mypy_extensions import mypyc_attr

from anabranch.crdt.encoding import put_bytes, put_id, put_varint, put_vector, varint, write_varint
from anabranch.crdt.idempotency import Pair, Pairs
from anabranch.crdt.pel import Pel
from anabranch.crdt.pel_chunk import Chunk

# A reference costs a cut as much time as so many bytes that it encodes.
_CHUNK_WEIGHT: Final = 32
_PAIR_WEIGHT: Final = 2
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

    def put(self, outs: dict[int, BytesWriter], start: int, stop: int) -> None:
        """Appends the entries from offset `start` up to `stop` to the bytes of their consumers."""
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
        self._numbers: Final = list(pel.totals)
        self._chunks: Final = [
            ChunkImage(region_id, chunk)
            for region_id in sorted(pel.parts)
            for chunk in pel.parts[region_id].chunks
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
        outs = {number: BytesWriter() for number in self._numbers}
        found: dict[int, list[bytes]] = {number: [] for number in self._numbers}
        for chunk in self._chunks:
            for start in range(0, chunk.size, stretch):
                stop = min(start + stretch, chunk.size)
                yield stop - start
                chunk.put(outs, start, stop)
            for number in chunk.held:
                if len(outs[number]) > _PIECE_BYTES:
                    found[number].append(outs[number].getvalue())
                    outs[number] = BytesWriter()
        for head, number in self._heads:
            out.append(head)
            if number in outs:
                out += found[number]
                out.append(outs[number].getvalue())


@mypyc_attr(acyclic=True)
class PairsImage:
    """The idempotency pairs of a stream as they were at a cut."""

    def __init__(self, pairs: Pairs) -> None:
        self._pairs: Final = pairs.everything()

    def weight(self) -> int:
        return _PAIR_WEIGHT * len(self._pairs)

    def is_large(self) -> bool:
        return bool(self._pairs)

    def encode(self, out: list[bytes], stretch: int) -> Iterator[int]:
        """Appends the bytes; see `StateImage.encode`."""
        out.append(varint(len(self._pairs)))
        step = max(stretch // _PAIR_TIME, 1)
        for start in range(0, len(self._pairs), step):
            stop = min(start + step, len(self._pairs))
            yield _PAIR_TIME * (stop - start)
            piece = bytearray()
            for n in range(start, stop):
                _put_pair(piece, self._pairs[n])
            out.append(bytes(piece))


def _put_pair(out: bytearray, pair: Pair) -> None:
    put_bytes(out, pair.pid)
    put_bytes(out, pair.iid)
    put_varint(out, pair.region_id)
    put_varint(out, pair.counter)
    put_id(out, pair.entry_id)
    put_varint(out, pair.recorded_ms)
    put_vector(out, pair.vector)
    put_varint(out, pair.held_ms)


_Piece = Union[bytes, PelImage, PairsImage]


@mypyc_attr(acyclic=True)
class StateImage:
    """The state of a key as it was at a cut.

    The writers of `crdt/state.py` append to `out`, and hand over what is encoded later to `add`.
    """

    def __init__(self) -> None:
        self.out = bytearray()
        self._pieces: Final[list[_Piece]] = []

    def add(self, image: Union[PelImage, PairsImage]) -> None:
        """Adds what follows the bytes that `out` has now. It is encoded now if that is little."""
        if not image.is_large():
            found: list[bytes] = []
            for _ in image.encode(found, 1):
                pass
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

    def encode(self, out: list[bytes], stretch: int) -> Iterator[int]:
        """Appends the bytes to `out`, in pieces.

        It yields before each stretch that takes about as long as `stretch` pending entries: for how
        many it takes as long.
        """
        for piece in self._pieces:
            if isinstance(piece, bytes):
                out.append(piece)
            else:
                yield from piece.encode(out, stretch)
        out.append(bytes(self.out))

    def encoded(self) -> bytes:
        """Returns the bytes, all at once."""
        out: list[bytes] = []
        for _ in self.encode(out, 1 << 30):
            pass
        return b"".join(out)
