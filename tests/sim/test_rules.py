"""The rules that runs exercise: the docs list all of them, and each is counted.

A rule counts only when its case has occurred. Tests of unsaid backups (S13.6) stand here, too.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from anabranch.region.engine.lifecycle import SERVING, STARTING
from anabranch.region.engine.replies import ErrorReply, Reply, listed
from anabranch.sim.checkers.digests import Digests
from anabranch.sim.checkers.stable_times import StableTimes
from anabranch.sim.draw import draw_plan
from anabranch.sim.plan import ClientPlan, Fault, Intent, Plan
from anabranch.sim.rules import CONFLICTS, FROM_COUNTERS, NOT_SIMULATED, RULES
from anabranch.sim.run import Result, run_plan
from anabranch.sim.tally import known_names
from anabranch.sim.twin.judge import Twin
from anabranch.sim.world.faults import new_world
from tests.sim.fabricated import Story
from tests.sim.tapped import tapped
from tests.support.engines import execute

ROOT = Path(__file__).resolve().parents[2]
KEY = b"k"
MESH = ((1, 2), (2, 1), (1, 3), (3, 1), (2, 3), (3, 2))
# How many seeds some tests run.
SEEDS = 24
# Rules that need whole regions with disks, links and clients, and are exercised by many seeds.
OF_SEEDS = ("S2.4", "S3.4", "S6.2", "S11.2", "S11.3", "S12.1", "S12.3", "S13.1", "S13.2")


# -- the list


def cited(text: str) -> list[str]:
    """The rules in a heading such as ``S4.1–S4.3, S4.5``."""
    found: list[str] = []
    for first, last in re.findall(r"S(\d+\.\d+)(?:–S(\d+\.\d+))?", text):
        section, start = first.split(".")
        end = last.split(".")[1] if last else start
        found += [f"S{section}.{number}" for number in range(int(start), int(end) + 1)]
    return found


def test_the_list_is_that_of_the_docs() -> None:
    """docs/semantics.md names the place of every rule, and how it is exercised or why it is not."""
    text = (ROOT / "docs" / "semantics.md").read_text(encoding="utf-8")
    rules, _, rest = text.partition("## Rules counted in a simulated run")
    table = rest.partition("## Where each rule stands")[0]
    lives = [rule for heading in re.findall(r"\*\*(S[^*]+)\*\*", rules) for rule in cited(heading)]
    assert {*lives, "S14"} == set(RULES) | set(NOT_SIMULATED)
    assert re.findall(r"^\| (S[\d.]+) \|", table, re.MULTILINE) == [
        *(rule for rule in RULES if rule not in NOT_SIMULATED),
        *NOT_SIMULATED,
    ]


def test_no_rule_is_left_out() -> None:
    """The numbers of a section are consecutive from 1, as in the specification."""
    sections: dict[int, list[int]] = {}
    for rule in RULES:
        section, _, number = rule[1:].partition(".")
        if number:
            sections.setdefault(int(section), []).append(int(number))
    assert {section: len(numbers) for section, numbers in sections.items()} == {
        1: 4,
        2: 6,
        3: 4,
        4: 5,
        5: 4,
        6: 5,
        7: 7,
        8: 4,
        9: 5,
        10: 8,
        11: 3,
        12: 3,
        13: 9,
    }
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in sections.values())


def test_every_rule_is_counted_and_nothing_else() -> None:
    paths = [*(ROOT / "anabranch" / "sim").rglob("*.py")]
    source = "".join(path.read_text(encoding="utf-8") for path in paths)
    calls = re.findall(r"(?:\.count|counts\.rule)\(.*\)", source)
    counted = {rule for call in calls for rule in re.findall(r'"(S[\d.]+)"', call)}
    counted |= {rule for _, _, rule in CONFLICTS.values() if rule} | set(FROM_COUNTERS)
    assert counted == set(RULES) - set(NOT_SIMULATED)


def test_the_closing_table_shows_them_all() -> None:
    known = known_names()
    assert list(known["rule"]) == [rule for rule in RULES if rule not in NOT_SIMULATED]
    assert known["conflict"] == list(CONFLICTS)


# -- runs


def plan(
    *steps: Intent | Fault,
    clients: tuple[ClientPlan, ...] = (),
    load_ms: int = 600,
    **settings: str,
) -> Plan:
    """Three regions that all dial each other."""
    values = {name.replace("_", "-"): value for name, value in settings.items()}
    return Plan(
        seed=1,
        regions=(1, 2, 3),
        settings={region: dict(values) for region in (1, 2, 3)},
        clients=clients,
        steps=tuple(steps),
        links=MESH,
        load_ms=load_ms,
        tick_ms=10,
        delay_ms=(1, 2),
        loss=0.0,
        clock_offsets_ms={},
        traits=frozenset(),
    )


def rules_of(result: Result) -> set[str]:
    """The rules that a run has exercised."""
    assert result.violations == [], [str(violation) for violation in result.violations]
    return {name.removeprefix("rule:") for name in result.counters if name.startswith("rule:")}


def test_a_run_without_clients_and_faults_exercises_nothing() -> None:
    result = run_plan(plan())
    assert rules_of(result) == set()
    assert not [name for name in result.counters if name.startswith("conflict:")]


@cache
def seen_in_seeds() -> Counter[str]:
    """In how many of the first seeds each rule and conflict was counted."""
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        result = run_plan(draw_plan(seed))
        rules_of(result)
        seen.update(name for name in result.counters if name.startswith(("rule:", "conflict:")))
    return seen


def test_some_seeds_together_exercise_nearly_everything() -> None:
    """The table of a sweep shows each rule. This test fails if many counts are lost."""
    seen = seen_in_seeds()
    assert set(seen) <= {f"rule:{rule}" for rule in RULES} | {f"conflict:{c}" for c in CONFLICTS}
    assert len([name for name in seen if name.startswith("rule:")]) >= 54
    assert len([name for name in seen if name.startswith("conflict:")]) >= 15


class Directed:
    """A world without clients, which a test directs step by step."""

    def __init__(self, **settings: str) -> None:
        self.world = new_world(plan(clients=(), load_ms=600, **settings), [Twin], keys=(KEY,))
        self.world.begin()
        self.go(300)

    def go(self, ms: int) -> None:
        self.world.scheduler.run_until(self.world.scheduler.now_ms + ms)

    def say(self, region: int, text: str) -> Reply:
        one = self.world.regions[region]
        session = one.engine.clients.connect("test", "", one.now_ms())
        reply = execute(one.engine, session, text.encode().split(), one.now_ms())
        one.stepped()
        return listed(reply)

    def rules(self) -> set[str]:
        """The rules that were counted so far."""
        names = self.world.environment.counts.counters
        return {name.removeprefix("rule:") for name in names if name.startswith("rule:")}

    def cut(self, *pairs: tuple[int, int]) -> None:
        for one, other in pairs:
            self.world.network.cuts[(one, other)] = self.world.network.cuts[(other, one)] = 1

    def heal(self) -> None:
        self.world.network.cuts.clear()
        self.world.network.resume()


def put_back_unsaid(place: Directed, *regions: int) -> None:
    """Restores backups that lack the last add of each of these regions; none of them runs then."""
    for number in regions:
        place.say(number, f"XADD k * f {number}1")
    place.go(200)
    disks = [place.world.regions[number].disk for number in regions]
    backups = [disk.backup() for disk in disks]
    for number in regions:
        place.say(number, f"XADD k * f {number}2")
    place.go(200)
    for number, disk, backup in zip(regions, disks, backups, strict=True):
        region = place.world.regions[number]
        region.stop("backup")
        disk.restore(backup)
        region.restart.how = "backup"


def forks(place: Directed) -> int:
    """How many forks the running processes have met."""
    return sum(one.engine.state.replication.forks for one in place.world.regions.values())


def test_an_unsaid_backup_without_patience_and_peers_forks_and_is_found_out() -> None:
    """S13.5: the region gives counters of its lost past anew, because S13.6 did not protect it.

    Its patience is over before any member can answer. The links find the fork and stay closed. The
    handshake finds it, and such forks were once missing from the figure crdt_forks.
    """
    place = Directed(crdt_start_patience_ms="0")
    put_back_unsaid(place, 1)
    place.cut((1, 2), (1, 3))
    place.world.regions[1].start_if_stopped()
    place.go(50)
    place.say(1, "XADD k * f 3")
    place.say(1, "XADD k * f 4")
    place.go(200)
    place.heal()
    place.go(2000)
    states = [place.world.regions[other].engine.state.peers.by_id[1].state for other in (2, 3)]
    assert states == ["forked", "forked"]
    assert all(one.engine.state.replication.forks for one in place.world.regions.values())
    assert not place.world.is_level()
    place.world.close()


@pytest.mark.parametrize("patience_ms", ["0", "60000"])
def test_an_unsaid_backup_does_not_fork_if_peers_answer_before_the_first_write(
    patience_ms: str,
) -> None:
    """S13.6: a member that holds more of the region's effects puts the region into recovery."""
    place = Directed(crdt_start_patience_ms=patience_ms)
    put_back_unsaid(place, 1)
    place.world.regions[1].start_if_stopped()
    place.go(2000)
    assert place.say(1, "XLEN k") == 2
    place.say(1, "XADD k * f 3")
    place.go(500)
    assert place.world.is_level() and forks(place) == 0
    assert [place.say(region, "XLEN k") for region in (1, 2, 3)] == [3, 3, 3]
    assert "S13.7" in place.rules()
    place.world.close()


def test_an_unsaid_backup_does_not_fork_while_its_patience_lasts() -> None:
    """S13.6: behind cut links the region waits. It issues nothing until the links are back."""
    place = Directed(crdt_start_patience_ms="60000")
    put_back_unsaid(place, 1)
    place.cut((1, 2), (1, 3))
    region = place.world.regions[1]
    region.start_if_stopped()
    place.go(3000)
    assert region.engine.state.lifecycle.state == STARTING
    assert place.say(1, "XLEN k") == 1
    place.heal()
    place.go(2000)
    assert region.engine.state.lifecycle.state == SERVING
    assert place.world.is_level() and forks(place) == 0
    assert [place.say(region, "XLEN k") for region in (1, 2, 3)] == [2, 2, 2]
    place.world.close()


@pytest.mark.parametrize("restored", [(1, 2), (2, 1), (1, 2, 3)])
@pytest.mark.parametrize("apart_ms", [0, 5, 300])
def test_unsaid_backups_of_several_regions_do_not_fork(
    restored: tuple[int, ...], apart_ms: int
) -> None:
    """S13.6: a start that hears of a life for the first time asks all members anew."""
    place = Directed(crdt_start_patience_ms="60000")
    put_back_unsaid(place, *restored)
    for number in restored:
        place.world.regions[number].start_if_stopped()
        place.go(apart_ms)
    place.go(3000)
    for number in restored:
        assert isinstance(place.say(number, f"XADD k * f {number}3"), bytes)
    place.go(500)
    assert place.world.is_level() and forks(place) == 0
    # If all members were put back, nothing is left of the last add of each.
    each = 2 if len(restored) == 3 else 3
    assert [place.say(region, "XLEN k") for region in (1, 2, 3)] == [each * len(restored)] * 3
    place.world.close()


def test_a_life_that_a_start_hears_of_for_the_first_time_makes_it_ask_anew() -> None:
    """S13.6: region 2 answers in a life that region 1 had not heard of before its first asking."""
    place = Directed(crdt_start_patience_ms="60000")
    region = place.world.regions[1]
    for number in (1, 2):
        place.world.regions[number].stop("kill")
    place.go(50)
    place.world.regions[2].start_if_stopped()
    place.go(50)
    region.start_if_stopped()
    asked: list[tuple[int, dict[int, int]]] = []
    while region.engine.state.lifecycle.state == STARTING:
        question = region.engine.state.lifecycle.start_question()
        assert question is not None
        if (question.number, question.lives) not in asked:
            asked.append((question.number, question.lives))
        place.go(1)
    numbers = [number for number, _ in asked]
    assert len(set(numbers)) > 1 and numbers == sorted(numbers)
    new_life = place.world.regions[2].engine.life
    assert asked[0][1].get(2, 0) < new_life == asked[-1][1][2]
    place.world.close()


def test_a_region_that_is_gone_for_good_is_waited_for_until_it_is_said_to_be_lost() -> None:
    """S1.1, S13.8: a group tombstone that one region lacks stays until that region is lost."""
    steps: tuple[Intent | Fault, ...] = (
        *(Intent(at_ms, 1, at_ms) for at_ms in range(20, 900, 20)),
        *(Intent(at_ms, 2, at_ms) for at_ms in range(30, 900, 20)),
        Fault(200, "gone for good", (3, 1), 400, 7),
    )
    clients = (
        ClientPlan(1, "group-administrator", 1, (KEY,), 5),
        ClientPlan(2, "producer", 2, (KEY,), 6),
    )
    result = run_plan(plan(*steps, clients=clients, load_ms=1000, crdt_collect_interval_ms="10"))
    assert "S1.1" in rules_of(result)
    unsaid = run_plan(
        plan(*steps[:-1], clients=clients, load_ms=1000, crdt_collect_interval_ms="10")
    )
    assert "S1.1" not in rules_of(unsaid)


def test_a_kill_loses_effects_only_before_their_commit() -> None:
    """S13.3, and S13.6: a command that comes before the end of the start waits."""
    place = Directed(appendfsync="everysec", crdt_start_patience_ms="60000")
    for waits in (True, False):
        place.say(1, "XADD k * f 1")
        if waits:
            place.go(2000)
        region = place.world.regions[1]
        region.stop("kill")
        region.start_if_stopped()
        assert ("S13.3" in place.rules()) is not waits
        assert ("S13.6" in place.rules()) is not waits
        place.say(1, "XADD k * f 2")
        place.go(1000)
    assert "S13.6" in place.rules()
    place.world.close()


@pytest.mark.parametrize("loses", [True, False])
def test_effects_that_a_crash_lost_meet_nothing(loses: bool) -> None:
    place = Directed(appendfsync="everysec")
    place.say(2, "XADD k 5-* f 1")
    place.go(500)
    place.cut((1, 2), (1, 3))
    place.say(1, "XADD k * f 1")
    if not loses:
        place.go(2000)
    region = place.world.regions[1]
    region.stop("kill")
    place.say(2, "XTRIM k MAXLEN 0")
    place.go(500)
    place.heal()
    region.start_if_stopped()
    place.go(2000)
    assert ("conflict:add and trim" in place.world.counters) is not loses
    place.world.close()


def test_a_recovery_refuses_writes_and_ends() -> None:
    """S13.7 and S13.8."""
    place = Directed()
    place.say(1, "XADD k * f 1")
    place.go(500)
    region = place.world.regions[1]
    region.stop("kill")
    region.restart.is_restored = True
    place.cut((1, 2), (1, 3))
    region.start_if_stopped()
    place.go(100)
    assert not {"S13.7", "S13.8"} & place.rules()
    assert isinstance(place.say(1, "XADD k * f 2"), ErrorReply)
    assert "S13.8" in place.rules() and "S13.7" not in place.rules()
    place.heal()
    place.go(2000)
    assert "S13.7" in place.rules()
    place.world.close()


def test_leftovers_of_an_expired_key_are_removed() -> None:
    """S10.6"""
    for expires in (False, True):
        place = Directed(crdt_expiry_grace_ms="100")
        place.say(1, "XADD k * f 1")
        if expires:
            place.say(1, "PEXPIRE k 50")
        place.go(4000)
        assert ("S10.6" in place.rules()) is expires
        place.world.close()


def test_a_life_above_the_clock() -> None:
    """S1.3: the clock was set back between two starts."""
    place = Directed()
    region = place.world.regions[1]
    for offset_ms in (0, -5000):
        region.stop("kill")
        region.clock.offset_ms = offset_ms
        region.start_if_stopped()
        assert ("S1.3" in place.rules()) is (offset_ms < 0)
        place.go(500)
    place.world.close()


@pytest.mark.parametrize("deleted", [3, 4])
def test_a_node_is_rewritten_when_most_of_it_is_deleted(deleted: int) -> None:
    """S12.2"""
    place = Directed()
    for number in range(1, 7):
        place.say(1, f"XADD k {number}-* f 1")
    ids = [f"{number}-1" for number in range(2, 2 + deleted)]
    assert place.say(1, f"XDEL k {' '.join(ids)}") == deleted
    assert ("S12.2" in place.rules()) is (deleted > 3)
    place.world.close()


def test_a_stable_time_that_rises() -> None:
    """S7.7"""
    story = Story(1, [StableTimes])
    counts = story.setup.counts.counters
    story.command(1, "CRDT.STABLE", 900)
    story.command(1, "CRDT.STABLE", 900)
    assert "rule:S7.7" not in counts
    story.command(1, "CRDT.STABLE", 950)
    assert counts["rule:S7.7"] == 1


def test_digests_of_equal_vectors() -> None:
    """S13.9"""
    story = Story(2, [Digests])
    story.add(1, "1000-1")
    story.show()
    assert "rule:S13.9" not in story.setup.counts.counters
    story.sync()
    story.show()
    assert "rule:S13.9" in story.setup.counts.counters


@pytest.mark.parametrize("rule", OF_SEEDS)
def test_rules_of_whole_regions_are_counted(rule: str) -> None:
    """A run without clients and faults counts none of them (see above)."""
    assert seen_in_seeds()[f"rule:{rule}"]


# -- regions driven by hand


def counted(steps: list[str], settings: dict[str, str]) -> set[str]:
    """The counters after these steps: of regions without links and disks.

    A step is a command of a region ("1: XADD k * f 1"); its merge of all that another one has
    ("1>2"); "sync"; "1 round", a sync round; or "1 at 1500", a tick at that time.
    """
    regions = 3 if any("3" in step[:3] for step in steps) else 2
    twin, places = tapped(regions, 0, **settings)
    for step in steps:
        place = places[int(step[0]) - 1] if step != "sync" else places[0]
        if step[1] == ":":
            place(step[3:])
        elif step[1] == ">":
            place.commit()
            places[int(step[2]) - 1].take(place)
        elif step == "sync":
            for one in places:
                one.commit()
            for one in places:
                for other in places:
                    if one is not other:
                        one.take(other)
        elif step == "1 round" or step == "2 round":
            place.round()
        else:
            place.at(int(step[5:]))
            place.commit()
    assert twin.violations == []
    return set(twin.setup.counts.counters)


Case = tuple[list[str], list[str], dict[str, str]]
"""Steps in which the count rises, others in which it does not, and the settings of both."""


def of(rising: str, other: str, **settings: str) -> Case:
    return rising.split("; "), other.split("; "), settings


def apart(base: str, one: str, other: str, **settings: str) -> Case:
    """Two regions act on a base that both have: each before it has the other's, or one after it."""
    first = [*base.split("; "), "sync"] if base else []
    steps = [*one.split("; ")], [*other.split("; ")]
    return (
        [*first, *steps[0], *steps[1], "sync"],
        [*first, *steps[0], "sync", *steps[1], "sync"],
        settings,
    )


LIBERAL = {"crdt_xadd_id_uniqueness_mode": "liberal"}
ADD, MADE = "1: XADD k 5-* f 1", "1: XGROUP CREATE k g 0 MKSTREAM"
MADE_2 = "2: XGROUP CREATE k g $ MKSTREAM"
READ, READ_2 = "1: XREADGROUP GROUP g c STREAMS k >", "2: XREADGROUP GROUP g c STREAMS k >"
NO_ACK = "1: XREADGROUP GROUP g c NOACK STREAMS k >"
NO_ACK_2 = "2: XREADGROUP GROUP g c NOACK STREAMS k >"

MET = {
    "add and XDEL of its ID": of(
        "1: XADD k 5-5 f 1; 2: XADD k 5-5 f 2; 1: XDEL k 5-5; sync",
        "1: XADD k 5-5 f 1; 2: XADD k 5-6 f 2; 1: XDEL k 5-5; sync",
        **LIBERAL,
    ),
    "add and trim": apart(ADD, "1: XTRIM k MAXLEN 0", "2: XADD k * f 2"),
    "add and DEL": apart(ADD, "1: DEL k", "2: XADD k * f 2"),
    "add and FLUSHALL": apart(ADD, "1: FLUSHALL", "2: XADD k * f 2"),
    "add and expiry": apart(f"{ADD}; 1: PEXPIREAT k 1500", "1 at 61600", "2: XADD k * f 2"),
    "add and RENAME": apart(ADD, "1: RENAME k other", "2: XADD k * f 2"),
    "one entry removed twice": apart(ADD, "1: XDEL k 5-1", "2: XDEL k 5-1"),
    "create and destroy": apart(
        MADE, "2: XGROUP DESTROY k g", "1: XGROUP DESTROY k g; 1: XGROUP CREATE k g 0 MKSTREAM"
    ),
    "create and DEL": apart(ADD, "1: DEL k", "2: XGROUP CREATE k g 0 MKSTREAM"),
    "create and FLUSHALL": apart(ADD, "1: FLUSHALL", "2: XGROUP CREATE k g 0 MKSTREAM"),
    "create and create": apart(ADD, MADE, "2: XGROUP CREATE k g 0"),
    "XSETID and add": apart(ADD, "1: XSETID k 9-0", "2: XADD k * f 2"),
    "XSETID and DEL": apart(ADD, "1: XSETID k 9-0", "2: DEL k"),
    "one ID twice": apart("", "1: XADD k 5-5 f 1", "2: XADD k 5-5 f 2", **LIBERAL),
    "one pair twice": apart("", "1: XADD k IDMP p 1 * f 1", "2: XADD k IDMP p 1 * f 1"),
    "deadline and deadline": apart(ADD, "1: EXPIRE k 100", "2: EXPIRE k 200"),
    "deadline and expiry": apart(
        f"{ADD}; 1: PEXPIREAT k 1500", "1 at 61600", "2: PEXPIREAT k 90000"
    ),
    "RENAME and RENAME": apart(ADD, "1: RENAME k a", "2: RENAME k b"),
    "configuration and configuration": apart(
        ADD, "1: XCFGSET k IDMP-DURATION 5", "2: XCFGSET k IDMP-DURATION 6"
    ),
    "configuration and idempotent add": apart(
        ADD, "1: XCFGSET k IDMP-DURATION 5", "2: XADD k IDMP p 1 * f 1"
    ),
    "one entry acknowledged twice": apart(
        f"{ADD}; {MADE}", f"{NO_ACK}; 1 round", f"{NO_ACK_2}; 2 round"
    ),
}

COUNTED = {
    "S1.2": of(f"1: MULTI; {ADD}; 1: XDEL k 5-1; 1: EXEC", f"1: MULTI; {ADD}; 1: EXEC"),
    "S2.1": of(f"{ADD}; 1>2; 2>3", f"{ADD}; 1>2; 1>3"),
    "S2.5": of(f"{MADE}; {ADD}; {NO_ACK}; 1 round", f"{MADE}; {ADD}; {NO_ACK}; 1>2; 1 round"),
    "S3.1": of(f"{ADD}; 1: XTRIM k MAXLEN 0", f"{ADD}; 1: DEL k"),
    "S3.2": apart("", "1: XADD k 9-* f 1; 1: DEL k", "2: XADD k 5-* f 2"),
    "S3.3": of(f"{ADD}; 1: EXPIRE k 9; 1: DEL k", f"{ADD}; 1: DEL k; 1: EXPIRE k 9"),
    "S4.1": of("1: XADD k * f 1; 1: XADD k * f 2", "1: XADD k * f 1; 1 at 1001; 1: XADD k * f 2"),
    "S4.2": of("1: XADD k 5-5 f 1", ADD),
    "S4.3": of(f"{ADD}; 1: XADD k 4-* f 1", f"{ADD}; 1: XADD k 6-* f 1"),
    "S4.4": of(
        "1: CONFIG SET crdt-xadd-id-uniqueness-mode liberal; 1: XADD k 5-5 f 1",
        "1: CONFIG SET crdt-xadd-id-uniqueness-mode strict; 1: XADD k 5-5 f 1",
    ),
    "S4.5": of(f"{ADD}; 1: XRANGE k (4-0 +", f"{ADD}; 1: XRANGE k 4-0 +"),
    "S5.1": of(
        "1: XADD k 5-5 f 1; 2: XADD k 5-5 f 2; sync; 1: XDEL k 5-5",
        "1: XADD k 5-5 f 1; 2: XADD k 5-6 f 2; sync; 1: XDEL k 5-5 5-6",
        **LIBERAL,
    ),
    "S5.3": of(f"{ADD}; {MADE}; 1: XTRIM k MAXLEN 0 ACKED", f"{ADD}; 1: XTRIM k MAXLEN 0 ACKED"),
    "S6.3": of(
        f"{ADD}; {MADE}; {MADE_2}; sync", f"{ADD}; {MADE}; 2: XGROUP CREATE k g 0 MKSTREAM; sync"
    ),
    "S6.4": of(
        "1: XADD k 9-* f 1; 1: XGROUP CREATE k g $; 2: XADD k 5-* f 2; sync",
        "1: XADD k 9-* f 1; 1: XGROUP CREATE k g $; 2: XADD k 10-* f 2; sync",
    ),
    "S6.5": of(f"{ADD}; {MADE}; {READ}; 1: DEL k", f"{ADD}; {MADE}; 1: DEL k"),
    "S7.1": of(
        "1: XADD k 5-5 f 1; 2: XADD k 5-5 f 2; sync; 1: XRANGE k - + COUNT 1",
        "1: XADD k 5-5 f 1; 2: XADD k 5-5 f 2; sync; 1: XRANGE k - + COUNT 2",
        **LIBERAL,
    ),
    "S7.2": of(
        "1: XADD k 9-* f 1; 1: XREAD STREAMS k 0; 2: XADD k 5-* f 2; sync",
        "1: XADD k 9-* f 1; 1: XRANGE k - +; 2: XADD k 5-* f 2; sync",
    ),
    "S7.3": of(
        f"{MADE}; 1: XADD k 9-* f 1; {READ}; 2: XADD k 5-* f 2; 2>1; {READ}",
        f"{MADE}; 1: XADD k 9-* f 1; {READ}; 2: XADD k 10-* f 2; 2>1; {READ}",
    ),
    "S7.4": of(f"{MADE}; {ADD}; {READ}; 1: XGROUP SETID k g 0; {READ}", f"{MADE}; {ADD}; {READ}"),
    "S7.5": of(
        f"{MADE}; {ADD}; 2: XADD k 5-* f 2; sync; {READ}; 1: XREADGROUP GROUP g c STREAMS k 0",
        f"{MADE}; {ADD}; 1: XADD k 6-* f 2; sync; {READ}; 1: XREADGROUP GROUP g c STREAMS k 0",
    ),
    "S7.6": of(
        f"{MADE}; {ADD}; {READ}; 1: XADD k 6-* f 2; 1: XINFO GROUPS k",
        f"{MADE}; {ADD}; 1: XADD k 6-* f 2; {READ}; 1: XINFO GROUPS k",
    ),
    "S8.1": of(
        f"{MADE}; {ADD}; 1: XADD k 6-* f 2; {READ}; 1: XACK k g 5-1; 1: XACK k g 6-1; 1 round",
        f"{MADE}; {ADD}; 1: XADD k 6-* f 2; {READ}; 1: XACK k g 5-1 6-1; 1 round",
    ),
    "S8.2": of(
        f"{MADE}; {ADD}; sync; {READ}; {READ_2}; 1: XACK k g 5-1; 1 round; 1>2",
        f"{MADE}; {ADD}; sync; {READ}; {READ_2}; 2: XACK k g 5-1; 1: XACK k g 5-1; 1 round; 1>2",
    ),
    "S8.3": of(
        f"{MADE}; {ADD}; {NO_ACK}; 1 round", f"{MADE}; {ADD}; {READ}; 1: XACK k g 5-1; 1 round"
    ),
    "S8.4": of(
        f"{ADD}; sync; {MADE}; {MADE_2}; 2: XADD k 6-* f 2; {NO_ACK_2}; 2 round; sync",
        f"{ADD}; sync; {MADE}; {MADE_2}; 2: XADD k 6-* f 2; {READ_2}; 2 round; sync",
    ),
    "S9.1": of(
        "1: XADD k IDMP p 1 * f 1; sync; 2: XADD k IDMP p 1 * f 1",
        "1: XADD k IDMP p 1 * f 1; sync; 1: XADD k IDMP p 1 * f 1",
    ),
    "S9.5": of(
        "1: XADD k IDMPAUTO p * f 1; 1: XADD k IDMPAUTO p * f 1",
        "1: XADD k IDMPAUTO p * f 1; 1: XADD k IDMPAUTO p * f 2",
    ),
    "S10.1": of(f"{ADD}; 1: RENAME k other", f"{ADD}; 1: XDEL k 5-1; 1: RENAME k other"),
    "S10.3": of(f"{ADD}; 1: PEXPIREAT k 1500; 1 at 61600", f"{ADD}; 1 at 61600"),
    "S10.5": of(f"{ADD}; 1: EXPIRE k 9; 1: DEL k; {ADD}", f"{ADD}; 1: DEL k; {ADD}"),
    "S10.7": of(
        "1: WATCH k; 2: XADD k * f 1; 2>1; 1: MULTI; 1: XLEN k; 1: EXEC",
        "1: WATCH k; 1: XADD k * f 1; 1: MULTI; 1: XLEN k; 1: EXEC",
    ),
    "S10.8": of("1: GET k", "1: XLEN k"),
    "S14": of(f"1: MULTI; {ADD}", ADD, crdt_unit_max_bytes="1"),
}


@pytest.mark.parametrize("name", CONFLICTS)
def test_a_conflict_counts_if_neither_region_had_the_effect_of_the_other(name: str) -> None:
    rising, other, settings = MET[name]
    names = {f"conflict:{name}"}
    if CONFLICTS[name][2]:
        names.add(f"rule:{CONFLICTS[name][2]}")
    assert names <= counted(rising, settings)
    assert not names & counted(other, settings)


@pytest.mark.parametrize("rule", COUNTED)
def test_a_rule_counts_if_its_case_has_occurred(rule: str) -> None:
    rising, other, settings = COUNTED[rule]
    assert f"rule:{rule}" in counted(rising, settings)
    assert f"rule:{rule}" not in counted(other, settings)


def test_each_rule_has_a_case() -> None:
    elsewhere = {*("S1.1", "S1.3", "S7.7", "S10.6", "S12.2", "S13.3")}
    elsewhere |= {*("S13.6", "S13.7", "S13.8", "S13.9")}
    elsewhere |= {*OF_SEEDS, *FROM_COUNTERS}
    met = {rule for _, _, rule in CONFLICTS.values() if rule}
    assert {*COUNTED, *met} | elsewhere == set(RULES)


def test_a_replay_and_a_judge_exercise_nothing() -> None:
    """The start applies all effects again, and the judge asks for what a client asked for."""
    place = Directed()
    place.say(1, "XADD k 5-* f 1")
    place.say(1, "XTRIM k MAXLEN 0")
    place.go(300)
    counts = place.world.environment.counts.counters
    assert counts["rule:S3.1"] == 3
    region = place.world.regions[1]
    region.stop("kill")
    region.start_if_stopped()
    place.go(1000)
    assert counts["rule:S3.1"] == 3
    place.say(1, "XADD k 6-* f 1")
    place.world.ask(1, (b"XRANGE", KEY, b"(5-0", b"+"))
    assert "S4.5" not in place.rules()
    place.say(1, "XRANGE k (5-0 +")
    assert "S4.5" in place.rules()
    place.world.close()
