"""Clients that look at the whole state: what their looks may be refused with."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from anabranch.chaos import clients
from anabranch.chaos.clients import Workplace
from anabranch.chaos.history import History
from anabranch.chaos.lookers import LOOKS, Looker


class Refusing:
    """A connection on which every command is refused with that text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.asked: set[tuple[Any, ...]] = set()

    def execute_command(self, *words: Any, **options: Any) -> Any:
        self.asked.add(words)
        raise redis.exceptions.ResponseError(self.text)


@pytest.mark.parametrize("text, is_noted", [("no such key", False), ("syntax error", True)])
def test_a_stream_may_not_exist_yet(
    monkeypatch: pytest.MonkeyPatch, text: str, is_noted: bool
) -> None:
    connection = Refusing(text)
    monkeypatch.setattr(clients, "connect", lambda port: connection)
    place = Workplace({"us": 1}, History(), 7)
    place.stop.set()
    looker = Looker(place, "looker-us", "us")
    for _ in range(200):
        looker.act()
    assert connection.asked == set(LOOKS)
    assert (place.history.refusals[text] == 200) == is_noted
