"""The end of the links of a region that stops in order. Sans-IO.

A region that stops tells each peer that receives from it so, in a last heartbeat, and stays until
these peers have ended their links. Only a peer that ends the link itself has surely read the
heartbeat: a stream that the stopping region ended first could fail in the peer's hands, when the
peer writes on it, before the peer reads on. A peer of a former version ignores the field.
"""

from __future__ import annotations

import logging

from anabranch.sync.session.connections import Connections
from anabranch.sync.session.links import PeerConnection


def leave(connections: Connections) -> None:
    """Ends all links, because this region stops: it dials and receives no more."""
    connections.is_leaving = True
    for link in connections.links.values():
        link.wanted = False
        if link.state == "up":
            connections.set_state(link, "connecting", "this region stops")
    for connection in list(connections.by_number.values()):
        if connection.sender is None or not connection.sender.open:
            connections.drop(connection)
        else:
            connection.sender.say_stop(connections.engine.disk_vector)


def peer_leaves(connections: Connections, connection: PeerConnection, now_ms: int) -> None:
    """Ends the link over which this region receives from a peer, which has said that it stops."""
    link = connections.links[connection.peer]
    connections.drop(connection)
    link.back_off(connections.steady.at(now_ms))
    name = connections.name_of(link.peer)
    connections.set_state(link, "connecting", f"{name} has stopped")
    connections.tell_link(logging.INFO, "link_ended", link.peer, f"has ended, because {name} stops")
