"""Short runs of `anabranch chaos` with real regions and a real toxiproxy server."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch import build
from anabranch.chaos import judges
from anabranch.cli import chaos as command
from anabranch.cli.errors import CliError
from anabranch.cluster.ports import free_ports
from anabranch.cluster.toxiproxy import Toxic, Toxiproxy, ToxiproxyError
from anabranch.cluster.toxiproxy_server import ToxiproxyMissing, ToxiproxyServer, program
from tests.support.cluster import child_env

pytestmark = pytest.mark.live


def chaos(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    line = [*build.command(), "chaos", "--out", str(directory / "out"), *words]
    return subprocess.run(
        line, capture_output=True, text=True, env=child_env(), timeout=240, check=False
    )


@pytest.mark.timeout(300)
def test_a_short_run_finds_nothing(tmp_path: Path, toxiproxy: ToxiproxyServer) -> None:
    ended = chaos(tmp_path, "--seconds", "15", "--seed", "11", "--regions", "2")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "seed 11: 0 violations" in ended.stdout
    assert "  twin: 0\n" in ended.stdout
    for name in ("us", "eu"):
        assert re.search(rf"judged \d{{3,}} calls of {name}", ended.stdout), ended.stdout
    made = tmp_path / "out" / "seed-11"
    files = ["plan.json", "report.html", "timeline.svg", "violations.json"]
    assert sorted(one.name for one in made.iterdir()) == files


@pytest.mark.timeout(300)
def test_a_run_that_fails_keeps_everything(
    tmp_path: Path,
    toxiproxy: ToxiproxyServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A judge that finds something: the run is real, its violation is not."""
    monkeypatch.setattr(judges, "judge", lambda case: {"lost": ["us lacks plain 1-1"], "twice": []})
    with pytest.raises(CliError, match="seed 5: violations found by lost"):
        command.chaos(seconds=10.0, seed=5, regions=2, faults="none", out=tmp_path, no_tapes=True)
    made = tmp_path / "seed-5"
    names = {one.name for one in made.iterdir()}
    assert {"us", "eu", "us.log", "toxiproxy.log", "history.jsonl", "report.html"} <= names
    said = capsys.readouterr().out
    assert f"data and logs: {made}; the same plan again: anabranch chaos --seed 5" in said
    assert "us lacks plain 1-1" in said
    assert (made / "us" / "region.sqlite").exists() and not (made / "us" / "tape").exists()


@pytest.mark.parametrize(
    "words, text",
    [
        (["--faults", "cut,flood"], "no kind 'flood'; there are cut, one-way cut"),
        (["--faults", ","], "--faults names no kind"),
        (["--appendfsync", "no"], "--appendfsync is always or everysec, not 'no'"),
        (["--regions", "1"], "--regions"),
    ],
)
def test_mistakes(tmp_path: Path, words: list[str], text: str) -> None:
    ended = chaos(tmp_path, *words)
    assert ended.returncode == 2 and text in ended.stderr, ended
    assert "Traceback" not in ended.stderr


def test_without_toxiproxy_server_the_error_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToxiproxyMissing, match="`make toxiproxy` builds it"):
        program()
    with pytest.raises(CliError, match="there is no toxiproxy-server"):
        command.chaos(seconds=10.0, out=tmp_path / "out")
    assert not (tmp_path / "out").exists(), "there is nothing to keep"
    beside = tmp_path / "toxiproxy-server"
    beside.write_text("#!/bin/sh")
    beside.chmod(0o755)
    assert program() == str(beside)


def test_an_interrupted_run_says_what_it_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(options: object, say: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "program", lambda: "toxiproxy-server")
    monkeypatch.setattr(command, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        command.chaos(seed=5, out=tmp_path)
    said = capsys.readouterr().out
    assert f"interrupted, and not judged; what there is of logs and data: {tmp_path}" in said


def test_the_api_of_the_server(toxiproxy: ToxiproxyServer) -> None:
    api = toxiproxy.api
    listen, upstream = (f"127.0.0.1:{port}" for port in free_ports(2))
    api.create("one", listen, upstream)
    with pytest.raises(ToxiproxyError, match="refused /proxies: .*already exists"):
        api.create("one", listen, upstream)
    with pytest.raises(ToxiproxyError, match="no proxy 'two'; it has one"):
        api.proxy("two")
    with pytest.raises(ToxiproxyError, match="refused /proxies/one/toxics"):
        api.add("one", Toxic("t", "nonsense", "downstream", {}))
    api.add("one", Toxic("t", "latency", "downstream", {"latency": 5, "jitter": 0}))
    api.enable("one", False)
    found = api.proxy("one")
    assert (found.listen, found.upstream, found.enabled) == (listen, upstream, False)
    assert found.toxics == (Toxic("t", "latency", "downstream", {"latency": 5, "jitter": 0}),)
    api.clean("one")
    assert api.proxy("one").enabled and not api.proxy("one").toxics
    api.destroy("one")
    assert api.proxies() == {}


def test_a_server_that_is_not_there_or_is_another_program(free_port: int) -> None:
    with pytest.raises(ToxiproxyError, match=r"is unreachable: connection refused"):
        Toxiproxy("127.0.0.1", free_port).version()
