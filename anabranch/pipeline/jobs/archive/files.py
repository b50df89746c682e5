"""The files of an archive: which there are, and how a batch of them comes in as a whole.

Layout of the directory of an archive::

    entries/date=2026-11-23/b00000007-0000.parquet   the table: all that readers see
    state/archive.json                               the format, the cluster, a lasting id
    state/landmarks.json                             entries by which the cluster is recognised
    state/batches/00000007.json                      the files of a batch, and where it ends
    state/checkpoint/                                the progress of Spark's query
    state/staging/                                   files that are being written
    state/lock                                       held while a job works on the archive

Below `entries` is never a file that is half written, or one of a batch that another file holds. So
every reader of Parquet reads the table rightly, without a log of Spark. Spark writes a batch below
`staging`. Then its files are renamed into `entries`, under names with the number of the batch, and
the list of the batch is written last. A job that is killed before leaves files without a list. The
next run does the same batch again, and first removes what it finds under the number.

All of it is on a file system that the machines of Spark share.
"""

from __future__ import annotations

import json
import shutil
import uuid
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from anabranch.pipeline.errors import OptionError, PipelineError
from anabranch.pipeline.jobs import folders
from anabranch.pipeline.jobs.checkpoints import end_in_checkpoint, newest_commit
from anabranch.pipeline.offsets import Offset, read_offset

FORMAT: Final = 1
_SUFFIX: Final = ".parquet"


@dataclass(frozen=True)
class Batch:
    """A batch that is complete.

    Attributes:
        number: The number of Spark's micro-batch.
        end: The offset at which it ends.
        files: The path of each file below `entries`, and its size in bytes.
    """

    number: int
    end: Offset
    files: dict[str, int]


@dataclass
class Identity:
    """What an archive is of.

    Attributes:
        id: A lasting name of the archive, by which a restored entry names it.
        cluster: The name of the cluster, and its regions in the order of their ids.
        gone: Streams that were deleted, which the user has accepted.
    """

    id: str
    cluster: str
    gone: list[str] = field(default_factory=list)


class ArchiveFiles:
    """The archive in a directory."""

    def __init__(self, folder: Path) -> None:
        self.folder: Final = folder
        self.entries: Final = folder / "entries"
        self.checkpoint: Final = folder / "state" / "checkpoint"
        self._staging: Final = folder / "state" / "staging"
        self._batches: Final = folder / "state" / "batches"
        self._identity: Final = folder / "state" / "archive.json"
        self.landmarks: Final = folder / "state" / "landmarks.json"

    # -- the archive as a whole

    @property
    def exists(self) -> bool:
        """Whether there is an archive."""
        return self._identity.exists()

    def check_place(self) -> None:
        """Raises OptionError if the directory holds anything but a whole archive."""
        if self.folder.exists() and not self.folder.is_dir():
            raise OptionError(f"{self.folder} is a file; an archive is a directory")
        others = self.folder.is_dir() and {one.name for one in self.folder.iterdir()}
        if others and not others <= {"entries", "state"}:
            raise OptionError(
                f"{self.folder} is not empty and holds no archive: give a new directory"
            )
        if not self.exists and self._holds_entries():
            raise OptionError(
                f"{self.folder} holds entries, and {self._identity} is gone: put the directory "
                "state back as it was, or begin a new archive in another directory"
            )

    def create(self, cluster: str) -> None:
        """Makes an empty archive."""
        for one in (self.entries, self.checkpoint, self._staging, self._batches):
            one.mkdir(parents=True, exist_ok=True)
        self.write_identity(Identity(str(uuid.uuid4()), cluster))

    def identity(self) -> Identity:
        """What the archive is of. Raises OptionError if the directory holds no archive."""
        if not self.exists:
            raise OptionError(
                f"{self.folder} holds no archive: there is no {self._identity.name} below state; "
                "give the directory that was given to `anabranch pipeline archive`"
            )
        facts = folders.read_format(self._identity, FORMAT, "id", "cluster", "gone")
        return Identity(str(facts["id"]), str(facts["cluster"]), list(facts["gone"]))

    def write_identity(self, identity: Identity) -> None:
        """Keeps what the archive is of."""
        facts = {"id": identity.id, "cluster": identity.cluster, "gone": identity.gone}
        folders.write(self._identity, {"format": FORMAT, **facts})

    def locked(self) -> AbstractContextManager[None]:
        """Keeps other jobs off the archive. Raises PipelineError if one works on it."""
        return folders.locked(self._identity.parent, f"the archive {self.folder}")

    # -- batches

    def batches(self) -> list[Batch]:
        """The complete batches, in their order."""
        found = []
        for path in sorted(self._batches.glob("*.json")):
            facts = folders.read(path, "end", "files")
            found.append(Batch(int(path.stem), read_offset(facts["end"]), facts["files"]))
        return found

    def reached(self) -> Offset:
        """The offset up to which entries were archived: stream → region → counter."""
        batches = self.batches()
        return batches[-1].end if batches else {}

    def check_checkpoint(self) -> None:
        """Raises PipelineError if the checkpoint is not that of the batches.

        Spark notes a batch there before its files come in, so entries without a checkpoint are of
        batches whose lists are lost, too.
        """
        has_entries = bool(self.batches()) or self._holds_entries()
        if has_entries and not any((self.checkpoint / "offsets").glob("[0-9]*")):
            raise PipelineError(
                f"the checkpoint {self.checkpoint} is gone, but the archive holds entries, which "
                "would be archived again: put the checkpoint back, or begin a new archive in "
                "another directory"
            )

    def _holds_entries(self) -> bool:
        return any(self.entries.glob(f"*/*{_SUFFIX}"))

    def end_in_checkpoint(self, number: int) -> Offset:
        """The offset at which Spark ends a micro-batch, which it notes before the batch begins."""
        return end_in_checkpoint(self.checkpoint, number)

    def holds(self, number: int, end: Offset) -> bool:
        """Whether a batch is complete. Raises PipelineError if it is another than the one asked."""
        batches = {one.number: one for one in self.batches()}
        if number in batches and batches[number].end == end:
            return True
        if number in batches or (number and number - 1 not in batches):
            raise PipelineError(
                f"the checkpoint and the archive {self.folder} do not belong together: Spark "
                f"writes batch {number} up to {json.dumps(end)}, and the archive has "
                f"{len(batches)} batches up to {json.dumps(self.reached())}. Put the checkpoint "
                "back that the archive had, or begin a new archive in another directory"
            )
        return False

    def stage(self, number: int) -> Path:
        """A new directory for the files of a batch; those of killed runs are removed."""
        shutil.rmtree(self._staging, ignore_errors=True)
        self._staging.mkdir(parents=True, exist_ok=True)
        return self._staging / f"{number}-{uuid.uuid4().hex}"

    def install(self, number: int, staged: Path, end: Offset) -> Batch:
        """Moves the files of a batch into the table, and completes the batch.

        Readers see each file as a whole, and never an entry twice.
        """
        for old in self.entries.glob(f"*/b{number:08d}-*{_SUFFIX}"):
            old.unlink()
        files: dict[str, int] = {}
        days = set()
        for at, path in enumerate(sorted(staged.rglob(f"*{_SUFFIX}"))):
            folder = self.entries / path.parent.name
            folder.mkdir(exist_ok=True)
            folders.sync(path)
            target = folder / f"b{number:08d}-{at:04d}{_SUFFIX}"
            path.rename(target)
            files[str(target.relative_to(self.entries))] = target.stat().st_size
            days.add(folder)
        for folder in (*days, self.entries):
            folders.sync(folder)
        batch = Batch(number, end, files)
        folders.write(self._list(number), {"end": end, "files": files})
        shutil.rmtree(staged, ignore_errors=True)
        return batch

    # -- the check of the files

    def faults(self) -> list[str]:
        """Sentences on files that are lost, changed, or foreign, and on lists that are lost."""
        found = []
        here = {
            str(path.relative_to(self.entries)): path.stat().st_size
            for path in self.entries.rglob("*")
            if path.is_file()
        }
        batches = self.batches()
        for batch in batches:
            for name, size in batch.files.items():
                seen = here.pop(name, None)
                if seen is None:
                    found.append(f"The file {name} of batch {batch.number} is lost.")
                elif seen != size:
                    found.append(f"The file {name} has {seen} bytes, and was written with {size}.")
        lost = self._lost_lists()
        for number in lost:
            found.append(f"The list of the files of batch {number} is lost: {self._list(number)}.")
        known = {*self.unfinished(), *(name for number in lost for name in self._of_batch(number))}
        for name in sorted(set(here) - known):
            found.append(f"The file {name} is not of this archive, and readers read it, too.")
        return found

    def unfinished(self) -> list[str]:
        """The files of a batch that a killed run began to move; the next run replaces them."""
        following = max(self._listed(), default=-1) + 1
        return [] if following in self._lost_lists() else self._of_batch(following)

    def _of_batch(self, number: int) -> list[str]:
        """The files under the number of a batch."""
        pattern = f"*/b{number:08d}-*{_SUFFIX}"
        return sorted(str(path.relative_to(self.entries)) for path in self.entries.glob(pattern))

    def _list(self, number: int) -> Path:
        """Where the files of a batch are listed."""
        return self._batches / f"{number:08d}.json"

    def _listed(self) -> set[int]:
        """The numbers of the batches that have a list."""
        return {int(path.stem) for path in self._batches.glob("*.json")}

    def _lost_lists(self) -> list[int]:
        """The batches that were complete and have no list. Spark commits a batch after its list."""
        here = self._listed()
        committed = newest_commit(self.checkpoint)
        newest = max(here | {-1 if committed is None else committed}, default=-1)
        return [number for number in range(newest + 1) if number not in here]
