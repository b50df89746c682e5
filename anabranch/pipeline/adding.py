"""Adds the rows of one task, each once, in a region that takes them.

Rows go out in chunks. A chunk ends with a request whose reply says that the region has everything
before it on its disk, and with `wait` one that says so of other regions. Only then the chunk is
confirmed. If a region breaks off, or takes no writes, all chunks that are not confirmed go to the
next one, with the same pairs. A region that had added them already recognises them. Two regions
that added them without knowing of each other keep one of each pair (S9.2).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from math import inf
from typing import Final, Optional

from anabranch.pipeline.errors import PipelineError, RegionsError
from anabranch.pipeline.pairs import Pairs, RowToAdd
from anabranch.pipeline.progress import SINK_PREFIX, begin, read_progress, region_ms
from anabranch.pipeline.regions import Rotation, refusal, takes_no_writes
from anabranch.pipeline.resp import Connection, RefusedCommand, RegionGone, named, printable
from anabranch.pipeline.sink_options import SinkOptions
from anabranch.pipeline.window import WindowError, checked_window
from anabranch.region.resp.decoder import ReplyDecoder
from anabranch.region.resp.request import command, word_bytes

# A chunk has no more bytes than this, and one row.
_CHUNK_BYTES: Final = 1 << 20
_STREAMS_KEPT: Final = 10_000
# Settings of a region: the most bytes of a request, and of one word of it.
_REQUEST_LIMIT: Final = "client-query-buffer-limit"
_WORD_LIMIT: Final = "proto-max-bulk-len"
_BARRIER: Final = command("CRDT.VECTOR")
# A task with `wait` adds to this stream, so that WAIT also speaks of rows that were recognised.
_WAIT_KEY: Final = f"{SINK_PREFIX}wait"


class Task:
    """One run of a task. `place` names it in errors.

    `query` and `batch` are those of a streaming query; a batch query has no `query`, and its
    `begun_ms` is the time of the region at which it began.
    """

    def __init__(self, place: str, query: str, batch: int, begun_ms: int) -> None:
        self.place: Final = place
        self.query: Final = query
        self.batch: Final = batch
        self.begun_ms = begun_ms


class _Chunk:
    """Adds that are sent together."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0
        # The bytes of the largest add, and the number of the row of each add, for errors.
        self.largest = 0
        self.rows: list[int] = []
        self.streams: dict[bytes, None] = {}

    def add(self, row: RowToAdd, pid: bytes, iid: bytes) -> None:
        part = b"*%d\r\n%b%b" % (
            6 + 2 * row.field_count,
            word_bytes("XADD", row.stream, "IDMP", pid, iid, "*"),
            row.words,
        )
        self.parts.append(part)
        self.size += len(part)
        self.largest = max(self.largest, len(part))
        self.rows.append(row.number)
        self.streams[row.stream] = None


class _Limits:
    """The most bytes of a request, and of a name or value in it, that a region takes.

    A region closes the connection at a request that is larger, as if it had failed. A user who may
    not ask for settings (ACL) has no limits here.
    """

    def __init__(self, connection: Connection) -> None:
        self.request_bytes: float = inf
        self.word_bytes: float = inf
        try:
            settings = {
                **named(connection.call("CONFIG", "GET", _REQUEST_LIMIT)),
                **named(connection.call("CONFIG", "GET", _WORD_LIMIT)),
            }
        except RefusedCommand:
            return
        self.request_bytes = int(settings.get(_REQUEST_LIMIT, inf))
        self.word_bytes = int(settings.get(_WORD_LIMIT, inf))

    def excess(self, part: bytes) -> Optional[str]:
        """What is too large in the bytes of an add; None if the region takes it."""
        if len(part) > self.request_bytes:
            return f"it has {len(part)} bytes as a request, and {_REQUEST_LIMIT} is " + str(
                self.request_bytes
            )
        if len(part) > self.word_bytes:
            longest = max(map(len, _words_of(part)))
            if longest > self.word_bytes:
                return f"it has a value of {longest} bytes, and {_WORD_LIMIT} is {self.word_bytes}"
        return None


class _RegionAway(Exception):
    """The region cannot take rows now; the text says why."""


class Adder:
    """Adds rows for one task. `rows` counts those that are confirmed.

    Raises PipelineError if rows cannot be added, or not only once.
    """

    def __init__(self, options: SinkOptions, task: Task, pairs: Pairs) -> None:
        self._options: Final = options
        self._task: Final = task
        self._pairs: Final = pairs
        self._rotation: Final = Rotation(options)
        self._connection: Optional[Connection] = None
        # Streams whose window was checked on this connection, and the limits of its region.
        self._checked: set[bytes] = set()
        self._limits: Optional[_Limits] = None
        # Chunks that were sent on this connection, and those that are still to be sent.
        self._sent: Final[deque[_Chunk]] = deque()
        self._to_send: Final[deque[_Chunk]] = deque()
        # The region does not recognise rows of this batch for certain after this time.
        self._lapses_s = inf
        self._failed_over = False
        # Whether the batch is done, as a region said: then its rows are there.
        self.is_done = False
        self.rows = 0

    def begin(self) -> None:
        """Finds a region, and learns whether the batch was begun before, or is done."""
        self._until_empty(0)
        self._rotation.progressed()

    def add(self, rows: Iterable[RowToAdd]) -> None:
        """Adds rows, and returns when all are confirmed; of a batch that is done it adds none."""
        try:
            for chunk in self._chunks(rows):
                self._to_send.append(chunk)
                # The region works on this chunk while the next one is made.
                self._until_empty(1)
            self._until_empty(0)
        finally:
            self._close()

    def _chunks(self, rows: Iterable[RowToAdd]) -> Iterator[_Chunk]:
        rows_max = self._options.in_flight_max // 2
        chunk = _Chunk()
        for row in rows:
            pid, iid = self._pairs.pair(row)
            if self.is_done:
                self.rows += 1
                continue
            chunk.add(row, pid, iid)
            if len(chunk.rows) >= rows_max or chunk.size >= _CHUNK_BYTES:
                yield chunk
                chunk = _Chunk()
        if chunk.rows:
            yield chunk

    # -- one region after the other

    def _until_empty(self, left: int) -> None:
        """Goes on until everything is sent and at most `left` chunks are not confirmed."""
        while True:
            try:
                if self._connection is None:
                    self._connect()
                while self._to_send:
                    self._send(self._to_send[0])
                while len(self._sent) > left:
                    self._confirm()
                return
            except (RegionGone, _RegionAway) as error:
                self._close()
                self._failed_over = True
                # In their order: the oldest first.
                self._to_send.extendleft(reversed(self._sent))
                self._sent.clear()
                self._rotation.failed(error)

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> None:
        """Connects to the next region, and learns about the batch there."""
        connection = self._rotation.connect()
        self._connection = connection
        self._checked.clear()
        self._limits = _Limits(connection)
        self._lapses_s = inf
        task = self._task
        try:
            if not task.query:
                return
            progress = read_progress(connection, task.query, task.batch)
            if progress.is_done:
                self.is_done = True
                self.rows += sum(len(chunk.rows) for chunk in self._to_send)
                self._to_send.clear()
                return
            if progress.begun_ms is None:
                task.begun_ms = task.begun_ms or region_ms(connection)
                begin(connection, task.query, task.batch, task.begun_ms)
            else:
                task.begun_ms = min(task.begun_ms or progress.begun_ms, progress.begun_ms)
        except RefusedCommand as error:
            raise _refused(str(error)) from None

    def _check(self, stream: bytes) -> None:
        """Checks the window of a stream; no reply may be outstanding."""
        assert self._connection is not None and not self._sent
        try:
            window = checked_window(
                self._connection, stream, self._options, may_set=not self._options.stream
            )
            age_s = (region_ms(self._connection) - self._task.begun_ms) / 1000
        except RefusedCommand as error:
            raise _refused(str(error)) from None
        except WindowError as error:
            # The driver has seen to the window of the option `stream`. A region that does not know
            # of it is behind.
            if self._options.stream or self._failed_over:
                raise _RegionAway(str(error)) from None
            raise
        self._lapses_s = min(self._lapses_s, time.monotonic() + window.duration_s - age_s)
        if len(self._checked) >= _STREAMS_KEPT:
            self._checked.clear()
        self._checked.add(stream)

    def _check_size(self, chunk: _Chunk) -> None:
        """Raises PipelineError for a row that the region could never take."""
        assert self._limits is not None
        if chunk.largest <= min(self._limits.request_bytes, self._limits.word_bytes):
            return
        for number, part in zip(chunk.rows, chunk.parts, strict=True):
            if (excess := self._limits.excess(part)) is not None:
                stream = printable(_words_of(part)[1])
                raise PipelineError(
                    f"row {number} of {self._task.place} is too large for the stream '{stream}': "
                    f"{excess} in the region ({self._rotation.endpoint}). Raise that setting in "
                    "all regions, or divide the row"
                )

    def _send(self, chunk: _Chunk) -> None:
        self._check_size(chunk)
        for stream in chunk.streams:
            if stream not in self._checked:
                while self._sent:
                    self._confirm()
                self._check(stream)
        if time.monotonic() > self._lapses_s and not self._options.adds_lapsed:
            raise PipelineError(_lapsed(self._task))
        assert self._connection is not None
        data = b"".join(chunk.parts)
        if self._options.wait:
            data += command("XADD", _WAIT_KEY, "MAXLEN", "=", 1, "*", "by", self._task.place)
            data += command("WAIT", self._options.wait, self._options.wait_s * 1000)
        self._connection.send_bytes(data + _BARRIER)
        self._sent.append(self._to_send.popleft())

    def _confirm(self) -> None:
        """Receives the replies to the oldest chunk that was sent."""
        assert self._connection is not None
        connection, chunk = self._connection, self._sent[0]
        for number in chunk.rows:
            try:
                connection.receive()
            except RefusedCommand as error:
                raise self._row_refused(number, str(error)) from None
        try:
            if self._options.wait:
                connection.receive()
                have = connection.receive()
                if not isinstance(have, int) or have < self._options.wait:
                    raise RegionsError(
                        f"{self._task.place}: {have!r} of {self._options.wait} other regions "
                        f"(wait) had the rows on disk after {self._options.wait_s} s "
                        "(waitTimeoutSeconds)"
                    )
            connection.receive()
        except RefusedCommand as error:
            raise _refused(str(error)) from None
        self._sent.popleft()
        self.rows += len(chunk.rows)
        self._rotation.progressed()

    def _row_refused(self, number: int, text: str) -> Exception:
        if takes_no_writes(text):
            return _RegionAway(text)
        return PipelineError(
            f"row {number} of {self._task.place}: the region refused to add it: {text}"
        )


def _words_of(data: bytes) -> list[bytes]:
    """The words of a command, which is an array of strings, as a reply may be."""
    decoder = ReplyDecoder()
    decoder.feed(data)
    words: list[bytes] = decoder.next()
    return words


def _refused(text: str) -> Exception:
    return _RegionAway(text) if takes_no_writes(text) else refusal(text)


def _lapsed(task: Task) -> str:
    return (
        f"{task.place} was begun longer ago than the stream recognises its rows. Rows that an "
        "earlier attempt has added would be added again. If no attempt has added any, or if rows "
        "may stand twice, set lapsedWindow=add until this batch is done. For a query whose batches "
        "take so long, raise windowSeconds and set the window of the stream anew"
    )
