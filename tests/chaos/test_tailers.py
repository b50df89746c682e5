"""Readers with XREAD: they go on after the last entry of each stream, and note all they get."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.chaos import clients
from anabranch.chaos.clients import Workplace
from anabranch.chaos.history import History
from anabranch.chaos.producers import fields_of
from anabranch.chaos.tailers import Tailer


class Connection:
    """Answers with the given replies, one after the other, and notes the commands."""

    def __init__(self, replies: list[Any]) -> None:
        self.replies = replies
        self.asked: list[tuple[Any, ...]] = []

    def execute_command(self, *words: Any) -> Any:
        self.asked.append(words)
        return self.replies.pop(0)


def test_it_reads_on_after_the_last_entry_of_each_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = Connection(
        [
            [["plain", [("1-1", fields_of("a")), ("2-1", fields_of("b"))]]],
            None,
            [["jobs", [("3-1", fields_of("c"))]], ["plain", [("4-1", None)]]],
            None,
        ]
    )
    monkeypatch.setattr(clients, "connect", lambda port: connection)
    place = Workplace({"us": 1, "eu": 2}, History(), 7)
    tailer = Tailer(place, "tailer-us", "us")
    for _ in range(4):
        tailer.act()
    assert [words[-2:] for words in connection.asked] == [
        ("0-0", "0-0"),
        ("2-1", "0-0"),
        ("2-1", "0-0"),
        ("4-1", "3-1"),
    ]
    found = [(one.key, one.entry_id, one.value) for one in place.history.readings]
    assert found == [
        ("plain", "1-1", "a"),
        ("plain", "2-1", "b"),
        ("jobs", "3-1", "c"),
        ("plain", "4-1", ""),
    ]
