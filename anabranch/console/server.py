"""The console as a process: uvicorn on one address."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from types import FrameType
from typing import Final

import uvicorn

from anabranch.console.app import Console, create_app
from anabranch.console.player import Player
from anabranch.console.security import Guard
from anabranch.region.option_values import Address

# See `_give_way`.
_NICENESS: Final = 10
# Requests that have not ended so long after a signal are dropped.
_STOP_S: Final = 2


class _Server(uvicorn.Server):
    """Ends the connections of all pages on a signal, because they never end by themselves."""

    def __init__(self, config: uvicorn.Config, console: Console, greeting: str) -> None:
        super().__init__(config)
        self._console: Final = console
        self._greeting: Final = greeting

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            print(self._greeting, flush=True)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._console.live.close()
        super().handle_exit(sig, frame)


def _give_way() -> None:
    """Makes this process less urgent than a region on the same machine.

    Each time it woke up, it took the processor from a thread of the region, which then waited
    (`anabranch bench acceptance.watched_rate` shows for how long). A batch process of Linux takes
    no processor from others when it wakes up: it gets its turn some milliseconds later.
    """
    os.nice(_NICENESS)
    if sys.platform == "linux":
        # Some containers forbid it.
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def serve(console: Console, listen: Address, hosts: list[str], greeting: str) -> None:
    """Serves until SIGINT or SIGTERM.

    `hosts` are further names for the Host header. `greeting` is printed once the page can be
    loaded.
    """
    config = uvicorn.Config(
        create_app(console, Guard(listen.host, hosts), [Player()]),
        host=listen.host,
        port=listen.port,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_STOP_S,
        limit_concurrency=200,
    )
    server = _Server(config, console, greeting)
    _give_way()
    try:
        server.run()
    except KeyboardInterrupt:
        # uvicorn raises the signal again once it has stopped.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
