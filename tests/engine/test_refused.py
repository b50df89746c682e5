"""Commands of Redis that a region refuses with a reason (`region/engine/refused.py`)."""

from __future__ import annotations

import pytest

from anabranch.region.engine import registry
from anabranch.region.engine.commands.introspection import lookup
from anabranch.region.engine.refused import REFUSED
from anabranch.region.engine.replies import ErrorReply
from anabranch.region.engine.settings import Settings
from anabranch.sim.tapes.judging import _is_malformed
from tests.engine.test_connection import Client, text_of
from tests.support.engines import single

NAMES = sorted(name.decode() for name in REFUSED)


@pytest.fixture
def client() -> Client:
    return Client(single())


@pytest.mark.parametrize("name", NAMES)
def test_no_client_tries_again(client: Client, name: str) -> None:
    """Redisson once sent EVALSHA again and again, because the text began as below."""
    for words in (name, f"{name.lower()} a b"):
        reply = client(words)
        assert isinstance(reply, ErrorReply)
        assert reply.message == REFUSED[name.encode()]
        assert not reply.message.startswith(("ERR unknown command", "NOSCRIPT"))


def test_the_texts_say_what_is_so(client: Client) -> None:
    assert text_of(client("evalsha x 0")) == "-ERR scripts are not served: EVALSHA"
    assert text_of(client("SUBSCRIBE c")) == "-ERR pub/sub is not served: SUBSCRIBE"
    assert text_of(client("MONITOR")) == (
        "-ERR a feed of the commands of all clients is not served: MONITOR"
    )
    assert text_of(client("CLUSTER SLOTS")) == "-ERR This instance has cluster support disabled"
    assert text_of(client("SET a 1")).startswith("-ERR unknown command 'SET'")


def test_they_are_no_commands(client: Client) -> None:
    assert not REFUSED.keys() & registry.commands().keys()
    assert all(lookup(client.engine.state, name) is None for name in REFUSED)
    assert client("COMMAND COUNT") == len(registry.commands())


def test_a_transaction_with_one_is_dropped(client: Client) -> None:
    client("MULTI")
    client("XADD s * a 1")
    assert text_of(client("EVALSHA x 0")) == "-ERR scripts are not served: EVALSHA"
    assert text_of(client("EXEC")).startswith("-EXECABORT")
    assert client("EXISTS s") == 0


def test_the_password_comes_first() -> None:
    client = Client(single(settings=Settings({"requirepass": "secret"})))
    assert text_of(client("EVALSHA x 0")) == "-NOAUTH Authentication required."
    assert text_of(client("NOSUCH")).startswith("-ERR unknown command")


def test_judges_of_tapes_know_the_texts() -> None:
    """Otherwise they would expect that a transaction with such a command is carried out."""
    assert all(_is_malformed(text) for text in REFUSED.values())
