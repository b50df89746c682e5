"""The answer to "what if this region vanished now", on three regions whose logs are given.

Each region is a real engine with its real log; `sync` brings effects from one to another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.study.whatif.answer import answer
from anabranch.study.whatif.asking import Bounds, Words, survey
from tests.study.test_explanation import NAMES, Cluster
from tests.support.facts import Facts, facts_of_answer

IDS = {name: region_id for region_id, name in NAMES.items()}
READ = ("XREADGROUP", "GROUP", "g", "alice", "STREAMS", "k", ">")


def if_lost(
    cluster: Cluster,
    name: str = "eu",
    silent: Sequence[str] = (),
    bounds: Bounds | None = None,
    listed: int = 10,
) -> Facts:
    """The facts about a region; `silent` regions do not answer."""

    def call(region: int, words: Words) -> Any:
        if words == ("CRDT.VECTOR",):
            vector = cluster.regions[NAMES[region]].engine.disk_vector
            return [number for pair in vector.items() for number in pair]
        argv = [word.decode() if isinstance(word, bytes) else str(word) for word in words]
        return cluster.call(NAMES[region], *argv)

    def ask(region: int, commands: Sequence[Words]) -> list[Any]:
        assert NAMES[region] not in silent
        return [call(region, words) for words in commands]

    others = [one for one in NAMES if NAMES[one] not in {name, *silent}]
    found = survey(ask, IDS[name], name not in silent, others, bounds or Bounds())
    return facts_of_answer(answer(found, others, NAMES, listed))


def told(facts: Facts) -> str:
    return "\n".join(facts.lines)


def ids(entries: dict[str, Any]) -> list[str]:
    return [one["id"] for one in entries["listed"]]


def with_group(start: str = "0") -> tuple[Cluster, list[str]]:
    """Three entries of us and a group that all regions have."""
    cluster = Cluster()
    entries = [cluster.call("us", "XADD", "k", "*", "n", str(number)) for number in range(3)]
    cluster.call("us", "XGROUP", "CREATE", "k", "g", start)
    cluster.sync("us", "eu")
    cluster.sync("us", "ap")
    return cluster, entries


# -- entries and removals


def test_nothing_is_lost_of_a_region_that_is_level() -> None:
    cluster, _ = with_group()
    facts = if_lost(cluster)
    assert facts["keys"] == [] and facts["groups"] == [] and facts["only_there"] == []
    assert told(facts).startswith("If eu vanished now, nothing would be lost or delivered again.")


def test_entries_that_nobody_else_has() -> None:
    cluster = Cluster()
    kept = cluster.call("eu", "XADD", "k", "*", "a", "1")
    cluster.sync("eu", "us")
    lost = [cluster.call("eu", "XADD", key, "*", "a", "1") for key in ("k", "k", "l")]
    removed = cluster.call("eu", "XADD", "l", "*", "a", "1")
    cluster.call("eu", "XDEL", "l", removed)
    facts = if_lost(cluster)
    found = {key["key"]: ids(key["entries"]) for key in facts["keys"]}
    assert found == {"k": lost[:2], "l": lost[2:]} and kept not in found["k"]
    assert facts["only_there"] == [{"origin": "eu", "from": 2, "to": 6}]
    lines = told(facts)
    assert lines.startswith("If eu vanished now, 3 entries in 2 keys would be lost.")
    assert f"2 entries of k are only in eu: {lost[0]}, {lost[1]}." in lines


def test_lists_are_bounded_and_counts_exact() -> None:
    cluster = Cluster()
    for number in range(25):
        cluster.call("eu", "XADD", "k", "*", "n", str(number))
    (key,) = if_lost(cluster, listed=4)["keys"]
    assert key["entries"]["count"] == 25 and len(ids(key["entries"])) == 4
    assert "and 21 more." in told(if_lost(cluster, listed=4))


def test_effects_of_a_third_region_count_if_only_this_one_has_them() -> None:
    """ap does not answer, and eu is the only one that it was connected with."""
    cluster = Cluster()
    entry = cluster.call("ap", "XADD", "k", "*", "a", "1")
    cluster.sync("ap", "eu")
    assert if_lost(cluster)["keys"] == [], "ap itself has it"
    facts = if_lost(cluster, silent=["ap"])
    (key,) = facts["keys"]
    assert ids(key["entries"]) == [entry] and facts["silent"] == ["ap"]
    assert facts["only_there"] == [{"origin": "ap", "from": 1, "to": 1}]
    assert "ap does not answer" in told(facts)


def test_a_silent_region_that_is_known_to_have_them_is_named() -> None:
    cluster = Cluster()
    cluster.call("eu", "XADD", "k", "*", "a", "1")
    cluster.sync("eu", "ap")
    eu, ap = cluster.regions["eu"], cluster.regions["ap"]
    eu.engine.peers.acknowledged(ap.region_id, dict(ap.engine.disk_vector), cluster.clock.wall_ms)
    (key,) = if_lost(cluster, silent=["ap"])["keys"]
    assert key["entries"]["also_in"] == {"ap": 1}


def test_removals_that_would_be_undone() -> None:
    cluster = Cluster()
    entries = [cluster.call("us", "XADD", "k", "*", "n", str(number)) for number in range(5)]
    cluster.sync("us", "eu")
    cluster.call("eu", "XDEL", "k", entries[3])
    cluster.call("eu", "XTRIM", "k", "MAXLEN", "3")
    late = cluster.call("us", "XADD", "k", "*", "n", "late")
    (key,) = if_lost(cluster)["keys"]
    assert [one["command"] for one in key["removals"]["listed"]] == ["XDEL", "XTRIM"]
    assert ids(key["returning"]) == [entries[0], entries[3]] and late not in ids(key["returning"])
    cluster.sync("eu", "us")
    assert if_lost(cluster)["keys"] == []


def test_a_delete_of_every_key() -> None:
    cluster = Cluster()
    first = cluster.call("us", "XADD", "k", "*", "n", "1")
    second = cluster.call("us", "XADD", "l", "*", "n", "1")
    cluster.sync("us", "eu")
    cluster.call("eu", "FLUSHALL")
    facts = if_lost(cluster)
    assert {key["key"]: ids(key["returning"]) for key in facts["keys"]} == {
        "k": [first],
        "l": [second],
    }
    assert facts["totals"]["removals"] == 1 and facts["totals"]["returning"] == 2


def test_a_group_that_another_region_has_destroyed_is_not_lost() -> None:
    """Its create is on the disk of the other region, so nothing is lost with this one."""
    cluster, _ = with_group()
    cluster.call("us", "DEL", "k")
    facts = if_lost(cluster)
    assert all(not key["groups_created"] for key in facts["keys"])


def test_groups_deadlines_windows_last_ids_and_pairs() -> None:
    cluster = Cluster()
    cluster.call("us", "XADD", "k", "*", "n", "1")
    cluster.call("us", "XGROUP", "CREATE", "k", "old", "0")
    cluster.sync("us", "eu")
    cluster.call("eu", "XGROUP", "CREATE", "k", "new", "0")
    cluster.call("eu", "XGROUP", "DESTROY", "k", "old")
    cluster.call("eu", "PEXPIREAT", "k", "99000000")
    cluster.call("eu", "XCFGSET", "k", "IDMP-DURATION", "77")
    cluster.call("eu", "XADD", "k", "IDMP", "shop", "order-1", "*", "n", "2")
    cluster.call("eu", "XSETID", "k", "99999999-1")
    facts = if_lost(cluster)
    (key,) = facts["keys"]
    assert key["groups_created"] == ["new"] and key["groups_destroyed"] == ["old"]
    assert [one["at_ms"] for one in key["deadlines"]["listed"]] == [99_000_000]
    assert [one["duration_s"] for one in key["windows"]["listed"]] == [77]
    assert [one["id"] for one in key["last_ids"]["listed"]] == ["99999999-1"]
    assert key["pairs"] == {"count": 1, "listed": [["shop", "order-1"]]}
    lines = told(facts)
    for part in ("Group new of k is only in eu.", "Group old of k was destroyed in eu", "shop ord"):
        assert part in lines


# -- deliveries


def test_deliveries_that_would_repeat() -> None:
    cluster, entries = with_group()
    cluster.call("eu", *READ)
    cluster.call("eu", "XACK", "k", "g", entries[0])
    facts = if_lost(cluster)
    (group,) = facts["groups"]
    assert group["pending"] == 2 and group["consumers"] == [["alice", 2]]
    assert ids(group["acknowledged"]) == entries[:1]
    for region in ("us", "ap"):
        assert ids(group["again"][region]) == entries
        assert group["again"][region]["states"] == {"acknowledged": 1, "pending": 2}
    assert "us would deliver 3 entries again and ap would deliver 3 entries again." in told(facts)
    # And so it is.
    again = cluster.call("us", *READ)[0][1]
    assert [entry for entry, _ in again] == entries
    (group,) = if_lost(cluster)["groups"]
    assert ids(group["again"]["us"]) == [], "us has delivered them, too"


def test_an_announced_acknowledgement_reaches_the_others_through_any_region() -> None:
    """ap knows of the acknowledgement, and us hears of it from ap once eu is gone."""
    cluster, entries = with_group()
    cluster.call("eu", *READ)
    cluster.call("eu", "XACK", "k", "g", entries[0])
    announce(cluster, "eu")
    cluster.sync("eu", "ap")
    (group,) = if_lost(cluster)["groups"]
    assert ids(group["acknowledged"]) == []
    assert ids(group["again"]["us"]) == entries[1:] == ids(group["again"]["ap"])


def announce(cluster: Cluster, name: str) -> None:
    """A commit of the region begins a sync round, in which it announces acknowledgements."""
    cluster.clock.passes(100)
    cluster.call(name, "XADD", "other", "*", "n", "1")


def test_a_group_with_a_floor_delivers_only_above_it() -> None:
    cluster, entries = with_group()
    cluster.call("eu", *READ)
    cluster.call("us", "XGROUP", "SETID", "k", "g", entries[1])
    (group,) = if_lost(cluster)["groups"]
    assert ids(group["again"]["us"]) == entries[2:] and ids(group["again"]["ap"]) == entries


def test_a_group_that_only_this_region_has_repeats_nothing() -> None:
    cluster = Cluster()
    cluster.call("eu", "XADD", "k", "*", "n", "1")
    cluster.sync("eu", "us")
    cluster.call("eu", "XGROUP", "CREATE", "k", "g", "0")
    cluster.call("eu", *READ)
    (group,) = if_lost(cluster)["groups"]
    assert not group["again"]["us"]["has_group"] and not group["again"]["us"]["count"]
    assert "a read there gets NOGROUP" in told(if_lost(cluster))


def test_entries_that_were_acknowledged_and_removed_would_be_delivered_again() -> None:
    cluster, entries = with_group()
    cluster.call("eu", *READ)
    cluster.call("eu", "XACK", "k", "g", *entries)
    cluster.call("eu", "XDEL", "k", *entries)
    (group,) = if_lost(cluster)["groups"]
    assert group["again"]["us"]["states"] == {"removed": 3}


def test_a_group_that_was_destroyed_after_its_deliveries() -> None:
    """The log tells what the destroyed group had delivered."""
    cluster, entries = with_group()
    cluster.call("eu", *READ)
    cluster.call("eu", "XGROUP", "DESTROY", "k", "g")
    (group,) = if_lost(cluster)["groups"]
    assert ids(group["again"]["us"]) == entries
    assert group["again"]["us"]["states"] == {"destroyed": 3}


# -- limits


def test_a_region_that_does_not_answer() -> None:
    cluster, _ = with_group()
    cluster.call("eu", "XADD", "k", "*", "n", "1")
    us, eu = cluster.regions["us"], cluster.regions["eu"]
    us.engine.peers.acknowledged(eu.region_id, dict(eu.engine.disk_vector), cluster.clock.wall_ms)
    facts = if_lost(cluster, silent=["eu"])
    assert not facts["answers"] and facts["keys"] == []
    assert facts["vector"] == {1: 4, 2: 1}
    lines = told(facts)
    assert "eu does not answer" in lines and "it had at least us up to 4, eu up to 1 on" in lines


def test_effects_that_others_hold_were_on_the_disk_of_their_region() -> None:
    """The others have restarted since, so they know of no acknowledgement of eu, or ap.

    The answer once said: "The others know that it had nothing on its disk."
    """
    cluster = Cluster()
    cluster.call("eu", "XADD", "k", "*", "a", "1")
    cluster.sync("eu", "us")
    facts = if_lost(cluster, silent=["eu", "ap"])
    assert facts["vector"] == {2: 1} and facts["known"] == {"eu": {2: 1}, "ap": {}}
    lines = told(facts)
    assert "know that it had at least eu up to 1 on its disk." in lines
    assert "us has eu up to 1." in lines and "nothing" not in lines


def test_entries_of_a_silent_region_are_known_to_be_there() -> None:
    """eu has an effect of ap, so ap had it on its disk, although nobody heard it acknowledge."""
    cluster = Cluster()
    cluster.call("ap", "XADD", "k", "*", "a", "1")
    cluster.sync("ap", "eu")
    (key,) = if_lost(cluster, silent=["ap"])["keys"]
    assert key["entries"]["also_in"] == {"ap": 1}


def test_a_region_of_which_the_others_hold_nothing() -> None:
    lines = told(if_lost(Cluster(), silent=["eu"]))
    assert "The others do not know of anything that it had on its disk." in lines


def test_a_log_that_does_not_reach_back_says_so_and_still_counts_entries() -> None:
    cluster = Cluster(**{"crdt-log-max-effects": 5})
    for number in range(40):
        cluster.call("eu", "XADD", "k", "*", "n", str(number))
    cluster.regions["eu"].checkpoint()
    facts = if_lost(cluster)
    (key,) = facts["keys"]
    assert key["entries"]["count"] == 40
    (unread,) = facts["unread"]
    assert (unread["origin"], unread["from"]) == ("eu", 1) and 30 <= unread["to"] < 40
    assert "were not read in eu" in told(facts)


def test_bounds_are_told() -> None:
    cluster = Cluster()
    for number in range(12):
        cluster.call("eu", "XADD", f"k{number}", "*", "n", "1")
    facts = if_lost(cluster, bounds=Bounds(keys=4, effects=5))
    assert facts["unread"] and facts["keys_asked"] < 12 == facts["keys_total"]
    assert "12 keys were looked at" in told(facts)
