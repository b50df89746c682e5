"""The beginning and the end of processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from anabranch.cluster.processes import end, end_all, last_lines, spawn, wait_until

DEAF = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1); time.sleep(60)"
)


def started(program: str, log: Path) -> subprocess.Popen[bytes]:
    """A Python program that has printed something to its log."""
    process = spawn([sys.executable, "-u", "-c", program], log)
    assert wait_until(lambda: last_lines(log, 1), 30)
    return process


def test_processes_end_by_SIGTERM_or_else_by_SIGKILL(tmp_path: Path) -> None:
    deaf = started(DEAF, tmp_path / "deaf.log")
    docile = started("import signal; print(1); signal.pause()", tmp_path / "docile.log")
    ended = started("print(1)", tmp_path / "ended.log")
    ended.wait()
    assert end_all([docile, deaf, ended], 1) == [deaf]
    assert (docile.returncode, deaf.returncode, ended.returncode) == (-15, -9, 0)
    assert end(deaf) and end_all([docile], 1) == []


def test_output_goes_to_the_end_of_the_log(tmp_path: Path) -> None:
    log = tmp_path / "one.log"
    assert last_lines(log, 2) == []
    log.write_bytes(b"a\n\xff\n")
    spawn([sys.executable, "-c", "print(input.__name__)"], log).wait()
    assert last_lines(log, 2) == ["\ufffd", "input"]
    spawn(["sh", "-c", "read x; echo $x$THERE >&2"], log, {"THERE": "1"}).wait()
    assert last_lines(log, 1) == ["1"]


def test_waiting_ends() -> None:
    asked: list[int] = []
    assert not wait_until(lambda: asked.append(1), 0.05, 0.01)
    assert 2 <= len(asked) <= 10
    assert wait_until(lambda: True, 0)
