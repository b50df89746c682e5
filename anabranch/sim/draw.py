"""Draws the plan of a seed: regions, links, limits, clients, rates and faults.

This is swarm testing (Groce et al. 2012): every seed leaves most features out and uses the others
heavily. A bug that needs many trims and no DEL is found by the seeds that draw that combination.
Limits are tiny, so that rare paths run often.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from random import Random
from typing import Final, Optional

from anabranch.sim.asked_faults import with_errors, with_outside, with_restores
from anabranch.sim.plan import ClientPlan, Fault, Intent, Link, Plan, Step, shape_of

KEYS: Final = (b"orders", b"jobs", b"events")

# kind → (share of the seeds that have clients of this kind, how many such clients at most)
CLIENTS: Final[dict[str, tuple[float, int]]] = {
    "producer": (0.95, 3),
    "idempotent-producer": (0.35, 2),
    "twin-producer": (0.35, 3),
    "consumer": (0.8, 4),
    "reader": (0.4, 1),
    "looker": (0.7, 1),
    "trimmer": (0.4, 2),
    "deleter": (0.3, 1),
    "renamer": (0.25, 2),
    "last-id-keeper": (0.12, 1),
    "expirer": (0.25, 2),
    "group-administrator": (0.3, 1),
    "pair-configurer": (0.12, 1),
    "configurer": (0.12, 1),
    "administrator": (0.3, 1),
    "transactor": (0.35, 2),
    "synchronous-writer": (0.15, 1),
}
# Kinds whose commands change much act less often.
RARE: Final = frozenset(
    {"deleter", "renamer", "last-id-keeper", "administrator", "configurer", "pair-configurer"}
)

ACTS_PER_COMMAND: Final = 0.89
"""Acts per command: an act can be several commands (a pipeline); a client that waits skips acts."""

# How many acts one pipeline of a client has at most, where clients pipeline.
DEPTHS: Final = (1, 2, 4, 8, 20)

# kind → (share of the seeds that have it, strikes at most, least duration in ms, most in ms)
FAULTS: Final[dict[str, tuple[float, int, int, int]]] = {
    "cut": (0.3, 3, 50, 1500),
    "one-way cut": (0.2, 2, 50, 1500),
    "isolation": (0.2, 2, 50, 2000),
    "full partition": (0.15, 1, 50, 1500),
    "ring": (0.15, 1, 300, 3000),
    "flapping": (0.15, 1, 200, 1500),
    "slow link": (0.2, 2, 100, 2000),
    "reset": (0.25, 4, 0, 0),
    "half-open": (0.2, 3, 0, 0),
    "reset in a snapshot": (0.4, 3, 0, 0),
    "link down": (0.15, 2, 50, 1000),
    "kill": (0.25, 2, 0, 300),
    "kill in a write": (0.2, 2, 1, 300),
    "power cut": (0.2, 2, 1, 300),
    "power cut in a write": (0.25, 2, 1, 300),
    "death in a checkpoint": (0.2, 3, 1, 300),
    "blackout": (0.06, 1, 1, 300),
    "clean restart": (0.15, 2, 1, 200),
    "long absence": (0.12, 1, 1500, 4000),
    "gone for good": (0.12, 1, 50, 1000),
    "old backup": (0.15, 2, 200, 3000),
    "pause": (0.15, 2, 20, 800),
    "I/O errors": (0.1, 1, 20, 500),
    "full disk": (0.08, 1, 20, 500),
    "read errors": (0.2, 2, 100, 1500),
    "slow disk": (0.15, 2, 100, 1500),
    "clock back": (0.15, 2, 0, 0),
    "clock forward": (0.15, 2, 0, 0),
    "strobing clock": (0.1, 1, 200, 1500),
    "client crash": (0.2, 3, 0, 0),
    "clients cut off": (0.15, 2, 0, 0),
}
# Kinds that came later. A generator of their own draws them, so that seeds without them did not
# change.
_APART: Final = frozenset({"reset in a snapshot", "death in a checkpoint", "read errors"})


def draw_plan(
    seed: int,
    regions: int = 3,
    ops: int = 300,
    faults: Optional[Collection[str]] = None,
    restores: bool = False,
    errors: bool = False,
    outside: bool = False,
) -> Plan:
    """The plan of a seed.

    `faults`: the kinds allowed; None: all. ValueError for a kind that does not exist. `restores`:
    all regions dial each other, and every second fault is a forgotten restore (S13.6). `errors`:
    errors break off steps (S13.10). `outside`: regions also lose their files, and clocks leap.
    """
    unknown = sorted(set(faults or ()) - set(FAULTS))
    if unknown:
        raise ValueError(f"there is no fault '{unknown[0]}'; there are: {', '.join(FAULTS)}")
    draw = Random((seed << 16) + (regions << 8) + 1)
    ids = tuple(range(1, regions + 1))
    load_ms = int(ops * draw.choice([2, 3, 5]))
    mirrors = draw.random() < 0.25
    clients = _clients(draw, ids, mirrors)
    steps: list[Step] = [
        *_intents(draw, clients, ops, load_ms),
        *_faults(draw, Random((seed << 16) + 4), ids, load_ms, faults),
    ]
    steps.sort(key=lambda step: step.at_ms)
    quick = draw.choice([(0, 0), (0, 2), (1, 5)])
    apart = draw.random() < 0.5
    plan = Plan(
        seed=seed,
        regions=ids,
        settings=_settings(draw, ids, mirrors),
        clients=clients,
        steps=tuple(steps),
        links=_links(draw, ids),
        load_ms=load_ms,
        tick_ms=draw.choice([20, 50, 80]),
        delay_ms=draw.choice([quick, quick, (5, 30)]),
        loss=draw.choice([0.0, 0.0, 0.02, 0.1]),
        clock_offsets_ms={one: draw.randint(-2000, 2000) if apart else 0 for one in ids},
        traits=frozenset({"encoded"} if draw.random() < 0.15 else ()),
    )
    plan = _with_pipelines(plan)
    if restores:
        plan = with_restores(plan, faults is None or "cut" in faults)
    if errors:
        plan = with_errors(plan)
    return with_outside(plan) if outside else plan


def _with_pipelines(plan: Plan) -> Plan:
    """Every second plan with clients that pipeline. What they send then mostly comes in pieces.

    A generator of its own draws this, so that plans without pipelines do not depend on it.
    """
    draw = Random((plan.seed << 16) + 5)
    if draw.random() < 0.5:
        return plan
    clients = tuple(replace(one, depth=draw.choice(DEPTHS)) for one in plan.clients)
    pieces = {"pieces"} if draw.random() < 0.7 else set()
    return replace(plan, clients=clients, traits=plan.traits | pieces)


def _clients(draw: Random, regions: tuple[int, ...], mirrors: bool) -> tuple[ClientPlan, ...]:
    """The clients of a plan. `mirrors`: the producers publish one feed (`sim.load.producers`)."""
    keys = KEYS[: draw.choice([1, 1, 2, 3])]
    kinds: list[str] = []
    for kind, (share, most) in CLIENTS.items():
        if draw.random() < share:
            kinds += [kind] * draw.randint(1, most)
    if not kinds:
        kinds = ["producer"]
    if mirrors:
        kinds += ["producer", "producer", "trimmer", "looker"]
    clients: list[ClientPlan] = []
    for number, kind in enumerate(kinds, 1):
        own = tuple(key for key in keys if draw.random() < 0.7) or keys[:1]
        home, bits = draw.choice(regions), draw.getrandbits(32)
        clients.append(
            ClientPlan(
                number, kind, home, own, bits & ~7 if mirrors and kind == "producer" else bits
            )
        )
    return tuple(clients)


def _intents(draw: Random, clients: tuple[ClientPlan, ...], ops: int, load_ms: int) -> list[Intent]:
    """The acts of the clients. Each client has its own rate; some plans have bursts."""
    weights = [draw.choice([1, 2, 4, 8]) * (0.3 if one.kind in RARE else 1.0) for one in clients]
    bursts = draw.choice([1, 1, 5])
    intents: list[Intent] = []
    at_ms = 0
    for number, client in enumerate(
        draw.choices(clients, weights, k=max(1, round(ops * ACTS_PER_COMMAND)))
    ):
        if number % bursts == 0:
            at_ms = draw.randrange(load_ms)
        intents.append(Intent(at_ms, client.number, draw.getrandbits(48)))
    return intents


def _faults(
    main: Random,
    apart: Random,
    regions: tuple[int, ...],
    load_ms: int,
    allowed: Optional[Collection[str]],
) -> list[Fault]:
    """The faults of a plan. `apart` draws the kinds that are in `_APART`."""
    found: list[Fault] = []
    quiet = main.random() < 0.1  # a tenth of the runs have no faults
    for kind, (share, most, least_ms, most_ms) in FAULTS.items():
        draw = apart if kind in _APART else main
        has = draw.random() < share
        for _ in range(draw.randint(1, most)):
            at_ms, duration_ms, bits = (
                draw.randrange(load_ms),
                draw.randint(least_ms, most_ms),
                draw.getrandbits(32),
            )
            whom = tuple(draw.sample(regions, min(2, len(regions))))
            if has and not quiet and (allowed is None or kind in allowed) and len(whom) == 2:
                found.append(Fault(at_ms, kind, whom, duration_ms, bits))
    return found


def _links(draw: Random, regions: tuple[int, ...]) -> tuple[Link, ...]:
    """Mostly a mesh, at times a line, a one-way ring or a star.

    In each of these shapes every effect reaches every region.
    """
    shape = draw.choice(["mesh", "mesh", "mesh", "line", "ring", "star"])
    return shape_of(shape, regions)


def _settings(draw: Random, regions: tuple[int, ...], mirrors: bool) -> dict[int, dict[str, str]]:
    """The settings of each region: some are drawn once for all regions, others for each region."""
    pick = draw.choice
    modes = (
        ["semi-strict", "liberal"] if mirrors else ["strict", "strict", "semi-strict", "liberal"]
    )
    shared = {
        "crdt-xadd-id-uniqueness-mode": pick(modes),
        "appendfsync": pick(["always", "everysec", "no"]),
        "stream-node-max-entries": pick(["2", "3", "4", "10", "100"]),
        "stream-node-max-bytes": pick(["60", "4096"]),
        "stream-idmp-duration": pick(["1", "1", "2", "10"]),
        "stream-idmp-maxsize": pick(["1", "2", "100"]),
        "crdt-unit-max-bytes": pick(["250", "1000", *["64000000"] * 10]),
        "crdt-expiry-grace-ms": pick(["20", "200", "1000"]),
        "crdt-heartbeat-interval-ms": pick(["60", "150", "300"]),
        "crdt-sync-interval-ms": pick(["0", "5", "20"]),
        "crdt-start-patience-ms": pick(["0", "50", "500"]),
        "crdt-snapshot-patience-ms": pick(["50", "200", "600"]),
        "crdt-body-patience-ms": pick(["5", "50", "200"]),
        "crdt-reconnect-min-ms": pick(["5", "50"]),
        "crdt-reconnect-max-ms": pick(["50", "300"]),
        "crdt-link-silence-ms": pick(["600", "1200"]),
    }
    own = {
        "crdt-block-max-bytes": ["1", "100", "1000000"],
        "crdt-log-max-effects": ["10", "30", "0", "0"],
        "crdt-checkpoint-interval-ms": ["100", "500", "2000"],
        "crdt-checkpoint-max-bytes": ["3000", "1000000"],
        "crdt-slice-max-bytes": ["100", "1000", "1000000"],
        "crdt-batch-max-bytes": ["60", "400", "400", "1000000"],
        "crdt-window-max-bytes": ["1", *["1000"] * 3, *["8000000"] * 4],
        "crdt-log-tail-max-bytes": ["1", "2000", "16000000"],
        "crdt-idmp-retired-max": ["0", "2", *["100000"] * 6],
        "crdt-collect-interval-ms": ["1", "5", "50", "300"],
    }
    result: dict[int, dict[str, str]] = {}
    for region in regions:
        values = dict(shared)
        for name, choices in own.items():
            values[name] = pick(choices)
        if values["crdt-block-max-bytes"] != "1000000" and draw.random() < 0.3:
            values["crdt-uncommitted-max-bytes"] = "400"
        if draw.random() < 0.1:
            values["appendfsync"] = pick(["always", "everysec", "no"])
        result[region] = values
    return result
