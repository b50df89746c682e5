"""Simulated seeds on Spark: the verdicts, sums and rows of `anabranch simulate`."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from anabranch import build
from anabranch.bench.acceptance.spark_cluster import SparkCluster, spark_environment
from anabranch.pipeline.errors import OptionError
from anabranch.pipeline.jobs.progress import Bar
from anabranch.pipeline.jobs.session import readable
from anabranch.pipeline.jobs.sweep import job
from anabranch.pipeline.jobs.sweep.report import report_of
from anabranch.pipeline.jobs.sweep.seed_rows import result_of, row_of
from anabranch.sim.history import Violation
from anabranch.sim.run import Result
from anabranch.sim.sweep import Task, sweep
from anabranch.sim.tally import Tally

on_spark = [pytest.mark.spark, pytest.mark.live, pytest.mark.timeout(900)]
Spark = Any
SMALL = Task(2, 20)

PLANTED = '''
"""A task and a judge for the workers of Spark to import."""

import os
import time

from anabranch.sim.history import Checker
from anabranch.sim.sweep import Task


class Planted(Task):
    def __call__(self, seed):
        if seed == 3:
            os._exit(7)
        if seed == 5:
            os.kill(os.getpid(), 9)
        if seed == 6:
            time.sleep(3600)
        return super().__call__(seed)


class AlwaysFails(Checker):
    name = "always_fails"

    def finish(self, end):
        self.fail(end.at_ms, 1, "planted")
'''


class NoBar(Bar):
    """Takes the place of the bar."""

    def __init__(self) -> None:
        pass

    def phase(self, text: str) -> None:
        pass


def summed(seeds: range, task: Task) -> Tally:
    """The sums of `anabranch simulate`."""
    tally = Tally()
    for one in sweep(seeds, task, 2):
        tally.add(one)
    return tally


# -- without Spark


@pytest.mark.parametrize(
    ("seeds", "cores", "partitions"),
    [(1, 2, 1), (7, 2, 7), (100, 2, 8), (1000, 2, 50), (1000, 64, 256), (100_000, 64, 5000)],
)
def test_tasks_are_small_and_every_core_has_some(seeds: int, cores: int, partitions: int) -> None:
    assert job.partitions_of(seeds, cores) == partitions


def test_a_very_long_sweep_has_a_bounded_number_of_tasks() -> None:
    assert job.partitions_of(10**9, 64) == job.PARTITIONS_MAX


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (job.SweepOptions(0, 1 << 63), "--seeds: the last seed can be 9223372036854775806"),
        (job.SweepOptions(0, 1, limit_s=0.0), "--limit: a seed needs more than 0 seconds"),
    ],
)
def test_options_that_cannot_be(options: job.SweepOptions, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        job.check(options)


def test_a_row_gives_its_result_back() -> None:
    found = [Violation("digests", 5, 2, "key k\udcff"), Violation("groups", 7, 0, "é")]
    row = row_of(Result(9, found, "hash", 1000, {"b": 2, "a": 1}))
    assert row["checker"] == "digests" and row["counters"] == [("a", 1), ("b", 2)]
    back = result_of(row)
    assert (back.seed, back.trace_hash, back.virtual_ms) == (9, "hash", 1000)
    # Arrow takes no surrogates, so the byte has an escape.
    assert back.violations == [found[0]._replace(text="key k\\udcff"), found[1]]
    assert row_of(Result(1, [], "", 0))["checker"] is None


def test_sums_of_sums_are_the_sums() -> None:
    results = [Result(n, [], "", 10 * n, {"fault:cut": n, "checkpoint": 0}) for n in range(4)]
    alone, together = Tally(), Tally()
    for one in results:
        alone.add(one)
    together.add_sums(1, 0, [])
    together.add_sums(3, 60, [("fault:cut", 6, 3)])
    assert together.as_json() == alone.as_json()


def test_the_report_has_the_verdict_first_and_replays_failed_seeds() -> None:
    tally = Tally()
    for seed in range(30):
        violations = [Violation("digests", 5, 1, "differs")] if seed >= 6 else []
        tally.add(Result(seed, violations, "", 3_600_000, {"fault:cut": 2}))
    report = report_of(tally, Task(5, 10, ("kill",)), 2.0, 4)
    assert not report.passed
    assert report.lines[0].startswith("24 of 30 seeds FAILED: 6 7 8 ")
    assert report.lines[0].endswith(" 25 …")
    assert report.lines[1:4] == [
        "seed 6 FAILED",
        "  digests at 5 ms in region 1: differs",
        '  anabranch simulate --replay 6 --regions 5 --ops 10 --faults "kill"',
    ]
    assert "seed 15 FAILED" in report.lines and "seed 16 FAILED" not in report.lines
    assert "4 tasks in 2.0 s: 15.0 seeds/s, 30.00 simulated hours" in report.lines
    assert "in less than 1 % of the seeds: " in report.lines[-1] and "kill" in report.lines[-1]
    assert report.tables[0].title == "Faults injected"
    assert report.tables[0].rows[0] == ["cut", "60", "30", "100.0"]
    assert {**report.facts, **tally.as_json()} == report.facts
    assert report_of(Tally(), Task(), 1.0, 1).passed


def test_an_executor_without_the_packages_is_told() -> None:
    text = (
        "An exception was thrown from the Python worker:\n"
        "Traceback (most recent call last):\n"
        '  File "/w/history.py", line 14, in <module>\n'
        "    from mypy_extensions import mypyc_attr\n"
        "ModuleNotFoundError: No module named 'mypy_extensions'\n\n"
        "\tat org.apache.spark.api.python.BasePythonRunner.run(PythonRunner.scala:1)\n"
    )
    assert readable(Exception(text)) == (
        "Python failed in a task of Spark: ModuleNotFoundError: No module named 'mypy_extensions'"
    )


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*build.command(), "pipeline", "sweep", *arguments],
        capture_output=True,
        text=True,
        env={**build.environment(), **environment},
        timeout=600,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--seeds", "5:"), "--seeds: give an end, FIRST:END, not '5:'"),
        (("--seeds", "9:3"), "seeds are FIRST:END"),
        (("--faults", "earthquake"), "there is no fault 'earthquake'; there are: cut, "),
        (("--json", "/nowhere/x.json"), "--json: there is no directory /nowhere"),
        (("--conf", "spark"), "--conf: 'spark' is not NAME=VALUE"),
    ],
)
def test_mistakes_end_with_a_line(arguments: tuple[str, ...], message: str) -> None:
    done = command(*arguments)
    assert done.returncode == 2
    assert message in done.stderr and "Traceback" not in done.stderr


# -- on Spark


@pytest.fixture(scope="module")
def planted(spark: Spark, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A module that the workers of Spark can import."""
    name = f"planted_{os.getpid()}_{time.monotonic_ns()}"
    path = tmp_path_factory.mktemp("planted") / f"{name}.py"
    path.write_text(PLANTED)
    spark.sparkContext.addPyFile(str(path))
    return __import__(name)


def spread(spark: Spark, options: job.SweepOptions) -> Any:
    return job.run(spark, options, NoBar())


class TestLocal:
    """On local[2]."""

    pytestmark = on_spark

    def test_verdicts_sums_and_rows_are_those_of_simulate(
        self, spark: Spark, tmp_path: Path
    ) -> None:
        folder = str(tmp_path / "rows")
        report = spread(spark, job.SweepOptions(0, 30, SMALL, partitions=7, parquet=folder))
        expected = summed(range(30), SMALL).as_json()
        assert report.passed and {**report.facts, **expected} == report.facts
        assert report.facts["partitions"] == 7
        rows = {row["seed"]: row for row in spark.read.parquet(folder).collect()}
        for one in sweep(range(30), SMALL, 2):
            row = rows.pop(one.seed)
            assert row["checker"] is None and row["violations"] == []
            assert (row["trace_hash"], row["virtual_ms"], row["counters"]) == (
                one.trace_hash,
                one.virtual_ms,
                one.counters,
            )
        assert rows == {}

    def test_a_planted_violation_is_a_failed_seed(self, spark: Spark, planted: Any) -> None:
        task = Task(2, 10, judges=(planted.AlwaysFails,))
        report = spread(spark, job.SweepOptions(4, 8, task))
        expected = summed(range(4, 8), task)
        assert not report.passed and len(expected.failed) == 4
        assert report.facts["failed"] == expected.as_json()["failed"]
        assert "planted" in report.facts["failed"]["4"][0]
        assert report.lines[0] == "4 of 4 seeds FAILED: 4 5 6 7"

    def test_a_seed_that_hangs_or_kills_its_process_has_a_row(
        self, spark: Spark, planted: Any
    ) -> None:
        report = spread(spark, job.SweepOptions(0, 8, planted.Planted(2, 10), 10.0, 2))
        assert report.facts["seeds"] == 8
        assert report.facts["failed"] == {
            "3": ["crash at 0 ms: its process died: exit status 7"],
            "5": ["crash at 0 ms: its process died: signal SIGKILL"],
            "6": ["hang at 0 ms: no verdict after 10 s"],
        }

    def test_a_directory_that_exists_is_refused_before_the_seeds_run(
        self, spark: Spark, planted: Any, tmp_path: Path
    ) -> None:
        # Seed 6 would take an hour.
        options = job.SweepOptions(6, 7, planted.Planted(), 4000.0, parquet=str(tmp_path))
        with pytest.raises(OptionError, match="--parquet: .* exists already"):
            spread(spark, options)


@pytest.mark.spark
@pytest.mark.live
@pytest.mark.timeout(900)
def test_the_command_on_a_standalone_cluster(tmp_path: Path) -> None:
    path = tmp_path / "sums.json"
    arguments = ("--seeds", "0:30", "--regions", "2", "--ops", "20", "--json", str(path))
    with SparkCluster(tmp_path) as cluster:
        done = command("--master", cluster.master, *arguments, **spark_environment())
    assert done.returncode == 0, done
    assert done.stdout.startswith("30 seeds, no violation\n")
    assert "Faults injected" in done.stdout and "simulating 30 seeds" in done.stderr
    sums = json.loads(path.read_text())
    assert {**sums, **summed(range(30), SMALL).as_json()} == sums
