"""The keys of the cluster: a bounded list, from SCAN in every region.

The page calls a key by its text (`escapes.shown`), and shows the beginning of a long text. A key of
more than `NAME_BYTES` has a handle instead, because the address of a request must hold its name.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Collection
from typing import Any, Final, NamedTuple

from anabranch.console.regions import Refused, Region, RegionDown, Word
from anabranch.console.view import JsonObject
from anabranch.escapes import original, shown
from anabranch.study.history.wording import VALUE_MAX

KEYS: Final = 200
_COUNT: Final = 1000
_CALLS: Final = 50
_GLOB: Final = "*?[\\"
NAME_BYTES: Final = 1024
# A handle is this, a hash of the key, a space, and as much of its text as the page cuts. `shown`
# never returns a text that begins so.
_HANDLE: Final = "\\#"
_LONG_BYTES_MAX: Final = 64 << 20


def pattern_of(wanted: str) -> bytes:
    """The glob of a filter: the text itself if it has one of ``*?[\\``, else all keys with it."""
    if not wanted:
        return b"*"
    glob = wanted if any(one in wanted for one in _GLOB) else f"*{wanted}*"
    return glob.encode("utf-8", "surrogatepass")


def name_of(key: bytes) -> str:
    """The name by which the page calls a key: its text, or a handle."""
    if len(key) <= NAME_BYTES:
        return shown(key)
    digest = hashlib.blake2b(key, digest_size=16).hexdigest()
    return f"{_HANDLE}{digest} {shown(key[:NAME_BYTES])[: VALUE_MAX + 1]}"


class LongKeys:
    """The keys that have handles, as far as they were listed lately."""

    def __init__(self) -> None:
        self._by_handle: Final[dict[str, bytes]] = {}
        self._bytes = 0

    def note(self, key: bytes) -> str:
        """The name of a key, which `key_of` understands from now on."""
        name = name_of(key)
        if name.startswith(_HANDLE) and name not in self._by_handle:
            self._by_handle[name] = key
            self._bytes += len(key)
            while self._bytes > _LONG_BYTES_MAX and len(self._by_handle) > 1:
                self._bytes -= len(self._by_handle.pop(next(iter(self._by_handle))))
        return name

    def key_of(self, name: str) -> bytes:
        """The key of that name. ValueError if there is none."""
        if not name.startswith(_HANDLE):
            return original(name)
        if name not in self._by_handle:
            raise ValueError("the console does not know this long key any more: list the keys")
        return self._by_handle[name]


async def keys(
    regions: list[Region], wanted: str, long_keys: LongKeys, down: Collection[Region] = ()
) -> JsonObject:
    """At most `KEYS` keys by name: the regions that hold each, and its entries there.

    A scan that finds too little ends after a bounded number of calls; `is_whole` is then False.
    `silent` has the regions that did not answer: what only they hold is not here. Those in `down`
    are not asked, because they would keep the others waiting.
    """
    away = [region.name for region in regions if region in down]
    regions = [region for region in regions if region not in down]
    found = await asyncio.gather(*(_scan(region, pattern_of(wanted)) for region in regions))
    names: set[bytes] = set()
    for one in found:
        names.update(one.names)
    shown_names = sorted(names)[:KEYS]
    lengths = await asyncio.gather(*(_lengths(region, shown_names) for region in regions))
    return {
        "keys": [
            {
                "name": long_keys.note(name),
                "entries": {
                    region.name: length[name]
                    for region, length in zip(regions, lengths, strict=True)
                    if name in length
                },
            }
            for name in shown_names
        ],
        "is_whole": len(names) <= KEYS and all(one.is_whole for one in found),
        "silent": away
        + [region.name for region, one in zip(regions, found, strict=True) if one.is_silent],
    }


class _Found(NamedTuple):
    """What a scan of a region found. `is_whole`: all keys of those that it could see are there."""

    names: list[bytes]
    is_whole: bool
    is_silent: bool = False


async def _scan(region: Region, pattern: bytes) -> _Found:
    """Keys of a region that match."""
    cursor: Any = b"0"
    names: list[bytes] = []
    for _ in range(_CALLS):
        try:
            cursor, page = await region.line.ask("SCAN", cursor, "MATCH", pattern, "COUNT", _COUNT)
        except (RegionDown, Refused):
            return _Found(names, is_whole=True, is_silent=True)
        names += page
        if cursor in (b"0", 0):
            return _Found(names, is_whole=True)
        if len(names) > KEYS:
            break
    return _Found(names, is_whole=False)


async def _lengths(region: Region, names: list[bytes]) -> dict[bytes, int]:
    """The entries of each key that exists in a region."""
    if not names:
        return {}
    asked: list[list[Word]] = [["XLEN", name] for name in names]
    asked += [["EXISTS", name] for name in names]
    try:
        replies = await region.line.ask_all(asked)
    except RegionDown:
        return {}
    return {
        name: int(length)
        for name, length, exists in zip(
            names, replies[: len(names)], replies[len(names) :], strict=True
        )
        if exists == 1 and not isinstance(length, Refused)
    }
