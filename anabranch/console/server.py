"""The console as a process: uvicorn on one address."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from types import FrameType
from typing import Final

import uvicorn

from anabranch import log_lines
from anabranch.console.app import Console, create_app
from anabranch.console.login import Login
from anabranch.console.player import Player
from anabranch.console.security import Guard
from anabranch.region.option_values import Address

_log: Final = logging.getLogger("anabranch.console")

# See `_give_way`.
_NICENESS: Final = 10
# Requests that have not ended so long after a signal are dropped.
_STOP_S: Final = 2


class _Server(uvicorn.Server):
    """Ends the connections of all pages on a signal, because they never end by themselves."""

    def __init__(self, config: uvicorn.Config, console: Console, greet: Callable[[], None]) -> None:
        super().__init__(config)
        self._console: Final = console
        self._greet: Final = greet

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._greet()

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


def serve(
    console: Console,
    listen: Address,
    hosts: list[str],
    login: Login,
    greeting: str,
    log_format: str = "text",
) -> None:
    """Serves until SIGINT or SIGTERM.

    `hosts` are further names for the Host header, `login` says who may see the page. `greeting` is
    told once the page can be loaded: printed, or with the log format ``json`` a line of the log.
    """
    if log_format == "json":
        log_lines.configure(log_format, None)
    config = uvicorn.Config(
        create_app(console, Guard(listen.host, hosts, login), [Player()]),
        host=listen.host,
        port=listen.port,
        log_level="warning",
        log_config=None if log_format == "json" else uvicorn.config.LOGGING_CONFIG,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_STOP_S,
        limit_concurrency=200,
    )

    def greet() -> None:
        if log_format == "json":
            _log.info("%s", greeting)
        else:
            print(greeting, flush=True)

    server = _Server(config, console, greet)
    _give_way()
    try:
        server.run()
    except KeyboardInterrupt:
        # uvicorn raises the signal again once it has stopped.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
