"""Each user mistake ends with one clear line on stderr, exit code 1 or 2, and no traceback."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest

from anabranch import build
from anabranch.cli.serve import locked
from tests.support.cluster import child_env
from tests.support.ports import free_ports


def anabranch(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs `anabranch` in a process of its own."""
    line = [*build.command(), *arguments]
    return subprocess.run(
        line, capture_output=True, text=True, cwd=cwd, env=child_env(), timeout=60, check=False
    )


def serve_flags(tmp_path: Path, *extra: str, resp: int | None = None) -> list[str]:
    """The arguments of `anabranch serve` for a region alone, on free ports."""
    first, second = free_ports(2)
    line = [
        "serve",
        "--cluster",
        "c",
        "--members",
        "us=1",
        "--name",
        "us",
        "--data",
        str(tmp_path / "us"),
    ]
    return [*line, "--resp", f"127.0.0.1:{resp or first}", "--sync", f"127.0.0.1:{second}", *extra]


def told(result: subprocess.CompletedProcess[str], code: int, *parts: str) -> None:
    """Asserts the exit code, all `parts` in stderr, and no traceback."""
    assert result.returncode == code, result
    assert "Traceback" not in result.stderr
    for part in parts:
        assert part in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (
            ["status"],
            1,
            "there is no anabranch-data/cluster.toml: start a cluster here with `anabranch up`",
        ),
        (["status", "--at", "127.0.0.1"], 2, "--at must be HOST:PORT"),
        (
            ["status", "--at", "127.0.0.1:1", "--cluster", "x"],
            2,
            "give --cluster or --at, not both",
        ),
        (
            ["status", "--at", "127.0.0.1:1"],
            1,
            "the region at 127.0.0.1:1 is unreachable: connection refused",
        ),
        (["link", "cut", "us"], 2, "Missing argument"),
        (["link", "delay", "us", "eu", "soon"], 2, "Invalid value"),
        (["explain", "us"], 2, "Missing argument"),
        (["nonsense"], 2, "No such command 'nonsense'"),
        (
            ["serve"],
            2,
            "--cluster is missing (or 'cluster' in the TOML file, or ANABRANCH_CLUSTER)",
        ),
        (["serve", "--cluster", "c", "--members", "us=1,us=2"], 2, "'us' is named twice"),
        (["serve", "--config", "nowhere.toml"], 2, "cannot read nowhere.toml"),
        (["serve", "--fsync", "always"], 2, "No such option: --fsync"),
        (["up", "--regions", "us,us"], 2, "'us' is named twice"),
        (["up", "--regions", "us,,eu"], 2, "--regions must look like us,eu,ap"),
        (["up", "--id-mode", "loose"], 2, "must be one of: strict, semi-strict, liberal"),
        (["up", "--data", "d", "--ephemeral"], 2, "give --data or --ephemeral, not both"),
        (["up", "--resp-port", "65535"], 2, "--resp-port must leave room for 3 ports"),
        (["scenario", "run", "nowhere.md", "--live"], 2, "no such file: nowhere.md"),
    ],
)
def test_mistakes(tmp_path: Path, arguments: list[str], code: int, part: str) -> None:
    told(anabranch(*arguments, cwd=tmp_path), code, part)


def test_a_damaged_cluster_file(tmp_path: Path) -> None:
    (tmp_path / "cluster.toml").write_text("regions = 3")
    told(anabranch("status", "--cluster", str(tmp_path), cwd=tmp_path), 1, "is not a cluster file")


def test_serve_names_a_taken_port_and_its_holder(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        result = anabranch(*serve_flags(tmp_path, resp=port), cwd=tmp_path)
    told(
        result,
        1,
        f"--resp 127.0.0.1:{port}: port {port} is taken by process ",
        "give us another --resp",
    )


def test_up_names_every_taken_port(tmp_path: Path) -> None:
    with socket.socket() as one, socket.socket() as other:
        for holder in (one, other):
            holder.bind(("127.0.0.1", 0))
            holder.listen()
        ports = one.getsockname()[1], other.getsockname()[1]
        result = anabranch(
            "up",
            "--regions",
            "us",
            "--resp-port",
            str(ports[0]),
            "--sync-port",
            str(ports[1]),
            cwd=tmp_path,
        )
    told(
        result,
        1,
        f"us: port {ports[0]} is taken by process",
        "--resp-port",
        f"us: port {ports[1]} is taken by process",
        "--sync-port",
    )


def test_a_data_directory_serves_one_process(tmp_path: Path) -> None:
    with locked(tmp_path / "us"):
        result = anabranch(*serve_flags(tmp_path), cwd=tmp_path)
    told(result, 1, "is in use by a region that runs already (process ")


def test_up_runs_once_in_a_directory(tmp_path: Path) -> None:
    with locked(tmp_path / "d", "up.lock"):
        result = anabranch("up", "--data", "d", cwd=tmp_path)
    told(result, 1, "d is in use by an `anabranch up` that runs already (process ")


def test_up_refuses_other_regions_than_the_data_has(tmp_path: Path) -> None:
    (tmp_path / "cluster.toml").write_text(
        'cluster = "local"\n[[regions]]\nname = "us"\nid = 1\nresp = "127.0.0.1:7001"\n'
    )
    result = anabranch("up", "--data", ".", "--regions", "us,eu", cwd=tmp_path)
    told(result, 1, "belongs to the regions us=1")


def test_a_data_directory_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "us").write_text("a file")
    told(anabranch(*serve_flags(tmp_path), cwd=tmp_path), 1, "cannot use the data directory")


def test_help_names_every_option_and_no_console(tmp_path: Path) -> None:
    result = anabranch("serve", "--help", cwd=tmp_path)
    assert result.returncode == 0
    for flag in (
        "--members",
        "--peer",
        "--restored",
        "--id-mode",
        "--appendfsync",
        "--crdt-sync-interval-ms",
        "--config",
    ):
        assert flag in result.stdout
    for command in ([], ["up"]):
        text = anabranch(*command, "--help", cwd=tmp_path)
        assert text.returncode == 0 and "console" not in text.stdout.lower()


def test_version_names_the_build(tmp_path: Path) -> None:
    result = anabranch("--version", cwd=tmp_path)
    assert result.returncode == 0 and (
        "compiled" in result.stdout or "interpreted" in result.stdout
    )
