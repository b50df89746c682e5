"""`anabranch link status`: what was done to every link, and where."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from anabranch.cli.client import PeerFacts
from anabranch.cli.errors import CliError, ProblemsTold
from anabranch.cli.link_control import Condition, Direction, condition_of, peer_facts
from anabranch.cli.printing import print_json
from anabranch.cli.terminal import harmless, table, width
from anabranch.cluster.toxiproxy import Proxy, Toxiproxy, ToxiproxyError

_HEADS: Final = ("from", "to", "state", "cut by", "delay", "limit", "other toxics", "detail")


@dataclass
class LinkRow:
    """One link. `region` and `toxiproxy`: what was done at each place; None if it is not known."""

    direction: Direction
    # "up", "down", "connecting", "refused", "forked" or "unknown", as the receiver reports it.
    state: str
    detail: str = ""
    region: Condition | None = None
    toxiproxy: Condition | None = None
    errors: list[str] = field(default_factory=list)

    @property
    def cut_by(self) -> list[str]:
        """The places at which the link is cut."""
        places = (("region", self.region), ("toxiproxy", self.toxiproxy))
        return [name for name, found in places if found is not None and found.is_cut]

    @property
    def delay(self) -> str:
        """Such as ``200 ± 20 ms``; the delays of both places add up."""
        found = [one for one in (self.region, self.toxiproxy) if one is not None and one.delay_ms]
        jitter_ms = sum(one.jitter_ms for one in found)
        spread = f" ± {jitter_ms}" if jitter_ms else ""
        return f"{sum(one.delay_ms for one in found)}{spread} ms" if found else ""

    @property
    def limit(self) -> str:
        """Such as ``64000 bytes/s``: the smaller one of the two places."""
        limits = [
            one.limit_bytes_s
            for one in (self.region, self.toxiproxy)
            if one is not None and one.limit_bytes_s
        ]
        return f"{min(limits)} bytes/s" if limits else ""

    @property
    def others(self) -> str:
        """The toxics that `anabranch link` did not add."""
        return ", ".join(self.toxiproxy.others) if self.toxiproxy is not None else ""


def collect(
    directions: list[Direction], server: Toxiproxy | None, password: str | None
) -> list[LinkRow]:
    """A row for each link that exists; a link that no place knows gets none."""
    proxies: dict[str, Proxy] = {}
    failure = ""
    if server is not None:
        try:
            proxies = server.proxies()
        except ToxiproxyError as error:
            failure = str(error)
    rows = []
    for direction in directions:
        proxy = proxies.get(direction.proxy)
        row = _row(direction, proxy, password)
        if failure:
            row.errors.append(failure)
        elif server is not None and proxy is None and row.state != "none":
            row.errors.append(f"toxiproxy has no proxy '{direction.proxy}'")
        if row.state != "none" or proxy is not None:
            rows.append(row)
    return rows


def _row(direction: Direction, proxy: Proxy | None, password: str | None) -> LinkRow:
    outside = condition_of(proxy) if proxy is not None else None
    try:
        peer: PeerFacts = peer_facts(direction, password)
    except CliError as error:
        return LinkRow(direction, "unknown", toxiproxy=outside, errors=[str(error)])
    inside = Condition(peer.link == "down", peer.delay_ms, 0, peer.limit_bytes_s)
    return LinkRow(direction, peer.link, peer.detail, inside, outside)


def as_json(rows: list[LinkRow]) -> list[dict[str, Any]]:
    """The rows for programs."""
    return [
        {
            "from": row.direction.sender.name,
            "to": row.direction.receiver.name,
            "state": row.state,
            "detail": row.detail,
            "cut_by": row.cut_by,
            "region": _plain(row.region),
            "toxiproxy": _plain(row.toxiproxy),
            "errors": row.errors,
        }
        for row in rows
    ]


def _plain(condition: Condition | None) -> dict[str, Any] | None:
    if condition is None:
        return None
    return {
        "cut": condition.is_cut,
        "delay_ms": condition.delay_ms,
        "jitter_ms": condition.jitter_ms,
        "limit_bytes_s": condition.limit_bytes_s,
        "others": list(condition.others),
    }


def show(rows: list[LinkRow], json: bool) -> None:
    """Prints the rows; CliError, after them, with everything that could not be told."""
    if json:
        print_json(as_json(rows))
    else:
        print("\n".join(table(list(_HEADS), [_cells(row) for row in rows], frozenset(), width())))
    errors = list(dict.fromkeys(error for row in rows for error in row.errors))
    if errors:
        raise ProblemsTold("\n  ".join(["not everything could be told:", *errors]))


def _cells(row: LinkRow) -> list[str]:
    cells = (
        row.direction.sender.name,
        row.direction.receiver.name,
        row.state,
        ", ".join(row.cut_by),
        row.delay,
        row.limit,
        row.others,
        "" if row.cut_by == ["region"] else row.detail,
    )
    return [harmless(cell) for cell in cells]
