"""The slow log: commands that took long, by a clock that the test moves."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.region.driver.clients import Clients
from anabranch.region.engine.batch import Batch
from anabranch.region.engine.engine import Engine
from anabranch.region.engine.replies import Reply
from anabranch.region.engine.session import Session
from anabranch.region.engine.settings import Settings
from anabranch.region.engine.slow_log import SlowCommand
from tests.support.engines import single

NOW_MS = 1_700_000_000_000


class MovedClock:
    """A clock that stands still until somebody moves it. `us` counts from its beginning."""

    def __init__(self) -> None:
        self.us = 0

    def now_ms(self) -> int:
        return NOW_MS + self.us // 1000

    def steady_ms(self) -> int:
        return self.us // 1000

    def steady_ns(self) -> int:
        return self.us * 1000


class SlowEngine:
    """An engine in which a command takes as long as `slow_us` says for its first word, or 0 µs."""

    def __init__(self, engine: Engine, clock: MovedClock) -> None:
        self.engine = engine
        self.clock = clock
        self.slow_us: dict[bytes, int] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine.clients, name)

    def execute_batch(self, session: Session, batch: Batch, now_ms: int) -> tuple[list[Reply], int]:
        self.clock.us += self.slow_us.get(batch.first[0].upper(), 0)
        return self.engine.clients.execute_batch(session, batch, now_ms)


class Region:
    """A region with one client."""

    def __init__(self, **settings: str) -> None:
        self.clock = MovedClock()
        named = {name.replace("_", "-"): value for name, value in settings.items()}
        engine = single(1, NOW_MS, Settings({"appendfsync": "no", **named}))
        self.engine = SlowEngine(engine, self.clock)
        self.clients = Clients(self.engine, self.clock, engine.settings)
        self.connection = self.clients.connect("127.0.0.1:50000", "127.0.0.1:7001")

    def feed(self, *lines: str, slow_us: dict[str, int] | None = None) -> bytes:
        """Sends commands in one piece, which take these times (µs); returns the replies."""
        self.engine.slow_us = {name.encode(): us for name, us in (slow_us or {}).items()}
        self.connection.received(b"".join(b"%b\r\n" % line.encode() for line in lines))
        while self.connection.wants_turn:
            self.connection.turn()
        self.engine.slow_us = {}
        return self.connection.take_output()

    @property
    def entries(self) -> list[SlowCommand]:
        """The entries, oldest first."""
        return list(reversed(self.engine.statistics.slow_log.entries))

    @property
    def texts(self) -> list[str]:
        """The arguments of each entry as one text, oldest first."""
        return [b" ".join(one.arguments).decode() for one in self.entries]


def test_a_slow_command_enters_with_its_time_and_its_client() -> None:
    region = Region()
    region.feed("CLIENT SETNAME worker")
    region.clock.us = 5_000_000
    region.feed("XLEN s", slow_us={"XLEN": 9_999})
    assert region.entries == []
    region.feed("XADD s 1-1 a b", "XLEN s", "PING", slow_us={"XLEN": 10_000})
    (entry,) = region.entries
    assert entry.arguments == [b"XLEN", b"s"] and entry.duration_us == 10_000
    assert (entry.number, entry.time_s) == (0, NOW_MS // 1000 + 5)
    assert (entry.address, entry.name) == ("127.0.0.1:50000", b"worker")


def test_the_reply_is_that_of_redis() -> None:
    region = Region(slowlog_log_slower_than="0")
    region.feed("PING a")
    assert region.feed("SLOWLOG GET") == (
        b"*1\r\n*6\r\n:0\r\n:1700000000\r\n:0\r\n*2\r\n$4\r\nPING\r\n$1\r\na\r\n"
        b"$15\r\n127.0.0.1:50000\r\n$0\r\n\r\n"
    )
    assert region.feed("SLOWLOG LEN") == b":2\r\n"
    for _ in range(12):
        region.feed("PING b")
    assert region.feed("SLOWLOG GET").startswith(b"*10\r\n*6\r\n:14\r\n")
    assert region.feed("SLOWLOG GET 2").startswith(b"*2\r\n*6\r\n:15\r\n")
    assert region.feed("SLOWLOG GET -1").startswith(b"*17\r\n*6\r\n:16\r\n")


def test_settings_and_reset() -> None:
    region = Region()
    region.feed("CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 2")
    assert [one.number for one in region.entries] == [0]
    region.feed("PING a")
    region.feed("CONFIG RESETSTAT")
    assert region.texts == ["PING a", "CONFIG RESETSTAT"]
    assert region.feed("SLOWLOG RESET") == b"+OK\r\n"
    # The numbers go on, and RESET itself is the first entry after it.
    assert [(one.number, one.arguments[1]) for one in region.entries] == [(3, b"RESET")]
    region.feed("PING c")
    region.feed("CONFIG SET slowlog-max-len 0")
    assert region.entries == []
    region.feed("PING d")
    region.feed("CONFIG SET slowlog-log-slower-than -1 slowlog-max-len 10")
    region.feed("PING e", slow_us={"PING": 1_000_000_000})
    assert region.entries == []


def test_a_run_of_equal_commands_is_one_entry_that_says_so() -> None:
    """A pipeline of equal commands is measured as a whole: no command gets the time of all."""
    region = Region()
    region.feed(*(f"PING {number}" for number in range(6)), slow_us={"PING": 2_000})
    assert region.texts == ["PING 5 ... (5 more commands)"]
    assert region.entries[0].duration_us == 12_000
    region.feed("SLOWLOG RESET")
    region.feed("PING 1", "ECHO 2", "PING 3", slow_us={"PING": 6_000})
    assert region.texts == []


def test_a_pipeline_of_adds_is_one_entry() -> None:
    region = Region(slowlog_log_slower_than="0")
    requests = [
        b"*5\r\n$4\r\nXADD\r\n$1\r\ns\r\n$1\r\n*\r\n$1\r\nf\r\n$1\r\n%d\r\n" % number
        for number in range(9)
    ]
    region.connection.received(b"".join(requests))
    region.connection.turn()
    assert region.texts == ["XADD s * f 0 ... (8 more commands)"]


def test_a_transaction_is_one_entry_with_its_commands() -> None:
    """The engine has no clock, so the commands of EXEC cannot be measured one by one."""
    region = Region()
    region.feed("MULTI", "XADD s 1-1 f v", "XLEN s", slow_us={"XADD": 50_000})
    assert region.entries == []
    region.feed("CONFIG SET requirepass sesame", "EXEC", slow_us={"EXEC": 20_000})
    assert [one.arguments for one in region.entries] == [
        [b"EXEC", b"XADD s 1-1 f v", b"XLEN s", b"CONFIG SET requirepass (redacted)"]
    ]
    region.feed("SLOWLOG RESET", "MULTI", *["XLEN s"] * 50, "EXEC", slow_us={"EXEC": 20_000})
    (entry,) = region.entries
    assert len(entry.arguments) == 32
    assert entry.arguments[-2:] == [b"XLEN s", b"... (20 more commands)"]
    region.feed(
        "SLOWLOG RESET", "MULTI", f"XADD s * f {'v' * 500}", "EXEC", slow_us={"EXEC": 20000}
    )
    (entry,) = region.entries
    assert entry.arguments[1] == b"XADD s * f " + b"v" * 117 + b"... (383 more bytes)"
    region.feed("SLOWLOG RESET", "EXEC", slow_us={"EXEC": 20_000})
    assert region.texts == ["EXEC"]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("AUTH sesame", "AUTH (redacted)"),
        ("AUTH default sesame", "AUTH (redacted) (redacted)"),
        ("auth default wrong-sesame", "auth (redacted) (redacted)"),
        ("HELLO 2 AUTH default sesame", "HELLO 2 AUTH (redacted) (redacted)"),
        ("HELLO 2 SETNAME me auth u sesame", "HELLO 2 SETNAME me auth (redacted) (redacted)"),
        ("CONFIG SET timeout 0 requirepass sesame", "CONFIG SET timeout 0 requirepass (redacted)"),
        ("CONFIG SET RequirePass sesame x", "CONFIG SET RequirePass (redacted) x"),
    ],
)
def test_passwords_do_not_enter(line: str, shown: str) -> None:
    """Nor those that are wrong, which are often passwords of something else."""
    region = Region(slowlog_log_slower_than="0", requirepass="sesame")
    region.feed("AUTH sesame")
    region.feed(line)
    assert region.texts[-1] == shown


def test_only_commands_that_were_executed_enter() -> None:
    """A client without the password fills no log, and none with the arguments of its choice."""
    region = Region(slowlog_log_slower_than="0", requirepass="sesame")
    assert region.feed("XLEN s", "SLOWLOG GET", "NONSENSE", "XLEN", "MULTI").count(b"-NOAUTH") == 3
    assert region.texts == []
    region.feed("AUTH sesame")
    region.feed("NONSENSE", "XLEN", "SLOWLOG", "SLOWLOG NONSENSE", "EVAL x 0")
    assert region.texts == ["AUTH (redacted)"]
    # An error of the execution is none of the dispatch.
    region.feed("XADD s 0-0 f v")
    assert region.texts[1:] == ["XADD s 0-0 f v"]


def test_the_wait_of_a_read_does_not_count() -> None:
    region = Region()
    region.feed("XREAD BLOCK 0 STREAMS s $")
    region.clock.us += 60_000_000
    other = region.clients.connect("127.0.0.1:50001", "127.0.0.1:7001")
    other.received(b"XADD s * f v\r\n")
    other.turn()
    for late in region.engine.take_replies():
        region.clients.answer(late)
    assert b"f" in region.connection.take_output()
    assert region.entries == []


def test_an_entry_keeps_little_memory() -> None:
    """A name or an argument of megabytes is not kept, and nothing of a command that is over."""
    region = Region(slowlog_log_slower_than="0")
    region.feed(f"CLIENT SETNAME {'n' * 10_000}")
    entry = region.entries[-1]
    assert entry.arguments[2] == entry.name == b"n" * 128 + b"... (9872 more bytes)"
