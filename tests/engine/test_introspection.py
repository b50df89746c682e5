"""COMMAND, INFO and the metrics, TIME, DEBUG SLEEP, SHUTDOWN."""

from __future__ import annotations

import hashlib

import pytest

from anabranch.region.engine.commands.info import human, info_text
from anabranch.region.engine.dispatch import find_command
from anabranch.region.engine.explain import explain
from anabranch.region.engine.figures.table import figures
from anabranch.region.engine.replies import ErrorReply, MapReply, NoReply, Reply, VerbatimText
from anabranch.region.engine.settings import Settings
from anabranch.region.live.http import _Figures
from tests.engine.test_connection import Client, pairs_of, text_of
from tests.support.engines import execute, single


@pytest.fixture
def client() -> Client:
    return Client(single())


def fields_of(client: Client, *sections: str) -> dict[str, str]:
    """INFO as a dict."""
    reply = client("INFO " + " ".join(sections))
    assert isinstance(reply, VerbatimText)
    lines = [
        line for line in reply.text.decode().split("\r\n") if line and not line.startswith("#")
    ]
    return dict(line.split(":", 1) for line in lines)


# -- INFO


def test_the_offset_of_replication_counts_own_effects(client: Client) -> None:
    assert fields_of(client, "replication")["master_repl_offset"] == "0"
    client("XADD s * f v")
    assert fields_of(client, "replication")["master_repl_offset"] == "1"


def test_role_and_lastsave_agree_with_info(client: Client) -> None:
    assert client("ROLE") == [b"master", 0, []]
    client("XADD s * f v")
    assert client("ROLE") == [b"master", 1, []]
    assert fields_of(client, "replication")["master_repl_offset"] == "1"
    assert fields_of(client, "persistence")["rdb_last_save_time"] == str(client("LASTSAVE"))
    client("PING", 9_000_000)
    client.engine.disk.checkpointed(1)
    assert client("LASTSAVE", 9_000_000) == 9_000
    assert fields_of(client, "persistence")["rdb_last_save_time"] == "9000"


def test_sections(client: Client) -> None:
    def titles(*sections: str) -> list[str]:
        return [
            line[2:]
            for line in info_text(client.engine.state, list(sections)).decode().split("\r\n")
            if line.startswith("# ")
        ]

    default = [
        "Server",
        "Clients",
        "Memory",
        "Persistence",
        "Stats",
        "Replication",
        "CPU",
        "Errorstats",
        "Cluster",
        "Keyspace",
        "CRDT",
    ]
    assert titles() == titles("default") == default
    assert titles("everything") == titles("all") == [*default[:7], "Commandstats", *default[7:]]
    assert titles("crdt", "nosuch", "server") == ["Server", "CRDT"]
    assert info_text(client.engine.state, ["nosuch"]) == b""


def test_what_tools_ask_for(client: Client) -> None:
    """redis-cli, exporters and dashboards read these."""
    fields = fields_of(client)
    expected = {
        "redis_version": "7.4.0",
        "redis_mode": "standalone",
        "arch_bits": "64",
        "loading": "0",
        "role": "master",
        "connected_slaves": "0",
        "aof_enabled": "1",
        "maxmemory": "0",
        "maxmemory_policy": "noeviction",
        "connected_clients": "1",
        "blocked_clients": "0",
        "cluster_enabled": "0",
        "rdb_bgsave_in_progress": "0",
        "evicted_keys": "0",
        "rdb_changes_since_last_save": "0",
    }
    assert {name: fields[name] for name in expected} == expected
    assert {
        "uptime_in_seconds",
        "used_memory",
        "used_memory_rss",
        "used_cpu_user",
        "total_commands_processed",
    } <= fields.keys()


def test_counters(client: Client) -> None:
    client("XADD s * a 1")
    client("XADD s bad a 1")
    client("XADD s")
    client("NOSUCH")
    client("PEXPIRE s 100000")
    execute(client.engine, client.session, b"XREADGROUP GROUP g c STREAMS s >".split(), 1000)
    fields = fields_of(client, "everything")
    assert (
        fields["cmdstat_xadd"]
        == "calls=2,usec=0,usec_per_call=0.00,rejected_calls=1,failed_calls=1"
    )
    assert (
        fields["errorstat_ERR"],
        fields["errorstat_NOGROUP"],
        fields["total_error_replies"],
    ) == ("count=3", "count=1", "4")
    assert fields["db0"] == "keys=1,expires=1,avg_ttl=0"
    assert (fields["crdt_entries"], fields["crdt_effects_issued"], fields["crdt_vector"]) == (
        "1",
        "2",
        "1=2",
    )
    assert fields["rdb_changes_since_last_save"] != "0"
    assert client("CONFIG RESETSTAT") is not None
    fields = fields_of(client, "stats")
    assert (fields["total_error_replies"], fields["total_commands_processed"]) == ("0", "1")


def test_hidden_keys_are_no_keys(client: Client) -> None:
    client("XADD s * a 1")
    client("PEXPIRE s 10")
    assert fields_of(client)["db0"] == "keys=1,expires=1,avg_ttl=0"
    client("PING", 2000)
    fields = fields_of(client)
    assert "db0" not in fields and fields["crdt_absent_keys"] == "1"


def test_blocked_clients(client: Client) -> None:
    other = Client(client.engine)
    other("XREAD BLOCK 0 STREAMS s $")
    assert fields_of(client)["blocked_clients"] == "1"
    client("XADD s * a 1")
    assert fields_of(client)["blocked_clients"] == "0"


def test_facts_of_the_process(client: Client) -> None:
    client.engine.set_process_facts(
        {
            "anabranch_version": "1.2.3",
            "anabranch_build": "compiled",
            "tcp_port": "7001",
            "used_memory_rss": "1572864",
            "used_cpu_sys": "1.5",
            "crdt_log_bytes": "4321",
            "crdt_sync_bytes_sent": "42",
            "odd": "1",
        }
    )
    fields = fields_of(client)
    assert (fields["anabranch_version"], fields["anabranch_build"], fields["tcp_port"]) == (
        "1.2.3",
        "compiled",
        "7001",
    )
    assert (fields["used_memory_rss"], fields["used_memory_rss_human"], fields["used_cpu_sys"]) == (
        "1572864",
        "1.50M",
        "1.5",
    )
    assert fields["crdt_sync_bytes_sent"] == "42" and "odd" not in fields
    assert (fields["crdt_log_bytes"], fields["aof_current_size"]) == ("4321", "4321")


def test_every_limit_has_its_figure(client: Client) -> None:
    """S14: what is bounded is shown beside its bound."""
    fields = fields_of(client)
    for used, bound in [
        ("connected_clients", "maxclients"),
        ("client_recent_max_input_buffer", "client_query_buffer_limit"),
        ("client_recent_max_output_buffer", "client_output_limit"),
        ("crdt_log_bytes", "crdt_log_bytes_max"),
        ("crdt_unit_bytes_queued", "crdt_unit_bytes_max"),
        ("crdt_uncommitted_bytes", "crdt_uncommitted_bytes_max"),
    ]:
        assert fields[used].isdigit() and fields[bound].isdigit()


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0B"),
        (1023, "1023B"),
        (1024, "1.00K"),
        (1165248, "1.11M"),
        (5 << 40, "5.00T"),
        (5 << 50, "5120.00T"),
    ],
)
def test_human(size: int, text: str) -> None:
    assert human(size) == text


# -- metrics


def test_figures_are_what_prometheus_takes(client: Client) -> None:
    client("XADD s * a 1")
    client("NOSUCH")
    made = figures(client.engine.state)
    assert len({name for name, _, _, _ in made}) == len(made)
    for name, text, kind, _ in made:
        assert (
            name.startswith("anabranch_")
            and text.endswith(".")
            and (kind == "counter") == name.endswith("_total")
        ), name
    exposed = {
        sample.name: sample
        for metric in _Figures(lambda: made).collect()
        for sample in metric.samples
    }
    assert exposed["anabranch_crdt_divergence"].value == 0
    assert exposed["anabranch_entries"].value == 1
    assert (exposed["anabranch_errors_total"].labels, exposed["anabranch_errors_total"].value) == (
        {"code": "ERR"},
        1,
    )


# -- COMMAND


def test_every_command_is_described(client: Client) -> None:
    described = client("COMMAND")
    assert isinstance(described, list) and len(described) == client("COMMAND COUNT")
    for one in described:
        assert isinstance(one, list) and len(one) == 10
    names = client("COMMAND LIST")
    assert isinstance(names, list) and b"xadd" in names and b"crdt.vector" in names
    assert pairs_of(client("COMMAND DOCS")).keys() == set(names)


def test_docs(client: Client) -> None:
    documents = pairs_of(client("COMMAND DOCS xgroup xlen nosuch client|kill"))
    assert list(documents) == [b"xgroup", b"xlen", b"client|kill"]
    group = pairs_of(documents[b"xgroup"])
    assert b"xgroup|create" in pairs_of(group[b"subcommands"])
    xlen = pairs_of(documents[b"xlen"])
    assert (xlen[b"group"], xlen[b"since"], xlen[b"syntax"]) == (b"stream", b"5.0.0", b"key")


def test_keys_of_commands(client: Client) -> None:
    assert client("COMMAND GETKEYS XREADGROUP GROUP g c COUNT 1 STREAMS s t > >") == [b"s", b"t"]
    assert client("COMMAND GETKEYS CRDT.EXPLAIN s 1-1") == [b"s"]
    assert text_of(client("COMMAND GETKEYS CRDT.VECTOR")) == "-ERR The command has no key arguments"


# -- ACL


def test_acl_list_tells_whether_a_password_is_needed(client: Client) -> None:
    assert client("ACL LIST") == [b"user default on nopass ~* &* +@all"]
    client("CONFIG SET requirepass abc")
    digest = hashlib.sha256(b"abc").hexdigest().encode()
    assert client("ACL LIST") == [b"user default on #" + digest + b" ~* &* +@all"]
    stranger = Client(client.engine)
    for text in ("ACL LIST", "ACL WHOAMI"):
        assert text_of(stranger(text)) == "-NOAUTH Authentication required."


def test_categories_are_those_of_command(client: Client) -> None:
    names = client("ACL CAT")
    assert isinstance(names, list) and b"stream" in names
    for name in names:
        assert isinstance(name, bytes)
        listed_ = client(f"COMMAND LIST FILTERBY ACLCAT {name.decode()}")
        assert client(f"ACL CAT {name.decode().upper()}") == listed_ != []


# -- TIME, DEBUG, SHUTDOWN


def test_time_is_the_regions_clock(client: Client) -> None:
    assert client("TIME", 1795248721498) == [b"1795248721", b"498000"]
    assert client("TIME", 5) == [b"1795248721", b"498000"]


@pytest.fixture
def debugging() -> Client:
    return Client(single(settings=Settings({"enable-debug-command": "local"})))


@pytest.mark.parametrize(
    ("text", "sleep_ms"), [("0", 0), ("2", 2000), ("0.05", 50), (".5", 500), ("60", 60000)]
)
def test_debug_sleep(debugging: Client, text: str, sleep_ms: int) -> None:
    assert text_of(debugging(f"DEBUG SLEEP {text}")) == "OK"
    assert debugging.engine.take_sleep_ms() == sleep_ms


@pytest.mark.parametrize(
    "text",
    [
        "DEBUG SLEEP 61",
        "DEBUG SLEEP x",
        "DEBUG SLEEP -1",
        "DEBUG SLEEP .",
        "DEBUG SLEEP",
        "DEBUG RELOAD",
    ],
)
def test_debug_mistakes(debugging: Client, text: str) -> None:
    reply = debugging(text)
    assert isinstance(reply, ErrorReply) and "not allowed" not in reply.message
    assert debugging.engine.take_sleep_ms() == 0


@pytest.mark.parametrize(
    ("setting", "address", "may"),
    [
        ("no", "127.0.0.1:50000", False),
        ("local", "127.0.0.1:50000", True),
        ("local", "127.7.7.7:1", True),
        ("local", "[::1]:50000", True),
        ("local", "10.1.2.3:50000", False),
        ("local", "[fe80::1]:50000", False),
        ("local", "", False),
        ("yes", "10.1.2.3:50000", True),
    ],
)
def test_who_may_use_debug(setting: str, address: str, may: bool) -> None:
    """Anybody could stop a region for a minute before this setting, which Redis has, came."""
    client = Client(single(settings=Settings({"enable-debug-command": setting})), address)
    for text in ("DEBUG SLEEP 1", "DEBUG HELP"):
        assert text_of(client(text)).startswith("-ERR DEBUG command not allowed.") is not may
    assert client.engine.take_sleep_ms() == (1000 if may else 0)


def test_debug_is_for_nobody_unless_somebody_says_so(client: Client) -> None:
    assert text_of(client("DEBUG SLEEP 0")).startswith("-ERR DEBUG command not allowed.")


@pytest.mark.parametrize("text", ["SHUTDOWN", "SHUTDOWN SAVE FORCE", "SHUTDOWN nosave NOW"])
def test_shutdown(client: Client, text: str) -> None:
    assert not client.engine.shutdown_requested()
    assert isinstance(client(text), NoReply)
    assert (client.engine.shutdown_requested(), client.session.closing) == (True, True)


def test_shutdown_while_writes_cannot_reach_the_disk(client: Client) -> None:
    """As in Redis: without NOSAVE or FORCE it is refused, because the writes would be lost."""
    client.engine.state.disk.error = "the disk is full"
    for text in ("SHUTDOWN", "SHUTDOWN SAVE NOW"):
        assert text_of(client(text)).startswith("-ERR Errors trying to SHUTDOWN: writes are not on")
        assert not client.engine.shutdown_requested()
    assert isinstance(client("SHUTDOWN NOSAVE"), NoReply)
    assert client.engine.shutdown_requested() and client.engine.may_lose()


def test_replies_have_the_types_of_the_table(client: Client) -> None:
    """What the table says of a reply is what comes."""
    kinds: dict[str, type[object]] = {
        "integer": int,
        "map": MapReply,
        "text": VerbatimText,
        "array": list,
    }
    for text in [
        "CLIENT ID",
        "CLIENT INFO",
        "CLIENT LIST",
        "COMMAND COUNT",
        "COMMAND DOCS",
        "CONFIG GET x",
        "HELLO",
        "INFO",
        "TIME",
        "DBSIZE",
    ]:
        command = find_command(client.engine.state, text.encode().split())
        assert command is not None
        reply: Reply = client(text)
        assert isinstance(reply, kinds[command.docs.reply]), text


# -- CRDT.EXPLAIN


def test_explain_shows_the_windows_of_idempotency(client: Client) -> None:
    """With these, it shows all of the state beside entries that the digest covers (S13.9)."""
    client("XADD s * a 1")
    client("XCFGSET s IDMP-DURATION 90 IDMP-MAXSIZE 7")
    facts = MapReply(explain(client.engine.state, b"s", -1))
    assert pairs_of(facts)[b"configurations"] == [[[1, 2], 90, 7]]
