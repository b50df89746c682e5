"""The table of commands: which of them a command line knows, and which modules it imports."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from typer.main import get_command

from anabranch.cli.main import application
from tests.support.cluster import child_env

_IMPORTED = """
import sys
from anabranch.cli.main import application
application(sys.argv[1])
print(*(name for name in sys.modules if name.startswith("anabranch.")))
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
