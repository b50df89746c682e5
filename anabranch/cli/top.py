"""`anabranch top`: throughput, lag and contents of all regions, live in the terminal."""

from __future__ import annotations

import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, Final

import typer

from anabranch.answers import links_of
from anabranch.cli.addresses import AtOption, ClusterOption, PasswordOption, RegionAddress, find
from anabranch.cli.errors import CliError
from anabranch.cli.interrupting import Interruption
from anabranch.cli.printing import print_json
from anabranch.cli.terminal import coloured, harmless, seconds, table
from anabranch.plural import counted

# A region that does not answer in this time is shown as unreachable.
_PATIENCE_S: Final = 2.0
# Names in JSON → fields of INFO, in the order of the columns.
_RATES: Final = {
    "commands": "total_commands_processed",
    "new_effects": "crdt_effects_issued",
    "received_effects": "crdt_effects_merged",
}
_FIGURES: Final = {
    "entries": "crdt_entries",
    "pending": "crdt_pending_entries",
    "clients": "connected_clients",
    "memory_bytes": "used_memory_rss",
}
_UNITS: Final = ("", "k", "M", "G", "T")


class Sample:
    """The INFO of one region at one moment; `error` instead if it does not answer."""

    def __init__(self, place: RegionAddress, at_s: float) -> None:
        self.place = place
        self.at_s = at_s
        self.info: dict[str, str] = {}
        self.error = ""
        self.error_state = "unreachable"

    @property
    def state(self) -> str:
        """The state of the region in a word."""
        if self.error:
            return self.error_state
        return self.info.get("crdt_state", "?")

    def number(self, field: str) -> int:
        """A field of INFO as a number; 0 if it is missing."""
        text = self.info.get(field, "0")
        return int(text) if text.isdigit() else 0

    def links(self) -> list[dict[str, str]]:
        """The links of the region: the parts of each ``crdt_link…`` line."""
        return links_of(self.info)


def sample(place: RegionAddress, password: str | None) -> Sample:
    """Asks one region."""
    made = Sample(place, time.monotonic())
    try:
        with place.client(password, _PATIENCE_S) as client:
            made.info = client.info("default")
    except CliError as error:
        made.error = str(error)
        made.error_state = error.region_state
    made.at_s = time.monotonic()
    return made


def sample_all(places: list[RegionAddress], password: str | None) -> list[Sample]:
    """Asks all regions at the same time."""
    with ThreadPoolExecutor(max_workers=len(places)) as pool:
        return list(pool.map(lambda place: sample(place, password), places))


def short(number: float) -> str:
    """A number of at most five characters, such as ``999``, ``1.2k`` or ``123M``."""
    size = float(number)
    for unit in _UNITS:
        if size < 999.5 or unit == _UNITS[-1]:
            break
        size /= 1000
    return f"{size:.1f}{unit}" if unit and size < 99.95 else f"{size:.0f}{unit}"


def grown(before: Sample, after: Sample, field: str) -> float:
    """The growth of a counter per second. A region that was started again counts from 0."""
    count = max(after.number(field) - before.number(field), 0)
    return count / max(after.at_s - before.at_s, 0.001)


def rate(before: Sample, after: Sample, field: str) -> str:
    """The growth of a counter per second; empty if the region did not answer both times."""
    return "" if before.error or after.error else short(grown(before, after, field))


def screen(before: list[Sample], after: list[Sample], width: int | None) -> list[str]:
    """The lines to show, for a terminal of `width` columns; None: of any width."""
    down = sum(1 for one in after if one.error)
    head = f"{counted(len(after), 'region')}, {down} not answering"
    heads = ["region", "state", "cmds/s", "new/s", "recv/s", "entries", "pending", "cli", "mem"]
    rows = [
        [
            new.place.name,
            new.state,
            *(rate(old, new, field) for field in _RATES.values()),
            *("" if new.error else short(new.number(field)) for field in _FIGURES.values()),
        ]
        for old, new in zip(before, after, strict=True)
    ]
    lines = [head, "", *table(heads, rows, frozenset(range(2, len(heads))), width)]
    links = _links(after)
    if links:
        heads = ["region", "receives from", "link", "behind", "for"]
        lines += ["", *table(heads, links, frozenset({3, 4}), width)]
    errors = [new.error for new in after if new.error]
    return [*lines, *([""] if errors else []), *errors]


def _links(samples: list[Sample]) -> list[list[str]]:
    return [
        [
            one.place.name,
            link.get("name", "?"),
            link.get("state", "?"),
            short(int(link["behind"])) if link.get("behind", "").isdigit() else "?",
            seconds(link.get("behind_ms", "")),
        ]
        for one in samples
        for link in one.links()
        if link.get("state") != "none"
    ]


def _as_json(before: list[Sample], after: list[Sample]) -> dict[str, Any]:
    """One look for programs. Rates are per second; null where the region did not answer."""
    return {
        "regions": [
            {
                "name": new.place.name,
                "state": new.state,
                "rates": {
                    name: None if old.error or new.error else grown(old, new, field)
                    for name, field in _RATES.items()
                },
                "figures": {
                    name: None if new.error else new.number(field)
                    for name, field in _FIGURES.items()
                },
                "links": new.links(),
            }
            for old, new in zip(before, after, strict=True)
        ],
        "problems": [new.error for new in after if new.error],
    }


def top(
    once: bool = typer.Option(False, "--once", help="Print one screen and end, for pipes."),
    json: Annotated[
        bool, typer.Option("--json", help="Print one look as JSON, for programs, and end.")
    ] = False,
    interval: float = typer.Option(
        1.0, "--interval", min=0.1, max=3600, help="Seconds between two looks."
    ),
    cluster: ClusterOption = None,
    at: AtOption = None,
    password: PasswordOption = None,
) -> None:
    """Show throughput, contents and lag of all regions, live. Ctrl-C ends it.

    "new/s" counts effects that clients caused in a region, "recv/s" effects that arrived from
    others. "behind" counts the effects of the region in "receives from" that the one in "region" is
    known to lack, and "for" says since when.

    Exits with 0, with 1 if no region answers or no cluster is found, and with 2 if an argument is
    wrong.
    """
    places = find(cluster, at, password, some_down=True)
    before = sample_all(places, password)
    if all(one.error for one in before):
        raise CliError("\n  ".join(["no region answers:", *(one.error for one in before)]))
    # A terminal that cannot move the cursor shows nothing of a live screen.
    if json:
        time.sleep(interval)
        print_json(_as_json(before, sample_all(places, password)))
        return
    if once or not sys.stdout.isatty() or coloured().is_dumb_terminal:
        time.sleep(interval)
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        print("\n".join(screen(before, sample_all(places, password), width)))
        return
    _live(places, before, interval, password)


def _live(
    places: list[RegionAddress], before: list[Sample], interval: float, password: str | None
) -> None:
    # Imported here, as in the other commands: rich takes long to import.
    from rich.live import Live
    from rich.text import Text

    console = coloured()

    def shown(after: list[Sample]) -> Text:
        lines = screen(before, after, console.width)
        return Text(harmless("\n".join(lines)), no_wrap=True, overflow="crop")

    text = shown(before)
    with Interruption(notes_suspension=True) as interruption:
        while not interruption.is_noted:
            with Live(text, console=console, auto_refresh=False, screen=True) as live:
                while True:
                    interruption.sleep(interval)
                    if interruption.has_signal:
                        break
                    after = sample_all(places, password)
                    text = shown(after)
                    live.update(text, refresh=True)
                    before = after
            if interruption.is_suspension_noted and not interruption.is_noted:
                interruption.suspend()
