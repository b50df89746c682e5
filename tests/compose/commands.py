"""Runs a program, and shows its output if it fails."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def run(
    line: Sequence[str | Path],
    *,
    patience_s: float = 60.0,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> str:
    """Runs a program to its end, and returns its output without surrounding space.

    `environment` is added to that of this process. Raises AssertionError with all output if the
    program fails or takes more than `patience_s` seconds.
    """
    shown = " ".join(str(word) for word in line)
    try:
        result = subprocess.run(
            [str(word) for word in line],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=patience_s,
            env={**os.environ, **(environment or {})},
            cwd=folder,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        output = b"".join(part for part in (error.stdout, error.stderr) if isinstance(part, bytes))
        raise AssertionError(
            f"took more than {patience_s} s: {shown}\n{output.decode(errors='replace')}"
        ) from None
    assert result.returncode == 0, (
        f"exit code {result.returncode}: {shown}\n{result.stdout}{result.stderr}"
    )
    return result.stdout.strip()


def succeeds(
    line: Sequence[str | Path],
    *,
    patience_s: float = 60.0,
    environment: Mapping[str, str] | None = None,
) -> bool:
    """Whether a program exists, ends within `patience_s` seconds, and reports success."""
    try:
        run(line, patience_s=patience_s, environment=environment)
    except (AssertionError, OSError):
        return False
    return True
