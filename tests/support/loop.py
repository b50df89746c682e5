"""Waiting inside an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(is_true: Callable[[], bool], patience_s: float = 20) -> None:
    """Waits until the condition holds; TimeoutError if that takes longer."""
    async with asyncio.timeout(patience_s):
        while not is_true():
            await asyncio.sleep(0.005)
