"""CRDT.EXPLAIN, CRDT.HISTORY and CRDT.EFFECTS: states, the reasons for them, and events.

The first three read the effect log on disk, so their replies come later, and they survive restarts.
They tell how far back the log reaches: an event before that is not in the reply.
"""

from __future__ import annotations

from typing import Final

from anabranch.crdt import ids
from anabranch.region.engine.commands.arguments import SYNTAX_ERROR, integer
from anabranch.region.engine.commands.replication import named_member
from anabranch.region.engine.effects_after import EffectsAfter
from anabranch.region.engine.explain import explain
from anabranch.region.engine.history import EVENTS_MAX, History, Wanted
from anabranch.region.engine.questions import EffectsQuestion, HistoryQuestion
from anabranch.region.engine.replies import CommandError, MapReply, Reply, flat_vector
from anabranch.region.engine.session import Session
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.table import IS_REFUSED, Command

# Events that a reply of CRDT.EXPLAIN holds, and one of CRDT.HISTORY without COUNT and NEWEST.
_EVENTS: Final = 1000


def _entry_id(word: bytes) -> int:
    try:
        return ids.parse(word, 0)
    except ids.IdError as error:
        raise CommandError(str(error)) from None


def explain_(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """CRDT.EXPLAIN key [ID] [NOHISTORY]: the facts that `anabranch explain` shows.

    Without an ID, the history has no adds and no deliveries. With NOHISTORY the log is not read,
    and the reply holds the state only.
    """
    words = argv[2:]
    reads_log = not (words and words[-1].upper() == b"NOHISTORY")
    if not reads_log:
        words = words[:-1]
    if len(words) > 1:
        raise CommandError(SYNTAX_ERROR)
    wanted_id = _entry_id(words[0]) if words else -1
    facts = explain(state, argv[1], wanted_id)
    if not reads_log:
        return MapReply(facts)
    wanted = Wanted(argv[1], wanted_id, has_entries=wanted_id >= 0)
    history = History(wanted, _EVENTS, is_newest=True)
    return _ask(state, session, history, 1, facts)


def _ask(
    state: EngineState, session: Session, history: History, first_position: int, facts: list[Reply]
) -> Reply:
    """Asks for the events up to now.

    The open block ends here: a later command must not come into the last row of the answer, whose
    vector does not cover it.
    """
    state.journal.cut_block()
    return state.waiting.questions.ask(
        HistoryQuestion(session, history, first_position, state.journal.position, facts)
    )


class _Options:
    """The options of CRDT.HISTORY."""

    def __init__(self) -> None:
        self.entry_id = -1
        self.after = 0
        self.events = _EVENTS
        self.is_newest = False
        self.since_ms = 0
        self.until_ms = ids.MAX_HALF


def _parse(words: list[bytes]) -> _Options:
    options = _Options()
    if len(words) % 2:
        raise CommandError(SYNTAX_ERROR)
    for index in range(0, len(words), 2):
        name, value = words[index].upper(), words[index + 1]
        if name == b"ID":
            options.entry_id = _entry_id(value)
        elif name == b"AFTER":
            options.after = _not_negative(value)
        elif name in (b"COUNT", b"NEWEST"):
            options.events = _number_of_events(value)
            options.is_newest = name == b"NEWEST"
        elif name == b"SINCE":
            options.since_ms = _not_negative(value)
        elif name == b"UNTIL":
            options.until_ms = _not_negative(value)
        else:
            raise CommandError(SYNTAX_ERROR)
    return options


def _not_negative(word: bytes) -> int:
    value = integer(word)
    if value < 0:
        raise CommandError("ERR a position, a counter or a time must not be negative")
    return value


def _number_of_events(word: bytes) -> int:
    number = integer(word)
    if not 1 <= number <= EVENTS_MAX:
        raise CommandError(f"ERR the number of events must be 1 to {EVENTS_MAX}")
    return number


def history(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """CRDT.HISTORY key [ID id] [AFTER position] [COUNT n | NEWEST n] [SINCE ms] [UNTIL ms].

    Returns the events that changed the key in this region, oldest first: what `anabranch log`
    shows. COUNT takes the first events, and `next` is the position to continue AFTER; NEWEST takes
    the last ones. Times are those of this region's clock when it applied the event.
    """
    options = _parse(argv[2:])
    wanted = Wanted(argv[1], options.entry_id, since_ms=options.since_ms, until_ms=options.until_ms)
    facts: list[Reply] = [b"key", argv[1], b"region", state.members.name.encode()]
    facts += [b"region_id", state.members.region_id, b"now-ms", state.clock.now_ms]
    facts += [b"vector", flat_vector(state.keyspace.vector)]
    events = History(wanted, options.events, options.is_newest)
    return _ask(state, session, events, options.after + 1, facts)


def effects(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """CRDT.EFFECTS region after [COUNT n] [NOFIELDS]: effects of one region, oldest first.

    Returns those with counters above `after` that this region's log holds, as CRDT.HISTORY tells
    events, with their `key` (null: every key). `next` is the counter to continue after. With
    NOFIELDS, adds are told without their fields.
    """
    origin = named_member(state, argv[1])
    after = _not_negative(argv[2])
    words = argv[3:]
    has_fields = True
    if words and words[-1].upper() == b"NOFIELDS":
        has_fields = False
        words = words[:-1]
    count = _EVENTS
    if len(words) == 2 and words[0].upper() == b"COUNT":
        count = _number_of_events(words[1])
    elif words:
        raise CommandError(SYNTAX_ERROR)
    facts: list[Reply] = [b"region", state.members.name.encode()]
    facts += [b"region_id", state.members.region_id, b"origin", origin.region_id]
    facts += [b"vector", flat_vector(state.keyspace.vector)]
    # See `_ask`.
    state.journal.cut_block()
    found = EffectsAfter(origin.region_id, after, count, has_fields)
    return state.waiting.questions.ask(
        EffectsQuestion(session, found, state.journal.position, facts)
    )


COMMANDS: Final = [
    Command(
        "crdt.explain",
        -2,
        "readonly",
        explain_,
        "Explains why entries and groups of a key are present or absent.",
        keys=(1, 1, 1),
        reply="map",
        group="crdt",
        syntax="key [id] [NOHISTORY]",
        in_multi=IS_REFUSED,
    ),
    Command(
        "crdt.history",
        -2,
        "readonly",
        history,
        "Returns what changed a key in this region, from the log on its disk.",
        keys=(1, 1, 1),
        reply="map",
        group="crdt",
        syntax="key [ID id] [AFTER position] [COUNT n | NEWEST n] [SINCE ms] [UNTIL ms]",
        in_multi=IS_REFUSED,
    ),
    Command(
        "crdt.effects",
        -3,
        "readonly",
        effects,
        "Returns the effects of one region after a counter, from the log on this region's disk.",
        reply="map",
        group="crdt",
        syntax="region after [COUNT n] [NOFIELDS]",
        in_multi=IS_REFUSED,
    ),
]
