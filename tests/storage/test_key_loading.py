"""The keys of a checkpoint are read side by side with their parts and nodes, some rows at a time.

Two questions were asked for each key once, and each waited for SQLite's thread. A region with
100,000 keys took 15 seconds to start.
"""

from __future__ import annotations

from collections.abc import Generator
from random import Random
from typing import Any

import pytest

from anabranch.region.engine.lifecycle import SERVING
from anabranch.region.live import starting
from anabranch.region.storage import key_loading, sums
from anabranch.region.storage.key_loading import StoredRows, load_keys
from anabranch.region.storage.loading import Stored
from anabranch.sim.world.vfs import run
from tests.storage.direct import DirectDatabase, new_disk
from tests.storage.histories import Cluster
from tests.storage.region import Clock, Region

NODE = ("number", "region", "node", "cut")
INSERT = "INSERT INTO node (number, region, node, cut, body, sum) VALUES (?, ?, ?, ?, ?, 0)"


def asked(disk: Any, steps: Generator[Any, Any, Any]) -> tuple[Any, list[int]]:
    """Answers what is asked; returns the result, and how many rows each answer had."""
    answers: list[int] = []
    rows: Any = None
    while True:
        try:
            sql, parameters = steps.send(rows)
        except StopIteration as end:
            return end.value, answers
        rows = disk.execute(sql, parameters).fetchall()
        answers.append(len(rows))


@pytest.mark.parametrize("seed", range(30))
def test_the_rows_of_each_key_come_in_order(seed: int) -> None:
    """Also beside rows of numbers that no key has, and where a key has many or large rows."""
    draw = Random(seed)
    disk = new_disk()
    numbers = sorted(draw.sample(range(1, 60), draw.randrange(1, 40)))
    for number in numbers:
        for node in range(draw.choice([0, 1, 1, 3, 300])):
            body = None if draw.random() < 0.1 else bytes(draw.choice([1, 5000]))
            for cut in sorted(draw.sample(range(5), draw.choice([1, 1, 2]))):
                disk.execute(INSERT, (number, draw.choice([1, 2]), node, cut, body))
    rows = StoredRows("node", NODE)
    for number in numbers:
        if draw.random() < 0.3:
            continue  # No key has it.
        found: list[Any] = []
        while some := asked(disk, rows.some_of(number))[0]:
            found += some
        wanted = disk.execute(
            "SELECT number, region, node, cut, body, sum FROM node WHERE number = ?"
            " ORDER BY region, node, cut",
            (number,),
        ).fetchall()
        assert [tuple(one) for one in found] == [tuple(one) for one in wanted]


def test_an_answer_is_bounded_in_rows_and_bytes() -> None:
    """Rows of 100,000 bytes come some forty at a time, and small ones by the thousand."""
    disk = new_disk()
    for node in range(6000):
        disk.execute(INSERT, (1 + node // 3000, 1, node, 0, bytes(100_000 if node < 300 else 10)))
    rows = StoredRows("node", NODE)
    answers: list[int] = []
    for number in (1, 2):
        while True:
            some, sizes = asked(disk, rows.some_of(number))
            answers += sizes
            if not some:
                break
    assert sum(answers) == 6000 and max(answers) <= 1000
    assert max(answers[1:7]) <= 42 and len(answers) < 25


def many_keys(keys: int) -> Region:
    """A region with so many keys of one entry in its checkpoint."""
    (region,) = Cluster(5, regions=1, looks=0.0).regions
    for number in range(keys):
        region.say("XADD", f"key:{number}", "*", "f", "v")
    region.commit_all()
    region.checkpoint()
    return region


def test_many_keys_take_few_questions() -> None:
    region = many_keys(3000)
    stored = Stored()
    answers = asked(region.disk, load_keys(stored))[1]
    assert len(stored.keyspace.keys) == 3000
    assert len(answers) < 15 and max(answers[1:]) <= key_loading._ROWS_MAX


def test_a_node_that_was_dropped_and_stored_again_is_loaded() -> None:
    """A start numbers new nodes from the highest one that it loads on, so numbers come again.

    The rows of the former node and of its end are needless, and each is named once.
    """
    region = many_keys(1)
    ((number, origin, node, cut, body),) = region.disk.execute(
        "SELECT number, region, node, cut, body FROM node"
    ).fetchall()
    for its_cut, its_body in ((cut - 2, body), (cut - 1, None)):
        found = sums.of_node(number, origin, node, its_cut, its_body)
        region.disk.execute(
            "INSERT INTO node (number, region, node, cut, body, sum) VALUES (?, ?, ?, ?, ?, ?)",
            (number, origin, node, its_cut, its_body, found),
        )
    stored = Stored()
    asked(region.disk, load_keys(stored))
    assert stored.keyspace.keys[b"key:0"].length() == 1
    assert stored.needless.nodes == [
        (number, origin, node, cut - 2),
        (number, origin, node, cut - 1),
    ]


def test_a_start_gives_plain_keys_no_rare_parts() -> None:
    """To ask each key for its pairs made the place for them, 835 bytes each."""
    region = many_keys(20)
    disk = DirectDatabase(region.disk)
    engine = run(starting.start(region.config(), disk, Clock(1000))).engine
    engine.tick(2000)
    assert engine.state.lifecycle.state == SERVING
    assert len(engine.keyspace.keys) == 20
    assert all(stream.rare is None for stream in engine.keyspace.keys.values())
