"""What a sender asks of the log, answered from the database. No loop of its own: live, the database crosses to its thread at each await;
in the simulator nothing waits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Optional

from anabranch.sync.doors import Database, Row
from anabranch.sync.sender import CheckChains, Locate, ReadBlock, ReadLog, Request

ReadRows = Callable[[ReadLog], Awaitable[Sequence[Row]]]


async def answer(database: Database, request: Request, read_rows: Optional[ReadRows] = None) -> Any:
    """What `Hub.answered` expects for this request. `read_rows`: how rows are read, where reads are shared."""
    if isinstance(request, ReadLog):
        rows = await (
            read_rows(request)
            if read_rows is not None
            else database.rows_after(request.position, request.bytes_max)
        )
        # Checked afterwards: the log may have been truncated while it was read.
        return rows if database.reaches_back(request.vector) else None
    if isinstance(request, Locate):
        return await database.position_for(request.vector)
    if isinstance(request, ReadBlock):
        return await database.block_with(request.origin, request.counter)
    return await _fork(database, request)


async def _fork(database: Database, request: CheckChains) -> int:
    for origin, chain in sorted(request.chains.items()):
        known: Optional[bytes] = await database.chain_at(origin, request.vector[origin])
        if known is not None and known != chain:
            return origin
    return 0
