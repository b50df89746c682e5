"""Sessions on real regions, recorded and repeated in virtual time.

A recorded file holds the replies of the live regions, so it passes in virtual time only if every
command, and every state that is read at the end, is the same there.
"""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
import redis

from anabranch import build
from anabranch.cli.errors import CliError
from anabranch.cli.recording import _finish
from anabranch.cluster.errors import ClusterError
from anabranch.cluster.regions import ProcessCluster
from anabranch.region.resp.decoder import DecodedReply, ErrorText
from anabranch.sim.scenario import live
from anabranch.sim.scenario.cluster import Ticket
from anabranch.sim.scenario.expectation import ShownRow
from anabranch.sim.scenario.live import Endpoint, LiveCluster
from anabranch.sim.scenario.parser import load
from anabranch.sim.scenario.prompt import Prompt
from anabranch.sim.scenario.proxies import HOST, Proxies
from anabranch.sim.scenario.refusals import COMMAND_BYTES_MAX, Refused
from anabranch.sim.scenario.session import Blocked, Session
from anabranch.sim.scenario.transcript import written_reply
from anabranch.sim.scenario.virtual import run_virtually
from tests.support.cluster import child_env

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


@pytest.fixture
def session(regions: dict[int, Endpoint]) -> Iterator[Session]:
    one = Session(LiveCluster(regions), "A test")
    try:
        yield one
    finally:
        one.close()


def repeats(session: Session, tmp_path: Path) -> str:
    """Writes the file, and asserts that it passes in virtual time; returns its text."""
    path = tmp_path / "recorded.md"
    path.write_text(session.text())
    mismatches, _ = run_virtually(load(path))
    assert not mismatches, "\n".join([session.text(), *map(str, mismatches)])
    return session.text()


def say(session: Session, region: int, *words: object, client: int = 0) -> object:
    argv = tuple(word if isinstance(word, bytes) else str(word).encode() for word in words)
    return session.command(region, client, argv)


# -- random sessions


class RandomSession:
    """Commands of some clients, with cuts, heals and syncs between them."""

    def __init__(self, session: Session, seed: int) -> None:
        self.session = session
        self.draw = Random(seed)
        # Deadlines survive the flush between two sessions, so each session has keys of its own.
        self.keys = [f"s{seed}-{name}" for name in "ab"]
        self.ids: dict[str, list[str]] = {key: [] for key in self.keys}

    def act(self) -> None:
        draw = self.draw
        region = draw.choice(list(self.session.names))
        key = draw.choice(self.keys)
        kind = draw.random()
        if kind < 0.12:
            self.session.sync(draw.sample(list(self.session.names), draw.choice([2, 3, 3])))
        elif kind < 0.17:
            self.session.cut(draw.sample(list(self.session.names), 2))
        elif kind < 0.22:
            self.session.heal()
        elif kind < 0.27:
            self.transaction(region, key)
        elif kind < 0.3:
            self.wait(region, key)
        else:
            self.say(region, self.command(key), draw.choice([0, 0, 1, 2]))

    def say(self, region: int, words: list[object], client: int = 0) -> None:
        reply = say(self.session, region, *words, client=client * 10 + region if client else 0)
        if words[0] == "XADD" and isinstance(reply, bytes):
            self.ids[str(words[1])].append(reply.decode())

    def wait(self, region: int, key: str) -> None:
        """A client that has nothing else to do reads, and waits if there is nothing."""
        read = ["XREADGROUP", "GROUP", "g", "waiter", "BLOCK", 50_000, "STREAMS", key, ">"]
        # Refused while the client waits for an answer.
        with suppress(Refused):
            say(self.session, region, *read, client=30 + region)

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
        self.session.sync()
        for _ in range(acts):
            self.act()
        self.read_all()
        self.session.heal()
        self.session.sync()
        self.read_all()

    def read_all(self) -> None:
        """Reads all that a region shows of each key."""
        for region in self.session.names:
            for key in self.keys:
                self.say(region, ["XRANGE", key, "-", "+"])
                self.say(region, ["XINFO", "GROUPS", key])
                for group in ("g", "h"):
                    self.say(region, ["XPENDING", key, group, "-", "+", 100])


def random_session(regions: dict[int, Endpoint], seed: int, tmp_path: Path) -> None:
    session = Session(LiveCluster(regions), f"Session {seed}")
    try:
        RandomSession(session, seed).run(80)
        text = repeats(session, tmp_path)
    finally:
        session.close()
    assert "— Sync —" in text and "→ [17" in text


@pytest.mark.parametrize("seed", range(3))
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


def test_a_conflict_as_it_was_typed(session: Session, tmp_path: Path) -> None:
    prompt = Prompt(session)
    for line in (
        "us> XADD orders * item book",
        "sync",
        "us> DEL orders",
        "eu> XADD orders * item chair",
        "cut us eu",
        "sync us eu",
        "ap> XLEN orders",
        "heal us eu",
        "sync",
        "us> XLEN orders",
        "# a remark",
    ):
        prompt.perform(line)
    text = repeats(session, tmp_path)
    assert "| — Cut — | — Cut — |  |" in text and "`DEL orders` → 1" in text
    assert "`XADD orders * item chair` → " in text


def test_a_read_that_waits(session: Session, tmp_path: Path) -> None:
    say(session, 1, "XADD", "w", "*", "a", 1)
    session.sync()
    assert isinstance(
        say(session, 2, "XREAD", "BLOCK", 60_000, "STREAMS", "w", "$", client=5), Blocked
    )
    with pytest.raises(Refused, match="this client waits"):
        say(session, 2, "XLEN", "w", client=5)
    say(session, 2, "XADD", "w", "*", "a", 2)
    while not session.answers():
        session.poll()
    assert session.answers() == [(2, 5)]
    text = repeats(session, tmp_path)
    assert "5: `XREAD BLOCK 0 STREAMS w $` → (blocked)" in text and "5: → [" in text


def test_a_read_that_a_busy_region_answers_late_does_not_wait(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was recorded as one that waits, and the file did not pass."""
    say(session, 1, "XGROUP", "CREATE", "late", "g", "0", "MKSTREAM")
    say(session, 1, "XADD", "late", "*", "a", 1)
    looks: list[Ticket] = []

    def looked(ticket: Ticket) -> bool:
        looks.append(ticket)
        return True if len(looks) == 1 else LiveCluster.is_blocked(session.cluster, ticket)

    monkeypatch.setattr(session.cluster, "is_blocked", looked)
    read = ("XREADGROUP", "GROUP", "g", "c", "BLOCK", 60_000, "STREAMS", "late", ">")
    assert isinstance(say(session, 1, *read, client=5), list) and len(looks) == 2
    assert "(blocked)" not in repeats(session, tmp_path)


def test_a_sync_while_a_read_waits_is_made_in_pairs(session: Session, tmp_path: Path) -> None:
    """Before, the read got the entries of us or those of eu, whichever came first."""
    say(session, 1, "XGROUP", "CREATE", "both", "g", "0", "MKSTREAM")
    session.sync()
    say(session, 1, "XADD", "both", "*", "a", 1)
    say(session, 2, "XADD", "both", "*", "a", 2)
    read = ("XREADGROUP", "GROUP", "g", "c", "BLOCK", 0, "STREAMS", "both", ">")
    assert isinstance(say(session, 3, *read, client=5), Blocked)
    session.sync()
    while not session.answers():
        session.poll()
    lines = repeats(session, tmp_path).splitlines()
    assert len([line for line in lines if line.count("— Sync —") == 2]) >= 3
    assert len([line for line in lines if line.count("— Sync —") == 3]) == 1


def test_a_read_that_times_out_is_named_and_hangs_up(session: Session, tmp_path: Path) -> None:
    number = session.look(1, 7, (b"CLIENT", b"ID"))
    waits = say(session, 1, "XREAD", "BLOCK", 60_000, "STREAMS", "none", "$", client=7)
    assert isinstance(waits, Blocked)
    # Its time is over now, and not before the recorder has seen that it waits.
    assert session.cluster.ask(1, "CLIENT", "UNBLOCK", str(number)) == 1
    while not session.answers():
        session.poll()
    assert session.take_answer(1, 7) is None
    assert any("timed out" in note for note in session.notes)
    assert "7: hang up" in repeats(session, tmp_path)


def test_a_read_that_times_out_at_once(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was recorded with BLOCK 0 and its nil, so the file waited for ever."""
    # The region may take its time for the nil.
    monkeypatch.setattr(live, "BLOCKED_PROOF_S", 20.0)
    assert say(session, 1, "XREAD", "BLOCK", 1, "STREAMS", "none", "$", client=7) is None
    assert "7: `XREAD STREAMS none $` → nil" in repeats(session, tmp_path)


def test_deadlines_pass_as_they_did(session: Session, tmp_path: Path) -> None:
    say(session, 1, "XADD", "short", "*", "a", 1)
    # No time passes within a transaction.
    for words in (("MULTI",), ("PEXPIRE", "short", 200), ("EXISTS", "short")):
        say(session, 1, *words)
    begun_s = time.monotonic()
    assert say(session, 1, "EXEC") == [1, 1]
    Prompt(session).perform("wait 500 ms")
    assert say(session, 1, "EXISTS", "short") == 0
    passed_ms = (time.monotonic() - begun_s) * 1000
    waits = re.findall(r"wait (\d+) ms", repeats(session, tmp_path))
    assert 500 <= int(waits[-1]) <= passed_ms


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
    assert "us: clients connect to 127.0.0.1:" in result.stdout
    assert f"{path} passes in virtual time" in result.stdout
    assert "not recorded: a scenario cannot hold WAIT" in result.stderr
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
    regions: dict[int, Endpoint], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The disk may fill up while the session goes on."""
    cluster = LiveCluster(regions)
    cluster.clear()
    session = Session(cluster, "Typed")
    say(session, 1, "XADD", "k", "*", "a", "1")
    with pytest.raises(CliError, match="cannot write .*; the recording is above"):
        _finish(session, Proxies(session, None, print), tmp_path, [])
    assert "`XADD k" in capsys.readouterr().out
    assert are_up(regions)


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
    for name in NAMES:
        cluster.ask(NAMES.index(name) + 1, "CONFIG", "SET", "stream-node-max-entries", "7")
    cluster.ask(2, "CONFIG", "SET", "crdt-xadd-id-uniqueness-mode", "semi-strict")
    try:
        session = Session(cluster, "Settings")
        say(session, 2, "XADD", "modes", "5-1", "a", 1)
        assert isinstance(say(session, 1, "XADD", "modes", "6-1", "a", 1), ErrorText)
        text = repeats(session, tmp_path)
        session.close()
    finally:
        again = LiveCluster(regions)
        for region in (1, 2, 3):
            again.ask(region, "CONFIG", "SET", "stream-node-max-entries", "100")
            again.ask(region, "CONFIG", "SET", "crdt-xadd-id-uniqueness-mode", "strict")
        again.disconnect()
    assert "set stream-node-max-entries: 7" in text
    assert "set eu crdt-xadd-id-uniqueness-mode: semi-strict" in text


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("CRDT.LINK", "eu", "DOWN"), "type sync, cut or heal at the recorder instead"),
        (("WAIT", "1", "100"), "links are closed but in Sync rows"),
        (("CLIENT", "REPLY", "OFF"), "it acts on connections"),
        (("SHUTDOWN",), "the region would end"),
        (("\xe4", "1"), "a cell cannot hold a command called"),
        (("XADD", "k", "*", "f", "x" * COMMAND_BYTES_MAX), "a command of at most 65536 bytes"),
    ],
)
def test_commands_that_a_scenario_cannot_hold(
    session: Session, words: tuple[str, ...], part: str
) -> None:
    with pytest.raises(Refused, match=part):
        say(session, 1, *words)
    assert session.acts == []


def test_wrong_lines_are_told(session: Session) -> None:
    prompt = Prompt(session)
    for line, part in (
        ("mars> XLEN k", "no region 'mars' here; there are us, eu, ap"),
        ("sync us", "sync needs two regions"),
        ("what", "a line is `us> COMMAND`"),
        ("wait 300", "a time has a unit: `wait 300 ms`"),
        ("us 100> XLEN k", "a label up to 99"),
        ("us> XADD 'k", "a quote is not closed"),
    ):
        with pytest.raises(Refused, match=part):
            prompt.perform(line)
    assert session.acts == []


def test_a_late_answer_moves_no_clock(
    regions: dict[int, Endpoint], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A region was taken for one whose clock is behind, and in the file IDs had another order."""
    cluster = LiveCluster(regions)
    ask = cluster.ask
    late: list[int] = []

    def asked(region: int, *argv: str) -> DecodedReply:
        reply = ask(region, *argv)
        if argv == ("TIME",) and region == 2 and not late:
            late.append(region)
            time.sleep(0.3)
        return reply

    monkeypatch.setattr(cluster, "ask", asked)
    session = Session(cluster, "A late answer")
    try:
        for region in (1, 2):
            say(session, region, "XADD", "clocks", "*", "a", region)
        session.sync()
        say(session, 1, "XRANGE", "clocks", "-", "+")
        assert late and "clock" not in repeats(session, tmp_path).partition("# A late")[0]
    finally:
        session.close()


# -- clients at ports


def is_waiting(session: Session, proxies: Proxies) -> bool:
    """Whether the command of a client waits. Threads of clients write in the session meanwhile."""
    with proxies.lock:
        return "(blocked)" in session.text()


def test_clients_at_ports(session: Session, tmp_path: Path) -> None:
    """Clients of redis-py, of which one waits while another adds."""
    told: list[str] = []
    proxies = Proxies(session, None, told.append)
    ports = proxies.open()
    us, eu = (redis.Redis(HOST, ports[one], protocol=2) for one in (1, 2))
    got: list[object] = []
    reader = threading.Thread(target=lambda: got.append(us.xread({"p": "$"}, block=0)))
    try:
        assert us.ping() and us.info()
        first = us.xadd("p", {"a": "1"})
        reader.start()
        while not is_waiting(session, proxies):
            time.sleep(0.01)
        second = eu.xadd("p", {"a": "2"})
        with proxies.lock:
            session.sync()
        reader.join(30)
        assert got and us.xlen("p") == 2
        with us.pipeline(transaction=True) as pipeline:
            pipeline.xadd("p", {"a": "3"}).xlen("p")
            assert pipeline.execute()[1] == 3
        assert [entry for entry, _ in us.xrange("p")][:2] == sorted([first, second])
        with pytest.raises(redis.ResponseError, match="cannot hold DEBUG"):
            us.execute_command("DEBUG", "SLEEP", "0")
        assert told and "not recorded: DEBUG" in told[0]
    finally:
        us.close()
        eu.close()
        proxies.close()
    with proxies.lock:
        text = repeats(session, tmp_path)
    assert "PING" not in text and "`MULTI` → OK" in text


def test_ports_ask_for_the_password(session: Session) -> None:
    proxies = Proxies(session, "secret", lambda line: None)
    ports = proxies.open()
    try:
        with pytest.raises(redis.AuthenticationError):
            redis.Redis(HOST, ports[1], protocol=2).xlen("k")
        assert redis.Redis(HOST, ports[1], protocol=2, password="secret").xlen("k") == 0
    finally:
        proxies.close()


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
        ((b"XTRIM", b"k", b"MAXLEN", b"~", b"5"), 7, "…"),
        ((b"XPENDING", b"k", b"g"), [1, "5-1", [["ann", "1"]]], "[1, 5-1, [[ann, 1]]]"),
    ],
)
def test_written_replies(words: tuple[bytes, ...], shape: object, written: str) -> None:
    assert written_reply(words, shape, ()) == written  # type: ignore[arg-type]
