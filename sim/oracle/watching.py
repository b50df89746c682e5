"""WATCH: a transaction runs if, and only if, none of the keys that its client watched has changed since, merges included (S10.7)."""

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
    """WATCH."""
    op = follower.op
    if isinstance(reply, SimpleString) and op is not None and not op.waited:
        follower.watches.begin(
            op.number, follower.joins, {key: _now(follower, key) for key in words[1:]}
        )


def before_exec(follower: Follower, op: Operation) -> None:
    """EXEC, before what it did is looked at. Wrong: it ran although a key had changed, or did nothing although none had."""
    if op.waited:
        return  # what came before it in that step, and what after, cannot be told
    was = follower.watches.of(op.watched)
    if isinstance(op.reply, list) and was is not None:
        for key, change in was[1].items():
            if _now(follower, key) != change:
                raise Wrong(f"ran although {readable(key)}, which is watched, had changed")
    elif isinstance(op.reply, NullArray) and not op.watched:
        raise Wrong("did nothing although it watches nothing")
    elif isinstance(op.reply, NullArray) and was is not None and follower.joins == was[0]:
        # a join is a change of all
        if all(_now(follower, key) == change for key, change in was[1].items()):
            raise Wrong("did nothing although no key that is watched had changed")
