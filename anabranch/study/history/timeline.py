"""The history of a key in a live cluster as a timeline for a drawing: `anabranch log --svg`.

Each region that answers has a lane with the effects that it issued and its local records, in the
order of its log. Arrows show where other regions applied the effects, and from which peer. Regions
that did not answer have a lane without events; effects of theirs that others have applied are
arrows. Logs hold no cuts and no outages, so none is drawn.

Times count from the first event that is drawn. They are those of each region's own clock, so the
order of the drawing is not theirs: see `steps`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Optional

from anabranch.crdt.vector import Dot, covers
from anabranch.plural import counted, joined
from anabranch.study.diagram.model import NOTE, Arrow, Effect, Lane, Mark, Moment, Point, Timeline
from anabranch.study.diagram.texts import word
from anabranch.study.history.endings import Effects, fates, last_state
from anabranch.study.history.phrases import Phrases, kind_of, utc
from anabranch.study.history.steps import HistoryStep, RegionAnswer, in_causal_order, steps_of

# Orders of events begin above those of notes, of which each lane has at most one.
_FIRST_ORDER: Final = 1000
NO_ANSWER: Final = "did not answer: its log is not known"
NOT_ASKED: Final = "was not asked: its log is not known"


class NoEvents(Exception):
    """The logs have no event of the key in the range; the text says so."""


@dataclass(frozen=True)
class Range:
    """The part of the history that is drawn.

    `since_ms` and `until_ms` are times of each region's own clock, inclusive. `newest`: at most so
    many events, the last ones. `entry_id`: of the entries only those with this ID. None and an
    empty ID: no bound.
    """

    since_ms: Optional[int] = None
    until_ms: Optional[int] = None
    newest: Optional[int] = None
    entry_id: str = ""


def timeline_of(
    answers: Sequence[RegionAnswer],
    silent: Sequence[str],
    names: Mapping[int, str],
    part: Optional[Range] = None,
) -> Timeline:
    """The timeline of a key.

    Args:
        answers: The answers of the regions, at least one, all about one key.
        silent: The names of the regions that did not answer.
        names: region_id → name of every region.
        part: The part to draw; all by default.

    Raises:
        NoEvents: Nothing is left to draw.
    """
    return _Maker(answers, silent, names, part or Range()).timeline()


class _Maker:
    def __init__(
        self,
        answers: Sequence[RegionAnswer],
        silent: Sequence[str],
        names: Mapping[int, str],
        part: Range,
    ) -> None:
        self.answers = sorted(answers, key=lambda one: one.region_id)
        self.silent = silent
        self.part = part
        self.key = answers[0].history.key
        self.names = {**names, **{one.region_id: one.region for one in answers}}
        self.effects = Effects(self.answers)
        self.issued_ms: dict[Dot, int] = {}
        self.zero_ms = 0
        self.lanes = [steps_of(answer) for answer in self.answers]
        self.fates = fates(self.effects, self.lanes, self.key)
        self.phrases = Phrases(self.name, self.fates)

    def name(self, region_id: int) -> str:
        """A region's name, or its id if no region told the name."""
        return self.names.get(region_id, f"region-{region_id}")

    def timeline(self) -> Timeline:
        """The whole timeline; NoEvents if it is empty."""
        for step in (step for lane in self.lanes for step in lane if step.is_issue):
            self.issued_ms |= dict.fromkeys(step.dots, step.ms)
        ordered = in_causal_order(self.lanes)
        drawn = [step for step in ordered if self._is_in_range(step)]
        if not drawn:
            raise NoEvents(self._nothing())
        left_out = self._left_out(len(drawn))
        drawn = drawn[-(self.part.newest or len(drawn)) :]
        self.zero_ms = min(step.ms for step in drawn)
        points, arrows = self._events(ordered, drawn)
        regions = {*self.names, *(origin for origin, _ in self.effects.by_dot)}
        regions |= {arrow.via for arrow in arrows}
        answered = {answer.region_id for answer in self.answers}
        return Timeline(
            f"The history of {word(self.key)}",
            tuple(Lane(one, self.name(one), one not in answered) for one in sorted(regions)),
            tuple(points),
            tuple(arrows),
            marks=tuple(self._marks(regions - answered, set(map(id, drawn)))),
            effects=self._effects(),
            fates=self.fates,
            finals=tuple(
                last_state(self.effects, answer, self.key, self.part.entry_id)
                for answer in self.answers
            ),
            end_ms=max(step.ms for step in drawn) - self.zero_ms,
            left_out=left_out,
            notes=self._notes(),
        )

    # -- the part that is drawn

    def _is_in_range(self, step: HistoryStep) -> bool:
        since_ms, until_ms = self.part.since_ms, self.part.until_ms
        return (since_ms is None or step.ms >= since_ms) and (
            until_ms is None or step.ms <= until_ms
        )

    def _left_out(self, events: int) -> str:
        """Words for what is left out, of a number of events in the range of time."""
        since_ms, until_ms = self.part.since_ms, self.part.until_ms
        words = []
        if since_ms is not None:
            words.append(f"only events since {since_ms} ms ({utc(since_ms)})")
        if until_ms is not None:
            words.append(f"only events until {until_ms} ms ({utc(until_ms)})")
        if self.part.entry_id:
            words.append(f"only the entries with the ID {self.part.entry_id}")
        if self._is_short(events):
            words.append(f"only the newest {self.part.newest} of {counted(events, 'event')}")
        return "; ".join(words)

    def _is_short(self, events: int) -> bool:
        return self.part.newest is not None and self.part.newest < events

    def _nothing(self) -> str:
        regions = joined([answer.region for answer in self.answers])
        verb = "has" if len(self.answers) == 1 else "have"
        in_range = self.part.since_ms is not None or self.part.until_ms is not None
        where = " in this range of time" if in_range else ""
        return f"{regions} {verb} no event of {word(self.key)}{where}: there is nothing to draw"

    # -- events

    def _events(
        self, ordered: list[HistoryStep], drawn: list[HistoryStep]
    ) -> tuple[list[Point], list[Arrow]]:
        """Points and arrows of the steps that are drawn; each has an order of its own."""
        wanted = set(map(id, drawn))
        points: list[Point] = []
        arrows: list[Arrow] = []
        order = _FIRST_ORDER
        applied: dict[int, set[Dot]] = {}
        for step in ordered:
            had = applied.setdefault(step.region, set())
            is_drawn = id(step) in wanted
            brought = self._brought(step, had) if step.is_snapshot else []
            had.update(step.dots, brought)
            if not is_drawn:
                continue
            if step.is_arrival:
                order += 1
                arrows.append(self._arrow(step, order, step.dots))
                continue
            for place, run in enumerate(_runs(brought)):
                order += 1
                arrow = self._arrow(step, order, run, is_snapshot=True)
                arrows.append(arrow if place == 0 else replace(arrow, removes=()))
            order += 1
            points.append(self._point(step, order))
        return points, arrows

    def _brought(self, step: HistoryStep, had: set[Dot]) -> list[Dot]:
        """The effects of others that a snapshot holds and that the lane does not show before it."""
        seen = step.first.vector
        return [
            dot
            for dot in self.effects.by_dot
            if covers(seen, *dot) and dot not in had and dot[0] != step.region
        ]

    def _moment(self, step: HistoryStep, order: int) -> Moment:
        return Moment(step.ms - self.zero_ms, order)

    def _point(self, step: HistoryStep, order: int) -> Point:
        kind, text = self.phrases.of_step(step)
        dots = step.dots
        first, last = (dots[0][1], dots[-1][1]) if dots else (1, 0)
        when = self._moment(step, order)
        return Point(when, step.region, kind, text, "", first, last, (self.key,))

    def _arrow(
        self, step: HistoryStep, order: int, dots: list[Dot], is_snapshot: bool = False
    ) -> Arrow:
        issued_ms = self.issued_ms.get(dots[-1])
        return Arrow(
            self._moment(step, order),
            dots[0][0],
            dots[0][1],
            dots[-1][1],
            None if issued_ms is None else issued_ms - self.zero_ms,
            step.source,
            step.region,
            tuple(sorted(step.removes)),
            is_snapshot,
        )

    def _effects(self) -> dict[Dot, Effect]:
        return {
            dot: Effect(
                dot,
                kind_of(event),
                self.phrases.of_effect(event),
                None if event.kind == "flush" else self.key,
                max(0, self.issued_ms.get(dot, 0) - self.zero_ms),
                tuple(event.dots),
            )
            for dot, event in self.effects.by_dot.items()
        }

    # -- words about the record

    def _marks(self, unknown: set[int], drawn: set[int]) -> list[Mark]:
        """Words at the beginning of the lanes whose logs were not read to their beginnings.

        A lane whose first events the range leaves out has none. `drawn` are the ids of the steps.
        """
        # A region asked by its address alone has no other name: it may be any of the unknown ones.
        is_unnamed = not set(self.silent) <= set(self.names.values())
        texts = {
            region: NO_ANSWER if is_unnamed or self.name(region) in self.silent else NOT_ASKED
            for region in unknown
        }
        for answer, lane in zip(self.answers, self.lanes, strict=True):
            history = answer.history
            if lane and id(lane[0]) not in drawn:
                continue
            if history.left_out:
                events = counted(history.left_out, "older event")
                verb = "was" if history.left_out == 1 else "were"
                texts[answer.region_id] = f"{events} {verb} not read"
            elif history.floor:
                begins = utc(history.since_ms) if history.since_ms else "now"
                texts[answer.region_id] = f"its log begins at {begins}; older effects are not in it"
        return [
            Mark(Moment(0, place), NOTE, (region,), text)
            for place, (region, text) in enumerate(sorted(texts.items()), 1)
        ]

    def _notes(self) -> tuple[str, ...]:
        regions = joined([answer.region for answer in self.answers])
        logs = "log" if len(self.answers) == 1 else "logs"
        zero = f"{self.zero_ms} ms since 1970 ({utc(self.zero_ms)})"
        times = f"Times are those of each region's own clock; 0 ms is {zero}."
        order = "A lane has the order of its region's log. No event stands above its cause."
        return (f"From the {logs} of {regions}. {times} {order}",)


def _runs(dots: list[Dot]) -> list[list[Dot]]:
    """Ascending dots as runs of one region without gaps."""
    runs: list[list[Dot]] = []
    for dot in dots:
        if runs and (runs[-1][-1][0], runs[-1][-1][1] + 1) == dot:
            runs[-1].append(dot)
        else:
            runs.append([dot])
    return runs
