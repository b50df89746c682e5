"""The judges of histories accept right histories, and each of them rejects wrong ones."""

from __future__ import annotations

import pytest

from anabranch.crdt import effects as fx
from anabranch.region.engine.replies import ErrorReply, MapReply, Reply
from anabranch.sim.history import Moved, Words
from tests.sim.fabricated import KEY, OK, Plain, Story, idempotent


def entry(entry_id: str, token: str = "") -> list[Reply]:
    """An entry as replies show it; its token is the ID unless one is given."""
    return [entry_id.encode(), [b"t", (token or entry_id).encode()]]


def ordinary_life() -> Story:
    """Two regions run commands of many kinds, and all of them are right."""
    story = Story()
    story.add(1, "1000-1", "a")
    story.command(
        1, "XGROUP CREATE k g 0", OK, fx.CreateGroup(KEY, b"g", 0, False, story.vector(1))
    )
    story.add(2, "1000-2", "b")
    story.sync()
    story.command(2, "XRANGE k - +", [entry("1000-1", "a"), entry("1000-2", "b")])
    story.command(2, "XRANGE k - + COUNT 1", [entry("1000-1", "a")])
    story.command(1, "XREAD STREAMS k 1000-1", [[KEY, [entry("1000-2", "b")]]])
    story.command(1, "XDEL k 1000-1 7-7", 1, fx.RemoveEntries(KEY, [(1, 1)]))
    story.command(2, "XLEN k", 2)
    story.at(1001)
    story.add(2, "1001-2", "c")
    story.command(2, "XTRIM k MAXLEN 2", 1, fx.Trim(KEY, {1: 1}, False))
    story.command(2, "XGROUP DESTROY k g", 1, fx.DestroyGroup(KEY, b"g"))
    story.sync()
    story.at(1002)
    return story


def test_all_judges_are_silent_when_regions_are_right() -> None:
    story = ordinary_life()
    for region in (1, 2):
        story.command(region, "XRANGE k - +", [entry("1000-2", "b"), entry("1001-2", "c")])
        story.command(region, "XINFO GROUPS k", [])
        story.command(region, "EXISTS k", 1)
    story.command(1, "DEL k", 1, fx.Delete(KEY, story.vector(1)))
    story.sync()
    story.command(2, "EXISTS k", 0)
    assert story.finish() == [], story.texts()


# -- 1: acknowledged adds


def test_an_acknowledged_add_that_a_region_lacks() -> None:
    story = ordinary_life()
    story.answers[(1, (b"XRANGE", KEY, b"-", b"+"))] = [entry("1000-2", "b")]
    assert story.finish() == ["acknowledged_adds"]
    assert "lacks 1001-2" in story.texts()


def test_an_acknowledged_add_that_a_region_has_not_heard_of() -> None:
    story = ordinary_life()
    story.add(1, "1002-1", "d")
    story.commit(1)
    assert "acknowledged_adds" in story.finish()
    assert "never received 1002-1" in story.texts()


def test_under_everysec_a_crash_may_take_what_was_not_committed() -> None:
    story = ordinary_life()
    story.add(1, "1002-1", "d")
    story.crash(1)
    assert story.finish() == [], story.texts()


def test_under_always_an_answer_waits_for_the_disk() -> None:
    story = ordinary_life()
    operation = story.add(1, "1002-1", "d", always=True)
    story.commit(1)
    story.answer(operation)
    assert story.found() == []
    story.answer(story.add(1, "1002-1001", "e", always=True))
    assert story.found() == ["acknowledged_adds"]


def test_under_always_a_crash_takes_nothing_that_was_answered() -> None:
    story = ordinary_life()
    before = story.vector(1)
    operation = story.add(1, "1002-1", "d", always=True)
    story.commit(1)
    story.answer(operation)
    story.crash(1, "power", before)
    assert story.found() == ["acknowledged_adds", "vectors"]


def test_a_restored_disk_may_take_what_nobody_else_had() -> None:
    story = ordinary_life()
    before = story.vector(1)
    story.add(1, "1002-1", "d")
    story.commit(1)
    story.crash(1, "backup", before)
    story.sync()
    assert story.finish() == [], story.texts()


@pytest.mark.parametrize("fails", [False, True])
def test_an_answer_to_whom_its_commit_has_failed(fails: bool) -> None:
    """S13.4: a failed commit disconnects the clients that wait for it.

    The reply to another client's write shows that the commit failed.
    """
    story = ordinary_life()
    operation = story.add(1, "1002-1", "d", always=True)
    if fails:
        text = (
            "MISCONF this region takes no writes: "
            "its last commit to disk failed and is being retried (full)"
        )
        story.command(1, "XADD k * t e", ErrorReply(text), client=2, always=True)
    story.commit(1)
    story.answer(operation)
    assert story.found() == ["acknowledged_adds"] * fails, story.texts()


# -- 2: phantoms


def test_an_entry_that_nobody_added() -> None:
    story = ordinary_life()
    story.command(
        1,
        "XADD k * t d",
        b"1002-1",
        Plain("1002-1", [b"t", b"d"]),
        Plain("1002-1001", [b"t", b"ghost"]),
    )
    story.sync()
    assert story.found() == ["no_phantoms"]


def test_an_entry_of_an_add_that_was_refused() -> None:
    story = ordinary_life()
    story.command(
        1, "XADD k 5-5 t d", ErrorReply("ERR full stream IDs"), Plain("1001-1", [b"t", b"d"])
    )
    story.commit(1)
    assert "no_phantoms" in story.found()
    assert "was refused" in story.texts()


def test_an_entry_with_other_fields_than_were_added() -> None:
    story = ordinary_life()
    story.command(1, "XADD k * t d a 1", b"1002-1", Plain("1002-1", [b"t", b"d", b"a", b"2"]))
    story.commit(1)
    assert "no_phantoms" in story.found()


def test_an_entry_that_is_only_shown() -> None:
    story = ordinary_life()
    story.answers[(2, (b"XRANGE", KEY, b"-", b"+"))] = [
        entry("1000-2", "b"),
        entry("1001-2", "c"),
        entry("1002-2", "ghost"),
    ]
    assert story.finish() == ["no_phantoms", "no_return"]


def test_a_renamed_key_holds_copies_not_phantoms() -> None:
    story = Story()
    story.add(1, "1000-1", "a")
    one = fx.Delete(KEY, story.vector(1))
    story.command(
        1,
        "RENAME k m",
        OK,
        one,
        Plain("1000-1", [b"t", b"a"], b"m"),
        fx.SetId(b"m", (1000 << 64) + 1),
    )
    story.sync()
    assert story.finish() == [], story.texts()


# -- 3: idempotent adds


def retry(story: Story, region: int, token: str, reply: str, *effects: fx.AddIdempotent) -> None:
    story.command(region, f"XADD k IDMP p 1 * t {token}", reply.encode(), *effects)


def test_retries_are_answered_with_the_first_id() -> None:
    story = Story()
    retry(story, 1, "a", "1000-1", idempotent(story, 1, "1000-1", "a"))
    retry(story, 1, "a", "1000-1")
    story.sync()
    retry(story, 2, "a", "1000-1")
    story.at(2001)
    retry(story, 1, "a", "2001-1", idempotent(story, 1, "2001-1", "a"))  # the window is over (S9.1)
    story.sync()
    assert story.finish() == [], story.texts()


def conflict() -> Story:
    """Two regions have added one pair; neither had seen the other's add."""
    story = Story()
    retry(story, 1, "a", "1000-1", idempotent(story, 1, "1000-1", "a"))
    retry(story, 2, "a", "1000-2", idempotent(story, 2, "1000-2", "a"))
    story.commit(1)
    story.commit(2)
    story.merge(2, 1)
    return story


def test_a_conflict_that_is_resolved() -> None:
    story = conflict()
    story.merge(1, 2, "merge", fx.RemoveEntries(KEY, [(2, 1)]))
    story.sync()
    retry(story, 2, "a", "1000-1")
    assert story.finish() == [], story.texts()


def test_a_conflict_of_which_both_stay() -> None:
    story = conflict()
    story.merge(1, 2)
    story.sync()
    assert story.finish() == ["idempotent_once"]


def test_a_conflict_that_was_met_before_its_duration_was_made_shorter() -> None:
    """Seed 1818583: a conflict and a shorter duration arrived in one step, the duration last."""
    story = Story(stream_idmp_duration="2")
    retry(story, 1, "a", "1000-1", idempotent(story, 1, "1000-1", "a"))
    story.at(2500)
    retry(story, 2, "a", "2500-2", idempotent(story, 2, "2500-2", "a"))
    story.command(
        1, "XCFGSET k IDMP-DURATION 1", OK, fx.Configure(KEY, 1, 100, [], story.vector(1))
    )
    story.commit(1)
    story.commit(2)
    story.merge(1, 2, "merge", fx.RemoveEntries(KEY, [(2, 1)]))
    story.sync()
    assert story.finish() == [], story.texts()


def test_a_pair_may_be_evicted() -> None:
    story = Story(stream_idmp_maxsize="1")
    retry(story, 1, "a", "1000-1", idempotent(story, 1, "1000-1", "a"))
    command: Words = (b"XADD", KEY, b"IDMP", b"p", b"2", b"*", b"t", b"b")
    story.command(1, command, b"1000-1001", idempotent(story, 1, "1000-1001", "b", iid=b"2"))
    retry(story, 1, "a", "1000-2001", idempotent(story, 1, "1000-2001", "a"))
    story.sync()
    assert story.finish() == [], story.texts()


# -- 4: unique IDs


def test_a_region_that_generates_another_ones_id() -> None:
    story = Story()
    story.add(1, "1000-1", "a")
    story.add(2, "1000-1", "b")
    story.sync()
    assert story.found() == ["unique_ids"]


def test_a_client_may_give_one_id_twice() -> None:
    story = Story(crdt_xadd_id_uniqueness_mode="semi-strict")
    story.command(1, "XADD k 5-5 t a", b"5-5", Plain("5-5", [b"t", b"a"]))
    story.command(2, "XADD k 5-5 t b", b"5-5", Plain("5-5", [b"t", b"b"]))
    story.sync()
    story.command(1, "XDEL k 5-5", 2, fx.RemoveEntries(KEY, [(1, 1), (2, 1)]))
    story.sync()
    assert story.finish() == [], story.texts()


# -- 5: vectors


def test_a_vector_that_regresses() -> None:
    story = ordinary_life()
    story.vectors[1] = {1: 1}
    story.command(1, "PING", OK)
    assert story.found() == ["vectors"]


def test_a_start_that_finds_less_than_was_on_disk() -> None:
    story = ordinary_life()
    story.crash(2, "kill", {2: 1})
    assert story.found() == ["vectors"]


def test_a_clean_end_that_loses_something() -> None:
    story = ordinary_life()
    story.add(1, "1002-1", "d")
    story.crash(1, "clean")
    assert story.found() == ["vectors"]


def test_effects_that_were_never_on_their_regions_disk() -> None:
    story = ordinary_life()
    story.add(1, "1002-1", "d")
    # The region sends the effect before the commit (S13.3).
    story.disks[1] = story.vector(1)
    story.merge(1, 2)
    assert story.found() == ["vectors"]


def test_effects_without_those_that_they_rest_on() -> None:
    story = Story(regions=3)
    story.add(1, "1000-1", "a")
    story.commit(1)
    story.merge(1, 2)
    story.add(2, "1000-2", "b")
    story.commit(2)
    # Region 2 sends its own effect without the effects that it rests on (S2.1).
    story.disks[2] = {2: 1}
    story.merge(2, 3)
    assert story.found() == ["vectors"]


def test_half_a_block() -> None:
    story = Story()
    story.add(1, "1000-1", "a")
    story.add(1, "1000-1001", "b")
    story.commit(1)
    story.disks[1] = {1: 1}
    story.merge(1, 2)
    assert story.found() == ["vectors"]


def test_counters_that_stand_for_two_contents() -> None:
    story = ordinary_life()
    before = {**story.vector(1), 1: 2}
    story.crash(1, "backup", before)
    story.add(1, "1002-1", "d")
    story.commit(1)
    assert story.found() == ["vectors"]


def test_a_wrong_chain() -> None:
    story = ordinary_life()
    story.chains[1] = bytes(16)
    story.add(1, "1002-1", "d")
    story.commit(1)
    assert story.found() == ["vectors"]


def test_a_gap_between_blocks() -> None:
    story = ordinary_life()
    story.vectors[1] = {**story.vector(1), 1: 9}
    story.add(1, "1002-1", "d")
    story.commit(1)
    assert "vectors" in story.found()


@pytest.mark.parametrize(
    ("command", "right", "wrong"),
    [
        ("CRDT.VECTOR", [1, 3, 2, 4], [1, 4, 2, 4]),
        ("CRDT.WAIT 10 1 3", 1, None),
        ("CRDT.WAIT 10 1 4", 0, 1),
        ("WAIT 1 10", 0, 1),
    ],
)
def test_what_is_told_of_disks(command: str, right: Reply, wrong: Reply) -> None:
    story = ordinary_life()
    story.add(1, "1002-1", "d")
    story.command(1, command, right)
    assert story.found() == []
    if wrong is not None:
        story.command(1, command, wrong)
        assert story.found() == ["vectors"]


@pytest.mark.parametrize(
    ("figures", "is_right"),
    [
        (b"crdt_disk_vector:1=3,2=4", True),
        (b"crdt_disk_vector:1=4,2=4", False),
        (b"crdt_stable_vector:1=3,2=4", True),
        (b"crdt_stable_vector:1=4,2=4", False),
        (b"crdt_forks:1", False),
    ],
)
def test_what_info_says_of_disks(figures: bytes, is_right: bool) -> None:
    story = ordinary_life()
    story.add(1, "1002-1", "d")
    story.answers[(1, (b"INFO", b"crdt"))] = figures
    for _ in range(2):
        story.show()
    assert story.found() == ([] if is_right else ["vectors"])
    # The stable vector is right once both regions have the effects on their disks.
    if not is_right and b"stable" in figures:
        story = ordinary_life()
        story.add(1, "1002-1", "d")
        story.sync()
        story.answers[(1, (b"INFO", b"crdt"))] = figures
        assert story.finish() == []


def test_a_region_above_the_eighth_that_is_lost() -> None:
    """Names of all 16 regions are known: INFO says by name which regions are lost (S13.8)."""
    for lost, right in (("", False), ("r9", True), ("r10", False)):
        story = Story(regions=9)
        story.add(1, "1000-1", "a")
        story.commit(1)
        for other in range(2, 9):
            story.merge(1, other)
            story.commit(other)
        figures = f"crdt_stable_vector:1=1\r\ncrdt_members_lost:{lost}"
        story.answers[(1, (b"INFO", b"crdt"))] = figures.encode()
        for _ in range(9):
            story.show()
        assert story.found() == ([] if right else ["vectors"]), story.texts()


def test_the_log_of_a_region_above_the_eighth() -> None:
    story = Story(regions=9)
    story.add(9, "1000-9", "a")
    entry_of_log = MapReply([b"id", b"1000-9", b"counter", 1, b"fields", [b"t", b"a"]])
    story.command(9, "CRDT.LOG k r9", [entry_of_log])
    story.commit(9)
    assert story.found() == [], story.texts()


# -- 6: digests


def test_equal_vectors_with_unequal_digests() -> None:
    story = ordinary_life()
    story.show()
    assert story.found() == []
    story.show(r2=b"else")
    assert story.found() == ["digests"]


def test_a_vector_that_shows_another_digest_later() -> None:
    story = ordinary_life()
    story.show(r1=b"one", r2=b"one")
    story.show(r1=b"two", r2=b"two")
    assert story.found() == ["digests"]


def test_counters_that_a_crash_has_taken_back_may_show_another_digest() -> None:
    story = ordinary_life()
    story.add(1, "1002-1", "d")
    story.show(r1=b"one")
    story.crash(1)
    story.add(1, "1002-1", "e")
    story.show(r1=b"two")
    assert story.found() == []


# -- 10: no return


def test_an_entry_that_is_there_again_at_the_end() -> None:
    story = ordinary_life()
    story.answers[(2, (b"XRANGE", KEY, b"-", b"+"))] = [
        entry("1000-1", "a"),
        entry("1000-2", "b"),
        entry("1001-2", "c"),
    ]
    assert story.finish() == ["no_return"]


def test_a_group_that_is_there_again_at_the_end() -> None:
    story = ordinary_life()
    story.answers[(1, (b"XINFO", b"GROUPS", KEY))] = [MapReply([b"name", b"g"])]
    assert story.finish() == ["no_return"]


# -- the ledger


def test_a_commit_that_only_the_next_start_found() -> None:
    story = ordinary_life()
    story.add(1, "1002-1", "d")
    told: list[object] = []
    tell = story.tell
    story.tell = lambda event, value: told.append(value)  # type: ignore[method-assign]
    # The commit is on disk, but the process dies before it reports the commit.
    story.commit(1)
    story.tell = tell  # type: ignore[method-assign]
    story.crash(1)
    for event in told:
        story.tell("committed", event)
    story.merge(1, 2)
    assert story.found() == [], story.texts()
    assert not story.ledger.blind and story.ledger.log.last(1) == story.vector(1)[1]


def test_what_comes_back_from_others_after_a_restore_is_no_new_effect() -> None:
    story = ordinary_life()
    story.crash(1, "backup", {1: 1})
    story.merge(2, 1)
    story.command(1, "XRANGE k - +", [entry("1000-2", "b"), entry("1001-2", "c")])
    story.add(1, "1002-1", "d")
    story.commit(1)
    assert "vectors" not in story.found(), story.texts()


@pytest.mark.parametrize("how", ["merge", "join"])
def test_own_effects_that_a_region_learned_again_are_no_phantoms(how: str) -> None:
    """S13.7: the judges know these effects from the time before the restore."""
    story = ordinary_life()
    story.crash(1, "backup", {1: 1})
    story.merge(2, 1, how)
    story.commit(1)
    story.add(1, "1002-1", "d")
    story.sync()
    assert story.finish() == [], story.texts()


def test_an_effect_that_no_peer_had_is_not_learned_again() -> None:
    """An effect after the last one of the former process is a new one, and needs a client."""
    story = ordinary_life()
    story.crash(1, "backup", {1: 1})
    story.merge(2, 1)
    assert story.found() == [], story.texts()
    story.tick(1, Plain("1002-1", [b"t", b"ghost"]))
    story.commit(1)
    assert story.found() == ["no_phantoms"], story.texts()
    assert "no client added the token b'ghost'" in story.texts()


def test_a_learned_effect_that_nobody_issued_is_found_where_it_arrives() -> None:
    """The region reports an own effect as received from a peer, and commits no block of it."""
    story = ordinary_life()
    story.crash(1, "backup", {1: 1})
    before, after = story.vector(1), {**story.vector(2), 1: story.vector(2)[1] + 1}
    story.vectors[1] = after
    story.tell("moved", Moved(1, story.starts[1], "merge", before, after, 1002, 1002, True))
    story.commit(1)
    story.merge(1, 2)
    assert story.found() == ["vectors"], story.texts()
    assert "which never had it on its disk" in story.texts()


def test_effects_issued_anew_are_not_learned_ones() -> None:
    """S13.3: a restored region gives counters again that another region holds."""
    story = ordinary_life()
    story.crash(1, "backup", {1: 1})
    story.chains[1] = bytes(16)
    story.add(1, "1002-1", "d")
    story.commit(1)
    assert "vectors" in story.found()
    assert "that other regions hold" in story.texts()


def test_lost_counters_issued_anew_are_known_once_they_are_committed() -> None:
    """Until then the log has the former effects of these counters. From seed 1059788618091.

    The judge `no_return` took the former effects for the new ones, and saw a removal among them.
    """
    story = Story()
    story.add(1, "1000-1", "a")
    story.add(1, "1000-1001", "b")
    story.commit(1)
    story.crash(1, "backup", {1: 1})
    story.chains[1] = bytes(16)
    story.add(1, "1002-1", "c")
    assert story.vector(1) == {1: 2} and story.ledger.state_at({1: 1}) is not None
    assert story.ledger.state_at({1: 2}) is None
    story.commit(1)
    state = story.ledger.state_at({1: 2})
    assert state is not None
    assert {add.shown_id for add in state.key(KEY).adds.values()} == {b"1000-1", b"1002-1"}


# -- units and blocks


def test_a_block_that_ends_within_a_unit() -> None:
    story = Story()
    story.add(1, "1000-1", "a")
    story.add(1, "1000-1001", "b")
    queued: tuple[Words, ...] = ((b"XDEL", KEY, b"1000-1"), (b"XDEL", KEY, b"1000-1001"))
    story.command(
        1,
        "EXEC",
        [1, 1],
        fx.RemoveEntries(KEY, [(1, 1)]),
        fx.RemoveEntries(KEY, [(1, 2)]),
        queued=queued,
    )
    rest = story.open[1].pop()
    story.vectors[1] = {1: 3}
    story.commit(1)
    story.vectors[1] = {1: 4}
    story.open[1] = [rest]
    story.commit(1)
    assert story.found() == ["vectors"]
    assert "within a unit" in story.texts()


def test_a_block_that_goes_on_after_a_merge() -> None:
    story = Story()
    story.add(2, "1000-2", "b")
    story.commit(2)
    story.add(1, "1000-1", "a")
    story.merge(2, 1)
    story.add(1, "1000-1001", "c")
    story.commit(1)
    assert story.found() == ["vectors"]
    assert "effects issued at" in story.texts()


# -- 13: stable times


def told(story: Story, region: int, stable_ms: int) -> None:
    story.command(region, "CRDT.STABLE", stable_ms)


def test_stable_times_that_are_right() -> None:
    story = Story()
    story.add(1, "1000-1", "a")
    story.sync()
    told(story, 1, 1001)
    told(story, 2, 1001)
    story.at(1001)
    story.add(1, "1001-1", "b")
    story.add(2, "1001-2", "c")
    story.sync()
    story.command(1, "XDEL k 1000-1", 1, fx.RemoveEntries(KEY, [(1, 1)]))
    told(story, 1, 1002)
    story.sync()
    told(story, 2, 1002)
    assert story.finish() == [], story.texts()


def test_an_entry_generated_below_a_time_that_was_told() -> None:
    story = Story()
    told(story, 2, 1001)
    story.add(1, "1000-1", "a")
    story.commit(1)
    assert story.found() == ["stable_times"]


def test_an_entry_on_disk_that_the_region_lacked_when_it_told_the_time() -> None:
    story = Story()
    story.add(1, "1000-1", "a")
    story.commit(1)
    told(story, 2, 1001)
    assert story.found() == [], "nobody has seen the entry yet"
    story.merge(1, 2)
    assert story.found() == ["stable_times"]


def test_two_regions_that_tell_times_hold_the_same_entries_below_them() -> None:
    story = Story()
    story.add(1, "1000-1", "a")
    story.commit(1)
    told(story, 2, 1001)
    told(story, 1, 1001)
    assert story.found() == ["stable_times"]


def test_a_time_that_info_shows_counts_as_told() -> None:
    story = Story()
    story.answers[(2, (b"INFO", b"crdt"))] = b"# CRDT\r\ncrdt_stable_ms:1001\r\n"
    story.show()
    story.show()
    story.add(1, "1000-1", "a")
    story.commit(1)
    assert story.found() == ["stable_times"]


@pytest.mark.parametrize("is_given", [False, True])
def test_ids_that_a_client_gives_void_a_time(is_given: bool) -> None:
    story = Story(crdt_xadd_id_uniqueness_mode="semi-strict")
    told(story, 2, 1001)
    entry = "1000-5" if is_given else "1000-1"
    words = f"XADD k {entry if is_given else '*'} t a"
    story.command(1, words, entry.encode(), Plain(entry, [b"t", b"a"]))
    story.commit(1)
    assert story.found() == ([] if is_given else ["stable_times"])


def test_a_restored_region_that_issues_its_counters_again_below_a_time() -> None:
    """Region 1 told a time with its effect 1. After the restore, another effect has that number."""
    story = Story()
    told(story, 1, 1001)
    story.at(1001)
    story.add(1, "1001-1", "a")
    story.commit(1)
    told(story, 1, 1002)
    story.crash(1, "backup", {})
    story.at(1000)
    story.add(1, "1000-1", "b")
    story.commit(1)
    assert "stable_times" in story.found()


def test_a_lost_add_whose_counter_is_issued_again_at_the_end() -> None:
    """The run ends before that effect is committed: other regions lack it, and not the add.

    Seed 62002488, with `--restores` and a region that is always gone for good.
    """
    story = ordinary_life()
    story.add(1, "1002-1", "d")
    story.commit(1)
    story.crash(1, "backup", {1: 3, 2: 4})
    story.add(1, "1002-1001", "e")
    assert "acknowledged_adds" not in story.finish(), story.texts()


def test_a_lost_counter_that_is_issued_again_and_not_committed_yet() -> None:
    """Seed 24000704: until the commit, the judge took the former effect for the new one."""
    story = Story()
    story.add(1, "1000-1", "a")
    story.commit(1)
    story.crash(1, "backup", {})
    story.chains[1] = bytes(16)
    story.at(1001)
    story.command(1, "XRANGE k - +", [])
    told(story, 2, 1001)
    story.add(1, "1001-1", "b")
    told(story, 1, 1001)
    assert story.found() == [], story.texts()
    story.commit(1)
    assert story.found() == [], story.texts()


@pytest.mark.parametrize("put_back", [(1,), (2,), (1, 2)])
def test_a_time_that_no_disk_remembers_is_void(put_back: tuple[int, ...]) -> None:
    """Seed 438427007946: three regions were put back at once, and one of their clocks was behind.

    One region that was not put back is enough: it tells the other the floor.
    """
    story = Story()
    told(story, 2, 1001)
    for region in put_back:
        story.crash(region, "backup", {})
    story.add(1, "1000-1", "a")
    story.commit(1)
    assert story.found() == ([] if len(put_back) == 2 else ["stable_times"])


@pytest.mark.parametrize("clock_ms", [1000, 1001])
def test_a_time_that_rests_on_the_clock_of_a_former_life(clock_ms: int) -> None:
    """Seed 95303639: region 1 was put back, and region 2 had not heard of it when it told a time.

    Then region 2 was put back, too. The new life of region 1 remembers only the clock it has read.
    """
    story = Story()
    story.crash(1, "backup", {})
    story.at(clock_ms)
    story.command(1, "XRANGE k - +", [])
    story.at(1000)
    told(story, 2, 1001)
    story.crash(2, "backup", {})
    story.add(1, "1000-1", "a")
    story.commit(1)
    assert story.found() == ([] if clock_ms == 1000 else ["stable_times"])


def test_a_region_that_is_gone_remembers_no_time() -> None:
    story = Story(3)
    told(story, 2, 1001)
    story.stop(3, "gone")
    story.crash(1, "backup", {})
    story.crash(2, "backup", {})
    story.add(1, "1000-1", "a")
    story.commit(1)
    assert story.found() == []


def test_own_effects_that_a_crash_took_may_come_again_with_other_ids() -> None:
    story = Story()
    story.add(1, "1000-1", "a")
    told(story, 1, 1001)
    story.crash(1)
    story.at(1001)
    story.add(1, "1001-1", "b")
    story.commit(1)
    assert story.found() == [], story.texts()


def test_own_effects_that_were_never_on_disk_before_a_restore() -> None:
    """The counter was never committed, so the judge must not take the new effect for the old."""
    story = Story()
    story.at(1001)
    story.add(1, "1001-1", "a")
    told(story, 1, 1002)
    story.crash(1, "backup", {})
    story.at(1000)
    story.add(1, "1000-1", "b")
    story.commit(1)
    assert "stable_times" in story.found()


def test_a_restored_region_that_gets_its_effects_back_told_the_truth() -> None:
    """Seed 300202: after the restore it was killed, and then peers sent what the disk had lost."""
    story = Story()
    story.add(1, "1000-1", "a")
    story.sync()
    told(story, 1, 1001)
    story.crash(1, "backup", {})
    story.crash(1, "kill", {})
    story.merge(2, 1)
    story.commit(1)
    assert story.found() == [], story.texts()


def test_nothing_is_demanded_of_a_region_that_is_gone() -> None:
    story = Story(regions=3)
    story.add(3, "1000-3", "a")
    story.commit(3)
    story.merge(3, 2)
    story.stop(3, "gone")
    told(story, 1, 1001)
    told(story, 2, 1001)
    story.merge(2, 1)
    assert story.found() == [], story.texts()
