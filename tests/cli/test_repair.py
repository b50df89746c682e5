"""`anabranch repair` on live regions: what no peer has comes back from the sound part of the log.

us writes while its links are cut, is killed, and bytes of its database are changed. After `repair`
it must end with everything that is sound, and name the rest.
"""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from anabranch import build
from anabranch.region.live.database import FILE_NAME
from tests.support.cluster import LiveCluster
from tests.support.processes import eventually

pytestmark = pytest.mark.live

SETTINGS = {
    "appendfsync": "always",
    "crdt-checkpoint-interval-ms": "100",
    "crdt-start-patience-ms": "500",
    "crdt-snapshot-patience-ms": "300",
}
NewCluster = Callable[..., LiveCluster]


def add(cluster: LiveCluster, name: str, key: str, count: int) -> list[str]:
    with cluster.client(name) as client:
        return [str(client.xadd(key, {"f": f"{key} {number}"})) for number in range(count)]


def ids(cluster: LiveCluster, name: str, key: str) -> list[str]:
    with cluster.client(name) as client:
        rows: Any = client.xrange(key)
        return [row[0] for row in rows]


def info(cluster: LiveCluster, name: str) -> dict[str, Any]:
    with cluster.client(name) as client:
        found: dict[str, Any] = client.info("everything")
        return found


def flip_in(directory: Path, table: str, where: str, *parameters: int) -> None:
    """Flips a bit in the body of one row, without its checksum."""
    with closing(sqlite3.connect(directory / FILE_NAME)) as database, database:
        select = f"SELECT body FROM {table} WHERE {where}"
        ((body,),) = database.execute(select, parameters).fetchall()
        flipped = bytearray(body)
        flipped[len(flipped) // 2] ^= 4
        update = f"UPDATE {table} SET body = ? WHERE {where}"
        assert database.execute(update, (bytes(flipped), *parameters)).rowcount == 1


def flip_a_key(directory: Path) -> None:
    """Flips a bit in a key's checkpoint."""
    with closing(sqlite3.connect(directory / FILE_NAME)) as database:
        row = database.execute(
            "SELECT n.number, n.region, n.node, n.cut FROM node n"
            " JOIN key_state k ON k.number = n.number AND k.cut = n.cut LIMIT 1"
        ).fetchone()
    flip_in(directory, "node", "number = ? AND region = ? AND node = ? AND cut = ?", *row)


def flip_a_block(directory: Path, counter: int) -> None:
    """Flips a bit in the block that holds the effect `counter` of us."""
    flip_in(directory, "log", "origin = 1 AND first <= ? AND last >= ?", counter, counter)


def repair(cluster: LiveCluster) -> str:
    line = [*build.command(), "repair", str(cluster["us"].data), "--yes"]
    done = subprocess.run(
        line, env=build.environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def serves(cluster: LiveCluster) -> None:
    """Waits until us serves."""
    eventually(lambda: info(cluster, "us")["crdt_state"] == "serving", 30, "us serving")


def level(cluster: LiveCluster) -> None:
    """Heals the links; all regions must then hold the same."""
    cluster.heal("us", "eu")
    cluster.await_links()
    cluster.sync()
    assert cluster.digest("us") == cluster.digest("eu")


@pytest.fixture(params=["whole log", "short log"])
def cut_off(request: pytest.FixtureRequest, new_cluster: NewCluster) -> Iterator[LiveCluster]:
    """us and eu hold k1 and k2 with 200 entries, and no link is up.

    With a short log, us has dropped rows, so that it needs a snapshot before its salvage.
    """
    settings = dict(SETTINGS)
    if request.param == "short log":
        settings["crdt-log-max-effects"] = "100"
    cluster = new_cluster(["us", "eu"], settings)
    cluster.start_all()
    for key in ("k1", "k2"):
        add(cluster, "us", key, 60)
        add(cluster, "eu", key, 40)
    cluster.sync()
    cluster.cut("us", "eu")
    yield cluster


def refuses_to_start(cluster: LiveCluster) -> None:
    region = cluster.start("us", wait=False)
    assert region.process is not None
    assert region.process.wait(30) != 0
    assert "damaged" in region.log_tail()


def test_writes_that_no_peer_has_come_back(cut_off: LiveCluster) -> None:
    """A bit of one key's checkpoint is flipped: nothing that us acknowledged is lost."""
    unshipped = {key: add(cut_off, "us", key, 30) for key in ("k1", "k3")}
    with cut_off.client("us") as client:
        client.xdel("k2", ids(cut_off, "us", "k2")[5])
    before = {key: ids(cut_off, "us", key) for key in ("k1", "k2", "k3")}
    cut_off.stop("us")
    flip_a_key(cut_off["us"].data)
    refuses_to_start(cut_off)
    assert "0 blocks of the log cannot be read" in repair(cut_off)
    cut_off.start("us")
    serves(cut_off)
    assert {key: ids(cut_off, "us", key) for key in before} == before
    later = add(cut_off, "us", "k1", 3)
    level(cut_off)
    for key, expected in before.items():
        expected += later if key == "k1" else []
        assert ids(cut_off, "eu", key) == expected
    assert set(unshipped["k1"]) < set(before["k1"])
    assert "LOSS" not in cut_off["us"].log.read_text()
    assert info(cut_off, "us")["crdt_forks"] == 0


def test_effects_after_a_damaged_block_are_named(cut_off: LiveCluster) -> None:
    """A block that no peer has is damaged: the ones before it come back, the ones after cannot."""
    add(cut_off, "us", "k1", 20)
    own = cut_off.vector("us")[1]
    cut_off.stop("us")
    flip_a_block(cut_off["us"].data, own - 9)
    assert f"effects of its own up to {own}; 1 block of the log cannot" in repair(cut_off)
    cut_off.start("us")
    serves(cut_off)
    assert cut_off.vector("us")[1] == own - 10
    said = cut_off["us"].log.read_text()
    assert "event=salvaged region=us counter=" in said and "event=salvage_loss region=us" in said
    assert f"LOSS: effects {own - 9} to {own - 9} of us are damaged" in said
    assert f"9 of us up to {own}" in said
    add(cut_off, "us", "k1", 3)
    level(cut_off)
    assert cut_off.vector("eu")[1] == own - 7
    assert info(cut_off, "us")["crdt_forks"] == 0


def test_a_damaged_block_that_peers_have_does_no_harm(cut_off: LiveCluster) -> None:
    """The newest block of eu, and a block of us, are damaged in us. eu holds both."""
    shipped = cut_off.vector("us")
    before = add(cut_off, "us", "k1", 20)
    cut_off.stop("us")
    flip_a_block(cut_off["us"].data, shipped[1])
    flip_in(cut_off["us"].data, "log", "origin = 2 AND last = ?", shipped[2])
    assert "2 blocks of the log cannot be read" in repair(cut_off)
    cut_off.start("us")
    serves(cut_off)
    level(cut_off)
    assert ids(cut_off, "eu", "k1")[-20:] == before
    assert "LOSS" not in cut_off["us"].log.read_text()


def test_a_kill_during_the_recovery_loses_nothing(cut_off: LiveCluster) -> None:
    """us cannot reach eu, so it stays in recovery, and is killed there, twice."""
    before = add(cut_off, "us", "k1", 20)
    cut_off.stop("us")
    flip_a_key(cut_off["us"].data)
    repair(cut_off)
    cut_off.stop("eu")
    for _ in range(2):
        cut_off.start("us")
        assert info(cut_off, "us")["crdt_state"] == "recovery"
        cut_off.kill("us")
    cut_off.start("eu")
    cut_off.start("us")
    serves(cut_off)
    level(cut_off)
    assert ids(cut_off, "eu", "k1")[-20:] == before
    with closing(sqlite3.connect(cut_off["us"].data / FILE_NAME)) as database:
        eventually(lambda: database.execute("SELECT COUNT(*) FROM salvage").fetchone() == (0,))


def test_a_region_that_is_damaged_again_during_its_recovery(cut_off: LiveCluster) -> None:
    """The salvage of the first repair is a part of the second."""
    before = add(cut_off, "us", "k1", 20)
    cut_off.stop("us")
    flip_a_key(cut_off["us"].data)
    repair(cut_off)
    with closing(sqlite3.connect(cut_off["us"].data / FILE_NAME)) as database, database:
        database.execute("UPDATE meta SET value = '7' WHERE name = 'restored'")
    assert "0 sound blocks" in repair(cut_off)
    cut_off.start("us")
    serves(cut_off)
    level(cut_off)
    assert ids(cut_off, "eu", "k1")[-20:] == before
