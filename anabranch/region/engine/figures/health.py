"""The answers of /health and /ready."""

from __future__ import annotations

from typing import Any, Optional

from anabranch.region.engine.figures.shared import behind, behind_ms, lag_ms, lag_of
from anabranch.region.engine.lifecycle import SERVING
from anabranch.region.engine.state import EngineState


def health(state: EngineState) -> tuple[str, dict[str, Any]]:
    """The state and details for /health.

    The state is one of `STATES`, or "failed" while commits fail; `commit_error` then says why. The
    details are values that JSON can represent.
    """
    lifecycle = state.lifecycle.shown
    details: dict[str, Any] = {
        "region": state.members.name,
        "cluster": state.members.cluster,
        "links": {
            state.members.name_of(peer): link.state for peer, link in state.peers.by_id.items()
        },
        "divergences": state.replication.divergences,
        "serves": lifecycle == SERVING,
    }
    if not state.disk.error:
        return lifecycle, details
    return "failed", {**details, "commit_error": state.disk.error}


def readiness(state: EngineState, lag_ms_max: Optional[int]) -> tuple[bool, dict[str, Any]]:
    """Whether the region serves and has what the others have, and details for /ready.

    It must serve, receive from every member that it dials and that is not lost, and be behind none
    by more than `lag_ms_max`; None takes the setting crdt-ready-lag-ms. The details are values that
    JSON can represent; `reasons` says what is missing.
    """
    if lag_ms_max is None:
        lag_ms_max = state.settings.integer("crdt-ready-lag-ms")
    current = health(state)[0]
    reasons = [] if current == SERVING else [f"the state is {current}, not {SERVING}"]
    peers: dict[str, Any] = {}
    for peer in sorted(state.members.others()):
        name, link = state.members.name_of(peer), state.peers.by_id[peer]
        late_ms = behind_ms(state, peer)
        shown = "down" if link.is_down else link.state
        peers[name] = {
            "link": shown,
            "behind_effects": behind(state, peer),
            "behind_ms": late_ms,
            "lag_effects": lag_of(state, peer),
            "lag_ms": lag_ms(state, peer),
        }
        if not link.is_up and shown != "none":
            reasons.append(f"the link from {name} is {shown}")
        if late_ms > lag_ms_max:
            reasons.append(f"{late_ms} ms behind {name}, more than {lag_ms_max}")
    details = {
        "ready": not reasons,
        "region": state.members.name,
        "state": current,
        "lag_ms_max": lag_ms_max,
        "reasons": reasons,
        "peers": peers,
    }
    return not reasons, details
