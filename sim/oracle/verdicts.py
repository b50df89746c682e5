"""What judging a step may come to."""

from __future__ import annotations


class Wrong(Exception):
    """A step is not what it must be. `checker` holds the invariant that says so."""

    def __init__(self, text: str, checker: str = "removals") -> None:
        super().__init__(text)
        self.text = text
        self.checker = checker


class Unsure(Exception):
    """What a step must be cannot be told from outside; the text is a counter's name."""


def readable(data: bytes) -> str:
    """Bytes, for people."""
    return data.decode("utf-8", "replace")
