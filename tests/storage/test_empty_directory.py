"""A start in an empty directory, which may be a lost volume (S13.6)."""

from __future__ import annotations

import sqlite3

from anabranch.crdt.gossip import Gossip, RecoveryAnswer
from anabranch.region.engine.lifecycle import RECOVERY, SERVING, STARTING
from anabranch.region.engine.replies import ErrorReply
from anabranch.sim.world.vfs import run
from tests.storage.direct import new_disk
from tests.storage.region import Clock, Found, config_of
from tests.support.engines import execute

MEMBERS = {"us": 1, "eu": 2}
PATIENCE_MS = 100


class Begun:
    """A region of two that has started on a disk, with a clock that the test moves."""

    def __init__(
        self, disk: sqlite3.Connection, at_ms: int = 1000, first_start: bool = False
    ) -> None:
        values: dict[str, int | str] = {"crdt-start-patience-ms": PATIENCE_MS}
        self.clock = Clock(at_ms)
        config = config_of("us", MEMBERS, values, first_start=first_start)
        self.found = Found(config, disk, at_ms, self.clock)
        self.engine = self.found.engine

    @property
    def state(self) -> str:
        return self.engine.state.lifecycle.state

    def wait(self) -> None:
        """Patience is over, and what the region wants to write is on its disk."""
        self.clock.passes(PATIENCE_MS)
        self.engine.tick(self.clock.now_ms())
        self.commit()

    def commit(self) -> None:
        self.engine.disk.want_commit()
        transaction = self.found.driver.step().transaction
        if transaction is not None:
            run(self.found.database.write(transaction.statements))
            self.found.driver.written(transaction)

    def answered(self) -> None:
        """eu answers the recovery: it holds nothing."""
        lifecycle = self.engine.state.lifecycle
        answer = RecoveryAnswer(1, lifecycle.life, lifecycle.asking, 2, {}, 0, 1000)
        self.engine.peers.hear(Gossip([], [], [answer]), self.clock.now_ms())
        self.engine.tick(self.clock.now_ms())
        self.commit()

    def add(self) -> object:
        session = self.engine.clients.connect("", "", self.clock.now_ms())
        words = [b"XADD", b"k", b"*", b"f", b"v"]
        return execute(self.engine, session, words, self.clock.now_ms())


def test_a_lost_volume_takes_no_write_before_all_have_answered() -> None:
    begun = Begun(new_disk())
    assert begun.state == STARTING
    begun.wait()
    assert begun.state == RECOVERY
    refused = begun.add()
    assert isinstance(refused, ErrorReply)
    assert refused.message == "READONLY region us is in recovery, waiting for eu"
    begun.answered()
    assert begun.state == SERVING and isinstance(begun.add(), bytes)


def test_a_restart_does_not_make_an_empty_directory_a_used_one() -> None:
    disk = new_disk()
    Begun(disk)
    begun = Begun(disk, 2000)
    begun.wait()
    assert begun.state == RECOVERY
    begun = Begun(disk, 3000)
    assert begun.state == RECOVERY
    begun.wait()
    assert begun.state == RECOVERY


def test_a_directory_that_has_served_is_a_used_one() -> None:
    disk = new_disk()
    begun = Begun(disk)
    begun.wait()
    begun.answered()
    assert begun.state == SERVING
    again = Begun(disk, 2000)
    assert again.state == STARTING
    again.wait()
    assert again.state == SERVING, "nothing was ever written here, and yet it is no new directory"


def test_the_operator_says_that_it_is_the_first_start() -> None:
    begun = Begun(new_disk(), first_start=True)
    begun.wait()
    assert begun.state == SERVING


def test_the_operator_says_so_when_the_region_waits_already() -> None:
    disk = new_disk()
    begun = Begun(disk)
    begun.wait()
    assert begun.state == RECOVERY
    told = Begun(disk, 2000, first_start=True)
    assert told.state == STARTING
    told.wait()
    assert told.state == SERVING
    again = Begun(disk, 3000)
    again.wait()
    assert again.state == SERVING, "the word is kept"


def test_a_database_of_a_former_release_is_a_used_one() -> None:
    disk = new_disk()
    Begun(disk)
    disk.execute("DELETE FROM meta WHERE name = 'never_served'")
    begun = Begun(disk, 2000)
    begun.wait()
    assert begun.state == SERVING


def test_the_word_ends_no_recovery_of_a_region_that_has_served() -> None:
    disk = new_disk()
    begun = Begun(disk, first_start=True)
    begun.wait()
    begun.engine.peers.peer_holds(2, {1: 7}, begun.clock.now_ms())
    begun.commit()
    assert Begun(disk, 2000, first_start=True).state == RECOVERY
