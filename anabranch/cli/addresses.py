"""Finds the regions of a running cluster.

Their addresses come from `cluster.toml`, which `anabranch up` writes, or from the option ``--at``.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Annotated, Optional

import typer

from anabranch.answers import members_of
from anabranch.cli.client import PATIENCE_S, RegionClient
from anabranch.cli.errors import CliError, ProblemsTold, Unreachable, UsageError, WrongPassword
from anabranch.cli.printing import print_json
from anabranch.region.option_values import Address, ConfigError, parse_address, valid_name
from anabranch.whole_file import write_whole

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
        "--password",
        metavar="TEXT",
        help="Password of the regions. [default: REDISCLI_AUTH, ANABRANCH_REQUIREPASS,"
        " or that of the configuration given to `anabranch up`]",
    ),
]


class RegionAddress:
    """One region of a cluster. Addresses are HOST:PORT; `sync` and `http` are empty if unknown.

    A region that does not answer and that nobody could name has the id 0, and its address as name.
    """

    def __init__(
        self, name: str, region_id: int, resp: str, sync: str = "", http: str = ""
    ) -> None:
        self.name = name
        self.region_id = region_id
        self.resp = resp
        self.sync = sync
        self.http = http

    @property
    def known_name(self) -> str:
        """The name; empty if it is not known."""
        return self.name if self.region_id else ""

    def client(self, password: str | None, patience_s: float = PATIENCE_S) -> RegionClient:
        """A connection to the region, which is asked nothing if it has another name or id."""
        return RegionClient(self.resp, self.known_name, password, patience_s, self.region_id)


class ClusterFile:
    """The contents of `cluster.toml`: the regions, and the configuration file of `anabranch up`."""

    def __init__(self, places: list[RegionAddress], config: Path | None) -> None:
        self.places = places
        self.config = config


def write_file(
    path: Path,
    cluster: str,
    places: list[RegionAddress],
    config: Path | None = None,
    toxiproxy: Address | None = None,
) -> None:
    """Writes `cluster.toml` atomically; see `file_text`."""
    write_whole(path, file_text(cluster, places, "anabranch up", config, toxiproxy).encode())


def file_text(
    cluster: str,
    places: list[RegionAddress],
    writer: str,
    config: Path | None = None,
    toxiproxy: Address | None = None,
) -> str:
    """The text of a `cluster.toml`. Addresses that are not known are left out.

    `config` is the file with the regions' settings, `toxiproxy` the API of the server between them.
    """
    lines = [
        f"# Written by `{writer}`. The other anabranch commands find the cluster here.",
        f"cluster = {json.dumps(cluster)}",
    ]
    if config is not None:
        lines.append(f"config = {json.dumps(str(config))}")
    for place in places:
        lines += ["", "[[regions]]", f"name = {json.dumps(place.name)}", f"id = {place.region_id}"]
        lines += [
            f"{key} = {json.dumps(value)}"
            for key, value in (("resp", place.resp), ("sync", place.sync), ("http", place.http))
            if value
        ]
    if toxiproxy is not None:
        lines += ["", "[toxiproxy]", f"api = {json.dumps(str(toxiproxy))}"]
    return "\n".join(lines) + "\n"


def read_file(path: Path) -> list[RegionAddress]:
    """The regions that `cluster.toml` names; CliError if the file is missing or wrong."""
    return read_cluster(path).places


def read_cluster(path: Path) -> ClusterFile:
    """The contents of `cluster.toml`.

    Raises:
        CliError: The file is missing or wrong. The error names the mistake and the right form.
    """
    try:
        # Editors on Windows put a mark before UTF-8.
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        advice = (
            "start a cluster here with `anabranch up`, or say where one is"
            " (--cluster FILE, --at HOST:PORT)"
        )
        raise CliError(f"there is no {path}: {advice}") from None
    except OSError as error:
        raise CliError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CliError(f"{path} is not a cluster file: it is not valid TOML: {error}") from None
    try:
        config = table.get("config")
        if config is not None and (not isinstance(config, str) or not config):
            raise _WrongFile(f"config must be a path in quotes, not {config!r}")
        return ClusterFile(_places(table.get("regions")), Path(config) if config else None)
    except (_WrongFile, ConfigError) as error:
        raise CliError(f"{path} is not a cluster file that `anabranch up` wrote: {error}") from None


class _WrongFile(Exception):
    """A mistake in `cluster.toml`."""


_EXAMPLE = '[[regions]] with name = "us", id = 1 and resp = "127.0.0.1:7001"'


def _places(rows: object) -> list[RegionAddress]:
    if not isinstance(rows, list) or not rows:
        raise _WrongFile(f"it names no regions; it needs a table {_EXAMPLE} for each")
    places = [_place(row, f"region {n}") for n, row in enumerate(rows, 1)]
    for field in ("name", "region_id", "resp"):
        values = [getattr(place, field) for place in places]
        for value in values:
            if values.count(value) > 1:
                raise _WrongFile(f"two regions have the {field.replace('region_', '')} {value}")
    return places


def _place(row: object, where: str) -> RegionAddress:
    if not isinstance(row, dict):
        raise _WrongFile(f"{where} is no table; it needs a table {_EXAMPLE}")
    name, region_id = row.get("name"), row.get("id")
    if not isinstance(name, str) or not valid_name(name):
        raise _WrongFile(f"{where}: name must be the name of a region in quotes, not {name!r}")
    if isinstance(region_id, bool) or not isinstance(region_id, int):
        raise _WrongFile(f"{where} ({name}): id must be a number, not {region_id!r}")
    addresses = {key: row.get(key, "") for key in ("resp", "sync", "http")}
    for key, address in addresses.items():
        if not isinstance(address, str):
            raise _WrongFile(f"{where} ({name}): {key} must be HOST:PORT in quotes")
        if address or key == "resp":
            parse_address(address, f"{where} ({name}): {key}")
    return RegionAddress(name, region_id, *addresses.values())


def toxiproxy_address(cluster: Path | None, at: list[str] | None) -> Address | None:
    """The API of the toxiproxy server between the regions; None if the cluster file names none.

    The file names it as `api` in the table `[toxiproxy]`. CliError if that is no address.
    """
    if at:
        return None
    path = cluster_path(cluster)
    read_file(path)
    table = tomllib.loads(path.read_text(encoding="utf-8-sig")).get("toxiproxy")
    if table is None:
        return None
    api = table.get("api") if isinstance(table, dict) else None
    try:
        return parse_address(str(api or ""), "api")
    except ConfigError:
        raise CliError(
            f'{path}: the table [toxiproxy] needs api = "HOST:PORT", not {api!r}'
        ) from None


def cluster_path(cluster: Path | None) -> Path:
    """The path of the `cluster.toml` that ``--cluster`` names: a file, or a directory with it."""
    path = cluster or DEFAULT_DATA / FILE_NAME
    return path / FILE_NAME if path.is_dir() else path


def config_file(cluster: Path | None) -> Path | None:
    """The configuration file with which the cluster was started, if any; CliError as `find`."""
    return read_cluster(cluster_path(cluster)).config


def _same_region(one: RegionAddress, other: str, is_one_process: bool) -> CliError:
    """The error for a second address of a region. Two processes of it have two lives."""
    if is_one_process:
        return UsageError(f"--at: {one.resp} and {other} are one region, {one.name}")
    return CliError(
        f"two processes run as region {one.name}: the one at {one.resp}, and the one at {other};"
        " stop one of them (docs/operations-repair.md)"
    )


def find(
    cluster: Path | None, at: list[str] | None, password: str | None, *, some_down: bool = False
) -> list[RegionAddress]:
    """The regions that the options name; with ``--at``, each region is asked for its name.

    `some_down`: of the regions of ``--at``, those that do not answer are returned, too. Such a
    region has the name that the others leave for it, or else its address, and then the id 0.

    Raises:
        CliError: No region answers, or one does not and `some_down` is not set; a wrong password;
            a server that is no region.
    """
    if cluster is not None and at:
        raise UsageError("give --cluster or --at, not both")
    if not at:
        return read_file(cluster_path(cluster))
    for address in at:
        try:
            parse_address(address, "--at")
        except ConfigError as error:
            raise UsageError(str(error)) from None
    places: list[RegionAddress] = []
    down: dict[int, Unreachable] = {}
    refused: list[WrongPassword] = []
    unnamed: dict[int, str] = {}
    lives: dict[int, str] = {}
    for place, address in enumerate(at):
        try:
            with RegionClient(address, password=password) as client:
                facts = client.facts()
        except Unreachable as error:
            if not some_down:
                raise
            down[place] = error
            places.append(RegionAddress(address, 0, address))
            continue
        except WrongPassword as error:
            refused.append(error)
            continue
        region_id = int(facts["crdt_region_id"])
        same = next((one for one in places if one.region_id == region_id), None)
        if same is not None:
            raise _same_region(same, address, lives[region_id] == facts.get("crdt_life", ""))
        lives[region_id] = facts.get("crdt_life", "")
        places.append(RegionAddress(facts["crdt_region_name"], region_id, address))
        unnamed |= members_of(facts)
    if refused:
        raise WrongPassword.of_all(refused)
    if len(down) == len(at):
        raise CliError("\n  ".join(["no region answers:", *map(str, down.values())]))
    for found in places:
        unnamed.pop(found.region_id, None)
    if len(down) == 1 and len(unnamed) == 1:
        (place,) = down
        ((places[place].region_id, places[place].name),) = unnamed.items()
    return places


def require_regions(
    places: list[RegionAddress], password: str | None, *, some_down: bool = False
) -> None:
    """Asks each region of a cluster file whether it is the one that the file names.

    With ``--at``, `find` has asked them.

    `some_down`: a region that does not answer may come later.

    Raises:
        CliError: A region is another one, or does not answer; regions refuse the password, all of
            which the error names.
    """
    refused: list[WrongPassword] = []
    for place in places:
        try:
            with place.client(password) as client:
                client.info("crdt")
        except Unreachable:
            if not some_down:
                raise
        except WrongPassword as error:
            refused.append(error)
    if refused:
        raise WrongPassword.of_all(refused)


def named(places: list[RegionAddress], name: str) -> RegionAddress:
    """The region with that name or id, otherwise with that name in another case.

    UsageError, with the names there are, if no region matches.
    """
    for place in places:
        if place.name == name or str(place.region_id) == name:
            return place
    for place in places:
        if place.name.lower() == name.lower():
            return place
    raise UsageError(
        f"no region '{name}' here; there are {', '.join(place.name for place in places)}"
    )


def tell_all(
    places: list[RegionAddress],
    password: str | None,
    words: tuple[str, ...],
    said: str,
    done: str,
    as_json: bool,
) -> None:
    """Gives every region a command, and prints how each took it.

    `said` is what a region does from then on, `done` what has happened to it, for the error.
    Raises CliError, which names the regions that must be told again.
    """
    failed: dict[str, str] = {}
    for place in places:
        try:
            with place.client(password) as client:
                client.call(*words)
        except CliError as error:
            failed[place.name] = str(error)
        if not as_json:
            print(f"{place.name}: {failed.get(place.name, said)}", flush=True)
    if as_json:
        rows = [
            {"name": one.name, done: one.name not in failed, "error": failed.get(one.name)}
            for one in places
        ]
        print_json({"regions": rows, "problems": list(failed.values())})
    if failed:
        raise ProblemsTold(
            f"not {done}: {', '.join(failed)}; repeat the command once these regions answer it"
        )
