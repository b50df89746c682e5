"""What a region holds, read page by page: its keys, and the entries of its region logs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, Final

from anabranch.cli.client import RegionClient

PAGE_ENTRIES: Final = 1000


def keys_of(client: RegionClient) -> Iterator[bytes]:
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


def entries_of(
    client: RegionClient, key: bytes, region_id: int, held: int = 0
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


def content_of(entry: dict[bytes, Any]) -> bytes:
    """What tells an entry from others whatever its counter: a hash of its ID and fields."""
    words = b"".join(b"%d:%b" % (len(word), word) for word in (entry[b"id"], *entry[b"fields"]))
    return hashlib.blake2b(words, digest_size=16).digest()
