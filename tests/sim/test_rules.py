"""The rules that runs exercise: the docs list all of them, and each has a witness.

A witness counts a rule only when its case has occurred. Tests of unsaid backups (S13.6) stand
here, too.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from anabranch.crdt import effects as fx
from anabranch.crdt.spans import Spans
from anabranch.region.engine.lifecycle import SERVING, STARTING
from anabranch.region.engine.replies import Reply
from anabranch.sim.draw import draw_plan
from anabranch.sim.history import End, Vector, Words
from anabranch.sim.plan import ClientPlan, Fault, Intent, Plan
from anabranch.sim.rules.causal_past import CausalPast, Steps
from anabranch.sim.rules.conflicts import CONFLICTS
from anabranch.sim.rules.table import FROM_COUNTERS, NOT_SIMULATED, RULES
from anabranch.sim.rules.witness import Witness
from anabranch.sim.run import Result, run_plan
from anabranch.sim.tally import known_names
from anabranch.sim.world.faults import new_world
from tests.sim.fabricated import KEY, NIL, OK, Plain, Story, idempotent

ROOT = Path(__file__).resolve().parents[2]
MESH = ((1, 2), (2, 1), (1, 3), (3, 1), (2, 3), (3, 2))


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


def test_every_rule_and_conflict_has_a_witness_and_no_witness_another_name() -> None:
    source = "".join(
        path.read_text(encoding="utf-8")
        for path in sorted((ROOT / "sim" / "rules").glob("*.py"))
        if path.name != "table.py"
    )
    counted = set(re.findall(r'"rule:(S[\d.]+)"', source)) | set(FROM_COUNTERS)
    assert counted == set(RULES) - set(NOT_SIMULATED)
    named = set(re.findall(r'"conflict:([^"]+)"', source)) | set(
        re.findall(r'_met\([^)]*"([^"]+)"\)', source)
    )
    assert named == set(CONFLICTS)


def test_the_closing_table_shows_them_all() -> None:
    known = known_names()
    assert list(known["rule"]) == [rule for rule in RULES if rule not in NOT_SIMULATED]
    assert tuple(known["conflict"]) == CONFLICTS


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


def test_some_seeds_together_exercise_nearly_everything() -> None:
    """The table of a sweep shows each rule. This test fails if many witnesses stop counting."""
    seen: Counter[str] = Counter()
    for seed in range(12):
        seen.update(rules_of(run_plan(draw_plan(seed))))
    assert set(seen) <= set(RULES)
    assert len(seen) >= 50


class Directed:
    """A world without clients, which a test directs step by step."""

    def __init__(self, **settings: str) -> None:
        self.world = new_world(plan(**settings), [Witness], keys=(KEY,))
        witness = self.world.judges[0]
        assert isinstance(witness, Witness)
        self.witness = witness
        self.witness.watch(self.world)
        self.world.begin()
        self.go(300)

    def go(self, ms: int) -> None:
        self.world.scheduler.run_until(self.world.scheduler.now_ms + ms)

    def say(self, region: int, text: str) -> object:
        reply = self.world.ask(region, tuple(word.encode() for word in text.split()))
        self.world.regions[region].stepped()
        return reply

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
    assert place.witness.counters["rule:S13.7"] >= 1
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
    steps = (
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


# -- fabricated histories


class Told:
    """A fabricated history with the witness as its only judge."""

    def __init__(self, regions: int = 2) -> None:
        self.story = Story(regions, [Witness])

    def counted(self) -> set[str]:
        """The counters of the witness at the end."""
        self.story.sync()
        self.story.finish()
        witness = self.story.judges[0]
        assert isinstance(witness, Witness)
        return set(witness.counters)

    def rules(self) -> set[str]:
        """The rules that the witness counted by the end."""
        return {name.removeprefix("rule:") for name in self.counted() if name.startswith("rule:")}

    def so_far(self) -> set[str]:
        """The rules that the witness has counted so far."""
        witness = self.story.judges[0]
        assert isinstance(witness, Witness)
        return {name.removeprefix("rule:") for name in witness.counters if name.startswith("rule:")}


@pytest.fixture
def told() -> Told:
    return Told()


def create(story: Story, region: int, start: int = 0, at_vector: bool = False) -> None:
    words = "$" if at_vector else str(start)
    vector = story.vector(region)
    story.command(
        region,
        f"XGROUP CREATE k g {words}",
        OK,
        fx.CreateGroup(KEY, b"g", start << 64, at_vector, vector),
    )


def destroy(story: Story, region: int) -> None:
    story.command(region, "XGROUP DESTROY k g", 1, fx.DestroyGroup(KEY, b"g"))


def announce(story: Story, region: int, creates: list[tuple[int, int]], of: int, end: int) -> None:
    spans = Spans()
    spans.add(0, end, 0)
    story.tick(region, fx.Acknowledge(KEY, b"g", creates, {of: spans}))


def entry(entry_id: str) -> list[Reply]:
    return [entry_id.encode(), [b"t", entry_id.encode()]]


def test_a_destroy_and_a_create_that_knew_of_each_other_are_no_conflict(told: Told) -> None:
    create(told.story, 1)
    told.story.sync()
    destroy(told.story, 2)
    told.story.sync()
    create(told.story, 1)
    assert (
        not {"rule:S6.1", "conflict:create and destroy", "conflict:create and create"}
        & told.counted()
    )


def test_a_create_meets_a_destroy(told: Told) -> None:
    create(told.story, 1)
    told.story.sync()
    destroy(told.story, 2)
    create(told.story, 1)
    assert {"rule:S6.1", "conflict:create and destroy"} <= told.counted()


def test_what_never_left_its_region_has_met_nothing(told: Told) -> None:
    """The effect is gone together with a region that is lost for good."""
    story = told.story
    story.add(1, "1000-1")
    story.sync()
    story.command(2, "DEL k", 1, fx.Delete(KEY, story.vector(2)))
    story.commit(2)
    story.add(1, "1001-1")
    story.commit(1)
    story.stop(2, "gone")
    del story.vectors[2]
    story.tell("finish", End(10, 1000, story.now_ms, story.show()))
    witness = story.judges[0]
    assert isinstance(witness, Witness) and "conflict:add and DEL" not in witness.counters


def test_creates_with_other_starts_and_an_announcement_under_one(told: Told) -> None:
    """S6.3 and S8.4 in the hostile history of acknowledgements."""
    story = told.story
    for number in range(3):
        story.add(1, f"100{number}-1")
    story.sync()
    create(story, 1)
    create(story, 2, at_vector=True)
    story.add(2, "1005-2")
    story.command(2, "XREADGROUP GROUP g c STREAMS k >", [[KEY, [entry("1005-2")]]])
    announce(story, 2, [(2, 1)], 2, 2)
    assert {"S6.3", "S8.4"} <= told.rules()


def test_an_announcement_under_the_only_create(told: Told) -> None:
    story = told.story
    story.add(1, "1000-1")
    create(story, 1)
    story.sync()
    announce(story, 2, [(1, 2)], 1, 1)
    assert not {"S6.3", "S8.4", "S8.3"} & told.rules()


def test_what_was_pending_elsewhere_is_taken(told: Told) -> None:
    """S8.2 does not count if the other region had acknowledged the entry itself."""
    for acknowledges in (False, True):
        story = Story(2, [Witness])
        story.add(1, "1000-1")
        create(story, 1)
        story.sync()
        for region in (1, 2):
            story.command(region, "XREADGROUP GROUP g c STREAMS k >", [[KEY, [entry("1000-1")]]])
        if acknowledges:
            story.command(2, "XACK k g 1000-1", 1)
        story.command(1, "XACK k g 1000-1", 1)
        announce(story, 1, [(1, 2)], 1, 1)
        story.sync()
        story.finish()
        witness = story.judges[0]
        assert (
            isinstance(witness, Witness) and ("rule:S8.2" in witness.counters) is not acknowledges
        )


def test_two_entries_of_one_id(told: Told) -> None:
    story = told.story
    story.command(1, "XADD k 5-5 t a", b"5-5", Plain("5-5", [b"t", b"a"]))
    story.command(2, "XADD k 5-5 t b", b"5-5", Plain("5-5", [b"t", b"b"]))
    story.sync()
    story.command(1, "XRANGE k - + COUNT 1", [entry("5-5"), entry("5-5")])
    story.command(1, "XDEL k 5-5", 2, fx.RemoveEntries(KEY, [(1, 1), (2, 1)]))
    assert {"rule:S5.1", "rule:S7.1", "rule:S4.2", "conflict:one ID twice"} <= told.counted()


def test_two_entries_of_two_ids(told: Told) -> None:
    story = told.story
    story.add(1, "5-1")
    story.add(2, "5-2")
    story.sync()
    story.command(1, "XRANGE k - + COUNT 2", [entry("5-1"), entry("5-2")])
    story.command(1, "XDEL k 5-1 5-2", 2, fx.RemoveEntries(KEY, [(1, 1), (2, 1)]))
    assert not {"rule:S5.1", "rule:S7.1", "rule:S4.2", "conflict:one ID twice"} & told.counted()


def test_a_delete_and_a_lower_add(told: Told) -> None:
    """S3.2: the last ID falls to the entries that the DEL had not observed.

    An add that continues from the last ID does not count.
    """
    story = told.story
    story.add(1, "9000-1")
    story.sync()
    story.command(1, "DEL k", 1, fx.Delete(KEY, story.vector(1)))
    story.add(2, "9000-1002")
    assert "S3.2" not in told.rules() and "S5.4" in told.rules()
    other = Told()
    story = other.story
    story.add(1, "9000-1")
    story.command(1, "DEL k", 1, fx.Delete(KEY, story.vector(1)))
    story.add(2, "1000-2")
    assert {"S3.2", "S5.4"} <= other.rules()


def test_deadlines(told: Told) -> None:
    """S10.2: two deadlines meet. S3.3: a DEL finds one. S10.4: an add meets the removal."""
    story = told.story
    story.add(1, "1000-1")
    story.sync()
    story.command(1, "PEXPIREAT k 1500", 1, fx.SetDeadline(KEY, 1500, []))
    story.command(2, "PEXPIREAT k 1400", 1, fx.SetDeadline(KEY, 1400, []))
    story.sync()
    story.at(1600)
    story.tick(1, fx.RemoveObserved(KEY, story.vector(1), False))
    story.add(2, "1600-2")
    story.sync()
    story.command(2, "DEL k", 1, fx.Delete(KEY, story.vector(2)))
    assert {"S10.2", "S10.3", "S10.4", "S3.3"} <= told.rules()


def test_a_clearing_counts_by_who_asked_for_it(told: Told) -> None:
    story = told.story
    story.command(1, "PEXPIREAT k 1500", 1, fx.SetDeadline(KEY, 1500, []))
    story.tick(1, fx.RemoveObserved(KEY, story.vector(1), True))
    assert "S10.6" in told.rules() and "S10.5" not in told.rules()
    other = Told()
    story = other.story
    story.command(1, "PEXPIREAT k 1500", 1, fx.SetDeadline(KEY, 1500, []))
    clearing = fx.RemoveObserved(KEY, story.vector(1), True)
    story.command(1, "XADD k * t a", b"1000-1", clearing, Plain("1000-1", [b"t", b"a"]))
    assert "S10.5" in other.rules() and "S10.6" not in other.rules()


def test_renames(told: Told) -> None:
    """S10.1 counts if entries moved; two RENAMEs of one source that meet are a conflict."""
    story = told.story
    story.add(1, "1000-1")
    story.sync()
    for region in (1, 2):
        copy = Plain("1000-1", [b"t", b"1000-1"], b"other")
        delete = fx.Delete(KEY, story.vector(region))
        story.command(
            region, "RENAME k other", OK, delete, copy, fx.SetId(b"other", 1000 << 64 | 1)
        )
    assert {"rule:S10.1", "conflict:RENAME and RENAME", "conflict:one ID twice"} <= told.counted()


def test_retries(told: Told) -> None:
    """S9.1 counts if another region than the adder replies; S9.5 counts for IDMPAUTO."""
    story = told.story
    story.command(1, "XADD k IDMP p 1 * t a", b"1000-1", idempotent(story, 1, "1000-1", "a"))
    story.sync()
    story.command(1, "XADD k IDMP p 1 * t a", b"1000-1")
    assert not {"S9.1", "S9.5"} & told.so_far()
    story.command(2, "XADD k IDMP p 1 * t a", b"1000-1")
    assert "S9.1" in told.so_far()
    story.command(1, "XADD k IDMPAUTO p * t a", b"1000-1")
    assert "S9.5" in told.so_far()


def test_a_watch_that_a_merge_breaks(told: Told) -> None:
    """S10.7 does not count if the region itself had written."""
    story = told.story
    watch = story.command(1, "WATCH k", OK)
    story.add(1, "1000-1")
    story.command(1, "EXEC", NIL, queued=((b"XLEN", KEY),), under=(watch,))
    assert "S10.7" not in told.so_far()
    watch = story.command(1, "WATCH k", OK)
    story.add(2, "1001-2")
    story.sync()
    story.command(1, "EXEC", NIL, queued=((b"XLEN", KEY),), under=(watch,))
    assert "S10.7" in told.so_far()


def test_reads_of_a_group(told: Told) -> None:
    """S7.3: a read delivers a lower ID than one before. S7.4: after SETID, entries come again."""
    story = told.story
    create(story, 1)
    reading = "XREADGROUP GROUP g c STREAMS k >"
    story.command(1, reading, [[KEY, [entry("1005-1")]]])
    story.command(1, reading, [[KEY, [entry("1006-1")]]])
    assert not {"S7.3", "S7.4"} & told.so_far()
    story.command(1, reading, [[KEY, [entry("1002-2")]]])
    assert "S7.3" in told.so_far() and "S7.4" not in told.so_far()
    story.command(1, "XGROUP SETID k g 0", OK)
    story.command(1, reading, [[KEY, [entry("1002-2")]]])
    assert "S7.4" in told.so_far()


def test_a_group_that_lost_what_it_had_delivered_under(told: Told) -> None:
    """S6.5 counts if the destroy comes after the delivery."""
    story = told.story
    story.add(1, "1000-1")
    create(story, 1)
    story.sync()
    destroy(story, 2)
    story.sync()
    create(story, 1)
    story.command(1, "XREADGROUP GROUP g c STREAMS k >", [[KEY, [entry("1000-1")]]])
    assert "S6.5" not in told.rules()
    later = Told()
    story = later.story
    story.add(1, "1000-1")
    create(story, 1)
    story.command(1, "XREADGROUP GROUP g c STREAMS k >", [[KEY, [entry("1000-1")]]])
    destroy(story, 1)
    assert "S6.5" in later.rules()


def test_acked_trimming_that_stopped(told: Told) -> None:
    story = told.story
    story.answers[(1, (b"XLEN", KEY))] = 3
    story.command(1, "XTRIM k MAXLEN 3 ACKED", 0)
    assert "S5.3" not in told.so_far()
    story.command(1, "XTRIM k MAXLEN 2 ACKED", 0)
    assert "S5.3" in told.so_far()


# -- the causal past


def test_counters_that_come_again_are_written_over() -> None:
    """After a crash, new effects have the counters of lost ones and another causal past."""
    steps = Steps()
    steps.add(1, 2, {}, False)
    steps.add(3, 5, {2: 4}, False)
    steps.add(4, 4, {2: 1}, True)
    assert (steps.last, steps.vectors, steps.by_itself) == ([2, 4], [{}, {2: 1}], [False, True])
    assert (steps.first_after(2, 1), steps.first_after(2, 2)) == (3, 1 << 62)


def naive_unaware(
    befores: dict[tuple[int, int], Vector], dot: tuple[int, int]
) -> set[tuple[int, int]]:
    """The concurrent effects by definition: neither region had applied the other's effect."""
    region, counter = dot
    return {
        other
        for other, before in befores.items()
        if other[0] != region
        and before.get(region, 0) < counter
        and befores[dot].get(other[0], 0) < other[1]
    }


@pytest.mark.parametrize("seed", range(5))
def test_who_did_not_know_of_whom_is_what_the_definition_says(seed: int) -> None:
    draw = Random(seed)
    vectors: dict[int, Vector] = {1: {}, 2: {}, 3: {}}
    past = CausalPast((1, 2, 3))
    befores: dict[tuple[int, int], Vector] = {}
    for _ in range(60):
        region = draw.randint(1, 3)
        if draw.random() < 0.4:
            other = draw.choice([one for one in (1, 2, 3) if one != region])
            for origin, counter in vectors[other].items():
                vectors[region][origin] = max(vectors[region].get(origin, 0), counter)
            continue
        size = draw.randint(1, 3)
        first = vectors[region].get(region, 0) + 1
        before = {
            origin: counter for origin, counter in vectors[region].items() if origin != region
        }
        past.steps[region].add(first, first + size - 1, dict(vectors[region]), False)
        past.take(region, first, [fx.DestroyGroup(KEY, b"g") for _ in range(size)])
        for counter in range(first, first + size):
            befores[(region, counter)] = before
        vectors[region][region] = first + size - 1
    past.index(dict.fromkeys((1, 2, 3), 1000))
    for dot in befores:
        assert set(past.unaware(dot, KEY, "destroy")) == naive_unaware(befores, dot)


def test_words_are_understood() -> None:
    """Commands in lower case count as well."""
    story = Story(1, [Witness])
    words: Words = (b"xadd", KEY, b"*", b"t", b"1")
    story.command(1, words, b"2000-1", Plain("2000-1", [b"t", b"1"]))
    witness = story.judges[0]
    assert isinstance(witness, Witness) and witness.counters == {"rule:S4.1": 1}
