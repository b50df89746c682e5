"""Consumers: keep the running total of all rides, with totals and checkpoint in one transaction.

A consumer has two halves. A `Reader` returns the rides after a checkpoint. `Totals` adds them to
the totals, and stores the new checkpoint, in one transaction. Any other source of batches can use
the second half: it needs a checkpoint, and says which one a batch begins at.

- `LogReader` keeps a position in each region's log. Entries of one log arrive in its order, so
  nothing appears before a position later.
- `OneIdReader` keeps one ID for the whole stream and reads on with XRANGE, as the article does. It
  skips the entries that are merged later with a lower ID.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from examples.rocket_rides import tables
from examples.rocket_rides.database import Database, Transaction
from examples.rocket_rides.mishaps import Mishaps, crash
from examples.rocket_rides.records import WHOLE_STREAM, Checkpoint, Position, Ride
from examples.rocket_rides.ride_log import NoRegionAnswers, RideLog

BATCH_RECORDS = 100
PAUSE_S = 0.05


class StaleBatch(Exception):
    """A batch does not begin at the consumer's checkpoint: another process has gone on with it."""


class Batch(NamedTuple):
    """Rides, the checkpoint after which they were read, and the checkpoint that they lead to."""

    rides: list[Ride]
    begin: Checkpoint
    end: Checkpoint


class Reader(Protocol):
    """A source of batches."""

    def read(self, begin: Checkpoint) -> Batch:
        """The next rides after a checkpoint; without rides if there are none now.

        NoRegionAnswers if the stream cannot be read.
        """


class LogReader:
    """Reads each region's log with CRDT.LOG."""

    def __init__(self, log: RideLog, count: int = BATCH_RECORDS) -> None:
        self._log = log
        self._count = count

    def read(self, begin: Checkpoint) -> Batch:
        """See `Reader.read`. A batch has up to `count` rides of each log."""
        names = [region.name for region in self._log.regions]
        after = {name: begin[name].entry_id if name in begin else "" for name in names}
        rides: list[Ride] = []
        end = dict(begin)
        for name, entries in self._log.read_logs(after, self._count).items():
            for entry in entries:
                rides.append(entry.ride)
                end[name] = Position(entry.counter, entry.entry_id)
        return Batch(rides, begin, end)


class OneIdReader:
    """Reads the whole stream with XRANGE, from the last ID on, as the article does."""

    def __init__(self, log: RideLog, count: int = BATCH_RECORDS) -> None:
        self._log = log
        self._count = count

    def read(self, begin: Checkpoint) -> Batch:
        """See `Reader.read`."""
        after = begin[WHOLE_STREAM].entry_id if begin else ""
        entries = self._log.read_stream(after, self._count)
        end = {WHOLE_STREAM: Position(0, entries[-1].entry_id)} if entries else begin
        return Batch([entry.ride for entry in entries], begin, end)


class Totals:
    """The totals and the checkpoint of one consumer."""

    def __init__(self, database: Database, name: str) -> None:
        self._database = database
        self._name = name

    def checkpoint(self) -> Checkpoint:
        """The checkpoint; empty before the first batch."""
        return self._database.run(lambda each: tables.checkpoint(each, self._name))

    def add(self, batch: Batch, before_commit: Callable[[], None] = lambda: None) -> int:
        """Adds a batch to the totals and moves the checkpoint, in one transaction.

        A ride that the total has already is skipped and counted.

        Arguments:
            batch: What a reader returned.
            before_commit: Called last in the transaction; if it raises, nothing is changed.

        Returns:
            The number of rides that were new.

        Raises:
            StaleBatch: The batch does not begin at the checkpoint. Nothing was changed.
        """

        def work(transaction: Transaction) -> int:
            if tables.checkpoint(transaction, self._name) != batch.begin:
                raise StaleBatch(self._name)
            new = self.add_in(transaction, batch)
            before_commit()
            return new

        return self._database.run(work)

    def add_in(self, transaction: Transaction, batch: Batch) -> int:
        """Does the work of `add` in a transaction that does more; `batch.begin` is not looked at.

        Returns:
            The number of rides that were new.
        """
        new = self._new(transaction, batch.rides)
        transaction.write_many(
            "INSERT INTO consumed_rides VALUES (?, ?, ?, ?)", [(self._name, *ride) for ride in new]
        )
        transaction.write(
            "UPDATE consumers SET rides = rides + ?, distance_mm = distance_mm + ?,"
            " seen_again = seen_again + ? WHERE name = ?",
            (
                len(new),
                sum(ride.distance_mm for ride in new),
                len(batch.rides) - len(new),
                self._name,
            ),
        )
        transaction.write_many(
            "INSERT INTO checkpoints VALUES (?, ?, ?, ?) ON CONFLICT (consumer, log)"
            " DO UPDATE SET counter = excluded.counter, entry_id = excluded.entry_id",
            [(self._name, log, *position) for log, position in batch.end.items()],
        )
        return len(new)

    def _new(self, transaction: Transaction, rides: list[Ride]) -> list[Ride]:
        """The rides that are not in the total yet, each once."""
        known: set[tuple[str, int]] = set()
        for origin in {ride.origin for ride in rides}:
            ids = [ride.ride_id for ride in rides if ride.origin == origin]
            for ride in tables.consumed(transaction, self._name, origin, min(ids), max(ids)):
                known.add((origin, ride.ride_id))
        new = []
        for ride in rides:
            if (ride.origin, ride.ride_id) not in known:
                known.add((ride.origin, ride.ride_id))
                new.append(ride)
        return new


def run_once(reader: Reader, totals: Totals, mishaps: Mishaps) -> int:
    """Reads one batch and adds it; returns the number of its rides.

    The mishap of the article: the process crashes after it has handled a batch, before it commits.
    """
    batch = reader.read(totals.checkpoint())
    if not batch.rides:
        return 0
    is_struck = mishaps.strikes()
    totals.add(batch, crash if is_struck else lambda: None)
    return len(batch.rides)


def run(reader: Reader, totals: Totals, mishaps: Mishaps) -> None:
    """Consumes until the process ends. While no region answers, it tries again."""
    while True:
        try:
            handled = run_once(reader, totals, mishaps)
        except NoRegionAnswers as error:
            print(f"no region can be read: {error}", flush=True)
            handled = 0
        except StaleBatch:
            print("another process with this name has gone on; reading anew", flush=True)
            handled = 0
        if not handled:
            time.sleep(PAUSE_S)
