"""The console blocks of README, run against a fresh cluster, give the output that README shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cluster import LiveCluster
from tests.support.console import Console, steps

README = Path(__file__).resolve().parents[2] / "README.md"
pytestmark = pytest.mark.live


def test_readme_happens(new_cluster: Callable[..., LiveCluster], tmp_path: Path) -> None:
    cluster = new_cluster()
    cluster.start_all()
    console = Console(cluster, tmp_path)
    shown = steps(README.read_text(encoding="utf-8"))
    assert len(shown) > 8
    for command, expected in shown:
        console.type(command, expected)
