"""`anabranch up`: a cluster on this machine, with one process per region.

It writes `cluster.toml` into its data directory, starts ``anabranch serve`` for each region with
its own log file, waits until all regions answer and receive from each other, prints suggested
commands, and watches the processes until a signal ends it.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Optional

import typer

from anabranch import build
from anabranch.cli.addresses import (
    DEFAULT_DATA,
    FILE_NAME,
    RegionAddress,
    read_file,
    toxiproxy_address,
    write_file,
)
from anabranch.cli.console import DEFAULT_PORT, page_address
from anabranch.cli.errors import CliError, UsageError
from anabranch.cli.files import placed
from anabranch.cli.ports import listen_error
from anabranch.cli.serve import locked
from anabranch.cli.supervisor import Console, RegionProcess, Supervisor
from anabranch.cluster.processes import serve_words
from anabranch.console.login import Login, WrongToken, given_token, new_token
from anabranch.crdt.ids import REGION_ID_MAX
from anabranch.plural import counted
from anabranch.region.config import IDENTITY, load
from anabranch.region.config import read_file as read_settings
from anabranch.region.engine.errors import StorageError
from anabranch.region.environment import CONFIG_VARIABLE
from anabranch.region.live.stored_identity import StoredIdentity, read_identity
from anabranch.region.option_values import (
    MEMBERS_MAX,
    Address,
    ConfigError,
    listed_members,
    parse_members,
)

HOST = "127.0.0.1"
CLUSTER = "local"
DEFAULT_REGIONS = "us,eu,ap"


def plan(regions: str, resp_port: int, sync_port: int, http_port: int) -> list[RegionAddress]:
    """The regions and their addresses; ports count up from the first ones.

    `regions` is ``us,eu,ap``, or with ids ``us=1,eu=5``. UsageError if it is wrong.
    """
    names = [name.strip() for name in regions.split(",")]
    text = regions if "=" in regions else ",".join(f"{name}={n}" for n, name in enumerate(names, 1))
    try:
        members = parse_members(text, "--regions")
    except ConfigError as error:
        raise UsageError(str(error).replace("us=1,eu=2,ap=3", "us,eu,ap")) from None
    assert len(members) <= MEMBERS_MAX and max(members.values()) <= REGION_ID_MAX
    for flag, port in (
        ("--resp-port", resp_port),
        ("--sync-port", sync_port),
        ("--http-port", http_port),
    ):
        if not 1 <= port <= 65536 - len(members):
            ports = counted(len(members), "port")
            raise UsageError(f"{flag} must leave room for {ports} below 65536, not {port}")
    places = [
        RegionAddress(
            name,
            region_id,
            f"{HOST}:{resp_port + n}",
            f"{HOST}:{sync_port + n}",
            f"{HOST}:{http_port + n}",
        )
        for n, (name, region_id) in enumerate(members.items())
    ]
    _check_overlap(places)
    return places


def _check_overlap(places: list[RegionAddress]) -> None:
    """UsageError if a port would serve two purposes; the text names both."""
    used: dict[str, tuple[str, str]] = {}
    for place in places:
        for flag, address in (
            ("--resp-port", place.resp),
            ("--sync-port", place.sync),
            ("--http-port", place.http),
        ):
            if address in used:
                former, name = used[address]
                port = address.rpartition(":")[2]
                raise UsageError(
                    f"{former} and {flag} overlap: port {port} would be that of {name} and of"
                    f" {place.name}; each flag needs {counted(len(places), 'port')} from its first"
                    " one on"
                )
            used[address] = flag, place.name


def serve_command(
    place: RegionAddress,
    places: list[RegionAddress],
    data: Path,
    extra: list[str],
    is_first_start: bool = False,
) -> list[str]:
    """The command line that serves one region of the plan."""
    words = serve_words(
        CLUSTER,
        ((each.name, each.region_id) for each in places),
        place.name,
        (place.resp, place.sync, place.http),
        ((each.name, each.sync) for each in places if each is not place),
        data / place.name,
        is_first_start,
    )
    return [*build.command(), *words, *extra]


def check_ports(places: list[RegionAddress]) -> None:
    """CliError if ports are taken: names each, the process that holds it, and the flag for it."""
    taken = []
    for place in places:
        for flag, address in (
            ("--resp-port", place.resp),
            ("--sync-port", place.sync),
            ("--http-port", place.http),
        ):
            reason = listen_error(Address(*_split(address)))
            if reason:
                taken.append(
                    f"  {place.name}: {reason}; end that process, or move anabranch with {flag}"
                )
    if taken:
        raise CliError("\n".join(["cannot start the cluster:", *taken]))


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


_Regions = Annotated[
    Optional[str],
    typer.Option(
        "--regions",
        metavar="us,eu,ap",
        help="Names of the regions."
        f" [default: those of the data directory, else {DEFAULT_REGIONS}]",
    ),
]
_Data = Annotated[
    Optional[Path],
    typer.Option(
        "--data", metavar="DIR", help=f"Directory of data and logs. [default: {DEFAULT_DATA}]"
    ),
]
_Ephemeral = Annotated[
    bool,
    typer.Option("--ephemeral", help="Keep data in a temporary directory, removed at the end."),
]
_IdMode = Annotated[
    Optional[str],
    typer.Option("--id-mode", metavar="strict|semi-strict|liberal", help="IDs that XADD accepts."),
]
_Appendfsync = Annotated[
    Optional[str],
    typer.Option("--appendfsync", metavar="always|everysec|no", help="When a client is answered."),
]
_Config = Annotated[
    Optional[Path],
    typer.Option(
        "--config", metavar="FILE.toml", help="Settings for every region (docs/settings.md)."
    ),
]
_RespPort = Annotated[
    int, typer.Option("--resp-port", metavar="PORT", help="First port for Redis clients.")
]
_SyncPort = Annotated[
    int, typer.Option("--sync-port", metavar="PORT", help="First port for other regions.")
]
_HttpPort = Annotated[
    int,
    typer.Option(
        "--http-port", metavar="PORT", help="First port for /metrics, /health and /ready."
    ),
]

_LogFormat = Annotated[
    Optional[str],
    typer.Option(
        "--log-format", metavar="text|json", help="Lines of the logs of regions and console."
    ),
]
_Tls = Annotated[
    bool,
    typer.Option(
        "--tls", help="TLS between the regions, with certificates made at the first such start."
    ),
]
_NoConsole = Annotated[bool, typer.Option("--no-console", help="Start the regions only.")]
_ConsolePort = Annotated[
    int,
    typer.Option(
        "--console-port", metavar="PORT", min=1, max=65535, help="Port of the console's page."
    ),
]


def up(
    regions: _Regions = None,
    data: _Data = None,
    ephemeral: _Ephemeral = False,
    id_mode: _IdMode = None,
    appendfsync: _Appendfsync = None,
    config: _Config = None,
    resp_port: _RespPort = 7001,
    sync_port: _SyncPort = 7101,
    http_port: _HttpPort = 7201,
    no_console: _NoConsole = False,
    console_port: _ConsolePort = DEFAULT_PORT,
    log_format: _LogFormat = None,
    tls: _Tls = False,
) -> None:
    """Start a cluster on this machine, one process per region, and the console.

    Prints commands to try. Ctrl-C stops the cluster.
    """
    if ephemeral and data is not None:
        raise UsageError("give --data or --ephemeral, not both")
    given = {"--id-mode": id_mode, "--appendfsync": appendfsync, "--log-format": log_format}
    extra = [part for flag, value in given.items() if value is not None for part in (flag, value)]
    if config is None and os.environ.get(CONFIG_VARIABLE):
        config = Path(os.environ[CONFIG_VARIABLE])
    if config is not None:
        config = config.resolve()
        extra += ["--config", str(config)]
    with ExitStack() as stack:
        if ephemeral:
            directory = Path(tempfile.mkdtemp(prefix="anabranch-"))
            stack.callback(shutil.rmtree, directory, ignore_errors=True)
        else:
            directory = data or DEFAULT_DATA
        stack.enter_context(locked(directory, "up.lock", "an `anabranch up`"))
        places = _planned(directory, regions, resp_port, sync_port, http_port)
        password = _check_settings(places, directory, extra)
        check_ports(places)
        # The user wrote this table, if there is one: it stays when the rest is written again.
        file = directory / FILE_NAME
        toxiproxy = toxiproxy_address(file, None) if file.exists() else None
        with placed(directory):
            write_file(file, CLUSTER, places, config, toxiproxy)
        is_new = not any((directory / place.name).exists() for place in places)
        words = _tls_words(directory, places) if tls else {}
        processes = [
            RegionProcess(
                place,
                serve_command(place, places, directory, extra + words.get(place.name, []), is_new),
                directory / f"{place.name}.log",
            )
            for place in places
        ]
        console = None if no_console else _console(places, file, console_port, log_format)
        shown_data = None if directory == DEFAULT_DATA else directory
        code = Supervisor(processes, directory, shown_data, password, console).run()
    raise typer.Exit(code)


def _tls_words(directory: Path, places: list[RegionAddress]) -> dict[str, list[str]]:
    """The flags with which each region uses its certificate."""
    # The import takes some 50 ms, which clusters without TLS do not need.
    from anabranch.cli.up_certificates import tls_words

    return tls_words(directory, CLUSTER, [place.name for place in places])


def _console(
    places: list[RegionAddress], file: Path, port: int, log_format: Optional[str]
) -> Console | None:
    """The console of a cluster; None if its port is taken, which is reported."""
    listen = Address(HOST, port)
    taken = {each for place in places for each in (place.resp, place.sync, place.http)}
    reason = f"port {port} is that of a region" if str(listen) in taken else listen_error(listen)
    if reason:
        print(
            f"anabranch: the console does not start: {reason}; the regions do. Move it with"
            " --console-port, or start it later with `anabranch console --listen`",
            file=sys.stderr,
            flush=True,
        )
        return None
    line = [*build.command(), "console", "--cluster", str(file), "--listen", str(listen)]
    line += [] if log_format is None else ["--log-format", log_format]
    # The log of a region has its name.
    is_taken = any(place.name == "console" for place in places)
    log = "console-page.log" if is_taken else "console.log"
    try:
        token = given_token(None) or new_token()
    except WrongToken as error:
        raise UsageError(str(error)) from None
    return Console(Login(token, page_address(listen)), line, file.parent / log)


def _planned(
    directory: Path, regions: Optional[str], resp_port: int, sync_port: int, http_port: int
) -> list[RegionAddress]:
    """The regions asked for, otherwise those of the data directory, otherwise the default ones.

    CliError if the directory belongs to other regions.
    """
    known = _known(directory)
    remembered = ",".join(f"{name}={region_id}" for name, region_id in known.items())
    places = plan(regions or remembered or DEFAULT_REGIONS, resp_port, sync_port, http_port)
    if known and known != {place.name: place.region_id for place in places}:
        raise CliError(
            f"{directory} belongs to the regions {remembered}: start it with these, "
            "or take another --data"
        )
    return places


def _known(directory: Path) -> dict[str, int]:
    """Region name → region_id of the cluster in a data directory; empty for a new directory.

    Without `cluster.toml`, the databases of the regions tell the members.

    Raises:
        CliError: `cluster.toml` is wrong, or the directory holds regions of different clusters.
    """
    if (directory / FILE_NAME).exists():
        return {place.name: place.region_id for place in read_file(directory / FILE_NAME)}
    found: dict[str, StoredIdentity] = {}
    for folder in sorted(directory.iterdir()):
        try:
            identity = read_identity(folder) if folder.is_dir() else None
        except StorageError as error:
            raise CliError(str(error)) from None
        if identity is not None:
            found[folder.name] = identity
    clusters = {(one.cluster, tuple(sorted(one.members.items()))) for one in found.values()}
    strangers = [name for name, one in found.items() if one.name != name or one.cluster != CLUSTER]
    if len(clusters) > 1 or strangers:
        listed = "; ".join(
            f"{directory / name} is region {one.name} of cluster {one.cluster} with the members"
            f" {listed_members(one.members)}"
            for name, one in found.items()
        )
        raise CliError(
            f"{directory} has no {FILE_NAME}, and regions that `anabranch up` cannot start"
            f" together: {listed}; take another --data"
        )
    return next(iter(found.values())).members if found else {}


def _check_settings(places: list[RegionAddress], directory: Path, extra: list[str]) -> str | None:
    """Finds mistakes in the settings before any process starts; returns the regions' password."""
    flags = {extra[n].removeprefix("--"): extra[n + 1] for n in range(0, len(extra), 2)}
    file = flags.pop("config", None)
    members = ",".join(f"{place.name}={place.region_id}" for place in places)
    first = places[0]
    identity = {
        "cluster": CLUSTER,
        "members": members,
        "name": first.name,
        "resp": first.resp,
        "sync": first.sync,
        "data": str(directory),
        "peer": [f"{place.name}@{place.sync}" for place in places[1:]],
    }
    try:
        given = sorted(read_settings(Path(file)).keys() & IDENTITY.keys()) if file else []
        if given:
            raise UsageError(
                f"{file}: {', '.join(given)}: `anabranch up` gives each region its own;"
                " leave that out, and see `anabranch up --help`"
            )
        config = load({**flags, **identity}, os.environ, Path(file) if file else None)
    except ConfigError as error:
        raise UsageError(str(error)) from None
    # The regions write them into their logs.
    for warning in config.warnings:
        print(f"anabranch: {warning}", file=sys.stderr)
    return config.settings.text("requirepass") or None
