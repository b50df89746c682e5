"""Sessions on real regions, recorded from their effect logs and repeated in virtual time.

A recorded file holds what the live regions told, so it passes in virtual time only if every read,
and the state that each region holds at the end, is the same there.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from anabranch import build
from anabranch.cli.errors import CliError
from anabranch.cli.recording import _finish
from anabranch.cluster.client import RespClient
from anabranch.cluster.errors import ClusterError
from anabranch.cluster.ports import HOST
from anabranch.cluster.regions import ProcessCluster
from anabranch.region.resp.decoder import ErrorText
from anabranch.sim.scenario.admins import Endpoint
from anabranch.sim.scenario.expectation import ShownRow
from anabranch.sim.scenario.live import LiveCluster
from anabranch.sim.scenario.parser import load
from anabranch.sim.scenario.prompt import Prompt
from anabranch.sim.scenario.runner import run_scenario
from anabranch.sim.scenario.session import Refused, Session, in_order
from anabranch.sim.scenario.transcript import written_reply
from anabranch.sim.scenario.virtual import run_virtually
from anabranch.study.replies.events import KeyEvent, event_of
from tests.support.cluster import child_env
from tests.support.processes import eventually

pytestmark = pytest.mark.live
NAMES = ("us", "eu", "ap")


@pytest.fixture(scope="module")
def regions() -> Iterator[dict[int, Endpoint]]:
    """Three real regions."""
    processes = ProcessCluster(NAMES)
    processes.start_all()
    try:
        yield {
            one.region_id: Endpoint(one.name, HOST, one.resp_port)
            for one in processes.regions.values()
        }
    finally:
        processes.close()


class Recorded:
    """A session, and a client of each region at the region's own address."""

    def __init__(self, regions: dict[int, Endpoint], title: str = "A test") -> None:
        self.session = Session(LiveCluster(regions), title)
        self.prompt = Prompt(self.session)
        self.clients = {one: RespClient(end.host, end.port) for one, end in regions.items()}

    def say(self, region: int, *words: object) -> Any:
        """The reply that a client of the region gets."""
        return self.clients[region].call(
            *[word if isinstance(word, bytes) else str(word) for word in words]
        )

    def type(self, line: str) -> str:
        return self.prompt.perform(line)

    def close(self) -> None:
        for client in self.clients.values():
            client.close()
        self.session.close()

    def repeats(self, tmp_path: Path) -> str:
        """Ends the session, asserts that its file passes in virtual time, and returns the text."""
        self.session.conclude()
        text = self.session.text()
        path = tmp_path / "recorded.md"
        path.write_text(text)
        mismatches, _ = run_virtually(load(path))
        assert not mismatches, "\n".join([text, *map(str, mismatches)])
        return text


@pytest.fixture
def recorded(regions: dict[int, Endpoint]) -> Iterator[Recorded]:
    one = Recorded(regions)
    try:
        yield one
    finally:
        one.close()


# -- random sessions


class RandomSession:
    """Commands of some clients, with cuts, heals and syncs between them."""

    def __init__(self, recorded: Recorded, seed: int) -> None:
        self.recorded = recorded
        self.names = recorded.session.names
        self.draw = Random(seed)
        # Deadlines survive the flush between two sessions, so each session has keys of its own.
        self.keys = [f"s{seed}-{name}" for name in "ab"]
        self.ids: dict[str, list[str]] = {key: [] for key in self.keys}

    def act(self) -> None:
        draw = self.draw
        region = draw.choice(list(self.names))
        key = draw.choice(self.keys)
        kind = draw.random()
        if kind < 0.12:
            chosen = draw.sample(list(self.names), draw.choice([2, 3, 3]))
            self.recorded.session.together("Sync", chosen)
        elif kind < 0.17:
            self.recorded.session.together("Cut", draw.sample(list(self.names), 2))
        elif kind < 0.22:
            self.recorded.session.together("Heal")
        elif kind < 0.27:
            self.transaction(region, key)
        elif kind < 0.3:
            self.recorded.type(f"{self.names[region]}> XRANGE {key} - +")
        else:
            self.say(region, self.command(key))

    def say(self, region: int, words: list[object]) -> None:
        reply = self.recorded.say(region, *words)
        if words[0] == "XADD" and isinstance(reply, bytes):
            self.ids[str(words[1])].append(reply.decode())

    def transaction(self, region: int, key: str) -> None:
        self.say(region, ["MULTI"])
        for _ in range(self.draw.randint(0, 3)):
            self.say(region, ["XADD", key, "*", "m", self.draw.random()])
        self.say(region, ["XLEN", key])
        self.say(region, ["EXEC"])

    def command(self, key: str) -> list[object]:
        draw = self.draw
        some = draw.choice(self.ids[key] or ["5-5"])
        group, consumer = draw.choice(["g", "h"]), draw.choice(["ann", "b b"])
        read = ["XREADGROUP", "GROUP", group, consumer, "COUNT", draw.randint(1, 4)]
        if draw.random() < 0.6:
            return draw.choice(
                [
                    ["XADD", key, "*", "f", draw.choice([1, "a b", b"\xff\x00|`"])],
                    ["XADD", key, "*", "f", draw.random()],
                    [*read, "STREAMS", key, ">"],
                    [*read, "STREAMS", key, ">"],
                    ["XACK", key, group, some, draw.choice(self.ids[key] or ["6-6"])],
                ]
            )
        return draw.choice(
            [
                ["XADD", key, "MAXLEN", draw.randint(1, 6), "*", "f", 1],
                ["XADD", key, "IDMP", "p", draw.randint(1, 3), "*", "f", 1],
                ["XADD", key, "7-7", "f", 1],
                ["XDEL", key, some],
                ["XTRIM", key, "MAXLEN", draw.randint(1, 5)],
                ["XRANGE", key, "-", "+"],
                ["XRANGE", key, f"({some}", "+", "COUNT", 2],
                ["XLEN", key],
                ["XGROUP", "CREATE", key, group, draw.choice(["0", "$", some]), "MKSTREAM"],
                ["XGROUP", "SETID", key, group, some],
                ["XGROUP", "DESTROY", key, group],
                [*read, "STREAMS", key, "0"],
                ["XACK", key, group, some],
                ["XPENDING", key, group],
                ["XPENDING", key, group, "-", "+", 9],
                ["XINFO", "GROUPS", key],
                ["XINFO", "STREAM", key],
                ["XREAD", "COUNT", 3, "STREAMS", key, "0"],
                ["XCLAIM", key, group, consumer, 0, some],
                ["XAUTOCLAIM", key, group, consumer, 0, "0"],
                ["DEL", key],
                ["RENAME", key, self.keys[0]],
                ["EXISTS", *self.keys],
                ["PEXPIREAT", key, "9000000000000"],
                ["PERSIST", key],
            ]
        )

    def run(self, acts: int) -> None:
        for key in self.keys:
            for group in ("g", "h"):
                self.say(1, ["XGROUP", "CREATE", key, group, "0", "MKSTREAM"])
        self.recorded.session.together("Sync")
        for _ in range(acts):
            self.act()


def random_session(regions: dict[int, Endpoint], seed: int, tmp_path: Path) -> None:
    recorded = Recorded(regions, f"Session {seed}")
    try:
        RandomSession(recorded, seed).run(40)
        text = recorded.repeats(tmp_path)
    finally:
        recorded.close()
    assert "— Sync —" in text and "→ 17" in text


@pytest.mark.parametrize("seed", range(2))
def test_random_sessions_repeat(regions: dict[int, Endpoint], seed: int, tmp_path: Path) -> None:
    random_session(regions, seed, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(100, 120))
def test_many_random_sessions_repeat(
    regions: dict[int, Endpoint], seed: int, tmp_path: Path
) -> None:
    random_session(regions, seed, tmp_path)


# -- what a session records


def test_a_conflict_of_clients_and_typed_lines(recorded: Recorded, tmp_path: Path) -> None:
    recorded.say(1, "XADD", "orders", "*", "item", "book")
    recorded.type("sync")
    assert recorded.type("us> DEL orders") == "1"
    recorded.say(2, "XADD", "orders", "*", "item", "chair")
    for line in ("cut us eu", "sync us eu", "ap> XLEN orders", "heal us eu", "sync", "# a remark"):
        recorded.type(line)
    assert recorded.type("us> XLEN orders") == "1"
    text = recorded.repeats(tmp_path)
    assert "| — Cut — | — Cut — |  |" in text and "`DEL orders`" in text
    assert "`XADD orders * item chair` → " in text and "`XLEN orders` → 1" in text


def test_the_file_repeats_in_live_regions(regions: dict[int, Endpoint], tmp_path: Path) -> None:
    recorded = Recorded(regions)
    try:
        recorded.say(1, "XGROUP", "CREATE", "live", "g", "$", "MKSTREAM")
        recorded.type("sync")
        for region in (1, 2, 3):
            recorded.say(region, "XADD", "live", "*", "from", region)
        recorded.type("sync")
        recorded.say(2, "XREADGROUP", "GROUP", "g", "ann", "COUNT", 2, "STREAMS", "live", ">")
        recorded.type("eu> XPENDING live g - + 9")
        recorded.repeats(tmp_path)
    finally:
        recorded.close()
    cluster = LiveCluster(regions)
    try:
        assert not run_scenario(load(tmp_path / "recorded.md"), cluster)
    finally:
        cluster.release()


def test_every_kind_of_command(recorded: Recorded, tmp_path: Path) -> None:
    """Each line is what a client does, and the text with which the file repeats it."""
    ids = [recorded.say(1, "XADD", "k", "*", "n", n).decode() for n in range(6)]
    group = "XREADGROUP GROUP g ann COUNT"
    acts = [
        ("XGROUP CREATE k g 0", "`XGROUP CREATE k g 0-0 MKSTREAM`"),
        ("XGROUP CREATE k h $", "`XGROUP CREATE k h $ MKSTREAM`"),
        (f"{group} 3 STREAMS k >", f"`{group} 3 STREAMS k >` → [{ids[0]}, {ids[1]}, {ids[2]}]"),
        (f"{group} 1 NOACK STREAMS k >", f"`{group} 1 NOACK STREAMS k >` → [{ids[3]}]"),
        (f"XCLAIM k g bob 0 {ids[1]}", f"`XCLAIM k g bob 0 {ids[1]} RETRYCOUNT 2 FORCE`"),
        (
            f"XCLAIM k h eve 0 {ids[0]} LASTID {ids[2]}",
            f"`XCLAIM k h nobody 0 0-0 LASTID {ids[2]}`",
        ),
        (f"XACK k g {ids[0]}", f"`XACK k g {ids[0]}`"),
        ("XGROUP DELCONSUMER k g bob", "`XGROUP DELCONSUMER k g bob`"),
        (f"XGROUP SETID k g {ids[3]}", f"`XGROUP SETID k g {ids[3]}`"),
        ("XGROUP SETID k g $", "`XGROUP SETID k g $`"),
        ("XGROUP DESTROY k h", "`XGROUP DESTROY k h`"),
        (f"XDEL k {ids[5]} {ids[4]}", f"`XDEL k {ids[5]} {ids[4]}`"),
        (f"XTRIM k MINID {ids[2]}", "`XTRIM k MAXLEN 2`"),
        ("XSETID k 9000000000000-0", "`XSETID k 9000000000000-0`"),
        (
            "XCFGSET k IDMP-DURATION 50 IDMP-MAXSIZE 60",
            "`XCFGSET k IDMP-DURATION 50 IDMP-MAXSIZE 60`",
        ),
        ("XADD j IDMP p 1 * a b", "`XADD j IDMP p 1 * a b` → "),
        ("XADD j IDMP p 1 * a b", ""),
        ("PEXPIRE j 900000", "`PEXPIRE j "),
        ("PERSIST j", "`PERSIST j`"),
        ("RENAME k j", "`RENAME k j`"),
        ("DEL j", "`DEL j`"),
        ("FLUSHALL", "`FLUSHALL`"),
    ]
    for line, _ in acts:
        reply = recorded.say(1, *line.split())
        assert not isinstance(reply, ErrorText), (line, reply)
    text = recorded.repeats(tmp_path)
    for line, written in acts:
        assert written in text, (line, written, text)
    assert text.count("IDMP p 1") == 1


def test_two_keys_get_one_id_in_a_transaction(recorded: Recorded, tmp_path: Path) -> None:
    """A table has one meaning for an ID, so the second key shows another one."""
    recorded.say(1, "MULTI")
    for key in ("twice-a", "twice-b"):
        recorded.say(1, "XADD", key, "*", "n", 1)
    first, second = recorded.say(1, "EXEC")
    assert first == second
    recorded.say(1, "XDEL", "twice-b", second)
    recorded.say(1, "RENAME", "twice-a", "twice-c")
    recorded.type("us> XRANGE twice-c - +")
    recorded.repeats(tmp_path)


def test_a_deadline_passes_as_it_did(recorded: Recorded, tmp_path: Path) -> None:
    recorded.say(1, "XADD", "short", "*", "a", 1)
    recorded.say(1, "PEXPIRE", "short", 200)
    eventually(lambda: recorded.say(1, "EXISTS", "short") == 0, 20, "the deadline passing")
    assert recorded.type("us> EXISTS short") == "0"
    text = recorded.repeats(tmp_path)
    assert "`EXISTS short` → 0" in text and "wait " in text


def test_a_read_of_a_client_that_waits(recorded: Recorded, tmp_path: Path) -> None:
    """The log tells what it delivered, and when; it stands behind the Sync row that ended it."""
    recorded.say(1, "XGROUP", "CREATE", "w", "g", "0", "MKSTREAM")
    recorded.type("sync")
    reader = recorded.clients[2]
    reader.send("XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "w", ">")
    entry_id = recorded.say(1, "XADD", "w", "*", "a", 1).decode()
    recorded.type("sync")
    assert reader.read()
    text = recorded.repeats(tmp_path)
    assert f"`XREADGROUP GROUP g c COUNT 1 STREAMS w >` → [{entry_id}]" in text


def test_a_sync_while_a_read_waits_is_made_in_pairs(recorded: Recorded, tmp_path: Path) -> None:
    """The read got the entries of us or of eu, and the file could not say whose came first."""
    recorded.say(1, "XGROUP", "CREATE", "both", "g", "0", "MKSTREAM")
    recorded.type("sync")
    recorded.say(1, "XADD", "both", "*", "a", 1)
    recorded.say(2, "XADD", "both", "*", "a", 2)
    reader = recorded.clients[3]
    number = reader.call("CLIENT", "ID")
    reader.send("XREADGROUP", "GROUP", "g", "c", "BLOCK", 0, "STREAMS", "both", ">")
    with RespClient(HOST, int(reader.address.rpartition(":")[2])) as other:
        eventually(
            lambda: b"flags=b" in other.ask("CLIENT", "LIST", "ID", str(number)), 20, "the wait"
        )
    recorded.type("sync")
    assert reader.read()
    lines = recorded.repeats(tmp_path).splitlines()
    assert len([line for line in lines if line.count("— Sync —") == 2]) == 3


def event(position: int, kind: str, **facts: object) -> tuple[str, KeyEvent]:
    common = {"position": position, "clock-ms": 100, "source": 0, "command": "", "kind": kind}
    return "k", event_of({**common, **{one.replace("_", "-"): fact for one, fact in facts.items()}})


def test_records_stand_before_the_effects_that_came_after_them() -> None:
    """The records of a commit follow its effects in the log."""
    add = event(1, "add", dot=[1, 1], id="50-1")
    later = event(1, "add", dot=[1, 2], id="70-1")
    removal = event(1, "remove-entries", dot=[1, 3], dots=[[1, 1]])
    made = event(2, "consumer-made", group="g", at_ms=60, consumer="c")
    given = event(2, "delivered", group="g", at_ms=80, entries=[[1, 1, "50-1"]])
    assert in_order([add, later, removal, made, given]) == [add, made, later, given, removal]


def record(
    regions: dict[int, Endpoint], path: Path, typed: str, *options: str
) -> subprocess.CompletedProcess[str]:
    """Runs `anabranch scenario record` with typed lines."""
    places = [word for one in regions.values() for word in ("--at", f"{one.host}:{one.port}")]
    return subprocess.run(
        [*build.command(), "scenario", "record", str(path), *places, *options],
        input=typed,
        capture_output=True,
        text=True,
        env=child_env(),
        timeout=100,
        check=False,
    )


def test_the_command_writes_a_file_that_passes(
    regions: dict[int, Endpoint], tmp_path: Path
) -> None:
    cluster = LiveCluster(regions)
    cluster.clear()
    cluster.disconnect()
    path = tmp_path / "typed.md"
    typed = "us> XADD typed * a 1\nsync\neu> XLEN typed\nus> WAIT 1 0\nus> FLUSHALL\nsync\nquit\n"
    result = record(regions, path, typed, "--title", "Typed")
    assert result.returncode == 0, result
    assert f"{path} passes in virtual time" in result.stdout
    assert "not recorded: WAIT would wait" in result.stderr
    text = path.read_text()
    assert "# Typed" in text and "`XLEN typed` → 1" in text and "WAIT" not in text
    again = record(regions, path, "quit\n")
    assert again.returncode == 2 and "exists; --force writes over it" in again.stderr


def are_up(regions: dict[int, Endpoint]) -> bool:
    cluster = LiveCluster(regions)
    try:
        states = cluster.links(list(regions))
    finally:
        cluster.disconnect()
    return all(state != "down" for links in states.values() for state in links.values())


def test_a_file_that_cannot_be_written_is_refused_before_the_session(
    regions: dict[int, Endpoint], tmp_path: Path
) -> None:
    """The session was lost, and all links stayed cut."""
    result = record(regions, tmp_path, "us> XADD k * a 1\nquit\n", "--force")
    assert result.returncode == 2 and f"cannot write {tmp_path}: Is a directory" in result.stderr
    assert are_up(regions)


def test_a_recording_is_not_lost_with_its_file(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The disk may fill up while the session goes on."""
    recorded.type("us> XADD k * a 1")
    with pytest.raises(CliError, match="cannot write .*; the recording is above"):
        _finish(recorded.session, tmp_path, [])
    assert "`XADD k" in capsys.readouterr().out


def test_links_of_the_other_regions_are_opened_if_one_is_gone(tmp_path: Path) -> None:
    """The first region that did not answer ended it, and the others stayed cut from each other."""
    with ProcessCluster(NAMES) as processes:
        processes.start_all()
        regions = {
            one.region_id: Endpoint(one.name, HOST, one.resp_port)
            for one in processes.regions.values()
        }
        session = Session(LiveCluster(regions), "A test")
        processes.stop("us")
        with pytest.raises(ClusterError, match="^us: "):
            session.close()
        assert are_up({one: end for one, end in regions.items() if end.name != "us"})


def test_the_command_wants_an_empty_cluster(regions: dict[int, Endpoint], tmp_path: Path) -> None:
    cluster = LiveCluster(regions)
    cluster.clear()
    cluster.ask(1, "XADD", "full", "*", "a", "1")
    cluster.disconnect()
    result = record(regions, tmp_path / "none.md", "quit\n")
    assert result.returncode == 1 and "holds 1 keys" in result.stderr, result
    assert not (tmp_path / "none.md").exists()


def test_settings_and_id_modes_are_in_the_header(
    regions: dict[int, Endpoint], tmp_path: Path
) -> None:
    cluster = LiveCluster(regions)
    mode = "crdt-xadd-id-uniqueness-mode"
    for region in regions:
        cluster.ask(region, "CONFIG", "SET", "stream-node-max-entries", "7")
    cluster.ask(2, "CONFIG", "SET", mode, "semi-strict")
    try:
        recorded = Recorded(regions, "Settings")
        recorded.say(2, "XADD", "modes", "5-1", "a", 1)
        assert isinstance(recorded.say(1, "XADD", "modes", "6-1", "a", 1), ErrorText)
        text = recorded.repeats(tmp_path)
        recorded.close()
    finally:
        again = LiveCluster(regions)
        for region in regions:
            again.ask(region, "CONFIG", "SET", "stream-node-max-entries", "100")
            again.ask(region, "CONFIG", "SET", mode, "strict")
        again.disconnect()
        cluster.disconnect()
    assert "set stream-node-max-entries: 7" in text and "`XADD modes 5-1 a 1`" in text
    assert f"set eu {mode}: semi-strict" in text


def test_lines_that_are_refused(recorded: Recorded, tmp_path: Path) -> None:
    for line, part in (
        ("mars> XLEN k", "no region 'mars' here; there are us, eu, ap"),
        ("sync us", "sync needs two regions"),
        ("what", "a line is `us> COMMAND`"),
        ("wait 300 ms", "a line is `us> COMMAND`"),
        ("us> XADD 'k", "a quote is not closed"),
        ("us> XREAD BLOCK 0 STREAMS k $", "a typed command must not: leave BLOCK out"),
        ("us> xreadgroup GROUP g c BLOCK 5 STREAMS k >", "a typed command must not"),
        ("us> WAIT 1 100", "WAIT would wait"),
        ("us> CRDT.LINK eu DOWN", "no command about keys"),
        ("us> SHUTDOWN", "no command about keys"),
        ("us> MULTI", "no command about keys"),
        ("us> \\xe4 1", "no command"),
    ):
        with pytest.raises(Refused, match=part):
            recorded.type(line)
    assert "t1" not in recorded.session.text()


# -- replies as a table writes them


@pytest.mark.parametrize(
    ("words", "shape", "written"),
    [
        ((b"XLEN", b"k"), 3, "3"),
        ((b"XADD", b"k"), "5-1", "5-1"),
        ((b"XRANGE", b"k"), [ShownRow("5-1", (("a", "b"),))], "[5-1]"),
        ((b"XRANGE", b"k"), [], "[]"),
        ((b"XREAD",), None, "nil"),
        ((b"XLEN",), ErrorText("WRONGTYPE no | stream"), "(error) WRONGTYPE"),
        ((b"TTL", b"k"), 17, "…"),
        ((b"XINFO", b"GROUPS"), [ShownRow("a|b", (("pending", "1"),))], "…"),
        (
            (b"XINFO", b"GROUPS"),
            [ShownRow("g", (("pending", "1"), ("lag", "2")))],
            "[g pending=1 lag=2]",
        ),
        ((b"XPENDING", b"k", b"g"), [1, "5-1", [["ann", "1"]]], "[1, 5-1, [[ann, 1]]]"),
    ],
)
def test_written_replies(words: tuple[bytes, ...], shape: object, written: str) -> None:
    assert written_reply(words, shape) == written  # type: ignore[arg-type]
