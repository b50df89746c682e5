"""Writes docs/scenarios/: a page with a drawing for each scenario file, and an index.

A page has the title, the prose and the table of the file, and a space-time diagram of its run in
the simulator.

``python docs/generate_scenarios.py`` writes the pages, and removes those of files that are gone.
With ``--check`` it only reports pages that are out of date; the exit code is then 1 if there is
any.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.append(str(DOCS.parent))

from anabranch.sim.scenario.drawing import run_recorded  # noqa: E402
from anabranch.sim.scenario.parser import load  # noqa: E402
from anabranch.sim.scenario.running import scenario_files  # noqa: E402
from anabranch.study.diagram import draw  # noqa: E402
from anabranch.study.diagram.story import summary  # noqa: E402

TARGET = DOCS / "scenarios"
SIM = DOCS.parent / "anabranch" / "sim"
FOLDERS = {
    "scenarios": "Each of these runs in the simulator, and on live regions with `--live`.",
    "stories": "Only the simulator can run these: their faults strike disks, clocks and networks.",
}
"""folder of anabranch/sim/ → a sentence on its files"""
INDEX = "README.md"
OF_INDEX = (
    "Each page has a table of commands and a diagram of what happened when the simulator ran it."
    " [Scenarios](../scenarios.md) explains the tables, and how to draw your own"
    " ([diagrams](../scenarios.md#diagrams)). An ID that a table writes for `*`, such as"
    " 1589929244828-1, stands for the one that the region generates; the diagram shows that one."
)
COLUMNS = 100


def parts_of(text: str) -> tuple[list[str], str, list[str], list[str]]:
    """The header, the title, the prose and the tables of a scenario file.

    All but the title are lines.
    """
    lines = text.splitlines()
    header: list[str] = []
    if lines and lines[0].strip() == "---":
        end = lines.index("---", 1)
        header, lines = lines[1:end], lines[end + 1 :]
    heading = next(number for number, line in enumerate(lines) if line.startswith("# "))
    first_row = next(number for number, line in enumerate(lines) if line.startswith("|"))
    return header, lines[heading][2:], lines[heading + 1 : first_row], lines[first_row:]


def page(path: Path) -> tuple[str, str]:
    """The page and the drawing of a scenario file."""
    header, title, prose, tables = parts_of(path.read_text(encoding="utf-8"))
    timeline, mismatches, _ = run_recorded(load(path))
    if timeline is None or mismatches:
        raise SystemExit(f"{path} fails, so it has no page: {mismatches[0]}")
    source = path.relative_to(DOCS.parent).as_posix()
    alt = summary(timeline).replace("[", "(").replace("]", ")")
    lines = [f"# {title}", "", *comment(source), ""]
    lines += ["\n".join(prose).strip(), ""]
    if header:
        lines += ["```", *header, "```", ""]
    lines += [*tables, ""]
    lines += textwrap.wrap(f"![{alt}]({path.stem}.svg)", COLUMNS, break_on_hyphens=False)
    lines += [
        "",
        "The file is",
        f"[{path.name}](../../{source}).",
        f"[All scenarios]({INDEX}).",
        "",
    ]
    return "\n".join(lines), draw(timeline)


def comment(source: str) -> list[str]:
    """The comment that says where a page comes from."""
    text = (
        f"Written by docs/generate_scenarios.py from {source}; change that, then run `make docs`."
    )
    return textwrap.wrap(f"<!-- {text} -->", COLUMNS, break_on_hyphens=False)


def index(titles: dict[str, dict[str, str]]) -> str:
    """The index: folder → stem → title."""
    lines = ["# Scenarios with their diagrams", ""]
    lines += [
        *comment("anabranch/sim/scenarios and anabranch/sim/stories"),
        "",
        *textwrap.wrap(OF_INDEX, COLUMNS, break_on_hyphens=False),
        "",
    ]
    for folder, sentence in FOLDERS.items():
        lines += [sentence, ""]
        for stem, title in titles[folder].items():
            entry = f"- [{title}]({stem}.md)"
            lines += textwrap.wrap(entry, COLUMNS, subsequent_indent="  ", break_on_hyphens=False)
        lines += [""]
    return "\n".join(lines)


def pages() -> dict[str, str]:
    """The name and the text of every file of docs/scenarios/."""
    found: dict[str, str] = {}
    titles: dict[str, dict[str, str]] = {folder: {} for folder in FOLDERS}
    for folder in FOLDERS:
        for path in scenario_files([SIM / folder]):
            if f"{path.stem}.md" in found:
                raise SystemExit(f"two scenario files are called {path.stem}")
            found[f"{path.stem}.md"], found[f"{path.stem}.svg"] = page(path)
            titles[folder][path.stem] = parts_of(path.read_text(encoding="utf-8"))[1]
    found[INDEX] = index(titles)
    return found


def write_folder(folder: Path, wanted: dict[str, str], arguments: list[str]) -> int:
    """Writes generated files, or with ``--check`` compares them; returns the exit code.

    `wanted` has the text of each page and drawing by name. Others in the folder are removed.
    """
    paths = [*folder.glob("*.md"), *folder.glob("*.svg")]
    present = {path.name: path.read_text(encoding="utf-8") for path in paths}
    outdated = sorted(name for name in {*wanted, *present} if wanted.get(name) != present.get(name))
    for name in outdated:
        shown = f"docs/{folder.name}/{name}"
        if "--check" in arguments:
            print(f"{shown} is out of date: run `make docs`", file=sys.stderr)
        elif name in wanted:
            folder.mkdir(exist_ok=True)
            (folder / name).write_bytes(wanted[name].encode())
            print(f"wrote {shown}")
        else:
            (folder / name).unlink()
            print(f"removed {shown}")
    return 1 if outdated and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(write_folder(TARGET, pages(), sys.argv[1:]))
