"""`anabranch console`: regions, links and streams in the browser.

This module finds the cluster, and brings the console the links as `anabranch link` changes them.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Final, Optional

import typer

from anabranch.cli.addresses import AtOption, ClusterOption, PasswordOption, find, require_regions
from anabranch.cli.errors import CliError, UsageError
from anabranch.cli.link_control import Condition, Direction, change, condition_of
from anabranch.cli.links import Links, healed
from anabranch.cli.ports import listen_error
from anabranch.cluster.toxiproxy import ToxiproxyError
from anabranch.console.links import LinkChange, LinkError, OutsideCondition
from anabranch.console.login import VARIABLE, WrongToken, given_token
from anabranch.log_lines import FORMATS
from anabranch.region.option_values import Address, ConfigError, parse_address

_log: Final = logging.getLogger("anabranch.console")

DEFAULT_PORT: Final = 7300
DEFAULT_LISTEN: Final = f"127.0.0.1:{DEFAULT_PORT}"


_Listen = Annotated[
    str, typer.Option("--listen", metavar="HOST:PORT", help="Where the browser finds the console.")
]
_Host = Annotated[
    Optional[list[str]],
    typer.Option("--host", metavar="NAME", help="A further name of this console; one for each."),
]
_AllowWrite = Annotated[
    bool,
    typer.Option(
        "--allow-write",
        help="Let everyone who reaches the console write. [default: only with a loopback address]",
    ),
]
_ReadOnly = Annotated[
    bool, typer.Option("--read-only", help="Let nobody write, not even on this machine.")
]
_LogFormat = Annotated[
    str,
    typer.Option(
        "--log-format",
        metavar="text|json",
        envvar="ANABRANCH_LOG_FORMAT",
        help="Lines of the console's log, on stderr: text, or a JSON object each.",
    ),
]


_TokenFile = Annotated[
    Optional[Path],
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="File with the token that opens the page, as a line."
        f" [default: {VARIABLE}, else a new one for each browser]",
    ),
]
_Url = Annotated[
    Optional[str],
    typer.Option(
        "--url", metavar="URL", help="The address of the page to print. [default: that of --listen]"
    ),
]
_ANY_HOST: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def page_address(listen: Address) -> str:
    """The address of the page, for a browser on this machine."""
    return f"http://{Address(_ANY_HOST.get(listen.host, listen.host), listen.port)}"


def console(
    cluster: ClusterOption = None,
    at: AtOption = None,
    listen: _Listen = DEFAULT_LISTEN,
    host: _Host = None,
    allow_write: _AllowWrite = False,
    read_only: _ReadOnly = False,
    token_file: _TokenFile = None,
    url: _Url = None,
    password: PasswordOption = None,
    log_format: _LogFormat = "text",
) -> None:
    """Show regions, links and streams in the browser, live.

    The page explains why entries and groups are or are not there, cuts and heals links, and has a
    command line for every region. It opens with the token in the address that this command prints.
    On an address that other machines reach, it only reads unless --allow-write is given. Ctrl-C
    ends it.
    """
    # Imported here: the imports take long, and the other commands do not need them.
    from anabranch.console.app import Console
    from anabranch.console.login import Login
    from anabranch.console.regions import Place
    from anabranch.console.security import is_loopback
    from anabranch.console.server import serve

    if allow_write and read_only:
        raise UsageError("give --allow-write or --read-only, not both")
    if log_format not in FORMATS:
        raise UsageError(f"--log-format must be one of: {', '.join(FORMATS)}; not '{log_format}'")
    try:
        listens = parse_address(listen, "--listen")
        token = given_token(token_file)
    except (ConfigError, WrongToken) as error:
        raise UsageError(str(error)) from None
    if not listens.port:
        raise UsageError("--listen needs a port, by which the browser finds the page: 0 is none")
    places = find(cluster, at, password, some_down=True)
    if not at:
        require_regions(places, password, some_down=True)
    reason = listen_error(listens)
    if reason:
        raise CliError(f"cannot serve the console: {reason}; take another address with --listen")
    writes = not read_only and (allow_write or is_loopback(listens.host))
    controller = CliLinks(cluster, at, password)
    served = Console(
        [
            Place(place.name, place.region_id, parse_address(place.resp, place.name))
            for place in places
        ],
        password,
        controller,
        writes,
    )
    does = "writes" if writes else "only reads"
    address = (url or page_address(listens)).rstrip("/")
    login = Login(token, address, partial(_tell_next, log_format))
    greeting = f"the console is at {login.url} and {does}; Ctrl-C ends it"
    serve(served, listens, host or [], login, greeting, log_format)


def _tell_next(log_format: str, url: str) -> None:
    """Tells the address for the next browser, as the greeting is told."""
    text = f"a browser has opened the console; for another one: {url}"
    if log_format == "json":
        _log.info("%s", text)
    else:
        print(text, flush=True)


class CliLinks:
    """The links as `anabranch link` reads and changes them: a `console.links.LinkController`."""

    def __init__(self, cluster: Path | None, at: list[str] | None, password: str | None) -> None:
        self._cluster: Final = cluster
        self._at: Final = at
        self._password: Final = password
        self.is_outside: Final = Links(cluster, at, password, some_down=True).toxiproxy is not None

    def change(self, wanted: LinkChange) -> None:
        """Changes a link. Raises LinkError."""
        try:
            self._change(wanted)
        except CliError as error:
            raise LinkError(str(error)) from None

    def _change(self, wanted: LinkChange) -> None:
        links = Links(self._cluster, self._at, self._password, some_down=True)
        directions = links.directions(wanted.receiver, wanted.sender, not wanted.both)
        if wanted.action == "heal":
            failed = healed(links, directions, are_named=True)
            if failed:
                raise CliError("; ".join(text for _, text in failed))
        elif wanted.action == "cut":
            change(links.control, directions, lambda found: replace(found, is_cut=True))
        else:
            change(
                links.control, directions, lambda found: replace(found, delay_ms=wanted.delay_ms)
            )

    def outside(self) -> list[OutsideCondition]:
        """The condition of the links at toxiproxy. Raises LinkError."""
        links = Links(self._cluster, self._at, self._password, some_down=True)
        if links.toxiproxy is None:
            return []
        try:
            proxies = links.toxiproxy.proxies()
        except ToxiproxyError as error:
            raise LinkError(str(error)) from None
        found = []
        for direction in links.all_directions():
            proxy = proxies.get(direction.proxy)
            if proxy is not None:
                found.append(_outside(direction, condition_of(proxy)))
        return found


def _outside(direction: Direction, condition: Condition) -> OutsideCondition:
    sender, receiver = direction.sender.name, direction.receiver.name
    return OutsideCondition(sender, receiver, condition.is_cut, condition.delay_ms)
