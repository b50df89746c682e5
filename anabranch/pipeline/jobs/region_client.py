"""One region as a job asks it.

A connection that breaks ends an observation: what the region had said may not have been on its
disk. So calls raise ConnectionLost, and the caller begins the observation anew.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Optional

from anabranch.answers import vector_of
from anabranch.crdt.vector import Vector
from anabranch.pipeline.errors import PipelineError
from anabranch.pipeline.jobs.key_state import KeyState, key_state
from anabranch.pipeline.options import SourceOptions
from anabranch.pipeline.regions import LogFacts, LogPart, info_of, logs_of, matching, refusal, split
from anabranch.pipeline.resp import Connection, RefusedCommand, RegionGone, named
from anabranch.region.resp.request import Word

_WAIT_MS: Final = 500


class ConnectionLost(Exception):
    """The connection to the region `name` failed."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(reason)
        self.name: Final = name


class NoKey(Exception):
    """The region has no key of that name, or a deadline hides it."""


@dataclass(frozen=True)
class Piece:
    """The entries of a region log with after < counter ≤ end; `size` is about their bytes.

    The piece with region_id 0 is the state of the stream beside its entries.
    """

    stream: bytes
    region_id: int
    after: int
    end: int
    size: int


class RegionClient:
    """A region, and the connection to it. All calls raise ConnectionLost if it fails."""

    def __init__(self, name: str, address: tuple[str, int], options: SourceOptions) -> None:
        self.name: Final = name
        self.address: Final = address
        self._options: Final = options
        self._connection: Optional[Connection] = None

    def close(self) -> None:
        """Closes the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def connect(self) -> None:
        """Opens the connection if there is none."""
        if self._connection is None:
            options = self._options
            try:
                self._connection = Connection(
                    self.address, options.username, options.password(), options.step_s
                )
            except RegionGone as error:
                raise ConnectionLost(self.name, str(error)) from None
            except RefusedCommand as error:
                raise PipelineError(
                    f"{self.name or 'the region'} refused the password: {error}"
                ) from None

    def call(self, *words: Word) -> Any:
        """The reply to a command. Raises NoKey, and PipelineError for any other refusal."""
        self.connect()
        assert self._connection is not None
        try:
            return self._connection.call(*words)
        except RegionGone as error:
            self.close()
            raise ConnectionLost(self.name, str(error)) from None
        except RefusedCommand as error:
            if error.is_no_key():
                raise NoKey from None
            raise refusal(f"{self.name}: {error}") from None

    def info(self) -> dict[str, str]:
        """The section `crdt` of INFO."""
        try:
            return info_of(self.call)
        except PipelineError as error:
            if "NOAUTH" in str(error):
                raise PipelineError(
                    "the regions ask for a password: give --password or --password-file"
                ) from None
            raise

    def vector(self) -> Vector:
        """The vector on disk; all that the region said before is on disk, too."""
        return vector_of(self.call("CRDT.VECTOR"))

    def wait(self, wanted: Vector, seconds: float) -> bool:
        """Waits until the region has effects on its disk; False if it has not in time."""
        words = [one for pair in wanted.items() for one in pair]
        until_s = time.monotonic() + seconds
        while words:
            left_ms = max(int((until_s - time.monotonic()) * 1000), 1)
            if self.call("CRDT.WAIT", min(left_ms, _WAIT_MS), *words) == 1:
                return True
            if time.monotonic() >= until_s:
                return False
        return True

    def keys(self, pattern: bytes) -> Iterator[bytes]:
        """The streams that match a glob."""
        return matching(self.call, pattern)

    def logs(self, stream: bytes) -> list[LogFacts]:
        """The region logs of a stream; empty if clients see no such stream."""
        try:
            return logs_of(self.call, stream)
        except NoKey:
            return []

    def cuts(self, stream: bytes, region_id: int, end: int, size: int) -> list[LogPart]:
        """Cuts a region log into parts of about `size` bytes. Raises NoKey."""
        return split(self.call, stream, region_id, 0, end, "BYTES", size)

    def state(self, stream: bytes, with_removals: bool = False) -> KeyState:
        """The state of a stream beside its entries, also if a deadline hides it.

        `with_removals`: also the removals in the log of the region, which it then has to read.
        """
        words = () if with_removals else ("NOHISTORY",)
        facts = named(self.call("CRDT.EXPLAIN", stream, *words))
        if "configurations" not in facts:
            raise PipelineError(
                f"{self.name} is of a version that this job cannot read; upgrade it first"
            )
        return key_state(facts)

    def digest(self, stream: Optional[bytes]) -> tuple[Vector, bytes, Vector]:
        """The digest of a stream, or of the region, with the vectors before and after it."""
        before = self.vector()
        words = () if stream is None else (stream,)
        return before, self.call("CRDT.DIGEST", *words), self.vector()

    def answers(self, piece: Piece) -> Iterator[bytes]:
        """The answers of CRDT.NODES that make up a piece. Raises NoKey."""
        reached, size = piece.after, self._options.fetch_bytes
        while reached < piece.end:
            reached, _, answer = self.call(
                "CRDT.NODES", piece.stream, piece.region_id, reached, piece.end, "BYTES", size
            )
            yield answer
