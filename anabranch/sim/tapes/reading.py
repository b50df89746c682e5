"""The frames of tapes, in order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Union

from anabranch.crdt.encoding import Malformed, Reader
from anabranch.sim.calls import Call
from anabranch.sim.tapes.base import Base, read_base
from anabranch.sim.tapes.values import CallReader
from anabranch.sim.tapes.writing import BASE, CALL, CUT_SENT, JOINED, MAGIC


class Beginning(NamedTuple):
    """The state that a file begins with. `follows`: the calls before it lead to the same state."""

    base: Base
    follows: bool


class CutSent(NamedTuple):
    """The chunks of a cut have this digest."""

    cut: int
    digest: bytes


class Joined(NamedTuple):
    """The chunks that the JOIN just before joined have this digest."""

    digest: bytes


Frame = Union[Beginning, Call, CutSent, Joined]


class TapeError(Exception):
    """A file is no tape, or is damaged. The text names it."""


def number_of(file: Path) -> int:
    """The number of a tape, which is its name: later tapes of a region have higher numbers."""
    if not file.stem.isdecimal():
        raise TapeError(f"{file} is no tape: tapes are named by their number, as 00000001.tape")
    return int(file.stem)


def owner(file: Path) -> tuple[int, str]:
    """(region_id, name) of the region that wrote a tape."""
    region, name, _ = _head(file)
    return region, name


def _head(file: Path) -> tuple[int, str, Reader]:
    data = file.read_bytes()
    if not data.startswith(MAGIC):
        raise TapeError(f"{file} is no tape of this version")
    reader = Reader(data, len(MAGIC))
    return reader.varint(), reader.bytes_().decode(), reader


def frames(file: Path) -> Iterator[Frame]:
    """All frames of a file. The last one may be cut off: a process ended."""
    region, _, reader = _head(file)
    calls = CallReader(region)
    while not reader.at_end():
        try:
            frame = Reader(reader.bytes_())
        except Malformed:
            return
        kind = frame.varint()
        try:
            if kind == CALL:
                yield calls.read(frame)
            elif kind == BASE:
                follows = frame.varint() == 1
                yield Beginning(read_base(frame), follows)
            elif kind == CUT_SENT:
                cut = frame.varint()
                yield CutSent(cut, frame.data[frame.offset :])
            elif kind == JOINED:
                yield Joined(frame.data[frame.offset :])
        except (Malformed, IndexError, UnicodeDecodeError) as error:
            raise TapeError(f"{file} is damaged: {error}") from error
