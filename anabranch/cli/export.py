"""`anabranch export`: what only a lost region holds, as commands for another region (S13.8)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any, Final

import typer

from anabranch.cli.addresses import (
    AtOption,
    ClusterOption,
    PasswordOption,
    RegionAddress,
    find,
    named,
)
from anabranch.cli.client import RegionClient
from anabranch.cli.contents import content_of, entries_of, keys_of
from anabranch.cli.errors import CliError, UsageError, WrongPassword
from anabranch.cli.forks import forks_of
from anabranch.cli.lost import lost_regions
from anabranch.cli.printing import JsonOption, print_json
from anabranch.file_modes import private_files
from anabranch.region.resp.request import command

_STDOUT: Final = Path("-")
# Why entries are compared and not counters.
_FORKED: Final = "its history is forked, so the entries were compared"
_DIVERGED: Final = "regions have diverged, so all entries were compared"


def export(
    region: Annotated[
        str, typer.Argument(metavar="REGION", help="The region to export from.", show_default=False)
    ],
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="The file to write; - for stdout.", show_default=False),
    ],
    keep_ids: Annotated[
        bool,
        typer.Option(
            "--keep-ids", help="Add entries under their IDs; else they get new IDs where added."
        ),
    ] = False,
    whole: Annotated[
        bool,
        typer.Option("--all", help="Every entry that the region added, also those others have."),
    ] = False,
    json: JsonOption = False,
    cluster: ClusterOption = None,
    at: AtOption = None,
    password: PasswordOption = None,
) -> None:
    """Write the entries that only REGION holds to FILE, as XADD commands.

    Meant for a region that was said to be lost and came back: nothing is taken from it any more.
    `redis-cli --pipe < FILE` adds the entries in another region. Entries that any other region
    holds are left out, unless that region was said to be lost, too. Where a link between REGION and
    another one is forked, or regions have diverged, the entries themselves are compared. A file
    gets its name once it is whole; an export to stdout that fails has written a part.
    """
    places = find(cluster, at, password)
    place = named(places, region)
    others = [other for other in places if other is not place]
    if file == _STDOUT and json:
        raise UsageError("--json and - both write to stdout: name a file")
    if file == _STDOUT and sys.stdout.isatty():
        raise UsageError("stdout is a terminal, and entries may hold any bytes: redirect it")
    if file != _STDOUT and file.exists():
        raise UsageError(f"{file} exists already; nothing is overwritten")
    wanted = _Wanted() if whole else _wanted(place, others, password)
    with ExitStack() as stack:
        client = stack.enter_context(place.client(password))
        out = stack.enter_context(_output(file))
        clients = [stack.enter_context(other.client(password)) for other in wanted.compared]
        written = 0
        for key, entry in _chosen(client, wanted, clients, place.region_id):
            out.write(_command(key, entry, keep_ids))
            written += 1
    told = f"{written:,} {'entry' if written == 1 else 'entries'} that {place.name} {wanted.what}"
    if json:
        facts = {"region": place.name, "file": str(file), "entries": written}
        print_json(facts | wanted.as_json() | {"problems": []})
        return
    if file == _STDOUT:
        print(told, file=sys.stderr)
        return
    print(f"{file}: {told}\nTo add them elsewhere: redis-cli -h HOST -p PORT --pipe < {file}")


@contextmanager
def _output(file: Path) -> Iterator[IO[bytes]]:
    """Stdout, or a file that gets its name once it is whole; CliError if it cannot be written."""
    if file == _STDOUT:
        yield sys.stdout.buffer
        return
    fresh = file.with_name(f"{file.name}.partial")
    try:
        with private_files():
            out = fresh.open("wb")
        with out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        fresh.rename(file)
    except OSError as error:
        raise CliError(f"cannot write {file}: {error.strerror}") from None
    finally:
        fresh.unlink(missing_ok=True)


@dataclass(frozen=True)
class _Wanted:
    """Which entries are exported, in words for the report: `what`.

    They have counters above `held`, and are in none of the regions `compared`, if there are any.
    `all_origins`: those that other regions added, too.
    """

    what: str = "added"
    held: int = 0
    compared: Sequence[RegionAddress] = ()
    all_origins: bool = False

    def as_json(self) -> dict[str, Any]:
        """Which entries they are, for programs."""
        return {
            "which": self.what,
            "after_effect": self.held,
            "compared_with": [place.name for place in self.compared],
        }


def _wanted(place: RegionAddress, others: list[RegionAddress], password: str | None) -> _Wanted:
    """What no other region in the cluster holds.

    Counters do not tell it where a link is forked, or where regions have diverged: entries do.
    """
    cluster = _in_cluster(others, password)
    why = _why_by_entries(place, others, password)
    if why == _FORKED:
        return _Wanted(f"added and no other holds ({why})", compared=cluster)
    if why:
        return _Wanted(f"holds and no other does ({why})", compared=cluster, all_origins=True)
    held = _held_by(place, cluster, password)
    return _Wanted(f"added after its effect {held}, the last that others hold", held=held)


def _chosen(
    client: RegionClient, wanted: _Wanted, compared: list[RegionClient], region_id: int
) -> Iterator[tuple[bytes, dict[bytes, Any]]]:
    """The entries to export, each with its key. `compared`: clients of `wanted.compared`."""
    origins = sorted(client.vector()) if wanted.all_origins else [region_id]
    for key in keys_of(client):
        for origin in origins:
            elsewhere = _contents(compared, key, origin)
            for entry in entries_of(client, key, origin, wanted.held):
                if content_of(entry) not in elsewhere:
                    yield key, entry


def _in_cluster(others: list[RegionAddress], password: str | None) -> list[RegionAddress]:
    """The regions among `others` that no answering one calls lost: nothing is taken from those.

    Raises:
        CliError: None is left, or one does not answer.
    """
    if not others:
        raise UsageError("name the other regions too, or export --all")
    lost: set[int] = set()
    failed: dict[int, CliError] = {}
    for other in others:
        try:
            with other.client(password) as client:
                lost |= lost_regions([client])
        except WrongPassword:
            raise  # One password opens all regions.
        except CliError as error:
            failed[other.region_id] = error
    for other in others:
        if other.region_id in failed and other.region_id not in lost:
            raise CliError(
                f"{failed[other.region_id]}; without it, entries that {other.name} holds cannot be"
                " told from others: name only regions that answer (--at), or export --all"
            )
    found = [other for other in others if other.region_id not in lost]
    if not found:
        raise CliError(
            "all other regions were said to be lost, too: name one that was not, or export --all"
        )
    return found


def _held_by(place: RegionAddress, others: list[RegionAddress], password: str | None) -> int:
    """The counter of the newest effect of the region that another one of these regions holds."""
    held = 0
    for other in others:
        with other.client(password) as client:
            held = max(held, client.vector().get(place.region_id, 0))
    return held


def _why_by_entries(place: RegionAddress, others: list[RegionAddress], password: str | None) -> str:
    """Why counters do not tell which entries the others lack, in words; empty if they do.

    A region that does not answer says nothing.
    """
    has_diverged = False
    for one in (place, *others):
        with suppress(CliError), one.client(password) as client:
            if any(place.name in (fork.region, fork.peer) for fork in forks_of(client, one.name)):
                return _FORKED
            has_diverged |= client.info("crdt").get("crdt_divergence", "0") != "0"
    return _DIVERGED if has_diverged else ""


def _contents(clients: list[RegionClient], key: bytes, region_id: int) -> set[bytes]:
    """The contents of all entries of one region log that these regions hold."""
    return {content_of(entry) for one in clients for entry in entries_of(one, key, region_id)}


def _command(key: bytes, entry: dict[bytes, Any], keep_ids: bool) -> bytes:
    """An XADD of the entry in the Redis protocol, which carries any bytes."""
    words = [b"XADD", key, entry[b"id"] if keep_ids else b"*", *entry[b"fields"]]
    return command(*words)
