"""`anabranch judge` follows live regions through restarts and snapshots."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from anabranch import build
from tests.support.cluster import LiveCluster, child_env

pytestmark = pytest.mark.live
# Short logs, so that a region that was away pulls a snapshot.
SETTINGS = {
    "crdt-tape-max-bytes": "60kb",
    "crdt-log-max-effects": "20",
    "crdt-snapshot-patience-ms": "200",
    "crdt-checkpoint-interval-ms": "100",
}


def judge(*paths: Path) -> tuple[int, str]:
    line = [*build.command(), "judge", *map(str, paths)]
    ended = subprocess.run(
        line, capture_output=True, text=True, env=child_env(), timeout=100, check=False
    )
    assert "Traceback" not in ended.stderr, ended.stderr
    return ended.returncode, ended.stdout + ended.stderr


def use(client: redis.Redis, times: int) -> None:
    for number in range(times):
        client.execute_command("XADD", "k", "MAXLEN", "~", 200, "*", "n", number)
        client.execute_command("XADD", "k", "IDMP", "p", number, "*", "n", number)
        client.xreadgroup("g", "c", {"k": ">"}, count=3)
        client.xautoclaim("k", "g", "d", 0, count=1)
        with client.pipeline(transaction=True) as transaction:
            transaction.xadd("k", {"in": number})
            transaction.xlen("k")
            transaction.execute()
        client.xinfo_stream("k", full=True)
        client.execute_command("CLIENT", "ID")
        with pytest.raises(redis.ResponseError):
            client.execute_command("XLEN")


def test_regions_that_are_right(new_cluster: Callable[..., LiveCluster]) -> None:
    cluster = new_cluster(["us", "eu"], SETTINGS)
    cluster.start_all()
    with cluster.client("us") as us, cluster.client("eu", protocol=3) as eu:
        us.xgroup_create("k", "g", "0", mkstream=True)
        cluster.sync()
        use(us, 40)
        use(eu, 40)
        cluster.kill("eu")
        use(us, 80)
    cluster.start("eu")
    cluster.sync()
    with cluster.client("eu") as eu:
        use(eu, 20)
    cluster.stop("us")
    cluster.stop("eu")
    folders = [cluster[name].data / "tape" for name in ("us", "eu")]
    code, text = judge(*folders)
    assert code == 0, text
    assert "not followed" not in text, text
    assert all(int(line.split()[1]) > 100 for line in text.splitlines()), text
    assert judge(*folders, *folders) == (0, text), "a tape that is named twice is judged once"
    code, text = judge(Path("--json"), *folders)
    found = json.loads(text)
    assert code == 0 and found["wrong"] is None
    assert {one["region"] for one in found["regions"]} == {"us", "eu"}
    assert all(one["calls"] > 100 and not one["not_followed_after"] for one in found["regions"])
    (folders[0] / "00000001.tape").write_bytes(b"no tape")
    code, text = judge(*folders)
    assert code == 1 and "00000001.tape is no tape" in text


def test_a_folder_without_tapes(tmp_path: Path) -> None:
    code, text = judge(tmp_path)
    assert code == 2 and f"no tapes in {tmp_path}" in text
