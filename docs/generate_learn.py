"""Writes the generated parts of the book in docs/learn/: tables, drawings, simpler rules, an index.

A chapter has marks, and this program writes the text between a mark and its end:

- ``<!-- run FILE: begin -->``: the table of a scenario file, and a drawing of its run in the
  simulator, docs/learn/NAME.svg. The file must pass.
- ``<!-- simpler PATCH FILE: begin -->``: the replies that the scenario file gets when regions
  follow a simpler rule. PATCH makes that rule the rule of a copy of the tree. The file must fail.
- ``<!-- rules: begin -->``, in README.md: each rule of docs/semantics.md with the chapters that
  link to it.

``python docs/generate_learn.py`` writes the chapters and drawings, and removes drawings that no
chapter shows. With ``--check`` it only reports files that are out of date; the exit code is then 1
if there is any.
"""

from __future__ import annotations

import re
import sys
import tempfile
import textwrap
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
sys.path += [str(ROOT), str(DOCS)]

from generate_scenarios import COLUMNS, parts_of, write_folder  # noqa: E402

from anabranch import build  # noqa: E402

# The planted bugs are only in the source tree.
build.include_source_tree(ROOT)

from anabranch.sim.mutants.tree import copy_tree  # noqa: E402
from anabranch.sim.mutants.trial import differences  # noqa: E402
from anabranch.sim.scenario.drawing import run_recorded  # noqa: E402
from anabranch.sim.scenario.parser import load  # noqa: E402
from anabranch.study.diagram import draw  # noqa: E402
from anabranch.study.diagram.story import summary  # noqa: E402

TARGET = DOCS / "learn"
MARK = re.compile(
    r"(<!-- (run|simpler|rules)((?:\s+[^\s:]+)*): begin -->)\n.*?<!-- end -->", re.DOTALL
)
SHOWN_MAX = 3
"""The number of wrong replies that are shown of a simpler rule."""


def shown_run(path: Path) -> tuple[str, str]:
    """The text and the drawing of a scenario file."""
    header, title, _, tables = parts_of(path.read_text(encoding="utf-8"))
    timeline, mismatches, _ = run_recorded(load(path))
    if timeline is None or mismatches:
        raise SystemExit(f"{path} fails, so the book cannot show it: {mismatches[0]}")
    source = path.relative_to(ROOT).as_posix()
    alt = summary(timeline).replace("[", "(").replace("]", ")")
    lines = [*textwrap.wrap(f"[{title}](../../{source}):", COLUMNS, break_on_hyphens=False), ""]
    lines += ["```", *header, "```", ""] if header else []
    lines += [*tables, ""]
    lines += textwrap.wrap(f"![{alt}]({path.stem}.svg)", COLUMNS, break_on_hyphens=False)
    return "\n".join(lines), draw(timeline)


def shown_simpler(patch: Path, path: Path, tree: Path) -> str:
    """The text on a simpler rule: the change that makes it the rule, and the wrong replies."""
    wrong = differences(patch, path, tree)
    if not wrong:
        raise SystemExit(f"{path} passes with {patch.name}, so it shows nothing")
    # A verdict of a judge names no line of the file.
    found = re.findall(
        r"^\S+\.md(?::\d+)?: (.+\n    expected .*\n    got .*)$", wrong, re.MULTILINE
    )
    names = [one.relative_to(ROOT).as_posix() for one in (patch, path)]
    link = names[0] if patch.parent.parent == TARGET else f"../../{names[0]}"
    link = link.removeprefix("docs/learn/")
    change = f"[This change]({link}) makes it the rule of the regions. The table then fails:"
    lines = [*textwrap.wrap(change, COLUMNS, break_on_hyphens=False), "", "```"]
    lines += ["$ .venv/bin/python -m anabranch.sim.mutants try \\"]
    lines += [f"    {names[0]} \\", f"    {names[1]}"]
    for line in "\n".join(found[:SHOWN_MAX]).splitlines():
        lines += textwrap.wrap(
            line, COLUMNS, subsequent_indent=" " * 13, break_on_hyphens=False, drop_whitespace=False
        )
    more = len(found) - SHOWN_MAX
    lines += [f"… and {more} more"] if more > 0 else []
    return "\n".join([*(line.rstrip() for line in lines), "```"])


def chapters() -> list[Path]:
    """The chapters in their order."""
    return sorted(path for path in TARGET.glob("*.md") if path.name != "README.md")


def shown_rules() -> str:
    """The table of rules and chapters, from the links of the chapters to the rules."""
    semantics = (DOCS / "semantics.md").read_text(encoding="utf-8")
    texts = {path: path.read_text(encoding="utf-8") for path in chapters()}
    rows = []
    for anchor in re.findall(r'<a id="(s\d+-\d+)"></a>', semantics):
        rule = anchor.upper().replace("-", ".")
        links = [
            f"[{int(path.name.partition('-')[0])}]({path.name})"
            for path, text in texts.items()
            if f"../semantics.md#{anchor})" in text
        ]
        rows.append(f"| [{rule}](../semantics.md#{anchor}) | {', '.join(links)} |")
    return "\n".join(["| rule | chapter |", "|---|---|", *rows])


def files() -> dict[str, str]:
    """The name and the text of every page and drawing of docs/learn/."""
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="learn-") as scratch:
        tree = copy_tree(Path(scratch))

        def written(mark: re.Match[str]) -> str:
            kind, paths = mark[2], [ROOT / name for name in mark[3].split()]
            if kind == "run":
                text, found[f"{paths[0].stem}.svg"] = shown_run(paths[0])
            elif kind == "simpler":
                text = shown_simpler(paths[0], paths[1], tree)
            else:
                text = shown_rules()
            return f"{mark[1]}\n\n{text}\n\n<!-- end -->"

        for path in [*chapters(), TARGET / "README.md"]:
            found[path.name] = MARK.sub(written, path.read_text(encoding="utf-8"))
    return found


if __name__ == "__main__":
    sys.exit(write_folder(TARGET, files(), sys.argv[1:]))
