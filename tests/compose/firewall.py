"""Takes back what a Docker engine leaves in the network of the machine when it stops.

The engine leaves packet filter rules, its bridges, and a changed switch of the kernel. Only those
are removed that were not there when the engine was started and that name Docker or its bridges.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Final

from tests.compose.commands import run

_TABLES: Final = ("filter", "nat")
_FORWARDING: Final = Path("/proc/sys/net/ipv4/ip_forward")
_OF_DOCKER: Final = re.compile(r"\bDOCKER|\bdocker0\b|\bbr-[0-9a-f]{12}\b|172\.\d+\.\d+\.\d+")
_BRIDGE: Final = re.compile(r"^\d+: (docker0|br-[0-9a-f]{12}):", re.MULTILINE)


class NetworkState:
    """The packet filter, bridges and forwarding at one moment."""

    def __init__(self) -> None:
        self.rules: Final = {table: _saved(table) for table in _TABLES}
        self.bridges: Final = set(_BRIDGE.findall(run(["ip", "-o", "link"])))
        self.forwarding: Final = _FORWARDING.read_text(encoding="ascii")

    def restore(self) -> None:
        """Removes the rules, chains and bridges of Docker that were added since."""
        for table, before in self.rules.items():
            now = _saved(table)
            added = [line for line in now if line not in before and _OF_DOCKER.search(line)]
            for line in added:
                if line.startswith("-A"):
                    run(["iptables", "-w", "-t", table, "-D", *shlex.split(line)[1:]])
            for line in added:
                if line.startswith(":"):
                    run(["iptables", "-w", "-t", table, "-X", line[1:].split()[0]])
        policy = [line.split()[1] for line in self.rules["filter"] if line.startswith(":FORWARD ")]
        run(["iptables", "-w", "-P", "FORWARD", policy[0] if policy else "ACCEPT"])
        for bridge in set(_BRIDGE.findall(run(["ip", "-o", "link"]))) - self.bridges:
            run(["ip", "link", "delete", bridge])
        _FORWARDING.write_text(self.forwarding, encoding="ascii")


def _saved(table: str) -> list[str]:
    """The chains and rules of a table, without their counters."""
    result = subprocess.run(
        ["iptables-save", "-t", table], capture_output=True, text=True, check=True
    )
    lines = result.stdout.splitlines()
    return [re.sub(r" \[\d+:\d+\]$", "", line) for line in lines if line[:1] in (":", "-")]
