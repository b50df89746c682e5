"""When `anabranch up` starts a dead region again, and what it reports."""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from anabranch.cli.addresses import RegionAddress
from anabranch.cli.errors import GivenUp
from anabranch.cli.supervisor import Console, RegionProcess, Supervisor
from anabranch.console.login import Login
from tests.support.processes import eventually


class Clock:
    """A time that only the test moves; stands in for ``time.monotonic``."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(time, "monotonic", made)
    return made


def process(tmp_path: Path, code: int) -> RegionProcess:
    """A process that writes a line with an escape sequence to its log, and ends with a code."""
    program = f"import sys; print('\\x1b[31mred'); sys.exit({code})"
    place = RegionAddress("eu", 2, "127.0.0.1:1")
    return RegionProcess(place, [sys.executable, "-c", program], tmp_path / "eu.log")


def end(one: RegionProcess) -> None:
    """Waits for the end of the process."""
    assert one.popen is not None
    one.popen.wait(60)


def revive(one: RegionProcess, clock: Clock, pause_s: float) -> None:
    """Watches a process that has ended, and expects its restart after exactly this pause."""
    watching = Supervisor([one], Path("d"), None)
    ended = one.popen
    watching._revive(one)
    assert one.restart_at_s == clock.now_s + pause_s
    clock.now_s += pause_s - 0.1
    watching._revive(one)
    assert one.popen is ended, "it is too early"
    clock.now_s += 0.2
    watching._revive(one)
    assert one.popen is not ended and one.restart_at_s is None


def test_the_pause_doubles_and_begins_anew_after_a_minute(
    tmp_path: Path, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    one = process(tmp_path, 4)
    one.start()
    for pause_s in (1, 2, 4, 8, 16, 30, 30):
        end(one)
        revive(one, clock, pause_s)
    end(one)
    clock.now_s += 59
    revive(one, clock, 30)
    end(one)
    clock.now_s += 61
    revive(one, clock, 1)
    end(one)
    told = capsys.readouterr().err
    assert "region eu ended with code 4; the end of" in told
    assert "eu is started again in 1 s; the pause doubles each time, up to 30 s." in told
    assert "region eu ended with code 4 again (see" in told and "in 16 s" in told
    # The log is shown for the first death of a series only.
    assert told.count("eu | ") >= 2 and told.count("ended with code 4; the end of") == 2


def test_a_process_that_ends_without_an_error_stays_down(tmp_path: Path, clock: Clock) -> None:
    one = process(tmp_path, 0)
    one.start()
    end(one)
    watching = Supervisor([one], Path("d"), None)
    watching._revive(one)
    assert one.is_shut_down and one.restart_at_s is None
    clock.now_s += 100
    watching._revive(one)
    assert one.ended() == 0


def test_a_console_that_dies_is_started_again_and_ends_no_region(
    tmp_path: Path, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    line = [sys.executable, "-c", "import sys; sys.exit(4)"]
    page = Console(Login("a" * 16, "http://127.0.0.1:1"), line, tmp_path / "console.log")
    page.start()
    eventually(lambda: page.ended() is not None, 60, "the end of the console")
    watching = Supervisor([process(tmp_path, 0)], Path("d"), None, console=page)
    watching._revive(page)
    assert page.restart_at_s == clock.now_s + 1
    told = capsys.readouterr().err
    assert "the console ended with code 4" in told and "The regions go on." in told


def answering(called_by: str, links: dict[str, tuple[str, bool]]) -> AbstractContextManager[Any]:
    """Stands in for the client of a region, whose disk may fail: then its state is not `lost`."""
    peers = [
        SimpleNamespace(name=name, link=link, detail="", lost=lost)
        for name, (link, lost) in links.items()
    ]
    facts = {"crdt_state": "failed", "crdt_called_lost_by": called_by}
    return nullcontext(SimpleNamespace(info=lambda section: facts, peers=lambda: peers))


@pytest.mark.parametrize(
    ("called_by", "links", "missing"),
    [
        ("", {"us": ("up", False), "ap": ("refused", True)}, ""),
        ("", {"us": ("connecting", False), "ap": ("refused", True)}, "us is connecting"),
        ("us", {"us": ("refused", False)}, ""),
    ],
)
def test_links_of_a_lost_region_are_not_waited_for(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    called_by: str,
    links: dict[str, tuple[str, bool]],
    missing: str,
) -> None:
    """After `member lost`, each start of the cluster was silent for a minute."""
    one = process(tmp_path, 0)
    monkeypatch.setattr(
        RegionAddress, "client", lambda place, password: answering(called_by, links)
    )
    assert Supervisor([one], Path("d"), None)._linked(one) == missing


def test_a_signal_during_a_pause_ends_the_watch(tmp_path: Path) -> None:
    one = process(tmp_path, 1)
    one.start()
    eventually(lambda: one.ended() is not None, 60, "the end of the process")
    watching = Supervisor([one], Path("d"), None)
    watching._revive(one)
    watching.stopping = 1
    assert watching._watch() == 1


def test_a_region_that_errors_have_ended_too_often_stays_down(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A start of it would end at the same row of its log, and so on for ever (S13.10)."""
    one = process(tmp_path, GivenUp.exit_code)
    one.start()
    end(one)
    assert Supervisor([one], Path("d"), None)._watch() == 1
    assert one.restart_at_s is None and "region eu stays down" in capfd.readouterr().err
