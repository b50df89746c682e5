"""Random sequences of stream commands with explicit IDs, in mode liberal.

Both sides must give equal replies to every command. There are few keys, groups, consumers and IDs,
so that commands meet on them. Hypothesis shrinks a failing sequence to a short one; put that into a
case file, with a title that tells its story.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.differential.replies import Typed
from tests.differential.settled import settle
from tests.differential.sides import Ours, Pair, clock_ms

pytestmark = pytest.mark.oracle

KEY = st.sampled_from(["s", "t"])
GROUP = st.sampled_from(["g", "h"])
CONSUMER = st.sampled_from(["c", "d", "e"])
MS = st.integers(0, 12)
ID = st.builds(lambda ms, seq: f"{ms}-{seq}", MS, st.integers(0, 3))
SHORT_ID = st.one_of(ID, MS.map(str))
BOUND = st.one_of(SHORT_ID, SHORT_ID.map(lambda text: "(" + text), st.sampled_from(["-", "+"]))
COUNT = st.integers(0, 4).map(str)
FIELDS = st.sampled_from(["a 1", "a 2 b 3", "b 1", "a 1 a 2"])


def command(*parts: str | st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """A command; each part is fixed or drawn."""
    return st.tuples(*(st.just(part) if isinstance(part, str) else part for part in parts)).map(
        " ".join
    )


def maybe(*parts: str | st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Optional words of a command."""
    return st.one_of(st.just(""), command(*parts))


IDS = st.lists(ID, min_size=1, max_size=3).map(" ".join)
# If XCLAIM is given an ID twice, this region claims it once, and Redis twice.
UNIQUE_IDS = st.lists(ID, min_size=1, max_size=3, unique=True).map(" ".join)
START = st.one_of(SHORT_ID, st.sampled_from(["0", "$"]))
TRIM = st.one_of(command("MAXLEN", COUNT), command("MAXLEN =", COUNT), command("MINID", SHORT_ID))
# `numbered` replaces "@" by an ID that grows along the sequence, so that most adds succeed.
ADD_ID = st.one_of(
    st.just("@"), st.just("@"), st.just("@"), st.just("@"), SHORT_ID, MS.map(lambda ms: f"{ms}-*")
)
READ_COUNT = maybe("COUNT", st.integers(1, 3).map(str))

COMMANDS = {
    "xadd": st.one_of(
        command("XADD", KEY, ADD_ID, FIELDS),
        command("XADD", KEY, ADD_ID, FIELDS),
        command("XADD", KEY, maybe("NOMKSTREAM"), st.one_of(st.just(""), TRIM), ADD_ID, FIELDS),
    ),
    "xdel": command("XDEL", KEY, IDS),
    "xtrim": command("XTRIM", KEY, TRIM),
    # Above every ID that is added: this region refuses an XSETID below the last ID (S3.2).
    "xsetid": command("XSETID", KEY, "20-0"),
    "xlen": command("XLEN", KEY),
    "xrange": command("XRANGE", KEY, BOUND, BOUND, maybe("COUNT", COUNT)),
    "xrevrange": command("XREVRANGE", KEY, BOUND, BOUND, maybe("COUNT", COUNT)),
    "xread": command("XREAD", READ_COUNT, "STREAMS", KEY, START),
    "xread2": command("XREAD", READ_COUNT, "STREAMS s t", SHORT_ID, SHORT_ID),
    # Without MKSTREAM: in this region a key that never held an entry vanishes with its last
    # group (S3.1).
    "create": command("XGROUP CREATE", KEY, GROUP, START),
    "setid": command("XGROUP SETID", KEY, GROUP, START),
    "destroy": command("XGROUP DESTROY", KEY, GROUP),
    "createconsumer": command("XGROUP CREATECONSUMER", KEY, GROUP, CONSUMER),
    "delconsumer": command("XGROUP DELCONSUMER", KEY, GROUP, CONSUMER),
    "new": command(
        "XREADGROUP GROUP", GROUP, CONSUMER, READ_COUNT, maybe("NOACK"), "STREAMS", KEY, ">"
    ),
    "history": command("XREADGROUP GROUP", GROUP, CONSUMER, READ_COUNT, "STREAMS", KEY, SHORT_ID),
    "both": command("XREADGROUP GROUP", GROUP, CONSUMER, READ_COUNT, "STREAMS s t > >"),
    "xack": command("XACK", KEY, GROUP, IDS),
    "summary": command("XPENDING", KEY, GROUP),
    "details": command(
        "XPENDING", KEY, GROUP, BOUND, BOUND, COUNT, st.one_of(st.just(""), CONSUMER)
    ),
    "xclaim": command(
        "XCLAIM",
        KEY,
        GROUP,
        CONSUMER,
        "0",
        UNIQUE_IDS,
        maybe("FORCE"),
        maybe("JUSTID"),
        maybe("RETRYCOUNT 5"),
        maybe("LASTID", ID),
    ),
    "xautoclaim": command(
        "XAUTOCLAIM", KEY, GROUP, CONSUMER, "0", BOUND, READ_COUNT, maybe("JUSTID")
    ),
    "full": command("XINFO STREAM", KEY, "FULL"),
    "info": command("XINFO STREAM", KEY),
    "groups": command("XINFO GROUPS", KEY),
    "del": command("DEL", KEY),
    "exists": command("EXISTS", KEY),
    "multi": st.sampled_from(["MULTI", "EXEC", "EXEC", "DISCARD"]),
}
# Relative frequencies, 1 where not given. Adds and reads are the most frequent.
WEIGHTS = {
    "xadd": 12,
    "new": 7,
    "create": 3,
    "xack": 4,
    "xdel": 3,
    "history": 2,
    "xclaim": 3,
    "xautoclaim": 2,
    "full": 4,
    "details": 2,
}
PRELUDE = [
    "XADD s 0-1 a 1",
    "XADD t 0-1 a 1",
    "XGROUP CREATE s g 0",
    "XGROUP CREATE s h 0-1",
    "XGROUP CREATE t g 0",
]
SEQUENCE = st.lists(
    st.one_of([one for name, one in COMMANDS.items() for _ in range(WEIGHTS.get(name, 1))]),
    min_size=10,
    max_size=60,
)


def numbered(sequence: list[str]) -> list[str]:
    """The prelude and the sequence, with IDs in place of "@".

    Since 7.2 a read or claim creates its consumer even if there is no entry for it. Redis 7.0 does
    not, so the consumer is created explicitly before the command.
    """
    whole: list[str] = []
    for place, text in enumerate([*PRELUDE, *sequence]):
        words = text.split()
        if words[0] in ("XCLAIM", "XAUTOCLAIM"):
            whole.append(f"XGROUP CREATECONSUMER {words[1]} {words[2]} {words[3]}")
        elif words[0] == "XREADGROUP":
            whole += [
                f"XGROUP CREATECONSUMER {key} {words[2]} {words[3]}"
                for key in words
                if key in ("s", "t")
            ]
        whole.append(text.replace("@", f"{place // 4}-{place % 4}"))
    return whole


def without(reply: Typed, fields: list[bytes]) -> Typed:
    """An XINFO reply without these fields and their values."""
    elements = reply.elements
    kept = [
        without(one, fields)
        for place, one in enumerate(elements)
        if one.value not in fields and (place == 0 or elements[place - 1].value not in fields)
    ]
    return Typed(reply.kind, kept) if elements else reply


def compare(pair: Pair, sequence: list[str]) -> None:
    """Runs one sequence on both sides, which begin empty, and asserts equal replies.

    Our clock stands, because redis-server executes the sequence at once. A machine that holds up
    this process would otherwise put times apart that must be near.
    """
    connection = pair.redis.connection("a")
    commands = [text.encode().split() for text in sequence]
    now_ms = clock_ms()
    connection.send([b"DISCARD"], [b"FLUSHALL"], *commands, [b"DISCARD"])
    for _ in range(2):
        connection.receive()
    expected = [connection.receive() for _ in commands]
    connection.receive()
    pair.ours = Ours(standing_ms=now_ms)
    queued: list[list[bytes]] | None = None
    # entries-read is a local statistic (S3.4): Redis estimates it where it does not know it, this
    # region counts. lag counts the entries that > would still deliver (S7.6, see `check_lag`);
    # Redis estimates it, and counts trimmed entries. `$` is a counter (S6.4), so if its entry is
    # gone, last-delivered-id shows a lower ID.
    ignored = [b"entries-read", b"lag"]
    if any("$" in text for text in sequence):
        ignored.append(b"last-delivered-id")
    for place, (text, words, theirs) in enumerate(zip(sequence, commands, expected, strict=True)):
        pair.ours.send("a", words)
        own = pair.ours.receive("a")
        assert theirs is not None and own is not None
        if (
            words == [b"EXEC"]
            and queued is not None
            and own.elements
            and len(own.elements) == len(theirs.elements)
        ):
            settled = [
                settle(inner, one, other)
                for inner, one, other in zip(queued, theirs.elements, own.elements, strict=True)
            ]
            theirs, own = (
                Typed("*", [one for one, _ in settled]),
                Typed("*", [one for _, one in settled]),
            )
        theirs, own = settle(words, theirs, own)
        if words[0] in (b"XINFO", b"EXEC"):
            theirs, own = without(theirs, ignored), without(own, ignored)
        assert own == theirs, f"after {sequence[:place]}\n{text}\nredis {theirs}\nours  {own}"
        if words == [b"MULTI"] and queued is None:
            queued = []
        elif words[0] in (b"EXEC", b"DISCARD"):
            queued = None
        elif queued is not None and own == Typed("+", b"QUEUED"):
            queued.append(words)
    check_lag(pair)


def check_lag(pair: Pair) -> None:
    """Asserts for our side that lag is the number of entries that > then delivers (S7.6)."""

    def ask(text: str) -> Typed:
        pair.ours.send("probe", text.encode().split())
        reply = pair.ours.receive("probe")
        assert reply is not None
        return reply

    for key in ("s", "t"):
        for row in ask(f"XINFO GROUPS {key}").elements:
            fields = {
                row.elements[place].value: row.elements[place + 1].value
                for place in range(0, len(row.elements), 2)
            }
            name = fields[b"name"]
            assert isinstance(name, bytes)
            delivered = ask(f"XREADGROUP GROUP {name.decode()} probe STREAMS {key} >").elements
            assert fields[b"lag"] == (len(delivered[0].elements[1].elements) if delivered else 0), (
                key,
                name,
            )


def check(new_pair: Callable[[int], Pair], examples: int) -> None:
    """Compares `examples` random sequences."""
    pair = new_pair(2)

    @settings(
        max_examples=examples,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
    )
    @given(sequence=SEQUENCE)
    def run(sequence: list[str]) -> None:
        compare(pair, numbered(sequence))

    run()


def test_sequences(new_pair: Callable[[int], Pair]) -> None:
    check(new_pair, 500)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_many_sequences(new_pair: Callable[[int], Pair]) -> None:
    check(new_pair, 20000)
