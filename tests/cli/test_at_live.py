"""`top` and `status` with ``--at``: regions that are down, passwords, names that are not UTF-8.

Both commands once ended with an error as soon as one of the regions of ``--at`` did not answer,
which is when an operator looks.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from anabranch import build
from tests.support.cluster import LiveCluster, child_env
from tests.support.processes import eventually

pytestmark = pytest.mark.live
NewCluster = Callable[..., LiveCluster]


def run(cluster: LiveCluster, *words: str, names: str = "us eu ap") -> tuple[int, list[str], str]:
    """Runs a command for these regions: exit code, lines of output, and error output."""
    line = [*build.command(), *words]
    for name in names.split():
        line += ["--at", cluster[name].address]
    ended = subprocess.run(
        line, capture_output=True, text=True, env=child_env(), timeout=100, check=False
    )
    assert "Traceback" not in ended.stderr, ended.stderr
    return ended.returncode, ended.stdout.splitlines(), ended.stderr


def test_a_region_that_is_down_has_the_name_that_is_left(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    for name in ("us", "eu"):
        cluster.start(name)
    eventually(lambda: cluster.links("us")["eu"] == "up", 60, "the link from eu")
    code, lines, _ = run(cluster, "top", "--once", "--interval", "0.2")
    assert code == 0 and lines[0] == "3 regions, 1 not answering"
    assert ["ap", "unreachable"] in [line.split() for line in lines]
    assert lines[-1].startswith(f"ap at {cluster['ap'].address} is unreachable")
    code, lines, problems = run(cluster, "status")
    rows = [line.split() for line in lines]
    assert code == 1 and ["ap", "3", "unreachable", cluster["ap"].address] in rows
    assert problems.count("unreachable") == 1


def test_a_region_that_is_named_twice(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    cluster.start("us")
    code, lines, problems = run(cluster, "status", names="us us")
    assert code == 2 and lines == [] and "are one region, us" in problems


def test_a_server_that_is_no_region(
    new_cluster: NewCluster, oracle: redis.Redis, tmp_path: Path
) -> None:
    """`status` called it unreachable, and `top` showed figures of it."""
    cluster = new_cluster()
    cluster.start("us")
    server = f"127.0.0.1:{oracle.connection_pool.connection_kwargs['port']}"
    told = f"the server at {server} is no region of anabranch: give the address for clients of a"
    for words in (["status"], ["top", "--once"], ["link", "heal"]):
        line = [*build.command(), *words, "--at", cluster["us"].address, "--at", server]
        ended = subprocess.run(
            line, capture_output=True, text=True, env=child_env(), timeout=100, check=False
        )
        assert ended.returncode == 1 and ended.stdout == "", ended
        assert ended.stderr == f"anabranch: {told} region\n"
    file = tmp_path / "cluster.toml"
    rows = [("us", 1, cluster["us"].address), ("eu", 2, server)]
    file.write_text(
        "".join(f'[[regions]]\nname = "{n}"\nid = {i}\nresp = "{a}"\n' for n, i, a in rows)
    )
    for words in (["status"], ["top", "--once", "--interval", "0.2"]):
        line = [*build.command(), *words, "--cluster", str(file)]
        ended = subprocess.run(
            line, capture_output=True, text=True, env=child_env(), timeout=100, check=False
        )
        assert any("no region" in row and "eu" in row for row in ended.stdout.splitlines()), ended
        assert told in ended.stdout + ended.stderr and "unreachable" not in ended.stdout


def test_one_region_has_no_links_to_heal(new_cluster: NewCluster) -> None:
    """It said that every link was healed, and did nothing."""
    cluster = new_cluster()
    cluster.start("us")
    code, lines, problems = run(cluster, "link", "heal", names="us")
    assert code == 2 and lines == [] and "one region has no links: name all regions" in problems


def test_a_cluster_file_with_swapped_addresses(
    new_cluster: NewCluster, tmp_path: Path, free_port: int
) -> None:
    """`link cut` once cut other links than it said, and `member lost` declared another region
    lost."""
    cluster = new_cluster()
    for name in ("us", "eu"):
        cluster.start(name)
    eventually(lambda: cluster.links("us")["eu"] == "up", 60, "the link from eu")
    file = tmp_path / "cluster.toml"
    swapped = [("us", 1, "eu"), ("eu", 2, "us")]
    rows = [
        f'[[regions]]\nname = "{name}"\nid = {number}\nresp = "{cluster[at].address}"\n'
        for name, number, at in swapped
    ]
    # Some editors put a mark before UTF-8.
    file.write_text("\ufeff" + "\n".join(rows), encoding="utf-8")
    for words in (
        ["status"],
        ["link", "cut", "us", "eu"],
        ["member", "lost", "us", "--yes"],
        ["console", "--listen", f"127.0.0.1:{free_port}"],
    ):
        line = [*build.command(), *words, "--cluster", str(file)]
        ended = subprocess.run(
            line, capture_output=True, text=True, env=child_env(), timeout=100, check=False
        )
        assert ended.returncode == 1 and "Traceback" not in ended.stderr, ended
        told = ended.stdout + ended.stderr
        assert "is us, not eu" in told or "is eu, not us" in told, ended
    assert cluster.links("us")["eu"] == cluster.links("eu")["us"] == "up"


def test_a_cluster_file_with_another_id(new_cluster: NewCluster, tmp_path: Path) -> None:
    """Only the name was compared. `export` asks for entries by the id, and found none."""
    cluster = new_cluster(["us"])
    cluster.start("us")
    file = tmp_path / "cluster.toml"
    row = f'[[regions]]\nname = "us"\nresp = "{cluster["us"].address}"\nid = '
    for number, code in ((7, 1), (1, 0)):
        file.write_text(f"{row}{number}\n", encoding="utf-8")
        line = [*build.command(), "export", "us", str(tmp_path / "out"), "--all"]
        ended = subprocess.run(
            [*line, "--cluster", str(file)],
            capture_output=True,
            text=True,
            env=child_env(),
            timeout=100,
            check=False,
        )
        assert ended.returncode == code and "Traceback" not in ended.stderr, ended
        assert ("has the id 1, not 7" in ended.stderr) == bool(code), ended


def test_two_regions_that_are_down_have_their_addresses(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    cluster.start("us")
    code, lines, problems = run(cluster, "status")
    for name in ("eu", "ap"):
        address = cluster[name].address
        assert [address, "?", "unreachable", address] in [line.split() for line in lines]
        assert f"the region at {address} is unreachable" in problems
    assert code == 1 and not any("not dialled" in line for line in lines)
    code, lines, _ = run(cluster, "top", "--once", "--interval", "0.2")
    assert code == 0 and lines[0] == "3 regions, 2 not answering"
    for command in (["top", "--once"], ["status"]):
        code, lines, problems = run(cluster, *command, names="eu ap")
        assert code == 1 and lines == [] and "no region answers" in problems


def test_a_password_and_names_that_are_not_utf_8(new_cluster: NewCluster) -> None:
    cluster = new_cluster(["us"])
    cluster.start("us")
    with cluster.client("us", decode_responses=False) as client:
        client.xadd(b"k\xff\x1b", {b"\xff": b"\xfe"})
        client.xgroup_create(b"k\xff\x1b", b"g\xff", 0)
        client.config_set("crdt-metrics-streams-max", 5)
        client.config_set("requirepass", "s\u00e9cret")
        for password in ([], ["--password", "wrong"]):
            code, lines, problems = run(cluster, "top", "--once", *password, names="us")
            assert code == 1 and lines == [] and "password" in problems
        words = ["top", "--once", "--interval", "0.2", "--password", "s\u00e9cret"]
        code, lines, problems = run(cluster, *words, names="us")
        assert (code, problems) == (0, "") and lines[0] == "1 region, 0 not answering"
        assert ["us", "serving"] in [line.split()[:2] for line in lines]
