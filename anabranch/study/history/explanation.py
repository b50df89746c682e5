"""The facts of `anabranch explain`: the state of a key in a region, and the reasons for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from anabranch.crdt.vector import Dot, Vector
from anabranch.study.history.entry import EntryExplanation, explain_entry
from anabranch.study.history.evidence import Evidence, ToldEffect
from anabranch.study.history.groups import GroupExplanation, explain_groups
from anabranch.study.replies.events import REMOVALS, KeyEvent
from anabranch.study.replies.histories import ExplainedHistory


@dataclass(frozen=True)
class DeadlineExplanation:
    """A deadline that is there, and the effect that set it (S10.2). The longest one wins.

    `at_ms` None: never.
    """

    dot: Dot
    at_ms: Optional[int]
    wins: bool
    set: Optional[ToldEffect]


@dataclass(frozen=True)
class LogReach:
    """How far back the log of the region goes; `since_ms` None: it is empty."""

    since_ms: Optional[int]
    is_whole: bool
    floor: Vector
    left_out: int


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """All facts. `regions` are the names of all regions, `silent` those that did not answer.

    `removals` are those that the log still has, oldest first.
    """

    key: bytes
    region: str
    regions: dict[int, str]
    now_ms: int
    exists: bool
    hidden: bool
    length: int
    last_id: str
    applied: Vector
    silent: list[str]
    log: LogReach
    entry: Optional[EntryExplanation] = None
    groups: list[GroupExplanation]
    deadlines: list[DeadlineExplanation]
    removals: list[KeyEvent]


def explain(
    asked: ExplainedHistory,
    others: list[ExplainedHistory],
    silent: list[str],
    names: dict[int, str],
) -> Explanation:
    """The explanation.

    Args:
        asked: The reply of CRDT.EXPLAIN of the region in question.
        others: Those of the other regions that answered, to the same question.
        silent: The names of the regions that did not answer.
        names: region_id → name of every region.
    """
    state = asked.state
    evidence = Evidence(asked, others)
    return Explanation(
        key=asked.key,
        region=asked.region,
        regions=dict(sorted(names.items())),
        now_ms=asked.now_ms,
        exists=state.exists,
        hidden=state.is_hidden,
        length=state.length,
        last_id=state.last_id,
        applied=asked.vector,
        silent=silent,
        log=LogReach(asked.since_ms or None, asked.is_whole, asked.floor, asked.left_out),
        entry=explain_entry(evidence, silent) if state.entry_id else None,
        groups=explain_groups(evidence),
        deadlines=[
            DeadlineExplanation(one.dot, one.at_ms, one.wins, evidence.told(one.dot))
            for one in state.deadlines
        ],
        removals=[event for event in asked.events if event.kind in REMOVALS],
    )
