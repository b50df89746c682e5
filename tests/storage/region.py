"""One region on a SQL database in memory, run by the real driver, and judged after each write.

A `Region` performs the `Work` of `region.driver.Driver` one transaction at a time. After each
transaction the test copies the disk and starts a second driver from the copy. The state that this
start finds must be the state at the moment when the last commit on that disk was taken.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from random import Random
from typing import Any, Final, Optional, Protocol

from anabranch.crdt.vector import includes
from anabranch.region.config import RegionConfig
from anabranch.region.driver.driver import Driver
from anabranch.region.driver.turn_limits import TurnLimits
from anabranch.region.driver.work import DiskTransaction, LogRead
from anabranch.region.engine.engine import Engine
from anabranch.region.engine.replies import Reply, listed
from anabranch.region.engine.rows import Commit
from anabranch.region.engine.session import Session
from anabranch.region.engine.settings import Settings
from anabranch.region.live import starting
from anabranch.region.option_values import Address
from anabranch.region.storage.checkpoint import Checkpointer
from anabranch.sim.world.vfs import run
from tests.storage import dump
from tests.storage.direct import DirectDatabase, copy_of, new_disk, position_for
from tests.support.engines import execute

NAMES = {"us": 1, "eu": 2, "ap": 3}
KEYS = [b"k1", b"k2", b"k3"]
# Steady time between checkpoints. Only `Region.begin_checkpoint` moves the clock so far.
CHECKPOINT_INTERVAL_MS: Final = 1000
# Steady time after which the driver tries a failed commit again.
RETRY_MS: Final = TurnLimits().retry_ms


class Clock:
    """The clock of a test (`region.driver.clock.Clock`). Only the test moves it."""

    def __init__(self, now_ms: int) -> None:
        self.wall_ms = now_ms
        self.elapsed_ms = 0

    def passes(self, ms: int) -> None:
        """Time passes. To set the clock, change `wall_ms` alone."""
        self.wall_ms += ms
        self.elapsed_ms += ms

    def now_ms(self) -> int:
        return self.wall_ms

    def steady_ms(self) -> int:
        return self.elapsed_ms

    def steady_ns(self) -> int:
        return self.elapsed_ms * 1_000_000


class Surroundings(Protocol):
    """The facts and objects that a region takes from the cluster of a test.

    `looks` is the share of transactions after which the disk is judged.
    """

    rng: Random
    clock: Clock
    members: dict[str, int]
    values: dict[str, int | str]
    looks: float
    collects: bool


def config_of(
    name: str,
    members: dict[str, int],
    values: dict[str, int | str],
    data: Path = Path("memory"),
    restored: bool = False,
    moved: bool = False,
    first_start: bool = True,
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
        moved=moved,
        first_start=first_start,
        settings=Settings({"crdt-clock-offset-max-ms": 0, **values}),
    )


class Found:
    """A start on a disk, and the state that it finds there."""

    def __init__(
        self,
        config: RegionConfig,
        disk: sqlite3.Connection,
        clock_ms: int,
        clock: Clock | None = None,
    ) -> None:
        self.disk = disk
        self.database = DirectDatabase(disk)
        self.driver: Driver = run(starting.start(config, self.database, clock or Clock(clock_ms)))
        self.engine: Engine = self.driver.engine
        self.state = dump.of_keyspace(self.engine.keyspace)

    @property
    def checkpointer(self) -> Checkpointer:
        return self.driver._disk._checkpoints._checkpointer


class Region:
    """One region: the driver, its disk, and the transaction under way."""

    def __init__(self, cluster: Surroundings, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.region_id = NAMES[name]
        self.disk = new_disk()
        self.transactions = 0
        self.begin()

    def config(self) -> RegionConfig:
        values = {"crdt-checkpoint-interval-ms": CHECKPOINT_INTERVAL_MS, **self.cluster.values}
        return config_of(self.name, self.cluster.members, values)

    def begin(self) -> None:
        """Starts from the disk."""
        clock = self.cluster.clock
        found = Found(self.config(), self.disk, clock.wall_ms, clock)
        self.database = found.database
        self.driver = found.driver
        self.engine = found.engine
        self.checkpointer = found.checkpointer
        # In most histories a step captures one key; in some a step captures several keys.
        if self.cluster.rng.random() < 0.8:
            self.checkpointer.capture_bytes = 1
        self.transaction: Optional[DiskTransaction] = None
        self.failures = 0
        # The newest commit, and the state when it was taken.
        self.taken_commit: Optional[Commit] = None
        self.taken: dump.Plain = {}
        self.taken_digest = b""
        # The state as of the last commit on the disk.
        self.expected = found.state
        self.digest = self.engine.keyspace.digest()
        for peer in self.engine.state.peers.by_id:
            self.engine.peers.links.receiver_opened(peer)
        self.session: Session = self.engine.clients.connect("", "", clock.wall_ms)
        self.engine.tick(clock.wall_ms)

    # -- transactions, as the driver orders them

    def step(self) -> None:
        """One step of the driver. Reads of the log are answered at once."""
        while True:
            work = self.driver.step()
            if work.transaction is not None:
                assert self.transaction is None, "two transactions at a time"
                self.transaction = work.transaction
                commit = work.transaction.commit
                # The driver retries a failed commit unchanged.
                if commit is not None and commit is not self.taken_commit:
                    self.taken_commit = commit
                    self.taken = dump.of_keyspace(self.engine.keyspace)
                    self.taken_digest = self.engine.keyspace.digest()
            if not work.reads:
                return
            for read in work.reads:
                self.driver.read(read, run(self.database.answer(read.request)))

    def take_commit(self) -> None:
        """Asks for a commit. The driver may write a slice of a checkpoint first."""
        self.engine.disk.want_commit()
        self.step()

    def write(self) -> None:
        """Writes the transaction under way, if there is one."""
        transaction, self.transaction = self.transaction, None
        if transaction is None:
            return
        run(self.database.write(transaction.statements))
        if transaction.commit is not None:
            self.expected = self.taken
            self.digest = self.taken_digest
        self.driver.written(transaction)
        self.written()

    def fail(self) -> None:
        """Makes the transaction under way fail, if there is one."""
        transaction, self.transaction = self.transaction, None
        if transaction is not None:
            self.failures += 1
            self.driver.failed(transaction, "the disk is full")

    def commit_all(self) -> None:
        """Commits everything done so far."""
        self.write()
        while not self.engine.disk.is_all_in_commits():
            self.take_commit()
            if self.transaction is None:
                self.cluster.clock.elapsed_ms += RETRY_MS
                self.driver.tick()
            self.write()

    def begin_checkpoint(self) -> None:
        """Makes a checkpoint due.

        It begins with the next step if the state has changed and no checkpoint is under way.
        """
        self.cluster.clock.elapsed_ms += CHECKPOINT_INTERVAL_MS
        self.driver.tick()

    def is_checkpointing(self) -> bool:
        return self.driver._disk._steps is not None

    def step_checkpoint(self) -> None:
        """Writes one more transaction of a checkpoint. A checkpoint begins if none is under way."""
        if not self.is_checkpointing():
            self.begin_checkpoint()
        self.write()
        self.step()
        self.write()

    def checkpoint(self) -> None:
        """Writes a whole checkpoint, with the commits that it waits for."""
        self.step_checkpoint()
        while self.is_checkpointing():
            self.step_checkpoint()

    # -- the judgement of a disk

    def written(self) -> None:
        """Counts a transaction on the disk, and judges the disk after some of them."""
        self.transactions += 1
        if self.cluster.rng.random() < self.cluster.looks:
            self.look()

    def look(self) -> None:
        """Starts from a copy of the disk and compares the states.

        The start reads clock 0, as on a host whose clock was set back.
        """
        found = Found(self.config(), copy_of(self.disk), 0)
        told = dump.differences(
            found.state, self.expected, self.cluster.collects, self.cluster.clock.wall_ms - 1000
        )
        if found.engine.keyspace.digest() != self.digest:
            told.append("the digest differs")
        told += self._other_log(found)
        disk_clock_ms = self.engine.state.disk.clock_ms
        if found.engine.state.clock.now_ms < disk_clock_ms:
            told.append(
                f"the clock ran back from {disk_clock_ms} to {found.engine.state.clock.now_ms}"
            )
        rows = {
            number
            for table in ("part", "node")
            for (number,) in found.disk.execute(f"SELECT DISTINCT number FROM {table}")
        }
        if not rows <= set(found.checkpointer.numbers.values()):
            told.append(f"rows that belong to no key: {rows}")
        if told:
            raise AssertionError(
                f"{self.cluster}: {self.name} after transaction {self.transactions}:\n"
                + "\n".join(told)
            )

    def _other_log(self, found: Found) -> list[str]:
        """How the log that a start found differs from the log that the driver knows."""
        told: list[str] = []
        position = self.engine.committed_position
        if found.engine.state.journal.position != position:
            told.append(f"position {found.engine.state.journal.position}, not {position}")
        figures, expected = found.driver.log.figures(), self.driver.log.figures()
        for name in ("crdt_log_rows", "crdt_log_bytes", "crdt_log_effects"):
            if figures[name] != expected[name]:
                told.append(f"{name}: found {figures[name]}, expected {expected[name]}")
        floor, expected_floor = found.driver.log.tail.floor, self.driver.log.tail.floor
        # The floor rises before the transaction that writes it.
        may_be_lower = self.is_checkpointing() or self.transaction is not None or self.failures > 0
        if floor != expected_floor and not (may_be_lower and includes(expected_floor, floor)):
            told.append(f"floor: found {floor}, expected {expected_floor}")
        return told

    def crash(self) -> None:
        """Stops the process and starts it again from the disk."""
        self.look()
        self.begin()
        self.look()

    # -- commands and sync

    def say(self, *words: object) -> Any:
        argv = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        reply = execute(self.engine, self.session, argv, self.cluster.clock.wall_ms)
        self.engine.clients.take_replies()
        return listed(reply)

    def pull(self, peer: Region) -> None:
        """Merges some blocks, or joins a snapshot, from the peer's disk."""
        engine = self.engine
        now_ms = self.cluster.clock.wall_ms
        position = position_for(peer.database, peer.driver.log.tail, engine.vector)
        if position is None or self.cluster.rng.random() < 0.1:
            cut = peer.engine.peers.snapshots.cut()
            peer.commit_all()
            assert peer.engine.committed_position >= cut.position
            engine.peers.snapshots.join(list(cut.chunks(200)), peer.region_id, now_ms)
            return
        rows = run(peer.database.log.rows_after(position, self.cluster.rng.choice([1, 300, 10000])))
        engine.peers.merge([row.block for row in rows], peer.region_id, now_ms)

    def some_id(self) -> bytes:
        """The ID of an entry, or a random ID that an entry may have had or may get."""
        rng = self.cluster.rng
        stream = self.engine.keyspace.get(rng.choice(KEYS))
        if stream is None or not stream.length() or rng.random() < 0.2:
            return b"%d-%d" % (rng.randrange(1, 30), rng.randrange(3))
        logs = list(dump.of_stream(stream)["logs"].values())
        entry_id = rng.choice(rng.choice(logs))[1]
        return b"%d-%d" % (entry_id >> 64, entry_id & ((1 << 64) - 1))


def late_reply(region: Region) -> Reply:
    """The reply of a command that reads the log; each read of the log is answered at once."""
    driver = region.driver
    while not (late := driver.engine.clients.take_replies()):
        request = driver._histories.next_read()
        if request is not None:
            driver.read(LogRead(0, request), run(region.database.answer(request)))
    return late[0].reply
