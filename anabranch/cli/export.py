"""`anabranch export`: what only a lost region holds, as commands for another region (S13.8)."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
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
from anabranch.cli.errors import CliError, UsageError
from anabranch.cli.lost import lost_regions
from anabranch.file_modes import private_files
from anabranch.region.resp.request import command

PAGE_ENTRIES = 1000
_STDOUT: Final = Path("-")


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
    cluster: ClusterOption = None,
    at: AtOption = None,
    password: PasswordOption = None,
) -> None:
    """Write the entries that only REGION holds to FILE, as XADD commands.

    Meant for a region that was said to be lost and came back: nothing is taken from it any more.
    `redis-cli --pipe < FILE` adds the entries in another region. Entries that any other region
    holds are left out, unless that region was said to be lost, too. Where a link between REGION and
    another one is forked, the entries themselves are compared. A file gets its name once it is
    whole; an export to stdout that fails has written a part.
    """
    places = find(cluster, at, password)
    place = named(places, region)
    others = [other for other in places if other is not place]
    if file == _STDOUT and sys.stdout.isatty():
        raise UsageError("stdout is a terminal, and entries may hold any bytes: redirect it")
    if file != _STDOUT and file.exists():
        raise UsageError(f"{file} exists already; nothing is overwritten")
    is_forked = not whole and _is_forked(place, others, password)
    held = 0 if whole or is_forked else _held_by_others(place, others, password)
    written = 0
    with ExitStack() as stack:
        client = stack.enter_context(place.client(password))
        compared = others if is_forked else []
        clients = [stack.enter_context(other.client(password)) for other in compared]
        out = stack.enter_context(_output(file))
        for key in _keys(client):
            elsewhere = _contents(clients, key, place.region_id)
            for entry in _entries(client, key, place.region_id, held):
                if not is_forked or _content(entry) not in elsewhere:
                    out.write(_command(key, entry, keep_ids))
                    written += 1
    what = "added" if whole else f"added after its effect {held}, the last that others hold"
    if is_forked:
        what = "added and no other holds (its history is forked, so the entries were compared)"
    told = f"{written:,} {'entry' if written == 1 else 'entries'} that {place.name} {what}"
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


def _held_by_others(place: RegionAddress, others: list[RegionAddress], password: str | None) -> int:
    """The counter of the newest effect of the region that another region holds.

    What lost regions hold does not count: nothing is taken from them.
    """
    if not others:
        raise UsageError("name the other regions too, or export --all")
    held: dict[int, int] = {}
    lost: set[int] = set()
    for other in others:
        with other.client(password) as client:
            try:
                held[other.region_id] = client.vector().get(place.region_id, 0)
                lost |= lost_regions([client])
            except CliError as error:
                raise CliError(
                    f"{error}; without it, entries that {other.name} holds cannot be told from"
                    " others: name only regions that answer (--at), or export --all"
                ) from None
    counted = [counter for region_id, counter in held.items() if region_id not in lost]
    if not counted:
        raise CliError(
            "all other regions were said to be lost, too: name one that was not, or export --all"
        )
    return max(counted)


def _is_forked(place: RegionAddress, others: list[RegionAddress], password: str | None) -> bool:
    """Whether a region says that its link with the other is forked: counters do not compare then.

    A region that does not answer says nothing.
    """
    for one in (place, *others):
        with suppress(CliError), one.client(password) as client:
            for peer in client.peers():
                is_theirs = one is place or peer.region_id == place.region_id
                if is_theirs and peer.link == "forked":
                    return True
    return False


def _contents(clients: list[RegionClient], key: bytes, region_id: int) -> set[bytes]:
    """The contents of all entries of one region log that these regions hold."""
    return {_content(entry) for one in clients for entry in _entries(one, key, region_id, 0)}


def _content(entry: dict[bytes, Any]) -> bytes:
    """What tells an entry from others whatever its counter: a hash of its ID and fields."""
    words = b"".join(b"%d:%b" % (len(word), word) for word in (entry[b"id"], *entry[b"fields"]))
    return hashlib.blake2b(words, digest_size=16).digest()


def _keys(client: RegionClient) -> Iterator[bytes]:
    """All keys, each once."""
    seen: set[bytes] = set()
    cursor: Any = 0
    while True:
        cursor, batch = client.raw("SCAN", cursor, "COUNT", 1000)
        for key in batch:
            if key not in seen:
                seen.add(key)
                yield key
        if int(cursor) == 0:
            return


def _entries(
    client: RegionClient, key: bytes, region_id: int, held: int
) -> Iterator[dict[bytes, Any]]:
    """The entries of one region log above the counter `held`, ascending."""
    start: bytes = b"-"
    while True:
        page = client.raw("CRDT.LOG", key, region_id, start, "+", "COUNT", PAGE_ENTRIES)
        for entry in page:
            if entry[b"counter"] > held:
                yield entry
        if len(page) < PAGE_ENTRIES:
            return
        start = b"(" + page[-1][b"id"]


def _command(key: bytes, entry: dict[bytes, Any], keep_ids: bool) -> bytes:
    """An XADD of the entry in the Redis protocol, which carries any bytes."""
    words = [b"XADD", key, entry[b"id"] if keep_ids else b"*", *entry[b"fields"]]
    return command(*words)
