"""Finds the regions of a running cluster.

Their addresses come from `cluster.toml`, which `anabranch up` writes, or from the option ``--at``.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Optional

import typer

from anabranch.cli.client import RegionClient
from anabranch.cli.errors import CliError, UsageError
from anabranch.region.config import Address, ConfigError, parse_address

DEFAULT_DATA = Path("anabranch-data")
FILE_NAME = "cluster.toml"

ClusterOption = Annotated[
    Optional[Path],
    typer.Option(
        "--cluster",
        metavar="FILE",
        help="A cluster.toml of `anabranch up`. [default: anabranch-data/cluster.toml]",
    ),
]
AtOption = Annotated[
    Optional[list[str]],
    typer.Option(
        "--at",
        metavar="HOST:PORT",
        help="A region's client address, instead of a file; one for each.",
    ),
]
PasswordOption = Annotated[
    Optional[str],
    typer.Option(
        "--password", envvar="REDISCLI_AUTH", metavar="TEXT", help="Password of the regions."
    ),
]


class RegionAddress:
    """One region of a cluster. Addresses are HOST:PORT; `sync` and `http` are empty if unknown."""

    def __init__(
        self, name: str, region_id: int, resp: str, sync: str = "", http: str = ""
    ) -> None:
        self.name = name
        self.region_id = region_id
        self.resp = resp
        self.sync = sync
        self.http = http


def write_file(path: Path, cluster: str, places: list[RegionAddress]) -> None:
    """Writes `cluster.toml` atomically."""
    lines = [
        "# Written by `anabranch up`. The other anabranch commands find the cluster here.",
        f"cluster = {json.dumps(cluster)}",
    ]
    for place in places:
        lines += ["", "[[regions]]", f"name = {json.dumps(place.name)}", f"id = {place.region_id}"]
        lines += [
            f"{key} = {json.dumps(value)}"
            for key, value in (("resp", place.resp), ("sync", place.sync), ("http", place.http))
        ]
    fresh = path.with_suffix(".new")
    fresh.write_text("\n".join(lines) + "\n", encoding="utf-8")
    fresh.replace(path)


def read_file(path: Path) -> list[RegionAddress]:
    """The regions that `cluster.toml` names; CliError if the file is missing or damaged."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        return [_place(row) for row in table["regions"]]
    except FileNotFoundError:
        advice = (
            "start a cluster here with `anabranch up`, or say where one is"
            " (--cluster FILE, --at HOST:PORT)"
        )
        raise CliError(f"there is no {path}: {advice}") from None
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
        raise CliError(f"{path} is not a cluster file that `anabranch up` wrote: {error}") from None


def toxiproxy_address(cluster: Path | None, at: list[str] | None) -> Address | None:
    """The API of the toxiproxy server between the regions; None if the cluster file names none.

    The file names it as `api` in the table `[toxiproxy]`. CliError if that is no address.
    """
    if at:
        return None
    path = _file(cluster)
    read_file(path)
    table = tomllib.loads(path.read_text(encoding="utf-8")).get("toxiproxy")
    if table is None:
        return None
    api = table.get("api") if isinstance(table, dict) else None
    try:
        return parse_address(str(api or ""), "api")
    except ConfigError:
        raise CliError(
            f'{path}: the table [toxiproxy] needs api = "HOST:PORT", not {api!r}'
        ) from None


def _file(cluster: Path | None) -> Path:
    path = cluster or DEFAULT_DATA / FILE_NAME
    return path / FILE_NAME if path.is_dir() else path


def _place(row: dict[str, object]) -> RegionAddress:
    return RegionAddress(
        str(row["name"]),
        int(str(row["id"])),
        str(row["resp"]),
        str(row.get("sync", "")),
        str(row.get("http", "")),
    )


def find(cluster: Path | None, at: list[str] | None, password: str | None) -> list[RegionAddress]:
    """The regions that the options name; with ``--at``, each region is asked for its name."""
    if cluster is not None and at:
        raise UsageError("give --cluster or --at, not both")
    if not at:
        return read_file(_file(cluster))
    places = []
    for address in at:
        try:
            parse_address(address, "--at")
        except ConfigError as error:
            raise UsageError(str(error)) from None
        with RegionClient(address, password=password) as client:
            facts = client.info("crdt")
            places.append(
                RegionAddress(
                    facts.get("crdt_region_name", address),
                    int(facts.get("crdt_region_id", 0)),
                    address,
                )
            )
    return places


def named(places: list[RegionAddress], name: str) -> RegionAddress:
    """The region with that name or id, otherwise with that name in another case.

    CliError, with the names there are, if no region matches.
    """
    for place in places:
        if place.name == name or str(place.region_id) == name:
            return place
    for place in places:
        if place.name.lower() == name.lower():
            return place
    raise CliError(
        f"no region '{name}' here; there are {', '.join(place.name for place in places)}"
    )


@contextmanager
def clients(places: list[RegionAddress], password: str | None) -> Iterator[list[RegionClient]]:
    """A client for each region. A client connects at its first command."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(RegionClient(place.resp, place.name, password)) for place in places
        ]
