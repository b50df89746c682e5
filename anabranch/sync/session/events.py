"""Events for the operator's log: one line each, with key=value fields. Sans-IO.

    event=link_up region=us peer=eu text="receives from eu"

A value with other characters than letters, digits and ``_.:,/@+-`` stands in quotes; inside them,
backslashes, quotes and control characters are escaped, so that an event is always one line.
"""

from __future__ import annotations

import re
from typing import Final

_PLAIN: Final = re.compile(r"[\w.:,/@+-]+", re.ASCII)
_ESCAPES: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


class LoggedEvent:
    """An event: `name` is a word for programs, `text` a sentence for people.

    `level` is one of `logging`. `fields` are further facts, in order.
    """

    def __init__(self, level: int, name: str, text: str, fields: dict[str, object]) -> None:
        self.level: Final = level
        self.name: Final = name
        self.text: Final = text
        self.fields: Final = fields

    def line(self, region: str) -> str:
        """The line for the log of the region with this name."""
        pairs = {"event": self.name, "region": region, **self.fields, "text": self.text}
        return " ".join(f"{key}={_value(str(value))}" for key, value in pairs.items())


def _value(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return text
    escaped = "".join(
        _ESCAPES.get(one) or (one if one.isprintable() else f"\\u{ord(one):04x}") for one in text
    )
    return f'"{escaped}"'
