"""Batches: a command of a client, and those after it in the input that are like it.

A client that pipelines sends commands that differ in a few words only. The parser finds them by
comparing bytes (`region/resp/like.py`) and packs the words in which they differ, without an object
for each argument. The engine executes a batch in one step, under one reading of the clock. Its
commands have the replies and effects that they would have one after the other. The engine takes as
many of them as it can execute together, the first one at least, and the rest comes again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Optional


class Places:
    """The places of the words in which the commands of a batch may differ.

    - `word`: the index of a single word: a key, an idempotent ID, or the last word; 0: none.
    - `first_value`: the index of the first value. This word and every second one after it may
      differ. It lies behind `word`; 0: there are no values.
    - `as_entries`: the values of each command are packed as an entry of a run (`crdt/adds.py`),
      otherwise as `encode_values` has them.
    """

    def __init__(self, word: int, first_value: int = 0, as_entries: bool = False) -> None:
        self.word: Final = word
        self.first_value: Final = first_value
        self.as_entries: Final = as_entries


class Shape:
    """A way in which commands that follow each other may differ.

    `places` tells it for a command; None: no command follows that one in this shape. At most `most`
    commands follow the first one.
    """

    def __init__(
        self, name: str, places: Callable[[list[bytes]], Optional[Places]], most: int
    ) -> None:
        self.name: Final = name
        self.places: Final = places
        self.most: Final = most


class Packed:
    """The commands that follow the first one of a batch.

    - `count`: how many there are, at least one. `input_bytes`: the bytes of their commands.
    - `words`: the single word of each, if there is one (`Places.word`).
    - `data`: the values of all; those of each end at one of `ends`. Entries of a run without single
      words have no `ends`, because they are walked.
    """

    def __init__(
        self,
        shape: Shape,
        places: Places,
        count: int,
        input_bytes: int,
        words: list[bytes],
        data: bytes,
        ends: list[int],
    ) -> None:
        self.shape: Final = shape
        self.places: Final = places
        self.count: Final = count
        self.input_bytes: Final = input_bytes
        self.words: Final = words
        self.data: Final = data
        self.ends: Final = ends


class Batch:
    """The command `first`, and those after it in `packed`; None: `first` is alone."""

    def __init__(self, first: list[bytes], packed: Optional[Packed] = None) -> None:
        self.first: Final = first
        self.packed: Final = packed

    def count(self) -> int:
        """Returns the number of commands."""
        return 1 if self.packed is None else 1 + self.packed.count
