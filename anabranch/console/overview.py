"""The state of the cluster, as the page shows it: regions, their vectors, and the links.

The facts of a region come from the section `# CRDT` of its INFO, which costs little, forces no
commit and holds the links as well.
"""

from __future__ import annotations

from typing import Any, Final

from anabranch.answers import info_of, listed_vector, members_of
from anabranch.console.links import OutsideCondition
from anabranch.console.regions import Place

JsonObject = dict[str, Any]
_LINK: Final = "crdt_link"
# Times grow all the time while a link is interrupted; the page shows seconds then. Below, a time is
# near the delay of its link.
_STEP_MS: Final = 1000
_FINE_STEP_MS: Final = 100
_FINE_MAX_MS: Final = 10_000


class RegionState:
    """One region as it last answered; `error` instead if it does not answer."""

    def __init__(self, place: Place, reply: bytes | None, error: str = "") -> None:
        self.place: Final = place
        self.error: Final = error
        self.info: Final = info_of(reply) if reply is not None else {}
        self.members: Final = members_of(self.info)
        # Effects applied here.
        self.vector: Final = listed_vector(self.info.get("crdt_vector", ""))
        self.position: Final = int(self.info.get("crdt_position", 0))
        self.committed: Final = int(self.info.get("crdt_committed_position", 0))
        if self.info:
            place.name = self.info.get("crdt_region_name", place.name)
            place.region_id = int(self.info.get("crdt_region_id", place.region_id))

    @property
    def state(self) -> str:
        """starting, serving, recovery, lost, failed, or unreachable."""
        return "unreachable" if self.error else self.info.get("crdt_state", "unknown")

    @property
    def effects(self) -> int:
        """How many effects are applied here."""
        return sum(self.vector.values())

    @property
    def signature(self) -> tuple[Any, ...]:
        """Changes whenever the data of the region may have changed, local state included."""
        return self.state, self.position, self.info.get("crdt_vector"), self.info.get("crdt_life")

    def links(self) -> list[JsonObject]:
        """The links by which this region receives from its peers."""
        found = []
        for field, value in self.info.items():
            if field.startswith(_LINK) and field[len(_LINK) :].isdigit():
                facts = dict(part.split("=", 1) for part in value.split(",") if "=" in part)
                state, behind_ms = facts.get("state", "unknown"), int(facts.get("behind_ms", 0))
                is_fine = state == "up" and behind_ms < _FINE_MAX_MS
                step_ms = _FINE_STEP_MS if is_fine else _STEP_MS
                found.append(
                    {
                        "sender": facts.get("name", "?"),
                        "receiver": self.place.name,
                        "state": state,
                        "delay_ms": int(facts.get("delay_ms", 0)),
                        "behind": int(facts.get("behind", 0)),
                        "behind_ms": behind_ms // step_ms * step_ms,
                        "cut_by": ["region"] if state == "down" else [],
                    }
                )
        return found

    def not_held_by(self, name: str) -> int:
        """How many effects of this region the region `name` is not known to have on its disk."""
        for field, value in self.info.items():
            if field.startswith(_LINK) and f"name={name}," in value:
                facts = dict(part.split("=", 1) for part in value.split(",") if "=" in part)
                return int(facts.get("lag", 0))
        return 0


def names_of(states: list[RegionState]) -> dict[int, str]:
    """region_id → name of every region of the cluster, as far as any region told it."""
    names = {state.place.region_id: state.place.name for state in states if state.place.region_id}
    for state in states:
        names.update(state.members)
    return dict(sorted(names.items()))


def overview(states: list[RegionState], outside: list[OutsideCondition]) -> JsonObject:
    """The regions and links as values that JSON can hold."""
    names = names_of(states)
    newest: dict[int, int] = {}
    for state in states:
        for region_id, counter in state.vector.items():
            newest[region_id] = max(counter, newest.get(region_id, 0))
    answering = [state for state in states if not state.error]
    return {
        "cluster": next((one.info.get("crdt_cluster", "") for one in answering), ""),
        "names": {str(region_id): name for region_id, name in names.items()},
        "regions": [_region(state, newest, answering) for state in states],
        "links": _links(states, outside),
        "equal": len({str(sorted(one.vector.items())) for one in answering}) <= 1,
        "divergence": any(one.info.get("crdt_divergence", "0") != "0" for one in answering),
    }


def _region(state: RegionState, newest: dict[int, int], answering: list[RegionState]) -> JsonObject:
    """`lacks`: effects that some other region has applied and this one has not, by origin.

    For a region that does not answer, the others tell which of their effects it may lack.
    """
    info = state.info
    lacks = {one: counter - state.vector.get(one, 0) for one, counter in newest.items()}
    if state.error:
        lacks = {one.place.region_id: one.not_held_by(state.place.name) for one in answering}
    return {
        "name": state.place.name,
        "region_id": state.place.region_id,
        "address": str(state.place.address),
        "state": state.state,
        "error": state.error or None,
        "waits_for": info.get("crdt_recovery_waiting_for", ""),
        "problem": info.get("crdt_commit_error", "") or info.get("crdt_damage", ""),
        "vector": {str(one): counter for one, counter in sorted(state.vector.items())},
        "lacks": {str(one): count for one, count in sorted(lacks.items()) if count > 0},
        "entries": int(info.get("crdt_entries", 0)),
        "pending": int(info.get("crdt_pending_entries", 0)),
        "tombstones": int(info.get("crdt_tombstones", 0)),
        "version": info.get("crdt_life", ""),
    }


def _links(states: list[RegionState], outside: list[OutsideCondition]) -> list[JsonObject]:
    links = [link for state in states for link in state.links()]
    known = {(one.sender, one.receiver): one for one in outside}
    for link in links:
        condition = known.get((link["sender"], link["receiver"]))
        if condition is not None:
            link["delay_ms"] += condition.delay_ms
            if condition.is_cut:
                link["cut_by"].append("toxiproxy")
    down = {state.place.name for state in states if state.error}
    senders = [state.place.name for state in states]
    # A region that does not answer tells nothing of its links.
    links += [
        {
            "sender": sender,
            "receiver": name,
            "state": "unknown",
            "delay_ms": 0,
            "behind": None,
            "behind_ms": 0,
            "cut_by": [],
        }
        for name in sorted(down)
        for sender in senders
        if sender != name
    ]
    return links
