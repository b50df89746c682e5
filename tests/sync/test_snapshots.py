"""Serving snapshots whose cuts are prepared over several calls (S11.1)."""

from __future__ import annotations

import pytest

from anabranch.region.engine.settings import Settings
from anabranch.sync.session.handshake import LinkLimits
from anabranch.sync.session.links import PeerConnection
from anabranch.sync.session.log_tail import LogTail
from anabranch.sync.session.sender import Sender
from anabranch.sync.session.snapshots import KEEP_MS, SnapshotServer
from tests.sync.fakes import FakeCut, FakeEngine

STEPS = 5


class Preparing(FakeEngine):
    """An engine that prepares a cut in `STEPS` calls."""

    def __init__(self) -> None:
        super().__init__(1, {1: "us", 2: "eu"})
        self.left = STEPS
        self.cuts = 0

    def prepare_cut(self) -> bool:
        self.left = max(self.left - 1, 0)
        return self.left == 0

    def drop_preparation(self) -> None:
        self.left = STEPS

    def cut(self) -> FakeCut:
        self.cuts += 1
        self.left = STEPS
        return super().cut()


def connection(number: int) -> PeerConnection:
    sender = Sender(1, LinkLimits(Settings()), LogTail(0, {}, 1))
    return PeerConnection(number, 0, sender=sender)


def test_a_cut_is_made_once_it_is_prepared() -> None:
    engine, server, eu = Preparing(), SnapshotServer(), connection(1)
    server.ask(eu, 1)
    for step in range(1, STEPS):
        server.serve(engine, step)
        assert engine.cuts == 0
    server.serve(engine, STEPS)
    server.serve(engine, STEPS + 1)
    assert engine.cuts == 1
    server.committed(engine.position)
    assert eu.sender is not None and eu.sender.sending_snapshot


def test_a_peer_whose_patience_ends_before_the_cut_is_near_gets_it_in_the_end() -> None:
    """It closes the link and asks again, after two steps each time.

    A region began anew with every question. So one with so many keys that a cut took longer than
    the patience of its peer never sent a snapshot.
    """
    engine, server = Preparing(), SnapshotServer()
    for number in range(STEPS):
        eu = connection(number)
        server.ask(eu, number)
        server.serve(engine, 100 * number)
        server.serve(engine, 100 * number + 5)
        if engine.cuts:
            break
        server.forget(eu)
        server.serve(engine, 100 * number + 50)
    assert engine.cuts == 1


@pytest.mark.parametrize("later_ms, left", [(KEEP_MS, STEPS - 1), (KEEP_MS + 1, STEPS)])
def test_what_nobody_asks_for_any_more_is_dropped(later_ms: int, left: int) -> None:
    engine, server, eu = Preparing(), SnapshotServer(), connection(1)
    server.ask(eu, 1)
    server.serve(engine, 1_000)
    server.forget(eu)
    server.serve(engine, 1_000 + later_ms)
    assert engine.left == left
