"""Engines without a process: on a keyspace that a test built, or as a single region."""

from __future__ import annotations

from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.region_log import NodeLimits
from anabranch.region.engine import registry
from anabranch.region.engine.clock import EngineClock
from anabranch.region.engine.engine import Engine
from anabranch.region.engine.journal import Journal
from anabranch.region.engine.lifecycle import Lifecycle
from anabranch.region.engine.members import Member, Members
from anabranch.region.engine.settings import Settings
from anabranch.region.engine.state import EngineState


def engine_on(
    keyspace: Keyspace,
    members: Members,
    settings: Settings,
    lifecycle: Lifecycle,
    clock_ms: int,
    disk_clock_ms: int,
) -> Engine:
    """An engine, built as `region.starting` does. `disk_clock_ms` is the clock on its disk."""
    journal = Journal(keyspace, keyspace.position, EngineClock(clock_ms))
    return Engine(
        EngineState(
            members, settings, keyspace, journal, lifecycle, disk_clock_ms, registry.commands()
        )
    )


def single(region_id: int = 1, now_ms: int = 1, settings: Settings | None = None) -> Engine:
    """The engine of a one-region cluster with an empty disk."""
    return engine_on(
        Keyspace(region_id, NodeLimits()),
        Members("single", region_id, "us", [Member(region_id, "us")]),
        settings or Settings(),
        Lifecycle(region_id, now_ms, 0, now_ms, 0),
        now_ms,
        now_ms,
    )
