"""`anabranch top`: what it shows of made-up regions, and live, with a region that is down."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Self

import pytest

from anabranch import build
from anabranch.cli.addresses import RegionAddress
from anabranch.cli.terminal import seconds
from anabranch.cli.top import Sample, rate, screen, short
from tests.support.cluster import LiveCluster, child_env
from tests.support.processes import eventually

NewCluster = Callable[..., LiveCluster]


def made(name: str, at_s: float, **info: str) -> Sample:
    """A sample of one region with these fields of INFO."""
    one = Sample(RegionAddress(name, 1, "127.0.0.1:1"), at_s)
    one.info = {"crdt_state": "serving", **info}
    return one


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (999, "999"),
        (999.6, "1.0k"),
        (1234, "1.2k"),
        (99_949, "99.9k"),
        (99_951, "100k"),
        (123_456_789, "123M"),
        (5e15, "5000T"),
    ],
)
def test_numbers_are_short(number: float, text: str) -> None:
    assert short(number) == text


def test_rates() -> None:
    before, after = made("us", 10.0, commands="100"), made("us", 12.0, commands="4100")
    assert rate(before, after, "commands") == "2.0k"
    assert rate(after, made("us", 14.0, commands="5"), "commands") == "0", "it was started again"
    after.error = "gone"
    assert rate(before, after, "commands") == ""
    assert (seconds("1549"), seconds("x")) == ("1.5 s", "?")


def test_a_screen_of_80_columns_with_a_region_down() -> None:
    link = "name=ap,region_id=3,state={},behind=12345,lag=0,lag_ms=0,behind_ms=62500"
    before = [made("us", 0.0), made("europe-west-1", 0.0), made("ap", 0.0)]
    after = [
        made(
            "us",
            1.0,
            total_commands_processed="1234567",
            crdt_effects_issued="1000000",
            crdt_effects_merged="2000000",
            crdt_entries="100000000",
            crdt_pending_entries="99999",
            connected_clients="10000",
            used_memory_rss="1234567890",
            crdt_link3=link.format("connecting"),
            crdt_link2="name=europe-west-1,state=none,behind=0,behind_ms=0",
        ),
        made("europe-west-1", 1.0, crdt_link3=link.format("up")),
        made("ap", 1.0),
    ]
    after[2].error = "ap at 127.0.0.1:1 is unreachable"
    lines = screen(before, after, 80)
    assert max(map(len, lines)) <= 80
    assert lines[0] == "3 regions, 1 not answering" and lines[-1] == after[2].error
    rows = [line.split() for line in lines]
    assert ["us", "serving", "1.2M", "1.0M", "2.0M", "100M", "100k", "10.0k", "1.2G"] in rows
    assert ["ap", "unreachable"] in rows
    assert ["us", "ap", "connecting", "12.3k", "62.5", "s"] in rows
    assert ["europe-west-1", "ap", "up", "12.3k", "62.5", "s"] in rows
    assert not any("none" in row for row in rows), "a link that is not dialled is not shown"
    narrow = screen(before, after, 40)
    assert "receives from:  ap" in narrow, "no value is broken over two lines"


# -- live


class Terminal:
    """A command in a terminal of 80 columns, in a process group of its own as under a shell."""

    def __init__(self, line: list[str], term: str = "xterm") -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            line,
            stdout=theirs,
            stderr=theirs,
            env={**child_env(), "COLUMNS": "80", "LINES": "24", "TERM": term},
            process_group=0,
        )
        os.close(theirs)
        # What was written and not looked for yet.
        self._output = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(30)
        os.close(self._ours)

    def reads(self, text: bytes) -> None:
        """Reads until this text comes."""
        ends_s = time.monotonic() + 60
        while text not in self._output:
            assert time.monotonic() < ends_s, self._output[-2000:]
            assert select.select([self._ours], [], [], 60)[0], self._output[-2000:]
            self._output += os.read(self._ours, 65536)
        self._output = self._output.partition(text)[2]

    def ends_on_interrupt(self) -> None:
        """Ctrl-C ends the command well."""
        self.process.send_signal(signal.SIGINT)
        while True:
            try:
                if not (chunk := os.read(self._ours, 65536)):
                    break
            except OSError:
                break  # The process has closed its end.
            self._output += chunk
        assert self.process.wait(60) == 0 and b"Traceback" not in self._output


def command(cluster: LiveCluster, *arguments: str) -> list[str]:
    line = [*build.command(), "top", *arguments]
    for region in cluster.regions.values():
        line += ["--at", region.address]
    return line


@pytest.mark.live
def test_once_and_live_with_a_region_down(new_cluster: NewCluster) -> None:
    cluster = new_cluster(["us", "eu"])
    cluster.start_all()
    cluster.client("us").xadd("s", {"a": "1"})
    eventually(lambda: cluster.client("eu").xlen("s") == 1, 30, "the entry arriving in eu")
    shown = subprocess.run(
        command(cluster, "--once", "--interval", "0.3"),
        capture_output=True,
        text=True,
        env=child_env(),
        timeout=100,
        check=True,
    ).stdout
    rows = [line.split() for line in shown.splitlines()]
    assert shown.startswith("2 regions, 0 not answering\n")
    assert [row[:3] for row in rows if row[:2] == ["us", "eu"]] == [["us", "eu", "up"]]

    with Terminal(command(cluster, "--interval", "0.2")) as terminal:
        terminal.reads(b"2 regions, 0 not answering")
        process_of_eu = cluster["eu"].process
        assert process_of_eu is not None
        process_of_eu.kill()
        process_of_eu.wait(30)
        terminal.reads(b"2 regions, 1 not answering")
        terminal.reads(b"unreachable")
        terminal.ends_on_interrupt()


@pytest.mark.live
def test_ctrl_z_leaves_the_alternate_screen_and_fg_draws_it_again(new_cluster: NewCluster) -> None:
    """The shell once had to work in the alternate screen of a suspended `top`.

    Nor was there one: the codes for the terminal were shown as text.
    """
    cluster = new_cluster(["us"])
    cluster.start_all()
    enters, leaves, cursor = b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[?25h"
    with Terminal(command(cluster, "--interval", "0.2")) as terminal:
        for _ in range(2):
            terminal.reads(enters)
            terminal.reads(b"1 region, 0 not answering")
            terminal.process.send_signal(signal.SIGTSTP)
            terminal.reads(cursor)
            terminal.reads(leaves)
            _, status = os.waitpid(terminal.process.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status) and os.WSTOPSIG(status) == signal.SIGTSTP
            terminal.process.send_signal(signal.SIGCONT)
        terminal.reads(enters)
        terminal.reads(b"1 region, 0 not answering")
        terminal.ends_on_interrupt()
        terminal.reads(leaves)


@pytest.mark.live
def test_a_terminal_that_cannot_move_the_cursor(new_cluster: NewCluster) -> None:
    """`top` drew a live screen, of which such a terminal shows nothing."""
    cluster = new_cluster(["us"])
    cluster.start_all()
    with Terminal(command(cluster, "--interval", "0.2"), "dumb") as terminal:
        terminal.reads(b"1 region, 0 not answering")
        assert terminal.process.wait(60) == 0


@pytest.mark.live
def test_no_region_answers(new_cluster: NewCluster) -> None:
    cluster = new_cluster(["us"])
    result = subprocess.run(
        command(cluster, "--once"),
        capture_output=True,
        text=True,
        env=child_env(),
        timeout=100,
        check=False,
    )
    assert result.returncode == 1 and "is unreachable" in result.stderr
