"""Replies look as redis-cli prints them."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from anabranch.console.replies import MAKERS, Reply, lines
from anabranch.console.sessions import LINES_MAX, hidden, printed
from anabranch.console.words import split
from anabranch.region.resp.decoder import ReplyDecoder
from tests.console.support import opened
from tests.support.cluster import LiveCluster
from tests.support.processes import eventually


def decoded(data: bytes) -> Reply:
    decoder = ReplyDecoder(MAKERS)
    decoder.feed(data)
    reply: Reply = decoder.next()
    assert decoder.held_bytes == 0
    return reply


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"+OK\r\n", "OK"),
        (b"-ERR no\x1b[31m\r\n", "(error) ERR no\\x1b[31m"),
        (b":42\r\n", "(integer) 42"),
        (b'$3\r\n\xff"\n\r\n', '"\\xff\\"\\n"'),
        (b"_\r\n", "(nil)"),
        (b"$-1\r\n", "(nil)"),
        (b"*-1\r\n", "(nil)"),
        (b"#t\r\n", "(true)"),
        (b"*0\r\n", "(empty array)"),
        (b"%0\r\n", "(empty hash)"),
        (b"~0\r\n", "(empty set)"),
        (b",1.5\r\n", "(double) 1.5"),
        (b"*2\r\n:1\r\n*1\r\n:2\r\n", "1) (integer) 1\n2) 1) (integer) 2"),
        (
            b"%1\r\n$1\r\na\r\n*2\r\n:1\r\n:2\r\n",
            '1# "a" => \n   1) (integer) 1\n   2) (integer) 2',
        ),
        (b"~1\r\n+x\r\n", "1~ x"),
        (b"=8\r\ntxt:a\nb\x07\r\n", "a\nb\\x07"),
    ],
)
def test_replies(data: bytes, text: str) -> None:
    assert "\n".join(lines(decoded(data))) == text


def test_a_long_reply_is_cut() -> None:
    made = printed([*range(LINES_MAX + 5)])
    assert len(made) == LINES_MAX + 1 and made[-1] == "… 5 lines left out"


@pytest.mark.parametrize(
    "data",
    [
        b"%1\r\n$11\r\nrequirepass\r\n$6\r\nsecret\r\n",
        b"*2\r\n$11\r\nRequirePass\r\n$6\r\nsecret\r\n",
        b"*1\r\n*2\r\n$11\r\nrequirepass\r\n$6\r\nsecret\r\n",
    ],
)
@pytest.mark.parametrize("command", [b"CONFIG", b"config", b"EXEC"])
def test_passwords_are_not_shown(command: bytes, data: bytes) -> None:
    shown = "\n".join(lines(hidden([command], decoded(data))))
    assert "secret" not in shown and "does not show passwords" in shown


def test_an_entry_with_that_field_is_shown() -> None:
    data = b"*2\r\n$11\r\nrequirepass\r\n$6\r\nsecret\r\n"
    assert "secret" in "\n".join(lines(hidden([b"XRANGE"], decoded(data))))


COMMANDS = [
    "XRANGE s - +",
    "XINFO STREAM s FULL",
    "XINFO GROUPS s",
    "XREAD STREAMS s 0",
    "XPENDING s g",
    "XPENDING s g - + 10 nobody",
    "TYPE s",
    "TYPE none",
    "XLEN s",
    "XLEN",
    "NOSUCH a b",
    "COMMAND INFO xlen nosuch",
    "COMMAND DOCS xinfo",
    "CRDT.GROUPS s",
    "CRDT.PEERS",
    "CRDT.VECTOR",
    'XRANGE "\\xff\\x00" - +',
    "PING",
    "ECHO grün",
]


@pytest.mark.live
def test_as_redis_cli_prints_them(cluster: LiveCluster) -> None:
    if shutil.which("redis-cli") is None:
        pytest.fail("redis-cli is not installed: install the package redis-tools")
    with cluster.client("us") as client:
        client.flushall()
        client.xadd("s", {"a": "1", "b": 'two "ü"\x00'})
        client.xadd(b"\xff\x00", {b"\xfe": b"\n"})
        client.xgroup_create("s", "g", id="0")
        client.xreadgroup("g", "c", {"s": ">"})
    port = str(cluster["us"].resp_port)
    addresses = {"us": cluster["us"].address}
    cluster.sync()
    # The tombstone of FLUSHALL is collected some time after the sync, and is in CRDT.GROUPS till
    # then.
    with cluster.client("us") as client:
        eventually(
            lambda: "FLUSHALL" not in str(client.execute_command("CRDT.GROUPS", "s")),
            20,
            "the tombstone being collected",
        )
    with opened(addresses) as page:
        for command in COMMANDS:
            # redis-cli gets the same words, so that its own quoting plays no part.
            arguments = [b"redis-cli", b"-3", b"--no-raw", b"-p", port.encode()]
            words = split(command)
            if any(b"\0" in word for word in words):
                continue
            printed_there = subprocess.run(
                [*arguments, *words], capture_output=True, check=True, timeout=30
            ).stdout.decode("utf-8", "surrogateescape")
            assert page.run("us", command) == printed_there.removesuffix("\n").rstrip("\n").split(
                "\n"
            ), command
