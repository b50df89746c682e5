"""The scenario parser: scenario files as values, and errors that name their line."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from anabranch.sim.plan import OF_TWO, Fault
from anabranch.sim.scenario import fault_cells
from anabranch.sim.scenario.cells import Arrow, Command, Directive, Pause, tokens_of, words_of
from anabranch.sim.scenario.expectation import Between, ErrorPrefix, Items, Nil, Word
from anabranch.sim.scenario.fault_cells import fault_of, written
from anabranch.sim.scenario.model import (
    Call,
    Cut,
    ExpectedReply,
    HangUp,
    Heal,
    ScenarioError,
    Strike,
    Surroundings,
    Sync,
    Until,
    Wait,
)
from anabranch.sim.scenario.outages import LIVE
from anabranch.sim.scenario.parser import load, parse
from anabranch.sim.scenario.running import scenario_files
from anabranch.sim.scenario.virtual import run_virtually
from anabranch.sim.world.faults import KINDS
from tests.support.cluster import child_env

FILES = Path(__file__).resolve().parents[2] / "anabranch" / "sim" / "scenarios"


def table(*rows: str, heads: str = "| Time | Region 1 | Region 2 |", above: str = "") -> str:
    """A scenario file with the lines `above`, the headings `heads` and these rows."""
    return "\n".join([*above.splitlines(), heads, "| --- | --- | --- |", *rows]) + "\n"


def test_a_table_of_the_seed() -> None:
    scenario = parse(
        table(
            "| _t1_   | `XADD x 100-1 f1 v1`              | `XADD x 100-1 f1 v1`              |",
            "| _t2_   | _— Sync —_                    | — Sync —                    |",
            "| _t3_   | `XRANGE x - +`<br/> **→ [100-1, 100-1]** "
            "| `XRANGE x - +`<br/> **→[100-1]** |",
            above="# Title\nid-mode: semi-strict\n",
        )
    )
    assert scenario.title == "Title"
    assert (scenario.id_mode, scenario.columns, scenario.members) == ("semi-strict", (1, 2), 2)
    first, second, sync, *reads = scenario.steps
    assert first == Call(5, "t1", 1, (b"XADD", b"x", b"100-1", b"f1", b"v1"), None)
    assert isinstance(second, Call) and second.region == 2
    assert sync == Sync(6, "t2", (1, 2))
    both = Items((Word("100-1"), Word("100-1")))
    assert reads == [
        Call(7, "t3", 1, (b"XRANGE", b"x", b"-", b"+"), both),
        Call(7, "t3", 2, (b"XRANGE", b"x", b"-", b"+"), Items((Word("100-1"),))),
    ]


def test_several_commands_in_one_cell() -> None:
    assert tokens_of("`XLEN x` → 1<br/>`DEL x` `EXISTS x` → (integer) 0") == [
        Command((b"XLEN", b"x")),
        Arrow(Between(1, 1)),
        Command((b"DEL", b"x")),
        Command((b"EXISTS", b"x")),
        Arrow(Between(0, 0)),
    ]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("nil", Nil()),
        ("(nil)", Nil()),
        ("(error)", ErrorPrefix("")),
        ("(error) NOGROUP No such", ErrorPrefix("NOGROUP No such")),
        ("-2", Between(-2, -2)),
        ("900..1000", Between(900, 1000)),
        ("OK", Word("OK")),
        ('"two words, 3"', Word("two words, 3")),
        ("1589929244828-1", Word("1589929244828-1")),
        ("[]", Items(())),
        ("[group1, group2]", Items((Word("group1"), Word("group2")))),
        ("{x, y}", Items((Word("x"), Word("y")), ordered=False)),
        ("[OK, [1-1, 2-1], nil]", Items((Word("OK"), Items((Word("1-1"), Word("2-1"))), Nil()))),
        (
            "[110-1 text=hello n=1, 120-1]",
            Items((Word("110-1", (("text", "hello"), ("n", "1"))), Word("120-1"))),
        ),
        (
            "[length=1, last-generated-id=5-1]",
            Items((Word("", (("length", "1"), ("last-generated-id", "5-1"))),)),
        ),
        ("`OK`", Word("OK")),
    ],
)
def test_what_must_be_returned(written: str, expected: object) -> None:
    assert tokens_of(f"`PING` → {written}")[1] == Arrow(expected)  # type: ignore[arg-type]


def test_directives() -> None:
    assert tokens_of("_— Sync —_") == [Directive("sync")]
    assert tokens_of("Sync") == [Directive("sync")]
    assert tokens_of("— Sync —, effects us=1 eu=0") == [Directive("sync", (("us", 1), ("eu", 0)))]
    assert tokens_of("— Cut —") == [Directive("cut")]
    assert tokens_of("_— Heal —_") == [Directive("heal")]
    assert tokens_of("`PING`<br/>wait 300 ms<br/>wait 2 s") == [
        Command((b"PING",)),
        Pause(300),
        Pause(2000),
    ]
    assert tokens_of("") == []


def test_words_are_split_as_redis_cli_does() -> None:
    assert words_of('XADD s * "two words" "\\x00\\n\\"" \'it\\\'s "so"\'') == (
        b"XADD",
        b"s",
        b"*",
        b"two words",
        b'\x00\n"',
        b'it\'s "so"',
    )


def test_words_may_hold_bytes_that_are_not_utf_8() -> None:
    """A recorder hands on what was typed, with such bytes as surrogates."""
    assert words_of('XADD k\udcff "v\udcfe" f') == (b"XADD", b"k\xff", b"v\xfe", b"f")


def test_steps_of_all_kinds() -> None:
    scenario = parse(
        table(
            "| t1 | — Cut — | — Cut — |",
            "| t2 | `XREAD BLOCK 0 STREAMS x $` → (blocked) | wait 10 ms |",
            "| t3 | — Sync — effects us=1 2=3 | — Sync — |",
            "| t4 | → [1-1] | |",
            "| t5 | — Heal — | — Heal — |",
        )
    )
    cut, blocked, wait, sync, answer, heal = scenario.steps
    assert cut == Cut(3, "t1", (1, 2))
    assert isinstance(blocked, Call) and blocked.blocks and blocked.expected is None
    assert wait == Wait(4, "t2", 10)
    assert sync == Sync(5, "t3", (1, 2), ((1, 1), (2, 3)))
    assert answer == ExpectedReply(6, "t4", 1, Items((Word("1-1"),)))
    assert heal == Heal(7, "t5", (1, 2))


def test_header_and_columns() -> None:
    text = (
        "---\nid-mode: liberal\nregions: 5\nnames: north, south\n"
        "set crdt-expiry-grace-ms: 100\n---\n# T\n\n"
        + table(
            "| t1 | `PING` | `PING` | a | b \\| c |",
            heads="| Time | south | Region 3 | Why | Explanation |",
        ).replace("| --- | --- | --- |", "| --- | --- | --- | --- | --- |")
    )
    scenario = parse(text)
    assert (scenario.id_mode, scenario.members, scenario.columns) == ("liberal", 5, (2, 3))
    assert scenario.settings == (("crdt-expiry-grace-ms", "100"),)
    assert scenario.name_of(2) == "south" and scenario.name_of(3) == "3"


def test_several_tables_are_one_scenario_and_others_are_prose() -> None:
    text = (
        table("| t1 | `PING` | |") + "\nprose\n\n| word | meaning |\n| --- | --- |\n| a | b |\n\n"
        "```\n| Time | Region 1 |\n| --- | --- |\n| t | bad |\n```\n"
    )
    assert [step.time for step in parse(text + table("| t2 | | `PING` |")).steps] == ["t1", "t2"]


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("no table", 1, "no scenario"),
        (table("| t1 | XLEN x | |"), 3, "text outside backticks"),
        (table("| t1 | `XLEN x | |"), 3, "backtick is not closed"),
        (table('| t1 | `XADD x * a "b` | |'), 3, "a quote is not closed"),
        (table("| t1 | `` | |"), 3, "no command"),
        (table("| t1 | `XLEN x` → | |"), 3, "an arrow without"),
        (table("| t1 | `XRANGE x - +` → [1-1, 2-1 | |"), 3, "']' is missing"),
        (table("| t1 | `XRANGE x - +` → [1-1] 2-1 | |"), 3, "follows the expected reply"),
        (table("| t1 | → 1 | |"), 3, "an arrow without a command"),
        (table("| t1 | `XLEN x` |"), 3, "2 cells under 3 headings"),
        (table("| t1 | — Sync — | |"), 3, "takes two regions"),
        (table("| t1 | — Sync — | `PING` |"), 3, "has no other commands"),
        (table("| t1 | — Sync — | — Cut — |"), 3, "either Sync, Cut or Heal"),
        (table("| t1 | — Sync — effects mars=1 | — Sync — |"), 3, "no such region"),
        (table("| t1 | — Sync — quickly | — Sync — |"), 3, "may only stand"),
        (
            table("| t1 | `XREAD BLOCK 0 STREAMS x $` → (blocked) | |"),
            3,
            "no expected reply in a later row",
        ),
        (
            table("| t1 | `XREAD BLOCK 0 STREAMS x $` → (blocked) | |", "| t2 | `PING` | |"),
            4,
            "gets a command while",
        ),
        (table("| t1 | | |", heads="| Time | Region 1 | Mars |"), 1, "a column is"),
        (table("| t1 | | |", heads="| Time | Region 1 | Region 1 |"), 1, "different regions"),
        (table("| t1 | | |", above="id-mode: lax"), 1, "id-mode is one of"),
        ("---\nmode: strict\n---\n" + table("| t1 | | |"), 2, "the header knows"),
        ("---\nid-mode strict\n---\n" + table("| t1 | | |"), 2, "key: value"),
        ("---\nid-mode: strict\n" + table("| t1 | | |"), 3, "key: value"),
        (table("| t1 | | |", above="regions: 99"), 1, "from 2 to 16"),
        (
            table("| t1 | | |")
            + "\n"
            + table("| t2 | | |", heads="| Time | Region 1 | Region 3 |"),
            5,
            "same regions",
        ),
    ],
)
def test_errors_name_the_line(text: str, line: int, part: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse(text, "file.md")
    assert caught.value.line == line, str(caught.value)
    assert part in str(caught.value) and str(caught.value).startswith(f"file.md:{line}: ")


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(ScenarioError, match="cannot be read"):
        load(FILES / "missing.md")


@pytest.mark.parametrize("path", scenario_files([FILES]), ids=lambda path: path.stem)
def test_every_file_is_read_and_expects_something(path: Path) -> None:
    """Every scenario file has an expected reply, and cites a rule in the text above its table."""
    scenario = load(path)
    assert any(call.expected is not None for call in scenario.calls())
    assert "S" in path.read_text(encoding="utf-8").split("|")[0], (
        "the text above the table does not cite the rule that the scenario shows"
    )


def test_clients_have_labels_and_hang_up() -> None:
    scenario = parse(
        table("| t1 | 3: `MULTI` `PING`<br/>7: `PING` → PONG 0: `ECHO a` | 3: hang up `PING` |")
    )
    calls = [
        (step.region, step.client, step.post) if isinstance(step, Call) else step
        for step in scenario.steps
    ]
    assert calls == [(1, 3, 1), (1, 3, 1), (1, 7, 2), (1, 0, 3), HangUp(3, "t1", 2, 3), (2, 3, 1)]


def test_blocked_commands_belong_to_a_client() -> None:
    scenario = parse(
        table("| t1 | 3: `PING` → (blocked)<br/>4: `PING` | |", "| t2 | `PING` 3: → PONG | |")
    )
    assert scenario.steps[-1] == ExpectedReply(4, "t2", 1, Word("PONG"), 3)


def test_rows_with_a_time_in_ms_wait_for_nobody() -> None:
    """A row with a time in ms sends its commands at that time, without waiting for replies."""
    scenario = parse(table("| 120 ms | `PING` | |", "| 2 s | | `PING` |", "| t3 | `PING` | |"))
    assert [
        step.at_ms if isinstance(step, Until) else isinstance(step, Call) and step.at_once
        for step in scenario.steps
    ] == [120, True, 2000, True, False]


@pytest.mark.parametrize(
    ("cell", "fault"),
    [
        ("— Kill —", Fault(0, "kill", (1,), 0, 0)),
        ("_— Kill 300 ms —_", Fault(0, "kill", (1,), 300, 0)),
        ("Restart 1 s", Fault(0, "clean restart", (1,), 1000, 0)),
        ("— Pause 200 ms —", Fault(0, "pause", (1,), 200, 0)),
        ("— Power cut 300 ms draw 12345 —", Fault(0, "power cut", (1,), 300, 12345)),
        ("— Fault: kill in a write 10 ms draw 3 —", Fault(0, "kill in a write", (1,), 10, 3)),
        ("— Fault: I/O errors 300 ms —", Fault(0, "I/O errors", (1,), 300, 0)),
        ("— Fault: one-way cut to eu 300 ms draw 9 —", Fault(0, "one-way cut", (1, 2), 300, 9)),
        ("— Fault: half-open to 2 —", Fault(0, "half-open", (1, 2), 0, 0)),
    ],
)
def test_faults(cell: str, fault: Fault) -> None:
    scenario = parse(table(f"| t1 | {cell} | `PING` |"))
    assert scenario.steps[0] == Strike(3, "t1", fault)
    assert fault_of(written(fault, "eu")) == fault_of(cell.strip("_").replace("to 2", "to eu"))


def test_faults_are_known_without_the_simulator() -> None:
    """Live runs of files with a fault needed apsw, of which they use nothing."""
    assert set(fault_cells.KINDS) == set(KINDS)
    program = (
        "import sys; sys.modules['apsw'] = None\n"
        "from anabranch.sim.scenario.fault_cells import fault_of\n"
        "print(fault_of('kill').kind)"
    )
    line = [sys.executable, "-P", "-c", program]
    ended = subprocess.run(
        line, capture_output=True, text=True, env=child_env(), timeout=100, check=False
    )
    assert ended.stdout == "kill\n", ended.stderr


def test_every_kind_of_fault_can_be_written_and_read() -> None:
    for kind in KINDS:
        fault = Fault(0, kind, (1, 2) if kind in OF_TWO else (1,), 20, 7)
        (step,) = parse(table(f"| t1 | {written(fault, 'eu')} | |")).steps
        assert isinstance(step, Strike) and (
            step.fault.kind,
            step.fault.regions,
            step.fault.duration_ms,
        ) == (kind, fault.regions, 20)
    assert set(OF_TWO) <= set(KINDS) and set(KINDS) >= LIVE


def test_the_header_of_a_story() -> None:
    above = """---
links: open
judges: all
seed: 17
regions: us, ap
names: us, eu, ap
dials: us from ap
delay: 1..5 ms
tick: 25 ms
loss: 0.02
traits: encoded
until: 900 ms
clients: 4, 2
clock ap: -300 ms
set appendfsync: always
set ap crdt-log-max-effects: 10
set us appendfsync: no
id-mode: liberal
---
"""
    scenario = parse(above + table("| 1 ms | `PING` | |", heads="| Time | us | ap |"))
    assert (scenario.links_open, scenario.judged, scenario.regions, scenario.links) == (
        True,
        True,
        (1, 3),
        ((1, 3),),
    )
    assert (scenario.until_ms, scenario.members) == (900, 3)
    assert scenario.surroundings == Surroundings(
        17, (1, 5), 25, 0.02, ("encoded",), ((3, -300),), (4, 2)
    )
    mode = {"crdt-xadd-id-uniqueness-mode": "liberal"}
    assert scenario.settings_of(1) == {**mode, "appendfsync": "no"}
    assert scenario.settings_of(3) == {
        **mode,
        "appendfsync": "always",
        "crdt-log-max-effects": "10",
    }


@pytest.mark.parametrize(
    ("shape", "links"),
    [
        ("mesh", ((1, 2), (1, 3), (2, 1), (2, 3), (3, 1), (3, 2))),
        ("line", ((1, 2), (2, 3), (2, 1), (3, 2))),
        ("ring", ((1, 3), (2, 1), (3, 2))),
        ("star", ((1, 2), (1, 3), (2, 1), (3, 1))),
    ],
)
def test_shapes_of_links(shape: str, links: tuple[tuple[int, int], ...]) -> None:
    assert parse(table("| t1 | | |", above=f"regions: 3\ndials: {shape}")).links == links


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        (table("| t1 | 700: `PING` | |"), 3, "a number up to 699"),
        (table("| t1 | — Fault: flood 3 ms — | |"), 3, "there is no fault 'flood'"),
        (table("| t1 | — Fault: cut 3 ms — | |"), 3, "strikes two regions"),
        (table("| t1 | — Fault: pause to eu 3 ms — | |"), 3, "strikes one region"),
        (table("| t1 | — Fault: cut to mars — | |"), 3, "no such region"),
        (table("| t1 | — Fault: cut to ap — | |"), 3, "not there"),
        (table("| 1 ms | `XREAD BLOCK 0 STREAMS x $` → (blocked) | |"), 3, "leave (blocked) out"),
        (table("| t1 | | |", above="links: ajar"), 1, "open or closed"),
        (table("| t1 | | |", above="judges: some"), 1, "all or none"),
        (table("| t1 | | |", above="dials: web"), 1, "dials is one of"),
        (table("| t1 | | |", above="dials: us from mars"), 1, "is no region"),
        (table("| t1 | | |", above="regions: us"), 1, "column of region 2"),
        (table("| t1 | | |", above="delay: 5..1 ms"), 1, "range of milliseconds"),
        (table("| t1 | | |", above="until: soon"), 1, "a time such as"),
        (table("| t1 | | |", above="seed: x"), 1, "seed is a number"),
        (table("| t1 | | |", above="loss: 7"), 1, "a share"),
        (table("| t1 | | |", above="clock mars: 3 ms"), 1, "is no region"),
        (table("| t1 | | |", above="set mars appendfsync: no"), 1, "is no region"),
    ],
)
def test_errors_of_stories_name_the_line(text: str, line: int, part: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse(text, "file.md")
    assert caught.value.line == line and part in caught.value.text, str(caught.value)


def test_a_title_may_stand_above_the_table() -> None:
    text = "title: Two adds\n\n| Time | us |\n| --- | --- |\n| _t1_ | `XLEN x` |\n"
    assert parse(text).title == "Two adds"


# -- bounds

HEAD = "| Time | us | eu |\n| --- | --- | --- |\n"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (HEAD + "| t1 | — Wait 1000000000 s — | |\n", "waits 1000000000000 ms in all"),
        (HEAD + "| t1 | wait 1801 s | |\n" * 2, "waits 3602000 ms in all"),
        (HEAD + "| 4000 s | `XLEN x` | |\n", "waits 4000000 ms in all"),
        ("---\nuntil: 3600001 ms\n---\n" + HEAD + "| t1 | `XLEN x` | |\n", "at most 3600000"),
        (HEAD + "| t1 | `XLEN x` | |\n" * 10_001, "at most 10000 steps"),
    ],
)
def test_t18_a_scenario_is_bounded_in_time_and_steps(text: str, wrong: str) -> None:
    """One `— Wait 1000000000 s —` held the player of the console for ever."""
    with pytest.raises(ScenarioError, match=wrong):
        parse(text)


def test_t18_what_is_answered_late_counts_as_well() -> None:
    """Each command that blocks may wait for seconds, which no sum of waits tells."""
    rows = "".join(f"| t{n} | `XREAD BLOCK 20000 STREAMS x $` → nil | |\n" for n in range(10))
    scenario = replace(parse(HEAD + rows), time_ms_max=60_000)
    mismatches, _ = run_virtually(scenario)
    assert "takes more than 60000 ms of virtual time" in str(mismatches[-1])
