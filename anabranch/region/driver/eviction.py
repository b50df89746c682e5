"""The limit of the memory of all clients together (``maxmemory-clients``). Sans-IO.

The memory of a client is its input that waits, its replies that it has not taken, and the commands
that its MULTI has queued: tot-mem of CLIENT LIST. Above the limit, clients are disconnected that
hold the most, except those of CLIENT NO-EVICT, until the rest is below it, as in Redis.
"""

from __future__ import annotations

import logging
from typing import Final

from anabranch.region.driver.client_connection import ClientConnection, ClientShare

log = logging.getLogger(__name__)


class Eviction:
    """Disconnects clients of `share` while they hold more than the limit."""

    def __init__(self, share: ClientShare) -> None:
        self._share: Final = share

    def evict(self, counts_all: bool) -> list[ClientConnection]:
        """Disconnects clients if the limit is exceeded, and returns their connections.

        Input and output of all clients are known at any time. Queued commands have to be counted,
        which is done if `counts_all`.
        """
        share = self._share
        share.limits.refresh()
        limit = share.limits.clients_bytes_max
        if limit == 0 or not (counts_all or share.unsent.total + share.query_bytes > limit):
            return []
        connections = [one for one in share.by_session.values() if one.memory()]
        total = sum(one.memory() for one in connections)
        if total <= limit:
            return []
        connections.sort(key=lambda one: one.memory(), reverse=True)
        evicted: list[ClientConnection] = []
        for connection in connections:
            if total <= limit:
                break
            session = connection.session
            if session is None or session.no_evict:
                continue
            total -= connection.memory()
            if (more := share.line("maxmemory-clients")) is not None:
                text = "client %s closed: the clients hold more than maxmemory-clients%s"
                log.warning(text, session.address, more)
            share.counters.evicted_clients += 1
            connection.abort()
            evicted.append(connection)
        return evicted
