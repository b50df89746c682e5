"""What senders ask of the log on disk, as values. Each class says what answers it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from anabranch.crdt.vector import Vector


@dataclass(frozen=True)
class Locate:
    """A position after which lies every block that `vector` lacks; None when it lacks none of the log.

    The log is committed up to `committed` when this is asked.
    """

    vector: Vector
    committed: int


@dataclass(frozen=True)
class ReadLog:
    """Block rows after `position`, ascending, about `bytes_max` bytes of them, at least one if there is any.

    The log is committed up to `committed` when this is asked: no rows then means none up to there.
    What is read counts only if the log still reaches back to `vector` afterwards.
    """

    position: int
    committed: int
    bytes_max: int
    vector: Vector


@dataclass(frozen=True)
class ReadBlock:
    """The block that holds a dot; None when the log has it no longer."""

    origin: int
    counter: int


@dataclass(frozen=True)
class CheckChains:
    """The first of the regions in `chains` whose chain value at `vector` differs from this log's, 0 for none (S13.5).

    What the log does not know counts as equal.
    """

    vector: Vector
    chains: dict[int, bytes]


Request = Union[Locate, ReadLog, ReadBlock, CheckChains]
