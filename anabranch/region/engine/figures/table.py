"""The table of all figures, and the figures that INFO and /metrics take from it."""

from __future__ import annotations

from typing import Final

from anabranch.region.engine.figures import (
    client_rows,
    data_rows,
    link_rows,
    stable_rows,
    state_rows,
    stream_rows,
)
from anabranch.region.engine.figures.figure import Figure, Metric, View
from anabranch.region.engine.state import EngineState

# The rows by topic, in the order in which INFO, /metrics and docs/operations-watch.md show them.
TOPICS: Final[dict[str, list[Figure]]] = {
    "Alarms": state_rows.ALARMS,
    "The region": state_rows.STATE,
    "Links": link_rows.LINKS,
    "Contents": data_rows.HELD,
    "Single streams and groups": stream_rows.STREAMS,
    "Conflicts": data_rows.CONFLICTS,
    "Stable time": stable_rows.STABLE,
    "Sync": data_rows.TRAFFIC,
    "Disk": state_rows.DISK,
    "Limits": state_rows.LIMITS,
    "Clients": client_rows.CLIENTS,
    "Commands": client_rows.COMMANDS,
}
ALL: Final[list[Figure]] = [row for rows in TOPICS.values() for row in rows]
BY_FIELD: Final[dict[str, Figure]] = {row.info: row for row in ALL if row.info}
# A field of INFO with this prefix stands in the section # CRDT.
CRDT_FIELD: Final = "crdt_"


def figures(state: EngineState) -> list[Metric]:
    """All metrics. Counters count since the start."""
    view = View(state)
    return [(row.name, row.text, row.kind, row.samples(view)) for row in ALL if row.metric]


def field(view: View, name: str) -> tuple[str, str]:
    """One field of INFO with its value."""
    return name, BY_FIELD[name].info_text(view)


def crdt_fields(view: View) -> list[tuple[str, str]]:
    """The fields of the table that the section # CRDT shows, with their values."""
    return [(row.info, row.info_text(view)) for row in ALL if row.info.startswith(CRDT_FIELD)]
