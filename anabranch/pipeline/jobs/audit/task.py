"""One task of the audit: compares pieces of streams between all regions, and yields differences.

A task holds no entry: of each it keeps the counter and a hash. `entry_sets` and `comparison`
decide, and say why the result is sound while clients write.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Final, Optional, TypeVar

from anabranch.crdt.vector import Vector, joined
from anabranch.pipeline.entry_hashes import Entry, EntryHashes, entries_in
from anabranch.pipeline.jobs.audit.comparison import Comparison, reason, removal_of
from anabranch.pipeline.jobs.audit.differences import DAMAGED, LOST, STANDS, Difference
from anabranch.pipeline.jobs.audit.entry_sets import Finding, Reading, Suspects, findings, suspects
from anabranch.pipeline.jobs.key_state import ENTRY, KeyState
from anabranch.pipeline.jobs.region_client import ConnectionLost, NoKey, Piece, RegionClient
from anabranch.pipeline.options import SourceOptions
from anabranch.pipeline.resp import shown

_PAUSE_S: Final = 0.2
_DIGEST_TRIES: Final = 3
# Findings of one piece whose entries are read again to be shown.
_DETAILED_MAX: Final = 10_000

Result = TypeVar("Result")


@dataclass(frozen=True)
class Job:
    """What all tasks of an audit know.

    Attributes:
        given: The options of the source by which regions are reached.
        regions: Name and address of each region that answers.
        target: The vector up to which regions are compared.
        names: The names of all members by their region_id.
        timeout_s: How long a task waits for a region, in seconds.
        is_level: Whether all regions had `target` on disk when the audit began.
    """

    given: dict[str, str]
    regions: list[tuple[str, tuple[str, int]]]
    target: Vector
    names: dict[int, str]
    timeout_s: float
    is_level: bool


@dataclass(frozen=True)
class Note:
    """What a task tells beside differences.

    `kind` is "entries" or "groups" (compared: `count`), "hidden" (`text`: stream, and the regions
    that hide it), "unread" (`text`: region, and why), or "digest" (`text`: stream, and one of
    "equal", "differs" and "moving").
    """

    kind: str
    count: int = 0
    text: tuple[str, str] = ("", "")


Outcome = Difference | Note


def audit(pieces: Iterable[Piece], job: Job) -> Iterator[Outcome]:
    """Compares pieces of streams between all regions."""
    auditor = Auditor(job)
    try:
        every = list(pieces)
        yield from auditor.observed(auditor.states, [one for one in every if not one.region_id])
        yield from auditor.observed(auditor.entries, [one for one in every if one.region_id])
        yield from auditor.closed
    finally:
        auditor.close()


class Auditor:
    """The regions of one task. `closed` tells the regions that stopped answering."""

    def __init__(self, job: Job) -> None:
        self._job: Final = job
        options = SourceOptions(job.given, False)
        self.clients = {name: RegionClient(name, address, options) for name, address in job.regions}
        self.closed: list[Outcome] = []
        # Seconds that the task may still wait for each region.
        waiting_s = job.timeout_s if job.is_level else min(job.timeout_s, 1.0)
        self._patience_s: Final = dict.fromkeys(self.clients, waiting_s)

    def close(self) -> None:
        """Closes all connections."""
        for client in self.clients.values():
            client.close()

    def observed(
        self, observe: Callable[[list[Piece]], list[Outcome]], pieces: list[Piece]
    ) -> list[Outcome]:
        """What an observation finds. If a connection breaks, it is begun anew.

        A region that does not come back in time is left out from then on.
        """
        until_s = time.monotonic() + self._job.timeout_s
        while pieces and len(self.clients) > 1:
            try:
                return observe(pieces)
            except ConnectionLost as error:
                if time.monotonic() > until_s:
                    self.clients.pop(error.name).close()
                    self.closed.append(Note("unread", text=(error.name, str(error))))
                    until_s = time.monotonic() + self._job.timeout_s
                time.sleep(_PAUSE_S)
        return []

    def _each(self, ask: Callable[[RegionClient], Result]) -> dict[str, Result]:
        return {name: ask(client) for name, client in self.clients.items()}

    def _states_of(self, stream: bytes, with_removals: bool = False) -> dict[str, KeyState]:
        return {name: client.state(stream, with_removals) for name, client in self.clients.items()}

    def _level(self, wanted: Vector) -> None:
        """Waits until all regions have effects, as long as the patience of the task lasts."""
        for name, client in self.clients.items():
            began_s = time.monotonic()
            if not client.wait(wanted, self._patience_s[name]):
                self._patience_s[name] = 0.0
            elif time.monotonic() - began_s > _PAUSE_S:
                self._patience_s[name] -= time.monotonic() - began_s

    # -- the state beside the entries

    def states(self, pieces: list[Piece]) -> list[Outcome]:
        """Compares the state of streams, and their digests."""
        found: list[Outcome] = []
        first = [self._states_of(one.stream) for one in pieces]
        differing = [n for n, states in enumerate(first) if not _are_equal(states)]
        if differing:
            self._level(reduce(joined, self._each(RegionClient.vector).values()))
        for n in differing:
            stream = pieces[n].stream
            second = self._states_of(stream, with_removals=True)
            comparison = Comparison(
                shown(stream), first[n], second, self._job.target, self._job.names
            )
            found += comparison.differences()
        groups = sum(len(set().union(*(one.groups() for one in each.values()))) for each in first)
        found.append(Note("groups", groups))
        for piece, states in zip(pieces, first, strict=True):
            hiding = [name for name, state in states.items() if state.hidden]
            if hiding:
                found.append(Note("hidden", text=(shown(piece.stream), ",".join(hiding))))
            digest = self.digest(piece.stream)
            found.append(Note("digest", text=(shown(piece.stream), digest)))
        return found

    def digest(self, stream: Optional[bytes]) -> str:
        """How the digests of a stream, or of the regions, compare: equal, differs or moving.

        Digests that differ prove a difference only at equal vectors.
        """
        for _ in range(_DIGEST_TRIES):
            told = self._each(lambda client: client.digest(stream))
            if len({digest for _, digest, _ in told.values()}) == 1:
                return "equal"
            vectors = [vector for before, _, after in told.values() for vector in (before, after)]
            if all(vector == vectors[0] for vector in vectors):
                return "differs"
            self._level(reduce(joined, vectors))
        return "moving"

    # -- entries

    def entries(self, pieces: list[Piece]) -> list[Outcome]:
        """Compares the entries of ranges."""
        found: list[Outcome] = []
        first: list[tuple[Piece, dict[str, Reading]]] = []
        for piece in pieces:
            readings = {name: read(client, piece) for name, client in self.clients.items()}
            known = {name: one for name, one in readings.items() if one is not None}
            # A region that hides the stream is told of with the state of the stream.
            found.append(Note("entries", max(map(len, known.values()), default=0)))
            every = list(known.values())
            if not all(one.has_equal_entries(every[0]) for one in every[1:]):
                first.append((piece, known))
        if not first:
            return found
        after = self._each(RegionClient.vector)
        self._level(reduce(joined, after.values()))
        reached = self._each(RegionClient.vector)
        for piece, known in first:
            suspected = suspects(known)
            still = {
                name: self._still(self.clients[name], piece, suspected, reading)
                for name, reading in known.items()
            }
            made = findings(piece.region_id, known, suspected, still, after, reached)
            found += self._differences(piece, made)
        return found

    def _still(
        self, client: RegionClient, piece: Piece, found: Suspects, reading: Reading
    ) -> set[int]:
        """The suspects that a region has now; it cannot have those that it lacked."""
        had = found.counters() - found.lacking[client.name]
        if not had:
            return set()
        again = read(client, piece)
        # A region that hides the stream by now proves nothing.
        return set() if again is None else had & set(again.numbers())

    def _differences(self, piece: Piece, made: list[Finding]) -> list[Outcome]:
        """The findings with the IDs of their entries, and with causes in words."""
        if not made:
            return []
        wanted: dict[str, set[int]] = {}
        for finding in made[:_DETAILED_MAX]:
            names = finding.has[:1] + finding.lacks[: finding.cause == DAMAGED]
            for name in names:
                wanted.setdefault(name, set()).add(finding.counter)
        entries = {
            name: _entries(self.clients[name], piece, counters) for name, counters in wanted.items()
        }
        states = self._states_of(piece.stream, with_removals=True)
        return [self._difference(piece, finding, entries, states) for finding in made]

    def _difference(
        self,
        piece: Piece,
        finding: Finding,
        entries: dict[str, dict[int, Entry]],
        states: dict[str, KeyState],
    ) -> Difference:
        names = self._job.names
        has, lacks = list(finding.has), list(finding.lacks)
        entry = entries.get(has[0], {}).get(finding.counter)
        key = (ENTRY, "", (piece.region_id, finding.counter))
        removal = removal_of(states, [*lacks, *has], key) if finding.cause == LOST else None
        cause = STANDS if removal is not None else finding.cause
        if cause == DAMAGED:
            detail = damage(has[0], entry, lacks[0], entries.get(lacks[0], {}).get(finding.counter))
        else:
            detail = reason(cause, has, lacks, removal, names)
        return Difference(
            shown(piece.stream),
            ENTRY,
            "",
            names.get(piece.region_id, str(piece.region_id)),
            finding.counter,
            "" if entry is None else entry.entry_id,
            cause,
            ",".join(has),
            ",".join(lacks),
            detail,
        )


def _are_equal(states: dict[str, KeyState]) -> bool:
    first, *others = states.values()
    return all(one.elements == first.elements and one.spans == first.spans for one in others)


def read(client: RegionClient, piece: Piece) -> Optional[Reading]:
    """What a region holds of a piece; None if a deadline hides the stream there."""
    while True:
        before = client.vector()
        hashes = EntryHashes(piece.after, piece.end)
        try:
            for answer in client.answers(piece):
                hashes.take(answer)
        except NoKey:
            state = client.state(piece.stream)
            if state.hidden:
                return None
            if state.exists:
                # It has come back, or was hidden, since the region was asked.
                continue
        return Reading(hashes.counters.getvalue(), hashes.hashes.getvalue(), before)


def _entries(client: RegionClient, piece: Piece, counters: set[int]) -> dict[int, Entry]:
    """Entries of a piece by their counters, as far as the region still has them."""
    found: dict[int, Entry] = {}
    try:
        for answer in client.answers(piece):
            found |= entries_in(answer, counters)
    except NoKey:
        pass
    return found


def damage(one: str, entry: Optional[Entry], other: str, second: Optional[Entry]) -> str:
    """How an entry with one dot differs between two regions; its values are not told."""
    if entry is None or second is None:
        return "its ID or its fields differ"
    told: list[str] = []
    if entry.entry_id != second.entry_id:
        told.append(f"its ID is {entry.entry_id} in {one} and {second.entry_id} in {other}")
    names, others = ([name for name, _ in each.fields] for each in (entry, second))
    if names != others:
        told.append(f"the names of its fields differ between {one} and {other}")
    else:
        changed = [
            f"'{shown(name)}'"
            for (name, value), (_, there) in zip(entry.fields, second.fields, strict=True)
            if value != there
        ]
        if changed:
            told.append(f"field {', '.join(changed)} differs between {one} and {other}")
    return "; ".join(told) or "it was read again without a difference"
