"""Random histories over three whole engines, then healing.

The steps are commands, links, crashes, restores and snapshots. Afterwards (S6.2, S7.3, S8.1,
S10.4, S11.3, S13.9) all regions have equal digests. An entry counts as given only where it was
handed out or acknowledged, and as acknowledged only if a client acknowledged it. Everything that
is kept until stable is gone.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from anabranch.crdt.cursor import LogCursor
from anabranch.crdt.ids import format_id
from anabranch.crdt.stream import NEVER
from anabranch.crdt.vector import includes, raise_to
from anabranch.region.engine.engine import Engine
from anabranch.region.engine.lifecycle import SERVING
from anabranch.region.engine.replies import MapReply, Reply
from anabranch.region.engine.rows import SnapshotRow
from tests.support.engine_cluster import Place, ask_start, cluster, greet, tell

SEEDS = range(24)
KEYS = ["a", "b"]
QUEUE = "q"  # nothing is ever removed from it


class World:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.clock_ms = 100_000
        self.places = cluster(
            3,
            self.clock_ms,
            crdt_xadd_id_uniqueness_mode=self.chance.choice(["strict", "semi-strict"]),
            crdt_expiry_grace_ms="2000",
            stream_node_max_entries=self.chance.choice(["3", "100"]),
            stream_idmp_duration="1",
        )
        self.handed: dict[int, set[str]] = {1: set(), 2: set(), 3: set()}
        self.acked: set[str] = set()
        self.added = 0
        self.flushes = seed % 4 == 3
        self.cut_off = 0  # a region that nobody reaches for a while
        self.backups = {place.region_id: 0 for place in self.places}
        first = self.places[0]
        first.ok("XGROUP", "CREATE", QUEUE, "g", "0", "MKSTREAM")
        self.exchange_all()
        self.exchange_all()
        for place in self.places:
            place.commit()
            self.backups[place.region_id] = len(place.rows)
            place.patience_ms = (
                1 << 40
            )  # later starts wait for all others, for as long as that takes

    # -- links

    def floor(self, place: Place) -> dict[int, int]:
        vector: dict[int, int] = {}
        for row in place.rows:
            if isinstance(row, SnapshotRow):
                raise_to(vector, row.vector)
        return vector

    def exchange(self, source: Place, target: Place) -> None:
        """A connection is made: handshake, start questions, blocks or a snapshot, heartbeats."""
        if self.cut_off in (source.region_id, target.region_id):
            return
        source.commit()
        target.commit()
        greet(source, target)
        ask_start(source, target)
        ask_start(target, source)
        if self.chance.random() < 0.1 or not includes(target.engine.vector, self.floor(source)):
            cut = source.engine.peers.snapshots.cut()
            source.commit()
            target.engine.peers.snapshots.join(
                list(cut.chunks(500)), source.region_id, target.now_ms
            )
        else:
            blocks = source.lacking(target.engine.vector)
            if self.chance.random() < 0.3:
                blocks = blocks[: self.chance.randint(0, len(blocks))]
            target.engine.peers.merge(blocks, source.region_id, target.now_ms)
        if self.chance.random() < 0.7:
            target.commit()
        if self.chance.random() < 0.7:
            tell(source, target)

    def exchange_all(self) -> None:
        for source in self.places:
            for target in self.places:
                if source is not target:
                    self.exchange(source, target)

    # -- commands

    def step(self) -> None:
        chance = self.chance
        self.clock_ms += chance.choice([0, 1, 1, 20, 300])
        place = chance.choice(self.places)
        place.at(self.clock_ms + place.region_id * 7)
        if place.session.waiting:  # a client that waits for the end of the start, and is left to it
            place.session = place.engine.clients.connect("test", "test", place.now_ms)
        if chance.random() < 0.01:
            self.cut_off = chance.choice([0, 1, 2, 3])
        kind = chance.random()
        if kind < 0.25:
            self.exchange(*chance.sample(self.places, 2))
        elif kind < 0.30:
            place.round()
        elif kind < 0.34:
            place.commit()
        elif kind < 0.355:
            place.restart(self.clock_ms)
        elif kind < 0.36:
            # The newest backup is always used, so none taken after a restored one ever is.
            place.restart(
                self.clock_ms, min(self.backups[place.region_id], len(place.rows)), restored=True
            )
        elif kind < 0.365:
            # Nobody says that this is a backup: the start finds out.
            place.restart(self.clock_ms, min(self.backups[place.region_id], len(place.rows)))
        elif kind < 0.38:
            place.commit()
            self.backups[place.region_id] = len(place.rows)
        elif kind < 0.65:
            self.queue_command(place)
        elif kind < 0.70:
            place("MULTI")
            for _ in range(3):
                self.key_command(place)
            place("EXEC")
        else:
            self.key_command(place)

    def queue_command(self, place: Place) -> None:
        chance = self.chance
        consumer = chance.choice(["c", "d"])
        kind = chance.random()
        if kind < 0.35:
            self.added += 1
            place("XADD", QUEUE, "*", "n", self.added)
        elif kind < 0.60:
            noack = ["NOACK"] if chance.random() < 0.2 else []
            reply = place(
                "XREADGROUP",
                "GROUP",
                "g",
                consumer,
                "COUNT",
                chance.randint(1, 3),
                *noack,
                "STREAMS",
                QUEUE,
                ">",
            )
            handed = names_of(reply)
            self.handed[place.region_id] |= handed
            if noack:
                self.acked |= handed
        elif kind < 0.85:
            reply = place("XPENDING", QUEUE, "g", "-", "+", "5")
            rows: Any = reply if isinstance(reply, list) else []
            pending = [item[0].decode() for item in rows]
            for one in pending:
                if chance.random() < 0.6 and place("XACK", QUEUE, "g", one) == 1:
                    self.acked.add(one)
        elif kind < 0.89:
            place("XGROUP", "DELCONSUMER", QUEUE, "g", consumer)
        elif kind < 0.93:
            place("XGROUP", "SETID", QUEUE, "g", chance.choice(["0", "$", self.some_id(place)]))
        elif kind < 0.96:
            option = chance.choice([[], ["FORCE"], ["LASTID", self.some_id(place)]])
            place("XCLAIM", QUEUE, "g", consumer, "0", self.some_id(place), *option)
        else:
            place("XREADGROUP", "GROUP", "g", consumer, "STREAMS", QUEUE, "0")

    def some_id(self, place: Place) -> str:
        known = place.ids(QUEUE)
        return self.chance.choice(known) if known else "5-1"

    def key_command(self, place: Place) -> None:
        chance = self.chance
        key = chance.choice(KEYS)
        group = chance.choice(["g", "h"])
        commands: list[list[object]] = [
            ["XADD", key, "*", "f", "v"],
            ["XADD", key, "*", "f", "v"],
            ["XADD", key, "MAXLEN", chance.choice(["=", "~"]), "3", "*", "f", "v"],
            ["XADD", key, "IDMP", "p", chance.choice("xyz"), "*", "f", "v"],
            ["XADD", key, "IDMP", "p", chance.choice("xyz"), "*", "f", "v"],
            ["XTRIM", key, "MAXLEN", "2", chance.choice(["KEEPREF", "DELREF", "ACKED"])],
            ["XDEL", key, *[one for one in self.ids_of(place, key) if chance.random() < 0.3][:3]],
            ["XGROUP", "CREATE", key, group, chance.choice(["0", "$"]), "MKSTREAM"],
            ["XGROUP", "DESTROY", key, group],
            ["XREADGROUP", "GROUP", group, "c", "STREAMS", key, ">"],
            ["XACK", key, group, *self.ids_of(place, key)[:2]],
            ["DEL", key],
            ["PEXPIRE", key, chance.choice(["1", "50", "500"])],
            ["PERSIST", key],
            ["RENAME", key, chance.choice(KEYS)],
            ["XSETID", key, "99999999-5"],
            ["FLUSHALL"] if self.flushes and chance.random() < 0.5 else ["XLEN", key],
            ["XCFGSET", key, "IDMP-MAXSIZE", chance.choice(["2", "50"])],
        ]
        place(*chance.choice(commands))

    def ids_of(self, place: Place, key: str) -> list[str]:
        return [] if place.session.transaction.queued is not None else place.ids(key)

    # -- the end

    def heal(self) -> None:
        self.cut_off = 0
        for _ in range(60):
            self.clock_ms += 500
            for place in self.places:
                place.at(self.clock_ms)
                place.round()
            self.exchange_all()
            for source in self.places:
                for target in self.places:
                    if source is not target:
                        tell(source, target)

    def check_given(self) -> None:
        for place in self.places:
            stream = place.engine.keyspace.get(QUEUE.encode())
            if self.flushes and (stream is None or not stream.groups):
                continue
            assert stream is not None
            group = stream.groups[b"g"]
            for region_id, log in stream.logs.items():
                given = group.delivery.given.get(region_id)
                acked = group.acked(region_id)
                cursor = LogCursor(log)
                cursor.seek_counter(0)
                while cursor.valid:
                    name = format_id(cursor.id()).decode()
                    if acked.contains(cursor.counter):
                        assert name in self.acked, (
                            f"{place.region_id}: {name} was never acknowledged"
                        )
                    if given is not None and given.contains(cursor.counter):
                        assert name in self.handed[place.region_id] | self.acked, (
                            f"{place.region_id}: {name} would be skipped"
                        )
                    cursor.step()

    def check_contents(self) -> None:
        """The counts that are kept as keys change equal those of a pass over all keys."""
        for place in self.places:
            if self.chance.random() < 0.3:
                state = place.engine.state
                read = state.contents.read(state.clock.now_ms)
                found = {name: getattr(read, name) for name in COUNTS}
                assert found == counted(place.engine)


COUNTS = ["keys", "expires", "entries", "groups", "pending", "pairs", "tombstones", "clears"]
COUNTS += ["keys_absent"]


def counted(engine: Engine) -> dict[str, int]:
    """The counts of `region.engine.contents`, made in one pass over the keys."""
    found = dict.fromkeys(COUNTS, 0)
    found["tombstones"] += bool(engine.keyspace.flush_tombstone)
    found["clears"] += bool(engine.keyspace.flush_clears)
    for stream in engine.keyspace.keys.values():
        found["tombstones"] += len(stream.tombstones) + bool(stream.tombstone_of_all)
        found["clears"] += bool(stream.clears)
        found["pairs"] += stream.pairs.count()
        if not stream.exists_at(engine.state.clock.now_ms):
            found["keys_absent"] += 1
            continue
        found["keys"] += 1
        found["entries"] += stream.length()
        winner = stream.winning_deadline()
        found["expires"] += winner is not None and winner[1] != NEVER
        found["groups"] += len(stream.groups)
        found["pending"] += sum(group.delivery.pel.length for group in stream.groups.values())
    return found


def names_of(reply: Reply) -> set[str]:
    """The IDs in an XREADGROUP's reply."""
    if not isinstance(reply, list):
        assert not isinstance(reply, MapReply)
        return set()
    streams: Any = reply
    return {entry[0].decode() for _, entries in streams for entry in entries}


@pytest.mark.parametrize("seed", SEEDS)
def test_random_histories(seed: int) -> None:
    world = World(seed)
    for _ in range(250):
        world.step()
        world.check_given()
        world.check_contents()
    world.heal()
    world.check_given()
    assert [place.engine.state.lifecycle.state for place in world.places] == [SERVING] * 3
    vectors = [place.engine.vector for place in world.places]
    assert vectors[0] == vectors[1] == vectors[2]
    digests = [place.digest() for place in world.places]
    assert digests[0] == digests[1] == digests[2]
    for place in world.places:
        for stream in place.engine.keyspace.keys.values():
            assert not stream.tombstones
            assert not stream.tombstone_of_all
            assert not stream.clears
            assert not stream.pairs
            assert stream.exists_at(place.engine.state.clock.now_ms), (
                f"{stream.key!r} is held for nothing"
            )
