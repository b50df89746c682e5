"""`anabranch whatif region-lost`: what would be lost, and delivered again, without one region.

This module carries the questions; `study.whatif` asks them and draws the conclusions.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Annotated, Any, Final, Optional

import typer

from anabranch.cli.addresses import (
    AtOption,
    ClusterOption,
    PasswordOption,
    RegionAddress,
    find,
    named,
)
from anabranch.cli.client import RegionClient
from anabranch.cli.errors import CliError, Unreachable, UsageError
from anabranch.cli.forks import Fork, forks_of, told
from anabranch.cli.lost import lost_regions
from anabranch.cli.printing import JsonOption, print_json
from anabranch.cli.terminal import width, wrapped
from anabranch.study.whatif.answer import Answer, answer
from anabranch.study.whatif.as_json import as_json as json_of
from anabranch.study.whatif.asking import Bounds, Words, survey
from anabranch.study.whatif.sentences import AnswerText

# Commands that are sent before their replies are read.
_PIPELINE: Final = 100
# With fewer keys, no progress is shown.
_PROGRESS_KEYS: Final = 1000


class _Regions:
    """The connections to the regions that answer, and the names of all members."""

    def __init__(
        self, places: list[RegionAddress], password: Optional[str], stack: ExitStack
    ) -> None:
        self.clients: Final[dict[int, RegionClient]] = {}
        self.names: Final[dict[int, str]] = {
            place.region_id: place.name for place in places if place.region_id
        }
        self.forks: Final[list[Fork]] = []
        self.silent: Final[list[str]] = []
        for place in places:
            client = place.client(password)
            try:
                facts = client.info("crdt")
                self.clients[int(facts["crdt_region_id"])] = stack.enter_context(client)
                self.names.update(client.members())
                self.forks.extend(forks_of(client, facts["crdt_region_name"]))
            except Unreachable as error:
                self.silent.append(str(error))
        if not self.clients:
            raise CliError("\n  ".join(["no region answers:", *self.silent]))

    def ask(self, region: int, commands: Sequence[Words]) -> list[Any]:
        """The reply of a region to each command."""
        replies: list[Any] = []
        for start in range(0, len(commands), _PIPELINE):
            replies += self.clients[region].raw_many(commands[start : start + _PIPELINE])
        return replies


def region_lost(
    region: Annotated[
        str, typer.Argument(metavar="REGION", help="The region to do without.", show_default=False)
    ],
    to: Annotated[
        Optional[str],
        typer.Option(
            "--to",
            metavar="NAME",
            help="The region to which clients would go. [default: tell it for every other one]",
        ),
    ] = None,
    keys: Annotated[
        int,
        typer.Option("--keys", metavar="N", help="Most keys, beside those of lost effects.", min=1),
    ] = 10_000,
    listed: Annotated[
        int, typer.Option("--ids", metavar="N", help="List no more than N IDs at a time.", min=1)
    ] = 10,
    as_json: JsonOption = False,
    cluster: ClusterOption = None,
    at: AtOption = None,
    password: PasswordOption = None,
) -> None:
    """Tell the consequences if a region vanished now, with its disk.

    Entries, removals, groups, deadlines and idempotent pairs that it alone has would be lost, and
    so would acknowledgements that it has not announced. Clients that fail over would be delivered
    entries again. Nothing is changed: the regions are only asked. The answer begins with the forks,
    if there are any: there, counters do not compare, and the answer may tell too little.
    """
    places = find(cluster, at, password, some_down=True)
    with ExitStack() as stack:
        regions = _Regions(places, password, stack)
        lost = _id_of(regions, region)
        # What regions hold that were said to be lost is not in the cluster any more.
        gone = lost_regions(regions.clients.values())
        others = [one for one in sorted(regions.clients) if one != lost and one not in gone]
        if not others:
            but = " that was not said to be lost" if gone - {lost} else ""
            raise CliError(
                f"no other region than {regions.names[lost]} answers{but}, so nobody tells which"
                " effects it alone has"
            )
        targets = others
        if to is not None:
            target = _id_of(regions, to)
            if target == lost:
                raise UsageError(f"--to must name another region than {regions.names[lost]}")
            if target not in others:
                why = "was said to be lost" if target in gone else "does not answer"
                raise CliError(f"{regions.names[target]} {why}: clients cannot go there")
            targets = [target]
        found = survey(
            regions.ask, lost, lost in regions.clients, others, Bounds(keys=keys), _progress
        )
        found_out = answer(found, targets, regions.names, listed)
    _show(found_out, regions, as_json)


def _show(found_out: Answer, regions: _Regions, as_json: bool) -> None:
    """Prints the answer, after the forks that keep counters from being compared."""
    problems = told(regions.forks, "more may be lost than this says")
    if as_json:
        facts = json_of(found_out)
        facts["forks"] = [fork.as_json() for fork in regions.forks]
        facts["problems"] = [*problems, *regions.silent]
        print_json(facts)
    else:
        print("\n".join(wrapped([*problems, *AnswerText(found_out).lines()], width())))


def _id_of(regions: _Regions, name: str) -> int:
    """The region_id of a region, whether it answers or not; CliError if there is none."""
    members = [RegionAddress(its, one, "") for one, its in sorted(regions.names.items())]
    return named(members, name).region_id


def _progress(done: int, total: int) -> None:
    """A line that is written over, on a terminal and for many keys."""
    if total >= _PROGRESS_KEYS and sys.stderr.isatty():
        end = "\n" if done == total else ""
        print(f"\r{done} of {total} keys", end=end, file=sys.stderr, flush=True)
