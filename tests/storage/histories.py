"""Random histories of a small cluster of real engines on real SQL, and what a crash after any transaction must leave.

A region here does what `region.process` does, one transaction at a time: commits as they come, and between them the steps of a checkpoint
(`Region._checkpoint`). After every transaction the disk is copied and started from, and what is found is compared with the state as it was
when the last commit on that disk was taken. Now and then the region itself goes on from what was found.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Optional

from anabranch.region import starting
from anabranch.region.config import Address, RegionConfig
from anabranch.region.engine.engine import Engine
from anabranch.region.engine.replies import ErrorReply
from anabranch.region.engine.rows import Commit
from anabranch.region.engine.session import Session
from anabranch.region.engine.settings import Settings
from anabranch.region.storage.checkpoint import Checkpointer
from anabranch.sim.world.vfs import run
from tests.storage import dump
from tests.storage.direct import DirectDatabase, copy_of, new_disk

NAMES = {"us": 1, "eu": 2, "ap": 3}
KEYS = [b"k1", b"k2", b"k3"]
GROUPS = [b"g", b"h"]
CONSUMERS = [b"anna", b"bert"]

# Everything tiny, so that a short history has many nodes, blocks and slices, and a log that is soon too long.
TINY: dict[str, int | str] = {
    "stream-node-max-entries": 2,
    "crdt-block-max-bytes": 120,
    "crdt-slice-max-bytes": 60,
    "crdt-log-max-bytes": 600,
    "crdt-start-patience-ms": 0,
    "crdt-sync-interval-ms": 0,
    "crdt-expiry-grace-ms": 20,
    "crdt-collect-interval-ms": 1,
    "stream-idmp-duration": 1,
    "stream-idmp-maxsize": 2,
    "crdt-xadd-id-uniqueness-mode": "liberal",
}


def config_of(
    name: str,
    members: dict[str, int],
    values: dict[str, int | str],
    data: Path = Path("memory"),
    restored: bool = False,
) -> RegionConfig:
    return RegionConfig(
        cluster="tiny",
        members=members,
        name=name,
        resp=Address("127.0.0.1", 0),
        sync=Address("127.0.0.1", 0),
        http=None,
        peers={},
        data=data,
        restored=restored,
        settings=Settings(values),
    )


class Found:
    """What a start finds on a disk."""

    def __init__(self, config: RegionConfig, disk: sqlite3.Connection, now_ms: int) -> None:
        self.disk = disk
        self.database = DirectDatabase(disk)
        self.engine: Engine
        self.checkpointer: Checkpointer
        self.engine, self.checkpointer = run(starting.start(config, self.database, now_ms))
        self.state = dump.of_keyspace(self.engine.keyspace)


class Region:
    """One region: engine, disk, and the transaction that comes next."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.region_id = NAMES[name]
        self.disk = new_disk()
        self.transactions = 0
        self.begin()

    def config(self) -> RegionConfig:
        return config_of(self.name, self.cluster.members, self.cluster.values)

    def begin(self) -> None:
        """A start from the disk."""
        found = Found(self.config(), self.disk, self.cluster.now_ms)
        self.database = found.database
        self.engine = found.engine
        self.checkpointer = found.checkpointer
        if (
            self.cluster.rng.random() < 0.8
        ):  # at times several keys are captured in one step, at times one
            self.checkpointer.step_max_bytes = 1
        self.commit: Optional[Commit] = None  # under way
        self.taken: dump.Plain = {}  # the state when it was taken
        self.taken_digest = b""
        self.expected = found.state  # as of the last commit on the disk
        self.digest = self.engine.keyspace.digest()
        self.checkpoint: Optional[Iterator[None]] = None
        for peer in self.engine.state.peers.by_id:
            self.engine.receiver_opened(peer)
        self.session: Session = self.engine.connect("", "", self.cluster.now_ms)
        self.engine.tick(self.cluster.now_ms)

    # -- transactions, as the process orders them --------------------------------------------------------------------

    def take_commit(self) -> None:
        if self.commit is None:
            self.commit = self.engine.take_commit(self.cluster.now_ms)
            if self.commit is not None:
                self.taken = dump.of_keyspace(self.engine.keyspace)
                self.taken_digest = self.engine.keyspace.digest()

    def write_commit(self) -> None:
        commit = self.commit
        if commit is not None:
            run(self.database.commit(commit))
            self.engine.committed(self.cluster.now_ms)
            self.commit = None
            self.expected = self.taken
            self.digest = self.taken_digest
            self.written()

    def commit_all(self) -> None:
        """Everything done so far is on the disk afterwards."""
        self.write_commit()
        self.take_commit()
        self.write_commit()

    def step_checkpoint(self) -> None:
        """One more transaction of the checkpoint, or a wait for a commit."""
        if self.checkpoint is None:
            self.checkpoint = self._checkpoint()
        if next(self.checkpoint, self) is self:
            self.checkpoint = None

    def _checkpoint(self) -> Iterator[None]:
        """As `region.process.Region._checkpoint`; it yields where another transaction may come between."""
        engine = self.engine
        checkpointer = self.checkpointer
        if not checkpointer.is_under_way():
            engine.state.journal.cut_block()
            checkpointer.begin(
                engine.keyspace, engine.state.journal.position, engine.state.clock.now_ms
            )
            yield
        while checkpointer.pending or checkpointer.has_more():
            if not checkpointer.pending:
                engine.state.journal.cut_block()
                checkpointer.capture(engine.keyspace, engine.state.journal.position)
            yield from self._until_committed(checkpointer.pending_position)
            for statements in checkpointer.slices():
                run(self.database.write(statements))
                self.written()
                yield
            checkpointer.written()
        replay_from, statements = checkpointer.finish()
        yield from self._until_committed(replay_from)
        run(self.database.write(statements))
        self.written()
        checkpointer.finished()
        engine.checkpointed(replay_from)
        yield
        settings = engine.settings
        run(
            self.database.truncate(
                replay_from,
                settings.integer("crdt-log-max-bytes"),
                settings.integer("crdt-log-max-effects"),
            )
        )
        self.written()

    def _until_committed(self, position: int) -> Iterator[None]:
        while self.engine.committed_position < position:
            yield
            self.commit_all()

    def written(self) -> None:
        """A transaction is on the disk: what would a start find?"""
        self.transactions += 1
        if self.cluster.rng.random() < self.cluster.looks:
            self.look()

    def look(self) -> None:
        found = Found(self.config(), copy_of(self.disk), 0)  # the host's clock was set back
        told = dump.differences(
            found.state, self.expected, self.cluster.collects, self.cluster.now_ms - 1000
        )
        if found.engine.keyspace.digest() != self.digest:
            told.append("the digest differs")
        if (
            found.database.last_position != self.database.last_position
            or found.engine.state.journal.position != self.database.last_position
        ):
            told.append(
                f"position {found.database.last_position}, not {self.database.last_position}"
            )
        for figure in ("log_rows", "log_bytes", "log_effects", "log_floor"):
            if getattr(found.database, figure) != getattr(self.database, figure):
                told.append(
                    f"{figure}: found {getattr(found.database, figure)}, expected {getattr(self.database, figure)}"
                )
        if found.engine.state.clock.now_ms < self.engine.state.disk.clock_ms:
            told.append(
                f"the clock ran back from {self.engine.state.disk.clock_ms} to {found.engine.state.clock.now_ms}"
            )
        rows = {
            number
            for table in ("part", "node")
            for (number,) in found.disk.execute(f"SELECT DISTINCT number FROM {table}")
        }
        if not rows <= set(found.checkpointer.numbers.values()):
            told.append(f"rows of no key: {rows}")
        if told:
            raise AssertionError(
                f"{self.cluster}: {self.name} after transaction {self.transactions}:\n"
                + "\n".join(told)
            )

    def crash(self) -> None:
        """The process stops here and starts again."""
        self.look()
        self.begin()
        self.look()

    # -- commands ----------------------------------------------------------------------------------------------------

    def say(self, *words: object) -> Any:
        argv = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        reply = self.engine.execute(self.session, argv, self.cluster.now_ms)
        self.engine.take_replies()
        return reply

    def pull(self, peer: Region) -> None:
        """Some blocks, or a snapshot, from what is on the peer's disk."""
        engine = self.engine
        position = run(peer.database.position_for(engine.vector))
        if position is None or self.cluster.rng.random() < 0.1:
            cut = peer.engine.snapshot_cut()
            peer.commit_all()
            assert peer.engine.committed_position >= cut.position
            engine.join(list(cut.chunks(200)), peer.region_id, self.cluster.now_ms)
            return
        rows = run(peer.database.rows_after(position, self.cluster.rng.choice([1, 300, 10000])))
        engine.merge([row.block for row in rows], peer.region_id, self.cluster.now_ms)

    def some_id(self) -> bytes:
        """An ID that is, or was, or may come."""
        rng = self.cluster.rng
        stream = self.engine.keyspace.get(rng.choice(KEYS))
        if stream is None or not stream.length() or rng.random() < 0.2:
            return b"%d-%d" % (rng.randrange(1, 30), rng.randrange(3))
        logs = list(dump.of_stream(stream)["logs"].values())
        entry_id = rng.choice(rng.choice(logs))[1]
        return b"%d-%d" % (entry_id >> 64, entry_id & ((1 << 64) - 1))


class Cluster:
    """Regions, one clock, one Random."""

    def __init__(
        self,
        seed: int,
        regions: int = 2,
        looks: float = 1.0,
        collects: bool = False,
        values: Any = None,
    ) -> None:
        self.seed = seed
        self.rng = Random(seed)
        self.looks = looks
        self.collects = collects
        self.now_ms = 1000
        self.values = {**TINY, **(values or {})}
        if not collects:
            self.values["crdt-collect-interval-ms"] = 1 << 40
        self.members = dict(list(NAMES.items())[:regions])
        # How often a whole key is removed: in calm histories groups and nodes live long.
        self.calm = self.rng.choice([0.0, 0.8, 0.95])
        self.regions = [Region(self, name) for name in self.members]

    def __repr__(self) -> str:
        return f"seed {self.seed}, {len(self.regions)} regions"

    def play(self, steps: int) -> None:
        for _ in range(steps):
            self.step(self.rng.choice(self.regions))
        for region in self.regions:
            region.commit_all()
            region.crash()

    def step(self, region: Region) -> None:
        rng = self.rng
        if rng.random() < 0.5:
            self.now_ms += rng.choice([1, 1, 1, 5, 40])
        dice = rng.random()
        if dice < 0.5:
            self.command(region)
        elif dice < 0.58:
            region.take_commit()
        elif dice < 0.66:
            region.write_commit()
        elif dice < 0.85:
            region.step_checkpoint()
        elif dice < 0.94:
            others = [one for one in self.regions if one is not region]
            if others:
                region.pull(rng.choice(others))
        elif dice < 0.99:
            for other in self.regions:
                if self.collects and other is not region:
                    region.engine.hear(other.engine.gossip(), self.now_ms)
            region.engine.tick(self.now_ms)
        else:
            region.crash()

    def command(self, region: Region) -> None:
        rng = self.rng
        if rng.random() < 0.08:
            region.say("MULTI")
            for _ in range(rng.randrange(1, 4)):
                region.say(*self.words(region))
            region.say("EXEC")
        else:
            region.say(*self.words(region))

    def words(self, region: Region) -> list[object]:
        """A random command."""
        rng = self.rng
        key = rng.choice(KEYS)
        group = rng.choice(GROUPS)
        consumer = rng.choice(CONSUMERS)
        one = region.some_id
        dice = rng.randrange(100)
        if dice >= 86 and rng.random() < self.calm:
            dice = rng.randrange(67)
        fields: list[object] = [rng.choice([b"f", b"a longer field"]), b"v%d" % rng.randrange(1000)]
        if rng.random() < 0.1:
            fields += [b"second", b"x" * rng.randrange(200)]
        if dice < 22:
            return ["XADD", key, "*", *fields]
        if dice < 25:
            return ["XADD", key, "MAXLEN", rng.randrange(4), "*", *fields]
        if dice < 31:
            return [
                "XADD",
                key,
                "IDMP",
                rng.choice([b"p", b"q"]),
                rng.choice([b"i", b"j", b"k", b"l"]),
                "*",
                *fields,
            ]
        if dice < 38:
            return ["XGROUP", "CREATE", key, group, rng.choice([b"0", b"$", one()]), "MKSTREAM"]
        if dice < 52:
            words: list[object] = [
                "XREADGROUP",
                "GROUP",
                group,
                consumer,
                "COUNT",
                rng.randrange(1, 4),
            ]
            if rng.random() < 0.2:
                words.append("NOACK")
            return [*words, "STREAMS", key, ">" if rng.random() < 0.8 else "0"]
        if dice < 60:
            return ["XACK", key, group, one(), one(), one()]
        if dice < 63:
            words = ["XCLAIM", key, group, consumer, 0, one(), one()]
            return words + rng.choice(
                [[], ["FORCE"], ["LASTID", one()], ["JUSTID"], ["RETRYCOUNT", 7]]
            )
        if dice < 65:
            return ["XAUTOCLAIM", key, group, consumer, 0, "0", "COUNT", 2]
        if dice < 67:
            return ["XGROUP", "DELCONSUMER", key, group, consumer]
        if dice < 69:
            return ["XGROUP", "SETID", key, group, rng.choice([b"0", b"$", one()])]
        if dice < 70:
            return ["XGROUP", "CREATECONSUMER", key, group, consumer]
        if dice < 72:
            return ["XGROUP", "DESTROY", key, group]
        if dice < 77:
            return ["XDEL", key, one(), one()]
        if dice < 79:
            return ["XDELEX", key, rng.choice(["KEEPREF", "DELREF", "ACKED"]), "IDS", 1, one()]
        if dice < 80:
            return [
                "XACKDEL",
                key,
                group,
                rng.choice(["KEEPREF", "DELREF", "ACKED"]),
                "IDS",
                1,
                one(),
            ]
        if dice < 84:
            return ["XTRIM", key, "MAXLEN", *rng.choice([["="], ["~"]]), rng.randrange(5)]
        if dice < 86:
            return ["XTRIM", key, "MAXLEN", "=", rng.randrange(3), rng.choice(["DELREF", "ACKED"])]
        if dice < 88:
            return ["XSETID", key, f"{self.now_ms + rng.randrange(5)}-0"]
        if dice < 90:
            return [
                "XCFGSET",
                key,
                "IDMP-DURATION",
                rng.randrange(1, 3),
                "IDMP-MAXSIZE",
                rng.randrange(1, 4),
            ]
        if dice < 93:
            return ["DEL", key]
        if dice < 95 and rng.random() < 0.7:
            return ["RENAME", key, rng.choice(KEYS)]
        if dice < 96:
            return ["FLUSHALL"]
        if dice < 99:
            return ["PEXPIRE", key, rng.randrange(1, 60)]
        return ["PERSIST", key]


def is_error(reply: object) -> bool:
    return isinstance(reply, ErrorReply)
