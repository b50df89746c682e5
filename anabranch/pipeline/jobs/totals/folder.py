"""The directories of running totals: the checkpoint, and the newest totals for other programs.

Layout::

    CHECKPOINT/totals.json         what is counted; a query that counts otherwise is refused
    CHECKPOINT/landmarks.json      entries by which the cluster is recognised
    CHECKPOINT/query/              the checkpoint of Spark, which holds the totals as state
    CHECKPOINT/lock
    OUT/totals                     a link to the newest of the versions, replaced as a whole
    OUT/versions/ID-000041/        the totals after micro-batch 41 of a checkpoint, as Parquet

Totals come out of the state of a micro-batch that is committed, never out of the rows of one that
runs. So a repeated micro-batch cannot put out anything wrong.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Optional

from anabranch.pipeline.errors import OptionError
from anabranch.pipeline.jobs import folders
from anabranch.pipeline.jobs.checkpoints import end_in_checkpoint, newest_commit
from anabranch.pipeline.offsets import Offset

FORMAT: Final = 1
_KEPT: Final = 2


@dataclass(frozen=True)
class Counted:
    """What is counted: of which streams, by which field and columns, the sums of which fields."""

    cluster: str
    streams: str
    key: str
    sums: list[str]
    by: list[str]


class Checkpoint:
    """The directory of ``--checkpoint``."""

    def __init__(self, folder: Path) -> None:
        self.folder: Final = folder
        self.query: Final = folder / "query"
        self.landmarks: Final = folder / "landmarks.json"
        self._facts: Final = folder / "totals.json"

    def check_place(self) -> None:
        """Raises OptionError if the directory holds something else than totals."""
        if self.folder.exists() and not self.folder.is_dir():
            raise OptionError(f"--checkpoint: {self.folder} is a file: give a directory")
        if not self.folder.exists() or self._facts.exists():
            return
        if any(one.name != "lock" for one in self.folder.iterdir()):
            raise OptionError(
                f"--checkpoint: {self.folder} is not empty and holds no totals: give a new "
                "directory"
            )

    def locked(self) -> AbstractContextManager[None]:
        """Keeps other jobs off the checkpoint.

        Raises:
            OptionError: The directory holds something else. Nothing is written into it.
            PipelineError: Another job works on the checkpoint.
        """
        self.check_place()
        return folders.locked(self.folder, f"the checkpoint {self.folder}")

    def claim(self, counted: Counted) -> str:
        """Notes what is counted, or checks that it is the same as before; returns a lasting id.

        Raises:
            OptionError: The directory holds something else, or totals that are counted otherwise.
        """
        facts = {"format": FORMAT, **asdict(counted)}
        if not self._facts.exists():
            self.check_place()
            folders.write(self._facts, {**facts, "id": uuid.uuid4().hex})
        kept = folders.read(self._facts)
        for name, value in facts.items():
            if kept.get(name) != value:
                raise OptionError(
                    f"--checkpoint: {self.folder} holds totals with {name} {kept.get(name)!r}, and "
                    f"this run has {value!r}: give the same options, or a new directory"
                )
        return str(kept["id"])

    def newest(self) -> Optional[int]:
        """The number of the newest committed micro-batch; None if there is none."""
        return newest_commit(self.query)

    def reached(self) -> Offset:
        """The offset up to which entries were counted. Raises PipelineError."""
        batch = self.newest()
        return {} if batch is None else end_in_checkpoint(self.query, batch)


def put_out(out: Path, version: str, write: Callable[[str], None]) -> None:
    """Replaces the totals in a directory by those after a micro-batch, as a whole.

    Args:
        out: The directory of ``--out``.
        version: The name of the new totals. Nothing is written if it is that of the present ones.
        write: Writes the totals below a path.

    A program that reads the former totals meanwhile can finish: the two newest versions are kept.
    """
    versions = out / "versions"
    versions.mkdir(parents=True, exist_ok=True)
    fresh = versions / version
    link = out / "totals"
    if link.is_symlink() and link.resolve() == fresh.resolve():
        return
    shutil.rmtree(fresh, ignore_errors=True)
    write(str(fresh))
    new_link = out / "totals.new"
    new_link.unlink(missing_ok=True)
    new_link.symlink_to(Path("versions") / fresh.name)
    os.replace(new_link, link)
    folders.sync(out)
    others = sorted((one for one in versions.iterdir() if one != fresh), key=_age)
    for old in others[: 1 - _KEPT]:
        shutil.rmtree(old, ignore_errors=True)


def _age(path: Path) -> float:
    return path.stat().st_mtime


def check_out(out: Path) -> None:
    """Raises OptionError if a directory holds something else than totals."""
    if out.exists() and not out.is_dir():
        raise OptionError(f"--out: {out} is a file; give a directory")
    allowed = {"totals", "totals.new", "versions"}
    if out.is_dir() and not {one.name for one in out.iterdir()} <= allowed:
        raise OptionError(f"--out: {out} is not empty and holds no totals: give a new directory")
