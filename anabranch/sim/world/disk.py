"""A simulated disk that remembers synced writes and loses the others in a power cut.

For each file the disk keeps the bytes that a process sees, the bytes that are durable, and the
writes since the last sync. A process that dies leaves the bytes that it saw (the cache of the
operating system survives). A power cut leaves the durable bytes and any of the later writes, each
whole, torn at a sector, or not at all, as real disks treat unsynced writes.

A cut may be set to fall at the n-th coming write or sync, hence also in the middle of a commit.
From then on no write reaches a file, although the process may go on until it notices.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Optional

from anabranch.sim.world.file import File


class Disk:
    """One region's disk.

    `failing`: the fault now: "" (none), "io" (writes meet I/O errors), "full" (no room), or "reads"
    (the database cannot be read).
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.files: dict[str, File] = {}
        self.operations = 0  # writes and syncs so far
        self.failing = ""
        self.errors = 0  # writes and reads refused
        # How many pages SQLite's WAL has before SQLite checkpoints it.
        self.checkpoint_pages = 1000
        self._cut_in: Optional[int] = None
        self._on_cut: Optional[Callable[[], None]] = None
        self._dead = False

    # -- calls of the VFS

    def step(self) -> bool:
        """Call it before each write or sync; whether the operation still reaches the files."""
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
        """Stops the process at the operation after `operations` more writes and syncs.

        The disk then calls `on_cut`, and no later operation reaches the files.
        """
        self._cut_in = operations
        self._on_cut = on_cut

    def power_cut(self, draw: Random, survival: float) -> None:
        """Unsynced writes are lost; each survives with the probability `survival`."""
        self.files = {
            name: self.files[name].after_power_cut(draw, survival) for name in sorted(self.files)
        }

    def is_dead(self) -> bool:
        """Whether the process that uses the disk has stopped in the middle of a write."""
        return self._dead

    def detach(self) -> None:
        """The process that uses the disk is dead: ignore all further writes to its open files."""
        self._dead = True

    def revive(self) -> None:
        """A new process uses the disk. Open files of the former process keep their own copies."""
        self.files = {name: file.copy() for name, file in self.files.items()}
        self._dead = False
        self._cut_in = None

    def call_off(self) -> None:
        """Cancels a cut that is set and has not come."""
        self._cut_in = None

    def backup(self) -> dict[str, File]:
        """A copy of all files between two transactions.

        SQLite reads the copy as after a crash of the process.
        """
        copies = {name: file.copy() for name, file in self.files.items()}
        for file in copies.values():
            file.sync()
        return copies

    def restore(self, backup: dict[str, File]) -> None:
        """Replaces the files by those of a backup."""
        self.files = {name: file.copy() for name, file in backup.items()}
