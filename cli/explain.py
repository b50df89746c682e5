"""`anabranch explain`: why entries and groups are, or are not, there."""

from __future__ import annotations

from typing import Annotated, Any, Optional

import typer

from cli.client import RegionClient
from cli.places import AtOption, ClusterOption, PasswordOption, find, named


def lines(value: Any, indent: int = 0) -> list[str]:
    """A nested reply as indented lines, maps as ``name: value``."""
    pad = "  " * indent
    if isinstance(value, dict):
        made = []
        for key, item in value.items():
            short = _short(item)
            made += [f"{pad}{key}: {short}"] if short is not None else [f"{pad}{key}:", *lines(item, indent + 1)]
        return made
    if isinstance(value, list):
        short = _short(value)
        if short is not None:
            return [pad + short]
        made = []
        for item in value:
            inner = lines(item, indent + 1)
            made += [f"{pad}- {inner[0].lstrip()}", *inner[1:]] if inner else []
        return made
    return [f"{pad}{'(none)' if value is None else value}"]


def _short(value: Any) -> str | None:
    if isinstance(value, dict):
        return None if value else "(none)"
    if isinstance(value, list):
        if any(isinstance(item, (dict, list)) for item in value):
            return None
        return "  ".join(str(item) for item in value) or "(none)"
    return "(none)" if value is None else str(value)


def explain(
    region: Annotated[str, typer.Argument(metavar="REGION", help="The region to ask.", show_default=False)],
    key: Annotated[str, typer.Argument(metavar="KEY", show_default=False)],
    entry_id: Annotated[Optional[str], typer.Argument(metavar="[ID]", help="An entry ID.", show_default=False)] = None,
    cluster: ClusterOption = None,
    at: AtOption = None,
    password: PasswordOption = None,
) -> None:
    """Why entries and groups of a key are, or are not, in a region: origin, dots, who removed them, what each side had seen."""
    place = named(find(cluster, at, password), region)
    with RegionClient(place.resp, place.name, password) as client:
        reply = client.call("CRDT.EXPLAIN", key, *([entry_id] if entry_id else []))
    if isinstance(reply, list) and len(reply) % 2 == 0 and all(isinstance(item, str) for item in reply[::2]):
        reply = {reply[n]: reply[n + 1] for n in range(0, len(reply), 2)}
    print("\n".join(lines(reply)))
