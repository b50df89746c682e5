"""Faults that a plan has only if they are asked for: `draw_plan` has an argument for each part.

Generators of their own draw them, so that other plans do not depend on them.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Final

from anabranch.sim.plan import Fault, Plan, shape_of

# A restore without `--restored`; only the argument `restores` draws it.
FORGOTTEN_RESTORE: Final = "forgotten restore"


# Errors that break off a step, a start or a clean stop (S13.10); only the argument `errors` draws
# them.
ERROR_IN_A_STEP: Final = "error in a step"
ERROR_IN_A_START: Final = "error in a start"
ERROR_IN_A_STOP: Final = "error in a stop"
ERRORS: Final = (ERROR_IN_A_STEP, ERROR_IN_A_START, ERROR_IN_A_STOP)
# The share of the plans with such errors that have no other fault.
_ERRORS_ALONE: Final = 0.3
_ERRORS_MAX: Final = 4
# The share of these plans that also have errors in starts and stops, and how many at most.
_AROUND_STEPS: Final = 0.6
_AROUND_STEPS_MAX: Final = 2

# A region that loses its files (S13.6); only the argument `outside` draws it.
EMPTIED_DIRECTORY: Final = "emptied directory"
_EMPTIED_MAX: Final = 3
# A clock that leaps, for a time (S10.2); only the argument `outside` draws it.
CLOCK_LEAP: Final = "clock leap"
_LEAPS_MAX: Final = 4
# In such plans clocks differ by at most so much, but for leaps, and regions refuse others.
HONEST_MS: Final = 100
_OFFSET_MAX: Final = {"crdt-clock-offset-max-ms": "500", "crdt-start-patience-ms": "60000"}
_CLOCK_FAULTS: Final = frozenset({"clock back", "clock forward", "strobing clock"})


def with_outside(plan: Plan) -> Plan:
    """The plan with faults outside the model: lost files, clocks that leap, or both.

    A generator of its own draws this, so that other plans do not depend on it.
    """
    draw = Random((plan.seed << 16) + 7)
    kind = draw.choice(["files", "clocks", "both"])
    found = [] if kind == "clocks" else _strikes(draw, plan, EMPTIED_DIRECTORY, _EMPTIED_MAX)
    if kind != "files":
        found += _strikes(draw, plan, CLOCK_LEAP, _LEAPS_MAX)
        kept = tuple(step for step in plan.steps if getattr(step, "kind", "") not in _CLOCK_FAULTS)
        plan = replace(
            plan.with_steps(kept),
            settings={one: {**values, **_OFFSET_MAX} for one, values in plan.settings.items()},
            clock_offsets_ms={one: draw.randint(-HONEST_MS, HONEST_MS) for one in plan.regions},
            # A start that cannot ask a member would last as long as its patience.
            links=shape_of("mesh", plan.regions),
            traits=plan.traits | {"leaps"},
        )
    return plan.with_steps(tuple(sorted((*plan.steps, *found), key=lambda step: step.at_ms)))


def _strikes(draw: Random, plan: Plan, kind: str, most: int) -> list[Fault]:
    """Up to `most` faults of a kind, at times of two regions at once."""
    found: list[Fault] = []
    for _ in range(draw.randint(1, most)):
        at_ms, duration_ms = draw.randrange(plan.load_ms), draw.choice([0, 20, 200, 1000])
        for region in draw.sample(plan.regions, draw.choice([1, 1, 1, 2])):
            other = draw.choice([one for one in plan.regions if one != region])
            bits = draw.getrandbits(32)
            found.append(Fault(at_ms, kind, (region, other), duration_ms, bits))
    return found


def with_errors(plan: Plan) -> Plan:
    """The plan with errors in steps, at times without its other faults.

    A generator of its own draws this, so that plans without errors do not depend on it.
    """
    draw = Random((plan.seed << 16) + 6)
    kept = plan.intents() if draw.random() < _ERRORS_ALONE else plan.steps
    found = [
        Fault(
            draw.randrange(plan.load_ms),
            ERROR_IN_A_STEP,
            (draw.choice(plan.regions),),
            draw.choice([1, 20, 200]),
            draw.getrandbits(32),
        )
        for _ in range(draw.randint(1, _ERRORS_MAX))
    ]
    # A generator of its own: the other plans stay as they were before there were such errors.
    apart = Random((plan.seed << 16) + 9)
    if apart.random() < _AROUND_STEPS:
        found += [
            Fault(
                apart.randrange(plan.load_ms),
                apart.choice([ERROR_IN_A_START, ERROR_IN_A_START, ERROR_IN_A_STOP]),
                (apart.choice(plan.regions),),
                apart.choice([1, 20, 200]),
                apart.getrandbits(32),
            )
            for _ in range(apart.randint(1, _AROUND_STEPS_MAX))
        ]
    return plan.with_steps(tuple(sorted((*kept, *found), key=lambda step: step.at_ms)))


def with_restores(plan: Plan, may_cut: bool) -> Plan:
    """The plan in a mesh, with as many forgotten restores as faults; about half come in groups.

    `may_cut`: half of the plans also have two starts that overlap, for which links are cut.
    """
    # A generator of its own: plans without overlapping starts do not depend on their draws.
    apart = Random((plan.seed << 16) + 3)
    found = _overlapping_starts(apart, plan) if may_cut and apart.random() < 0.5 else []
    cuts = sum(fault.kind != FORGOTTEN_RESTORE for fault in found)
    draw = Random((plan.seed << 16) + 2)
    while len(found) < cuts + max(2, len(plan.faults()) + cuts):
        together = draw.choice([1, 1, 2, len(plan.regions)])
        at_ms, duration_ms = draw.randrange(plan.load_ms), draw.randint(20, 1000)
        for region in draw.sample(plan.regions, together):
            late_ms, longer_ms = draw.choice([0, 20, 200]), draw.choice([0, 20, 200])
            other = draw.choice([one for one in plan.regions if one != region])
            found.append(
                Fault(
                    min(at_ms + late_ms, plan.load_ms - 1),
                    FORGOTTEN_RESTORE,
                    (region, other),
                    duration_ms + longer_ms,
                    draw.getrandbits(32),
                )
            )
    steps = sorted((*plan.steps, *found), key=lambda step: step.at_ms)
    return replace(plan, links=shape_of("mesh", plan.regions), steps=tuple(steps))


# Two overlapping starts. A row has a fault, its two regions, its begin and its end, in beats. The
# regions "first" and "second" are restored from backups; "other" is every further region. The
# second is restored while the first one asks. The effects that both lost reach the others after the
# others have answered, so only a second asking finds these effects (S13.6).
_OVERLAP: Final = (
    (FORGOTTEN_RESTORE, ("first", "second"), 0.0, 5.0),
    (FORGOTTEN_RESTORE, ("second", "first"), 1.0, 10.0),
    ("cut", ("first", "other"), 2.0, 5.5),
    ("cut", ("second", "other"), 2.0, 7.0),
    ("cut", ("first", "second"), 4.5, 10.5),
    ("cut", ("first", "other"), 7.0, 15.0),
    ("cut", ("second", "other"), 9.0, 15.0),
)


def _overlapping_starts(draw: Random, plan: Plan) -> list[Fault]:
    """Faults after `_OVERLAP`, each at about its time."""
    first, second, *others = draw.sample(plan.regions, len(plan.regions))
    named = {"first": [first], "second": [second], "other": others}
    beat_ms = draw.choice([15, 30, 60])
    # Every fault begins before the end of the load: the run heals then.
    begin_ms = draw.randrange(max(1, plan.load_ms - 10 * beat_ms))
    found: list[Fault] = []
    for kind, (one, other), begin, end in _OVERLAP:
        begin += draw.uniform(-0.3, 0.3)
        end += draw.uniform(-0.3, 0.3)
        at_ms = min(begin_ms + max(0, round(begin * beat_ms)), plan.load_ms - 1)
        duration_ms = round((end - begin) * beat_ms)
        for region in named[other]:
            pair = (*named[one], region)
            found.append(Fault(at_ms, kind, pair, duration_ms, draw.getrandbits(32)))
    return found
