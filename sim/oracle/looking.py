"""Looks into a live region: compares replies of reading commands with the naive state."""

from __future__ import annotations

from anabranch.region.engine.replies import ErrorReply, Reply
from anabranch.sim.history import Vector
from anabranch.sim.oracle import reads
from anabranch.sim.oracle.arguments import Words, name_of
from anabranch.sim.oracle.follower import Follower
from anabranch.sim.oracle.oracle import JUDGES, Oracle
from anabranch.sim.oracle.verdicts import Unsure, Wrong


def looks(key: bytes) -> tuple[Words, ...]:
    """The commands that show a key: entries with fields, groups, length, last ID, deadline."""
    return (
        (b"XRANGE", key, b"-", b"+"),
        (b"XINFO", b"GROUPS", key),
        (b"XINFO", b"STREAM", key),
        (b"XLEN", key),
        (b"EXISTS", key),
        (b"PEXPIRETIME", key),
    )


def few_looks(key: bytes, turn: int) -> tuple[Words, ...]:
    """A shorter check between faults: the entries, and alternately XINFO GROUPS or XINFO STREAM."""
    entries, groups, stream, *_ = looks(key)
    return entries, groups if turn % 2 else stream


def clock_ms(oracle: Oracle, region: int) -> int:
    """The region's clock in ms: the highest that it has read (S10.2)."""
    reply = oracle.record.setup.ask(region, (b"TIME",))
    assert isinstance(reply, list) and isinstance(reply[0], bytes) and isinstance(reply[1], bytes)
    return int(reply[0]) * 1000 + int(reply[1]) // 1000


def can_look(oracle: Oracle, region: int, vector: Vector) -> bool:
    """Whether the naive state stands at the vector that the region shows now."""
    follower = oracle.followers[region]
    return follower.is_level() and follower.state.vector == vector


def look(oracle: Oracle, region: int, key: bytes, at_ms: int, commands: tuple[Words, ...]) -> None:
    """Compares the replies of `commands` for one key of one region with the naive state.

    Each difference goes to the judge of its invariant.
    """
    follower = oracle.followers[region]
    state = follower.state.keys.get(key)
    if state is not None and state.deadlines:
        follower.clock_ms = clock_ms(oracle, region)
    follower.op = None
    for words in commands:
        reply = oracle.record.setup.ask(region, words)
        try:
            _judge(follower, words, reply)
        except Wrong as wrong:
            oracle.record.find(
                wrong.checker,
                at_ms,
                region,
                f"{wrong.text} (looking at {key.decode('utf-8', 'replace')})",
            )
        except Unsure:
            pass


def _judge(follower: Follower, words: Words, reply: Reply) -> None:
    if isinstance(reply, ErrorReply):
        reads.error(follower, words, reply.message)
    else:
        JUDGES[name_of(words)](follower, words, reply)
