"""The questions that `region.driver.histories` asks of the log on disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from anabranch.region.storage.log import bounded


@dataclass(frozen=True)
class FindKey:
    """Asks which stretches of the log do not matter for a key; the answer is a `Reach`.

    `entry_id` and `has_entries` are those of `key_index.stretches_without`.
    """

    key: bytes
    entry_id: int
    has_entries: bool


@dataclass(frozen=True)
class ReadRows:
    """Asks for the rows after `position` up to `last`, about `bytes_max` bytes of bodies.

    The answer is a list of `Row`, ascending; snapshots come without chunks. It has at least one row
    if there is any.
    """

    position: int
    last: int
    bytes_max: int


@dataclass(frozen=True)
class ReadBlocks:
    """Asks for the blocks of `origin` with effects after the counter `after`, up to `last`.

    `last` is a position. The answer is as that to `ReadRows`.
    """

    origin: int
    after: int
    last: int
    bytes_max: int


class Reach:
    """How far the log reaches back, and where a key cannot be.

    `oldest` is the position of the oldest row and `oldest_ms` its clock, both 0 for an empty log;
    `excluded` are the stretches, first and last position, ascending.
    """

    def __init__(self, oldest: int, oldest_ms: int, excluded: list[tuple[int, int]]) -> None:
        self.oldest: Final = oldest
        self.oldest_ms: Final = oldest_ms
        self.excluded: Final = excluded


OLDEST: Final = "SELECT position, clock_ms FROM log ORDER BY position LIMIT 1"
# The index log_by_origin finds the first block. Blocks of one region stand in the log in the order
# of their counters.
BLOCKS_OF: Final = bounded(
    "log", "origin = +?2 AND last > ?3 AND position <= ?4 AND origin > 0", "last"
)
ROWS_BETWEEN: Final = bounded("log", "position > ?2 AND position <= ?3")
