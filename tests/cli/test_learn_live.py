"""The console blocks of each chapter of docs/learn, run against a fresh cluster.

Each command gives the output that the chapter shows. The functions `us`, `eu` and `ap` are those
that the book tells its readers to define.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cluster import LiveCluster
from tests.support.console import Console, steps, unified

LEARN = Path(__file__).resolve().parents[2] / "docs" / "learn"
CHAPTERS = sorted(path for path in LEARN.glob("*.md") if path.name != "README.md")
pytestmark = pytest.mark.live


def setup() -> str:
    """The functions for the shell that README.md of the book shows."""
    blocks = re.findall(r"```sh\n(.*?)```", (LEARN / "README.md").read_text(), re.DOTALL)
    assert len(blocks) == 1 and "us()" in blocks[0]
    return str(blocks[0])


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_the_chapter_happens(
    chapter: Path, new_cluster: Callable[..., LiveCluster], tmp_path: Path
) -> None:
    shown = steps(chapter.read_text(encoding="utf-8"))
    assert shown, f"{chapter.name} has nothing to type"
    cluster = new_cluster()
    cluster.start_all()
    console = Console(cluster, tmp_path, setup(), is_silent_exact=True)
    for command, expected in shown:
        console.type(command, expected)


def test_only_times_are_left_out() -> None:
    told = "at 2026-11-23 16:25:54.791 (1795451154791 ms): 1795451154791-2001\nand 110-1"
    assert unified(told) == "at TIME: TIME-2001 and 110-1"
