"""The exceptions by which the judgement of a step ends early."""

from __future__ import annotations


class Wrong(Exception):
    """A step breaks a rule. `checker` is the name of the judge of that invariant."""

    def __init__(self, text: str, checker: str = "removals") -> None:
        super().__init__(text)
        self.text = text
        self.checker = checker


class Unsure(Exception):
    """The oracle cannot decide from outside whether a step is right. The text names a counter."""


def readable(data: bytes) -> str:
    """Bytes as text for messages."""
    return data.decode("utf-8", "replace")
