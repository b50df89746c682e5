"""100,000 keys: how long a PING waits while a peer that fell behind gets a snapshot.

The peer is cut off, all keys are written, and the log is dropped. Then the link is healed. The
sender cuts and sends a snapshot of all keys, and the peer joins it.
"""

from __future__ import annotations

from typing import Final

from anabranch.bench.acceptance.harness import wait_for
from anabranch.bench.table.many_keys import PREFIX, longest_wait_ms
from anabranch.bench.table.memory import KEYS, add_keys
from anabranch.bench.table.peers import EU, FLAGS, PATIENCE_S, await_total, total
from anabranch.bench.table.servers import US, RegionServer
from anabranch.bench.table.values import Measured, Run, Values
from anabranch.cluster.errors import ClusterError
from anabranch.cluster.regions import ProcessCluster

CUT: Final = PREFIX + "snapshot"
JOIN: Final = PREFIX + "join"
ROUNDS_MAX: Final = 3
_SETTINGS: Final = {
    "crdt-log-max-effects": 100,
    "crdt-checkpoint-interval-ms": 500,
    "crdt-snapshot-patience-ms": 500,
}


def measure(run: Run) -> Measured:
    """Yields the rows."""
    keys = run.scaled(KEYS, 1_000)
    sending: list[float] = []
    joining: list[float] = []
    with ProcessCluster([US, EU], settings=FLAGS) as cluster:
        cluster.start_all()
        for region in (US, EU):
            for name, value in _SETTINGS.items():
                cluster[region].ask("CONFIG", "SET", name, value)
        add_keys(RegionServer(cluster=cluster), keys)
        for _ in range(min(run.rounds, ROUNDS_MAX)):
            cut_ms, join_ms = _waits(cluster, keys)
            sending.append(cut_ms)
            joining.append(join_ms)
    note = "" if keys == KEYS else f"{keys:,} keys"
    if run.wants(CUT):
        yield CUT, Values(sending, note=note)
    if run.wants(JOIN):
        yield JOIN, Values(joining, note=note)


def _waits(cluster: ProcessCluster, keys: int) -> tuple[float, float]:
    """The longest waits in ms at the sender and at the receiver of one snapshot."""
    writer = RegionServer(cluster=cluster)
    cluster.level(PATIENCE_S)
    cluster.cut(US, EU)
    add_keys(writer, keys)
    writer.await_quiet()
    _await_dropped(writer)
    goal = total(cluster[US])
    joining: list[float] = []

    def heal() -> None:
        cluster.heal(US, EU)
        await_total(cluster[EU], goal)

    def pinged() -> None:
        joining.append(longest_wait_ms(cluster[EU].resp_port, heal))

    joined = _joined(cluster)
    sending_ms = longest_wait_ms(writer.port, pinged)
    if _joined(cluster) == joined:
        raise ClusterError("eu caught up without a snapshot")
    return sending_ms, joining[0]


def _await_dropped(writer: RegionServer) -> None:
    """Waits until the log no longer reaches back."""

    def is_dropped() -> bool:
        return int(writer.info()["crdt_log_effects"]) <= _SETTINGS["crdt-log-max-effects"]

    wait_for(is_dropped, "the end of the log of us", PATIENCE_S)


def _joined(cluster: ProcessCluster) -> int:
    """How many snapshots eu has joined."""
    return int(cluster[EU].info()["crdt_snapshots_joined"])
