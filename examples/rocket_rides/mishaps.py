"""The seeded choice of double sends and crashes.

A process draws from its own sequence: a function of the seed, its name, and how often it was
started. So equal seeds make equal choices, batch by batch. How the rides fall into batches depends
on the speed of the machine.
"""

from __future__ import annotations

import os
import random
from typing import NoReturn

# The exit code of a process that crashed because `Mishaps` said so. Any other end is a failure.
CRASHED = 75


class Mishaps:
    """Says whether the next mishap strikes. `share` is the probability, from 0 to 1.

    `life` counts the starts of the process. With one sequence for all lives, a consumer that
    crashes on its first batch would crash for ever.
    """

    def __init__(self, seed: int, name: str, life: int = 1, share: float = 0.1) -> None:
        self._random = random.Random(f"{seed}/{name}/{life}")
        self._share = share

    def strikes(self) -> bool:
        """Whether it strikes now."""
        return self._random.random() < self._share

    def is_elsewhere(self) -> bool:
        """Whether a double send goes to another region, as it does after a fail-over."""
        return self._random.random() < 0.5


def crash() -> NoReturn:
    """Ends this process at once. Nothing is committed, closed or flushed."""
    os._exit(CRASHED)
