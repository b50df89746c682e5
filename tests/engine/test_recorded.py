"""The case files of `tests/differential`, and more of them, without a redis-server.

The engine must answer as it did when the answers were recorded.
"""

from __future__ import annotations

import pytest

from tests.engine.recording import RECORDED, cases, record

CASES = cases()


def recorded(name: str) -> dict[str, list[str]]:
    """title → the lines of each case."""
    blocks = (RECORDED / f"{name}.txt").read_text(encoding="utf-8").rstrip("\n").split("\n\n")
    return {block.partition("\n")[0][2:]: block.split("\n") for block in blocks}


def test_every_case_is_recorded() -> None:
    assert {path.stem for path in RECORDED.glob("*.txt")} == set(CASES)
    for name, in_file in CASES.items():
        assert list(recorded(name)) == [title for title, _ in in_file]


@pytest.mark.parametrize(
    ("name", "title"), [(name, title) for name, in_file in CASES.items() for title, _ in in_file]
)
def test_case(name: str, title: str) -> None:
    lines = dict(CASES[name])[title]
    assert record(title, lines) == recorded(name)[title]
