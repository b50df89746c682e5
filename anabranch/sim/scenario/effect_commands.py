"""Commands that repeat what a region has done: its effects and its local records.

CRDT.HISTORY tells events. `_COMMANDS` has, for each kind of event, the function that writes its
commands. It lacks the kinds that a region issues by itself: announcements, and removals by expiry
and of leftovers.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import Final

from anabranch.crdt.vector import Dot
from anabranch.sim.history import Words
from anabranch.sim.scenario.expectation import SEQ_STEP
from anabranch.study.replies.events import REMOVALS, KeyEvent

# A generated ID has about the time of the row that holds its add.
_NEAR_MS: Final = 60_000
# An ID or a deadline from here on names a point in time, not a small number of a user.
_POINT_IN_TIME_MS: Final = 10**11
# The consumer of a command that needs one.
_NOBODY: Final = "nobody"

Repeated = list[tuple[Words, str]]
"""Commands, each with the reply that it is to have; empty: any reply but an error."""


class RegionState:
    """The state of one region, as far as commands name it; `take` follows the region's events.

    `is_timed`: the time between commands matters. `is_absolute`: a command names a point in time.
    A region can generate an ID twice, for two keys; `others` maps (key, ID) to the other ID that a
    table has in the place of the second one. All regions share it.
    """

    def __init__(self, region: int, is_strict: bool, others: dict[tuple[str, str], str]) -> None:
        self.region: Final = region
        self.others: Final = others
        self.is_strict: Final = is_strict
        self.is_timed = False
        self.is_absolute = False
        # key → dot → ID of the entries.
        self.entries: Final[dict[str, dict[Dot, str]]] = {}
        # IDs of all entries that there were, and those that the table has for IDs generated here.
        self._known: Final[set[str]] = set()
        self._shown: Final[set[str]] = set()
        self._flushes: Final[set[Dot]] = set()
        # The target of the RENAME whose effects follow; empty: none.
        self._target = ""

    def take(self, key: str, event: KeyEvent) -> Repeated:
        """Takes the next event of a key; returns the commands that repeat it."""
        held = self.entries.setdefault(key, {})
        write = _COMMANDS.get(event.kind)
        self.is_timed |= event.kind == "set-deadline" or event.pid is not None
        found: Repeated = []
        if event.command in ("RENAME", "RENAMENX"):
            found = self._rename(key, event) if event.source == 0 else []
        elif write is not None and event.source == 0:
            found = write(self, key, event)
        if event.kind == "add":
            held[event.dot] = id_in(event)
            self._known.add(id_in(event))
        elif event.kind in REMOVALS:
            for dot in [dot for dot in held if event.removes(dot)]:
                del held[dot]
        return found

    def _rename(self, key: str, event: KeyEvent) -> Repeated:
        """The first effect of a RENAME stands for all of them."""
        other = (event.other_key or b"").decode("utf-8", "surrogateescape")
        if event.kind == "delete" and not self._target:
            self._target = other
            return [_command("", "RENAME", key, other)]
        if event.kind == "set-id":
            self._target = ""
        elif event.kind == "add" and (other, id_in(event)) in self.others:
            self.others[key, id_in(event)] = self.others[other, id_in(event)]
        return []

    def is_first(self, flush: KeyEvent) -> bool:
        """Whether this FLUSHALL was not told yet; the history of every key has it."""
        is_known = flush.dot in self._flushes
        self._flushes.add(flush.dot)
        return not is_known

    def is_generated(self, add: KeyEvent) -> bool:
        """Whether the region has generated the ID of an add. In strict mode all are."""
        ms, seq = halves(id_in(add))
        near = abs(ms - add.clock_ms) < _NEAR_MS
        return self.is_strict or (near and seq % SEQ_STEP == self.region)

    def generate(self, key: str, entry_id: str) -> str:
        """The ID in the table for an ID that the region has generated."""
        ms, seq = halves(entry_id)
        shown = entry_id
        while shown in self._shown:
            seq += SEQ_STEP
            shown = self.others[key, entry_id] = f"{ms}-{seq}"
        self._shown.add(shown)
        return shown

    def named(self, key: str, entry_id: str) -> str:
        """The ID in the table for an ID that a command names."""
        if entry_id not in self._known:
            self.is_absolute |= _POINT_IN_TIME_MS <= halves(entry_id)[0] < 1 << 62
        return self.others.get((key, entry_id), entry_id)

    def fact(self, key: str, event: KeyEvent, word: str) -> object:
        """The fact of an event that a word of a command stands for; otherwise the word itself."""
        fact = getattr(event, word, word)
        if word in ("id", "start", "floor"):
            # Counters of region logs are `$`.
            return self.named(key, fact) if isinstance(fact, str) else "$"
        return fact


def halves(entry_id: str) -> tuple[int, int]:
    """The time and the sequence number of an ID."""
    ms, _, seq = entry_id.partition("-")
    return int(ms), int(seq)


def id_in(event: KeyEvent) -> str:
    """The ID in an event that has one."""
    assert event.id is not None
    return event.id


def _command(expected: str, *words: object) -> tuple[Words, str]:
    encoded = (
        word if isinstance(word, bytes) else str(word).encode("utf-8", "surrogateescape")
        for word in words
    )
    return tuple(encoded), expected


def _add(state: RegionState, key: str, event: KeyEvent) -> Repeated:
    pair = [] if event.pid is None else ["IDMP", event.pid, event.iid]
    if state.is_generated(event):
        entry_id, expected = "*", state.generate(key, id_in(event))
    else:
        entry_id = expected = state.named(key, id_in(event))
    return [_command(expected, "XADD", key, *pair, entry_id, *event.fields)]


def _remove_entries(state: RegionState, key: str, event: KeyEvent) -> Repeated:
    held = state.entries[key]
    found = dict.fromkeys(state.named(key, held[dot]) for dot in event.dots if dot in held)
    # S9.2 demands a removal that the region issues by itself.
    return [_command("", "XDEL", key, *found)] if found and event.command == "XDEL" else []


def _trim(state: RegionState, key: str, event: KeyEvent) -> Repeated:
    held = sorted(state.entries[key].items(), key=lambda one: (*halves(one[1]), one[0]))
    gone = [(dot, entry_id) for dot, entry_id in held if event.removes(dot)]
    if gone != held[: len(gone)]:  # ACKED has spared entries among them.
        ids = dict.fromkeys(state.named(key, entry_id) for _, entry_id in gone)
        return [_command("", "XDEL", key, *ids)]
    references = ["DELREF"] if event.drops_references else []
    return [_command("", "XTRIM", key, "MAXLEN", len(held) - len(gone), *references)]


def _flush(state: RegionState, key: str, event: KeyEvent) -> Repeated:
    return [_command("", "FLUSHALL")] if state.is_first(event) else []


def _set_deadline(state: RegionState, key: str, event: KeyEvent) -> Repeated:
    if event.at_ms is not None:
        return [_command("", "PEXPIRE", key, event.at_ms - event.clock_ms)]
    # Without a deadline to replace, it belongs to a write that creates the key (S10.5).
    return [_command("", "PERSIST", key)] if event.replaces else []


def _ids(state: RegionState, key: str, event: KeyEvent) -> list[str]:
    """The IDs of the entries in a local record."""
    return [state.named(key, entry_id) for entry_id in event.entries.values()]


def _delivered(state: RegionState, key: str, event: KeyEvent) -> Repeated:
    found = _ids(state, key, event)
    words: list[object] = ["XREADGROUP", "GROUP", event.group, event.consumer]
    words += ["COUNT", len(found), *(["NOACK"] if event.no_ack else [])]
    return [_command(f"[{', '.join(found)}]", *words, "STREAMS", key, ">")]


def _claimed(state: RegionState, key: str, event: KeyEvent) -> Repeated:
    group, consumer = event.group, event.consumer
    claims = zip(event.deliveries, _ids(state, key, event), strict=True)
    found: Repeated = []
    for deliveries, some in groupby(claims, key=lambda claim: claim[0]):
        ids = [entry_id for _, entry_id in some]
        words = ["XCLAIM", key, group, consumer, 0, *ids, "RETRYCOUNT", deliveries, "FORCE"]
        found.append(_command(f"[{', '.join(ids)}]", *words))
    return found


def _left_pel(state: RegionState, key: str, event: KeyEvent) -> Repeated:
    ids = dict.fromkeys(_ids(state, key, event))
    return [_command("", "XACK", key, event.group, *ids)]


def _floor_raised(state: RegionState, key: str, event: KeyEvent) -> Repeated:
    """XCLAIM LASTID of no entry, by a consumer that does not stay."""
    group, floor = event.group, state.fact(key, event, "floor")
    return [
        _command("", "XCLAIM", key, group, _NOBODY, 0, "0-0", "LASTID", floor),
        _command("", "XGROUP", "DELCONSUMER", key, group, _NOBODY),
    ]


def _of_facts(command: str, *words: str) -> Callable[[RegionState, str, KeyEvent], Repeated]:
    """Writes a command on the key; those of its other words that are facts are replaced by them."""

    def write(state: RegionState, key: str, event: KeyEvent) -> Repeated:
        facts = [state.fact(key, event, word) for word in words]
        return [_command("", *command.split(), key, *facts)]

    return write


_COMMANDS: Final[dict[str, Callable[[RegionState, str, KeyEvent], Repeated]]] = {
    "add": _add,
    "remove-entries": _remove_entries,
    "trim": _trim,
    "delete": _of_facts("DEL"),
    "flush": _flush,
    "set-id": _of_facts("XSETID", "id"),
    "create-group": _of_facts("XGROUP CREATE", "group", "start", "MKSTREAM"),
    "destroy-group": _of_facts("XGROUP DESTROY", "group"),
    "set-deadline": _set_deadline,
    "configure": _of_facts("XCFGSET", "IDMP-DURATION", "duration_s", "IDMP-MAXSIZE", "maxsize"),
    "delivered": _delivered,
    "claimed": _claimed,
    "left-pel": _left_pel,
    "consumer-made": _of_facts("XGROUP CREATECONSUMER", "group", "consumer"),
    "consumer-deleted": _of_facts("XGROUP DELCONSUMER", "group", "consumer"),
    "floor-set": _of_facts("XGROUP SETID", "group", "floor"),
    "floor-raised": _floor_raised,
}
