"""Passwords, HELLO, RESET, client names and lists, settings, as one connection sees them."""

from __future__ import annotations

import pytest

from anabranch.region.engine.engine import Engine
from anabranch.region.engine.replies import (
    NO_REPLY,
    OK,
    ErrorReply,
    MapReply,
    NoReply,
    Reply,
    SimpleString,
    VerbatimText,
    listed,
)
from anabranch.region.engine.session import Session
from anabranch.region.engine.settings import Settings
from anabranch.region.resp.encoder import encode
from tests.support.engines import execute, single


class Client:
    """A session, and commands as text."""

    def __init__(self, engine: Engine, address: str = "127.0.0.1:50000") -> None:
        self.engine = engine
        self.session: Session = engine.clients.connect(address, "127.0.0.1:7001", 1000)

    def __call__(self, text: str, now_ms: int = 1000) -> Reply:
        return listed(execute(self.engine, self.session, text.encode().split(), now_ms))


def text_of(reply: Reply) -> str:
    """What a reply says, in short."""
    if isinstance(reply, ErrorReply):
        return "-" + reply.message
    if isinstance(reply, SimpleString | VerbatimText):
        return reply.text.decode()
    return reply.decode() if isinstance(reply, bytes) else repr(reply)


def pairs_of(reply: Reply) -> dict[Reply, Reply]:
    assert isinstance(reply, MapReply)
    return dict(zip(reply.flat[::2], reply.flat[1::2], strict=True))


@pytest.fixture
def locked() -> Engine:
    return single(settings=Settings({"requirepass": "secret"}))


@pytest.fixture
def client() -> Client:
    return Client(single())


# -- passwords


def test_nothing_goes_before_the_password(locked: Engine) -> None:
    client = Client(locked)
    assert text_of(client("PING")) == "-NOAUTH Authentication required."
    assert text_of(client("XADD s * a 1")) == "-NOAUTH Authentication required."
    assert (
        text_of(client("AUTH wrong"))
        == "-WRONGPASS invalid username-password pair or user is disabled."
    )
    assert (
        text_of(client("AUTH default secre"))
        == "-WRONGPASS invalid username-password pair or user is disabled."
    )
    assert (
        text_of(client("AUTH default secretsecret"))
        == "-WRONGPASS invalid username-password pair or user is disabled."
    )
    assert (
        text_of(client("AUTH other secret"))
        == "-WRONGPASS invalid username-password pair or user is disabled."
    )
    assert text_of(client("PING")) == "-NOAUTH Authentication required."
    assert client("AUTH secret") is OK
    assert text_of(client("PING")) == "PONG"


def test_hello_with_password(locked: Engine) -> None:
    client = Client(locked)
    assert text_of(client("HELLO 3")).startswith(
        "-NOAUTH HELLO must be called with the client already authenticated"
    )
    assert client.session.protocol == 2
    assert text_of(client("HELLO 3 AUTH default wrong")).startswith("-WRONGPASS")
    assert client.session.protocol == 2
    fields = pairs_of(client("HELLO 3 AUTH default secret SETNAME me"))
    assert (client.session.protocol, client.session.name, fields[b"proto"]) == (3, b"me", 3)
    assert text_of(client("CLIENT GETNAME")) == "me"


def test_a_mistake_in_hello_changes_no_name(client: Client) -> None:
    assert text_of(client("HELLO 3 SETNAME me FOO")) == "-ERR Syntax error in HELLO option 'FOO'"
    assert (client.session.protocol, client.session.name) == (2, b"")


def test_reset_takes_the_password_back(locked: Engine) -> None:
    client = Client(locked)
    client("HELLO 3 AUTH default secret SETNAME me")
    assert text_of(client("RESET")) == "RESET"
    assert (client.session.protocol, client.session.name, client.session.authenticated) == (
        2,
        b"",
        False,
    )


def test_reset_takes_the_flags_back(client: Client) -> None:
    for text in ("CLIENT NO-EVICT on", "CLIENT NO-TOUCH on"):
        assert client(text) is OK
    assert " flags=eT " in text_of(client("CLIENT INFO"))
    client("RESET")
    assert " flags=N " in text_of(client("CLIENT INFO"))


def test_a_password_set_later_holds_for_who_comes_later(client: Client) -> None:
    assert client("CONFIG SET requirepass late") is OK
    assert text_of(client("PING")) == "PONG"
    other = Client(client.engine)
    assert text_of(other("PING")) == "-NOAUTH Authentication required."
    assert other("AUTH late") is OK


# -- HELLO, QUIT


def test_hello_says_who_serves(client: Client) -> None:
    fields = pairs_of(client("HELLO 3"))
    assert fields == {
        b"server": b"redis",
        b"version": b"7.4.0",
        b"proto": 3,
        b"id": client.session.session_id,
        b"mode": b"standalone",
        b"role": b"master",
        b"modules": fields[b"modules"],
    }
    assert fields[b"modules"] == []
    assert pairs_of(client("HELLO"))[b"proto"] == 3
    assert pairs_of(client("HELLO 2"))[b"proto"] == 2


def test_quit_closes_after_its_reply(client: Client) -> None:
    assert client("QUIT") is OK
    assert client.session.closing


# -- CLIENT


def test_client_list_has_a_line_for_each(client: Client) -> None:
    client("CLIENT SETNAME first")
    client("CLIENT SETINFO LIB-NAME redis-py")
    client("CLIENT SETINFO LIB-VER 6.4.0")
    other = Client(client.engine, "127.0.0.1:50001")
    other("MULTI")
    other("PING")
    lines = text_of(client("CLIENT LIST", 4000)).splitlines()
    first, second = (dict(word.split("=", 1) for word in line.split(" ")) for line in lines)
    assert (first["id"], first["addr"], first["name"], first["age"], first["cmd"]) == (
        "1",
        "127.0.0.1:50000",
        "first",
        "3",
        "client|list",
    )
    assert (first["lib-name"], first["lib-ver"], first["multi"], first["flags"]) == (
        "redis-py",
        "6.4.0",
        "-1",
        "N",
    )
    assert (second["addr"], second["multi"], second["flags"], second["cmd"]) == (
        "127.0.0.1:50001",
        "1",
        "x",
        "ping",
    )
    assert text_of(client("CLIENT LIST ID 2 99")).splitlines()[0].startswith("id=2 ")
    assert text_of(client("CLIENT INFO")).startswith("id=1 ")


def test_kill_by_filters(client: Client) -> None:
    others = [Client(client.engine, f"127.0.0.1:{50001 + number}") for number in range(3)]
    assert client("CLIENT KILL ADDR 127.0.0.1:50001 TYPE normal USER default") == 1
    assert client.engine.clients.take_sessions_to_close() == [others[0].session.session_id]
    assert client("CLIENT KILL MAXAGE 2", 1500) == 0
    assert client("CLIENT KILL ID 4 LADDR 127.0.0.1:7002", 1500) == 0
    assert client("CLIENT KILL 127.0.0.1:50002") is OK
    assert client.engine.clients.take_sessions_to_close() == [others[1].session.session_id]
    assert client("CLIENT KILL MAXAGE 2 SKIPME no", 4000) == 4
    assert client.session.closing


def test_reply_off_and_skip(client: Client) -> None:
    assert isinstance(client("CLIENT REPLY SKIP"), NoReply)
    assert client("PING") is NO_REPLY
    assert text_of(client("PING")) == "PONG"
    assert isinstance(client("CLIENT REPLY OFF"), NoReply)
    assert client("PING") is NO_REPLY and client("NOSUCH") is NO_REPLY
    assert client("CLIENT REPLY ON") is OK


@pytest.mark.parametrize("text", ["CRDT.VECTOR", "CRDT.DIGEST", "CRDT.WAIT 100", "XLEN s"])
def test_only_one_reply_is_skipped(client: Client, text: str) -> None:
    """Some commands answer through the outbox while they run."""
    assert isinstance(client("CLIENT REPLY SKIP"), NoReply)
    client(text)
    assert text_of(client("PING")) == "PONG"


def test_a_skipped_command_may_silence_the_next_one(client: Client) -> None:
    """A second CLIENT REPLY SKIP, or OFF after SKIP, had no effect."""
    assert isinstance(client("CLIENT REPLY SKIP"), NoReply)
    assert isinstance(client("CLIENT REPLY SKIP"), NoReply)
    assert client("PING") is NO_REPLY
    assert text_of(client("PING")) == "PONG"
    assert isinstance(client("CLIENT REPLY SKIP"), NoReply)
    assert isinstance(client("CLIENT REPLY OFF"), NoReply)
    assert client("PING") is NO_REPLY and client("PING") is NO_REPLY
    assert client("CLIENT REPLY ON") is OK


def test_a_transaction_that_ends_the_silence_has_a_reply_for_each_command(client: Client) -> None:
    """EXEC put a reply into its array that cannot be sent, which was an internal error.

    1,000,000 malformed pipelines met it twice.
    """
    client("MULTI")
    for line in ("CLIENT REPLY OFF", "XLEN s", "CLIENT REPLY ON"):
        client(line)
    replies = client("EXEC")
    assert replies == [None, 0, OK]
    out: list[bytes] = []
    encode(replies, 2, out)
    assert b"".join(out) == b"*3\r\n$-1\r\n:0\r\n+OK\r\n"


# -- CONFIG


def test_config_set_is_all_or_nothing(client: Client) -> None:
    message = text_of(client("CONFIG SET timeout 7 crdt-xadd-id-uniqueness-mode loose"))
    assert (
        "related to argument 'crdt-xadd-id-uniqueness-mode') - "
        "argument(s) must be one of the following: strict" in message
    )
    assert pairs_of(client("CONFIG GET timeout")) == {b"timeout": b"0"}
    assert client("CONFIG SET timeout 7 crdt-xadd-id-uniqueness-mode LIBERAL") is OK
    assert client.engine.state.cached.id_mode == "liberal"
    assert text_of(client("XADD s 1-1 a 1")) == "1-1"


def test_config_get_takes_patterns(client: Client) -> None:
    assert pairs_of(client("CONFIG GET appendonly save APPENDF*")) == {
        b"appendonly": b"yes",
        b"save": b"",
        b"appendfsync": b"everysec",
    }
    assert len(pairs_of(client("CONFIG GET *"))) == len(client.engine.settings.values)


def test_config_get_shows_where_the_region_listens_and_keeps_data(client: Client) -> None:
    assert pairs_of(client("CONFIG GET port bind dir")) == {}
    client.engine.set_process_facts(
        {"tcp_port": "7001", "tcp_bind": "127.0.0.1", "data_dir": "/data/us", "os": "x"}
    )
    assert pairs_of(client("CONFIG GET dir PO?T bind port")) == {
        b"port": b"7001",
        b"bind": b"127.0.0.1",
        b"dir": b"/data/us",
    }
    assert len(pairs_of(client("CONFIG GET *"))) == len(client.engine.settings.values) + 3


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("maxclients 1_0", "argument couldn't be parsed into an integer"),
        ("maxclients 0", "argument must be between 1 and 9223372036854775807 inclusive"),
        ("proto-max-bulk-len 64mbb", "argument must be a memory value"),
        ("proto-max-bulk-len 1", "argument must be between 1024 and 9223372036854775807 inclusive"),
        ("appendonly no", "can't set immutable config"),
        ("databases 16", "can't set immutable config"),
        ("maxmemory 100mb", "can't set immutable config"),
        ("maxmemory-policy allkeys-lru", "can't set immutable config"),
        ("port 6379", "can't set immutable config"),
        ("bind 127.0.0.1", "can't set immutable config"),
        ("dir /tmp", "can't set immutable config"),
        ("crdt-start-patience-ms 1", "can't set immutable config"),
        ("crdt-slice-max-bytes 1mbb", "can't set immutable config"),
        ("crdt-batch-max-bytes 9mb", "argument must be between 1 and 8388608 inclusive"),
    ],
)
def test_config_set_says_what_is_wrong(client: Client, text: str, reason: str) -> None:
    assert (
        text_of(client(f"CONFIG SET {text}"))
        == f"-ERR CONFIG SET failed (possibly related to argument '{text.split()[0]}') - {reason}"
    )


def test_config_set_refuses_more_clients_than_the_system_allows(client: Client) -> None:
    client.engine.settings.ceilings["maxclients"] = 900
    assert client("CONFIG SET maxclients 900") is OK
    assert text_of(client("CONFIG SET maxclients 901")) == (
        "-ERR CONFIG SET failed (possibly related to argument 'maxclients')"
        " - The operating system does not allow a value above 900"
    )


def test_what_never_changes_may_be_set_to_what_it_is(client: Client) -> None:
    assert client("CONFIG SET appendonly yes databases 1 maxmemory 0") is OK
    assert client("CONFIG SET crdt-slice-max-bytes 1mb crdt-start-patience-ms 2000") is OK
    assert execute(client.engine, client.session, [b"CONFIG", b"SET", b"save", b""], 1000) is OK


def test_sizes_take_units(client: Client) -> None:
    assert client("CONFIG SET proto-max-bulk-len 64mb") is OK
    assert pairs_of(client("CONFIG GET proto-max-bulk-len")) == {b"proto-max-bulk-len": b"67108864"}


# -- ACL LOG


def refusals(client: Client, text: str = "ACL LOG", now_ms: int = 1000) -> list[dict[Reply, Reply]]:
    entries = client(text, now_ms)
    assert isinstance(entries, list)
    return [pairs_of(one) for one in entries]


def test_t10_wrong_passwords_are_in_acl_log(locked: Engine) -> None:
    stranger = Client(locked, "192.0.2.7:5")
    assert text_of(stranger("ACL LOG")) == "-NOAUTH Authentication required."
    for now_ms, command in enumerate(
        ["auth wrong", "AUTH other wrong", "HELLO 3 AUTH default bad", "auth bad"], 1000
    ):
        assert text_of(stranger(command, now_ms)).startswith("-WRONGPASS")
    client = Client(locked)
    client("AUTH secret", 2003)
    first, *others = refusals(client, now_ms=2003)
    assert list(first) == [
        *(b"count", b"reason", b"context", b"object", b"username", b"age-seconds"),
        *(b"client-info", b"entry-id", b"timestamp-created", b"timestamp-last-updated"),
    ]
    assert (first[b"count"], first[b"reason"], first[b"context"]) == (2, b"auth", b"toplevel")
    assert (first[b"object"], first[b"username"]) == (b"auth", b"default")
    assert (first[b"age-seconds"], first[b"entry-id"]) == (b"1", 0)
    assert (first[b"timestamp-created"], first[b"timestamp-last-updated"]) == (1000, 1003)
    line = first[b"client-info"]
    assert isinstance(line, bytes) and b" addr=192.0.2.7:5 " in line and b"cmd=auth" in line
    assert [(one[b"object"], one[b"username"], one[b"count"]) for one in others] == [
        (b"HELLO", b"default", 1),
        (b"AUTH", b"other", 1),
    ]
    assert len(refusals(client, "ACL LOG 2")) == 2
    assert refusals(client, "ACL LOG 0") == refusals(client, "ACL LOG -1") == []
    assert text_of(client("ACL LOG x")) == "-ERR value is not an integer or out of range"
    assert text_of(client("ACL LOG 1 2")).startswith("-ERR unknown subcommand or wrong number")
    assert "acl_access_denied_auth:4" in text_of(client("INFO stats"))
    assert client("ACL LOG reset") is OK
    assert refusals(client) == []
    client("CONFIG RESETSTAT")
    assert "acl_access_denied_auth:0" in text_of(client("INFO stats"))


def test_t10_acl_log_is_bounded(locked: Engine) -> None:
    client = Client(locked)
    client("AUTH secret")
    client("CONFIG SET acllog-max-len 3")
    for number in range(20):
        client(f"AUTH user{number} wrong")
    client(f"AUTH {'x' * 5000} wrong")
    names = [one[b"username"] for one in refusals(client)]
    assert names == [b"x" * 128, b"user19", b"user18"]
    client("CONFIG SET acllog-max-len 0")
    assert refusals(client) == []


def test_t10_a_minute_later_the_same_guess_is_another_entry(locked: Engine) -> None:
    client = Client(locked)
    client("AUTH wrong", 1000)
    client("AUTH wrong", 61_001)
    client("AUTH secret", 61_001)
    assert [one[b"count"] for one in refusals(client, now_ms=61_001)] == [1, 1]
