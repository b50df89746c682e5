"""`anabranch bench`: names, flags, and what a machine lacks."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

import pytest

from anabranch import build
from tests.support.processes import eventually

ROOT = Path(__file__).resolve().parents[2]


def bench(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs `anabranch bench` in the checkout."""
    return subprocess.run(
        [*build.command(), "bench", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**build.environment(), **environment},
        timeout=100,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--only", "nothing"), "no row has a name like nothing; --list shows the names"),
        (("nothing",), "no benchmark 'nothing'; there are containers, first_run, malformed, "),
        (("acceptance.nothing",), "no benchmark 'acceptance.nothing'; there are "),
        (("acceptance",), "no benchmark 'acceptance'; there are "),
    ],
)
def test_mistakes_end_with_a_line(arguments: tuple[str, ...], text: str) -> None:
    done = bench(*arguments)
    assert done.returncode == 2 and text in done.stderr
    assert "acceptance.damaged_files" in done.stderr or "--list" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [(), ("performance", "--only", "xadd.*")])
def test_a_missing_redis_server_is_named_before_anything_runs(arguments: tuple[str, ...]) -> None:
    done = bench(*arguments, PATH="/nowhere")
    assert done.returncode == 1 and "Traceback" not in done.stderr and done.stdout == ""
    assert done.stderr == (
        "anabranch: performance: redis-server is not installed:"
        " it comes with the package redis-server\n"
    )


def test_a_missing_redis_benchmark_is_named(tmp_path: Path) -> None:
    (tmp_path / "redis-server").symlink_to("/bin/true")
    done = bench("acceptance.watched_rate", PATH=str(tmp_path))
    assert done.returncode == 1 and "watched_rate: redis-benchmark is not" in done.stderr


def test_help_lists_the_benchmarks() -> None:
    done = bench("--help")
    assert done.returncode == 0
    for name in ("malformed ", "performance ", "acceptance.damaged_files "):
        assert f"\n  {name}" in done.stdout, done.stdout
    assert "usage: anabranch bench malformed" in bench("malformed", "--help").stdout


@pytest.mark.live
def test_an_acceptance_program_runs_the_build_of_the_command() -> None:
    done = bench("acceptance.damaged_files", "--flips", "2", "--cuts", "1", "--alone")
    assert f"   build: {build.kind()}\n" in done.stdout, done


def test_the_options_of_an_acceptance_program_are_its_own() -> None:
    done = bench("acceptance.damaged_files", "--flips", "no number")
    assert done.returncode == 2
    assert "usage: anabranch bench acceptance.damaged_files" in done.stderr


def running_below(folder: Path) -> list[str]:
    """The command lines of processes that name a path below `folder`."""
    lines = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            lines.append(file.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
    return [line for line in lines if str(folder) in line]


@pytest.mark.live
def test_a_benchmark_that_is_ended_ends_its_regions(tmp_path: Path) -> None:
    """SIGTERM used to end the benchmark alone: its region went on for ever."""
    process = subprocess.Popen(
        [*build.command(), "bench", "malformed", "--mutations", "1000000"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        env={**build.environment(), "TMPDIR": str(tmp_path)},
    )
    try:
        eventually(lambda: bool(running_below(tmp_path)), 60.0, "a region of the benchmark")
        process.terminate()
        assert process.wait(60) != 0
    finally:
        process.kill()
    assert running_below(tmp_path) == [] and list(tmp_path.iterdir()) == []
