"""What clients make of replies and failures, without regions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from anabranch.chaos import clients
from anabranch.chaos.clients import Client, Workplace, connect
from anabranch.chaos.consumers import entries_of_claim, entries_of_read, note_deliveries
from anabranch.chaos.history import OK, REFUSED, UNKNOWN, History, id_pair

ENTRIES = [("1-1", {"v": "a"}), ("2-1", {"v": "b"})]


class Connection:
    """A connection to a region that answers nothing by itself."""

    def __init__(self) -> None:
        self.closed = False

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setattr(clients, "connect", lambda port: Connection())
    return Client(Workplace({"us": 1, "eu": 2, "ap": 3}, History(), 7), "c", "us")


def raises(error: Exception) -> Callable[[Any], Any]:
    def ask(connection: Any) -> Any:
        raise error

    return ask


def test_a_reply(client: Client) -> None:
    outcome, reply, sent_s, answered_s = client.ask("us", lambda connection: "1-1")
    assert (outcome, reply) == (OK, "1-1") and sent_s <= answered_s


@pytest.mark.parametrize(
    "error, text",
    [
        (redis.exceptions.ResponseError("MISCONF takes no writes"), "MISCONF takes no writes"),
        (redis.exceptions.ReadOnlyError("region us is in recovery"), "READONLY region us is in"),
    ],
)
def test_an_error_reply_is_a_refusal(client: Client, error: Exception, text: str) -> None:
    """redis-py drops the word READONLY, and such refusals once counted as unexplained."""
    assert client.ask("us", raises(error))[0] == REFUSED
    ((said, count),) = client.history.refusals.items()
    assert said.startswith(text) and count == 1


@pytest.mark.parametrize(
    "error",
    [redis.exceptions.ConnectionError(), redis.exceptions.TimeoutError(), ConnectionResetError()],
)
def test_a_request_without_an_answer_may_have_been_executed(
    client: Client, error: Exception
) -> None:
    """The connection is dropped: a late reply would be taken for that of the next request."""
    used: list[Connection] = []
    client.ask("us", used.append)
    assert client.ask("us", raises(error))[0] == UNKNOWN
    client.ask("us", used.append)
    assert used[0].closed and used[1] is not used[0]


def test_a_client_fails_over_to_another_region(client: Client) -> None:
    for _ in range(10):
        before = client.region
        client.fail_over()
        assert client.region != before


def test_each_command_is_sent_once() -> None:
    """redis-py repeats commands by default, and a repeated XADD is a second entry."""
    real = connect(1)
    assert real.connection_pool.connection_kwargs["retry"].get_retries() == 0


def test_replies_of_groups() -> None:
    assert entries_of_read([]) == entries_of_read(None) == []
    assert entries_of_read([["jobs", ENTRIES]]) == ENTRIES
    assert entries_of_read({"jobs": [ENTRIES]}) == ENTRIES
    assert entries_of_claim(["0-0", ENTRIES, []]) == ENTRIES
    place = Workplace({"us": 1, "eu": 2}, History(), 7)
    found = note_deliveries(place, "us", "c", "claim", 1.0, 2.0, [*ENTRIES, ("3-1", None)])
    assert found == ["1-1", "2-1", "3-1"]
    assert [(one.reply, one.place, one.value) for one in place.history.deliveries] == [
        (1, 0, "a"),
        (1, 1, "b"),
        (1, 2, ""),
    ]


def test_ids_compare_as_numbers() -> None:
    assert id_pair("9-1") < id_pair("10-1") < id_pair("10-1001")
