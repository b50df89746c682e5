"""Writes the parts of docs/ that derive from tables in the code.

`settings.md` derives from `region.config` and `region.engine.settings`, the tables inside
`commands.md` from `region.engine.registry`, the table inside `semantics.md` from
`sim.rules`, those inside `pipeline.md` from `pipeline.options` and
`pipeline.sink_options`, the tables of figures inside
`operations-watch.md` from `region.engine.figures.table`, and its table of alerts from
`deploy/prometheus/alerts.yml`.

``python docs/generate.py`` writes the pages. With ``--check`` it only reports pages that are out of
date; the exit code is then 1 if there is any.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import yaml

DOCS = Path(__file__).resolve().parent
sys.path.append(str(DOCS.parent))

from anabranch.pipeline.options import OPTIONS  # noqa: E402
from anabranch.pipeline.sink_options import SINK_OPTIONS  # noqa: E402
from anabranch.region.config import ALIASES, IDENTITY, PASSWORD_FILE, PASSWORD_FILE_TEXT  # noqa: E402
from anabranch.region.engine import registry, settings  # noqa: E402
from anabranch.region.engine.figures.figure import Figure  # noqa: E402
from anabranch.region.engine.figures.table import TOPICS  # noqa: E402
from anabranch.region.engine.setting import Setting, Value  # noqa: E402
from anabranch.region.engine.state import EngineState  # noqa: E402
from anabranch.region.engine.table import Command  # noqa: E402
from anabranch.region.environment import ENVIRONMENT_PREFIX  # noqa: E402
from anabranch.sim.rules import NOT_SIMULATED, RULES  # noqa: E402

_UNITS = ((1 << 30, "gb"), (1 << 20, "mb"), (1 << 10, "kb"))


def _value(setting: Setting, value: Value) -> str:
    if isinstance(value, int) and setting.is_bytes:
        for size, unit in _UNITS:
            if value >= size and value % size == 0:
                return f"{value // size}{unit}"
    return str(value) if value != "" else '""'


def _range(setting: Setting) -> str:
    if setting.fixed:
        return "only this value"
    if setting.choices is not None:
        return ", ".join(f"`{choice}`" for choice in setting.choices)
    if isinstance(setting.default, str):
        return "text"
    kind = "bytes" if setting.is_bytes else "number"
    upper = "" if setting.maximum == (1 << 63) - 1 else f" to {_value(setting, setting.maximum)}"
    return f"{kind}, {_value(setting, setting.minimum)}{upper or ' or more'}"


def _rules(names: str) -> str:
    """Links to the rules that `Setting.rule` names."""
    return re.sub(
        r"S(\d+)(?:\.(\d+))?",
        lambda rule: f"[{rule[0]}](semantics.md#{rule[0].lower().replace('.', '-')})",
        names,
    )


def settings_page() -> str:
    """Returns the text of settings.md."""
    lines = [
        "# Settings",
        "",
        "<!-- Written by docs/generate.py; change region/engine/settings.py and region/config.py,",
        "then run `make docs`. -->",
        "",
        "Every option has one name in four spellings: the flag `--crdt-sync-interval-ms`, the",
        f"environment variable `{ENVIRONMENT_PREFIX}CRDT_SYNC_INTERVAL_MS`, the key",
        "`crdt-sync-interval-ms` in the TOML file of `--config` (or of",
        f"`{ENVIRONMENT_PREFIX}CONFIG`), and, for settings, the name that `CONFIG GET` and",
        "`CONFIG SET` take. A flag overrides the environment, the environment overrides the file,",
        "and the file overrides the default.",
        "",
        "A value set by `CONFIG SET` lasts until the region stops. An unknown key in the file is",
        "an error, and the error names the nearest known key. An unknown variable that begins with",
        f"`{ENVIRONMENT_PREFIX}` is a warning in the log, which names the nearest known one. Those",
        "that Kubernetes makes for services are passed over.",
        "",
        "## Identity of a region",
        "",
        "| option | means |",
        "|---|---|",
        *(f"| `{name}` | {text} |" for name, text in IDENTITY.items()),
        "",
        "In TOML, `members` may be a table (`{us = 1, eu = 2}`) and `peers` is a list. In the",
        "environment, `ANABRANCH_PEER` takes all peers, separated by commas.",
        "",
        "## Behaviour of a region",
        "",
        f"`{PASSWORD_FILE}` is no setting, but sets one.",
        PASSWORD_FILE_TEXT,
        "",
        *(
            f"`{alias}` is short for `{name}` everywhere but in CONFIG GET and CONFIG SET."
            for alias, name in ALIASES.items()
        ),
        "",
        "| setting | default | takes | at run time | means | [rule](semantics.md) |",
        "|---|---|---|---|---|---|",
    ]
    for one in settings.ALL:
        runtime = "yes" if one.mutable else "no"
        lines.append(
            f"| `{one.name}` | {_value(one, one.default)} | {_range(one)} "
            f"| {runtime} | {one.text} | {_rules(one.rule)} |"
        )
    lines += [
        "",
        "Sizes take Redis's units: `kb`, `mb`, `gb` are powers of 1024, `k`, `m`, `g` of 1000.",
        "",
    ]
    return "\n".join(lines)


GROUPS = {
    "stream": "Streams",
    "generic": "Keys",
    "transactions": "Transactions",
    "connection": "Connections",
    "server": "Server",
    "crdt": "Regions",
}
BEGIN, END = "<!-- written by docs/generate.py: begin -->", "<!-- end -->"
BEGIN_ALERTS = "<!-- alerts, written by docs/generate.py: begin -->"
ALERTS = DOCS.parent / "deploy" / "prometheus" / "alerts.yml"


def _command_rows(command: Command[EngineState]) -> list[str]:
    if command.subcommands:
        return [row for one in command.subcommands.values() for row in _command_rows(one)]
    name = command.name.replace("|", " ").upper()
    syntax = f" {command.docs.syntax}" if command.docs.syntax else ""
    shown = f"{name}{syntax}".replace("|", "\\|")
    return [f"| `{shown}` | {command.docs.reply} | {command.docs.summary} |"]


def commands_page() -> str:
    """Returns the text of commands.md: the present page with its tables written anew."""
    before, _, rest = (DOCS / "commands.md").read_text(encoding="utf-8").partition(BEGIN)
    commands = sorted(registry.commands().values(), key=lambda command: command.name)
    lines = [BEGIN]
    for group, title in GROUPS.items():
        rows = [
            row
            for command in commands
            if command.docs.group == group
            for row in _command_rows(command)
        ]
        lines += ["", f"### {title}", "", "| command | replies | does |", "|---|---|---|", *rows]
    assert all(command.docs.group in GROUPS for command in commands), "a group without a title"
    return before + "\n".join([*lines, "", END]) + rest.partition(END)[2]


def semantics_page() -> str:
    """Returns the text of semantics.md: the present page with its table written anew.

    The table says what a simulated run counts for each rule.
    """
    before, _, rest = (DOCS / "semantics.md").read_text(encoding="utf-8").partition(BEGIN)
    rows = [
        f"| {rule} | {text[0].upper()}{text[1:]}. |"
        for rule, text in RULES.items()
        if rule not in NOT_SIMULATED
    ]
    rows += [f"| {rule} | Not counted: {why}. |" for rule, why in NOT_SIMULATED.items()]
    lines = [BEGIN, "", "| rule | counts when |", "|---|---|", *rows]
    return before + "\n".join([*lines, "", END]) + rest.partition(END)[2]


def _figure_row(row: Figure) -> str:
    metric = f"`{row.name}`" if row.metric else ""
    if row.labels:
        metric += f" by {', '.join(f'`{label}`' for label in row.labels)}"
    info = f"`{row.info}`" if row.info else ""
    return f"| {metric} | {info} | {row.kind} | {row.unit} | {row.text} |"


def alerts_table() -> str:
    """The table of alerts, with the mark before it."""
    groups = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    lines = [BEGIN_ALERTS, "", "| alert | fires if | for | means | do |", "|---|---|---|---|---|"]
    for rule in (rule for group in groups for rule in group["rules"]):
        texts = rule["annotations"]
        name = f"{rule['alert']} ({rule['labels']['severity']})"
        expression = rule["expr"].replace("|", "\\|")
        lines.append(
            f"| {name} | `{expression}` | {rule.get('for', '')} "
            f"| {texts['description']} | {texts['action']} |"
        )
    return "\n".join([*lines, "", ""])


def watching_page() -> str:
    """Returns the text of operations-watch.md, with figures and alerts written anew."""
    page = (DOCS / "operations-watch.md").read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN_ALERTS)
    page = before + alerts_table() + END + rest.partition(END)[2]
    before, _, rest = page.partition(BEGIN)
    lines = [BEGIN]
    for topic, rows in TOPICS.items():
        lines += ["", f"**{topic}**", "", "| metric | field of INFO | type | unit | means |"]
        lines += ["|---|---|---|---|---|", *(_figure_row(row) for row in rows)]
    return before + "\n".join([*lines, "", END]) + rest.partition(END)[2]


def pipeline_page() -> str:
    """Returns the text of pipeline.md: the present page with its tables of options written anew."""
    page, *parts = (DOCS / "pipeline.md").read_text(encoding="utf-8").split(BEGIN)
    for options, part in zip((OPTIONS, SINK_OPTIONS), parts, strict=True):
        rows = [f"| `{name}` | {text} |" for name, text in options.items()]
        lines = [BEGIN, "", "| option | value |", "|---|---|", *rows]
        page += "\n".join([*lines, "", END]) + part.partition(END)[2]
    return page


PAGES = {
    "settings.md": settings_page,
    "commands.md": commands_page,
    "semantics.md": semantics_page,
    "operations-watch.md": watching_page,
    "pipeline.md": pipeline_page,
}


def main(arguments: list[str]) -> int:
    """Writes the pages, or with ``--check`` compares them; returns the exit code."""
    outdated = [
        name
        for name, page in PAGES.items()
        if not (DOCS / name).exists() or (DOCS / name).read_text(encoding="utf-8") != page()
    ]
    for name in outdated:
        if "--check" in arguments:
            print(f"docs/{name} is out of date: run `make docs`", file=sys.stderr)
        else:
            (DOCS / name).write_text(PAGES[name](), encoding="utf-8")
            print(f"wrote docs/{name}")
    return 1 if outdated and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
