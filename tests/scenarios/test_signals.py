"""A process that was started is known to the program, whenever a signal comes."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any

import pytest

from anabranch.sim.scenario import processes
from anabranch.sim.scenario.processes import ProcessCluster
from anabranch.sim.scenario.signals import signals_wait


@pytest.fixture
def _sigterm_interrupts() -> Iterator[None]:
    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    former = signal.signal(signal.SIGTERM, interrupt)
    yield
    signal.signal(signal.SIGTERM, former)


@pytest.mark.usefixtures("_sigterm_interrupts")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_for_the_end_of_the_block(number: signal.Signals) -> None:
    handler = signal.getsignal(number)
    kept: list[int] = []
    with pytest.raises(KeyboardInterrupt), signals_wait():
        signal.raise_signal(number)
        signal.raise_signal(number)
        kept.append(1)
    assert kept == [1]
    assert signal.getsignal(number) is handler


def test_signals_without_a_handler_stay_as_they_are() -> None:
    former = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals_wait():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, former)


def test_another_thread_may_use_it() -> None:
    def body() -> bool:
        with signals_wait():
            return True

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(body).result()


@pytest.mark.usefixtures("_sigterm_interrupts")
def test_a_region_that_starts_while_the_program_is_told_to_end_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a busy machine SIGTERM came while the benchmark started a region, which then went on."""
    started: list[subprocess.Popen[bytes]] = []

    def popen(line: list[str], **options: Any) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL))
        signal.raise_signal(signal.SIGTERM)
        return started[-1]

    monkeypatch.setattr(processes, "subprocess", _Subprocess(popen))
    with pytest.raises(KeyboardInterrupt), ProcessCluster(["us"]) as cluster:
        cluster.start("us")
    assert started[0].poll() is not None


class _Subprocess:
    """The module `subprocess` with another `Popen`."""

    def __init__(self, popen: Any) -> None:
        self.Popen = popen

    def __getattr__(self, name: str) -> Any:
        return getattr(subprocess, name)
