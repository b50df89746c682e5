"""Sweeps: each seed has a verdict, even if its process dies; sums, tables, seeds and output."""

from __future__ import annotations

import gc
import io
import json
import os
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from anabranch import build
from anabranch.sim import ci, simulate
from anabranch.sim.draw import FAULTS, draw_plan
from anabranch.sim.history import Violation
from anabranch.sim.replay import replay
from anabranch.sim.replay import show as show_replay
from anabranch.sim.run import Result, run_seed
from anabranch.sim.seeds import FailedSeed, SeedsError, chosen_by, failed, in_range
from anabranch.sim.sweep import Died, Task, in_processes, sweep
from anabranch.sim.tally import Tally, known_names, show

PLANTED = '''
"""Tasks and judges for workers to import."""

import os
import time

from anabranch.sim.history import Checker


def square(number):
    if number == 3:
        os._exit(7)
    if number == 5:
        os.kill(os.getpid(), 9)
    if number == 6:
        time.sleep(60)
    return number * number


def says_so_and_hangs(number):
    print("hangs", flush=True)
    time.sleep(3600)


class AlwaysFails(Checker):
    name = "always_fails"

    def finish(self, end):
        self.fail(end.at_ms, 1, "planted")
'''


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module that the worker processes can import."""
    name = f"planted_{os.getpid()}_{time.monotonic_ns()}"
    (tmp_path / f"{name}.py").write_text(PLANTED)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def console() -> Console:
    return Console(file=io.StringIO(), width=160)


def printed(on: Console) -> str:
    assert isinstance(on.file, io.StringIO)
    return on.file.getvalue()


# -- processes


def test_a_number_that_kills_its_process_is_named_and_the_others_go_on(planted: str) -> None:
    task = __import__(planted).square
    results = dict(in_processes(range(6), task, 2, 30.0))
    assert {number: results[number] for number in (0, 1, 2, 4)} == {0: 0, 1: 1, 2: 4, 4: 16}
    assert results[3] == Died("crash", "its process died: exit status 7")
    assert results[5] == Died("crash", "its process died: signal SIGKILL")


def test_a_number_that_hangs_is_given_up(planted: str) -> None:
    task = __import__(planted).square
    began_s = time.monotonic()
    results = dict(in_processes([6, 1, 2], task, 2, 10.0))
    assert results == {6: Died("hang", "no verdict after 10 s"), 1: 1, 2: 4}
    assert time.monotonic() - began_s < 60


def test_a_worker_does_not_drop_what_its_parent_left(planted: str) -> None:
    """A server of gRPC that waited for the garbage collector hung when a forked worker dropped it.

    Tests that ran after those of regions in the same process took two minutes.
    """
    parent = os.getpid()

    class Left:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            if os.getpid() != parent:
                time.sleep(3600)

    task = __import__(planted).square
    gc.disable()
    try:
        Left()
        assert dict(in_processes([1, 2], task, 1, 10.0)) == {1: 1, 2: 4}
    finally:
        gc.enable()


def test_a_number_that_hangs_ends_without_its_parent(planted: str, tmp_path: Path) -> None:
    """A task of Spark whose executor is killed leaves nobody to end the number."""
    program = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
import {planted}
from anabranch.sim.sweep import in_processes

list(in_processes([9], {planted}.says_so_and_hangs, 1, 1.0))
"""
    parent = subprocess.Popen(
        [sys.executable, "-P", "-c", program], env=build.environment(), stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"hangs\n"
    parent.kill()
    parent.wait()
    # The child holds the other end of the pipe until it ends.
    assert parent.stdout.read() == b""


def test_no_number_is_begun_after_its_time(planted: str) -> None:
    task = __import__(planted).square
    assert list(in_processes(range(100), task, 2, 30.0, until_s=time.monotonic() - 1)) == []


def test_results_do_not_depend_on_processes() -> None:
    alone = {seed: run_seed(seed, 2, 20) for seed in range(6)}
    together = {result.seed: result for result in sweep(range(6), Task(2, 20), jobs=2)}
    assert {seed: (one.trace_hash, one.counters) for seed, one in alone.items()} == {
        seed: (one.trace_hash, one.counters) for seed, one in together.items()
    }


# -- sums and the table


def result(seed: int, violations: int = 0, **counters: int) -> Result:
    found = [
        Violation("digests", 1_700_000_000_005, 1, f"number {number}")
        for number in range(violations)
    ]
    return Result(
        seed,
        found,
        "",
        1000,
        {name.replace("__", ":").replace("_", " "): count for name, count in counters.items()},
    )


def test_sums_do_not_depend_on_the_order() -> None:
    results = [
        result(1, fault__cut=3, checkpoint=2),
        result(2, 1, fault__cut=1),
        result(3, rule__S61=0),
    ]
    forward, backward = Tally(), Tally()
    for one in results:
        forward.add(one)
    for one in reversed(results):
        backward.add(one)
    assert forward.as_json() == backward.as_json()
    assert forward.times == Counter({"fault:cut": 4, "checkpoint": 2})
    assert forward.in_seeds["fault:cut"] == 2
    assert round(forward.percent("fault:cut"), 1) == 66.7
    assert forward.as_json()["failed"] == {
        "2": ["digests at 1700000000005 ms in region 1: number 0"]
    }


def test_the_table_has_every_kind_of_fault_and_names_the_rare() -> None:
    tally = Tally()
    for seed in range(200):
        tally.add(
            result(
                seed,
                fault__cut=1,
                **({"fault__kill": 1} if seed == 0 else {}),
                **({"fault__pause": 2} if seed < 2 else {}),
            )
        )
    on = console()
    show(tally, on, {"fault": tuple(FAULTS)})
    text = printed(on)
    assert all(kind in text for kind in FAULTS)
    rare = text.split("in less than 1 % of the seeds: ")[1]
    assert "fault:kill" in rare and "fault:blackout" in rare  # 0.5 %, 0 %
    assert "fault:cut" not in rare and "fault:pause" not in rare  # 100 %, 1 %
    cut = next(line for line in text.splitlines() if line.startswith("cut"))
    assert cut.split() == ["cut", "200", "200", "100.0"]


def test_counters_of_no_section_are_shown_as_others() -> None:
    tally = Tally()
    tally.add(Result(1, [], "", 1, {"died in a write: kill": 1, "commands": 9, "sync:gaps": 1}))
    assert tally.names("") == ["commands", "died in a write: kill"]
    assert tally.names("sync") == ["sync:gaps"]
    assert set(known_names()["fault"]) >= set(FAULTS)


# -- failures


def test_a_sweep_tells_of_a_failure_and_how_to_replay_it(planted: str) -> None:
    task = Task(2, 10, ("kill",), judges=(__import__(planted).AlwaysFails,))
    on = console()
    tally = simulate.run(range(4), 4, simulate.Asked(task, jobs=2, shrink_s=0), on)
    text = printed(on)
    assert len(tally.failed) == 4
    assert "seed 2 FAILED\n  always_fails at " in text
    assert 'anabranch simulate --replay 2 --regions 2 --ops 10 --faults "kill"' in text
    assert "4 of 4 seeds FAILED: 0 1 2 3" in text
    assert "seeds/s" in text and "simulated hours per hour" in text


def test_ci_names_the_failed_seeds_at_the_end(
    planted: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They stand above five tables, which are all that the end of a long output shows."""
    task = partial(Task, 2, 10, ("kill",), judges=(__import__(planted).AlwaysFails,))
    monkeypatch.setattr(ci, "Task", lambda regions=2, **flavour: task(**flavour))
    monkeypatch.setattr(ci, "same_traces", lambda seeds, console: True)
    monkeypatch.setattr(simulate, "run_failed", lambda plan, console: [])
    monkeypatch.setattr(simulate, "write_stories", lambda failed, plan, console: None)
    assert ci.main(["--seeds", "5", "--jobs", "1", "--text", "x"]) == 1
    lines = capsys.readouterr().out.rstrip("\n").split("\n")
    (seed, *_) = chosen_by("x", 5)
    assert lines[-1].startswith(f"  anabranch simulate --replay {seed}")
    assert lines[-1].endswith(" --outside") and f"seed {seed} FAILED" in lines[-8:]


def test_no_violation_is_said() -> None:
    on = console()
    assert not simulate.run(range(2), 2, simulate.Asked(Task(2, 10), shrink_s=0), on).failed
    assert printed(on).endswith("2 seeds, no violation\n")


# -- seeds


def test_lists_of_failed_seeds(tmp_path: Path) -> None:
    path = tmp_path / "failed.txt"
    path.write_text("# seeds\n\n17 3 300 digests: a trim was forgotten\n5 5 1000 world  # raised\n")
    assert failed(path) == [
        FailedSeed(17, 3, 300, False, "digests: a trim was forgotten"),
        FailedSeed(5, 5, 1000, False, "world"),
    ]
    path.write_text("17 3 digests\n")
    with pytest.raises(SeedsError, match="failed.txt:1"):
        failed(path)
    failed()  # the list of the source tree


def test_failed_seeds_run_with_their_own_scale(tmp_path: Path) -> None:
    path = tmp_path / "failed.txt"
    path.write_text("1 2 10 one\n2 2 10 another\n3 3 15 a third\n")
    on = console()
    assert simulate.run_failed(simulate.Asked(), on, path) == []
    assert "2 seeds that failed once, of 2 regions and 10 operations" in printed(on)
    assert "1 seed that failed once, of 3 regions and 15 operations" in printed(on)


def test_ranges_of_seeds() -> None:
    assert in_range("0:1000") == (0, 1000)
    assert in_range("7:") == (7, None)
    assert in_range("7") == (7, 8)
    for wrong in ("", ":5", "5:5", "9:3", "a:b", "-1:4"):
        with pytest.raises(SeedsError):
            in_range(wrong)


def test_commits_choose_seeds() -> None:
    one, other = chosen_by("a" * 40, 1000), chosen_by("b" * 40, 1000)
    assert len(one) == len(other) == 1000
    assert one == chosen_by("a" * 40, 1000)
    assert not set(one) & set(other)


# -- replay


def test_a_replay_tells_what_happened_and_changes_nothing() -> None:
    plan = next(plan for plan in (draw_plan(seed, 3, 60) for seed in range(100)) if plan.faults())
    lines: list[tuple[int, int, str]] = []
    told = replay(plan, [], lines.append)
    assert told.trace_hash == run_seed(plan.seed, 3, 60).trace_hash
    words = [text for _, _, text in lines]
    assert any(text.startswith("starts (the first time)") for text in words)
    assert any(text.startswith("client ") and " → " in text for text in words)
    for beginning in (
        "commits up to row",
        "sends eu Batch",
        "hears Batch from",
        "merges ",
        "FAULT ",
    ):
        assert any(text.startswith(beginning) for text in words), beginning
    assert any(text.startswith("HEALED") for text in words) and any(
        text.startswith("LEVEL after") for text in words
    )
    assert [at_ms for at_ms, _, _ in lines] == sorted(at_ms for at_ms, _, _ in lines)


def test_a_shown_replay_has_plan_run_and_verdict(planted: str) -> None:
    on = console()
    found = show_replay(draw_plan(1, 2, 10), [__import__(planted).AlwaysFails], on)
    text = printed(on)
    assert [violation.checker for violation in found.violations] == ["always_fails"]
    assert text.startswith("seed 1: 2 regions, 9 acts")
    assert "VIOLATION always_fails at " in text
    assert f"trace {found.trace_hash}" in text


# -- command line


def anabranch(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    line = [*build.command(), "simulate", *arguments]
    env = {**build.environment(), "COLUMNS": "160", **environment}
    return subprocess.run(
        line, capture_output=True, text=True, cwd=cwd, env=env, timeout=100, check=False
    )


def test_help_names_every_option(tmp_path: Path) -> None:
    text = anabranch("--help", cwd=tmp_path).stdout
    for option in (
        "--seeds",
        "--regions",
        "--ops",
        "--jobs",
        "--faults",
        "--minutes",
        "--replay",
        "--restores",
        "--stories",
        "--failed",
        "--hashes",
        "--json",
    ):
        assert option in text


def test_a_sweep_from_the_command_line(tmp_path: Path) -> None:
    done = anabranch(
        "--seeds",
        "0:3",
        "--regions",
        "2",
        "--ops",
        "20",
        "--jobs",
        "2",
        "--json",
        "sums.json",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done
    assert "Faults injected" in done.stdout and "3 seeds, no violation" in done.stdout
    sums = json.loads((tmp_path / "sums.json").read_text())
    assert sums["seeds"] == 3 and sums["failed"] == {}
    assert sums["counters"]["commands"]["seeds"] == 3


def test_faults_are_chosen(tmp_path: Path) -> None:
    arguments = (
        "--seeds",
        "0:8",
        "--regions",
        "2",
        "--ops",
        "10",
        "--json",
        "sums.json",
        "--faults",
    )
    assert anabranch(*arguments, "none", cwd=tmp_path).returncode == 0
    counters = json.loads((tmp_path / "sums.json").read_text())["counters"]
    assert [
        name for name in counters if name.startswith("fault:") and name != "fault:answer lost"
    ] == []
    assert anabranch(*arguments, "kill,pause", cwd=tmp_path).returncode == 0
    counters = json.loads((tmp_path / "sums.json").read_text())["counters"]
    found = {name for name in counters if name.startswith("fault:")} - {"fault:answer lost"}
    assert found and found <= {"fault:kill", "fault:pause"}


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--seeds", "5:2"), "seeds are FIRST:END"),
        (("--seeds", "5:"), "seeds without an end need --minutes"),
        (("--hashes", "5:"), "trace hashes need seeds with an end, FIRST:END, not '5:'"),
        (("--faults", "earthquake"), "there is no fault 'earthquake'; there are: cut, "),
    ],
)
def test_mistakes_end_with_a_line(tmp_path: Path, arguments: tuple[str, ...], part: str) -> None:
    done = anabranch(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert part in done.stderr and "Traceback" not in done.stderr


def test_restores_from_the_command_line(tmp_path: Path) -> None:
    arguments = ("--restores", "--regions", "3", "--ops", "10", "--faults", "none")
    done = anabranch(*arguments, "--seeds", "0:4", "--json", "sums.json", cwd=tmp_path)
    assert done.returncode == 0 and "4 seeds, no violation" in done.stdout, done
    sums = json.loads((tmp_path / "sums.json").read_text())
    assert sums["counters"]["fault:forgotten restore"]["seeds"] == 4
    done = anabranch(*arguments, "--replay", "3", cwd=tmp_path)
    assert done.returncode == 0
    assert "FAULT forgotten restore" in done.stdout and "no violation in " in done.stdout
    done = anabranch("--restores", "yes", cwd=tmp_path)
    assert done.returncode == 2 and "Traceback" not in done.stderr


def test_hashes_are_those_of_the_chosen_runs(tmp_path: Path) -> None:
    arguments = ("--hashes", "1:3", "--regions", "2", "--ops", "10")
    for more, task in (
        ((), Task(2, 10)),
        (("--restores",), Task(2, 10, restores=True)),
        (("--faults", "none"), Task(2, 10, ())),
    ):
        done = anabranch(*arguments, *more, cwd=tmp_path)
        assert done.returncode == 0, done
        assert done.stdout.splitlines() == [f"{seed} {task(seed).trace_hash}" for seed in (1, 2)]


def test_a_replay_from_the_command_line(tmp_path: Path) -> None:
    done = anabranch("--replay", "3", "--regions", "2", "--ops", "10", cwd=tmp_path)
    assert done.returncode == 0
    assert "seed 3: 2 regions, 9 acts" in done.stdout and "no violation in " in done.stdout
