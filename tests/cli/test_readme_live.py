"""The console blocks of README, run against a fresh cluster, give the output that README shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cluster import LiveCluster
from tests.support.console import Console, blocks

README = Path(__file__).resolve().parents[2] / "README.md"
pytestmark = pytest.mark.live


def test_readme_happens(new_cluster: Callable[..., LiveCluster], tmp_path: Path) -> None:
    """Each block is pasted as a whole. The first one printed 1 instead of 2 for XLEN then."""
    cluster = new_cluster()
    cluster.start_all()
    console = Console(cluster, tmp_path)
    shown = blocks(README.read_text(encoding="utf-8"))
    assert sum(len(block) for block in shown) > 8
    for block in shown:
        console.paste(block)
