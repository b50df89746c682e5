"""The facts of `anabranch explain` and its sentences, on three regions whose logs are given.

Each region is a real engine with its real log; links are open or cut as a story needs.
"""

from __future__ import annotations

from random import Random
from typing import Any

from anabranch.region.engine.replies import ErrorReply, Reply, ReplyLater
from anabranch.sim.world.vfs import run
from anabranch.study.history.events import Telling
from anabranch.study.history.explanation import explain
from anabranch.study.history.sentences import Teller
from anabranch.study.history.story import story
from anabranch.study.history.wording import Names
from tests.storage.region import Clock, Region, late_reply
from tests.storage.test_history import plain

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
        self.clock.wall_ms += 1
        return self.clock.wall_ms + self.ahead_ms.get(name, 0)

    def call(self, name: str, *words: str) -> Any:
        region = self.regions[name]
        argv = [word.encode() for word in words]
        reply: Reply = region.engine.execute(region.session, argv, self.now_ms(name))
        region.commit_all()
        if isinstance(reply, ReplyLater):
            reply = late_reply(region)
        assert not isinstance(reply, ErrorReply), reply.message
        return plain(reply)

    def sync(self, source: str, target: str) -> None:
        """The target applies everything that the source has on its disk."""
        region, peer = self.regions[target], self.regions[source]
        rows = run(peer.database.rows_after(0, 1 << 30))
        blocks = [row.block for row in rows]
        region.engine.merge(blocks, peer.region_id, self.now_ms(target))
        region.commit_all()

    def telling(self, name: str, *words: str) -> Telling:
        return Telling(self.call(name, "CRDT.EXPLAIN", *words))

    def explain(self, name: str, *words: str, silent: list[str] | None = None) -> dict[str, Any]:
        down = silent or []
        others = [self.telling(one, *words) for one in NAMES.values() if one not in {name, *down}]
        return explain(self.telling(name, *words), others, down, NAMES)


def the_add(facts: dict[str, Any]) -> dict[str, Any]:
    (add,) = facts["entry"]["adds"]
    assert isinstance(add, dict)
    return add


def told(facts: dict[str, Any]) -> str:
    return "\n".join(Teller(facts).lines())


def test_present_with_those_who_have_it() -> None:
    cluster = Cluster()
    entry = cluster.call("us", "XADD", "k", "*", "a", "1")
    cluster.sync("us", "eu")
    add = the_add(cluster.explain("us", "k", entry))
    assert add["fate"] == "present" and add["added"]["command"] == "XADD"
    assert [(one["region"], one["source"]) for one in add["applied"]] == [(1, 0), (2, 1)]
    text = told(cluster.explain("us", "k", entry))
    assert f"Entry {entry} (effect 1 of us) is there in us." in text


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
    assert second["destroyed"]["had_seen_create"] is None
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


def test_a_rewound_group_tells_why_it_delivers_again() -> None:
    cluster = Cluster()
    entry = cluster.call("us", "XADD", "k", "*", "a", "1")
    cluster.call("us", "XGROUP", "CREATE", "k", "g", "0")
    read = ("XREADGROUP", "GROUP", "g", "c", "STREAMS", "k", ">")
    cluster.call("us", *read)
    cluster.call("us", "XGROUP", "SETID", "k", "g", "0")
    cluster.call("us", *read)
    (delivery,) = the_add(cluster.explain("us", "k", entry))["deliveries"]
    assert [step["kind"] for step in delivery["here"]] == ["delivered", "floor-set", "delivered"]
    assert "The floor was set to 0-0" in told(cluster.explain("us", "k", entry))


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
        cluster.clock.wall_ms += 100
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
    telling = Telling(cluster.call("eu", "CRDT.HISTORY", "a"))
    lines = [line.split("ms)  ", 1)[1] for line in story(telling, Names(NAMES))]
    entry = telling.events[0].facts["id"]
    assert lines == [
        f"XADD in us (effect 1 of us), from us: added {entry} f v",
        (
            "RENAME in us (effect 2 of us), from us: deleted this key (moved to b),"
            " having seen us up to 1"
        ),
    ]
