"""The table of commands: which of them a command line knows, and which modules it imports."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from anabranch.cli import bench
from anabranch.cli.main import application
from tests.support.cluster import child_env

_IMPORTED = """
import sys
from anabranch.cli.main import application
application(sys.argv[1])
print(*(name for name in sys.modules if name.startswith("anabranch.")))
"""
_COMPLETING = """
from anabranch.cli.main import application
application()(prog_name="anabranch")
"""


def names(first: str) -> list[str]:
    command: Any = get_command(application(first))
    return sorted(command.commands)


def imported(first: str) -> set[str]:
    """The modules of anabranch that a command line with this first word imports."""
    line = [sys.executable, "-P", "-c", _IMPORTED, first]
    done = subprocess.run(line, capture_output=True, text=True, env=child_env(), check=True)
    return set(done.stdout.split())


def test_a_command_line_knows_only_its_own_command() -> None:
    assert names("serve") == ["serve"]
    assert names("link") == ["link"]


@pytest.mark.parametrize("first", ["", "--help", "--version", "srve", "link cut"])
def test_any_other_first_word_knows_all_commands(first: str) -> None:
    assert {"serve", "link", "pipeline", "bench"} < set(names(first))


def test_a_region_starts_without_the_modules_of_other_commands() -> None:
    found = imported("serve")
    others = ("anabranch.sim", "anabranch.chaos", "anabranch.study", "anabranch.console")
    assert "anabranch.cli.serve" in found
    assert not [name for name in found if name.startswith(others)]
    assert "anabranch.chaos" in imported("chaos")


def completed(words: str) -> list[str]:
    """What a shell is offered for the last of these words."""
    environment = {
        **child_env(),
        "_ANABRANCH_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    line = [sys.executable, "-P", "-c", _COMPLETING]
    done = subprocess.run(line, capture_output=True, text=True, env=environment, check=False)
    return done.stdout.split()


def test_a_shell_completes_commands_and_options() -> None:
    """`anabranch` had no completion, though Typer offers it."""
    assert completed("anabranch sta") == ["status"]
    assert set(completed("anabranch link ")) == {"cut", "heal", "delay", "limit", "flap", "status"}
    assert completed("anabranch diff --esc") == ["--escaped"]


def commands(command: Any, name: str = "anabranch") -> Iterator[tuple[str, Any]]:
    """(name, command) of a command and of all commands below it."""
    yield name, command
    for below, one in getattr(command, "commands", {}).items():
        yield from commands(one, f"{name} {below}")


def test_no_help_names_a_type_of_python() -> None:
    """`judge` took ``TAPES <list[Path]>``, `top` an ``--interval <float range>``."""
    for name, command in commands(get_command(application())):
        if not hasattr(command, "commands") and name != "anabranch bench":
            text = command.get_help(command.make_context(name, [], resilient_parsing=True))
            assert "<=" not in text and ">=" not in text, (name, text)
            shown = [line for line in text.splitlines() if " <" in line]
            assert not shown or all("< FILE" in line for line in shown), (name, shown)


def test_benchmarks_are_listed_only_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installed anabranch listed `bench`, which could only say that it is not installed."""
    root: Any = get_command(application())
    assert not root.commands["bench"].hidden
    monkeypatch.setattr(bench, "is_at_hand", lambda: False)
    root = get_command(application())
    assert root.commands["bench"].hidden
