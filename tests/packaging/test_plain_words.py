"""Texts for users hold no rule numbers: help texts, errors, replies and lines of the log.

A rule number such as S6.2 says nothing to somebody who runs a region. Docstrings and comments cite
rules, and so do the pages of docs/. `docs/settings.md` shows the rules of a setting, which
`Setting.rule` names.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command
from typer.testing import CliRunner

from anabranch.cli.main import application

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("crdt", "region", "sync", "study", "cli", "chaos", "pipeline", "bench")
RULE = re.compile(r"\bS\d+\.\d+\b")


def texts(source: str) -> Iterator[tuple[int, str]]:
    """(line, text) of every string of a module that is no docstring and not the rule of a setting.

    A string that stands alone as a statement documents the code beside it.
    """
    tree = ast.parse(source)
    left_out: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            left_out.add(id(node.value))
        if isinstance(node, ast.keyword) and node.arg == "rule":
            left_out.add(id(node.value))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) not in left_out:
                yield node.lineno, node.value


def test_no_string_of_the_product_names_a_rule() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text!r}"
        for folder in FOLDERS
        for path in sorted((ROOT / "anabranch" / folder).rglob("*.py"))
        for line, text in texts(path.read_text(encoding="utf-8"))
        if RULE.search(text)
    ]
    assert found == []


def commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of a command and of all commands below it."""
    yield words
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, (*words, name))


def test_no_help_names_a_rule() -> None:
    """Help texts also come from docstrings of functions."""
    every = list(commands(get_command(application())))
    assert len(every) > 20
    for words in every:
        shown = CliRunner().invoke(application(), [*words, "--help"])
        assert shown.exit_code == 0 and "Usage" in shown.output
        assert RULE.search(shown.output) is None, f"anabranch {' '.join(words)} --help"


def test_a_named_rule_is_seen() -> None:
    source = (
        'def f() -> None:\n    """S6.2"""\n    g(rule="S6.2")\n    raise E(f"so says S{n} S6.2")\n'
    )
    assert [line for line, text in texts(source) if RULE.search(text)] == [4]
