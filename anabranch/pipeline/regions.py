"""Finds a region that answers, and asks it about streams.

Driver and executors go round the endpoints in the same way: the read region first, then the others,
again and again until one answers or `timeoutSeconds` have passed since the first of failures in a
row. A process begins with no endpoint that was silent there lately.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, Optional, TypeVar

from anabranch.answers import listed_vector, members_of
from anabranch.pipeline.errors import PipelineError, RegionsError
from anabranch.pipeline.options import Endpoint, RegionOptions, SourceOptions, is_glob
from anabranch.pipeline.resp import (
    Connection,
    NoAnswer,
    RefusedCommand,
    RegionGone,
    ReplyValue,
    bytes_of,
    encoded,
    int_of,
    list_of,
    named,
    shown,
)
from anabranch.region.resp.request import Word

Answer = TypeVar("Answer")
# Sends the words of a command, and returns its reply.
Call = Callable[..., ReplyValue]

# Pause after no endpoint answered.
_PAUSE_S: Final = 0.2
# For so long no rotation begins with an endpoint that did not answer in time.
_SILENT_S: Final = 300.0
# Endpoint → when that ends, by the monotonic clock. It holds for this process: Spark runs many
# tasks in one, and each would wait anew for a region that hangs.
_silent_until_s: Final[dict[str, float]] = {}
_SCAN_COUNT: Final = 1000


class Rotation:
    """Goes round the endpoints. The deadline runs from the first of failures in a row."""

    def __init__(self, options: RegionOptions) -> None:
        self._options: Final = options
        self._password: Final = options.password()
        self._number = _first_not_silent(options.endpoints)
        self._failed_in_row = 0
        self._deadline_s = 0.0
        # The newest reason by endpoint.
        self._reasons: dict[str, str] = {}

    def progressed(self) -> None:
        """Notes that a region did what was asked."""
        self._failed_in_row = 0
        _silent_until_s.pop(str(self.endpoint), None)

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint that is asked now."""
        return self._options.endpoints[self._number]

    def failed(self, reason: str | Exception) -> None:
        """Goes on to the next endpoint; raises RegionsError if the time is over."""
        endpoints = self._options.endpoints
        if isinstance(reason, NoAnswer):
            _silent_until_s[str(self.endpoint)] = time.monotonic() + _SILENT_S
        if not self._failed_in_row:
            # Since the last answer nobody may have asked.
            self._deadline_s = time.monotonic() + self._options.timeout_s
        self._reasons[str(self.endpoint)] = str(reason)
        self._number = (self._number + 1) % len(endpoints)
        self._failed_in_row += 1
        if self._failed_in_row % len(endpoints) == 0:
            if time.monotonic() >= self._deadline_s:
                causes = "; ".join(f"{where}: {why}" for where, why in self._reasons.items())
                raise RegionsError(
                    f"no region answered for {self._options.timeout_s:g} s "
                    f"(timeoutSeconds): {causes}"
                )
            time.sleep(_PAUSE_S)

    def connect(self) -> Connection:
        """A connection to the next region that accepts one. Raises PipelineError if none does."""
        while True:
            endpoint = self.endpoint
            try:
                return Connection(
                    (endpoint.host, endpoint.port),
                    self._options.username,
                    self._password,
                    self._options.step_s,
                )
            except RegionGone as error:
                self.failed(error)
            except RefusedCommand as error:
                raise PipelineError(
                    f"{endpoint} refused username and password (username, passwordFile): {error}"
                ) from None

    def ask(
        self, question: Callable[[Connection], Answer], is_for_another: Callable[[str], bool]
    ) -> Answer:
        """The first answer that a region gives, over a connection of its own.

        `is_for_another` tells from the text of a refusal whether the next region may answer.
        Raises PipelineError for another refusal, or if no region answers in time.
        """
        while True:
            connection = self.connect()
            try:
                return question(connection)
            except RegionGone as error:
                self.failed(error)
            except RefusedCommand as error:
                if not is_for_another(str(error)):
                    raise refusal(str(error)) from None
                self.failed(error)
            finally:
                connection.close()


def _first_not_silent(endpoints: Sequence[Endpoint]) -> int:
    """The place of the first endpoint that was not silent lately; 0 if all were."""
    now_s = time.monotonic()
    places = range(len(endpoints))
    return next((n for n in places if _silent_until_s.get(str(endpoints[n]), 0.0) <= now_s), 0)


class LogFacts:
    """One row of CRDT.LOGS: the log of a stream that one region adds to."""

    def __init__(self, row: ReplyValue) -> None:
        facts = named(row)
        self.region: Final = shown(bytes_of(facts["region"]))
        self.region_id: Final = int_of(facts["region_id"])
        # The counter up to which the answering region has applied the effects of `region`.
        self.applied: Final = int_of(facts["applied"])
        # The counters of the first and the last entry, 0 without entries. They need not be on disk.
        self.first: Final = int_of(facts["first"])
        self.last: Final = int_of(facts["last"])
        # The counter of the first add since the stream was last removed as a whole; 0 before it.
        # None: the region is of a version that does not tell.
        self.began: Final = int_of(facts["began"]) if "began" in facts else None
        # The counter up to which entries were trimmed, or removed with the whole stream.
        self.trimmed: Final = int_of(facts["trimmed"])
        self.entries: Final = int_of(facts["entries"])
        # About so many bytes.
        self.size: Final = int_of(facts["bytes"])

    def is_removed_since(self, reached: int) -> bool:
        """Whether the log was removed with its stream after a query had read it up to `reached`.

        False if the region has not applied that much: the log may come.
        """
        if self.began is None or not 0 < reached <= self.applied:
            return False
        if self.began == 0:  # A query at the mark of a trim may have begun there.
            return reached != self.trimmed
        return reached < self.began - 1

    @property
    def earliest(self) -> int:
        """Where a query begins that has read nothing of the log.

        At the mark of a trim below the present log it would be told of what was removed between.
        """
        return max(self.trimmed, (self.began or 1) - 1)


class LogPart:
    """One part of CRDT.SPLIT: it ends at `counter`."""

    def __init__(self, counter: int, entries: int, size: int) -> None:
        self.counter: Final = counter
        self.entries: Final = entries
        # About so many bytes.
        self.size: Final = size


class Regions:
    """Questions about streams, to the first region that answers."""

    def __init__(self, options: SourceOptions) -> None:
        self._options: Final = options
        self._rotation: Final = Rotation(options)
        self._connection: Optional[Connection] = None

    def close(self) -> None:
        """Closes the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def ask(self, question: Callable[[Connection], Answer]) -> Answer:
        """The answer of the region that is connected, or else of the next.

        Raises PipelineError if a region refuses the question or none answers in time.
        """
        while True:
            is_new = self._connection is None
            connection = self._connection or self._rotation.connect()
            self._connection = connection
            try:
                answer = question(connection)
            except RegionGone as error:
                self.close()
                # A connection of before may have been closed while nobody asked.
                if is_new or isinstance(error, NoAnswer):
                    self._rotation.failed(error)
                continue
            except RefusedCommand as error:
                raise refusal(str(error)) from None
            self._rotation.progressed()
            return answer

    def _of_stream(self, question: Callable[[Connection], Answer]) -> Optional[Answer]:
        """The answer to a question about a stream; None if the region has no such stream."""

        def asked(connection: Connection) -> Optional[Answer]:
            try:
                return question(connection)
            except RefusedCommand as error:
                if error.is_no_key():
                    return None
                raise

        return self.ask(asked)

    def _reply(self, *words: Word) -> ReplyValue:
        """The reply to one command."""
        return self.ask(lambda connection: connection.call(*words))

    def stream_names(self) -> list[str]:
        """The streams that the option `streams` names, sorted. A glob may match none."""
        found: set[str] = set()
        for name in self._options.streams:
            if is_glob(name):
                found.update(self.ask(partial(_matching, encoded(name))))
            else:
                found.add(name)
        return sorted(filter(self._options.names_stream, found))

    def logs(self, stream: str) -> Optional[list[LogFacts]]:
        """The logs of a stream, one for each member of the cluster; None if there is no stream."""

        name = encoded(stream)
        return self._of_stream(lambda connection: logs_of(connection.call, name))

    def holds(self, logs: dict[str, int]) -> bool:
        """Whether the region that answers has applied the effects of regions up to counters."""
        words = [word for pair in sorted(logs.items()) for word in pair]
        return not words or self._reply("CRDT.WAIT", 1, *words) == 1

    def info(self) -> dict[str, str]:
        """The section `crdt` of INFO."""
        return info_of(self._reply)

    def members(self) -> list[str]:
        """The names of the regions of the cluster."""
        return list(members_of(self.info()).values())

    def cluster(self) -> str:
        """The name of the cluster."""
        return self.info()["crdt_cluster"]

    def id_at(self, stream: str, region: str, counter: int) -> Optional[str]:
        """The ID of the entry with a counter in a region log; None if there is no such entry."""
        words = ("COUNTERS", counter - 1, counter, "NOFIELDS")
        rows = list_of(self._reply("CRDT.LOG", encoded(stream), region, *words))
        return shown(bytes_of(named(rows[0])["id"])) if rows else None

    def parts(
        self, stream: str, region: str, after: int, end: int, unit: str, size: int
    ) -> Optional[list[LogPart]]:
        """The parts of a range, as the function `split` cuts it; None if there is no stream."""
        name = encoded(stream)
        return self._of_stream(
            lambda connection: split(connection.call, name, region, after, end, unit, size)
        )

    def first_entries(
        self, stream: str, region: str, after: int, end: int, count: int
    ) -> Optional[LogPart]:
        """The part with the first `count` entries of a range, or fewer if it holds fewer.

        None if there is no stream.
        """

        def question(connection: Connection) -> LogPart:
            reached, entries, size = after, 0, 0
            while reached < end and entries < count:
                left = count - entries
                words = (encoded(stream), region, reached, end, "ENTRIES", left)
                part = _split_once(connection.call, *words)[0]
                reached, entries, size = part.counter, entries + part.entries, size + part.size
            return LogPart(reached, entries, size)

        return self._of_stream(question)

    def counter_before(self, stream: str, region: str, first_id: str) -> Optional[int]:
        """The counter below that of the first entry of a log with an ID ≥ `first_id`; None if
        there is no such entry.
        """
        words = ("CRDT.LOG", encoded(stream), region, first_id, "+", "COUNT", 1)
        rows = list_of(self._reply(*words))
        return int_of(list_of(rows[0])[3]) - 1 if rows else None


def takes_no_writes(text: str) -> bool:
    """Whether a refusal says that the region takes no writes for now; another one may."""
    return text.startswith(("READONLY", "MISCONF", "LOADING"))


def refusal(text: str) -> PipelineError:
    """The error for a refused command; names what a user can do."""
    if text.startswith("NOAUTH"):
        return PipelineError("the region asks for a password: give passwordFile")
    if "unknown command" in text:
        return PipelineError(f"the region is of a version that this source cannot read: {text}")
    return PipelineError(f"the region refused a request: {text}")


# -- questions to one region: `call` sends a command to it


def matching(call: Call, pattern: bytes) -> Iterator[bytes]:
    """The names of the streams that match a glob; SCAN may tell one twice."""
    cursor = b"0"
    while True:
        reply = list_of(call("SCAN", cursor, "MATCH", pattern, "COUNT", _SCAN_COUNT))
        cursor = bytes_of(reply[0])
        yield from map(bytes_of, list_of(reply[1]))
        if cursor == b"0":
            return


def logs_of(call: Call, stream: bytes) -> list[LogFacts]:
    """The logs of a stream, one for each member of the cluster (CRDT.LOGS)."""
    return [LogFacts(row) for row in list_of(call("CRDT.LOGS", stream))]


def split(
    call: Call, stream: bytes, region: str | int, after: int, end: int, unit: str, size: int
) -> list[LogPart]:
    """CRDT.SPLIT over the whole range (after, end]; `unit` is BYTES or ENTRIES.

    With ENTRIES, a part may be smaller than `size` where the region ended an answer. `region` is
    the name of the region whose log it is, or its region_id.
    """
    found: list[LogPart] = []
    reached = after
    while reached < end:
        found += _split_once(call, stream, region, reached, end, unit, size)
        reached = found[-1].counter
    return found


def _split_once(
    call: Call, stream: bytes, region: str | int, after: int, end: int, unit: str, size: int
) -> list[LogPart]:
    """The parts of one answer of CRDT.SPLIT, which may end before the range does."""
    reply = list_of(call("CRDT.SPLIT", stream, region, after, end, unit, size))
    return [LogPart(*map(int_of, list_of(part))) for part in reply]


def info_of(call: Call) -> dict[str, str]:
    """The section `crdt` of INFO."""
    lines = shown(bytes_of(call("INFO", "crdt"))).split("\r\n")
    return {name: value for name, _, value in (line.partition(":") for line in lines)}


def own_end(info: dict[str, str]) -> Optional[tuple[str, int]]:
    """The name of the region that gave `info`, and up to where it has issued effects on its disk.

    None unless it serves: in recovery it gets effects of its own from the others.
    """
    if info["crdt_state"] != "serving":
        return None
    counters = listed_vector(info["crdt_disk_vector"])
    return info["crdt_region_name"], counters.get(int(info["crdt_region_id"]), 0)


def _matching(pattern: bytes, connection: Connection) -> list[str]:
    """The names of the streams that match a glob, as texts."""
    return [shown(name) for name in matching(connection.call, pattern)]
