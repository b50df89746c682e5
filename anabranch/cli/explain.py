"""`anabranch explain` and `anabranch log`: the reasons for a key's state, and its history.

They ask every region of the cluster: the region in question tells its state and its log, and the
logs of the others tell what happened there.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from anabranch.cli.addresses import (
    AtOption,
    ClusterOption,
    PasswordOption,
    RegionAddress,
    find,
    named,
)
from anabranch.cli.client import text
from anabranch.cli.drawn_history import draw_history
from anabranch.cli.errors import CliError, Unreachable, UsageError, WrongPassword
from anabranch.cli.forks import Fork, forks_of, told
from anabranch.cli.keys import EscapedOption, KeyArgument, name_of
from anabranch.cli.printing import JsonOption, print_json
from anabranch.cli.terminal import width, wrapped
from anabranch.crdt import ids
from anabranch.escapes import shown
from anabranch.plural import joined
from anabranch.study.history.as_json import as_json as json_of
from anabranch.study.history.explanation import explain as explanation_of
from anabranch.study.history.sentences import ExplanationText
from anabranch.study.history.timeline import Range
from anabranch.study.history.wording import RegionNames, local_time, story
from anabranch.study.replies.histories import ExplainedHistory, KeyHistory

EVENTS_MAX = 10_000
LogRegionOption = Annotated[
    Optional[str],
    typer.Option(
        "--region",
        metavar="NAME",
        help="The region whose log to read. [default: the first that answers]",
    ),
]
NewestOption = Annotated[
    Optional[int],
    typer.Option(
        "--newest",
        metavar="N",
        help="Show the last N events. [default: 100; with --svg all of them]",
        min=1,
        max=EVENTS_MAX,
    ),
]
SinceOption = Annotated[
    Optional[int],
    typer.Option(
        "--since", metavar="MS", help="Leave out events before this time.", min=0, max=ids.MAX_HALF
    ),
]
UntilOption = Annotated[
    Optional[int],
    typer.Option(
        "--until", metavar="MS", help="Leave out events after this time.", min=0, max=ids.MAX_HALF
    ),
]
EntryIdOption = Annotated[
    Optional[str],
    typer.Option("--id", metavar="ID", help="Of the entries, show only those with this ID."),
]
SvgOption = Annotated[
    Optional[Path],
    typer.Option(
        "--svg",
        metavar="OUT",
        help="Draw the history in all regions that answer, as a space-time diagram (SVG file).",
        show_default=False,
    ),
]


def _checked_id(entry_id: str) -> str:
    """The ID of an entry as typed. UsageError if it is none."""
    try:
        ids.parse(os.fsencode(entry_id))
    except ids.IdError:
        text = f"'{entry_id}' is no ID of an entry: an ID is MS-SEQ, such as 1700-0"
        raise UsageError(text) from None
    return entry_id


def _histories(
    places: list[RegionAddress], password: Optional[str], *command: str | bytes
) -> tuple[list[ExplainedHistory], list[str], list[Fork]]:
    """The replies of the regions that answer, the names of the others, and the forks told."""
    histories: list[ExplainedHistory] = []
    silent: list[str] = []
    forks: list[Fork] = []
    for place in places:
        try:
            with place.client(password) as client:
                histories.append(ExplainedHistory(client.raw(*command)))
                forks += forks_of(client, place.name)
        except Unreachable:
            silent.append(place.name)
    return histories, silent, forks


def explain(
    region: Annotated[
        str, typer.Argument(metavar="REGION", help="The region to ask.", show_default=False)
    ],
    key: KeyArgument,
    entry_id: Annotated[
        Optional[str], typer.Argument(metavar="ID", help="An entry ID.", show_default=False)
    ] = None,
    escaped: EscapedOption = False,
    as_json: JsonOption = False,
    cluster: ClusterOption = None,
    at: AtOption = None,
    password: PasswordOption = None,
) -> None:
    """Explain why entries and groups of a key are, or are not, in a region.

    With an ID: who added the entry, who has it, which command removed it or why it survived a
    delete, and where it was delivered. The reasons come from the logs on the disks of all regions
    that answer, and the answer says how far these go back. It begins with the forks, if there are
    any: there, counters do not compare.
    """
    places = find(cluster, at, password, some_down=True)
    place = named(places, region)
    command: list[str | bytes] = ["CRDT.EXPLAIN", name_of(key, escaped)]
    if entry_id:
        command.append(_checked_id(entry_id))
    with place.client(password) as client:
        asked = ExplainedHistory(client.raw(*command))
        names = client.members()
        forks = forks_of(client, place.name)
    elsewhere = [one for one in places if one is not place]
    others, silent, more = _histories(elsewhere, password, *command)
    explanation = explanation_of(asked, others, silent, names)
    forks += more
    problems = told(forks, "an explanation that combines their logs may be wrong")
    if as_json:
        problems += [f"{name} did not answer" for name in silent]
        facts: Any = json_of(explanation)
        facts |= {"forks": [fork.as_json() for fork in forks], "problems": problems}
        print(json.dumps(facts, indent=2, default=json_of))
    else:
        lines = [*problems, *ExplanationText(explanation).lines()]
        print("\n".join(wrapped(lines, width())))


def log(
    key: KeyArgument,
    region: LogRegionOption = None,
    newest: NewestOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    entry_id: EntryIdOption = None,
    escaped: EscapedOption = False,
    as_json: JsonOption = False,
    svg: SvgOption = None,
    cluster: ClusterOption = None,
    at: AtOption = None,
    password: PasswordOption = None,
) -> None:
    """Tell the history of a key: who changed it, when, with which command.

    A region's log tells the order in which that region applied the changes of all regions, and the
    deliveries to its own consumers. Times are those of its clock; --since and --until are ms since
    1970. --svg draws the logs of all regions in one diagram of at most 250 events; --since,
    --until, --newest and --id choose a part.
    """
    if since is not None and until is not None and until < since:
        raise UsageError("--until is before --since")
    if svg is not None and (region is not None or as_json):
        raise UsageError("--svg draws all regions: leave --region and --json out")
    name = name_of(key, escaped)
    if entry_id is not None:
        _checked_id(entry_id)
    places = find(cluster, at, password, some_down=True)
    if svg is not None:
        part = Range(since, until, newest, entry_id or "")
        draw_history(places, password, name, part, svg)
        print(f"drawn: {svg}")
        return
    command: list[str | bytes] = ["CRDT.HISTORY", name, "NEWEST", str(newest or 100)]
    for word, value in (("ID", entry_id), ("SINCE", since), ("UNTIL", until)):
        if value is not None:
            command += [word, os.fsencode(str(value))]
    reply, names, failed = _reply(places, region, password, command)
    history = KeyHistory(reply)
    if as_json:
        print_json(log_as_json(history, text(reply)["events"], names) | {"problems": failed})
    else:
        chosen = entry_id is not None or since is not None or until is not None
        print("\n".join(wrapped(_log_lines(history, RegionNames(names), chosen), width())))


def log_as_json(history: KeyHistory, events: list[Any], names: dict[int, str]) -> dict[str, Any]:
    """`events` are those of the reply, as text: JSON shows them as the region tells them."""
    return {
        "key": shown(history.key),
        "region": history.region,
        "regions": {str(region_id): name for region_id, name in sorted(names.items())},
        "log_since_ms": history.since_ms or None,
        "log_floor": history.floor,
        "left_out": history.left_out,
        "events": events,
    }


def _log_lines(history: KeyHistory, names: RegionNames, chosen: bool) -> list[str]:
    """The lines; `chosen`: only a part of the history was asked for."""
    lines = story(history, names)
    region = history.region
    if history.left_out:
        lines.insert(0, f"… {history.left_out} older events; --newest N shows more")
    if not lines:
        lines.append(f"{region} has no {'such ' if chosen else ''}event of {shown(history.key)}")
    if history.floor:
        lines.append(f"The log of {region} goes back to {local_time(history.since_ms)}.")
    return lines


def _reply(
    places: list[RegionAddress],
    region: Optional[str],
    password: Optional[str],
    command: list[str | bytes],
) -> tuple[Any, dict[int, str], list[str]]:
    """The history as one region replies it, the names of all regions, and the errors of others.

    Raises:
        CliError: The region, or without a name every region, does not answer.
    """
    failed: list[str] = []
    for place in places if region is None else [named(places, region)]:
        try:
            with place.client(password) as client:
                return client.raw(*command), client.members(), failed
        except WrongPassword:
            raise  # One password opens all regions.
        except CliError as error:
            failed.append(str(error))
    raise CliError(joined(failed))
