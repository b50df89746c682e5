"""Invariant 12: the same seed gives the same run, byte for byte, whatever the process's hash seed or build is."""

from __future__ import annotations

from typing import Optional

from anabranch.sim.history import Violation


def compare(seed: int, first_hash: str, second_hash: str) -> Optional[Violation]:
    """What two runs of one seed came to: None when their traces are the same."""
    if first_hash == second_hash:
        return None
    return Violation(
        "same_trace",
        0,
        0,
        f"two runs of seed {seed} have the trace hashes {first_hash} and {second_hash}",
    )
