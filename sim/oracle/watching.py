"""WATCH: a transaction runs if and only if no watched key has changed since, by merges or locally.

Source: S10.7.
"""

from __future__ import annotations

from typing import Optional

from anabranch.region.engine.replies import NullArray, Reply, SimpleString
from anabranch.sim.history import Operation
from anabranch.sim.oracle.arguments import Words
from anabranch.sim.oracle.follower import Follower
from anabranch.sim.oracle.verdicts import Wrong, readable


def _now(follower: Follower, key: bytes) -> Optional[int]:
    state = follower.existing(key)
    return None if state is None else state.changes


def watch(follower: Follower, words: Words, reply: Reply) -> None:
    """WATCH: notes the change counts of its keys."""
    op = follower.op
    if isinstance(reply, SimpleString) and op is not None and not op.waited:
        follower.watches.begin(
            op.number, follower.joins, {key: _now(follower, key) for key in words[1:]}
        )


def before_exec(follower: Follower, op: Operation) -> None:
    """EXEC, judged before its commands.

    Raises Wrong if it ran although a watched key had changed, or did not run although none had.
    """
    if op.waited:
        return  # the order of the effects around it in that step is unknown
    was = follower.watches.of(op.watched)
    if isinstance(op.reply, list) and was is not None:
        for key, change in was[1].items():
            if _now(follower, key) != change:
                raise Wrong(f"ran although the watched key {readable(key)} had changed")
    elif isinstance(op.reply, NullArray) and not op.watched:
        raise Wrong("EXEC did not run although its connection watches no key")
    elif isinstance(op.reply, NullArray) and was is not None and follower.joins == was[0]:
        # A join counts as a change of every key, so the case with a join in between is left out.
        if all(_now(follower, key) == change for key, change in was[1].items()):
            raise Wrong("EXEC did not run although no watched key had changed")
