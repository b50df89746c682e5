"""Reads of the log are bounded in bytes: rows that are not returned are not read.

A read once selected 512 rows and kept those that fit its bytes. While a fast writer made blocks of
640 kB, each slice of 128 KiB read 300 MB, so an explanation at 2,000,000 entries took 31 ms of CPU
instead of 4, the history of a key ten times as long as now, and a peer that catches up read most
blocks hundreds of times.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from anabranch.crdt.block import Block
from anabranch.region.engine.rows import BlockRow, ClockRow, Commit, LogRow
from anabranch.region.storage import history, log
from tests.storage.direct import new_disk


def _rows(draw: Random, count: int) -> list[LogRow]:
    rows: list[LogRow] = []
    counters = {1: 0, 2: 0}
    for position in range(1, count + 1):
        if draw.random() < 0.2:
            rows.append(ClockRow(position, 0))
            continue
        origin = draw.choice([1, 2])
        first = counters[origin] + 1
        last = counters[origin] = first + draw.randrange(3)
        body = bytes(draw.choice([1, 10, 1000]))
        rows.append(BlockRow(position, 0, Block(origin, first, last, body, bytes(16)), 0))
    return rows


def _disk(rows: list[LogRow]) -> Any:
    disk = new_disk()
    for sql, parameters in log.commit_statements(Commit(len(rows), rows, {}, {}, 0)):
        disk.execute(sql, parameters)
    return disk


def _within(wanted: list[LogRow], bytes_max: int) -> list[int]:
    """The positions of the first rows that have so many bytes; at least one row."""
    found: list[int] = []
    size = 0
    for row in wanted:
        size += len(log.body_of(row))
        if found and size > bytes_max:
            break
        found.append(row.position)
    return found


@pytest.mark.parametrize("seed", range(30))
def test_reads_return_the_rows_that_fit(seed: int) -> None:
    draw = Random(seed)
    rows = _rows(draw, 60)
    disk = _disk(rows)
    blocks = [row for row in rows if isinstance(row, BlockRow)]
    for _ in range(20):
        bytes_max = draw.choice([0, 1, 50, 1000, 2500, 1 << 30])
        after, last, counter = draw.randrange(60), draw.randrange(61), draw.randrange(60)
        reads: list[tuple[str, tuple[int, ...], list[LogRow]]] = [
            (log.ROWS_AFTER, (after,), [row for row in rows if row.position > after]),
            (log.BLOCKS_AFTER, (after,), [row for row in blocks if row.position > after]),
            (
                history.ROWS_BETWEEN,
                (after, last),
                [row for row in rows if after < row.position <= last],
            ),
            (
                history.BLOCKS_OF,
                (2, counter, last),
                [
                    row
                    for row in blocks
                    if row.block.origin == 2 and row.block.last > counter and row.position <= last
                ],
            ),
        ]
        for sql, parameters, wanted in reads:
            found = [columns[0] for columns in disk.execute(sql, (bytes_max, *parameters))]
            assert found == _within(wanted, bytes_max)


def test_a_read_returns_at_most_512_rows() -> None:
    disk = _disk([ClockRow(position, 0) for position in range(1, 601)])
    found = list(disk.execute(log.ROWS_AFTER, (1 << 30, 0)))
    assert [columns[0] for columns in found] == [*range(1, 513)]
