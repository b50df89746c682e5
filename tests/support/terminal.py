"""Programs whose output is a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Mapping, Sequence


def run_in_terminal(line: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str]:
    """Runs a program until it ends: its exit code, and what it wrote into the terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(line, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    output = b""
    try:
        while chunk := os.read(ours, 65536):
            output += chunk
    except OSError:
        pass  # The process has closed its end.
    code = process.wait(60)
    os.close(ours)
    return code, output.decode()
