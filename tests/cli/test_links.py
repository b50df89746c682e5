"""`anabranch link` without regions: undoing halves, flapping, and the rows of `link status`."""

from __future__ import annotations

import io
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from anabranch.cli import addresses, link_flapping, links
from anabranch.cli.addresses import RegionAddress
from anabranch.cli.errors import CliError
from anabranch.cli.interrupting import Interruption
from anabranch.cli.link_control import Condition, Direction, RegionControl, change, condition_of
from anabranch.cli.link_flapping import Flapping
from anabranch.cli.link_status import LinkRow, as_json, show
from anabranch.cli.terminal import Output
from anabranch.cluster.toxiproxy import DOWNSTREAM, UPSTREAM, Proxy, Toxic

US, EU = RegionAddress("us", 1, "127.0.0.1:1"), RegionAddress("eu", 2, "127.0.0.1:2")
TO_US, TO_EU = Direction(EU, US), Direction(US, EU)
CUT = Condition(is_cut=True)


class FakeControl:
    """Links in memory. `fails(direction, wanted)` tells which writes fail."""

    def __init__(self) -> None:
        self.now = {TO_US: Condition(), TO_EU: Condition()}
        self.fails: Callable[[Direction, Condition], bool] = lambda direction, wanted: False
        self.written: list[tuple[Direction, Condition]] = []
        self.reads = 0

    def read(self, direction: Direction) -> Condition:
        self.reads += 1
        return self.now[direction]

    def write(self, direction: Direction, wanted: Condition) -> None:
        if self.fails(direction, wanted):
            raise CliError(f"{direction.receiver.name} is unreachable")
        self.now[direction] = wanted
        self.written.append((direction, wanted))

    def heal(self, direction: Direction) -> None:
        self.write(direction, Condition())


def cut(found: Condition) -> Condition:
    return replace(found, is_cut=True)


def test_a_change_reaches_both_directions() -> None:
    control = FakeControl()
    change(control, [TO_US, TO_EU], cut)
    assert control.now == {TO_US: CUT, TO_EU: CUT}


def test_a_half_cut_is_undone() -> None:
    """A cut reached one region and not the other: the link was cut in one direction, unsaid."""
    control = FakeControl()
    control.fails = lambda direction, wanted: direction is TO_EU
    with pytest.raises(CliError, match="eu is unreachable; nothing has been changed"):
        change(control, [TO_US, TO_EU], cut)
    assert control.now == {TO_US: Condition(), TO_EU: Condition()}
    assert control.written == [(TO_US, CUT), (TO_US, Condition())]


def test_a_half_cut_that_cannot_be_undone_is_named() -> None:
    control = FakeControl()
    control.fails = lambda direction, wanted: direction is TO_EU or not wanted.is_cut
    with pytest.raises(CliError, match="this stands: eu → us may be changed, and could not be"):
        change(control, [TO_US, TO_EU], cut)
    assert control.now[TO_US] == CUT


def test_nothing_is_written_if_one_link_cannot_be_read() -> None:
    control = FakeControl()
    del control.now[TO_EU]
    with pytest.raises(KeyError):
        change(control, [TO_US, TO_EU], cut)
    assert control.written == []


def no_pause(monkeypatch: pytest.MonkeyPatch, act: Callable[[int], None]) -> None:
    """A pause of flapping takes a second of a made-up clock, and calls `act` with its number."""
    now_s, pauses = [0.0], [0]

    class Pauses(Interruption):
        def sleep(self, duration_s: float) -> None:
            pauses[0] += 1
            now_s[0] += 1
            act(pauses[0])

    monkeypatch.setattr(link_flapping, "Interruption", Pauses)
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])


def test_flapping_leaves_links_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    control = FakeControl()
    control.now[TO_US] = delayed = Condition(delay_ms=30)
    seen: list[bool] = []
    no_pause(monkeypatch, lambda number: seen.append(control.now[TO_US].is_cut))
    assert Flapping(control, [TO_US, TO_EU]).run(1000, 1000, 5.0) == 3
    assert seen == [True, False, True, False, True, False]
    assert control.now == {TO_US: delayed, TO_EU: Condition()}


@pytest.mark.parametrize("when", [1, 2])
def test_flapping_mends_when_it_is_interrupted(monkeypatch: pytest.MonkeyPatch, when: int) -> None:
    control = FakeControl()

    def interrupt(number: int) -> None:
        if number == when:
            os.kill(os.getpid(), signal.SIGINT)

    no_pause(monkeypatch, interrupt)
    assert Flapping(control, [TO_US, TO_EU]).run(1000, 1000, 100.0) == 1
    assert control.now == {TO_US: Condition(), TO_EU: Condition()}


def test_an_interruption_between_the_two_directions_is_mended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    control = FakeControl()

    def interrupt(direction: Direction, wanted: Condition) -> bool:
        if direction is TO_EU and wanted.is_cut:
            os.kill(os.getpid(), signal.SIGINT)
        return False

    control.fails = interrupt
    no_pause(monkeypatch, lambda number: None)
    assert Flapping(control, [TO_US, TO_EU]).run(1000, 1000, 100.0) == 1
    assert control.now == {TO_US: Condition(), TO_EU: Condition()}


def test_a_second_interruption_between_the_two_directions_is_mended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second signal ends the command at once, and the links are mended all the same."""
    control = FakeControl()

    def interrupt(direction: Direction, wanted: Condition) -> bool:
        if direction is TO_EU and wanted.is_cut:
            raise KeyboardInterrupt
        return False

    control.fails = interrupt
    no_pause(monkeypatch, lambda number: None)
    with pytest.raises(KeyboardInterrupt):
        Flapping(control, [TO_US, TO_EU]).run(1000, 1000, 100.0)
    assert control.now == {TO_US: Condition(), TO_EU: Condition()}


@pytest.mark.parametrize(
    "theirs, said",
    [
        (Condition(), "it was cut, and is whole"),
        (Condition(True, delay_ms=9), "it was cut, and is cut, delayed by 9 ms"),
    ],
)
def test_flapping_stops_if_somebody_else_changes_the_link(
    monkeypatch: pytest.MonkeyPatch, theirs: Condition, said: str
) -> None:
    """The other's change stays, and the other direction is mended."""
    control = FakeControl()

    def other(number: int) -> None:
        if number == 3:
            control.now[TO_US] = theirs

    no_pause(monkeypatch, other)
    with pytest.raises(CliError, match="flapping stopped: somebody else changed the link eu → us"):
        try:
            Flapping(control, [TO_US, TO_EU]).run(1000, 1000, 100.0)
        except CliError as error:
            assert said in str(error)
            raise
    assert control.now == {TO_US: theirs, TO_EU: Condition()}


def test_flapping_refuses_a_link_that_is_cut() -> None:
    control = FakeControl()
    control.now[TO_EU] = CUT
    with pytest.raises(CliError, match="us → eu is cut already: heal it first"):
        Flapping(control, [TO_US, TO_EU])


def test_links_that_stay_cut_after_flapping_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    control = FakeControl()
    no_pause(monkeypatch, lambda number: None)
    control.fails = lambda direction, wanted: direction is TO_US and not wanted.is_cut
    with pytest.raises(CliError, match="eu → us may still be cut"):
        Flapping(control, [TO_US, TO_EU]).run(1000, 1000, 100.0)


def test_the_state_of_a_proxy_as_a_condition() -> None:
    toxics = (
        Toxic("anabranch-delay", "latency", DOWNSTREAM, {"latency": 200, "jitter": 20}),
        Toxic("anabranch-limit", "bandwidth", DOWNSTREAM, {"rate": 64}),
        Toxic("mine", "slicer", UPSTREAM, {"average_size": 10}),
    )
    proxy = Proxy("eu-to-us", "127.0.0.1:1", "127.0.0.1:2", False, toxics)
    found = condition_of(proxy)
    assert found == Condition(True, 200, 20, 64_000, ("slicer upstream",))
    row = LinkRow(TO_US, "connecting", "", Condition(True, 100, 0, 5000), found)
    assert (row.cut_by, row.delay, row.limit, row.others) == (
        ["region", "toxiproxy"],
        "300 ± 20 ms",
        "5000 bytes/s",
        "slicer upstream",
    )
    (shown,) = as_json([row])
    assert (shown["from"], shown["to"], shown["cut_by"]) == ("eu", "us", ["region", "toxiproxy"])
    assert shown["toxiproxy"]["jitter_ms"] == 20


class RawTerminal(io.BytesIO):
    def isatty(self) -> bool:
        return True


def test_a_region_is_healed_also_if_toxiproxy_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, free_port: int, tmp_path: Path
) -> None:
    """A cut inside a region stayed, although the region answered."""
    file = cluster_file(tmp_path, f'sync = "a:2"\n[toxiproxy]\napi = "127.0.0.1:{free_port}"\n')
    healed: list[Direction] = []
    monkeypatch.setattr(links, "check_exists", lambda direction, facts: None)
    monkeypatch.setattr(links, "peer_facts", lambda direction, password: None)
    monkeypatch.setattr(RegionControl, "heal", lambda control, direction: healed.append(direction))
    failed = links.healed(links.Links(file, None, None), [TO_US, TO_EU], are_named=False)
    assert healed == [TO_US, TO_EU]
    assert [direction for direction, _ in failed] == [TO_US, TO_EU]
    assert "toxiproxy" in failed[0][1]


def test_in_a_terminal_the_table_has_no_codes_of_a_region(monkeypatch: pytest.MonkeyPatch) -> None:
    """A detail in brackets was taken for a style."""
    raw = RawTerminal()
    monkeypatch.setattr(sys, "__stdout__", io.TextIOWrapper(raw, "utf-8"))
    monkeypatch.setattr(sys, "stdout", Output(raw, "utf-8"))
    for name, value in (("TERM", "xterm"), ("COLUMNS", "120")):
        monkeypatch.setenv(name, value)
    show([LinkRow(TO_US, "refused", "[red]no \x1b[31m")], False)
    sys.stdout.flush()
    shown = raw.getvalue()
    assert b"from" in shown and b"[red]no \\x1b[31m" in shown and b"\x1b" not in shown, shown


def test_in_a_narrow_terminal_no_value_is_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each detail took eight lines at 80 columns, and at 40 the heads were broken, too."""
    detail = "eu cannot be reached at 127.0.0.1:7102: connection refused, dialled again in 5 s"
    for columns in (40, 80):
        monkeypatch.setattr("anabranch.cli.link_status.width", lambda columns=columns: columns)
        show([LinkRow(TO_US, "connecting", detail)], False)
        assert detail in capsys.readouterr().out


def cluster_file(directory: Path, text: str) -> Path:
    path = directory / "cluster.toml"
    path.write_text('cluster = "c"\n[[regions]]\nname = "us"\nid = 1\nresp = "a:1"\n' + text)
    return path


def test_the_cluster_file_may_name_toxiproxy(tmp_path: Path) -> None:
    assert addresses.toxiproxy_address(cluster_file(tmp_path, ""), None) is None
    path = cluster_file(tmp_path, '[toxiproxy]\napi = "127.0.0.1:8474"\n')
    assert str(addresses.toxiproxy_address(path, None)) == "127.0.0.1:8474"
    assert str(addresses.toxiproxy_address(tmp_path, None)) == "127.0.0.1:8474"
    assert addresses.toxiproxy_address(None, ["127.0.0.1:7001"]) is None


@pytest.mark.parametrize("table", ["[toxiproxy]", "[toxiproxy]\napi = 8474", "[[toxiproxy]]"])
def test_a_toxiproxy_table_without_an_address_is_named(tmp_path: Path, table: str) -> None:
    with pytest.raises(CliError, match=r'needs api = "HOST:PORT"'):
        addresses.toxiproxy_address(cluster_file(tmp_path, table + "\n"), None)
