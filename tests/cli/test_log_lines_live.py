"""`--log-format json`: each line of a log is a JSON object, in regions and in the console."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from anabranch import build
from anabranch.cluster.ports import free_row
from anabranch.cluster.processes import end
from anabranch.log_lines import JsonLines
from anabranch.sync.session.events import LoggedEvent
from tests.support.cluster import child_env
from tests.support.processes import eventually

PATIENCE_S = 60.0


def record(text: str, event: LoggedEvent | None = None, exc_info: Any = None) -> logging.LogRecord:
    made = logging.LogRecord("anabranch.region", logging.WARNING, "", 0, text, None, exc_info)
    made.created = 1_000_000_000.25
    made.event = event
    return made


def test_an_event_is_an_object_with_its_fields() -> None:
    fields: dict[str, object] = {"peer": 'e\n"u', "life": 7, "reason": Path("/x"), "time": "late"}
    event = LoggedEvent(logging.WARNING, "link_lost", "is lost", fields)
    line = JsonLines("us").format(record(event.line("us"), event))
    assert "\n" not in line
    assert list(json.loads(line).items()) == [
        ("time", "2001-09-09T01:46:40.250Z"),
        ("level", "WARNING"),
        ("logger", "anabranch.region"),
        ("region", "us"),
        ("event", "link_lost"),
        ("peer", 'e\n"u'),
        ("life", 7),
        ("reason", "/x"),
        ("text", "is lost"),
    ], "and no field hides the time"


def test_other_lines_and_errors() -> None:
    try:
        raise ValueError("it is\nwrong")
    except ValueError as error:
        caught = (ValueError, error, error.__traceback__)
    found = json.loads(JsonLines(None).format(record("a\ntask failed", exc_info=caught)))
    assert found.keys() == {"time", "level", "logger", "text", "traceback"}
    assert found["text"] == "a\ntask failed" and "ValueError: it is\nwrong" in found["traceback"]


def lines(log: Path) -> list[dict[str, Any]]:
    """The lines of a log, each of which must be an object with the common parts."""
    found = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert all({"time", "level", "logger", "text"} <= line.keys() for line in found)
    return found


@pytest.mark.live
def test_logs_of_regions_and_console(tmp_path: Path) -> None:
    base = free_row(7)
    flags = ["--resp-port", str(base), "--sync-port", str(base + 2), "--http-port", str(base + 4)]
    flags += ["--console-port", str(base + 6), "--regions", "us,eu", "--log-format", "json"]
    output = tmp_path / "up.out"
    with output.open("wb") as file:
        up = subprocess.Popen(
            [*build.command(), "up", "--data", "d", *flags],
            cwd=tmp_path,
            env=child_env(),
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        eventually(lambda: "Ctrl-C stops all." in output.read_text(), PATIENCE_S, "up being ready")
        console = tmp_path / "d" / "console.log"
        eventually(lambda: "the console is at" in console.read_text(), PATIENCE_S, "the console")
        eu = int((tmp_path / "d" / "eu" / "region.lock").read_text().split()[0])
        os.kill(eu, signal.SIGKILL)
        us = tmp_path / "d" / "us.log"
        eventually(lambda: "link_lost" in us.read_text(), PATIENCE_S, "the loss of eu")
        # A second process with the data of us ends with a line of the log, too.
        addresses = ["--resp", "127.0.0.1:0", "--sync", "127.0.0.1:0", "--data", "d/us"]
        identity = ["--cluster", "local", "--members", "us=1,eu=2", "--name", "us"]
        second = subprocess.run(
            [*build.command(), "serve", *identity, *addresses],
            cwd=tmp_path,
            env={**child_env(), "ANABRANCH_LOG_FORMAT": "json"},
            capture_output=True,
            text=True,
        )
        assert second.returncode == 1
        last = json.loads(second.stderr.splitlines()[-1])
        assert last["level"] == "CRITICAL" and "is in use by a region" in last["text"]
    finally:
        end(up, 40)
    (lost,) = [line for line in lines(us) if line.get("event") == "link_lost"]
    assert (lost["level"], lost["region"], lost["peer"]) == ("WARNING", "us", "eu")
    assert lost["reason"] in lost["text"] and "event=" not in lost["text"]
    assert any(isinstance(line.get("life"), int) for line in lines(us))
    assert lines(us)[-1]["text"] == "region us has stopped: all that it answered is on disk"
    assert "the console is at" in lines(console)[0]["text"]
