"""`anabranch diff`: the differences between two regions, and their causes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple, Optional

import typer

from anabranch.cli.addresses import AtOption, ClusterOption, PasswordOption, find, named
from anabranch.cli.client import RegionClient
from anabranch.cli.contents import content_of, entries_of, keys_of
from anabranch.cli.errors import UsageError
from anabranch.cli.forks import Fork, forks_of, told
from anabranch.cli.keys import EscapedOption, name_of
from anabranch.cli.printing import JsonOption, print_json
from anabranch.cli.terminal import shell_word, shown
from anabranch.plural import counted

# How often a key is compared while the regions change.
LOOKS = 3
SHOWN_MAX = 20


class Side:
    """One of the two regions: its client, and its vector and digest at the time of a look."""

    def __init__(self, client: RegionClient) -> None:
        self.client = client
        self.name = client.name
        self.vector = client.vector()
        self.digest = client.digest()
        peers = client.peers()
        # The region_ids of the members that this region calls lost.
        self.lost = {peer.region_id for peer in peers if peer.lost}
        # The names of the regions from which this one receives.
        self.linked = {peer.name for peer in peers if peer.link == "up"}
        self.forks = forks_of(client, client.name)

    def looks_again(self) -> bool:
        """Reads the vector again; returns whether it has changed since the last look."""
        former, self.vector = self.vector, self.client.vector()
        return self.vector != former

    def log(self, key: bytes, region_id: int) -> Iterator[Entry]:
        """The entries of one region log, ascending."""
        for entry in entries_of(self.client, key, region_id):
            yield Entry(entry[b"counter"], entry[b"id"].decode(), content_of(entry))


class Entry(NamedTuple):
    """An entry as it is compared. `content`: a hash of its ID and fields."""

    counter: int
    entry_id: str
    content: bytes


def forks_between(left: Side, right: Side) -> list[Fork]:
    """The forks that keep the counters of two regions from being compared.

    If no link between the two tells, a fork of either with a third one may lie between them.
    """
    names = {left.name, right.name}
    forks = [*left.forks, *right.forks]
    direct = [fork for fork in forks if {fork.region, fork.peer} == names]
    if direct or right.name in left.linked or left.name in right.linked:
        return direct
    return forks


class OneSided:
    """An entry that only one region, `holder`, had when its log was read.

    `has_twin`: the other region has another entry under the same dot.
    """

    def __init__(
        self, region_id: int, entry: Entry, holder: Side, other: Side, has_twin: bool = False
    ) -> None:
        self.dot = (region_id, entry.counter)
        self.entry_id = entry.entry_id
        self.holder = holder
        self.other = other
        self.has_twin = has_twin

    def why(self, names: dict[int, str], has_changed: bool, is_forked: bool = False) -> str:
        """The cause, as far as the two vectors show it.

        `has_changed`: a vector has changed while the logs were read. `is_forked`: counters do not
        compare.
        """
        origin, counter = self.dot
        if is_forked:
            return "the two histories are forked"
        if self.has_twin:
            return (
                f"{self.other.name} has another entry under this dot: this is divergence, a fault"
                " of anabranch, or a fork"
            )
        seen = self.other.vector.get(origin, 0)
        if counter > seen and origin in self.other.lost:
            return (
                f"{self.other.name} calls {names.get(origin, origin)} lost, and has its effects up"
                f" to {seen}: it takes no more of them"
            )
        if counter > seen:
            return (
                f"{self.other.name} has not received it yet"
                f" (it has {names.get(origin, origin)}'s effects up to {seen})"
            )
        if has_changed:
            return "the regions have changed while they were compared"
        if self.holder.vector == self.other.vector:
            return (
                "both regions have applied the same effects:"
                " this is divergence, a fault of anabranch"
            )
        return (
            f"{self.other.name} has applied a removal of it"
            f" that {self.holder.name} has not received yet"
        )


def compare_logs(left: Side, right: Side, key: bytes, region_id: int) -> Iterator[OneSided]:
    """The entries of one region log that only one side has, ascending by counter."""
    ours, theirs = left.log(key, region_id), right.log(key, region_id)
    one, other = next(ours, None), next(theirs, None)
    while one is not None or other is not None:
        if other is None or (one is not None and one.counter < other.counter):
            assert one is not None
            yield OneSided(region_id, one, left, right)
            one = next(ours, None)
        elif one is None or other.counter < one.counter:
            yield OneSided(region_id, other, right, left)
            other = next(theirs, None)
        else:
            if one.content != other.content:
                yield OneSided(region_id, one, left, right, has_twin=True)
                yield OneSided(region_id, other, right, left, has_twin=True)
            one, other = next(ours, None), next(theirs, None)


def _alone(left: Side, right: Side, key: bytes) -> tuple[list[OneSided], int]:
    """The first entries of a key that only one side has, and how many there are."""
    found: list[OneSided] = []
    count = 0
    for region_id in sorted(left.vector.keys() | right.vector.keys()):
        for one in compare_logs(left, right, key, region_id):
            count += 1
            if count <= SHOWN_MAX:
                found.append(one)
    return found, count


def _have_changed(left: Side, right: Side) -> bool:
    """Whether one of the vectors has changed since the last look. Both are read again."""
    changes = [side.looks_again() for side in (left, right)]
    return any(changes)


def _all_keys(left: Side, right: Side) -> list[bytes]:
    return sorted({*keys_of(left.client), *keys_of(right.client)})


def _groups(side: Side, key: bytes) -> set[str]:
    if not side.client.raw("EXISTS", key):
        return set()
    return {str(group["name"]) for group in side.client.call("XINFO", "GROUPS", key)}


def _expiry(at_ms: int) -> str:
    return "never" if at_ms == -1 else f"at {at_ms} ms"


class KeyDifference:
    """What two regions hold differently of one key. `more`: entries beyond those of `alone`."""

    def __init__(self, key: bytes, left: Side, right: Side) -> None:
        self.key = key
        self.sides = (left, right)
        # An entry that one side has: that side, entry ID, name of the origin, counter, and why.
        self.alone: list[tuple[str, str, str, int, str]] = []
        self.more = 0
        # (side, group)
        self.groups: list[tuple[str, str]] = []
        # The deadlines of the two sides, if they differ; -1: none.
        self.deadlines: Optional[tuple[int, int]] = None

    def lines(self) -> list[str]:
        """The difference for people, a line each."""
        left, right = self.sides
        made = [
            f"  only {holder}: entry {entry_id}, dot ({origin}, {counter}): {why}"
            for holder, entry_id, origin, counter, why in self.alone
        ]
        if self.more:
            made.append(f"  … and {counted(self.more, 'more entry', 'more entries')}")
        made += [f"  only {side}: group {group}" for side, group in self.groups]
        if self.deadlines is not None:
            ours, theirs = map(_expiry, self.deadlines)
            made.append(f"  expiry: {left.name} {ours}, {right.name} {theirs}")
        word = shell_word(self.key)
        hint = " and ".join(f"`anabranch explain {side.name} {word}`" for side in self.sides)
        return made or [
            (
                "  same entries and groups; header, starts, acknowledgements or hidden deadlines"
                f" differ: compare {hint}"
            )
        ]

    def as_json(self) -> dict[str, Any]:
        """The difference for programs."""
        fields = ("only_in", "id", "origin", "counter", "why")
        made: dict[str, Any] = {
            "key": shown(self.key),
            "entries": [dict(zip(fields, one, strict=True)) for one in self.alone],
            "more_entries": self.more,
            "groups": [{"only_in": side, "group": group} for side, group in self.groups],
        }
        if self.deadlines is not None:
            names = [side.name for side in self.sides]
            made["deadlines_ms"] = dict(zip(names, self.deadlines, strict=True))
        return made


def _compare_key(
    left: Side, right: Side, key: bytes, names: dict[int, str], is_forked: bool = False
) -> Optional[KeyDifference]:
    """The difference in a key; None if the regions have become equal meanwhile."""
    for _ in range(LOOKS):
        alone, count = _alone(left, right, key)
        has_changed = _have_changed(left, right)
        if left.client.digest(key) == right.client.digest(key):
            return None
        if not has_changed:
            break
    found = KeyDifference(key, left, right)
    for one in alone:
        origin, counter = one.dot
        name = str(names.get(origin, origin))
        why = one.why(names, has_changed, is_forked)
        found.alone.append((one.holder.name, one.entry_id, name, counter, why))
    found.more = max(count - SHOWN_MAX, 0)
    ours, theirs = _groups(left, key), _groups(right, key)
    found.groups += [(left.name, group) for group in sorted(ours - theirs)]
    found.groups += [(right.name, group) for group in sorted(theirs - ours)]
    deadlines = [side.client.call("PEXPIRETIME", key) for side in (left, right)]
    if deadlines[0] != deadlines[1] and -2 not in deadlines:
        found.deadlines = (deadlines[0], deadlines[1])
    return found


class Difference:
    """What two regions hold differently: of one key, or of all."""

    def __init__(self, left: Side, right: Side) -> None:
        self.sides = (left, right)
        self.forks = forks_between(left, right)
        # Region → name of another one → the effects of it that only the other side has.
        self.lacks: dict[str, dict[str, int]] = {}
        self.keys: list[KeyDifference] = []
        # The regions differ, and no key shows how.
        self.elsewhere = ""

    @property
    def is_equal(self) -> bool:
        """Whether the regions hold the same."""
        return not self.keys and not self.elsewhere

    def find(self, key: Optional[bytes]) -> None:
        """Compares one key; None: all keys."""
        left, right = self.sides
        names = left.client.members()
        self.find_lacks(names)
        for each in _all_keys(left, right) if key is None else [key]:
            if left.client.digest(each) != right.client.digest(each):
                found = _compare_key(left, right, each, names, bool(self.forks))
                if found is not None:
                    self.keys.append(found)
        if not self.keys and key is None and left.client.digest() != right.client.digest():
            self.elsewhere = (
                "the regions have changed while they were compared: no key differs any more"
                if _have_changed(left, right)
                else "no key that can be read differs, but the digests do: expired keys may differ"
            )

    def find_lacks(self, names: dict[int, str]) -> None:
        """Compares the vectors, unless counters do not compare. `names`: those of all regions."""
        for side, other in (self.sides, self.sides[::-1]):
            missing = {
                names.get(r, str(r)): c - side.vector.get(r, 0)
                for r, c in other.vector.items()
                if c > side.vector.get(r, 0)
            }
            if missing and not self.forks:
                self.lacks[side.name] = missing

    def lines(self) -> list[str]:
        """The differences for people, a line each."""
        names = [side.name for side in self.sides]
        made = told(self.forks, "the entries themselves are compared")
        for name, missing in self.lacks.items():
            listed = ", ".join(f"{count} of {origin}" for origin, count in missing.items())
            other = names[1 - names.index(name)]
            made.append(f"{name} lacks effects that {other} has: {listed}")
        for found in self.keys:
            made += [f"{shown(found.key)}:", *found.lines()]
        return made + ([self.elsewhere] if self.elsewhere else [])

    def as_json(self, key: Optional[bytes]) -> dict[str, Any]:
        """The differences for programs. `problems`: the lines that people see."""
        return {
            "regions": [side.name for side in self.sides],
            "key": None if key is None else shown(key),
            "equal": self.is_equal,
            "forks": [fork.as_json() for fork in self.forks],
            "lacks": self.lacks,
            "keys": [found.as_json() for found in self.keys],
            "problems": self.lines(),
        }


def diff(
    left: Annotated[str, typer.Argument(metavar="US", help="A region.", show_default=False)],
    right: Annotated[str, typer.Argument(metavar="EU", help="Another region.", show_default=False)],
    key: Annotated[
        Optional[str],
        typer.Argument(metavar="KEY", help="A key; all keys, without it.", show_default=False),
    ] = None,
    escaped: EscapedOption = False,
    cluster: ClusterOption = None,
    at: AtOption = None,
    password: PasswordOption = None,
    json: JsonOption = False,
) -> None:
    """Show the differences between two regions, and their causes.

    Where the link between the two is forked, counters do not compare, and no causes are told.

    Exits with 0 if there are none, with 1 if there are any or a region does not answer, and with 2
    if an argument is wrong. Control characters and bytes that are not UTF-8 are shown as escapes.
    """
    places = find(cluster, at, password)
    here, there = named(places, left), named(places, right)
    if here is there:
        raise UsageError(f"{here.name} twice: name two regions")
    name = None if key is None else name_of(key, escaped)
    with here.client(password) as one, there.client(password) as other:
        found = Difference(Side(one), Side(other))
        found.find(name)
        facts = found.as_json(name)
    lines = found.lines()
    if found.is_equal:
        where = f" in {shown(name)}" if name is not None else ""
        lines.append(f"{here.name} and {there.name} hold the same{where}")
    if json:
        print_json(facts)
    else:
        print("\n".join(lines))
    if not found.is_equal:
        raise typer.Exit(1)
