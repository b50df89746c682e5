"""Signals that are noted. `anabranch top` once did not end on Ctrl-C: the KeyboardInterrupt was
raised inside the thread pool that asks the regions."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from anabranch.cli.interrupting import Interruption, end_as_after_ctrl_c
from tests.support.cluster import child_env
from tests.support.signals import handled_by

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_is_noted_and_raises_nothing(number: signal.Signals) -> None:
    """A closed terminal once ended `link flap` at once, and the link stayed cut (SIGHUP)."""
    # The suite may run under nohup.
    with handled_by(signal.SIG_DFL, number):
        before = {one: signal.getsignal(one) for one in SIGNALS}
        with Interruption() as interruption:
            assert not interruption.is_noted
            os.kill(os.getpid(), number)
            interruption.sleep(60)
            assert interruption.is_noted
        assert {one: signal.getsignal(one) for one in before} == before


def test_a_signal_is_noted_where_a_shell_script_ignores_it() -> None:
    with handled_by(signal.SIG_IGN):
        with Interruption() as interruption:
            os.kill(os.getpid(), signal.SIGINT)
            interruption.sleep(60)
            assert interruption.is_noted
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_a_hangup_that_nohup_ignores_stays_ignored() -> None:
    with handled_by(signal.SIG_DFL, signal.SIGTERM), handled_by(signal.SIG_IGN, signal.SIGHUP):
        with Interruption() as interruption:
            os.kill(os.getpid(), signal.SIGHUP)
            interruption.sleep(0.05)
            assert not interruption.is_noted
        end_as_after_ctrl_c()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_as_ctrl_c_does(number: signal.Signals) -> None:
    """Links stayed cut, and a recording was lost, when a terminal was closed (SIGHUP)."""
    with handled_by(signal.SIG_DFL, signal.SIGTERM), handled_by(signal.SIG_DFL, signal.SIGHUP):
        end_as_after_ctrl_c()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
            time.sleep(1)


def test_a_second_signal_interrupts_at_once() -> None:
    with handled_by(signal.default_int_handler), Interruption(), pytest.raises(KeyboardInterrupt):
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)


def test_without_a_signal_a_sleep_has_its_length() -> None:
    with Interruption() as interruption:
        start_s = time.monotonic()
        interruption.sleep(0.25)
        assert time.monotonic() - start_s >= 0.25 and not interruption.is_noted
        interruption.sleep(-1)


def test_ctrl_c_while_the_command_is_imported_leaves_no_traceback() -> None:
    program = """
import sys
class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == "anabranch.cli.main":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupts())
from anabranch.__main__ import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, env=child_env(), timeout=60
    )
    assert (done.returncode, done.stderr) == (130, b"")
