"""A stream as it was: the events of a log, replayed, give the state that the region had."""

from __future__ import annotations

import random
from typing import Any

import pytest

from anabranch.console.groups import LiveGroup
from anabranch.console.past import Replay
from anabranch.console.view import RegionView
from anabranch.study.history.wording import RegionNames
from anabranch.study.replies.groups import GroupState
from anabranch.study.replies.histories import KeyHistory
from tests.study.test_explanation import NAMES, Cluster

REGIONS = list(NAMES.values())
GROUPS = ("g", "h")


def replayed(cluster: Cluster, name: str, until_ms: int) -> RegionView:
    """The stream `k` as the log of a region tells it, up to a time."""
    told = KeyHistory(cluster.call(name, "CRDT.HISTORY", "k", "UNTIL", str(until_ms)))
    view = RegionView(name, told.region_id)
    replay = Replay(view, RegionNames(NAMES))
    for event in told.events:
        replay.take(event)
    return view


def present(cluster: Cluster, name: str) -> dict[tuple[int, int], str]:
    """The entries that a region has now: dot → ID."""
    return {
        (region_id, entry["counter"]): entry["id"]
        for region_id, origin in NAMES.items()
        for entry in cluster.call(name, "CRDT.LOG", "k", origin)
    }


def groups(cluster: Cluster, name: str) -> dict[str, Any]:
    """The groups that a region has now."""
    return {one["name"]: one for one in cluster.call(name, "CRDT.GROUPS", "k")["groups"]}


def act(cluster: Cluster, rng: random.Random) -> None:
    """One command, or one exchange between two regions."""
    name = rng.choice(REGIONS)
    here = list(present(cluster, name).values())
    alive = list(groups(cluster, name))
    kind = rng.choice(["add", "add", "add", "sync", "sync", "del", "trim", "drop", "group", "read"])
    if kind == "add":
        cluster.call(name, "XADD", "k", "*", "a", str(rng.randrange(100)))
    elif kind == "sync":
        source, target = rng.sample(REGIONS, 2)
        cluster.sync(source, target)
    elif kind == "del" and here:
        cluster.call(name, "XDEL", "k", rng.choice(here))
    elif kind == "trim" and here:
        cluster.call(name, "XTRIM", "k", "MAXLEN", "=", str(rng.randrange(4)))
    elif kind == "drop" and rng.random() < 0.2:
        cluster.call(name, "DEL", "k")
    elif kind == "group":
        group = rng.choice(GROUPS)
        if group in alive:
            if rng.random() < 0.4:
                cluster.call(name, "XGROUP", "DESTROY", "k", group)
        else:
            cluster.call(name, "XGROUP", "CREATE", "k", group, rng.choice("0$"), "MKSTREAM")
    elif kind == "read" and alive:
        group = rng.choice(alive)
        read = ["XREADGROUP", "GROUP", group, "ann", "COUNT", "2", "STREAMS", "k", ">"]
        cluster.call(name, *read)
        pending = [one[2] for one in groups(cluster, name)[group]["pending"]]
        if pending and rng.random() < 0.6:
            cluster.call(name, "XACK", "k", group, rng.choice(pending))


@pytest.mark.parametrize("seed", range(12))
def test_each_moment_of_a_random_history(seed: int) -> None:
    rng = random.Random(seed)
    cluster = Cluster()
    moments = []
    for _ in range(40):
        act(cluster, rng)
        name = rng.choice(REGIONS)
        alive = list(groups(cluster, name))
        pending = {
            one: sorted((entry[0], entry[1]) for entry in facts["pending"])
            for one, facts in groups(cluster, name).items()
        }
        at_ms = cluster.regions[name].engine.state.clock.now_ms
        moments.append((name, at_ms, present(cluster, name), alive, pending))
        cluster.clock.passes(5)
    for name, at_ms, entries, alive, pending in moments:
        view = replayed(cluster, name, at_ms)
        assert {dot: entry.entry_id for dot, entry in view.entries.items()} == entries
        assert [group.name for group in view.groups] == sorted(alive)
        for group in view.groups:
            waiting = sorted(dot for dot in entries if group.status(dot)[0] == "pending")
            assert waiting == [dot for dot in pending[group.name] if dot in entries]


def test_the_replayed_states_of_entries_are_the_live_ones() -> None:
    cluster = Cluster()
    ids = [cluster.call("us", "XADD", "k", "*", "n", str(n)) for n in range(4)]
    cluster.call("us", "XGROUP", "CREATE", "k", "g", "0")
    cluster.call("us", "XREADGROUP", "GROUP", "g", "ann", "COUNT", "3", "STREAMS", "k", ">")
    cluster.call("us", "XACK", "k", "g", ids[0], ids[2])
    cluster.tick("us")
    live = LiveGroup(GroupState(groups(cluster, "us")["g"]))
    view = replayed(cluster, "us", 1 << 50)
    (past,) = view.groups
    dots = sorted(view.entries)
    assert [past.status(dot) for dot in dots] == [live.status(dot) for dot in dots]
    assert [past.status(dot)[0] for dot in dots][1:] == ["pending", "done", "open"]


def test_a_removed_entry_is_shown_with_its_reason() -> None:
    cluster = Cluster()
    entry = cluster.call("us", "XADD", "k", "*", "a", "1")
    cluster.sync("us", "eu")
    cluster.call("eu", "XDEL", "k", entry)
    cluster.sync("eu", "us")
    view = replayed(cluster, "us", 1 << 50)
    assert view.entries == {} and view.status((1, 1)) == "removed"
    assert view.removed[1, 1].by == "XDEL in eu (effect 1 of eu)"
    assert view.removed[1, 1].entry.entry_id == entry
