"""A process that was started is known to the program, whenever a signal comes."""

from __future__ import annotations

import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from anabranch.cluster import regions
from anabranch.cluster.regions import ProcessCluster
from anabranch.cluster.signals import signals_wait
from tests.support.signals import handled_by

INTERRUPTS = signal.default_int_handler


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_waits_for_the_end_of_the_block(number: signal.Signals) -> None:
    kept: list[int] = []
    with handled_by(INTERRUPTS, number):
        with pytest.raises(KeyboardInterrupt), signals_wait():
            signal.raise_signal(number)
            signal.raise_signal(number)
            kept.append(1)
        assert kept == [1]
        assert signal.getsignal(number) is INTERRUPTS


def test_signals_without_a_handler_stay_as_they_are() -> None:
    with handled_by(signal.SIG_IGN, signal.SIGHUP), signals_wait():
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_another_thread_may_use_it() -> None:
    def body() -> bool:
        with signals_wait():
            return True

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(body).result()


def test_a_region_that_starts_while_the_program_is_told_to_end_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a busy machine SIGTERM came while the benchmark started a region, which then went on."""
    started: list[subprocess.Popen[bytes]] = []

    def spawn(*_: Any) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL))
        signal.raise_signal(signal.SIGTERM)
        return started[-1]

    monkeypatch.setattr(regions, "spawn", spawn)
    with (
        handled_by(INTERRUPTS, signal.SIGTERM),
        pytest.raises(KeyboardInterrupt),
        ProcessCluster(["us"]) as cluster,
    ):
        cluster.start("us")
    assert started[0].poll() is not None
