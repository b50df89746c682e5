"""The trimmer: removes the records that every consumer has processed, and no others.

The limit is the lowest ID at which any consumer stands in any region's log. Records below it are
gone from the stream, so none of them may be unread, and none may arrive later:

- A record that is here lies in some region's log. Every consumer stands at the limit or above it in
  that log, so every consumer has processed the record.
- A record that arrives later lies above every record of its log that is here, because the IDs of
  one log ascend. So it lies above the limit.

Nobody has to be asked whether the other regions still send something. The price: a region that adds
nothing holds the limit back at its last record, and so does a partition.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Optional

import redis

from examples.rocket_rides import tables
from examples.rocket_rides.database import Database, Transaction
from examples.rocket_rides.records import WHOLE_STREAM, Checkpoint, entry_id
from examples.rocket_rides.ride_log import Endpoint, Entry, NoRegionAnswers, RideLog, client

PAGE_RECORDS = 1000
PAUSE_S = 0.25
WAIT_MS = 1000


def trim_limit(checkpoints: Mapping[str, Checkpoint], regions: Sequence[str]) -> Optional[str]:
    """The ID below which every record has been processed by all and no record can arrive.

    Arguments:
        checkpoints: Consumer → the positions below which it reads nothing any more, for every
            registered consumer.
        regions: The regions that add to the stream.

    Returns:
        None if a consumer has not processed any record of some log, or if there is no consumer.
    """
    limits: list[str] = []
    for checkpoint in checkpoints.values():
        # A consumer with one ID for the stream never looks below that ID again.
        logs = [WHOLE_STREAM] if WHOLE_STREAM in checkpoint else regions
        if any(log not in checkpoint for log in logs):
            return None
        limits += [checkpoint[log].entry_id for log in logs]
    return min(limits, key=entry_id, default=None)


class Trimmer:
    """Trims the stream in the first of the regions. `databases` are those of all regions.

    It notes in the first database which records it removes. So a reconciliation can still look for
    records that were in the stream twice.
    """

    def __init__(self, databases: Sequence[Database], regions: Sequence[Endpoint]) -> None:
        self._databases = list(databases)
        self._regions = list(regions)
        # One region only: what is noted and what is trimmed must be the same stream.
        self._log = RideLog(regions[:1])
        self._clients = [client(region) for region in regions]
        self._limit = ""

    def run_once(self) -> int:
        """Trims once; returns the number of removed records.

        NoRegionAnswers if the region in which it trims does not answer.
        """
        checkpoints: dict[str, Checkpoint] = {}
        for database in self._databases:
            checkpoints |= database.run(_checkpoints)
        limit = trim_limit(checkpoints, [region.name for region in self._regions])
        if limit is None or limit == self._limit or not self._has_caught_up():
            return 0
        self._note(limit)
        removed = self._log.trim_below(limit)
        self._limit = limit
        return removed

    def _has_caught_up(self) -> bool:
        """Whether the first region holds all that the others hold, as of now.

        Of two adds of one record in a partition, one is removed when the regions meet again. By
        then the consumers may have seen both. Once the first region has caught up, it has the
        removal, too, and the note does not show a record twice that the stream has once.
        """
        first, *others = self._clients
        try:
            for other in others:
                vector = other.execute_command("CRDT.VECTOR")
                if first.execute_command("CRDT.WAIT", WAIT_MS, *vector) != 1:
                    return False
        except (redis.ConnectionError, redis.TimeoutError):
            return False
        return True

    def _note(self, limit: str) -> None:
        after = ""
        while page := self._log.read_stream(after, PAGE_RECORDS, limit):
            self._databases[0].run(partial(_write, entries=page))
            after = page[-1].entry_id


def _checkpoints(transaction: Transaction) -> dict[str, Checkpoint]:
    consumers = tables.registered(transaction)
    return {one.name: tables.read_up_to(transaction, one) for one in consumers}


def _write(transaction: Transaction, *, entries: list[Entry]) -> None:
    transaction.write_many(
        "INSERT INTO trimmed_records VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        [(entry.entry_id, entry.ride.origin, entry.ride.ride_id) for entry in entries],
    )


def run(trimmer: Trimmer) -> None:
    """Trims until the process ends. While the region does not answer, it tries again."""
    while True:
        try:
            trimmer.run_once()
        except NoRegionAnswers as error:
            print(f"nothing is trimmed: {error}", flush=True)
        time.sleep(PAUSE_S)
