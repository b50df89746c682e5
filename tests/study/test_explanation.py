"""The facts of `anabranch explain` and its sentences, on three regions whose logs are given.

Each region is a real engine with its real log; links are open or cut as a story needs.
"""

from __future__ import annotations

from random import Random
from typing import Any

from anabranch.region.engine.replies import ErrorReply, Reply, ReplyLater
from anabranch.sim.world.vfs import run
from anabranch.study.history.explanation import explain
from anabranch.study.history.wording import RegionNames, story
from anabranch.study.replies.histories import ExplainedHistory, KeyHistory
from tests.storage.region import Clock, Region, late_reply
from tests.support.engines import execute
from tests.support.facts import Facts, facts_of
from tests.support.replies import plain

NAMES = {1: "us", 2: "eu", 3: "ap"}


class Cluster:
    """Three regions with disks; `sync` brings effects from one to another."""

    def __init__(self, **values: int | str) -> None:
        self.rng = Random(1)
        self.clock = Clock(1_000_000)
        self.members = {"us": 1, "eu": 2, "ap": 3}
        self.values: dict[str, int | str] = {"crdt-start-patience-ms": 0, **values}
        self.looks = 0.0
        self.collects = False
        # How far the clock of a region is ahead of the others, in ms.
        self.ahead_ms: dict[str, int] = {}
        self.regions = {name: Region(self, name) for name in self.members}
        for name in self.members:
            self.tick(name)

    def tick(self, name: str) -> None:
        self.clock.elapsed_ms += 10
        self.regions[name].driver.tick()

    def now_ms(self, name: str) -> int:
        """The next ms, on the clock of a region."""
        self.clock.passes(1)
        return self.clock.wall_ms + self.ahead_ms.get(name, 0)

    def call(self, name: str, *words: str) -> Any:
        region = self.regions[name]
        argv = [word.encode() for word in words]
        reply: Reply = execute(region.engine, region.session, argv, self.now_ms(name))
        region.commit_all()
        if isinstance(reply, ReplyLater):
            reply = late_reply(region)
        assert not isinstance(reply, ErrorReply), reply.message
        return plain(reply, "utf-8")

    def sync(self, source: str, target: str) -> None:
        """The target applies everything that the source has on its disk."""
        region, peer = self.regions[target], self.regions[source]
        rows = run(peer.database.log.rows_after(0, 1 << 30))
        blocks = [row.block for row in rows]
        region.engine.peers.merge(blocks, peer.region_id, self.now_ms(target))
        region.commit_all()

    def history(self, name: str, *words: str) -> ExplainedHistory:
        return ExplainedHistory(self.call(name, "CRDT.EXPLAIN", *words))

    def explain(self, name: str, *words: str, silent: list[str] | None = None) -> Facts:
        down = silent or []
        others = [self.history(one, *words) for one in NAMES.values() if one not in {name, *down}]
        return facts_of(explain(self.history(name, *words), others, down, NAMES))


def the_add(facts: dict[str, Any]) -> dict[str, Any]:
    (add,) = facts["entry"]["adds"]
    assert isinstance(add, dict)
    return add


def told(facts: Facts) -> str:
    return "\n".join(facts.lines)


def test_present_with_those_who_have_it() -> None:
    cluster = Cluster()
    entry = cluster.call("us", "XADD", "k", "*", "a", "1")
    cluster.sync("us", "eu")
    add = the_add(cluster.explain("us", "k", entry))
    assert add["fate"] == "present" and add["added"]["command"] == "XADD"
    assert [(one["region"], one["source"]) for one in add["applied"]] == [(1, 0), (2, 1)]
    text = told(cluster.explain("us", "k", entry))
    assert f"Entry {entry} (effect 1 of us) is there in us." in text


def test_a_region_that_is_silent_is_named() -> None:
    """Without an ID it was not: what only its log tells was missing without a word."""
    cluster = Cluster()
    cluster.call("us", "XADD", "k", "*", "a", "1")
    silent = "eu did not answer: what only the log there tells is not known."
    assert silent in told(cluster.explain("us", "k", silent=["eu"]))
    assert "did not answer" not in told(cluster.explain("us", "k"))


def test_not_arrived() -> None:
    cluster = Cluster()
    entry = cluster.call("us", "XADD", "k", "*", "a", "1")
    facts = cluster.explain("ap", "k", entry)
    assert the_add(facts)["fate"] == "not-arrived"
    assert "has not arrived in ap, which has applied effects of us up to 0" in told(facts)


def test_removed_by_a_command_of_another_region_after_a_restart() -> None:
    cluster = Cluster()
    entry = cluster.call("us", "XADD", "k", "*", "a", "1")
    cluster.sync("us", "eu")
    cluster.call("eu", "XDEL", "k", entry)
    cluster.sync("eu", "us")
    cluster.regions["us"].begin()
    facts = cluster.explain("us", "k", entry)
    removed = the_add(facts)["removed"]
    assert (removed["command"], removed["effect"], removed["told_by"]) == ("XDEL", [2, 1], 1)
    assert f"Entry {entry} (effect 1 of us) is not there in us: XDEL in eu" in told(facts)


def test_survived_a_concurrent_delete() -> None:
    cluster = Cluster()
    first = cluster.call("us", "XADD", "k", "*", "a", "1")
    cluster.sync("us", "eu")
    late = cluster.call("us", "XADD", "k", "*", "a", "2")
    cluster.call("eu", "DEL", "k")
    cluster.sync("eu", "us")
    cluster.sync("us", "eu")
    for region in ("us", "eu"):
        add = the_add(cluster.explain(region, "k", late))
        assert add["fate"] == "present"
        (survived,) = add["survived"]
        assert survived["command"] == "DEL" and survived["is_certain"]
        assert survived["had_seen"] == {1: 1}
        assert the_add(cluster.explain(region, "k", first))["removed"]["command"] == "DEL"
    assert "It survived DEL in eu (effect 1 of eu), which is concurrent" in told(
        cluster.explain("eu", "k", late)
    )


def test_whether_it_was_concurrent_is_not_known_without_the_log_of_its_region() -> None:
    """In the log of ap the delete comes before the add; us may have seen it, or not."""
    cluster = Cluster()
    cluster.call("eu", "XADD", "k", "*", "a", "1")
    cluster.call("eu", "DEL", "k")
    late = cluster.call("us", "XADD", "k", "*", "a", "2")
    cluster.sync("eu", "ap")
    cluster.sync("us", "ap")
    whole = cluster.explain("ap", "k", late)
    assert [one["is_certain"] for one in the_add(whole)["survived"]] == [True]
    facts = cluster.explain("ap", "k", late, silent=["us"])
    assert [one["is_certain"] for one in the_add(facts)["survived"]] == [False]
    text = told(facts)
    assert "us did not answer" in text and "Whether the two are concurrent is not known" in text


def test_an_add_after_a_delete_is_no_survivor() -> None:
    cluster = Cluster()
    cluster.call("eu", "XADD", "k", "*", "a", "1")
    cluster.call("eu", "DEL", "k")
    cluster.sync("eu", "us")
    entry = cluster.call("us", "XADD", "k", "*", "a", "2")
    assert the_add(cluster.explain("us", "k", entry))["survived"] == []


def test_never_added_is_proven_by_the_counters() -> None:
    cluster = Cluster()
    cluster.call("us", "XADD", "k", "*", "a", "1")
    cluster.sync("us", "eu")
    facts = cluster.explain("eu", "k", "5-5")
    assert facts["entry"]["absence"]["is_proven"]
    assert "was never added to k by an effect that eu has applied" in told(facts)


def test_a_log_that_does_not_reach_back_says_so() -> None:
    cluster = Cluster(**{"crdt-log-max-effects": 5})
    entry = cluster.call("us", "XADD", "k", "*", "a", "1")
    cluster.call("us", "XDEL", "k", entry)
    for number in range(30):
        cluster.call("us", "XADD", "other", "*", "n", str(number))
    cluster.regions["us"].checkpoint()
    facts = cluster.explain("us", "k", entry, silent=["eu", "ap"])
    absence = facts["entry"]["absence"]
    assert not absence["is_proven"] and absence["log_begins_ms"] > 0
    text = told(facts)
    assert "Whether it was added and removed before is not known" in text
    assert "eu and ap did not answer" in text


def test_the_log_of_another_region_tells_what_this_one_forgot() -> None:
    cluster = Cluster(**{"crdt-log-max-effects": 5})
    entry = cluster.call("us", "XADD", "k", "*", "a", "1")
    cluster.call("us", "XDEL", "k", entry)
    cluster.sync("us", "eu")
    for number in range(30):
        cluster.call("us", "XADD", "other", "*", "n", str(number))
    cluster.regions["us"].checkpoint()
    facts = cluster.explain("us", "k", entry)
    removed = the_add(facts)["removed"]
    assert removed["command"] == "XDEL" and removed["told_by"] == 2
    assert "as the log of eu tells" in told(facts)


def test_a_destroy_wins_over_a_concurrent_create() -> None:
    cluster = Cluster()
    cluster.call("us", "XADD", "k", "*", "a", "1")
    cluster.call("us", "XGROUP", "CREATE", "k", "g", "0")
    cluster.sync("us", "eu")
    cluster.call("eu", "XGROUP", "DESTROY", "k", "g")
    cluster.call("us", "XGROUP", "DESTROY", "k", "g")
    cluster.call("us", "XGROUP", "CREATE", "k", "g", "$")
    cluster.sync("us", "eu")
    cluster.sync("eu", "us")
    (group,) = cluster.explain("us", "k")["groups"]
    first, second = group["creates"]
    assert not group["is_live"]
    assert first["destroyed"]["effect"] == [1, 3] and first["destroyed"]["had_seen_create"] is True
    assert second["destroyed"]["effect"] == [2, 1]
    # The log of eu tells: the create comes after the destroy there.
    assert second["destroyed"]["had_seen_create"] is False
    (group,) = cluster.explain("us", "k", silent=["eu"])["groups"]
    assert group["creates"][-1]["destroyed"]["had_seen_create"] is None
    (group,) = cluster.explain("eu", "k")["groups"]
    assert group["creates"][-1]["destroyed"]["had_seen_create"] is False
    assert "of a create and a concurrent destroy, the destroy wins" in told(
        cluster.explain("eu", "k")
    )


def test_delivered_in_two_regions() -> None:
    cluster = Cluster()
    entry = cluster.call("us", "XADD", "k", "*", "a", "1")
    cluster.call("us", "XGROUP", "CREATE", "k", "g", "0")
    cluster.sync("us", "eu")
    cluster.call("us", "XREADGROUP", "GROUP", "g", "alice", "STREAMS", "k", ">")
    cluster.call("eu", "XREADGROUP", "GROUP", "g", "bob", "STREAMS", "k", ">")
    cluster.call("us", "XACK", "k", "g", entry)
    facts = cluster.explain("eu", "k", entry)
    (delivery,) = the_add(facts)["deliveries"]
    assert delivery["status"] == "pending" and delivery["consumer"] == "bob"
    assert [step["kind"] for step in delivery["here"]] == ["delivered"]
    (elsewhere,) = delivery["elsewhere"]
    assert [step["kind"] for step in elsewhere["steps"]] == ["delivered", "left-pel"]
    text = told(facts)
    assert "to consumer alice" in text and "Regions deliver independently" in text


def test_acknowledged_and_dropped_are_told_apart() -> None:
    """Before, one sentence named both, and left the choice to the reader."""
    cluster = Cluster()
    first = cluster.call("us", "XADD", "k", "*", "a", "1")
    second = cluster.call("us", "XADD", "k", "*", "a", "2")
    third = cluster.call("us", "XADD", "k", "*", "a", "3")
    cluster.call("us", "XGROUP", "CREATE", "k", "g", "0")
    read = ("XREADGROUP", "GROUP", "g")
    cluster.call("us", *read, "alice", "COUNT", "2", "STREAMS", "k", ">")
    cluster.call("us", *read, "bob", "STREAMS", "k", ">")
    cluster.call("us", "XACK", "k", "g", second)
    cluster.call("us", "XGROUP", "DELCONSUMER", "k", "g", "bob")
    cluster.sync("us", "eu")
    cluster.call("eu", "XDEL", "k", second)
    found = {}
    for entry in (first, second, third):
        facts = cluster.explain("us", "k", entry)
        (delivery,) = the_add(facts)["deliveries"]
        found[delivery["status"]] = told(facts)
    assert set(found) == {"pending", "given", "dropped"}
    assert "acknowledged in us, and not announced to other regions" in found["given"]
    assert "Acknowledged in us at" in found["given"] and ", or " not in found["given"]
    assert "for a consumer that was deleted there" in found["dropped"]


READ = ("XREADGROUP", "GROUP", "g", "c", "STREAMS", "k", ">")


def delivered_once() -> tuple[Cluster, str]:
    """A cluster in which us has delivered an entry to a group, and the ID of the entry."""
    cluster = Cluster()
    entry = cluster.call("us", "XADD", "k", "*", "a", "1")
    cluster.call("us", "XGROUP", "CREATE", "k", "g", "0")
    cluster.call("us", *READ)
    return cluster, entry


def test_a_rewound_group_tells_why_it_delivers_again() -> None:
    cluster, entry = delivered_once()
    cluster.call("us", "XGROUP", "SETID", "k", "g", "0")
    cluster.call("us", *READ)
    (delivery,) = the_add(cluster.explain("us", "k", entry))["deliveries"]
    assert [step["kind"] for step in delivery["here"]] == ["delivered", "floor-set", "delivered"]
    assert "The floor was set to 0-0" in told(cluster.explain("us", "k", entry))


def test_an_acknowledged_entry_is_delivered_again_after_setid() -> None:
    """It was said that no region delivers it again, and the next read delivered it."""
    cluster, entry = delivered_once()
    cluster.call("us", "XACK", "k", "g", entry)
    cluster.clock.passes(10_000)
    cluster.call("us", "XADD", "other", "*", "a", "1")  # A round announces the acknowledgement.
    cluster.sync("us", "eu")
    assert "no region delivers it again" in told(cluster.explain("us", "k", entry))
    cluster.call("us", "XGROUP", "SETID", "k", "g", "0")
    assert "may deliver it there again" in told(cluster.explain("us", "k", entry))
    assert "no region delivers it again" in told(cluster.explain("eu", "k", entry))
    assert cluster.call("us", *READ)
    assert "is pending in us for consumer c" in told(cluster.explain("us", "k", entry))


def test_the_longest_deadline_is_in_force() -> None:
    cluster = Cluster()
    cluster.call("us", "XADD", "k", "*", "a", "1")
    cluster.sync("us", "eu")
    cluster.call("us", "PEXPIREAT", "k", "5000000")
    cluster.call("eu", "PERSIST", "k")
    cluster.call("eu", "EXPIREAT", "k", "4000")
    cluster.sync("eu", "us")
    deadlines = cluster.explain("us", "k")["deadlines"]
    assert [(one["set"]["command"], one["at_ms"], one["wins"]) for one in deadlines] == [
        ("PEXPIREAT", 5_000_000, True),
        ("EXPIREAT", 4_000_000, False),
    ]
    assert "a longer deadline wins" in told(cluster.explain("us", "k"))


def test_an_expiry_is_told_as_one() -> None:
    cluster = Cluster(**{"crdt-expiry-grace-ms": 0, "crdt-collect-interval-ms": 1})
    entry = cluster.call("us", "XADD", "k", "*", "a", "1")
    cluster.call("us", "PEXPIREAT", "k", str(cluster.clock.wall_ms + 5))
    for _ in range(2):
        cluster.clock.passes(100)
        cluster.tick("us")
        cluster.regions["us"].commit_all()
    facts = cluster.explain("us", "k", entry)
    assert the_add(facts)["removed"]["kind"] == "expire"
    assert "the removal of an expired key in us" in told(facts)


def test_the_story_of_a_key() -> None:
    cluster = Cluster()
    cluster.call("us", "XADD", "a", "*", "f", "v")
    cluster.call("us", "RENAME", "a", "b")
    cluster.sync("us", "eu")
    history = KeyHistory(cluster.call("eu", "CRDT.HISTORY", "a"))
    lines = [line.split("ms)  ", 1)[1] for line in story(history, RegionNames(NAMES))]
    entry = history.events[0].id
    assert lines == [
        f"XADD in us (effect 1 of us), from us: added {entry} f v",
        (
            "RENAME in us (effect 2 of us), from us: deleted this key (moved to b),"
            " having seen us up to 1"
        ),
    ]


def test_a_long_value_is_cut_in_the_story() -> None:
    """`log` and the page of the console once had values of many megabytes whole."""
    cluster = Cluster()
    cluster.call("us", "XADD", "a", "IDMP", "p" * 500, "i", "*", "f" * 161, "v" * 160)
    history = KeyHistory(cluster.call("us", "CRDT.HISTORY", "a"))
    (line,) = story(history, RegionNames(NAMES))
    assert f" {'f' * 160}… {'v' * 160} (pair {'p' * 160}…, i)" in line


# -- found by `test_explained_histories`: facts that the logs contradicted, or could have told


def forget(cluster: Cluster, name: str) -> None:
    """Lets the log of a region grow until it no longer holds what is in it now."""
    for number in range(30):
        cluster.call(name, "XADD", "other", "*", "n", str(number))
    cluster.regions[name].checkpoint()


def test_a_trim_that_left_the_entry_is_no_survived_removal() -> None:
    """A trim tells the prefix that it removes, and not what it had seen."""
    cluster = Cluster()
    cluster.call("us", "XADD", "k", "*", "a", "1")
    kept = cluster.call("us", "XADD", "k", "*", "a", "2")
    cluster.call("us", "XTRIM", "k", "MAXLEN", "1")
    assert the_add(cluster.explain("us", "k", kept))["survived"] == []
    cluster.sync("us", "eu")
    cluster.call("eu", "XADD", "k", "*", "a", "3")
    cluster.call("eu", "XTRIM", "k", "MAXLEN", "1")
    late = cluster.call("us", "XADD", "k", "*", "a", "4")
    cluster.sync("eu", "us")
    (survived,) = the_add(cluster.explain("us", "k", late))["survived"]
    assert survived["effect"] == [2, 2] and survived["is_certain"]
    # Whether eu had seen it, only the log of eu tells.
    (doubtful,) = the_add(cluster.explain("us", "k", late, silent=["eu"]))["survived"]
    assert not doubtful["is_certain"]
    assert "it removes effects of us only up to 2" in told(cluster.explain("us", "k", late))


def test_a_later_removal_is_not_told_as_the_first() -> None:
    """FLUSHALL names every entry that its region had seen, also those removed long before."""
    cluster = Cluster(**{"crdt-log-max-effects": 5})
    entry = cluster.call("us", "XADD", "k", "*", "a", "1")
    cluster.sync("us", "eu")
    cluster.call("us", "XDEL", "k", entry)
    forget(cluster, "us")
    cluster.call("us", "FLUSHALL")
    cluster.call("us", "XADD", "k", "*", "a", "2")
    facts = cluster.explain("us", "k", entry)
    removed = the_add(facts)["removed"]
    assert removed["command"] == "FLUSHALL" and not removed["is_certain"]
    assert "Whether another effect removed it before is not known." in told(facts)
    # The log of eu, which has applied all of it, tells both.
    cluster = Cluster(**{"crdt-log-max-effects": 5})
    entry = cluster.call("us", "XADD", "k", "*", "a", "1")
    cluster.sync("us", "eu")
    cluster.call("us", "XDEL", "k", entry)
    cluster.sync("us", "eu")
    forget(cluster, "us")
    cluster.call("us", "FLUSHALL")
    assert the_add(cluster.explain("us", "k", entry))["removed"]["command"] == "XDEL"


def test_an_entry_that_only_a_delivery_names_was_there() -> None:
    cluster = Cluster(**{"crdt-log-max-effects": 5})
    entry = cluster.call("us", "XADD", "k", "*", "a", "1")
    cluster.call("us", "XGROUP", "CREATE", "k", "g", "0")
    forget(cluster, "us")
    cluster.call("us", "XREADGROUP", "GROUP", "g", "c", "STREAMS", "k", ">")
    cluster.call("us", "XDEL", "k", entry)
    add = the_add(cluster.explain("us", "k", entry))
    assert add["added"] is None and add["removed"]["command"] == "XDEL"


def test_a_later_destroy_is_not_told_as_the_one_that_ended_a_create() -> None:
    cluster = Cluster(**{"crdt-log-max-effects": 5})
    cluster.call("us", "XGROUP", "CREATE", "k", "g", "0", "MKSTREAM")
    cluster.sync("us", "eu")
    cluster.call("eu", "XGROUP", "DESTROY", "k", "g")
    cluster.call("eu", "XGROUP", "CREATE", "k", "g", "0", "MKSTREAM")
    cluster.call("us", "XGROUP", "DESTROY", "k", "g")
    forget(cluster, "us")
    cluster.sync("eu", "us")  # eu's create is dead when it arrives.
    cluster.call("us", "FLUSHALL")
    (group,) = cluster.explain("us", "k", silent=["eu", "ap"])["groups"]
    (create,) = [one for one in group["creates"] if one["dot"][0] == 2]
    assert create["destroyed"]["command"] == "FLUSHALL"
    assert not create["destroyed"]["is_certain"]
    assert "or another effect before" in told(cluster.explain("us", "k"))


def test_logs_of_other_regions_tell_creates_and_deadlines() -> None:
    cluster = Cluster(**{"crdt-log-max-effects": 5})
    cluster.call("us", "XGROUP", "CREATE", "k", "g", "0", "MKSTREAM")
    cluster.call("us", "EXPIRE", "k", "1000")
    cluster.sync("us", "eu")
    forget(cluster, "us")
    facts = cluster.explain("us", "k")
    (group,) = facts["groups"]
    (create,) = group["creates"]
    assert create["created"]["command"] == "XGROUP CREATE" and create["created"]["told_by"] == 2
    (deadline,) = facts["deadlines"]
    assert deadline["set"]["command"] == "EXPIRE" and deadline["set"]["told_by"] == 2
    alone = cluster.explain("us", "k", silent=["eu", "ap"])
    assert alone["deadlines"][0]["set"] is None
    assert alone["groups"][0]["creates"][0]["created"] is None


def test_logs_together_prove_that_there_was_no_add() -> None:
    cluster = Cluster(**{"crdt-log-max-effects": 5})
    for number in range(30):
        cluster.call("us", "XADD", "k", "*", "a", str(number))
    cluster.sync("us", "eu")
    cluster.regions["us"].checkpoint()
    alone = cluster.explain("us", "k", "5-5", silent=["eu"])["entry"]["absence"]
    assert alone["log_floor"] and not alone["is_proven"]
    assert cluster.explain("us", "k", "5-5")["entry"]["absence"]["is_proven"]
    # The log of eu lacks what us adds now, and the log of us still has it.
    cluster.call("us", "XADD", "k", "*", "a", "more")
    assert cluster.explain("us", "k", "5-5")["entry"]["absence"]["is_proven"]


def test_effects_that_have_not_arrived_are_those_of_the_region_that_holds_most() -> None:
    cluster = Cluster()
    cluster.call("us", "XADD", "k", "*", "a", "1")
    cluster.sync("us", "ap")
    cluster.call("us", "XADD", "k", "*", "a", "2")
    absence = cluster.explain("eu", "k", "5-5")["entry"]["absence"]
    assert absence["not_arrived"] == {1: 2}


def test_events_that_are_left_out_may_be_the_reason() -> None:
    cluster = Cluster()
    entry = cluster.call("us", "XADD", "k", "*", "a", "1")
    cluster.sync("us", "eu")
    early = cluster.history("eu", "k", entry)
    cluster.call("us", "XDEL", "k", entry)
    cluster.call("us", "XADD", "k", "*", "a", "2")
    cluster.call("us", "DEL", "k")
    cluster.sync("us", "eu")
    whole = cluster.call("us", "CRDT.EXPLAIN", "k", entry)
    late = cluster.history("eu", "k", entry)
    events = whole["events"]

    def explained(kept: list[Any], other: ExplainedHistory) -> Facts:
        reply = {**whole, "events": kept, "left-out": len(events) - len(kept)}
        return facts_of(explain(ExplainedHistory(reply), [other], ["ap"], NAMES))

    removed = the_add(explained(events[-1:], early))
    assert removed["removed"]["command"] == "DEL" and not removed["removed"]["is_certain"]
    removed = the_add(explained(events[-1:], late))
    assert removed["removed"]["command"] == "XDEL"
    facts = explained([], early)
    assert the_add(facts)["fate"] == "removed-left-out"
    assert "3 older events of this key were left out" in told(facts)


def test_an_effect_that_came_back_after_a_restore_has_lost_its_place() -> None:
    """us added concurrently with a DEL. After its restore, its log has the order of eu's log."""
    cluster = Cluster()
    entry = cluster.call("us", "XADD", "k", "*", "a", "1")
    cluster.call("eu", "XADD", "k", "*", "a", "2")
    cluster.call("eu", "DEL", "k")
    cluster.sync("us", "eu")
    cluster.regions["us"] = Region(cluster, "us")
    cluster.sync("eu", "us")
    (survived,) = the_add(cluster.explain("us", "k", entry))["survived"]
    assert survived["command"] == "DEL" and not survived["is_certain"]
