"""Whole runs of Rocket Rides, as a user starts them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from examples.rocket_rides.load import wanted_rides
from examples.rocket_rides.mishaps import Mishaps
from tests.examples.postgresql import PostgresServer
from tests.support.cluster import child_env
from tests.support.processes import eventually

pytestmark = pytest.mark.live
ROOT = Path(__file__).resolve().parents[2]
REGIONS = ("us", "eu")
RIDES = 200


class Chance(NamedTuple):
    """What a run leaves to its seed. The shares are probabilities, from 0 to 1."""

    seed: int
    double_sends: float
    crashes: float


# How the rides fall into batches depends on the machine, and the seed says what happens to the
# first, second, … batch of each process. What these seeds must say is tested below.
LATE = Chance(5650, 0.1, 0.2)
OFTEN = Chance(33, 0.6, 0.2)


def start(directory: Path, *arguments: str) -> subprocess.Popen[str]:
    # `python -m examples.…` finds the example in the current directory. PYTHONSAFEPATH forbids
    # that, and the tests of Spark set it in the process that they share with this one.
    env = child_env() | {"TMPDIR": str(directory)}
    env.pop("PYTHONSAFEPATH", None)
    return subprocess.Popen(
        [sys.executable, "-m", "examples.rocket_rides", *arguments],
        cwd=ROOT,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def check_small_run(directory: Path, chance: Chance, *arguments: str) -> str:
    """Runs 200 rides with mishaps, checks the report, and returns it."""
    shares = ["--double-sends", str(chance.double_sends), "--crashes", str(chance.crashes)]
    counts = ["--rides", str(RIDES), "--consumers", "1", "--seed", str(chance.seed)]
    process = start(directory, *counts, *shares, *arguments)
    try:
        output, errors = process.communicate(timeout=100)
    finally:
        if process.poll() is None:
            process.kill()
    assert process.returncode == 0, output + errors
    assert "All totals agree for every ride, and no record was added twice." in output
    assert max(map(len, output.splitlines())) <= 80
    rows = {line.split()[0]: line.split() for line in output.splitlines() if line.strip()}
    assert rows["us-0"][-1] == rows["eu-0"][-1] == "agree"
    assert rows["us-0"][1:4] == rows["eu-0"][1:4] == rows["API"][1:4] and rows["API"][1] == "200"
    assert "equal totals   400: one for each ride and each of 2 consumers" in output
    # The run is not empty: each mishap struck.
    for text in (r"double sends +(\d+)", r"crashes +(\d+)", r"trimmed +(\d+)"):
        found = re.search(f"^{text}", output, re.MULTILINE)
        assert found is not None and int(found[1]) > 0, output
    assert list(directory.iterdir()) == [], "the directory of the run is removed"
    return output


def skipped(output: str) -> list[int]:
    """How many rides the consumers with one ID skipped, of each region."""
    return [int(count) for count in re.findall(r"-one-id skipped (\d+) rides", output)]


def streamer(chance: Chance, region: str) -> Mishaps:
    return Mishaps(chance.seed, f"streamer-{region}", share=chance.double_sends)


def test_the_seeds_of_the_small_runs() -> None:
    """Whatever the batches are, each mishap strikes, and records are merged late in one run.

    The former seed was any seed. On a fast machine the rides of the partition made one batch in
    each region, both batches were sent to both regions, and nothing was left to be merged late.
    """
    for chance in (LATE, OFTEN):
        assert any(streamer(chance, region).strikes() for region in REGIONS)
        consumers = [f"{region}-{n}" for region in REGIONS for n in ("0", "one-id")]
        assert any(Mishaps(chance.seed, n, share=chance.crashes).strikes() for n in consumers)
    rides = wanted_rides(RIDES, LATE.seed, REGIONS)
    for region in REGIONS:
        before, within = (
            sum(ride.origin == region for ride in part)
            for part in (rides[: RIDES // 3], rides[RIDES // 3 : 2 * RIDES // 3])
        )
        # Each batch has a ride at least. So the first one with a ride of the partition has a number
        # up to `before`, and this region only has that batch until the partition is over.
        assert within > 0
        mishaps = streamer(LATE, region)
        assert not any(mishaps.strikes() and mishaps.is_elsewhere() for _ in range(before + 1))


def test_a_small_run_with_a_partition(tmp_path: Path) -> None:
    output = check_small_run(tmp_path, LATE)
    assert "SQLite" in output
    assert len(skipped(output)) == 2 and sum(skipped(output)) > 0, output


@pytest.mark.examples
def test_a_small_run_with_postgresql(tmp_path: Path, postgres_server: PostgresServer) -> None:
    url = postgres_server.new_database()
    output = check_small_run(tmp_path, OFTEN, "--database", url)
    # Perhaps all batches of the partition went to both regions. Then nothing was merged late.
    assert "PostgreSQL" in output and len(skipped(output)) == 2
    again = start(tmp_path, "--rides", "10", "--database", url)
    _, errors = again.communicate(timeout=100)
    assert again.returncode == 1 and "the database of us holds a former run" in errors


def test_ctrl_c_ends_all_processes(tmp_path: Path) -> None:
    process = start(tmp_path, "--rides", "1000000", "--consumers", "1")
    try:
        # Two APIs, streamers and consumers, two consumers with one ID, trimmer, `anabranch up`.
        eventually(lambda: len(children(process.pid)) == 10, 60, "all processes running")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            process.kill()
    assert process.returncode == 130 and "interrupted" in errors and "Traceback" not in errors
    left = {pid: line for pid, line in running().items() if os.fsencode(tmp_path) in line}
    assert left == {}, left
    assert list(tmp_path.iterdir()) == []


def running() -> dict[int, bytes]:
    """The command line of each process of this machine, by process ID."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found[int(entry.name)] = (entry / "cmdline").read_bytes()
            except OSError:
                continue
    return found


def children(parent: int) -> dict[int, bytes]:
    """The command lines of the children of a process, by process ID."""
    found = {}
    for pid, line in running().items():
        try:
            status = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            continue
        if status.rpartition(")")[2].split()[1] == str(parent):
            found[pid] = line
    return found


def test_a_cluster_that_is_not_there_is_told(tmp_path: Path) -> None:
    process = start(tmp_path, "--rides", "10", "--cluster", str(tmp_path / "none.toml"))
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1 and "Traceback" not in errors
    assert f"rocket rides: {tmp_path / 'none.toml'} is no cluster.toml" in errors


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--database", "sqlite:"], "no such database: sqlite:; give sqlite:DIRECTORY"),
        (["--database", "sqlite:/dev/null/x"], "cannot make the directory of the databases"),
    ],
)
def test_a_database_that_cannot_be_is_told(tmp_path: Path, words: list[str], part: str) -> None:
    process = start(tmp_path, "--rides", "10", *words)
    _, errors = process.communicate(timeout=100)
    assert process.returncode == 1 and "Traceback" not in errors
    assert f"rocket rides: {part}" in errors


def test_the_page_names_the_options_that_there_are() -> None:
    page = (ROOT / "docs" / "rocket-rides.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\|.*?\|", page, re.MULTILINE))
    options = {option for row in named for option in re.findall(r"`(--[a-z-]+)", row)}
    told = subprocess.run(
        [sys.executable, "-m", "examples.rocket_rides", "--help"],
        cwd=ROOT,
        env=child_env(),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert options == set(re.findall(r"--[a-z-]+", told)) - {"--help"}
