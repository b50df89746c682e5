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
from anabranch.chaos.producers import IdempotentProducer, Producer, fields_of, request, value_of

ENTRIES = [("1-1", fields_of("a")), ("2-1", fields_of("b"))]


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


def test_entries_have_fields_of_all_kinds() -> None:
    every = [fields_of(f"p:{number}") for number in range(500)]
    assert {len(fields) for fields in every} == {1, 2, 3, 4, 5, 6}
    words = [word for number in range(500) for word in request("plain", f"p:{number}")]
    assert words[:2] == [b"XADD", b"plain"] and b"" in words
    assert any(b"\n" in word for word in words) and any(b"\xff" in word for word in words)


def test_an_entry_with_other_fields_has_a_value_of_its_own() -> None:
    """The judges then say that nobody added it."""
    value = next(f"p:{number}" for number in range(100) if len(fields_of(f"p:{number}")) > 2)
    right = fields_of(value)
    name = list(right)[1]
    wrong: list[dict[str, str]] = [
        {**right, name: right[name] + "\n"},
        {one: text for one, text in right.items() if one != name},
        dict(reversed(right.items())),
    ]
    assert value_of(right) == value and value_of(None) == value_of({}) == ""
    for fields in wrong:
        assert value_of(fields).startswith(f"{value} as ")


class Answering(Connection):
    """A connection that answers adds with IDs, or refuses every second one of a pipeline."""

    def __init__(self, refuses: bool) -> None:
        super().__init__()
        self.refuses = refuses
        self.adds: list[tuple[bytes, ...]] = []
        self.sent = 0

    def pipeline(self, transaction: bool) -> Answering:
        assert not transaction
        return self

    def execute_command(self, *words: bytes) -> str:
        self.adds.append(words)
        return f"{len(self.adds)}-1"

    def execute(self, raise_on_error: bool) -> list[Any]:
        assert not raise_on_error
        replies: list[Any] = [f"{number}-1" for number in range(self.sent, len(self.adds))]
        self.sent = len(self.adds)
        if self.refuses:
            replies[::2] = [redis.exceptions.ReadOnlyError("in recovery") for _ in replies[::2]]
        return replies


@pytest.mark.parametrize("refuses", [False, True])
def test_adds_that_are_sent_together_have_outcomes_of_their_own(
    monkeypatch: pytest.MonkeyPatch, refuses: bool
) -> None:
    connection = Answering(refuses)
    monkeypatch.setattr(clients, "connect", lambda port: connection)
    place = Workplace({"us": 1, "eu": 2}, History(), 7)
    place.stop.set()
    producer = Producer(place, "plain-us", "us", 1000.0)
    for _ in range(100):
        producer.act()
    adds = place.history.adds
    times = [add.sent_s for add in adds]
    together = [times.count(sent_s) for sent_s in sorted(set(times))]
    assert set(together) == {1, 16} and len(adds) == len(connection.adds) == sum(together)
    assert {add.outcome for add in adds} == ({OK, REFUSED} if refuses else {OK})
    assert all(bool(add.entry_id) == (add.outcome == OK) for add in adds)
    assert place.history.refusals.total() == sum(add.outcome == REFUSED for add in adds)


@pytest.mark.parametrize("pairs_max, seconds", [(100, 4.0), (10_000, 15.0)])
def test_idempotent_adds_are_repeated_before_their_pairs_are_forgotten(
    monkeypatch: pytest.MonkeyPatch, pairs_max: int, seconds: float
) -> None:
    monkeypatch.setattr(clients, "connect", lambda port: Answering(refuses=False))
    place = Workplace({"us": 1, "eu": 2}, History(), 7)
    place.stop.set()
    producer = IdempotentProducer(place, "idmp-us", "us", 10.0, pairs_max)
    for _ in range(300):
        producer.act()
    due = [due_s - place.history.now_s() for due_s, _ in producer._waiting]
    assert seconds * 0.8 < max(due) <= seconds
