"""The console blocks of a page, typed on a fresh cluster."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.cli.addresses import RegionAddress, write_file
from tests.support.cluster import LiveCluster, child_env
from tests.support.processes import eventually

_CHANGES = re.compile(
    r"\b(?:X(?:ADD|DEL|TRIM|ACK|CLAIM|READGROUP|GROUP)|DEL|P?EXPIRE|PERSIST|CONFIG|WAIT)\b"
    r"|anabranch (?:link|member)"
)


def blocks(text: str) -> list[list[tuple[str, list[str]]]]:
    """The console blocks of a page: (command, expected lines) of each, in order."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        made: list[tuple[str, list[str]]] = []
        for line in block.splitlines():
            if line.startswith("$ "):
                made.append((line[2:], []))
            else:
                made[-1][1].append(line)
        found.append(made)
    return found


def steps(text: str) -> list[tuple[str, list[str]]]:
    """(command, expected lines) of all console blocks, in order."""
    return [step for block in blocks(text) for step in block]


def unified(text: str) -> str:
    """`text` with the parts replaced that differ between runs: times, alone and in entry IDs.

    The seq of an ID stays. Breaks of lines count as spaces, because `fold` breaks at spaces.
    """
    text = re.sub(r"\b\d{13}-(\d+)", r"TIME-\1", text)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \(\d{13} ms\)", "TIME", text)
    return " ".join(text.split())


class Console:
    """A terminal in an empty folder, in which `anabranch` finds a cluster.

    `setup` is a text of the shell that runs before each command. With `is_silent_exact`, a command
    without an expected line must print nothing; otherwise it may print anything.
    """

    def __init__(
        self, cluster: LiveCluster, folder: Path, setup: str = "", is_silent_exact: bool = False
    ) -> None:
        if shutil.which("redis-cli") is None:
            pytest.fail("redis-cli is not installed: install the package redis-tools")
        self._cluster = cluster
        self._folder = folder
        self._setup = setup
        self._is_silent_exact = is_silent_exact
        places = [
            RegionAddress(region.name, region.region_id, region.address)
            for region in cluster.regions.values()
        ]
        (folder / "anabranch-data").mkdir()
        write_file(folder / "anabranch-data" / "cluster.toml", "local", places)
        program = folder / "anabranch"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m anabranch "$@"\n')
        program.chmod(0o755)
        self._ports = {
            str(7000 + region.region_id): str(region.resp_port)
            for region in cluster.regions.values()
        }
        self._environment = {**child_env(), "PATH": f"{folder}:{os.environ['PATH']}"}

    def type(self, command: str, expected: list[str]) -> None:
        """Runs a command, which must succeed and print the expected lines.

        Commands that only look are repeated until they print it. Others run once, when the regions
        are level.
        """
        if _CHANGES.search(command) is None:
            eventually(lambda: self._happens(command, expected), 15, command)
        else:
            self._level()
            self._happens(command, expected)

    def paste(self, block: list[tuple[str, list[str]]]) -> None:
        """Runs the commands of a block at once, one right after the other, as somebody pastes it.

        A command without an expected line may print anything.
        """
        commands = "\n".join(
            command if lines else f"{command} >/dev/null" for command, lines in block
        )
        self._happens(f"set -e\n{commands}", [line for _, lines in block for line in lines])

    def _happens(self, command: str, expected: list[str]) -> bool:
        text = f"{self._setup}\n{command}"
        text = re.sub(r"\b700\d\b", lambda found: self._ports[found[0]], text)
        result = subprocess.run(
            text,
            shell=True,
            capture_output=True,
            text=True,
            cwd=self._folder,
            env=self._environment,
            timeout=60,
            check=False,
        )
        answer = unified(result.stdout)
        is_free = not expected and not self._is_silent_exact
        assert result.returncode == 0 and (is_free or answer == unified("\n".join(expected))), (
            f"{command}\n{answer}\n{result.stderr}"
        )
        return True

    def _level(self) -> None:
        """Waits until all regions with open links have equal vectors.

        Somebody who types gives the regions this time between two commands.
        """
        cluster = self._cluster

        def equal() -> bool:
            linked = [
                name for name in cluster.regions if "down" not in cluster.links(name).values()
            ]
            return len({str(cluster.vector(name)) for name in linked or ["eu", "ap"]}) == 1

        eventually(equal, 15, "vectors being equal")
