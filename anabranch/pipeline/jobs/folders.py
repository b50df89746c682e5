"""Directories of jobs: new ones, a lock, and small files that are written as a whole."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from anabranch.pipeline.errors import OptionError, PipelineError


def check_new(option: str, folder: str) -> None:
    """Raises OptionError if the directory that an option names exists.

    Of a URL of another file system than this machine's nothing is known.
    """
    if Path(urlsplit(folder).path if folder.startswith("file:") else folder).exists():
        raise OptionError(f"{option}: {folder} exists; give a directory that does not")


@contextmanager
def locked(folder: Path, what: str) -> Iterator[None]:
    """Holds the lock of a directory, which is made if need be; `what` names it in the error.

    Raises:
        PipelineError: Another job holds the lock. That of a process that ended is free.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PipelineError(f"another job works on {what}: wait until it has ended") from None
        yield


def read(path: Path, *names: str) -> dict[str, Any]:
    """The facts that `write` has written, with those names among them. Raises PipelineError."""
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PipelineError(f"cannot read {path}: {error}") from None
    if not isinstance(facts, dict):
        raise PipelineError(f"{path} was not written by anabranch: it is no JSON object")
    _require(path, facts, names)
    return facts


def read_format(path: Path, version: int, *names: str) -> dict[str, Any]:
    """What `read` returns of a file that says in which format it is.

    Raises:
        PipelineError: As in `read`, or the format is another one than `version`.
    """
    facts = read(path, "format")
    if facts["format"] != version:
        raise PipelineError(
            f"{path} has the format {facts['format']}, and this version of anabranch reads "
            f"{version}"
        )
    # Another format may have other names.
    _require(path, facts, names)
    return facts


def _require(path: Path, facts: dict[str, Any], names: tuple[str, ...]) -> None:
    for name in names:
        if name not in facts:
            raise PipelineError(f"{path} was not written by anabranch: it has no '{name}'")


def write(path: Path, facts: dict[str, Any]) -> None:
    """Writes a file of JSON as a whole, and lastingly."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(facts, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    sync(fresh)
    fresh.rename(path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Waits until a file, or the names in a directory, are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
