"""Answers to questions about the log on disk: what links, checkpoints and histories ask of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Optional

from anabranch.crdt.block import Block
from anabranch.crdt.vector import Vector
from anabranch.region.driver.work import LogQuestion
from anabranch.region.engine.rows import BlockRow
from anabranch.region.storage import history, key_index, log, salvage
from anabranch.region.storage.history import FindKey, Reach, ReadBlocks, ReadRows
from anabranch.region.storage.log import OldRow, ReadOldest
from anabranch.region.storage.salvage import ReadSalvage
from anabranch.sync.session.log_requests import CheckChains, Locate, ReadBlock, ReadLog

Read = Callable[[str, tuple[object, ...]], Awaitable[Any]]
"""(SQL, parameters) → the rows of one statement."""


class LogAnswers:
    """Answers questions from the tables that `read` reads.

    `members`: the ids of all members, known once the region is loaded.
    """

    def __init__(self, read: Read) -> None:
        self._read: Final = read
        self.members: list[int] = []

    async def answer(self, request: LogQuestion) -> Any:
        """Answers a question. The class of the question decides the type of the answer.

        Raises:
            Malformed: A row that the answer needs is damaged.
            sqlite3.Error: The database cannot be read.
        """
        if isinstance(request, ReadLog):
            return await self.rows_after(request.position, request.bytes_max)
        if isinstance(request, Locate):
            return await self.position_before_lacking(request.vector)
        if isinstance(request, ReadBlock):
            return await self.block_with(request.origin, request.counter)
        if isinstance(request, ReadOldest):
            return await self.oldest_rows(request.up_to, request.count)
        if isinstance(request, ReadSalvage):
            after = (request.bytes_max, request.position)
            return await self._blocks(salvage.SALVAGED_AFTER, after)
        if isinstance(request, FindKey):
            return await self._reach(request)
        if isinstance(request, ReadBlocks):
            of_origin = (request.bytes_max, request.origin, request.after, request.last)
            return await self._blocks(history.BLOCKS_OF, of_origin)
        if isinstance(request, ReadRows):
            between = (request.bytes_max, request.position, request.last)
            return [log.read_row(row) for row in await self._read(history.ROWS_BETWEEN, between)]
        return await self.first_fork(request)

    async def _reach(self, request: FindKey) -> Reach:
        """How far the log reaches back, and the stretches that do not matter for a key."""
        oldest, oldest_ms = next(iter(await self._read(history.OLDEST, ())), (0, 0))
        segments = await self._read(key_index.SEGMENTS, ())
        excluded = key_index.stretches_without(
            request.key, segments, request.entry_id, has_entries=request.has_entries
        )
        return Reach(oldest, oldest_ms, excluded)

    async def rows_after(self, position: int, bytes_max: int) -> list[BlockRow]:
        """Block rows after a position, ascending, up to `bytes_max` bytes of bodies.

        The first row is returned even if it is larger.
        """
        return await self._blocks(log.BLOCKS_AFTER, (bytes_max, position))

    async def _blocks(self, sql: str, parameters: tuple[int, ...]) -> list[BlockRow]:
        return [log.read_block_row(columns) for columns in await self._read(sql, parameters)]

    async def position_before_lacking(self, vector: Vector) -> Optional[int]:
        """The position before the first block that `vector` lacks; None if it lacks no block."""
        found = await self._read(*log.first_lacking(vector, self.members))
        before = next(iter(found))[0]
        return None if before is None else int(before)

    async def block_with(self, origin: int, counter: int) -> Optional[Block]:
        """The block that holds the dot (origin, counter); None if the log no longer has it."""
        for columns in await self._read(log.BLOCK_WITH, (origin, counter)):
            block = log.read_block_row(columns).block
            if block.first <= counter:
                return block
        return None

    async def first_fork(self, request: CheckChains) -> int:
        """The first region whose chain value differs here; 0 if none does.

        A chain value at a counter that the log does not have counts as equal.
        """
        for origin, chain in sorted(request.chains.items()):
            found = await self._read(log.BLOCK_ENDING_AT, (origin, request.vector[origin]))
            for columns in found:
                if log.read_block_row(columns).block.chain != chain:
                    return origin
        return 0

    async def oldest_rows(self, up_to: int, count: int) -> list[OldRow]:
        """Up to `count` of the oldest rows, ascending, none after position `up_to`."""
        return [OldRow(*columns) for columns in await self._read(log.OLDEST, (up_to, count))]
