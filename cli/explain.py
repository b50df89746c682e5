"""`anabranch explain`: the facts of CRDT.EXPLAIN as sentences.

They explain why entries and groups of a key are, or are not, in a region.
"""

from __future__ import annotations

import os
from typing import Annotated, Any, Optional

import typer

from anabranch.cli.addresses import AtOption, ClusterOption, PasswordOption, find, named
from anabranch.cli.client import RegionClient, flat_vector
from anabranch.plural import counted

Facts = dict[str, Any]


class Teller:
    """Turns facts of one region into sentences, with region names for ids."""

    def __init__(self, region: str, names: dict[int, str]) -> None:
        self.region = region
        self.names = names

    def name(self, region_id: int) -> str:
        """A region's name, or its id if the region does not know the name."""
        return self.names.get(int(region_id), f"region {region_id}")

    def vector(self, flat: list[Any]) -> str:
        """A flat vector as ``us up to 5, eu up to 3``."""
        return (
            ", ".join(
                f"{self.name(region_id)} up to {counter}"
                for region_id, counter in flat_vector(flat).items()
            )
            or "nothing"
        )

    def effect(self, dot: list[Any]) -> str:
        """A dot as ``effect 42 of us``."""
        return f"effect {dot[1]} of {self.name(dot[0])}"

    def story(self, facts: Facts) -> list[str]:
        """All sentences, a line each."""
        lines = [self._key(facts), f"{self.region} has applied {self.vector(facts['vector'])}"]
        if "id" in facts:
            lines += self._entry(facts)
        lines += [self._group(group) for group in facts["groups"]]
        lines += [self._tombstone(name, flat) for name, flat in facts["group-tombstones"]]
        lines += [self._deadline(*deadline) for deadline in facts["deadlines"]]
        if facts["removals"]:
            lines.append("removals that touched this key, oldest first:")
            lines += [f"  {self._removal(removal)}" for removal in facts["removals"]]
        return lines

    def _key(self, facts: Facts) -> str:
        key = facts["key"]
        if facts["hidden"]:
            return f"{key} is hidden in {self.region}: its deadline has passed"
        if not facts["exists"]:
            return f"{key} does not exist in {self.region}"
        length = counted(facts["length"], "entry", "entries")
        return f"{key} exists in {self.region}: {length}, last ID {facts['last-id']}"

    def _entry(self, facts: Facts) -> list[str]:
        if not facts["entries"]:
            taken = (
                "a removal below may have removed it"
                if facts["removals"]
                else "a removal that is no longer remembered may have removed it"
            )
            return [
                (
                    f"entry {facts['id']} is not there: {taken},"
                    " or it has not arrived, or was never added"
                )
            ]
        lines = []
        for entry in facts["entries"]:
            lines.append(
                f"entry {facts['id']} is there:"
                f" {self.effect([entry['region_id'], entry['counter']])} added it"
            )
            lines += [
                f"  group {group['name']}: {self._delivery(group)}" for group in entry["groups"]
            ]
        return lines

    def _delivery(self, group: Facts) -> str:
        if group["pending-for"] is not None:
            return f"delivered here to {group['pending-for']}, and not yet acknowledged"
        if group["acked"]:
            return "acknowledged, and announced to the other regions"
        if group["given"]:
            return (
                "delivered here and no longer pending: acknowledged and not yet announced to the"
                " other regions, or dropped with its consumer"
            )
        return (
            "not delivered here yet"
            if group["above-floor"]
            else "never delivered: it is not above the group's floor here"
        )

    def _group(self, group: Facts) -> str:
        start = group["start"]
        begins = (
            f"starts after {start}"
            if isinstance(start, str)
            else f"starts after the entries that its creator had seen: {self.vector(start)}"
        )
        spans = ", ".join(
            f"{self.name(region_id)} {low + 1}–{high}" for region_id, low, high in group["acked"]
        )
        return (
            f"group {group['name']}: created by {self.effect(group['create'])}, {begins};"
            f" acknowledged: {spans or 'nothing'}"
        )

    def _tombstone(self, name: str, flat: list[Any]) -> str:
        what = "every group" if name.startswith("*") else f"group {name}"
        destroys = " and ".join(
            self.effect([region_id, counter]) for region_id, counter in flat_vector(flat).items()
        )
        return (
            f"{what} was destroyed by {destroys}:"
            " a create survives only if its region had applied "
            + ("these" if len(flat) > 2 else "this")
        )

    def _deadline(self, dot: list[Any], at_ms: int | str, wins: int) -> str:
        when = "never expires" if at_ms == "never" else f"expires at {at_ms} ms"
        return f"{when}, set by {self.effect(dot)}" + ("" if wins else " (a longer deadline wins)")

    def _removal(self, removal: Facts) -> str:
        who = (
            f"{removal['command']}{' ' + removal['group'] if removal['group'] else ''},"
            f" {self.effect(removal['dot'])}"
        )
        if removal["dots"]:
            named_dots = ", ".join(self.effect(dot) for dot in removal["dots"][:10])
            return (
                f"{who}: removed the entries added by {named_dots}"
                f"{', …' if len(removal['dots']) > 10 else ''}"
            )
        return (
            f"{who}: removed only effects that it had seen: {self.vector(removal['had-seen'])}"
            if removal["had-seen"]
            else who
        )


def explain(
    region: Annotated[
        str, typer.Argument(metavar="REGION", help="The region to ask.", show_default=False)
    ],
    key: Annotated[str, typer.Argument(metavar="KEY", help="A key.", show_default=False)],
    entry_id: Annotated[
        Optional[str], typer.Argument(metavar="ID", help="An entry ID.", show_default=False)
    ] = None,
    cluster: ClusterOption = None,
    at: AtOption = None,
    password: PasswordOption = None,
) -> None:
    """Explain why entries and groups of a key are, or are not, in a region.

    Shows the dots of entries and groups, the removals, and the effects that each removal had seen.
    """
    place = named(find(cluster, at, password), region)
    with RegionClient(place.resp, place.name, password) as client:
        facts = client.call(
            "CRDT.EXPLAIN", os.fsencode(key), *([os.fsencode(entry_id)] if entry_id else [])
        )
        teller = Teller(place.name, client.members())
    print("\n".join(teller.story(facts)))
