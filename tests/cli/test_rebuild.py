"""`anabranch repair --from` on live regions: divergence has a way out.

Two regions of three are stopped, and their databases are edited, checksums included: a value of an
entry changes, and a key is gone. With equal vectors their digests then differ from that of ap. `us`
is rebuilt from ap, although eu, which it also receives from, holds the wrong data.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
from xxhash import xxh3_64_digest

from anabranch import build
from anabranch.cli import diverged
from anabranch.cli.client import PeerFacts, RegionClient
from anabranch.cli.errors import CliError
from anabranch.crdt.encoding import Reader
from anabranch.region.live.database import FILE_NAME
from anabranch.region.storage import sums
from tests.cli.test_repair import SETTINGS, NewCluster
from tests.support.cluster import LiveCluster
from tests.support.processes import eventually


def run(cluster: LiveCluster, *words: object) -> subprocess.CompletedProcess[str]:
    """Runs a command beside the regions that run."""
    places = [word for one in cluster.running() for word in ("--at", one.address)]
    return subprocess.run(
        [*build.command(), *map(str, words), *places],
        env=build.environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def info(cluster: LiveCluster, name: str) -> dict[str, Any]:
    with cluster.client(name) as client:
        found: dict[str, Any] = client.info("everything")
        return found


def changed_node(body: bytes) -> bytes:
    """A packed node with another value in one entry, without its share of the digest."""
    reader = Reader(body, 8)
    for _ in range(6):
        reader.varint()
    reader.bytes_()
    head = body[8 : reader.offset]
    reader.bytes_()
    fresh = head + b"\0" + body[reader.offset :].replace(b"victim", b"VICTIM")
    return xxh3_64_digest(fresh) + fresh


def plant(directory: Path) -> None:
    """Changes the value "victim" to "VICTIM", and has k2 gone, as no damage: checksums fit."""
    with closing(sqlite3.connect(directory / FILE_NAME)) as database, database:
        changed = 0
        rows = database.execute("SELECT number, region, node, cut, body FROM node").fetchall()
        for number, region, node, cut, body in rows:
            if body is not None and b"victim" in body:
                fresh = changed_node(body)
                changed += database.execute(
                    "UPDATE node SET body = ?, sum = ?"
                    " WHERE number = ? AND region = ? AND node = ? AND cut = ?",
                    (
                        fresh,
                        sums.of_node(number, region, node, cut, fresh),
                        *(number, region, node, cut),
                    ),
                ).rowcount
        assert changed
        ((cut, position),) = database.execute(
            "SELECT cut, position FROM key_state WHERE key = ?", (b"k2",)
        ).fetchall()
        database.execute(
            "UPDATE key_state SET number = 0, sum = ? WHERE key = ?",
            (sums.of_key(b"k2", 0, cut, position), b"k2"),
        )


def values(cluster: LiveCluster, name: str) -> list[str]:
    with cluster.client(name) as client:
        rows: Any = client.xrange("k1")
        return [fields["f"] for _, fields in rows]


@pytest.fixture(params=["whole log", "short log"])
def apart(request: pytest.FixtureRequest, new_cluster: NewCluster) -> Iterator[LiveCluster]:
    """us and eu have diverged from ap, with equal vectors, and consumers of us hold two entries."""
    settings = dict(SETTINGS)
    if request.param == "short log":
        settings["crdt-log-max-effects"] = "100"
    cluster = new_cluster(["us", "eu", "ap"], settings)
    cluster.start_all()
    with cluster.client("ap") as client:
        client.xadd("k1", {"f": "victim"})
    for name in ("us", "eu"):
        with cluster.client(name) as client:
            for number in range(200):
                client.xadd("k1", {"f": f"{name} {number}"})
            client.xadd("k2", {"f": name})
    cluster.sync()
    with cluster.client("us") as client:
        client.xgroup_create("k1", "g", "0")
        ((_, read),) = cast(Any, client.xreadgroup("g", "c", {"k1": ">"}, count=3))
        client.xack("k1", "g", read[0][0])
    cluster.sync()
    for name in ("us", "eu"):
        cluster.stop(name)
        plant(cluster[name].data)
    for name in ("us", "eu"):
        cluster.start(name)
    cluster.await_links()
    cluster.sync()
    assert cluster.vector("us") == cluster.vector("ap") == cluster.vector("eu")
    assert cluster.digest("us") == cluster.digest("eu") != cluster.digest("ap")
    yield cluster


@pytest.mark.live
def test_a_region_that_has_diverged_is_rebuilt_from_another_one(apart: LiveCluster) -> None:
    data = apart["us"].data
    before = apart.vector("us")
    eventually(lambda: info(apart, "ap")["crdt_divergence"] > 0, 60, "the alarm")
    # What us holds and ap lacks is in eu, too.
    saved = run(apart, "export", "us", data.parent / "us.resp")
    assert "0 entries that us holds and no other does (regions have diverged" in saved.stdout
    asked = run(apart, "repair", data, "all", "--from", "ap")
    assert asked.returncode == 1 and "Replace all data of us by those of ap?" in asked.stdout
    assert info(apart, "us")["crdt_state"] == "serving"
    done = run(apart, "repair", data, "all", "--from", "ap", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    for text in ("another entry under this dot", "k2:", "only ap: entry", "2 entries are pending"):
        assert text in done.stdout
    (former,) = data.glob("replaced-*")
    assert str(former) in done.stdout and (former / FILE_NAME).exists()
    _waits_for_its_source(apart)
    eventually(lambda: info(apart, "us")["crdt_state"] == "serving", 60, "us serving")
    assert apart.digest("us") == apart.digest("ap") and apart.vector("us") == before
    said = apart["us"].log.read_text()
    assert "pulls a snapshot from ap, from which this region is rebuilt" in said
    assert "event=snapshot_joined region=us peer=ap" in said and "snapshot from eu" not in said
    assert "victim" in values(apart, "us") and "VICTIM" in values(apart, "eu")
    _goes_on(apart, before)


def _waits_for_its_source(cluster: LiveCluster) -> None:
    """While ap is down, us takes nothing from eu, nor from its own log; also after a kill."""
    cluster.stop("ap")
    for _ in range(2):
        cluster.start("us")
        eventually(lambda: cluster.links("us")["eu"] == "up", 60, "the link from eu")
        assert cluster.vector("us") == {} and info(cluster, "us")["crdt_state"] == "recovery"
        cluster.kill("us")
    cluster.start("us")
    cluster.start("ap")


def _goes_on(cluster: LiveCluster, before: dict[int, int]) -> None:
    """us issues its next effect, delivers what is not acknowledged, and holds the same once more
    after a kill."""
    with cluster.client("us") as client:
        client.xadd("k1", {"f": "later"})
        ((_, read),) = cast(Any, client.xreadgroup("g", "c", {"k1": ">"}, count=1000))
    assert len(read) == 401 - 1 + 1
    cluster.sync()
    assert cluster.vector("ap")[1] > before[1]
    cluster.kill("us")
    cluster.start("us")
    eventually(lambda: info(cluster, "us")["crdt_state"] == "serving", 60, "us serving")
    cluster.await_links()
    cluster.sync()
    assert cluster.digest("us") == cluster.digest("ap") != cluster.digest("eu")
    assert info(cluster, "us")["crdt_forks"] == 0 == info(cluster, "ap")["crdt_forks"]
    equal = json.loads(
        run(cluster, "repair", cluster["us"].data, "all", "--from", "ap", "--yes", "--json").stdout
    )
    assert equal["equal"] and equal["moved_to"] is None and equal["problems"] == []


@pytest.mark.live
def test_a_rebuild_is_refused_with_its_reason(
    new_cluster: NewCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is stopped or moved where the difference is no divergence."""
    cluster = new_cluster(["us", "eu"], SETTINGS)
    cluster.start_all()
    data = cluster["us"].data
    for words, code, text in (
        (["repair", data, "k1", "--from", "eu"], 2, "a single key cannot be rebuilt"),
        (["repair", data, "--from", "eu"], 2, "say what is rebuilt"),
        (["repair", data, "all"], 2, "--from NAME says from which region"),
        (["repair", data, "all", "--from", "eu", "--json"], 2, "give --yes, too"),
        (["repair", data, "all", "--from", "us", "--yes"], 2, "name another region"),
        (["repair", data, "all", "--from", "xx", "--yes"], 2, "no region 'xx' here"),
        (["repair", data, "all", "--from", "eu", "--yes"], 0, "us and eu hold the same"),
    ):
        done = run(cluster, *words)
        assert done.returncode == code and text in done.stdout + done.stderr, done
    clients = [RegionClient(cluster[name].address, name) for name in ("us", "eu")]
    with clients[0] as us, clients[1] as eu:
        us.link("eu", "DELAY", 60_000)
        us.call("XADD", "k", "*", "f", "v")
        eu.call("XADD", "k", "*", "f", "v")
        monkeypatch.setattr(diverged, "_LEVEL_S", 0.3)
        with pytest.raises(CliError, match="(?s)not applied the same.*us lacks effects that eu"):
            diverged.compared(us, eu)
        us.link("eu", "DELAY", 0)
        us.link("eu", "DOWN")
        with pytest.raises(CliError, match="us receives nothing from eu \\(link down\\)"):
            diverged.compared(us, eu)
        us.link("eu", "UP")
    assert cluster["us"].running and not list(data.glob("replaced-*"))


class FakeClient:
    """A region in a state, with a link from the peer in another one."""

    def __init__(self, name: str, state: str = "serving", link: str = "up", lost: str = "") -> None:
        self.name = name
        self._state = state
        self._link = link
        self._lost = lost

    def info(self, section: str) -> dict[str, str]:
        return {"crdt_state": self._state, "crdt_called_lost_by": self._lost}

    def peers(self) -> list[PeerFacts]:
        other = "eu" if self.name == "us" else "us"
        return [PeerFacts({"name": other, "link": self._link})]

    def vector(self) -> dict[int, int]:
        return {}

    def digest(self) -> str:
        return ""


@pytest.mark.parametrize(
    "right, text",
    [
        (FakeClient("eu", state="recovery"), "the state of eu is recovery"),
        (FakeClient("eu", lost="ap"), "eu was said to be lost"),
        (FakeClient("eu", link="forked"), "docs/operations-repair.md#a-fork says what to do"),
    ],
)
def test_a_peer_that_gives_no_state(right: FakeClient, text: str) -> None:
    with pytest.raises(CliError, match=text):
        diverged.compared(cast(RegionClient, FakeClient("us")), cast(RegionClient, right))
