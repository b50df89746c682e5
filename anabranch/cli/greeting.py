"""The text that `anabranch up` prints once all regions are up: addresses, and commands to try."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

from anabranch import build
from anabranch.cli.addresses import FILE_NAME, RegionAddress
from anabranch.plural import counted


def greeting(
    places: list[RegionAddress],
    directory: Path,
    shown_data: Path | None,
    has_password: bool,
    console: str | None = None,
) -> str:
    """The text. `shown_data` is the data directory to name in commands; None: the default one.

    `console` is the address of the console's page; None: no console runs.
    """
    verb = "is" if len(places) == 1 else "are"
    lines = [
        (
            f"{counted(len(places), 'region')} {verb} up, {build.kind()} build;"
            f" data and logs in {directory}"
        ),
        "",
    ]
    width = max(len(place.name) for place in places)
    lines += [
        f"  {place.name:{width}}  redis {place.resp}   http://{place.http}/metrics"
        f"   {directory / (place.name + '.log')}"
        for place in places
    ]
    if console is not None:
        lines += ["", f"Watch it in the browser: {console}"]
    if has_password:
        lines += [
            "",
            "The regions ask for a password. redis-cli and the commands below take it from here:",
            "  export REDISCLI_AUTH=…",
        ]
    lines += ["", *_commands(places, shown_data, has_password), "", "Ctrl-C stops all."]
    return "\n".join(lines)


def _commands(
    places: list[RegionAddress], shown_data: Path | None, has_password: bool
) -> list[str]:
    first, second = places[0], places[min(1, len(places) - 1)]
    ports = [place.resp.rpartition(":")[2] for place in (first, second)]
    anabranch = _own_command()
    where = (
        f" --cluster {shlex.quote(str(shown_data / FILE_NAME))}" if shown_data is not None else ""
    )
    lines = [
        "Write in one region, read in another:",
        f"  redis-cli -p {ports[0]} XADD s '*' a 1",
        f"  redis-cli -p {ports[1]} XRANGE s - +",
    ]
    if shutil.which("redis-cli") is None:
        lines += ["There is no redis-cli here (package redis-tools). The same in Python:"]
    else:
        lines += ["The same in Python:"]
    lines += [
        _in_python(ports[0], "xadd('s', {'a': 1})", has_password),
        _in_python(ports[1], "xrange('s')", has_password),
    ]
    if len(places) == 1:
        return [*lines, "See the region:", f"  {anabranch} status{where}"]
    return [
        *lines,
        "See the cluster, cut a link, heal it, compare:",
        f"  {anabranch} status{where}",
        f"  {anabranch} link cut {first.name} {second.name}{where}",
        f"  {anabranch} link heal{where}",
        f"  {anabranch} diff {first.name} {second.name}{where}",
    ]


def _in_python(port: str, call: str, has_password: bool) -> str:
    python = shlex.quote(_relative(sys.executable))
    modules, password = "redis", ""
    if has_password:
        modules, password = "os, redis", ", password=os.environ['REDISCLI_AUTH']"
    return f'  {python} -c "import {modules}; print(redis.Redis(port={port}{password}).{call})"'


def _own_command() -> str:
    """The command that runs anabranch again: its name if the shell finds it, otherwise its path."""
    beside = Path(sys.executable).with_name("anabranch")
    found = shutil.which("anabranch")
    if found is not None and Path(found).resolve() == beside.resolve():
        return "anabranch"
    return (
        shlex.quote(_relative(str(beside)))
        if beside.exists()
        else f"{shlex.quote(_relative(sys.executable))} -m anabranch"
    )


def _relative(path: str) -> str:
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative
