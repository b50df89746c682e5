"""Blocks (S1.4): runs of whole units of one region.

The region cuts a block once. Every region stores, chains, relays and applies it unchanged.

    body   version, origin, first counter, last counter, item, item, …
    item   an effect, or a mark: 0, name of a command

Consecutive adds to one key are one `AddRun`. Its bytes have the layout of a packed node, so a
region merges the run as a node.

A mark says which command issued the effects after it, up to the next mark. It stands only where
this is not the command that an effect of that kind usually comes from (`effects.usual_command`);
an empty name ends it. Marks have no dot and change no data: they tell a reader of the log that a
DEL and some adds were one RENAME. A block without marks is of version 1, with marks of version 2.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import mypyc_attr
from xxhash import xxh3_128_digest

from anabranch.crdt.adds import AddsPiece, IdempotentAdds
from anabranch.crdt.effect_bytes import (
    put_effect,
    put_run,
    read_effect,
    write_idempotent_adds,
    write_run,
)
from anabranch.crdt.effects import Effect, dots_of
from anabranch.crdt.encoding import Malformed, Reader, put_varint, write_bytes
from anabranch.crdt.named import Named
from anabranch.crdt.node import write_entry
from anabranch.crdt.scan import SAME_NAMES
from anabranch.crdt.vector import Vector

BLOCK_VERSION: Final = 1
MARKED_VERSION: Final = 2
MARK: Final = 0
NO_CHAIN: Final = bytes(16)


def chain_after(before: bytes, body: bytes) -> bytes:
    """Returns the chain value after a block (S13.5).

    It is xxh3-128 over the chain value before the block and the block's bytes.
    """
    return xxh3_128_digest(before + body)


@mypyc_attr(acyclic=True)
class Block:
    """One block: the effects of region `origin` with counters `first` to `last`.

    `chain` is the chain value after the block, 16 bytes.
    """

    def __init__(self, origin: int, first: int, last: int, body: bytes, chain: bytes) -> None:
        self.origin = origin
        self.first = first
        self.last = last
        self.body = body
        self.chain = chain


class Unit:
    """Consecutive effects of a block that one mark covers, in order.

    `command` is the name in the mark, empty if each effect comes from its usual command. Unmarked
    effects of several commands form one unit. `first` is the counter of the first effect.
    """

    def __init__(self, command: bytes, first: int) -> None:
        self.command: Final = command
        self.first: Final = first
        self.effects: Final[list[Effect]] = []


def read_units(block: Block) -> list[Unit]:
    """Returns the block's units in order; raises Malformed when its body and head differ."""
    reader = Reader(block.body)
    version = reader.varint()
    if version not in (BLOCK_VERSION, MARKED_VERSION):
        raise Malformed("a block of an unknown version")
    if (reader.varint(), reader.varint(), reader.varint()) != (
        block.origin,
        block.first,
        block.last,
    ):
        raise Malformed("a block's head and body differ")
    counter = block.first
    unit = Unit(b"", counter)
    units = [unit]
    while not reader.at_end():
        if version == MARKED_VERSION and block.body[reader.offset] == MARK:
            reader.offset += 1
            unit = Unit(reader.bytes_(), counter)
            units.append(unit)
            continue
        effect = read_effect(reader, counter)
        unit.effects.append(effect)
        counter += dots_of(effect)
    if counter != block.last + 1:
        raise Malformed("a block holds more or fewer effects than it says")
    return units


def read_effects(block: Block) -> list[Effect]:
    """Returns the block's effects in order; raises Malformed when its body and head differ."""
    units = read_units(block)
    effects = units[0].effects
    for unit in units[1:]:
        effects += unit.effects
    return effects


class BlockWriter:
    """The open block of this region: effects are appended as issued, and a run of adds grows."""

    def __init__(self, origin: int, first: int, run_max_entries: int, run_max_bytes: int) -> None:
        self.origin = origin
        self.first = first
        self.last = first - 1
        self._run_max_entries = run_max_entries or (1 << 30)
        self._run_max_bytes = run_max_bytes or (1 << 30)
        self._effects = BytesWriter()
        self.named: Final = Named()
        # Whether a mark is in force, and whether there is one at all.
        self.is_marked = False
        self._has_marks = False
        # The open run: adds to one key with one set of names. Empty data: no run is open.
        self._run_key = b""
        self._run_names = b""
        self._run_data = BytesWriter()
        self._run_count = 0
        self._run_ms = 0
        self._run_seq = 0
        # The ID of its first add.
        self._run_first_ms = 0
        self._run_first_seq = 0

    def size(self) -> int:
        """Returns the bytes written so far, without the head."""
        return len(self._effects) + len(self._run_data)

    def add(self, key: bytes, ms: int, seq: int, names: bytes, values: bytes) -> None:
        """Writes an add with the next counter. An ID that does not ascend ends the run."""
        self.last += 1
        data = self._run_data
        if (
            len(data) > 0
            and key == self._run_key
            and names == self._run_names
            and self._run_count < self._run_max_entries
            and len(data) + len(values) < self._run_max_bytes
            and (ms > self._run_ms or (ms == self._run_ms and seq > self._run_seq))
        ):
            write_entry(
                data,
                SAME_NAMES,
                ms - self._run_ms,
                seq - self._run_seq if ms == self._run_ms else seq,
                1,
                values,
            )
            self._run_count += 1
        else:
            self.end_run()
            self._run_key = key
            self._run_names = names
            self._run_count = 1
            self._run_first_ms = ms
            self._run_first_seq = seq
            write_entry(self._run_data, SAME_NAMES, ms, seq, 1, values)
        self._run_ms = ms
        self._run_seq = seq

    def add_piece(self, key: bytes, piece: AddsPiece) -> None:
        """Writes entries of a run with the next counters, as `add` writes one."""
        self.last += piece.count
        run = self._run_data
        if not (
            len(run) > 0
            and key == self._run_key
            and piece.names == self._run_names
            and self._run_count + piece.count <= self._run_max_entries
            and len(run) + piece.end <= self._run_max_bytes
        ):
            self.end_run()
            run = self._run_data
            self._run_key = key
            self._run_names = piece.names
            self._run_first_ms = piece.ms
            self._run_first_seq = piece.first.seq
            self._run_count = 0
            self._run_ms = 0
            self._run_seq = 0
        first = piece.first
        is_same_ms = piece.ms == self._run_ms
        write_entry(
            run,
            SAME_NAMES,
            piece.ms - self._run_ms,
            first.seq - self._run_seq if is_same_ms else first.seq,
            1,
            first.payload(),
        )
        run.write(piece.data()[first.next :])
        self._run_count += piece.count
        self._run_ms = piece.ms
        self._run_seq = piece.last_seq

    def add_idempotent(
        self, key: bytes, adds: IdempotentAdds, recorded_ms: int, vector: Vector
    ) -> None:
        """Writes idempotent adds with the next counters; see `write_idempotent_adds`."""
        self.end_run()
        self.named.entries(key, adds.ms, adds.seq, adds.ms, adds.last_seq())
        dot = (self.origin, self.last + 1)
        write_idempotent_adds(self._effects, key, adds, recorded_ms, dot, vector)
        self.last += adds.count()

    def mark(self, command: bytes) -> None:
        """Says which command issues the following effects; empty: the usual one of each."""
        self.end_run()
        self._effects.append(MARK)
        write_bytes(self._effects, command)
        self.is_marked = command != b""
        self._has_marks = True

    def put(self, effect: Effect) -> None:
        """Writes an effect other than a plain add, with the next counter (or counters)."""
        self.end_run()
        self.last += dots_of(effect)
        self.named.effect(effect)
        effects = bytearray()
        put_effect(effects, effect)
        self._effects.write(effects)

    def end_run(self) -> None:
        """Ends the run of adds, so that an add that follows begins another.

        So it becomes one node in the other regions, too, when its region log begins a new node.
        """
        run = self._run_data
        if len(run):
            self.named.entries(
                self._run_key, self._run_first_ms, self._run_first_seq, self._run_ms, self._run_seq
            )
            write_run(self._effects, self._run_key, self._run_names, run.getvalue())
            run.truncate(0)

    def body(self) -> bytes:
        """Returns the bytes of the block as it stands; nothing changes."""
        head = bytearray()
        put_varint(head, MARKED_VERSION if self._has_marks else BLOCK_VERSION)
        put_varint(head, self.origin)
        put_varint(head, self.first)
        put_varint(head, self.last)
        head += self._effects.getvalue()
        if len(self._run_data):
            put_run(head, self._run_key, self._run_names, self._run_data.getvalue())
        return bytes(head)
