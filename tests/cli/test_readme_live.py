"""The console blocks of README, run against a fresh cluster, give the output that README shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch.cli.addresses import RegionAddress, write_file
from tests.support.cluster import LiveCluster, child_env
from tests.support.processes import eventually

README = Path(__file__).resolve().parents[2] / "README.md"
pytestmark = pytest.mark.live


def steps(text: str) -> list[tuple[str, list[str]]]:
    """(command, expected lines) of all console blocks, in order."""
    made: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                made.append((line[2:], []))
            else:
                made[-1][1].append(line)
    return made


def unified(text: str) -> str:
    """`text` with the times of entry IDs replaced: they differ between runs, the seq does not."""
    return re.sub(r"\b\d{13}-(\d+)", r"TIME-\1", text).strip()


def test_readme_happens(new_cluster: Callable[..., LiveCluster], tmp_path: Path) -> None:
    if shutil.which("redis-cli") is None:
        pytest.fail(
            "README uses redis-cli, which is not installed: install the package redis-tools"
        )
    cluster = new_cluster()
    cluster.start_all()
    places = [
        RegionAddress(region.name, region.region_id, region.address)
        for region in cluster.regions.values()
    ]
    (tmp_path / "anabranch-data").mkdir()
    write_file(tmp_path / "anabranch-data" / "cluster.toml", "local", places)
    (tmp_path / "anabranch").write_text(f'#!/bin/sh\nexec {sys.executable} -P -m anabranch "$@"\n')
    (tmp_path / "anabranch").chmod(0o755)
    ports = {
        str(7000 + region.region_id): str(region.resp_port) for region in cluster.regions.values()
    }
    environment = {**child_env(), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    shown = steps(README.read_text())
    assert len(shown) > 8
    for command, expected in shown:
        line = re.sub(r"\b700\d\b", lambda found: ports[found[0]], command)

        def happens(line: str = line, expected: list[str] = expected) -> bool:
            result = subprocess.run(
                line,
                shell=True,
                capture_output=True,
                text=True,
                cwd=tmp_path,
                env=environment,
                timeout=60,
                check=False,
            )
            answer = unified(result.stdout)
            assert result.returncode == 0 and (
                not expected or answer == unified("\n".join(expected))
            ), f"{line}\n{answer}\n{result.stderr}"
            return True

        if any(word in command for word in ("XADD", "DEL")):
            happens()
            cluster_is_quiet(cluster)
        else:
            eventually(happens, 15, command)


def cluster_is_quiet(cluster: LiveCluster) -> None:
    """Waits until all regions with open links have equal vectors.

    A reader of README gives the regions this time between typing two commands.
    """

    def equal() -> bool:
        linked = [name for name in cluster.regions if "down" not in cluster.links(name).values()]
        return len({str(cluster.vector(name)) for name in linked or ["eu", "ap"]}) == 1

    eventually(equal, 15, "vectors being equal")
