"""The questions that senders ask of the effect log on disk, as values.

The docstring of each class defines the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from anabranch.crdt.vector import Vector


@dataclass(frozen=True)
class Locate:
    """Asks for a position after which every block follows that `vector` lacks.

    The answer is None when `vector` lacks no block of the log. `committed` is the position up to
    which the log is committed at the time of the question.
    """

    vector: Vector
    committed: int


@dataclass(frozen=True)
class ReadLog:
    """Asks for the block rows after `position`, ascending, about `bytes_max` bytes of them.

    The answer has at least one row if there is any. `committed` is the position up to which the log
    is committed at the time of the question: an answer without rows says that there are none up to
    it. The answer counts only if the log still reaches back to `vector` afterwards.
    """

    position: int
    committed: int
    bytes_max: int
    vector: Vector


@dataclass(frozen=True)
class ReadBlock:
    """Asks for the block that holds a dot; the answer is None when the log no longer has it."""

    origin: int
    counter: int


@dataclass(frozen=True)
class CheckChains:
    """Asks for the first region whose value in `chains` differs from this log's (S13.5).

    `chains` holds the chain values at `vector`. The answer is 0 when none differs. A value that the
    log does not know, or whose row is damaged, counts as equal.
    """

    vector: Vector
    chains: dict[int, bytes]


Request = Union[Locate, ReadLog, ReadBlock, CheckChains]
