"""What an operator does with the cluster of deploy/compose.yaml."""

from __future__ import annotations

import json
import re
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import redis

from anabranch import build
from tests.compose.commands import run
from tests.compose.engine import Engine
from tests.compose.images import build_region, next_version
from tests.compose.project import REGIONS, Project, exit_codes
from tests.deploy.files import DEPLOY, compose, published
from tests.support.processes import eventually

pytestmark = [pytest.mark.compose, pytest.mark.timeout(3600)]


def added(cluster: Project, region: str, key: str, count: int) -> list[str]:
    """Adds entries in a region, and returns their ids."""
    with cluster.client(region) as client:
        return [str(client.xadd(key, {"from": region, "n": str(n)})) for n in range(count)]


def entries(cluster: Project, region: str, key: str) -> list[str]:
    """The ids of a stream's entries in a region."""
    with cluster.client(region) as client:
        rows: Any = client.xrange(key)
        return [str(entry_id) for entry_id, _ in rows]


def test_the_image_is_compiled_and_locked_down(cluster: Project) -> None:
    """The process has no rights, and writes nowhere but on its volume and in memory."""
    for name in REGIONS:
        assert cluster.info(name, "server")["anabranch_build"].startswith("compiled")
        assert cluster.inside(name, "id", "-u") == "10001"
        assert cluster.fails_inside(name, "touch", "/opt/anabranch/file")
        assert cluster.inside(name, "grep", "CapEff", "/proc/1/status").split()[1] == "0" * 16
        files = cluster.inside(name, "ls", "/data").split()
        assert "region.lock" in files and len(files) > 1
        assert cluster.page(name, "/health").startswith('{"state": "serving"')


def test_the_command_line_finds_the_cluster(cluster: Project, tmp_path: Path) -> None:
    """With deploy/cluster.toml, here with the ports of this cluster in place of the usual ones."""
    text = (DEPLOY / "cluster.toml").read_text(encoding="utf-8")
    for service in ("us", "eu", "ap", "toxiproxy"):
        for inside, outside in published(compose()["services"][service]).items():
            port = cluster.engine.run("port", cluster.container(service), str(inside))
            text = text.replace(f'"{outside}"', f'"{port}"')
    path = tmp_path / "cluster.toml"
    path.write_text(text, encoding="utf-8")
    shown = run([*build.command(), "status", "--cluster", path], environment=build.environment())
    assert all(name in shown for name in REGIONS)


def test_the_console_shows_all_regions_and_cuts_links_at_toxiproxy(cluster: Project) -> None:
    cluster.await_healthy("console")
    url = f"http://127.0.0.1:{cluster.environment['ANABRANCH_CONSOLE_PORT']}"

    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    log = cluster.engine.run("logs", cluster.container("console"))
    path = re.findall(r"the console is at \S+?(/\?token=\S+)", log)[-1]
    opener.open(url + path, timeout=30).close()

    def asked(name: str, body: dict[str, Any] | None = None) -> Any:
        with opener.open(url, timeout=30) as answer:
            found = re.search(r'name="token" content="([\w-]+)"', answer.read().decode())
        assert found is not None
        headers = {"x-anabranch-token": found[1], "origin": url, "content-type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{url}/api/{name}", data, headers)
        with opener.open(request, timeout=30) as answer:
            return json.load(answer)

    def cut() -> list[tuple[str, str]]:
        links = asked("overview")["links"]
        return [(one["sender"], one["receiver"]) for one in links if one["cut_by"]]

    assert [one["state"] for one in asked("overview")["regions"]] == ["serving"] * 3
    change = {"sender": "us", "receiver": "eu", "both": True}
    asked("link", {"action": "cut", **change})
    assert sorted(cut()) == [("eu", "us"), ("us", "eu")]
    asked("link", {"action": "heal", **change})
    assert cut() == []


# Prints those of the addresses in its arguments to which a connection opens.
REACHED = """
import socket, sys
from concurrent.futures import ThreadPoolExecutor
def reached(address):
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError:
        return False
    return True
with ThreadPoolExecutor(64) as pool:
    print(*(a for a, found in zip(sys.argv[1:], pool.map(reached, sys.argv[1:])) if found))
"""


def test_the_only_way_to_another_region_leads_through_toxiproxy(cluster: Project) -> None:
    """Neither names nor addresses nor published ports of the others are reached."""
    addresses: dict[str, list[str]] = {}
    for name in REGIONS:
        networks = cluster.facts(name)["NetworkSettings"]["Networks"].values()
        hosts = [name, *(network["IPAddress"] for network in networks)]
        gateways = [network["Gateway"] for network in networks if network["Gateway"]]
        assert len(hosts) == 3 and gateways
        published = cluster.environment[f"ANABRANCH_PORT_{name.upper()}"]
        addresses[name] = [
            *(f"{host}:{port}" for host in hosts for port in (6379, 7100, 7200)),
            *(f"{gateway}:{published}" for gateway in gateways),
        ]
    for name in REGIONS:
        own = [f"{name}:{port}" for port in (6379, 7100, 7200)]
        proxy = ["toxiproxy:7112", "toxiproxy:8474"]
        others = [one for other in REGIONS if other != name for one in addresses[other]]
        found = cluster.inside(
            *(name, "/opt/anabranch/bin/python", "-c", REACHED, *own, *proxy, *others),
            patience_s=120,
        )
        assert found.split() == [*own, *proxy], name


def test_cut_write_on_both_sides_and_heal(cluster: Project) -> None:
    """While only us–eu is cut, writes go round through ap. A region that is cut off writes on."""
    key = "orders-cut"
    assert sum(cluster.proxies().values()) == 6
    cluster.cut("us", "eu")
    assert cluster.links("us") == {"eu": False, "ap": True}
    assert cluster.links("eu") == {"us": False, "ap": True}
    first = added(cluster, "us", key, 50) + added(cluster, "eu", key, 50)
    eventually(
        lambda: [len(entries(cluster, name, key)) for name in REGIONS] == [100, 100, 100],
        what="all writes being everywhere",
    )

    cluster.cut("us", "ap")
    here, there = added(cluster, "us", key, 50), added(cluster, "eu", key, 50)
    assert set(entries(cluster, "us", key)) == {*first, *here}
    assert set(entries(cluster, "eu", key)) == {*first, *there}
    assert cluster.command("us", "CRDT.DIGEST", key) != cluster.command("eu", "CRDT.DIGEST", key)

    cluster.heal("us", "eu")
    cluster.heal("us", "ap")
    cluster.await_equal()
    for name in REGIONS:
        assert sorted(entries(cluster, name, key)) == sorted({*first, *here, *there})


def test_one_direction_can_be_cut(cluster: Project) -> None:
    """eu receives us's data through us-to-eu alone; the other direction goes on."""
    cluster.cut("eu", "ap")
    cluster.cut("us", "ap")
    cluster.switch_proxy("us", "eu", passes=False)
    eventually(lambda: not cluster.links("eu")["us"], what="eu noticing the cut")
    key = "orders-one-way"
    here, there = added(cluster, "us", key, 5), added(cluster, "eu", key, 5)
    eventually(lambda: len(entries(cluster, "us", key)) == 10, what="us receiving from eu")
    assert entries(cluster, "eu", key) == there and cluster.links("us")["eu"]
    for one, other in (("us", "eu"), ("us", "ap"), ("eu", "ap")):
        cluster.heal(one, other)
    cluster.await_equal()
    assert sorted(entries(cluster, "eu", key)) == sorted([*here, *there])


def test_a_killed_container_is_recreated_on_its_volume(cluster: Project) -> None:
    """What other regions have said to hold, and what this region alone holds, is there again."""
    key = "orders-killed"
    with cluster.client("us") as client:
        everywhere = [str(client.xadd(key, {"n": str(n)})) for n in range(50)]
        assert client.execute_command("WAIT", 2, 60_000) == 2
    cluster.cut("us", "eu")
    cluster.cut("us", "ap")
    cluster.command("us", "CONFIG", "SET", "appendfsync", "always")
    alone = added(cluster, "us", key, 20)

    before = cluster.container("us")
    cluster.compose("kill", "-s", "SIGKILL", "us")
    cluster.compose("rm", "-f", "us")
    assert cluster.container("us") == ""
    meanwhile = added(cluster, "eu", key, 20)
    cluster.up("us")
    assert cluster.container("us") not in ("", before)
    cluster.await_healthy("us")
    assert entries(cluster, "us", key) == [*everywhere, *alone]
    cluster.heal("us", "eu")
    cluster.heal("us", "ap")
    cluster.await_equal()
    assert sorted(entries(cluster, "ap", key)) == sorted([*everywhere, *alone, *meanwhile])


def test_a_container_without_its_volume_comes_back_by_snapshot(cluster: Project) -> None:
    """An empty data directory of a region that had issued effects is not a new region.

    Its members hold more of its effects than it does. So it begins a recovery, pulls a snapshot,
    and issues nothing before it has its own effects back (S13.6, S13.7).
    """
    key = "orders-without-volume"
    ids = [*added(cluster, "us", key, 300), *added(cluster, "eu", key, 300)]
    digest = cluster.await_equal()
    cluster.compose("rm", "-s", "-f", "us")
    cluster.engine.run("volume", "rm", f"{cluster.name}_us-data")
    cluster.up("us")
    cluster.await_healthy("us")
    cluster.await_links()
    assert cluster.await_equal() == digest
    assert sorted(entries(cluster, "us", key)) == sorted(ids)
    assert cluster.info("us", "crdt")["crdt_snapshots_joined"] >= 1
    # Its next effects follow its former ones.
    added(cluster, "us", key, 10)
    cluster.await_equal()
    assert len(entries(cluster, "ap", key)) == 610


class Writer:
    """Adds entries in a region until it is stopped, and keeps their ids and every error."""

    def __init__(self, client: redis.Redis, key: str) -> None:
        self.ids: list[str] = []
        self.errors: list[Exception] = []
        self._client = client
        self._key = key
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the writing; returns after the last add."""
        self._stopped.set()
        self._thread.join(60)

    def _write(self) -> None:
        while not self._stopped.wait(0.02):
            try:
                self.ids.append(str(self._client.xadd(self._key, {"n": str(len(self.ids))})))
            except redis.RedisError as error:
                self.errors.append(error)


def test_the_image_of_one_region_is_upgraded_while_the_others_serve(
    cluster: Project, engine: Engine, base_image: str, tmp_path: Path
) -> None:
    key = "orders-upgrade"
    version = next_version(tmp_path / "next")
    upgraded = "anabranch-test/region:next"
    build_region(engine, base_image, upgraded, tmp_path / "next")
    old = cluster.info("eu", "server")["anabranch_version"]
    others = {name: cluster.container(name) for name in ("us", "ap", "toxiproxy")}
    writers = [Writer(cluster.client(name), key) for name in ("us", "ap")]
    try:
        cluster.up("eu", environment={"ANABRANCH_IMAGE": upgraded})
        cluster.await_healthy("eu")
        cluster.await_links()
    finally:
        for writer in writers:
            writer.stop()
    assert [writer.errors for writer in writers] == [[], []]
    assert all(writer.ids for writer in writers)
    assert cluster.info("eu", "server")["anabranch_version"] == version != old
    assert {name: cluster.container(name) for name in others} == others
    cluster.await_equal()
    assert sorted(entries(cluster, "eu", key)) == sorted(writers[0].ids + writers[1].ids)


def test_a_stop_is_clean_and_a_start_finds_everything(cluster: Project) -> None:
    key = "orders-stop"
    ids = added(cluster, "ap", key, 30)
    digest = cluster.await_equal()
    cluster.compose("stop")
    assert exit_codes(cluster) == dict.fromkeys(REGIONS, 0)
    cluster.compose("start")
    cluster.await_healthy()
    cluster.await_links()
    assert cluster.await_equal() == digest
    assert entries(cluster, "us", key) == ids
