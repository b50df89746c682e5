"""Writes the table of docs/performance.md from a result of `anabranch bench`.

``python docs/generate_performance.py FILE`` takes over the rows of a result, which ``anabranch
bench --json FILE`` wrote, into anabranch/bench/recorded.json, and writes the table. Without FILE it
writes the table of the recorded result, as `make docs` does. With ``--check`` it only reports a
page that is out of date; the exit code is then 1. All text outside the table is kept.
"""

from __future__ import annotations

import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.append(str(DOCS.parent))

from anabranch import build  # noqa: E402

build.include_source_tree(DOCS.parent)

from anabranch.bench.table.printing import closing, described, markdown  # noqa: E402
from anabranch.bench.table.values import dump, load, updated  # noqa: E402

PAGE = DOCS / "performance.md"
RECORD = DOCS.parent / "anabranch" / "bench" / "recorded.json"
BEGIN, END = "<!-- table, written by docs/generate_performance.py: begin -->", "<!-- end -->"


def page() -> str:
    """The present page with its table written anew."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    result = load(RECORD)
    head = [
        f"| measured | {described(result)} |",
        "|---|---|",
        f"| result | {closing(result['rows'])} |",
    ]
    lines = [BEGIN, "", *head, "", *markdown(result), "", END]
    return before + "\n".join(lines) + rest.partition(END)[2]


def main(arguments: list[str]) -> int:
    """Takes over a result, writes the page or compares it; returns the exit code."""
    for name in arguments:
        if not name.startswith("-"):
            now = load(Path(name))
            dump(updated(load(RECORD), now) if RECORD.exists() else now, RECORD)
    written = page()
    if PAGE.read_text(encoding="utf-8") == written:
        return 0
    if "--check" in arguments:
        print("docs/performance.md is out of date: run `make docs`", file=sys.stderr)
        return 1
    PAGE.write_text(written, encoding="utf-8")
    print("wrote docs/performance.md")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
