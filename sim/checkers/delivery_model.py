"""The groups of one region, by definition (S6, S7, S8): sets of given, pending and acked entries.

A crash may leave open which local records survived. Then a group has several `Local` states, each
of them possible; later replies rule some of them out.
"""

from __future__ import annotations

from typing import Final, Optional

from anabranch.crdt.effects import (
    Acknowledge,
    CreateGroup,
    Delete,
    DestroyGroup,
    Flush,
    RemoveEntries,
    RemoveObserved,
    SetDeadline,
    Trim,
)
from anabranch.sim.checkers.delivery_effects import EffectsByDot, Fact
from anabranch.sim.history import Vector
from anabranch.sim.oracle.log import Add, Dot
from anabranch.sim.oracle.state import Create, KeyState, State

LOCALS_MAX: Final = 40
_REMOVERS: Final = (RemoveEntries, Trim, Delete, Flush, RemoveObserved)

Name = tuple[bytes, bytes]
"""(key, group name)"""


class Pending:
    """One pending entry as XPENDING shows it."""

    __slots__ = ("add", "consumer", "deliveries", "since_ms")

    def __init__(self, add: Add, consumer: bytes, since_ms: int, deliveries: int) -> None:
        self.add: Final = add
        self.consumer: Final = consumer
        # The time of the last delivery in ms; -1: made pending by XCLAIM FORCE, idle for ever.
        self.since_ms: Final = since_ms
        self.deliveries: Final = deliveries

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pending):
            return NotImplemented
        return (self.add, self.consumer, self.since_ms, self.deliveries) == (
            other.add,
            other.consumer,
            other.since_ms,
            other.deliveries,
        )

    __hash__ = None  # type: ignore[assignment]


def place(pending: Pending) -> tuple[int, int, int]:
    """Sort key of the merged PELs (S7.5)."""
    return pending.add.entry_id, pending.add.region, pending.add.counter


class Local:
    """One possible state of the local group state (S6.5). Entries are named by their dots."""

    __slots__ = ("dropped", "floor_id", "floor_vector", "given", "pel", "raised_id")

    def __init__(self) -> None:
        # The floor by SETID of an ID (S7.4); -1: none.
        self.floor_id = -1
        # The floor by SETID $.
        self.floor_vector: Optional[Vector] = None
        # The floor by XCLAIM LASTID; an entry must be above both floors.
        self.raised_id = 0
        # Entries delivered here or acknowledged in another region (S7.3).
        self.given: set[Dot] = set()
        self.pel: dict[Dot, Pending] = {}
        # Entries dropped by DELCONSUMER, until they are delivered or claimed again (S8.1).
        self.dropped: set[Dot] = set()

    def copy(self) -> Local:
        other = Local()
        other.floor_id = self.floor_id
        other.floor_vector = self.floor_vector
        other.raised_id = self.raised_id
        other.given = set(self.given)
        other.pel = dict(self.pel)
        other.dropped = set(self.dropped)
        return other

    def equals(self, other: Local) -> bool:
        return (
            (self.floor_id, self.floor_vector, self.raised_id)
            == (other.floor_id, other.floor_vector, other.raised_id)
            and self.given == other.given
            and self.pel == other.pel
            and self.dropped == other.dropped
        )

    def is_above(self, creates: dict[Dot, Create], add: Add) -> bool:
        """Whether the entry is above the floors or, without a floor, a start (S6.3, S7.3)."""
        if add.entry_id <= self.raised_id:
            return False
        if self.floor_vector is not None:
            return self.floor_vector.get(add.region, 0) < add.counter
        if self.floor_id >= 0:
            return add.entry_id > self.floor_id
        return any(create.is_below(add) for create in creates.values())

    def undelivered(self, key: KeyState, creates: dict[Dot, Create]) -> list[Add]:
        """The entries that `>` must deliver, in order (S7.3)."""
        given = self.given
        return [
            add
            for _, region, counter, add in key.stream
            if (region, counter) not in given and self.is_above(creates, add)
        ]

    def pending_of(self, consumer: Optional[bytes] = None) -> list[Pending]:
        """The pending entries, of one consumer or of all, in order."""
        return sorted(
            [one for one in self.pel.values() if consumer is None or one.consumer == consumer],
            key=place,
        )

    def assign(self, pending: Pending) -> None:
        self.pel[pending.add.region, pending.add.counter] = pending
        self.dropped.discard((pending.add.region, pending.add.counter))


class Group:
    """One incarnation of a group in one region.

    `creates` is the oracle's own dict of live creates. When none of the creates that were live is
    left, the oracle has another dict (S6.5), and a new incarnation begins.
    """

    __slots__ = ("acked", "creates", "is_unsure", "locals", "taken")

    def __init__(self, creates: dict[Dot, Create]) -> None:
        self.creates: Final = creates
        # Dot of a create → the entries announced under it (S8.3).
        self.acked: dict[Dot, set[Dot]] = {}
        # The possible local states.
        self.locals = [Local()]
        # The local state is unknown, so this incarnation is not judged.
        self.is_unsure = False
        # Entries acknowledged in other regions by effects of the present step.
        self.taken: set[Dot] = set()

    def acked_now(self) -> set[Dot]:
        """The union of the acked entries over the live creates (S8.3)."""
        found: set[Dot] = set()
        for dot in self.creates:
            found |= self.acked.get(dot, set())
        return found

    def keep(self, right: list[Local]) -> None:
        """Keeps only those possible states with which the replies agree."""
        if len(self.locals) > 1:
            self.branch(right)

    def branch(self, others: list[Local]) -> None:
        """Makes these the possible states, each once."""
        kept: list[Local] = []
        for local in others:
            if not any(local.equals(one) for one in kept):
                kept.append(local)
        self.locals = kept
        if len(kept) > LOCALS_MAX:
            self.is_unsure = True


class RegionModel:
    """One region at its vector. `problems`: the faults of effects, found while applying them."""

    def __init__(self, region: int, facts: EffectsByDot) -> None:
        self.region = region
        self.facts = facts
        self.state = State()
        self.groups: dict[Name, Group] = {}
        # Some effects were never reported as committed, so the state is unknown.
        self.is_blind = False
        self.problems: list[str] = []
        # -- of the present step, for reads that were woken in the middle of it
        # Entries that were added, and entries that were removed.
        self.came: dict[Dot, Add] = {}
        self.went: dict[Dot, Add] = {}
        # The removed entries that also left the PELs (DELREF).
        self.dereferenced: set[Dot] = set()
        # Groups that ended, began anew, or changed their starts, or that a deadline may hide.
        self.turned: set[Name] = set()
        # The step merged several effects; which of them came together is not visible.
        self.is_loose = False
        # Key → the highest ID that an XREAD has returned (S7.2).
        self.xread_highest: dict[bytes, int] = {}
        self.late_arrivals = 0
        # Whether the region must count exactly `late_arrivals`.
        self.late_is_exact = True

    def forget_reads(self) -> None:
        """Clears the statistics of XREAD, which last until the process ends."""
        self.xread_highest = {}
        self.late_arrivals = 0
        self.late_is_exact = True

    def note_read(self, key: bytes, highest: int) -> None:
        """An XREAD has returned entries up to that ID."""
        if highest >= 0:
            self.xread_highest[key] = highest

    def group(self, name: Name) -> Optional[Group]:
        """The group's present incarnation, if the group is live."""
        key = self.state.keys.get(name[0])
        creates = None if key is None else key.groups.get(name[1])
        if creates is None:
            return None
        group = self.groups.get(name)
        if group is None or group.creates is not creates:
            group = self.groups[name] = Group(creates)
            group.is_unsure = self.is_blind
        return group

    def is_hidden(self, key: bytes, clock_ms: int) -> bool:
        state = self.state.keys.get(key)
        return state is not None and state.is_hidden(clock_ms)

    def unsettle(self, key: bytes = b"") -> None:
        """Marks the groups of a key, or of all keys, as unknown in their local state."""
        for name in self.state.keys if not key else (key,):
            state = self.state.keys.get(name)
            for group_name in list(state.groups) if state is not None else ():
                group = self.group((name, group_name))
                assert group is not None
                group.is_unsure = True

    def passing(self, key: bytes, group: Group) -> dict[Dot, Add]:
        """The entries of a key that the present step added, removed, or learned as acknowledged."""
        found = {dot: add for dot, add in {**self.came, **self.went}.items() if add.key == key}
        adds = self.state.keys[key].adds
        found.update((dot, adds[dot]) for dot in sorted(group.taken) if dot in adds)
        return found

    # -- effects

    def begin_step(self) -> None:
        """Forgets the changes of the last step."""
        self.is_loose = False
        if self.came:
            self.came = {}
        if self.went:
            self.went = {}
            self.dereferenced = set()
        if self.turned:
            self.turned = set()
        for group in self.groups.values():
            if group.taken:
                group.taken = set()

    def advance(self, after: Vector, is_merge: bool, remerged: bool) -> None:
        """Applies the effects up to a vector, one by one.

        `remerged`: own effects came back from other regions.
        """
        vector = self.state.vector
        if vector == after:
            return
        facts = self.facts.between(vector, after)
        if facts is None:
            self.is_blind = True
            return
        for fact in facts:
            self.apply(fact, issued=fact[1] == self.region and not remerged)
        if is_merge and len(facts) > 1:
            self.is_loose = True
            self._unsettle_ambiguous(facts)
            if self.xread_highest and any(isinstance(fact[3], _REMOVERS) for fact in facts):
                # Their order decides whether the key was absent for a moment.
                self.late_is_exact = False

    def apply(self, fact: Fact, issued: bool, joined: bool = False) -> None:
        """Applies one effect to the state and to local states. `issued`: the region issued it now.

        `joined`: the effect came by a snapshot.
        """
        _, region, counter, effect = fact
        state = self.state
        if isinstance(effect, Add):
            state.apply(region, counter, effect)
            self.came[region, counter] = effect
            if not issued and effect.entry_id <= self.xread_highest.get(effect.key, -1):
                self.late_arrivals += 1
            return
        if isinstance(effect, Acknowledge):
            state.apply(region, counter, effect)
            self._acknowledge(effect, issued, joined)
            return
        if isinstance(effect, _REMOVERS):
            keys = (
                list(state.keys.values()) if isinstance(effect, Flush) else [state.key(effect.key)]
            )
            before = [(key, dict(key.adds), dict(key.groups)) for key in keys]
            state.apply(region, counter, effect)
            for key, adds, groups in before:
                if len(key.adds) < len(adds):
                    self.went.update((dot, add) for dot, add in adds.items() if dot not in key.adds)
                for name, creates in groups.items():
                    if key.groups.get(name) is not creates:
                        self.turned.add((key.key, name))
                if key.key in self.xread_highest and not key.is_present():
                    # A region forgets the reads of a key that is absent.
                    self.late_is_exact = False
            if isinstance(effect, Trim) and effect.drops_references and not joined:
                self._drop_references(effect)
            return
        if isinstance(effect, (DestroyGroup, CreateGroup)):
            # Another create may lower the start.
            self.turned.add((effect.key, effect.group))
        if isinstance(effect, SetDeadline):
            if effect.key in self.xread_highest:
                # A region forgets the reads of a hidden key, too; the moment is not visible.
                self.late_is_exact = False
            # It may hide or show the key between the waking of a reader and the end of the step.
            self.turned.update((effect.key, name) for name in state.key(effect.key).groups)
        state.apply(region, counter, effect)

    def _acknowledge(self, effect: Acknowledge, issued: bool, joined: bool) -> None:
        """Newly acked entries count as given and leave the PELs (S8.2)."""
        name = (effect.key, effect.group)
        group = self.group(name)
        named = [] if group is None else [dot for dot in effect.creates if dot in group.creates]
        if group is None or not named:
            return
        covered = self.facts.covered(effect)
        new = {(add.region, add.counter): add for add in covered}
        for dot in group.acked_now():
            new.pop(dot, None)
        for create in named:
            group.acked.setdefault(create, set()).update(
                (add.region, add.counter) for add in covered
            )
        if issued:
            self._check_announcement(name, group, new)
        elif not joined:
            give(group, set(new))

    def _check_announcement(self, name: Name, group: Group, new: dict[Dot, Add]) -> None:
        """A region announces only entries that were delivered and acknowledged there (S8.1).

        Deleted entries are not judged.
        """
        vector = self.state.vector
        present = self.state.keys[name[0]].adds
        for (region, counter), add in new.items():
            if vector.get(region, 0) < counter:
                self.problems.append(
                    f"{_at(name)}: acknowledgement announced of {text_of(add)}, "
                    "which this region does not have"
                )
        if group.is_unsure:
            return
        wrong = ""
        kept: list[Local] = []
        for local in group.locals:
            found = ""
            for dot, add in new.items():
                if dot not in present:
                    continue
                if dot not in local.given:
                    found = f"acknowledgement announced of {text_of(add)}, which was not delivered"
                elif dot in local.pel:
                    found = (
                        f"acknowledgement announced of {text_of(add)}, "
                        f"which is pending for {local.pel[dot].consumer.decode()}"
                    )
                elif dot in local.dropped:
                    found = (
                        f"acknowledgement announced of {text_of(add)}, which DELCONSUMER dropped"
                    )
            if found:
                wrong = found
            else:
                kept.append(local)
        if kept:
            group.locals = kept
        else:
            self.problems.append(f"{_at(name)}: {wrong}")
            group.is_unsure = True

    def _drop_references(self, effect: Trim) -> None:
        """A trim with DELREF: the removed entries leave the PELs (S5.2)."""
        self.dereferenced.update(dot for dot in self.went if effect.prefix.get(dot[0], 0) >= dot[1])
        key = self.state.keys[effect.key]
        for name in list(key.groups):
            group = self.group((effect.key, name))
            assert group is not None
            for local in group.locals:
                for dot in [dot for dot in local.pel if effect.prefix.get(dot[0], 0) >= dot[1]]:
                    del local.pel[dot]

    def _unsettle_ambiguous(self, facts: list[Fact]) -> None:
        """Marks groups whose incarnation depends on the order of effects merged together.

        That order is not visible. Only a RemoveObserved depends on it: it ends an incarnation or
        not, as a concurrent create of the name was applied after or before it (S6.5, S10.3).
        """
        for _, region, _, effect in facts:
            if isinstance(effect, RemoveObserved):
                others = [
                    fact
                    for fact in facts
                    if fact[1] != region and isinstance(fact[3], (Acknowledge, CreateGroup))
                ]
                if any(getattr(fact[3], "key", b"") == effect.key for fact in others):
                    self.unsettle(effect.key)

    def join(self, after: Vector) -> None:
        """Joins a snapshot in one step (S6.5, S11.2). A join drops no references (S5.2)."""
        facts = self.facts.between(self.state.vector, after)
        if facts is None:
            self.is_blind = True
            return
        self.is_loose = True
        # Entries that came and went before the snapshot was cut are not visible here.
        self.late_is_exact = False
        before: dict[Name, set[Dot]] = {}
        acked: dict[Name, set[Dot]] = {}
        for key, state in self.state.keys.items():
            for name, creates in state.groups.items():
                group = self.group((key, name))
                assert group is not None
                before[key, name] = set(creates)
                acked[key, name] = group.acked_now()
        for fact in facts:
            self.apply(fact, issued=False, joined=True)
        for key, state in self.state.keys.items():
            for name in state.groups:
                self._joined(
                    (key, name), before.get((key, name), set()), acked.get((key, name), set())
                )

    def _joined(self, name: Name, before: set[Dot], acked: set[Dot]) -> None:
        """One group after a join: it begins anew if none of its creates is left (S6.5).

        Newly acked entries count as given.
        """
        group = self.group(name)
        assert group is not None
        if before.isdisjoint(group.creates):
            group.locals = [Local()]
            group.is_unsure = self.is_blind
            acked = set()
            if before:
                self.turned.add(name)
        give(group, group.acked_now() - acked)


def give(group: Group, new: set[Dot]) -> None:
    """Entries that another region acknowledged: given here, and not pending any more (S8.2)."""
    if not new:
        return
    group.taken |= new
    for local in group.locals:
        local.given |= new
        for dot in [dot for dot in local.pel if dot in new]:
            del local.pel[dot]


def text_of(add: Add) -> str:
    """The entry ID as text for messages."""
    return add.shown_id.decode()


def _at(name: Name) -> str:
    return f"group {name[1].decode()} of {name[0].decode()}"
