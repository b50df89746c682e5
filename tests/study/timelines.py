"""Timelines made by hand and at random."""

from __future__ import annotations

from random import Random

from anabranch.crdt.vector import Dot
from anabranch.study.diagram.model import (
    ADD,
    COMMAND,
    CUT,
    FAULT,
    OTHER,
    OWN,
    REMOVAL,
    START,
    STOP,
    WAITS,
    Arrow,
    Band,
    Effect,
    Fate,
    Gap,
    Lane,
    LastState,
    Mark,
    Moment,
    Outage,
    Point,
    Timeline,
)

KEY = b"x"
WORDS = ("XADD x * a 1", "XREADGROUP GROUP g alice COUNT 10 STREAMS x >", "DEL x", "w" * 90, "日本")
REPLIES = ("", "1", "OK", "[110-1, 115-2, 120-1, 130-1]", "(error) ERR no such key", "→ é" * 30)


def lanes(count: int) -> tuple[Lane, ...]:
    """Regions 1, 2, 3 …"""
    names = ("us", "eu", "ap", "sa", "af", "oc", "me", "in")
    return tuple(Lane(place + 1, names[place]) for place in range(count))


def small(key: bytes = KEY, text: str = "XADD x 110 a 1", field: bytes = b"1") -> Timeline:
    """us adds an entry, eu applies it in a sync and removes it, and us applies that."""
    return Timeline(
        title="A title",
        lanes=lanes(2),
        points=(
            Point(Moment(1, 1), 1, COMMAND, text, "110-1", 1, 1, (key,), row="t1"),
            Point(Moment(9, 6), 2, COMMAND, "DEL x", "1", 1, 1, (key,), row="t3"),
        ),
        arrows=(
            Arrow(Moment(6, 4), 1, 1, 1, 1, 1, 2),
            Arrow(Moment(12, 8), 2, 1, 1, 9, 2, 1, ((1, 1),)),
        ),
        bands=(
            Band((1, 2), Moment(4, 2), Moment(7, 5), "t2"),
            Band((1, 2), Moment(10, 7), Moment(14, 9), "t4"),
        ),
        effects={
            (1, 1): Effect((1, 1), ADD, "110-1", key, 1),
            (2, 1): Effect((2, 1), REMOVAL, "DEL", key, 9),
        },
        fates={
            (1, 1): Fate(
                (1, 1),
                key,
                "110-1",
                (b"a", field),
                ((1, 1), (2, 6)),
                ((2, 9, (2, 1)), (1, 12, (2, 1))),
            )
        },
        finals=(LastState(1, key, True), LastState(2, key, True)),
        end_ms=20,
    )


def drawn_at_random(seed: int) -> Timeline:
    """A run of two to six regions whose events are drawn: not a possible run, but a timeline."""
    return _Drawing(Random(seed)).timeline()


class _Drawing:
    def __init__(self, draw: Random) -> None:
        self.draw = draw
        self.regions = draw.randint(2, 6)
        self.ms = 0
        self.order = 0
        self.issued = dict.fromkeys(range(1, self.regions + 1), 0)
        self.applied: dict[tuple[int, int], int] = {}
        self.points: list[Point] = []
        self.arrows: list[Arrow] = []
        self.marks: list[Mark] = []
        self.bands: list[Band] = []
        self.gaps: list[Gap] = []
        self.outages: list[Outage] = []
        self.effects: dict[Dot, Effect] = {}
        self.with_rows = draw.random() < 0.5

    def now(self) -> Moment:
        self.ms += self.draw.choice([0, 0, 1, 7])
        self.order += 1
        return Moment(self.ms, self.order)

    def row(self) -> str:
        return f"t{self.order // 4}" if self.with_rows else ""

    def region(self) -> int:
        return self.draw.randint(1, self.regions)

    def timeline(self) -> Timeline:
        for _ in range(self.draw.randint(1, 60)):
            self.draw.choice([self.command, self.command, self.arrow, self.arrow, self.rare])()
        fates = {
            dot: Fate(dot, KEY, f"{dot[1]}-{dot[0]}", (b"a", b"1"))
            for dot, effect in self.effects.items()
            if effect.kind == ADD
        }
        kept = tuple(dot for dot in fates if self.draw.random() < 0.5)
        return Timeline(
            "Drawn " * self.draw.randint(1, 40),
            lanes(self.regions),
            tuple(self.points),
            tuple(self.arrows),
            tuple(self.gaps),
            tuple(self.bands),
            tuple(self.outages),
            tuple(self.marks),
            self.effects,
            fates,
            tuple(LastState(region, KEY, True, entries=kept) for region in self.issued),
            self.ms,
        )

    def command(self) -> None:
        region = self.region()
        first = self.issued[region] + 1
        self.issued[region] += self.draw.choice([0, 1, 1, 3])
        for counter in range(first, self.issued[region] + 1):
            kind = self.draw.choice([ADD, ADD, REMOVAL, OTHER])
            self.effects[region, counter] = Effect((region, counter), kind, "text", KEY, self.ms)
        kind = self.draw.choice([COMMAND, COMMAND, WAITS, OWN])
        text, reply = self.draw.choice(WORDS), self.draw.choice(REPLIES)
        client = self.draw.choice([0, 0, 12])
        self.points.append(
            Point(
                self.now(),
                region,
                kind,
                text,
                reply,
                first,
                self.issued[region],
                (KEY,),
                client,
                self.row(),
            )
        )

    def arrow(self) -> None:
        origin, to = self.region(), self.region()
        first = self.applied.get((origin, to), 0) + 1
        if origin == to or first > self.issued[origin]:
            return
        last = self.draw.randint(first, self.issued[origin])
        via = self.draw.choice([one for one in self.issued if one != to])
        self.applied[origin, to] = last
        removes = ((origin, first),) if self.draw.random() < 0.3 else ()
        is_snapshot = self.draw.random() < 0.1
        now = self.now()
        self.arrows.append(Arrow(now, origin, first, last, now.ms, via, to, removes, is_snapshot))

    def rare(self) -> None:
        kind = self.draw.randrange(5)
        one, other = self.draw.sample(sorted(self.issued), 2)
        if kind == 0:
            begin, end = self.now(), self.draw.choice([None, self.now()])
            self.gaps.append(Gap(one, other, begin, end))
        elif kind == 1:
            begin = self.now()
            self.arrow()
            self.bands.append(Band(tuple(sorted((one, other))), begin, self.now(), self.row()))
        elif kind == 2:
            begin = self.now()
            self.marks.append(Mark(begin, STOP, (one,), "killed", self.row()))
            self.outages.append(Outage(one, self.now(), self.now(), self.draw.random() < 0.3))
            self.marks.append(Mark(self.now(), START, (one,), "starts", self.row()))
        else:
            regions = self.draw.choice([(), (one,), (one, other)])
            mark = self.draw.choice([CUT, FAULT])
            self.marks.append(Mark(self.now(), mark, regions, "a fault", self.row()))
