"""Scenario files with faults, clients and times, and files written from runs of the simulator."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from anabranch.cluster.errors import ClusterError
from anabranch.sim.draw import draw_plan
from anabranch.sim.history import Checker, End, Operation
from anabranch.sim.plan import OF_TWO, Plan
from anabranch.sim.run import run_plan
from anabranch.sim.scenario.admins import Endpoint
from anabranch.sim.scenario.cells import Command, tokens_of
from anabranch.sim.scenario.live import LiveCluster
from anabranch.sim.scenario.mismatch import Mismatch
from anabranch.sim.scenario.parser import cells_of, parse
from anabranch.sim.scenario.recording import Notes, Told
from anabranch.sim.scenario.virtual import run_virtually
from anabranch.sim.scenario.writing import write_story
from anabranch.sim.world.faults import KINDS

Line = tuple[Any, ...]
OPEN = "links: open\njudges: all\n\n"
HEADS = "| Time | Region 1 | Region 2 | Region 3 |\n| --- | --- | --- | --- |\n"


def run(*rows: str, above: str = OPEN) -> list[Mismatch]:
    """The mismatches of a table of three regions."""
    mismatches, _ = run_virtually(parse(above + HEADS + "\n".join(rows) + "\n", "story"))
    return mismatches


class Grumbler(Checker):
    """A judge that reports a violation in every run."""

    name = "grumbler"

    def finish(self, end: End) -> None:
        self.fail(end.at_ms, 2, "nothing is as it was")


class Clumsy(Checker):
    """A judge that raises an exception."""

    name = "clumsy"

    def executed(self, operation: Operation) -> None:
        raise ZeroDivisionError("oops")


# -- runs written as files


def lines_of(lines: list[Line]) -> list[Line]:
    """The lines that a trace's hash covers. Faults of one region lack their second region."""
    aside = ("sends", "never hears", "posts", "gives up", "frames")
    return [
        (line[0], line[2], line[3], line[5]) if line[2] == "fault" else line
        for line in lines
        if line[2] not in aside
    ]


def recorded(plan: Plan) -> tuple[list[Line], str]:
    """The trace of a plan without judges, and its scenario file."""
    notes = Notes()
    trace: list[Line] = []

    def tell(line: Line) -> None:
        trace.append(line)
        notes.tell(line)

    run_plan(plan, [notes.judge], tell)
    return trace, write_story(plan, notes.told, "A seed")


@pytest.mark.parametrize("seed", [2, 6, 28, 60])
@pytest.mark.parametrize("regions", [2, 3])
def test_a_run_told_as_a_file_goes_on_as_it_did(seed: int, regions: int) -> None:
    first, text = recorded(draw_plan(seed, regions, 120))
    second: list[Line] = []
    mismatches, violations = run_virtually(parse(text), [], second.append)
    assert not mismatches and not violations
    assert len(first) > 100 and lines_of(second) == lines_of(first)


def test_what_is_generated_is_bound_where_a_command_names_it() -> None:
    plan = draw_plan(1, 2, 10)
    told = [
        Told(5, 1, 1, ((b"XADD", b"x", b"*", b"t", b"1"),), {0: ("1700000000005-1",)}),
        Told(5, 1, 1, ((b"XADD", b"x", b"*", b"t", b"2"),), {0: ("1700000000005-1001",)}),
        Told(
            9,
            2,
            2,
            ((b"MULTI",), (b"XADD", b"x", b"*", b"t", b"3"), (b"DEL", b"y"), (b"EXEC",)),
            {3: ("1700000000009-2", "…")},
        ),
        Told(9, 1, 1, ((b"XDEL", b"x", b"1700000000005-1"),)),
        Told(9, 1, 1),
        Told(10, 2, 2, ((b"XRANGE", b"x", b"(1700000000009-2", b"+"),)),
    ]
    rows = [
        line for line in write_story(plan.with_steps(()), told, "T").splitlines() if " ms |" in line
    ]
    assert rows == [
        "| 5 ms | 1: `XADD x * t 1` → 1700000000005-1<br/>1: `XADD x * t 2` |  |",
        "| 9 ms |  | 2: `MULTI` `XADD x * t 3` `DEL y` `EXEC` → [1700000000009-2, …] |",
        "| 9 ms | 1: `XDEL x 1700000000005-1`<br/>1: hang up |  |",
        "| 10 ms |  | 2: `XRANGE x (1700000000009-2 +` |",
    ]


def test_every_byte_can_be_written() -> None:
    words = (b"ECHO", bytes(range(256)), b"", b"a|b`c\\", b'say "so"', b"don't", b"\\", b" ")
    text = write_story(draw_plan(1, 2, 10).with_steps(()), [Told(5, 1, 1, (words,))], "T")
    (row,) = [line for line in text.splitlines() if line.startswith("| 5 ms")]
    assert tokens_of(cells_of(row)[1].removeprefix("1: "))[0] == Command(words)


def test_the_docs_name_every_fault_and_their_examples_run() -> None:
    docs = (Path(__file__).resolve().parents[2] / "docs" / "scenarios.md").read_text(
        encoding="utf-8"
    )
    rows = dict(
        line.strip("| ").split(" | ")
        for line in docs.splitlines()
        if line.startswith(("| this region", "| all, or"))
    )
    named = {where: set(re.findall(r"`([^`]+)`", kinds)) for where, kinds in rows.items()}
    assert named["this region and another"] == set(OF_TWO)
    assert set.union(*named.values()) == set(KINDS)
    examples = re.findall(r"^```markdown\n(.*?)^```", docs, re.DOTALL | re.MULTILINE)
    assert len(examples) == 2
    for example in examples:
        assert run_virtually(parse(example)) == ([], [])


# -- faults


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_fault_strikes_and_is_survived(kind: str) -> None:
    """A fault strikes region 3 while all regions write; no judge finds a violation at the end."""
    fault = f"— Fault: {kind}{' to us' if kind in OF_TWO else ''} 300 ms draw 5 —"
    struck: list[Line] = []
    rows = [
        "| 50 ms | 1: `XADD x * t 1` | 2: `XADD x * t 2` | 3: `XADD x * t 3` |",
        f"| 200 ms | | | {fault} |",
        "| 220 ms | 1: `XADD x * t 4` | 2: `XADD x * t 5` | 3: `XADD x * t 6` |",
        "| 700 ms | 1: `XADD x * t 7` | 2: `XADD x * t 8` | 3: `XADD x * t 9` |",
    ]
    mismatches, _ = run_virtually(parse(OPEN + HEADS + "\n".join(rows)), tell=struck.append)
    assert not mismatches
    assert [line[3:6] for line in struck if line[2] == "fault"] == [
        (kind, [3, 1] if kind in OF_TWO else [3], 300)
    ]


def test_a_killed_region_refuses_and_comes_back() -> None:
    rows = [
        "| 50 ms | `XADD x * t 1` → 5-1 | | |",
        "| 100 ms | — Kill 300 ms — | | |",
        "| 200 ms | `XLEN x` | | |",
        "| 300 ms | `XLEN x` → 1 | | |",
        "| 900 ms | `XLEN x` → 1 | | |",
    ]
    (mismatch,) = run(*rows)
    assert mismatch.line == 9 and mismatch.got.startswith("(refused")


def test_in_rows_without_a_time_a_region_that_is_away_is_waited_for() -> None:
    rows = [
        "| t1 | `XADD x * t 1` | | |",
        "| t2 | — Sync — | — Sync — | — Sync — |",
        "| t3 | — Pause 400 ms — | — Kill 5 s — | |",
    ]
    assert run(*rows, "| t4 | `XLEN x` → 1 | `XLEN x` → 1 | |") == []


def test_a_start_opens_no_link_that_the_table_keeps_closed() -> None:
    rows = [
        "| t1 | `XADD x 110 a 1` | | |",
        "| t2 | | — Kill — | — Restart — |",
        "| t3 | wait 500 ms | | |",
        "| t4 | | `XLEN x` → 0 | `XLEN x` → 0 |",
        "| t5 | — Sync — | — Sync — | |",
        "| t6 | | `XLEN x` → 1 | `XLEN x` → 0 |",
    ]
    assert run(*rows, above="set appendfsync: always\n\n") == []


def test_a_cut_keeps_open_links_closed_until_it_is_healed() -> None:
    rows = [
        "| 100 ms | — Cut — | — Cut — | — Cut — |",
        "| 110 ms | `XADD x 110 t 1` | | |",
        "| 300 ms | | `XLEN x` → 0 | `XLEN x` → 0 |",
        "| 310 ms | — Heal — | | — Heal — |",
        "| 600 ms | | `XLEN x` → 0 | `XLEN x` → 1 |",
        "| t6 | — Heal — | — Heal — | — Heal — |",
        "| t7 | — Sync — | — Sync — | — Sync — |",
        "| t8 | | `XLEN x` → 1 | |",
    ]
    assert run(*rows) == []
    assert run(*rows[:2]) == [], "a file may end while links are cut"


def test_what_was_answered_under_always_survives_a_power_cut() -> None:
    rows = [
        "| 50 ms | `XADD x 110 t 1` → 110-1 | | |",
        "| 100 ms | — Power cut 20 ms draw 3 — | | |",
        "| 900 ms | `XLEN x` → 1 | | |",
    ]
    assert run(*rows, above="set appendfsync: always\n" + OPEN) == []


# -- clients and times


def test_steps_happen_at_their_time() -> None:
    trace: list[Line] = []
    rows = [
        "| 120 ms | `XADD x * t 1` → 9-1 | | |",
        "| 120 ms | | `XLEN x` | |",
        "| 2 s | `XLEN x` → 1 | | |",
    ]
    mismatches, _ = run_virtually(parse(OPEN + HEADS + "\n".join(rows)), tell=trace.append)
    assert not mismatches
    assert [line[0] for line in trace if line[2] == "posts"][:3] == [120, 120, 2000]


def test_blocked_reads_do_not_hang_a_story() -> None:
    rows = [
        "| 20 ms | 1: `XREAD BLOCK 0 STREAMS x $` | 2: `XREAD BLOCK 0 STREAMS y $` | |",
        "| 50 ms | 1: `XLEN x` | | 3: `XADD x * t 1` |",
    ]
    assert run(*rows) == []
    expecting = [
        (
            "| 20 ms | 1: `XREAD BLOCK 0 STREAMS x 0` → [5-3] "
            "| 2: `XREAD BLOCK 0 STREAMS y 0` → [6-3] | |"
        ),
        rows[1],
    ]
    (mismatch,) = run(*expecting)
    assert (mismatch.region, mismatch.got) == ("eu", "no answer")


def test_a_client_that_hangs_up_takes_nothing_more() -> None:
    rows = [
        (
            "| 20 ms | 1: `XGROUP CREATE x g $ MKSTREAM` "
            "`XREADGROUP GROUP g ann BLOCK 0 STREAMS x >` | | |"
        ),
        "| 400 ms | 1: hang up | | |",
        "| 410 ms | 2: `XADD x * t 1` | | |",
        "| 500 ms | 2: `XPENDING x g` → [0, nil, nil, nil] | | |",
    ]
    assert run(*rows) == []
    (mismatch,) = run(*(row for row in rows if "hang up" not in row))
    assert mismatch.line == 8


def test_a_client_speaks_to_one_region_at_a_time() -> None:
    rows = [
        "| t1 | 1: `MULTI` `XADD x * t 1` | | |",
        "| t2 | | 1: `XLEN x` → 0 | |",
        "| t3 | 1: `EXEC` → (error) ERR EXEC without MULTI | | |",
    ]
    assert run(*rows) == []


# -- judges


def test_what_a_judge_finds_differs() -> None:
    text = OPEN + HEADS + "| 10 ms | `XADD x * t 1` | | |\n"
    mismatches, violations = run_virtually(parse(text, "story"), [Grumbler])
    assert [(one.region, one.expected) for one in mismatches] == [("grumbler", "no violation")]
    assert [violation.checker for violation in violations] == ["grumbler"]
    assert run_virtually(parse(text.replace("judges: all\n", "")), [Grumbler]) == ([], []), (
        "a file without `judges: all` is not judged"
    )


def test_an_exception_differs() -> None:
    mismatches, violations = run_virtually(
        parse(OPEN + HEADS + "| 10 ms | `XADD x * t 1` | | |\n", "story"), [Clumsy]
    )
    assert [one.got.partition(" (")[0] for one in mismatches] == ["ZeroDivisionError: oops"]
    assert [violation.checker for violation in violations] == ["world"]


def test_a_setting_that_is_wrong_is_said() -> None:
    (mismatch,) = run("| t1 | | | |", above="set appendfsync: perhaps\n\n")
    assert "a setting is wrong" in mismatch.got


# -- live


@pytest.mark.parametrize(
    ("above", "cell", "what"),
    [
        ("", "— Power cut —", "power cut"),
        ("", "— Fault: half-open to eu —", "half-open"),
        ("clock us: 50 ms\n", "", "clock of us"),
        ("loss: 0.5\n", "", "loss of answers"),
    ],
)
def test_what_only_the_simulator_can_do_is_refused_live(above: str, cell: str, what: str) -> None:
    cluster = LiveCluster({1: Endpoint("us", "127.0.0.1", 1)})
    with pytest.raises(ClusterError, match=f"only the simulator can do this: {what}"):
        cluster.prepare(parse(f"{above}\n{HEADS}| t1 | {cell} | | |\n"))
