"""Scenarios on regions that ask for a password."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch import build
from anabranch.sim import scenario
from tests.support.cluster import LiveCluster, child_env

pytestmark = pytest.mark.live
TABLE = """# An entry arrives

| Time | Region 1 | Region 2 |
| --- | --- | --- |
| _t1_ | `XADD x 110 a 1` | |
| _t2_ | — Sync — | — Sync — |
| _t3_ | | `XLEN x` → 1 |
"""


def test_a_cluster_with_a_password(
    tmp_path: Path, new_cluster: Callable[..., LiveCluster], capsys: pytest.CaptureFixture[str]
) -> None:
    """Before, `anabranch scenario run --cluster` could not log in at all."""
    cluster = new_cluster(["us", "eu"])
    for name in ("us", "eu"):
        cluster.start(name)
    for name in ("us", "eu"):
        cluster.client(name).config_set("requirepass", "secret")
    file = tmp_path / "one.md"
    file.write_text(TABLE)
    addresses = [f"127.0.0.1:{region.resp_port}" for region in cluster.regions.values()]
    assert scenario.main([str(file)], addresses, password="secret") == 0
    assert "1 scenario, 0 failed" in capsys.readouterr().out
    assert scenario.main([str(file)], addresses, password="wrong") == 1
    assert "WRONGPASS" in capsys.readouterr().err
    assert scenario.main([str(file)], addresses) == 1
    assert "NOAUTH" in capsys.readouterr().err


def test_the_command_says_how_to_give_a_password(
    tmp_path: Path, new_cluster: Callable[..., LiveCluster]
) -> None:
    """It ended with 2 and only the reply of the region, on stdout."""
    cluster = new_cluster(["us"])
    cluster.start("us")
    cluster.client("us").config_set("requirepass", "secret")
    file = tmp_path / "one.md"
    file.write_text(TABLE)
    line = [*build.command(), "scenario", "run", str(file), "--at", cluster["us"].address]
    ended = subprocess.run(line, capture_output=True, text=True, env=child_env(), timeout=60)
    assert ended.returncode == 1 and ended.stdout == ""
    assert "--password" in ended.stderr
