"""Fixed seeds: every seed that failed once (`failed.txt`), and the seeds that a commit chooses."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Optional

FILE: Final = Path(__file__).parent / "failed.txt"
_RESTORES: Final = "restores"
_COMMIT_SEEDS: Final = 1 << 40
"""Size of the space from which commits choose, so large that two commits never choose the same."""


@dataclass(frozen=True)
class FailedSeed:
    """A seed that failed once. `remark` says how it failed, and what mended it."""

    seed: int
    regions: int
    ops: int
    restores: bool
    remark: str


class SeedsError(Exception):
    """The list of seeds, or a range of seeds, cannot be read."""


def failed(path: Path = FILE) -> list[FailedSeed]:
    """All seeds of the list: lines of ``seed regions ops remark``; # begins a comment.

    ``300+restores`` for ops: the seed was drawn with forgotten restores. SeedsError for another
    line.
    """
    found: list[FailedSeed] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        words = line.partition("#")[0].split(None, 3)
        if not words:
            continue
        ops, plus, flavour = words[2].partition("+") if len(words) == 4 else ("", "", "")
        is_known = flavour == (_RESTORES if plus else "")
        if not is_known or not all(word.isdigit() for word in (*words[:2], ops)):
            raise SeedsError(
                f"{path.name}:{number}: a line is 'seed regions ops remark', not '{line.strip()}'"
            )
        found.append(
            FailedSeed(
                int(words[0]), int(words[1]), int(ops), flavour == _RESTORES, words[3].rstrip()
            )
        )
    return found


def chosen_by(text: str, count: int) -> range:
    """`count` consecutive seeds that depend on `text`, a commit's name for example."""
    first = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % _COMMIT_SEEDS
    return range(first, first + count)


def in_range(text: str) -> tuple[int, Optional[int]]:
    """(first, end) of ``FIRST:END``; end is None for ``FIRST:``. A number alone is that seed."""
    first, colon, end = text.partition(":")
    if not first.isdigit() or not (end.isdigit() or not end) or (end and int(end) <= int(first)):
        raise SeedsError(f"seeds are FIRST:END, or one number, not '{text}'")
    if not colon:
        return int(first), int(first) + 1
    return int(first), int(end) if end else None
