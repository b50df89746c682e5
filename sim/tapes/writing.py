"""A live region writes its tapes: files with the calls at its engine's door.

Each file begins with the region's state. A file that has reached half of the bound is followed by
the next one as soon as a tape may begin (`can_begin`), and the files before these two are removed.
If that takes too long, the calls at the end of the file are left out, and the next file stands for
itself. A file that cannot be written ends the tape, and never the region.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final, Optional

from anabranch.crdt.encoding import put_bytes, put_varint
from anabranch.region.engine.engine import Engine
from anabranch.region.engine.state import EngineState
from anabranch.sim import calls
from anabranch.sim.calls import Call
from anabranch.sim.tapes.base import can_begin, put_base
from anabranch.sim.tapes.values import CallWriter
from anabranch.sim.world.tap import CallWatcher, TappedEngine

_log = logging.getLogger(__name__)

MAGIC: Final = b"anabranch tape 1\n"
BASE, CALL, CUT_SENT, JOINED = 1, 2, 3, 4
_BUFFER_BYTES: Final = 64 << 10


def tape_files(directory: Path) -> list[Path]:
    """The tapes in a directory, oldest first."""
    return sorted(directory.glob("*.tape"))


class TapeWriter(CallWatcher):
    """Receives the calls of one engine (`EngineWatcher`) and writes them.

    `bytes_max` bounds the files together, apart from the states with which they begin.
    """

    def __init__(self, directory: Path, bytes_max: int) -> None:
        self._directory: Final = directory
        self._bytes_max: Final = bytes_max
        self._engine: Optional[Engine] = None
        self._file: Optional[BinaryIO] = None
        self._calls = CallWriter()
        self._waiting = bytearray()
        # Bytes of calls in the present file.
        self._bytes = 0
        self._is_full = False
        self._cuts = 0
        self._digest = b""

    # -- files

    def _begin_file(self, call: Call, follows: bool) -> None:
        """Begins the next file. `follows`: the former file has every call before this state."""
        engine = self._engine
        assert engine is not None
        self.close()
        self._directory.mkdir(parents=True, exist_ok=True)
        files = tape_files(self._directory)
        number = int(files[-1].stem) + 1 if files else 1
        for old in files[:-1]:
            old.unlink()
        self._file = (self._directory / f"{number:08}.tape").open("wb")
        self._calls = CallWriter()
        self._bytes, self._is_full = 0, False
        head = bytearray(MAGIC)
        put_varint(head, engine.region_id)
        put_bytes(head, engine.name.encode())
        self._file.write(bytes(head))
        out = bytearray([BASE])
        put_varint(out, follows)
        put_base(out, engine, call)
        self._put(out)

    def close(self) -> None:
        """Writes what waits, and closes the file."""
        if self._file is not None:
            self._flush()
            self._file.close()
            self._file = None

    def _put(self, frame: bytearray) -> None:
        put_bytes(self._waiting, bytes(frame))
        if len(self._waiting) >= _BUFFER_BYTES:
            self._flush()

    def _flush(self) -> None:
        assert self._file is not None
        self._file.write(bytes(self._waiting))
        self._file.flush()
        self._waiting = bytearray()

    def _take(self, call: Call) -> None:
        if call.kind == calls.START:
            self._begin_file(call, follows=False)
            return
        if self._file is None:
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
        elif call.kind == calls.TICK:
            self._flush()

    # -- the watcher

    def make_engine(self, state: EngineState) -> Engine:
        """The engine of a region that writes tapes."""
        engine = self._engine = TappedEngine(state, self)
        engine.began()
        return engine

    def follows_calls(self) -> bool:
        return self._engine is not None

    def called(self, call: Call) -> None:
        try:
            self._take(call)
        except OSError as error:
            _log.warning("the tape ends: %s", error)
            self._file = None

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
    return TapeWriter(Path(os.fspath(data), "tape"), bytes_max).make_engine
