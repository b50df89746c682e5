"""Rows about the stable time: T, its age, and what may have made a T wrong (S7.7)."""

from __future__ import annotations

from typing import Final

from anabranch.region.engine.figures.figure import (
    COUNTER,
    GAUGE,
    Figure,
    Labelled,
    Number,
    Values,
    View,
)


def _stable_ms(view: View) -> int:
    return view.state.stable_time()[0]


def _behind_ms(view: View) -> int:
    stable_ms = _stable_ms(view)
    return view.state.clock.now_ms - stable_ms if stable_ms else 0


def _late(view: View) -> Values:
    stable = view.state.stability.time
    return [
        ({"cause": "given"}, float(stable.given)),
        ({"cause": "renamed"}, float(stable.renamed)),
        ({"cause": "merged"}, float(view.state.keyspace.late.below_stable)),
    ]


STABLE: Final[list[Figure]] = [
    Number(
        "stable_time_seconds",
        "",
        GAUGE,
        "seconds",
        "The stable time, which CRDT.STABLE tells, as Unix time; 0: there is none.",
        lambda view: _stable_ms(view) / 1000,
    ),
    Number(
        "",
        "crdt_stable_ms",
        GAUGE,
        "ms",
        "The stable time, which CRDT.STABLE tells; 0: there is none, and crdt_stable_reason tells"
        " why.",
        _stable_ms,
    ),
    Number(
        "stable_behind_seconds",
        "",
        GAUGE,
        "seconds",
        "How far the stable time lies behind this region's clock; 0 if there is none.",
        lambda view: _behind_ms(view) / 1000,
    ),
    Number(
        "",
        "crdt_stable_behind_ms",
        GAUGE,
        "ms",
        "How far the stable time lies behind this region's clock; 0 if there is none.",
        _behind_ms,
    ),
    Labelled(
        "stable_late_entries",
        COUNTER,
        "entries",
        "Entries that came with an ID below the highest stable time that this region has had since"
        " its start, by cause: IDs given to XADD here, copies of a RENAME here, and entries merged"
        " from other regions. A reader that read up to the stable time has missed them.",
        ("cause",),
        _late,
        "crdt_stable_late_entries",
    ),
    Number(
        "stable_start_by_patience_time_seconds",
        "",
        GAUGE,
        "seconds",
        "Unix time at which a start of this region was last ended by crdt-start-patience-ms"
        " without an answer of every member; 0: never.",
        lambda view: view.state.stability.time.patience_ms / 1000,
    ),
    Number(
        "",
        "crdt_stable_start_by_patience_ms",
        GAUGE,
        "ms",
        "Time at which a start of this region was last ended by crdt-start-patience-ms without an"
        " answer of every member; 0: never.",
        lambda view: view.state.stability.time.patience_ms,
    ),
    Number(
        "stable_member_lost_time_seconds",
        "",
        GAUGE,
        "seconds",
        "Unix time at which a member was last declared lost here; 0: never.",
        lambda view: view.state.stability.time.lost_ms / 1000,
    ),
    Number(
        "",
        "crdt_stable_member_lost_ms",
        GAUGE,
        "ms",
        "Time at which a member was last declared lost here; 0: never.",
        lambda view: view.state.stability.time.lost_ms,
    ),
    Number(
        "stable_clock_reset_time_seconds",
        "",
        GAUGE,
        "seconds",
        "Unix time at which the clock of this region was last reset; 0: never.",
        lambda view: view.state.stability.time.reset_ms / 1000,
    ),
    Number(
        "",
        "crdt_stable_clock_reset_ms",
        GAUGE,
        "ms",
        "Time at which the clock of this region was last reset; 0: never.",
        lambda view: view.state.stability.time.reset_ms,
    ),
    Number(
        "",
        "crdt_clock_kept_ahead_ms",
        GAUGE,
        "ms",
        "How far the clock of IDs and deadlines, which never runs back, is ahead of the machine's"
        " clock; `anabranch clock reset` ends that.",
        lambda view: max(view.state.clock.now_ms - view.state.clock.read_ms, 0),
    ),
    Number(
        "",
        "crdt_id_floor_ms",
        GAUGE,
        "ms",
        "The lowest time of generated IDs: the highest clock that other regions told this one when"
        " it started or recovered.",
        lambda view: view.state.stability.time.id_floor_ms,
    ),
]
