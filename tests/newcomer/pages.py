"""The fenced blocks of README.md and docs/."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Pages that programs write are compared with what these write (tests/packaging/test_docs.py), and
# the chapters of the book have a test of their own (tests/cli/test_learn_live.py).
PAGES = [
    *("README.md", "CONTRIBUTING.md", "RELEASING.md", "docs/learn/README.md"),
    *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))),
]
_FENCED = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)


class Block:
    """A fenced block: the word after its fence, its text, and the line of the page."""

    def __init__(self, page: str, line: int, kind: str, text: str) -> None:
        self.page = page
        self.line = line
        self.kind = kind
        self.text = text
        lines = [one.strip() for one in text.splitlines()]
        # The first line that says something.
        self.title = next((one for one in lines if one not in ("", "---")), "")


def blocks_of(page: str) -> list[Block]:
    """The blocks of a page, in order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [
        Block(page, text.count("\n", 0, found.start()) + 1, found[1], found[2])
        for found in _FENCED.finditer(text)
    ]
