"""The requests of CRDT.LINK: a link is cut, healed, delayed or limited. Sans-IO."""

from __future__ import annotations

import logging

from anabranch.sync.session.connections import Connections
from anabranch.sync.session.interfaces import LinkRequest


def carry_out(connections: Connections, request: LinkRequest, steady_ms: int) -> None:
    """Carries out one `CRDT.LINK peer UP | DOWN | DELAY ms | LIMIT bytes-per-second`.

    A delay may change from which regions this one receives directly.
    """
    link, action = connections.links.get(request.peer), request.action.upper()
    if link is None:
        return
    if action == "DOWN":
        link.wanted = False
        if link.connection is not None:
            connections.drop(link.connection)
        connections.set_state(link, "down", "CRDT.LINK DOWN")
        connections.tell_link(logging.WARNING, "link_cut", link.peer, "was cut by CRDT.LINK DOWN")
    elif action == "UP":
        if not link.wanted:
            connections.tell_link(logging.INFO, "link_healed", link.peer, "is wanted again")
        link.wanted = True
        link.dial_now(steady_ms)
        if link.connection is None:
            connections.set_state(link, "connecting")
    else:
        link.held.delay_ms = request.delay_ms
        link.held.limit_bytes_s = request.limit_bytes_s
        text = f"has a delay of {request.delay_ms} ms and a limit of {request.limit_bytes_s}"
        connections.tell_link(
            logging.WARNING,
            "link_throttled",
            link.peer,
            f"{text} bytes/s (0: none)",
            delay_ms=request.delay_ms,
            limit_bytes_s=request.limit_bytes_s,
        )
