"""The required effects and replies of XADD (S4, S9, S10.5) and of trimming (S5.2, S5.3)."""

from __future__ import annotations

from typing import Optional

from anabranch.crdt import effects as fx
from anabranch.region.engine.replies import Reply
from anabranch.sim.oracle.arguments import (
    MAX_HALF,
    AddRequest,
    TrimRequest,
    Words,
    add_request,
    entry_id,
    generated_id,
    generated_in,
    shown,
    trim_request,
)
from anabranch.sim.oracle.follower import Follower
from anabranch.sim.oracle.log import Add
from anabranch.sim.oracle.reads import configuration, describe
from anabranch.sim.oracle.state import NEVER, KeyState, covers
from anabranch.sim.oracle.verdicts import Unsure, Wrong, readable


def observes_all(follower: Follower, vector: dict[int, int], what: str) -> None:
    """Raises Wrong unless `vector` covers exactly what the region had applied (S1).

    `vector` stands inside the effect called `what`.
    """
    if vector != follower.state.vector:
        raise Wrong(
            f"{what} carries the vector {vector}; its region had applied {follower.state.vector}"
        )


def clean_slate(follower: Follower, key: bytes) -> None:
    """A write that creates a key over remnants of an absent one first removes them (S10.5)."""
    state = follower.state.keys.get(key)
    if state is None or follower.existing(key) is not None:
        return
    left = bool(
        state.stream
        or state.groups
        or state.deadlines
        or state.configurations
        or state.has_header()
    )
    effect = follower.next()
    if not left and not (isinstance(effect, fx.RemoveObserved) and state.open_pair_count()):
        # The remnants may be pairs alone, whose collection is not visible from outside.
        return
    removal = follower.issued(fx.RemoveObserved, key, "creating a key over remnants")
    observes_all(follower, removal.vector, "RemoveObserved")
    if not removal.with_deadlines:
        raise Wrong("creating a key over remnants must take the deadlines, too")
    had_deadlines = bool(state.deadlines)
    follower.apply()
    if had_deadlines:
        deadline = follower.issued(fx.SetDeadline, key, "creating a key that had deadlines")
        if deadline.at_ms != NEVER or deadline.replaces:
            raise Wrong(
                "creating a key that had deadlines must set an infinite one: "
                f"{deadline.at_ms}, {deadline.replaces}"
            )
        follower.apply()


# -- XADD


def xadd(follower: Follower, words: Words, reply: Reply) -> None:
    """XADD: its ID, its pair, its trim, and whether it is a retry."""
    request = add_request(words)
    key = words[1]
    state = follower.existing(key)
    if reply is None:
        if request.creates_key or state is not None:
            raise Wrong("XADD answered nil")
        return
    if not isinstance(reply, bytes) or (state is None and not request.creates_key):
        raise Wrong(f"XADD answered {describe(reply)}")
    new_id = entry_id(reply)
    last_id = 0 if state is None else state.last_id()
    if request.pid and state is not None:
        if new_id <= last_id:
            _answers_retry(follower, state, request, new_id)
            return
        _is_no_retry(follower, state, request)
    clean_slate(follower, key)
    kind = _id_must_be(follower, request, last_id, new_id)
    add = follower.issued(Add, key, "XADD")
    if add.entry_id != new_id or add.fields != request.fields:
        raise Wrong(f"XADD answered {readable(reply)} and added {describe(add.shown)}")
    _pair_must_be(follower, request, add)
    add.kind = kind
    add.has_clock = request.kind == "*"
    if follower.op is not None:
        follower.record.added.setdefault(follower.op.number, []).append(add)
    follower.apply()
    if request.trim is not None:
        trim(follower, key, request.trim, None)


def _id_must_be(follower: Follower, request: AddRequest, last_id: int, new_id: int) -> str:
    """Checks a new entry's ID (S4.1 to S4.3); returns the kind of add that it makes."""
    mode = follower.defaults["crdt-xadd-id-uniqueness-mode"]
    expected: Optional[int]
    kind = "generated"
    if request.kind == "*":
        floor_ms = 0 if follower.op is None else follower.op.floor_ms
        expected = generated_id(follower.region, last_id, max(follower.clock_ms, floor_ms))
    elif request.kind == "ms-seq":
        expected, kind = (request.ms << 64) | request.seq, "given"
        if mode == "strict":
            raise Wrong(f"strict mode took the ID {shown(expected).decode()}", "unique_ids")
    elif mode != "liberal":
        expected = generated_in(follower.region, last_id, request.ms)
    elif request.kind == "ms":
        expected, kind = request.ms << 64, "given"
    else:
        expected, kind = (request.ms << 64 if request.ms > last_id >> 64 else last_id + 1), "given"
        if expected >> 64 != request.ms or (
            last_id >> 64 == request.ms and last_id & MAX_HALF == MAX_HALF
        ):
            expected = None
    if new_id != expected or new_id <= last_id:
        must = "none" if expected is None else shown(expected).decode()
        why = f"last ID {shown(last_id).decode()}, clock {follower.clock_ms}, mode {mode}"
        raise Wrong(f"XADD chose {shown(new_id).decode()}, must be {must}: {why}", "unique_ids")
    return kind


def _pair_must_be(follower: Follower, request: AddRequest, add: Add) -> None:
    if (add.pid, add.iid) != (request.pid, request.iid):
        raise Wrong(
            f"XADD added under the pair {(add.pid, add.iid)}, must be {(request.pid, request.iid)}",
            "idempotent_once",
        )
    if add.pid:
        observes_all(follower, add.vector, "an idempotent add")
        if add.recorded_ms != follower.clock_ms:
            raise Wrong(
                f"an idempotent add recorded {add.recorded_ms}; "
                f"its region's clock was {follower.clock_ms}",
                "idempotent_once",
            )


# -- idempotency


def may_be_retired(follower: Follower, state: KeyState, pid: bytes) -> bool:
    """Whether the producer ever had more pairs here than maxsize lets answer retries (S9.3)."""
    return state.pair_counts.get(pid, 0) > min(state.least_maxsize, follower.record.least_maxsize)


def may_be_forgotten(follower: Follower) -> bool:
    """Whether the run had more pairs than a region may keep retired.

    Beyond that number a region may miss a conflict (S9.3).
    """
    return follower.record.log.pairs > follower.record.least_retired_max


def may_have_lost(follower: Follower, add: Add) -> bool:
    """Whether the region may lack the pair of an add that it has applied.

    A snapshot holds no pair that its sender has collected as stable. A restored disk may since
    have lost the effects on which that stability rested.
    """
    return (
        follower.region in follower.record.restored and (add.region, add.counter) in follower.joined
    )


def is_conflict(one: Add, other: Add, duration_ms: int) -> bool:
    """Two adds of one pair, neither covered by the other, recorded within the duration (S9.2)."""
    return (
        one is not other
        and not covers(one.vector, other.region, other.counter)
        and not covers(other.vector, one.region, one.counter)
        and abs(one.recorded_ms - other.recorded_ms) <= duration_ms
    )


def order(add: Add) -> tuple[int, int]:
    """Sort key of the adds in a conflict: the lowest stays (S9.2)."""
    return (add.entry_id, add.region)


def _is_held(follower: Follower, add: Add, duration_ms: int) -> bool:
    """Whether the region has held the pair for at most the duration (S9.1)."""
    held_ms = follower.held.get((add.region, add.counter))
    if held_ms is None:
        if add.region != follower.region:
            raise Unsure("pair held since an unknown time")
        held_ms = add.recorded_ms
    return follower.clock_ms - held_ms <= duration_ms


def _answers_retry(follower: Follower, state: KeyState, request: AddRequest, answer: int) -> None:
    """Raises Wrong unless the answered ID is that of an earlier add of the pair (S9.1).

    The region must hold that add for at most the duration; of two adds in conflict it must
    answer the winner.
    """
    duration_ms = configuration(follower, state)[0] * 1000
    pairs = state.open_pairs(request.pid, request.iid)
    held = [add for add in pairs if _is_held(follower, add, duration_ms)]
    answered = [add for add in pairs if add.entry_id == answer]
    if not answered or not any(
        add is one or is_conflict(add, one, duration_ms) for add in answered for one in held
    ):
        text = (
            f"a retry was answered {shown(answer).decode()}, which is not held for its pair: "
            f"{[add.shown_id for add in held]}"
        )
        raise Wrong(text, "idempotent_once")
    if may_be_retired(follower, state, request.pid):
        return  # a retired winner is collected once it is stable; then the other add answers
    winners = [
        one
        for one in held
        if order(one) < min(order(add) for add in answered)
        and is_conflict(one, answered[0], duration_ms)
    ]
    if winners and len(answered) == 1:
        text = (
            f"a retry was answered {shown(answer).decode()}; "
            f"the winner of the conflict is {describe(winners[0].shown)}"
        )
        raise Wrong(text, "idempotent_once")


def _is_no_retry(follower: Follower, state: KeyState, request: AddRequest) -> None:
    """Raises Wrong if a pair that the region holds should have answered instead of a new add."""
    duration_ms = configuration(follower, state)[0] * 1000
    for add in state.open_pairs(request.pid, request.iid):
        if (
            _is_held(follower, add, duration_ms)
            and not may_be_retired(follower, state, request.pid)
            and not may_have_lost(follower, add)
        ):
            raise Wrong(
                f"a retry was added anew; {describe(add.shown)} is held for its pair",
                "idempotent_once",
            )


# -- trimming


def exact(state: KeyState, request: TrimRequest) -> list[Add]:
    """The entries that exact trimming removes from the logical stream (S5.2)."""
    if not request.by_length:
        return state.between(0, request.threshold - 1) if request.threshold else []
    excess = len(state.stream) - request.threshold
    return [place[3] for place in state.stream[:excess]] if excess > 0 else []


def trim(follower: Follower, key: bytes, request: TrimRequest, removed: Optional[int]) -> None:
    """Judges the effect of a trim; `removed` is the reply of XTRIM, None for XADD."""
    state = follower.state.keys[key]
    wanted = exact(state, request)
    effect = follower.next()
    loose = request.approximate or request.references == b"ACKED"
    if (
        not wanted
        or not isinstance(effect, fx.Trim)
        or effect.key != key
        or (removed == 0 and loose)
    ):
        if wanted and not loose:
            raise Wrong(f"trimming must remove {_ids(wanted)}, but removed nothing")
        if removed:
            raise Wrong(f"XTRIM answered {removed}, but removed nothing")
        return
    if (
        removed is None
        and loose
        and follower.op is not None
        and (len(follower.op.queued) > 1 or follower.op.waited)
    ):
        raise Unsure("the trim may belong to several commands of a transaction or of a start")
    gone = [add for dot, add in state.adds.items() if covers(effect.prefix, *dot)]
    _prefix_must_be(follower, state, effect, gone)
    if effect.drops_references != (request.references == b"DELREF"):
        raise Wrong("the flag of a trim that drops references must be as DELREF asked")
    dots = {(add.region, add.counter) for add in wanted}
    if any((add.region, add.counter) not in dots for add in gone):
        raise Wrong(f"trimming removes {_ids(gone)}, may remove {_ids(wanted)}")
    if not loose and len(gone) != len(wanted):
        raise Wrong(f"trimming removes {_ids(gone)}, must remove {_ids(wanted)}")
    if not gone or (removed is not None and removed != len(gone)):
        raise Wrong(f"trimming answered {removed}, and removes {len(gone)} entries")
    if request.references == b"ACKED":
        for add in gone:
            follower.pending.may_be_trimmed(state, add)
    if request.limit and len(gone) > request.limit:
        # The default limit without LIMIT is far above the entries of a run.
        raise Wrong(f"trimming removes {len(gone)} entries, may remove {request.limit}")
    follower.apply()


def _prefix_must_be(follower: Follower, state: KeyState, effect: fx.Trim, gone: list[Add]) -> None:
    """A prefix names only logs that lose entries, and covers only applied effects."""
    for region, counter in effect.prefix.items():
        if counter > follower.state.vector.get(region, 0):
            raise Wrong(
                f"a trim's prefix {effect.prefix} covers effects that its region had not applied: "
                f"{follower.state.vector}"
            )
        if not any(add.region == region for add in gone):
            raise Wrong(
                f"a trim's prefix {effect.prefix} names region {region}, which loses no entry"
            )


def _ids(adds: list[Add]) -> str:
    return (
        "["
        + ", ".join(f"{readable(add.shown_id)} of {add.region}" for add in adds[:8])
        + (", …]" if len(adds) > 8 else "]")
    )


def xtrim(follower: Follower, words: Words, reply: Reply) -> None:
    """XTRIM: its reply and its effect."""
    if not isinstance(reply, int):
        raise Wrong(f"XTRIM answered {describe(reply)}")
    if follower.existing(words[1]) is None:
        if reply != 0:
            raise Wrong(f"XTRIM of a key that does not exist answered {reply}")
        return
    trim(follower, words[1], trim_request(words), reply)
