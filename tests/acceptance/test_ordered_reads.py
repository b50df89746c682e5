"""The recipe of docs/ordered-reads.md, as it stands there, against three live regions (S7.7)."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.support.cluster import LiveCluster
from tests.support.processes import eventually

PAGE = Path(__file__).resolve().parents[2] / "docs" / "ordered-reads.md"
NAMES = ["us", "eu", "ap"]

pytestmark = pytest.mark.live


class Reader:
    """The recipe in a process of its own, on one region."""

    def __init__(self, port: int, output: Path) -> None:
        (recipe,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
        assert recipe.count("7001") == 1
        self._output = output
        with output.open("wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-c", recipe.replace("7001", str(port))],
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    def ids(self) -> list[str]:
        """The IDs of the whole lines that it has printed."""
        text = self._output.read_text()
        assert "Traceback" not in text, text
        return [line.split()[0] for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def readers(cluster: LiveCluster, tmp_path: Path) -> Iterator[dict[str, Reader]]:
    made = {
        name: Reader(cluster[name].resp_port, tmp_path / f"{name}.read") for name in cluster.regions
    }
    yield made
    for reader in made.values():
        reader.end()


def in_order(ids: list[str]) -> list[str]:
    return sorted(ids, key=lambda one: [int(part) for part in one.split("-")])


def ms_of(entry_id: str) -> int:
    return int(entry_id.split("-")[0])


def stable_ms(client: redis.Redis) -> int:
    reply = client.execute_command("CRDT.STABLE")
    return 0 if reply is None else int(reply)


def figures(client: redis.Redis) -> dict[str, object]:
    return {str(name): value for name, value in client.info("crdt").items()}


def test_all_regions_read_one_order_through_a_cut(
    cluster: LiveCluster, readers: dict[str, Reader]
) -> None:
    clients = {name: cluster.client(name) for name in NAMES}
    added: list[str] = []

    def add(*names: str) -> None:
        for number in range(20):
            for name in names:
                added.append(str(clients[name].xadd("orders", {"n": number, "at": name})))

    def all_read() -> bool:
        return all(reader.ids() == in_order(added) for reader in readers.values())

    add(*NAMES)
    eventually(all_read, what="every region's reader has every entry, in one order")
    cluster.cut("ap", "us")
    cluster.cut("ap", "eu")
    before = list(added)
    add(*NAMES)
    first_ms, newest_ms = (ms_of(in_order(added)[number]) for number in (len(before), -1))
    eventually(lambda: clients["eu"].xlen("orders") == len(before) + 40, what="the adds of us")
    # T stands still at the last clock that came before the cut, although us and eu go on.
    for name in NAMES:
        assert 0 < stable_ms(clients[name]) <= first_ms
        assert readers[name].ids() == in_order(before)
    cluster.heal("ap", "us")
    cluster.heal("ap", "eu")
    eventually(all_read, what="T goes on, and the readers with it")
    for name in NAMES:
        shown = figures(clients[name])
        assert shown["crdt_stable_late_entries"] == {"given": 0, "renamed": 0, "merged": 0}
        assert int(str(shown["crdt_stable_ms"])) > newest_ms and shown["crdt_stable_reason"] == ""


def test_a_region_that_starts_tells_none_and_says_why(cluster: LiveCluster) -> None:
    us = cluster.client("us")
    eventually(lambda: stable_ms(us) > 0, what="a stable time")
    told = stable_ms(us)
    cluster.stop("eu")
    assert stable_ms(us) >= told, "the last clock of eu counts on"
    cluster.start("eu")
    eventually(lambda: stable_ms(us) > told, what="T goes on with the new life of eu")
    eu = cluster.client("eu")
    eventually(lambda: stable_ms(eu) > told, what="eu tells a time again")
    assert figures(eu)["crdt_id_floor_ms"] >= told  # type: ignore[operator]


def test_an_idle_cluster_goes_on_while_a_client_asks(cluster: LiveCluster) -> None:
    """Nobody writes. The clocks on disk advance because eu is asked."""
    eu = cluster.client("eu")
    eventually(lambda: stable_ms(eu) > 0, what="a stable time")
    for _ in range(3):
        told = stable_ms(eu)
        eventually(lambda told=told: stable_ms(eu) > told + 100, what="T advances")  # type: ignore[misc]
    rows = {name: cluster.client(name).info("crdt")["crdt_log_rows"] for name in NAMES}
    told = stable_ms(eu)
    eventually(lambda: stable_ms(eu) > told, what="T advances")
    for name in NAMES:
        assert cluster.client(name).info("crdt")["crdt_log_rows"] == rows[name], "no row is written"
