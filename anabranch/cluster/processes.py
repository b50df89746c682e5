"""Processes of this machine: how they begin and end, their logs, and waiting for them."""

from __future__ import annotations

import resource
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

FIRST_START = "--first-start"


def serve_words(
    cluster: str,
    members: Iterable[tuple[str, int]],
    name: str,
    addresses: tuple[str, str, str],
    peers: Iterable[tuple[str, str]],
    data: Path,
    is_first_start: bool = False,
) -> list[str]:
    """The words after ``anabranch`` that serve the region `name`.

    `members` are (name, region_id) pairs. `addresses` are those for clients, for other regions, and
    for HTTP, as HOST:PORT. `peers` are the (name, address) pairs that the region dials.
    `is_first_start`: an empty directory is that of a new cluster (S13.6).
    """
    words = ["serve", "--cluster", cluster, "--name", name]
    words += ["--members", ",".join(f"{one}={region_id}" for one, region_id in members)]
    for flag, address in zip(("--resp", "--sync", "--http"), addresses, strict=True):
        words += [flag, address]
    for peer, address in peers:
        words += ["--peer", f"{peer}@{address}"]
    return [*words, "--data", str(data), *([FIRST_START] if is_first_start else [])]


def spawn(
    line: Sequence[str], log: Path, environment: Mapping[str, str] | None = None, **options: Any
) -> subprocess.Popen[bytes]:
    """Starts a program without input, whose output goes to the end of `log`.

    `environment`: all its variables; None: those of this process. `options` go to
    `subprocess.Popen`. If a handler of a signal may raise, call it, and keep the process, under
    `signals_wait`.
    """
    with log.open("ab") as output:
        return subprocess.Popen(
            line, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, **options
        )


def end(process: subprocess.Popen[Any], patience_s: float = 10.0) -> bool:
    """Sends SIGTERM, and SIGKILL if the process lives on; returns whether SIGTERM was enough."""
    return not end_all([process], patience_s)


def end_all(
    processes: Iterable[subprocess.Popen[Any]], patience_s: float
) -> list[subprocess.Popen[Any]]:
    """Sends SIGTERM to all that run, and SIGKILL to those that live on after `patience_s`.

    Returns the latter, when all have ended.
    """
    running = [process for process in processes if process.poll() is None]
    for process in running:
        process.terminate()
    wait_until(lambda: all(process.poll() is not None for process in running), patience_s)
    late = [process for process in running if process.poll() is None]
    for process in late:
        process.kill()
        process.wait()
    return late


def last_lines(log: Path, count: int) -> list[str]:
    """The last lines of a file; none without a file."""
    return log.read_text("utf-8", "replace").splitlines()[-count:] if log.exists() else []


def wait_until(condition: Callable[[], object], patience_s: float, pause_s: float = 0.02) -> bool:
    """Asks until `condition` holds, with pauses, and at most `patience_s`; whether it holds."""
    deadline = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause_s)
    return True


def limit_files(process_id: int, bytes_max: int | None) -> None:
    """Lets a process write no file beyond `bytes_max`, as a full disk would; None ends that.

    ProcessLookupError if there is no such process.
    """
    _, hard = resource.prlimit(process_id, resource.RLIMIT_FSIZE)
    soft = hard if bytes_max is None else bytes_max
    resource.prlimit(process_id, resource.RLIMIT_FSIZE, (soft, hard))
