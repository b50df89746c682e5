"""A region whose figures a test sets: an engine without a process, behind the product's /metrics.

It stands for the states that no operator can produce: they would be bugs of anabranch. Its figures
are those of the table, read and served as a region does.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Final

from anabranch.region.engine.engine import Engine
from anabranch.region.engine.figures.health import health, readiness
from anabranch.region.engine.figures.table import figures
from anabranch.region.live.http import HttpServer
from tests.support.engines import single


class MadeUpRegion:
    """An engine, and a thread that serves its figures at `port`."""

    def __init__(self) -> None:
        self.engine: Final[Engine] = single()
        # Otherwise its disk would seem to be full.
        self._facts: Final = {"crdt_disk_free_bytes": str(1 << 40)}
        self.engine.set_process_facts(self._facts)
        self.port = 0
        self._loop: Final = asyncio.new_event_loop()
        self._thread: Final = threading.Thread(target=self._loop.run_forever, daemon=True)
        state = self.engine.state
        self._server: Final = HttpServer(
            lambda: figures(state), lambda: health(state), lambda most: readiness(state, most)
        )

    def start(self) -> None:
        """Begins to serve."""
        self._thread.start()
        started = asyncio.run_coroutine_threadsafe(self._server.start("127.0.0.1", 0), self._loop)
        self.port = started.result(30)

    def stop(self) -> None:
        """Ends the thread."""
        asyncio.run_coroutine_threadsafe(self._server.close(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    def set_fact(self, name: str, value: int) -> None:
        """Sets a figure that only the process of a region knows."""
        self._facts[name] = str(value)
