"""`anabranch link` on running regions: inside the regions, and through a toxiproxy server."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anabranch import build
from anabranch.cluster.ports import free_ports
from anabranch.cluster.processes import end
from anabranch.cluster.toxiproxy import UPSTREAM, Toxic
from anabranch.cluster.toxiproxy_server import ToxiproxyServer
from tests.support.cluster import LiveCluster, child_env
from tests.support.processes import eventually

pytestmark = pytest.mark.live


class Operator:
    """Runs `anabranch link` against a cluster with that cluster file."""

    def __init__(self, cluster: LiveCluster, api: str = "") -> None:
        self.file = cluster.directory / "cluster.toml"
        rows = [
            f'[[regions]]\nname = "{region.name}"\nid = {region.region_id}\n'
            f'resp = "{region.address}"\n'
            for region in cluster.regions.values()
        ]
        table = f'[toxiproxy]\napi = "{api}"\n' if api else ""
        self.file.write_text('cluster = "test"\n' + "".join(rows) + table)

    def line(self, *words: str) -> list[str]:
        return [*build.command(), "link", *words, "--cluster", str(self.file)]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.line(*words),
            capture_output=True,
            text=True,
            env=child_env(),
            timeout=60,
            check=False,
        )

    def ok(self, *words: str) -> str:
        ended = self.run(*words)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def fails(self, *words: str) -> str:
        ended = self.run(*words)
        assert ended.returncode == 1 and "Traceback" not in ended.stderr, ended
        return ended.stderr

    def status(self) -> dict[tuple[str, str], Any]:
        """(from, to) → the row of `link status`."""
        return {(row["from"], row["to"]): row for row in json.loads(self.ok("status", "--json"))}


def awaits(cluster: LiveCluster, receiver: str, sender: str, state: str) -> None:
    eventually(
        lambda: cluster.links(receiver)[sender] == state, 30, f"{receiver} from {sender}: {state}"
    )


def crosses(cluster: LiveCluster, sender: str, receiver: str) -> None:
    """An entry that is added in `sender` arrives in `receiver`."""
    with cluster.client(sender) as one, cluster.client(receiver) as other:
        added = one.xadd("crossing", {"by": sender})
        eventually(lambda: other.xrange("crossing", added, added), 30, "the entry crossing")


def test_links_inside_the_regions(new_cluster: Callable[..., LiveCluster]) -> None:
    cluster = new_cluster(["us", "eu", "ap"])
    cluster.detours["us", "ap"] = 0
    cluster.start_all()
    operator = Operator(cluster)
    assert set(operator.status()) == {
        ("us", "eu"), ("eu", "us"), ("us", "ap"), ("eu", "ap"), ("ap", "eu")
    }  # fmt: skip

    # A link that does not exist is not cut, and neither is the other direction.
    assert "there is no link ap → us: us does not dial ap" in operator.fails("cut", "us", "ap")
    assert "there is no link ap → us" in operator.fails("heal", "us", "ap")
    assert cluster.links("ap")["us"] == "up"
    assert operator.ok("cut", "ap", "us", "--one-way") == "cut: us → ap\n"
    assert operator.status()["us", "ap"]["cut_by"] == ["region"]
    assert cluster.links("ap")["us"] == "down"

    # It said that it flaps, and found the link cut after that.
    refused = operator.run("flap", "ap", "us", "--one-way")
    assert refused.returncode == 1 and refused.stdout == ""
    assert "the link us → ap is cut already: heal it first" in refused.stderr

    assert operator.ok("delay", "us", "eu", "40") == "delayed by 40 ms: us ~~~ eu\n"
    assert operator.ok("limit", "us", "eu", "65537") == "limited to 65537 bytes/s: us ~~~ eu\n"
    row = operator.status()["eu", "us"]
    assert (row["region"]["delay_ms"], row["region"]["limit_bytes_s"]) == (40, 65537)
    shown = operator.ok("status")
    assert "40 ms" in shown and "65537 bytes/s" in shown and "region" in shown
    crosses(cluster, "us", "eu")
    refused = operator.run("delay", "us", "eu", "40", "--jitter", "5")
    assert refused.returncode == 2 and "--jitter needs toxiproxy" in refused.stderr

    # A region that does not answer: nothing is changed in the other one.
    cluster.kill("eu")
    text = operator.fails("cut", "us", "eu")
    assert "eu at" in text and "is unreachable" in text
    assert cluster.links("us")["eu"] != "down"
    text = operator.fails("heal")
    assert "us → eu may not be healed: eu at" in text
    assert operator.run("status").returncode == 1
    cluster.start("eu")
    operator.ok("heal")
    awaits(cluster, "ap", "us", "up")
    assert all(
        not row["cut_by"] and not row["region"]["delay_ms"] and not row["region"]["limit_bytes_s"]
        for row in operator.status().values()
    )
    crosses(cluster, "eu", "us")


def through(cluster: LiveCluster, server: ToxiproxyServer) -> Operator:
    """Puts a proxy into each direction, and starts the cluster."""
    names = list(cluster.regions)
    pairs = [(one, other) for one in names for other in names if one != other]
    for (receiver, sender), port in zip(pairs, free_ports(len(pairs)), strict=True):
        server.api.create(
            f"{sender}-to-{receiver}", f"127.0.0.1:{port}", f"127.0.0.1:{cluster[sender].sync_port}"
        )
        cluster.detours[receiver, sender] = port
    cluster.start_all()
    return Operator(cluster, f"127.0.0.1:{server.api.port}")


def test_links_through_toxiproxy(
    new_cluster: Callable[..., LiveCluster], toxiproxy: ToxiproxyServer
) -> None:
    cluster = new_cluster(["us", "eu"])
    operator = through(cluster, toxiproxy)
    api = toxiproxy.api

    operator.ok("cut", "us", "eu", "--one-way")
    assert not api.proxy("eu-to-us").enabled and api.proxy("us-to-eu").enabled
    awaits(cluster, "us", "eu", "connecting")
    assert operator.status()["eu", "us"]["cut_by"] == ["toxiproxy"]
    crosses(cluster, "us", "eu")

    operator.ok("delay", "us", "eu", "50", "--jitter", "5")
    assert "limited to 66000 bytes/s" in operator.ok("limit", "us", "eu", "65537")
    assert [
        (toxic.name, toxic.stream, dict(toxic.attributes)) for toxic in api.proxy("us-to-eu").toxics
    ] == [
        ("anabranch-delay", "downstream", {"latency": 50, "jitter": 5}),
        ("anabranch-limit", "downstream", {"rate": 66}),
    ]
    operator.ok("delay", "us", "eu", "0")
    assert [toxic.name for toxic in api.proxy("us-to-eu").toxics] == ["anabranch-limit"]

    # Heal ends toxics that somebody else added, and cuts inside a region, too.
    api.add("us-to-eu", Toxic("mine", "slicer", UPSTREAM, {"average_size": 100}))
    cluster.link("eu", "us", "DOWN")
    assert operator.status()["us", "eu"]["cut_by"] == ["region"]
    assert operator.status()["us", "eu"]["toxiproxy"]["others"] == ["slicer upstream"]
    operator.ok("heal", "us", "eu")
    assert all(proxy.enabled and not proxy.toxics for proxy in api.proxies().values())
    crosses(cluster, "us", "eu")
    crosses(cluster, "eu", "us")

    # A proxy that is missing: the other direction is not cut.
    port = api.proxy("eu-to-us").listen
    api.destroy("eu-to-us")
    text = operator.fails("cut", "us", "eu")
    assert "toxiproxy has no proxy 'eu-to-us'; it has us-to-eu" in text
    assert api.proxy("us-to-eu").enabled
    assert "no proxy 'eu-to-us'" in operator.run("status").stderr
    api.create("eu-to-us", port, f"127.0.0.1:{cluster['eu'].sync_port}")

    toxiproxy.stop()
    assert "is unreachable" in operator.fails("cut", "us", "eu")
    assert "may not be healed: toxiproxy at" in operator.fails("heal")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_flapping_ends_with_links_that_are_whole(
    new_cluster: Callable[..., LiveCluster], tmp_path: Path, number: int
) -> None:
    cluster = new_cluster(["us", "eu"])
    cluster.start_all()
    operator = Operator(cluster)
    words = ["flap", "us", "eu", "--up-ms", "50", "--down-ms", "50", "--seconds", "100"]
    output = tmp_path / "flap.out"
    with output.open("wb") as out:
        process = subprocess.Popen(operator.line(*words), stdout=out, stderr=out, env=child_env())
    try:
        for _ in range(3):
            awaits(cluster, "us", "eu", "down")
            awaits(cluster, "us", "eu", "up")
        process.send_signal(number)
        assert process.wait(30) == 0, output.read_text()
    finally:
        end(process)
    assert "mended after" in output.read_text()
    assert "down" not in [*cluster.links("us").values(), *cluster.links("eu").values()]
    crosses(cluster, "us", "eu")


def test_flapping_stops_when_somebody_heals(
    new_cluster: Callable[..., LiveCluster], tmp_path: Path
) -> None:
    cluster = new_cluster(["us", "eu"])
    cluster.start_all()
    operator = Operator(cluster)
    words = ["flap", "us", "eu", "--up-ms", "100", "--down-ms", "3000", "--seconds", "100"]
    output = tmp_path / "flap.out"
    with output.open("wb") as out:
        process = subprocess.Popen(operator.line(*words), stdout=out, stderr=out, env=child_env())
    try:
        for peer, name in (("us", "eu"), ("eu", "us")):
            awaits(cluster, name, peer, "down")

        def is_stopped() -> bool:
            # A heal between two cuts changes nothing.
            operator.ok("heal", "us", "eu")
            return process.poll() is not None

        eventually(is_stopped, 60, "the end of the flapping")
        assert process.wait(30) == 1, output.read_text()
    finally:
        end(process)
    assert "flapping stopped: somebody else changed the link" in output.read_text()
    crosses(cluster, "eu", "us")
