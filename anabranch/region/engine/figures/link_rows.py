"""Rows about the links with each other region, with the peer as their label."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from anabranch.region.engine.figures.figure import (
    COUNTER,
    GAUGE,
    Distribution,
    Figure,
    Histograms,
    Labelled,
    Number,
    Values,
    View,
)
from anabranch.region.engine.figures.shared import behind, behind_ms, lag_ms, lag_of
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.statistics import Traffic

_PEER: Final = ("peer",)
# The fact of the process that tells when its certificate ends.
CERTIFICATE_DAYS: Final = "crdt_certificate_days"
_BOTH_WAYS: Final = ("peer", "direction")


def _each(view: View, read: Callable[[EngineState, int], float]) -> Values:
    """A value for each other member that is not lost."""
    state = view.state
    return [
        ({"peer": state.members.name_of(peer)}, float(read(state, peer)))
        for peer in sorted(state.members.others())
    ]


def _each_dialled(view: View) -> Values:
    """Whether the link is up, for each member that is dialled and not lost."""
    by_id = view.state.peers.by_id
    return [
        ({"peer": view.state.members.name_of(peer)}, float(by_id[peer].is_up))
        for peer in sorted(view.state.members.others())
        if by_id[peer].state != "none"
    ]


def _both_ways(view: View, read: Callable[[Traffic], tuple[int, int]]) -> Values:
    """The two values of each other member, from `read`: sent and received."""
    values: Values = []
    for peer, link in sorted(view.state.peers.by_id.items()):
        name = view.state.members.name_of(peer)
        sent, received = read(link.traffic)
        values.append(({"peer": name, "direction": "sent"}, float(sent)))
        values.append(({"peer": name, "direction": "received"}, float(received)))
    return values


def _bytes(one: Traffic) -> tuple[int, int]:
    return one.sent_bytes, one.received_bytes


def _messages(one: Traffic) -> tuple[int, int]:
    return one.sent_messages, one.received_messages


def _rounds(one: Traffic) -> tuple[int, int]:
    return one.sent_rounds, one.received_rounds


def _links_up(view: View) -> float:
    return len([1 for link in view.state.peers.by_id.values() if link.is_up])


def _receives(state: EngineState, peer: int) -> float:
    return float(state.peers.by_id[peer].receives_from_here)


def _has_tls(state: EngineState, peer: int) -> float:
    return float(state.peers.by_id[peer].is_encrypted)


def _clock_ahead(state: EngineState, peer: int) -> float:
    return state.peers.by_id[peer].clock_ahead_ms / 1000


def _lag_seconds(state: EngineState, peer: int) -> float:
    return lag_ms(state, peer) / 1000


def _behind_seconds(state: EngineState, peer: int) -> float:
    return behind_ms(state, peer) / 1000


def _delays(view: View) -> Histograms:
    return [
        ({"origin": view.state.members.name_of(origin)}, histogram)
        for origin, histogram in sorted(view.state.replication.sync_delays.items())
    ]


def _certificate_days(view: View) -> Values:
    """No value without a certificate."""
    days = view.state.process_facts.get(CERTIFICATE_DAYS, "")
    return [({}, float(days))] if days else []


LINKS: Final[list[Figure]] = [
    Number("", "crdt_links_up", GAUGE, "links", "Regions from which this one receives.", _links_up),
    Number(
        "",
        "crdt_receivers",
        GAUGE,
        "links",
        "Regions that receive from this one.",
        lambda view: len(view.state.peers.receivers()),
    ),
    Labelled(
        "link_up",
        GAUGE,
        "",
        "1 if this region receives from the peer, 0 if it dials the peer and does not receive.",
        _PEER,
        _each_dialled,
    ),
    Labelled(
        "link_tls",
        GAUGE,
        "",
        "1 if the newest link by which this region receives from the peer has TLS.",
        _PEER,
        lambda view: _each(view, _has_tls),
    ),
    Labelled(
        "sync_certificate_days",
        GAUGE,
        "days",
        "Days until this region's certificate for links ends; no value without TLS.",
        (),
        _certificate_days,
    ),
    Labelled(
        "link_receives",
        GAUGE,
        "",
        "1 if the peer receives from this region.",
        _PEER,
        lambda view: _each(view, _receives),
    ),
    Labelled(
        "peer_lag_effects",
        GAUGE,
        "effects",
        "Effects of this region that the peer is not known to have on disk.",
        _PEER,
        lambda view: _each(view, lag_of),
    ),
    Labelled(
        "behind_effects",
        GAUGE,
        "effects",
        "Effects of the peer that this region is known to lack.",
        _PEER,
        lambda view: _each(view, behind),
    ),
    Labelled(
        "peer_lag_seconds",
        GAUGE,
        "seconds",
        "How long the peer has lacked an effect of this region, as far as is known.",
        _PEER,
        lambda view: _each(view, _lag_seconds),
    ),
    Labelled(
        "behind_seconds",
        GAUGE,
        "seconds",
        "How long this region has lacked an effect of the peer, or could not hear of it.",
        _PEER,
        lambda view: _each(view, _behind_seconds),
    ),
    Labelled(
        "peer_clock_ahead_seconds",
        GAUGE,
        "seconds",
        "By how much the peer's clock was ahead of this region's at the newest effects of the peer"
        " that this region heard of; 0 if it was not, as far as is known.",
        _PEER,
        lambda view: _each(view, _clock_ahead),
    ),
    Labelled(
        "sync_bytes",
        COUNTER,
        "bytes",
        "Messages exchanged with the peer, after compression.",
        _BOTH_WAYS,
        lambda view: _both_ways(view, _bytes),
    ),
    Labelled(
        "sync_messages",
        COUNTER,
        "messages",
        "Messages exchanged with the peer.",
        _BOTH_WAYS,
        lambda view: _both_ways(view, _messages),
    ),
    Labelled(
        "sync_rounds",
        COUNTER,
        "rounds",
        "Reports of further effects on disk: those of the peer that receives from here (sent), and"
        " those of this region to the peer (received).",
        _BOTH_WAYS,
        lambda view: _both_ways(view, _rounds),
    ),
    Distribution(
        "sync_delay_seconds",
        "From a commit in the region of origin to the commit here, by the clocks of both; a sample"
        " for each heartbeat.",
        ("origin",),
        _delays,
    ),
]
