"""A live region writes its tapes: files with the calls at its engine's door.

Each file begins with the region's state; the first one of a process also has the start. A file that
has reached half of the bound is followed by the next one as soon as a tape may begin (`can_begin`),
and then the oldest files go that are beyond the bound. If that takes too long, the calls at the end
of the file are left out, and the next file stands for itself. So it does if the disk took no bytes
for long, which never ends the region.

A commit is on the tape before it is on the disk, so a start finds no row that the tape lacks.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Final, Optional

from anabranch.crdt.encoding import put_bytes, put_varint
from anabranch.region.engine.engine import Engine
from anabranch.region.engine.state import EngineState
from anabranch.sim import calls
from anabranch.sim.calls import Call
from anabranch.sim.tapes.base import can_begin, put_base
from anabranch.sim.tapes.values import CallWriter
from anabranch.sim.world.tapped import TappedEngine

_log = logging.getLogger(__name__)

MAGIC: Final = b"anabranch tape 4\n"
BASE, CALL, CUT_SENT, JOINED = 1, 2, 3, 4
# Where the tapes are in the data directory of a region.
FOLDER: Final = "tape"
# Steady time from a failure until the next file is tried.
_RETRY_MS: Final = 1000
_BUFFER_BYTES: Final = 64 << 10
# Bytes that may wait while the disk takes none.
_WAITING_BYTES_MAX: Final = 4 << 20


def tape_files(directory: Path) -> list[Path]:
    """The tapes in a directory, oldest first. An empty file was begun while the disk was full."""
    return [file for file in sorted(directory.glob("*.tape")) if file.stat().st_size]


class TapeWriter:
    """Receives the calls of one engine (`EngineWatcher`) and writes them.

    `bytes_max` bounds the files together, apart from the state with which the newest begins. Its
    predecessor stays in any case.
    """

    def __init__(self, directory: Path, bytes_max: int) -> None:
        self._directory: Final = directory
        self._bytes_max: Final = bytes_max
        self._engine: Optional[Engine] = None
        self._file: Optional[FileIO] = None
        self._calls = CallWriter()
        self._waiting = bytearray()
        # Bytes of calls in the present file.
        self._bytes = 0
        self._is_full = False
        # When to try again after a file could not be written.
        self._retry_ms = 0
        self._cuts = 0
        self._digest = b""

    # -- files

    def _begin_file(self, call: Call, follows: bool) -> None:
        """Begins the next file with the state after this call.

        `follows`: the former file has every call up to this one, which may be a start.
        """
        engine = self._engine
        assert engine is not None
        self.close()
        if self._waiting:
            self._waiting, follows = bytearray(), False
        self._directory.mkdir(parents=True, exist_ok=True)
        files = tape_files(self._directory)
        number = int(files[-1].stem) + 1 if files else 1
        held = sum(file.stat().st_size for file in files)
        for old in files[:-1]:
            if held > self._bytes_max // 2:
                held -= old.stat().st_size
                old.unlink()
        self._file = (self._directory / f"{number:08}.tape").open("wb", buffering=0)
        self._calls = CallWriter()
        self._bytes, self._is_full = 0, False
        self._waiting += MAGIC
        put_varint(self._waiting, engine.region_id)
        put_bytes(self._waiting, engine.name.encode())
        if call.kind == calls.START:
            out = bytearray([CALL])
            self._calls.put(out, call)
            self._put(out)
        out = bytearray([BASE])
        put_varint(out, follows)
        put_base(out, engine, call)
        self._put(out)

    def close(self) -> None:
        """Writes what waits, as far as the disk takes it, and closes the file."""
        if self._file is not None:
            self._flush()
            self._file.close()
            self._file = None

    def _abandon(self) -> None:
        """Closes the file. What waits for it is lost."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
        self._file, self._waiting = None, bytearray()

    def _put(self, frame: bytearray) -> None:
        put_bytes(self._waiting, bytes(frame))
        if len(self._waiting) >= _BUFFER_BYTES:
            self._flush()

    def _flush(self) -> None:
        assert self._file is not None
        while self._waiting:
            try:
                written = self._file.write(self._waiting)
            except OSError:
                if len(self._waiting) > _WAITING_BYTES_MAX:
                    raise
                return
            del self._waiting[:written]

    def _take(self, call: Call) -> None:
        if call.kind == calls.START:
            self._begin_file(call, follows=True)
            return
        if self._file is None:
            is_due = call.kind == calls.COMMIT and call.facts.steady_ms >= self._retry_ms
            if is_due and self._engine is not None and can_begin(self._engine):
                self._begin_file(call, follows=False)
            return
        if not self._is_full:
            out = bytearray([CALL])
            self._calls.put(out, call)
            self._put(out)
            self._bytes += len(out)
            if call.kind == calls.JOIN:
                self._put(bytearray([JOINED]) + self._digest)
            self._is_full = self._bytes > self._bytes_max
        if call.kind == calls.COMMIT and self._bytes > self._bytes_max // 2:
            assert self._engine is not None
            if can_begin(self._engine):
                self._begin_file(call, follows=not self._is_full)
        if call.kind in (calls.COMMIT, calls.TICK):
            self._flush()

    # -- the watcher

    def make_engine(self, state: EngineState) -> Engine:
        """The engine of a region that writes tapes."""
        engine = self._engine = TappedEngine(state, self)
        engine.began()
        return engine

    def called(self, call: Call) -> None:
        try:
            self._take(call)
        except OSError as error:
            _log.warning("the tape has a gap: %s", error)
            self._retry_ms = call.facts.steady_ms + _RETRY_MS
            self._abandon()

    def new_cut(self) -> int:
        self._cuts += 1
        return self._cuts

    def cut_sent(self, digest: bytes, cut: int) -> None:
        if self._file is not None and not self._is_full:
            out = bytearray([CUT_SENT])
            put_varint(out, cut)
            self._put(out + digest)

    def cut_of(self, digest: bytes) -> int:
        self._digest = digest
        return 0

    def failed(self, error: Exception) -> None:
        """The region's log tells of it."""


def make_engine_for(data: Path, bytes_max: int) -> Callable[[EngineState], Engine]:
    """Makes the engine of a region whose tapes are in the folder `tape` of its data directory."""
    return TapeWriter(Path(os.fspath(data), FOLDER), bytes_max).make_engine
