"""The streamer of one region: moves staged records into the stream.

It deletes staged records only after a region has confirmed them. If it crashes in between, or the
confirmation is lost, it sends them again, perhaps to another region. The add is idempotent: the
producer ID names the database, and the record ID the record. So nothing is in the stream twice,
and two streamers of one database would do no harm.
"""

from __future__ import annotations

import time

from examples.rocket_rides.database import Database, Transaction
from examples.rocket_rides.mishaps import Mishaps
from examples.rocket_rides.records import StagedRecord
from examples.rocket_rides.ride_log import NoRegionAnswers, RideLog
from examples.rocket_rides.tables import producer_id

BATCH_RECORDS = 100
PAUSE_S = 0.05


class Streamer:
    """Moves staged records. `elsewhere` is the same stream, with another region first."""

    def __init__(
        self,
        database: Database,
        log: RideLog,
        elsewhere: RideLog,
        mishaps: Mishaps,
        batch_records: int = BATCH_RECORDS,
    ) -> None:
        self._database = database
        self._log = log
        self._elsewhere = elsewhere
        self._mishaps = mishaps
        self._batch_records = batch_records
        self._producer = producer_id(database)

    def run_once(self) -> int:
        """Moves one batch; returns the number of its records, 0 if none waits.

        Raises:
            NoRegionAnswers: The records stay staged.
        """
        records = self._database.run(self._staged)
        if not records:
            return 0
        self._log.add(self._producer, records)
        # The mishap of the article: the confirmation is lost, and the batch is sent once more.
        is_sent_again = self._mishaps.strikes()
        is_elsewhere = is_sent_again and self._mishaps.is_elsewhere()
        if is_sent_again:
            (self._elsewhere if is_elsewhere else self._log).add(self._producer, records)

        def confirmed(transaction: Transaction) -> None:
            # By ID, not by the highest ID: a transaction that began earlier may have committed a
            # lower ID since.
            marks = ", ".join("?" * len(records))
            transaction.write(
                f"DELETE FROM staged_log_records WHERE id IN ({marks})",
                [record.record_id for record in records],
            )
            if is_sent_again:
                transaction.write(
                    "UPDATE producers SET double_sends = double_sends + 1,"
                    " sent_elsewhere = sent_elsewhere + ?",
                    (int(is_elsewhere),),
                )

        self._database.run(confirmed)
        return len(records)

    def _staged(self, transaction: Transaction) -> list[StagedRecord]:
        rows = transaction.rows(
            "SELECT id, data FROM staged_log_records ORDER BY id LIMIT ?", (self._batch_records,)
        )
        return [StagedRecord(int(record), str(data)) for record, data in rows]


def run(streamer: Streamer) -> None:
    """Moves records until the process ends. While no region answers, it tries again."""
    while True:
        try:
            moved = streamer.run_once()
        except NoRegionAnswers as error:
            print(f"no region takes the records, they stay staged: {error}", flush=True)
            moved = 0
        if not moved:
            time.sleep(PAUSE_S)
