"""The checkpoint of a query of Structured Streaming: which micro-batches it holds.

A file in `offsets` says where a micro-batch ends, which Spark notes before the micro-batch begins.
A file in `commits` says that it is done.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Optional

from anabranch.pipeline.errors import PipelineError
from anabranch.pipeline.offsets import Offset, read_offset


def newest_commit(checkpoint: Path) -> Optional[int]:
    """The number of the newest committed micro-batch; None if there is none."""
    commits = (checkpoint / "commits").glob("*")
    return max((int(one.name) for one in commits if one.name.isdigit()), default=None)


def end_in_checkpoint(checkpoint: Path, number: int) -> Offset:
    """The offset at which a micro-batch ends. Raises PipelineError if the checkpoint lacks it."""
    path = checkpoint / "offsets" / str(number)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        if lines[0] != "v1":
            raise ValueError(f"its first line is {lines[0]}, not v1")
        return read_offset(json.loads(lines[2]))
    except (OSError, ValueError, IndexError) as error:
        raise PipelineError(
            f"the checkpoint does not say where batch {number} ends: {path}: {error}"
        ) from None
