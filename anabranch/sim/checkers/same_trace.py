"""Invariant 12: one seed gives one run, byte for byte, for any hash seed and any build."""

from __future__ import annotations

from typing import Optional

from anabranch.sim.history import Violation


def compare(seed: int, first_hash: str, second_hash: str) -> Optional[Violation]:
    """A violation if the trace hashes of two runs of one seed differ, else None."""
    if first_hash == second_hash:
        return None
    return Violation(
        "same_trace",
        0,
        0,
        f"two runs of seed {seed} have the trace hashes {first_hash} and {second_hash}",
    )
