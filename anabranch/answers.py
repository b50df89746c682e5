"""Values in the answers of a region: vectors, members, INFO."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from anabranch.escapes import shown

_LINK: Final = re.compile(r"crdt_link\d+")


def vector_of(flat: Iterable[Any]) -> dict[int, int]:
    """region_id → counter, from a flat array: ``[1, 42, 2, 7]`` → ``{1: 42, 2: 7}``."""
    numbers = [int(number) for number in flat]
    return dict(zip(numbers[::2], numbers[1::2], strict=True))


def listed_vector(listed: str) -> dict[int, int]:
    """region_id → counter, from a vector in INFO such as ``1=42,2=7``."""
    parts = (one.partition("=") for one in listed.split(",") if "=" in one)
    return {int(region_id): int(counter) for region_id, _, counter in parts}


def members_of(info: dict[str, str]) -> dict[int, str]:
    """region_id → name, from the field of INFO ``crdt_members:us=1,eu=2``; empty without it."""
    parts = (one.partition("=") for one in info.get("crdt_members", "").split(",") if "=" in one)
    return {int(region_id): name for name, _, region_id in parts}


def links_of(info: dict[str, str]) -> list[dict[str, str]]:
    """The links of a region, from the fields ``crdt_link2:name=eu,state=up,…`` of INFO."""
    return [
        dict(part.partition("=")[::2] for part in value.split(","))
        for field, value in info.items()
        if _LINK.fullmatch(field)
    ]


def info_of(reply: bytes) -> dict[str, str]:
    """The fields of INFO, with escapes for control characters."""
    fields = (line.partition(b":") for line in reply.split(b"\r\n"))
    return {shown(name): shown(value) for name, colon, value in fields if colon}
