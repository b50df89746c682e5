"""What the regions hold and report after the faults are over."""

from __future__ import annotations

from dataclasses import dataclass, field

# key → its entries in order, each as (entry ID, value).
Streams = dict[str, list[tuple[str, str]]]


@dataclass
class RegionState:
    """One region at the end."""

    name: str
    streams: Streams = field(default_factory=dict)
    digest: str = ""
    vector: dict[int, int] = field(default_factory=dict)
    info: dict[str, str] = field(default_factory=dict)
    # Lines of the region's log that no fault explains.
    bad_lines: list[str] = field(default_factory=list)
    # How often an old backup of it was put back, and how often it has logged that it recovers.
    restores: int = 0
    recoveries: int = 0
    # Snapshots that its processes joined.
    snapshots: int = 0
    # Requests of the reading at the end that the region refused or did not answer.
    errors: list[str] = field(default_factory=list)
    # Ends of its process that no fault explains.
    deaths: list[str] = field(default_factory=list)


@dataclass
class FinalState:
    """All regions at the end. `level_s`: the time until they were level; None if they were not."""

    regions: list[RegionState]
    level_s: float | None
    level_bound_s: float
    level_text: str = ""
