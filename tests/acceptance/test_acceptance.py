"""Small versions of the acceptance programs: equal histories in seconds, without time limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.bench.acceptance import (
    catch_up,
    damaged_files,
    idempotent_retries,
    kill_region,
    large_start,
    malformed_peers,
    many_clients,
    package_index,
    replication_delay,
    restored_backup,
    stable_delay,
    three_way_load,
)

SAMPLE = Path(__file__).resolve().parents[1] / "data" / "packages.txt"

pytestmark = pytest.mark.live


def test_delay_is_measured() -> None:
    assert replication_delay.measure(10, 200, 1.0, None, None).failures == []


def test_stable_time_is_measured() -> None:
    assert stable_delay.measure(10, 100, 1.0, None).failures == []


def test_package_index() -> None:
    records = package_index.records_of(SAMPLE.read_bytes())
    assert package_index.stream(records, seed=1, batch=4, pause_s=0.05).failures == []


def test_load_in_three_regions() -> None:
    assert three_way_load.load(3000, 20, 1, seed=1).failures == []


@pytest.mark.parametrize("appendfsync", kill_region.SETTINGS)
def test_killed_regions(appendfsync: str) -> None:
    assert kill_region.kill(appendfsync, 2, seed=1, load_s=(0.2, 0.5)).failures == []


@pytest.mark.parametrize("by_snapshot", [False, True], ids=["log", "snapshot"])
def test_catching_up(by_snapshot: bool) -> None:
    assert catch_up.catch_up(20_000, by_snapshot, 100, None, None).failures == []


@pytest.mark.parametrize("frozen_peer", [False, True], ids=["reachable", "frozen"])
def test_restored_backup(frozen_peer: bool) -> None:
    assert restored_backup.restore(50, frozen_peer).failures == []


def test_large_start() -> None:
    assert large_start.measure(2, 20).failures == []


def test_idempotent_retries() -> None:
    """Cuts of a second, and far more pairs in each than one producer's maxsize of 100."""
    assert idempotent_retries.retry(4.0, 250.0, 1, cut_s=1.0, seed=3).failures == []


@pytest.mark.parametrize("is_alone", [False, True], ids=["peers", "alone"])
def test_damaged_files(is_alone: bool) -> None:
    assert damaged_files.try_all(4, 2, 1, is_alone, entries=300).failures == []


def test_malformed_messages_of_peers() -> None:
    assert malformed_peers.attack(400, 1, None).failures == []


def test_idle_and_slow_clients() -> None:
    assert many_clients.run(200, 20, 30, limits=False).failures == []
