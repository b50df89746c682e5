"""A simulated disk: it remembers what was synced, and forgets the rest when the power goes.

A file is what the process sees; besides, the disk keeps what of it is durable and the writes since the last sync. A process that dies
leaves the file as it was seen (the system's cache survives). A power cut leaves the durable bytes and any of the later writes, each whole,
torn at a sector, or not at all: what real disks do to what was not synced.

A cut may be set to fall at the n-th coming write or sync, so also in the middle of a commit: from there on nothing reaches the file any
more, whatever the process goes on doing before it notices that it is dead.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Optional

from anabranch.sim.world.file import File


class Disk:
    """One region's disk. `failing`: what happens to writes now ("": nothing, "io": I/O errors, "full": no room)."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.files: dict[str, File] = {}
        self.operations = 0  # writes and syncs so far
        self.failing = ""
        self.errors = 0  # writes refused
        self.checkpoint_pages = 1000  # of SQLite's own WAL
        self._cut_in: Optional[int] = None
        self._on_cut: Optional[Callable[[], None]] = None
        self._dead = False

    # -- what the VFS asks

    def step(self) -> bool:
        """Before each write or sync: whether it still reaches the files."""
        if self._dead:
            return False
        self.operations += 1
        if self._cut_in is not None:
            self._cut_in -= 1
            if self._cut_in < 0:
                self._cut_in = None
                self._dead = True
                assert self._on_cut is not None
                self._on_cut()
                return False
        return True

    # -- faults

    def cut_in(self, operations: int, on_cut: Callable[[], None]) -> None:
        """The process stops at the write or sync after so many: `on_cut` is called, and nothing of it reaches the files any more."""
        self._cut_in = operations
        self._on_cut = on_cut

    def power_cut(self, draw: Random, survival: float) -> None:
        """Everything unsynced is lost, or survives in part."""
        self.files = {
            name: self.files[name].after_power_cut(draw, survival) for name in sorted(self.files)
        }

    def is_dead(self) -> bool:
        """Whether the process that uses the disk has stopped in the middle of a write."""
        return self._dead

    def detach(self) -> None:
        """The process that uses the disk is dead: nothing that its open files are told counts any more."""
        self._dead = True

    def revive(self) -> None:
        """A new process uses the disk. Open files of the former one keep their own copies."""
        self.files = {name: file.copy() for name, file in self.files.items()}
        self._dead = False
        self._cut_in = None

    def call_off(self) -> None:
        """Takes back a cut that is set and has not come."""
        self._cut_in = None

    def backup(self) -> dict[str, File]:
        """A copy of all files as they are, between two transactions: SQLite reads it as after a crash of the process."""
        copies = {name: file.copy() for name, file in self.files.items()}
        for file in copies.values():
            file.sync()
        return copies

    def restore(self, backup: dict[str, File]) -> None:
        """Puts a backup's files in place."""
        self.files = {name: file.copy() for name, file in backup.items()}
