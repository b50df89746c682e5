"""Runs the programs of the folders python, node, go and java, and compares what they saw."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

SOURCES: Final = Path(__file__).parent
# Where `make test-clients` installs the libraries.
INSTALLED: Final = Path(sys.prefix, ".clients")
PATIENCE_S: Final = 100

RAW: Final = f"raw {bytes([255, 254, 0, 195, 40, 13, 10]).hex()}"
BIG: Final = f"big {hashlib.sha256(b'0123456789' * 10_000).hexdigest()}"
NUMBERS: Final = [f"n {str(n).encode().hex()}" for n in range(6)]
SCANNED: Final = 1500
# An entry is shown as its field and the hex of its value; of a long value, the hash is shown.
EXPECTED: Final[dict[str, object]] = {
    "created": "OK",
    "created again": "BUSYGROUP",
    "no group": "NOGROUP",
    "first": [BIG],
    "woken": [RAW],
    "woken by": "what was added",
    "length in transaction": 7,
    "read": NUMBERS,
    "read in order": True,
    "acknowledged": 3,
    "pending": 5,
    "consumers": {"ann": 5},
    "delivered": ["ann 1"] * 5,
    "claimed": [NUMBERS[1:4], NUMBERS[4:]],
    "last cursor": "0-0",
    "delivered again": ["bob 2"] * 5,
    "left": 0,
    "range": [BIG, RAW, *NUMBERS],
    "newest": NUMBERS[-1:],
    "length": 8,
    "timed out": True,
    "scanned": SCANNED,
    "distinct": SCANNED,
    "killed": 1,
    "length after the kill": 8,
}


class Servers(NamedTuple):
    """Where a program writes and reads, as ports; equal ports are those of redis-server."""

    writer: int
    reader: int

    @property
    def peers(self) -> int:
        """How many other regions WAIT counts."""
        return int(self.writer != self.reader)


def installed(*path: str, target: str) -> Path:
    """A file that `make test-clients` makes. If there is none, the test fails with a message."""
    found = INSTALLED.joinpath(*path)
    if not found.exists():
        pytest.fail(
            f"there is no {found}: install {target}, and run `make test-clients`", pytrace=False
        )
    return found


def run(line: list[str], servers: Servers, **environment: str) -> dict[str, Any]:
    """Runs a program with the two ports; returns what it printed, a line of JSON."""
    ended = subprocess.run(
        [*line, str(servers.writer), str(servers.reader)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 0, f"{line} failed:\n{ended.stdout}\n{ended.stderr}"
    seen: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return seen


def check(seen: dict[str, Any], servers: Servers, library: str, **other: object) -> None:
    """Compares what a program saw with EXPECTED; `other` replaces parts that a library lacks.

    `library` is the name and the version; a part that is None is left out.
    """
    expected: dict[str, object] = {**EXPECTED, "waited": servers.peers, "library": library, **other}
    expected = {name: value for name, value in expected.items() if value is not None}
    wrong = [
        f"{name}: saw {seen.get(name)}, expected {expected.get(name)}"
        for name in {**expected, **seen}
        if seen.get(name) != expected.get(name)
    ]
    assert not wrong, "\n".join([library, *wrong])
