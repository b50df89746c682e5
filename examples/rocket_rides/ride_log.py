"""The stream, in whichever region answers.

A `RideLog` prefers the first of its regions. If that region does not answer, or is in recovery, it
takes the next one. What it does is safe to repeat in another region: adds are idempotent, and
positions are kept for each region's log.
"""

from __future__ import annotations

import os
import time
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from examples.rocket_rides.records import STREAM, Ride, StagedRecord, decoded

TIMEOUT_S = 5.0
# After a failure, a region is tried last for this time.
AVOIDED_S = 5.0
# Pairs of one producer that the stream keeps, and for how long. A batch of the streamer must fit
# in, and an outage of all regions must be shorter. These are the largest values of XCFGSET.
IDMP_MAXSIZE = 10_000
IDMP_DURATION_S = 86_400
RECEIVE_PATIENCE_MS = 4_000

T = TypeVar("T")
_NO_ANSWER = (redis.ConnectionError, redis.TimeoutError, redis.ReadOnlyError)


class LogError(Exception):
    """The stream cannot be used. The text says why."""


class NoRegionAnswers(LogError):
    """No region of the cluster answers; the text has the answer of each."""


class Endpoint(NamedTuple):
    """One region of the cluster, and where its clients connect."""

    name: str
    host: str
    port: int


class Entry(NamedTuple):
    """A record of the stream. `counter` is that of its region log, 0 where it is not known."""

    entry_id: str
    counter: int
    ride: Ride


def endpoints(cluster: Path, first: str = "") -> list[Endpoint]:
    """The regions of a ``cluster.toml``, `first` before the others.

    LogError if the file is no cluster file or does not name `first`.
    """
    try:
        regions = tomllib.loads(cluster.read_text(encoding="utf-8"))["regions"]
        found = [Endpoint(str(region["name"]), *_address(region["resp"])) for region in regions]
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise LogError(f"{cluster} is no cluster.toml of `anabranch up`: {error!r}") from None
    if first and first not in [one.name for one in found]:
        raise LogError(f"{cluster} names no region {first}")
    return sorted(found, key=lambda one: one.name != first) if first else found


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def client(endpoint: Endpoint) -> redis.Redis:
    """A redis-py client of one region, without retries of its own.

    The password comes from REDISCLI_AUTH, as that of redis-cli does.
    """
    return redis.Redis(
        host=endpoint.host,
        port=endpoint.port,
        password=os.environ.get("REDISCLI_AUTH"),
        protocol=2,
        decode_responses=True,
        socket_timeout=TIMEOUT_S,
        retry=Retry(NoBackoff(), 0),
    )


def prepare(regions: Sequence[Endpoint], stream: str = STREAM) -> None:
    """Makes the stream, empty, with the window for idempotent adds, in every region.

    XCFGSET needs a stream. A stream whose only entry was removed exists.

    Raises:
        LogError: A region holds the stream already, or does not receive from the first one.
    """
    clients = [client(one) for one in regions]
    for place, one in zip(regions, clients, strict=True):
        if one.exists(stream):
            raise LogError(f"{place.name} holds {stream} already: DEL it, or take another cluster")
    one = clients[0]
    one.xdel(stream, one.xadd(stream, {"opens": "the stream"}))
    window = ("IDMP-DURATION", IDMP_DURATION_S, "IDMP-MAXSIZE", IDMP_MAXSIZE)
    one.execute_command("XCFGSET", stream, *window)
    vector = one.execute_command("CRDT.VECTOR")
    for place, other in zip(regions[1:], clients[1:], strict=True):
        if other.execute_command("CRDT.WAIT", RECEIVE_PATIENCE_MS, *vector) != 1:
            raise LogError(f"{place.name} has not received the stream of {regions[0].name}")


class RideLog:
    """The stream. `regions` are tried in this order."""

    def __init__(self, regions: Sequence[Endpoint], stream: str = STREAM) -> None:
        self.regions = list(regions)
        self.stream = stream
        self._clients = {one.name: client(one) for one in regions}
        self._failed_s: dict[str, float] = {}

    def add(self, producer: str, records: Sequence[StagedRecord]) -> str:
        """Adds records, idempotently; returns the region that has them all on its disk.

        A record that is in the stream already, under the same producer and record ID, is not added
        again. That holds in every region.

        Raises:
            NoRegionAnswers: Some or all records may be in the stream nevertheless.
        """

        def action(one: redis.Redis) -> None:
            pipeline = one.pipeline(transaction=False)
            for record in records:
                pair = ("IDMP", producer, record.record_id)
                pipeline.execute_command("XADD", self.stream, *pair, "*", "data", record.data)
            pipeline.execute()

        return self._attempt(action)[0]

    def read_logs(self, after: dict[str, str], count: int) -> dict[str, list[Entry]]:
        """The records of each region's log after given IDs, with their counters.

        Arguments:
            after: Region → the ID of the last record that was read there, "" for none.
            count: The most records from one log.
        """

        def action(one: redis.Redis) -> list[Any]:
            pipeline = one.pipeline(transaction=False)
            for region, last in after.items():
                start = f"({last}" if last else "-"
                pipeline.execute_command(
                    "CRDT.LOG", self.stream, region, start, "+", "COUNT", count
                )
            return list(pipeline.execute())

        _, replies = self._attempt(action)
        return {
            region: [_log_entry(one) for one in reply]
            for region, reply in zip(after, replies, strict=True)
        }

    def read_stream(self, after: str, count: int, below: str = "") -> list[Entry]:
        """The records of the whole stream above one ID and below another ("" for none)."""
        start = f"({after}" if after else "-"
        end = f"({below}" if below else "+"

        def action(one: redis.Redis) -> list[Any]:
            rows: Any = one.xrange(self.stream, start, end, count)
            return list(rows)

        _, rows = self._attempt(action)
        return [Entry(str(entry), 0, decoded(fields["data"])) for entry, fields in rows]

    def trim_below(self, limit: str) -> int:
        """Removes the records below an ID that the region has; returns their number."""
        _, removed = self._attempt(
            lambda one: one.xtrim(self.stream, minid=limit, approximate=False)
        )
        return int(removed)

    def close(self) -> None:
        """Closes all connections."""
        for one in self._clients.values():
            one.close()

    def _attempt(self, action: Callable[[redis.Redis], T]) -> tuple[str, T]:
        """(the first region in which `action` succeeds, its result); NoRegionAnswers if none."""
        errors = []
        for region in self._order():
            try:
                result = action(self._clients[region])
            except _NO_ANSWER as error:
                self._failed_s[region] = time.monotonic()
                errors.append(f"{region}: {error}")
                continue
            return region, result
        raise NoRegionAnswers("; ".join(errors))

    def _order(self) -> list[str]:
        """The regions; those that failed a moment ago come last."""
        since = time.monotonic() - AVOIDED_S
        names = [one.name for one in self.regions]
        return sorted(names, key=lambda name: self._failed_s.get(name, since) > since)


def _log_entry(reply: list[Any]) -> Entry:
    fields = dict(zip(reply[::2], reply[1::2], strict=True))
    values = fields["fields"]
    data = dict(zip(values[::2], values[1::2], strict=True))["data"]
    return Entry(str(fields["id"]), int(fields["counter"]), decoded(data))
