"""`--json`: one document on standard output for each command that reports something."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from anabranch.cli.addresses import RegionAddress, file_text
from anabranch.cli.errors import CliError
from anabranch.cli.main import application
from tests.support.cluster import LiveCluster

# Commands without --json, with the reason.
WITHOUT = {
    "up": "runs until it is ended; --log-format json writes its log as JSON",
    "serve": "runs until it is ended; --log-format json writes its log as JSON",
    "console": "runs until it is ended; --log-format json writes its log as JSON",
    "scenario record": "is a conversation; its report is the scenario file",
    "bench": "gives its options to a benchmark, and each has its own",
}
# Commands that work for long, and tell how far they are: --json FILE writes the report to a file.
INTO_A_FILE = {"simulate", "pipeline audit", "pipeline lag", "pipeline archive"} | {
    "pipeline restore",
    "pipeline sweep",
}


def commands(group: Any, words: tuple[str, ...] = ()) -> dict[str, Any]:
    """All commands of the command line, by name."""
    if not hasattr(group, "commands"):
        return {" ".join(words): group}
    found: dict[str, Any] = {}
    for name, one in group.commands.items():
        found |= commands(one, (*words, name))
    return found


def test_each_command_has_json_or_a_reason() -> None:
    with_json: dict[str, bool] = {}
    for name, command in commands(get_command(application())).items():
        options = [one for one in command.params if "--json" in one.opts]
        if options:
            with_json[name] = bool(options[0].is_flag)
        else:
            assert name in WITHOUT
    assert with_json.keys().isdisjoint(WITHOUT)
    assert {name for name, is_flag in with_json.items() if not is_flag} == INTO_A_FILE


def run(words: list[str]) -> tuple[int, str]:
    """The exit code of a command, and its standard output."""
    result = CliRunner().invoke(application(words[0]), words)
    if isinstance(result.exception, CliError):
        return result.exception.exit_code, result.stdout
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout


SCENARIO = """# One add

| step | us | eu |
|---|---|---|
| 1 | `XADD k 1-1 f v` → error | |
"""


def table(cluster: LiveCluster, tmp: Path) -> list[list[str]]:
    """Command lines of all commands that need no Spark, no toxiproxy and no long time."""
    data = str(cluster["us"].data)
    (tmp / "s.md").write_text(SCENARIO)
    (tmp / "tapes").mkdir()
    return [
        ["status"],
        ["top", "--interval", "0.1"],
        ["link", "status"],
        ["link", "cut", "us", "eu"],
        ["link", "heal"],
        ["link", "delay", "us", "eu", "1"],
        ["link", "limit", "us", "eu", "1000000"],
        ["link", "flap", "us", "eu", "--seconds", "0.1", "--up-ms", "10", "--down-ms", "10"],
        ["link", "heal", "us", "eu"],
        ["cluster", "show"],
        ["clock", "trust", "us"],
        ["clock", "trust", "eu"],
        ["clock", "reset", "--yes"],
        ["explain", "us", "k"],
        ["explain", "eu", "k"],
        ["log", "k"],
        ["log", "k", "--region", "eu"],
        ["whatif", "region-lost", "us"],
        ["whatif", "region-lost", "eu"],
        ["diff", "us", "eu"],
        ["export", "us", str(tmp / "out.resp")],
        ["repair", data, "all", "--from", "eu", "--yes"],
        ["repair", str(tmp), "--yes"],
        ["check", data],
        ["backup", "us", str(tmp / "copy"), "--data", data],
        ["restore", str(tmp / "missing"), "--data", str(tmp / "new")],
        ["scenario", "run", str(tmp / "s.md")],
        ["judge", str(tmp / "tapes")],
        ["chaos", "--faults", "no such"],
        ["cert", "create-region", str(tmp / "cert"), "us"],
        ["cert", "create-ca", str(tmp / "cert")],
        ["cert", "create-ca", str(tmp / "cert"), "--clients"],
        ["cert", "create-client", str(tmp / "cert"), "app"],
        ["cert", "renew", str(tmp / "cert"), "client-app"],
        ["cert", "renew", str(tmp / "cert"), "client-app", "xx"],
        ["cert", "show", str(tmp / "cert" / "ca.pem")],
        ["member", "lost", "eu", "--yes"],
    ]


def cluster_file(cluster: LiveCluster, directory: Path) -> Path:
    """A `cluster.toml` that names the regions."""
    regions = list(cluster.regions.values())
    places = [RegionAddress(one.name, n, one.address) for n, one in enumerate(regions, 1)]
    file = directory / "cluster.toml"
    file.write_text(file_text("test", places, "a test"))
    return file


@pytest.mark.live
@pytest.mark.parametrize("is_down", [False, True], ids=["both up", "eu down"])
def test_each_command_prints_one_document(
    new_cluster: Callable[..., LiveCluster], tmp_path: Path, is_down: bool
) -> None:
    """Also of a command that fails. Its exit code is that without --json."""
    cluster = new_cluster(["us", "eu"], {"appendfsync": "always"})
    cluster.start_all()
    with cluster.client("us") as client:
        client.xadd("k", {"f": "v"})
    cluster.sync()
    if is_down:
        cluster.stop("eu")
    file = cluster_file(cluster, tmp_path)
    tried = set()
    for words in table(cluster, tmp_path):
        line = words if words[0] in _LOCAL else [*words, "--cluster", str(file)]
        if not is_down and words[0] in ("explain", "repair"):
            cluster.await_links()
            cluster.sync()
        code, plain = run(line)
        for made in (tmp_path / "out.resp", tmp_path / "copy"):
            made.unlink(missing_ok=True)
        # A certificate that exists is not made again.
        again = [word.replace(f"{tmp_path}/cert", f"{tmp_path}/more") for word in line]
        json_code, text = run([*again, "--json"])
        assert json_code == code, (words, plain, text)
        found = json.loads(text)
        if words == ["link", "status"]:
            assert found and any(row["errors"] for row in found) == bool(code)
        else:
            # A difference, or entries that only one region has, are no failure of the command.
            assert bool(found["problems"]) or code == 0, (words, text)
        if not is_down:
            assert code == 0 or words[0] in {"repair", "check", "restore"} | _LOCAL, (words, plain)
        tried.add(" ".join(words[:2] if words[0] in _GROUPS else words[:1]))
    named = commands(get_command(application())).keys() - WITHOUT.keys() - INTO_A_FILE
    assert tried == named


@pytest.mark.live
def test_a_wrong_password_is_told_with_every_region_that_refuses_it(
    new_cluster: Callable[..., LiveCluster], tmp_path: Path
) -> None:
    """Commands named the first region that they asked."""
    cluster = new_cluster(["us", "eu"])
    cluster.start_all()
    file = cluster_file(cluster, tmp_path)
    for name in ("us", "eu"):
        with cluster.client(name) as client:
            client.config_set("requirepass", "right")
    # The commands that ask in different ways; each starts a process.
    left = {"status", "link", "explain", "diff", "export", "member"}
    for words in table(cluster, tmp_path):
        if words[0] in left:
            left.remove(words[0])
            line = [*words, "--cluster", str(file), "--password", "wrong", "--json"]
            code, text = run(line)
            problems = json.dumps(json.loads(text))
            asked = ["us"] if words[0] == "member" else ["us", "eu"]
            told = [name for name in ("us", "eu") if f"{name} at 127" in problems]
            assert (code, told) == (1, asked), (words, text)
    assert left == set()


_LOCAL = {"cert", "check", "backup", "restore", "scenario", "judge", "chaos"}
_GROUPS = {"cert", "link", "cluster", "clock", "whatif", "member", "scenario"}
