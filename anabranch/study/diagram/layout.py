"""The place of everything in the drawing.

Time runs downwards, because commands are long and a page scrolls: each lane has a column of its
own for their text, as in the table of a scenario. Equal heights are no equal times: a stage is as
high as its texts need, and the order of stages is that of the events.

Texts stand to the right of their lane line. Arrows have heights of their own, where no lane has
text, so neither covers the other. The strip between two columns is hatched while these regions do
not hear each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Optional, Union

from anabranch.study.diagram import ending, story
from anabranch.study.diagram.arrows import crossing_parts
from anabranch.study.diagram.model import (
    CUT,
    FAULT,
    LATE,
    NOTE,
    WAITS,
    Band,
    Gap,
    Mark,
    Outage,
    Point,
    Timeline,
)
from anabranch.study.diagram.places import (
    CHARACTER,
    COLUMN_MIN,
    GUTTER,
    LANE_AT,
    LINE,
    STRIP,
    TEXT_AT,
    WIDTH,
    ArrowPlace,
    Box,
    Column,
    Label,
    Layout,
    PointPlace,
    Segment,
    one_line,
)
from anabranch.study.diagram.stages import Crossing, Edge, LaneRow, Line, Stage, Transfers, staged
from anabranch.study.diagram.tags import tags_of, text_of
from anabranch.study.diagram.texts import Piece, Run, columns_of, cut, flowed, short_time

ROW_GAP: Final = 8
TIME_COLUMNS: Final = 7
BLOCK_GAP: Final = 5
LINES_MAX: Final = 5
"""Lines of one command with its reply; the rest is in its title."""
ARROW_LINES_MAX: Final = 3
ARROW_GAP: Final = 6
SLOPE: Final = 9
"""How much lower an arrow ends than it begins."""
BAND_PAD: Final = 5
CAPTION: Final = (
    "Time runs downwards. {0}:1 is the first effect of {0}."
    " An arrow ends where a region applied effects."
)
TITLE_COLUMNS_PER_PX: Final = 1 / 9.6


def laid_out(timeline: Timeline) -> Layout:
    """The layout of a timeline; ValueError if it names a region without a lane."""
    return _Placer(timeline).place()


def columns(timeline: Timeline) -> list[Column]:
    """The columns of the lanes, in order."""
    count = max(1, len(timeline.lanes))
    width = max((WIDTH - GUTTER) // count, COLUMN_MIN)
    lefts = [GUTTER + place * width for place in range(count)]
    return [
        Column(lane.region_id, lane.name, left, left + width, left + LANE_AT)
        for lane, left in zip(timeline.lanes, lefts, strict=False)
    ]


class _Drawn(NamedTuple):
    """An arrow from the line of `via` to that of `to`; `beside` is the next lane on its way."""

    via: Column
    to: Column
    beside: Column
    lines: tuple[tuple[Piece, ...], ...]
    kind: str
    title: str

    def is_beside(self, other: _Drawn) -> bool:
        """Whether the two can have one height."""
        begin, end = sorted((self.via.x, self.to.x))
        other_begin, other_end = sorted((other.via.x, other.to.x))
        return end <= other_begin or begin >= other_end


class _Placer:
    """Walks the stages downwards; `y` is the height reached."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.columns = columns(timeline)
        self.by_region = {column.region: column for column in self.columns}
        self.layout = Layout(max(WIDTH, self.columns[-1].right if self.columns else 0))
        self.layout.columns = self.columns
        self.y = 0.0
        self.time_said = ""
        self.shows_times = not any(point.row for point in timeline.points)
        self.band_top: dict[Band, float] = {}  # the bands that are open
        self.empty: Optional[Band] = None  # the band that is open and shows nothing yet
        self.gaps: dict[tuple[int, int], int] = {}  # (source, to) → gaps that are open now
        # Place of the strip's left column → since which y, and in which state.
        self.strips: dict[int, tuple[float, str]] = {}
        # region → the y at which its line begins, and whether it runs there.
        self.lines: dict[int, tuple[float, str]] = {}

    def place(self) -> Layout:
        """Places everything."""
        layout, timeline = self.layout, self.timeline
        stages = staged(timeline)
        layout.title = timeline.title
        layout.story = story.told(timeline, stages)
        self._head()
        for stage in stages:
            self._stage(stage)
        self._end_lines()
        self.y = ending.place_finals(timeline, layout, self.y + 10)
        self.y = ending.place_legend(timeline, layout, self.y + 12)
        layout.height = round(self.y + 6, 1)
        return layout

    # -- the beginning and the end

    def _head(self) -> None:
        timeline, layout = self.timeline, self.layout
        width = int(layout.width * TITLE_COLUMNS_PER_PX)
        lines, _ = flowed([Run(timeline.title, "title")], width, 2)
        layout.headings.append(Label(0, 10, 8, tuple(map(tuple, lines))))
        self.y = 8 + 20.0 * len(lines)
        if self.columns:
            name = self.columns[0].name
            layout.headings.append(one_line(0, 10, self.y, CAPTION.format(name), "note"))
            self.y += LINE
        notes = [*timeline.notes]
        if timeline.left_out:
            notes.append(f"This drawing shows {timeline.left_out}.")
        for note in notes:
            lines, _ = flowed([Run(note, "note")], int((layout.width - 20) / CHARACTER), 4)
            label = Label(0, 10, self.y, tuple(map(tuple, lines)))
            layout.headings.append(label)
            self.y += label.height()
        self.y += 8
        for column in self.columns:
            name = cut(f"{column.name} (region {column.region})", column.columns_of_text())
            width_px = columns_of(name) * CHARACTER + 16
            layout.heads.append(Box(column.x - 8, self.y, width_px, 22, "head"))
            layout.headings.append(one_line(0, column.x, self.y + 3, name, "name"))
        self.y += 22
        for lane in timeline.lanes:
            self.lines[lane.region_id] = (self.y, "unknown" if lane.is_unknown else "runs")
        for place in range(len(self.columns) - 1):
            self.strips[place] = (self.y, "")
        self.y += ROW_GAP

    def _end_lines(self) -> None:
        self.y += 4
        for column in self.columns:
            self._line_becomes(column.region, "")
        for place in range(len(self.columns) - 1):
            self._strip_becomes(place, "")

    # -- stages

    def _stage(self, stage: Stage) -> None:
        if not isinstance(stage, Edge):
            self.empty = None
        if isinstance(stage, LaneRow):
            self._row(stage)
        elif isinstance(stage, Transfers):
            self._transfers(stage)
        elif isinstance(stage, Line):
            self._mark(stage.mark)
        else:
            self._edge(stage)

    def _row(self, row: LaneRow) -> None:
        if row.label:
            self._time(row.label)
        elif any(item.kind != NOTE for items in row.lanes.values() for item in items):
            self._time_ms(row.begin_ms)
        tops = [self._lane_of_row(region, row.lanes[region]) for region in row.lanes]
        self.y = max(tops) + ROW_GAP

    def _lane_of_row(self, region: int, items: Sequence[Union[Point, Mark]]) -> float:
        """Places the events of one lane; returns the height reached."""
        column = self._column(region)
        y = self.y
        for item in items:
            runs, kind = self._runs_of(item)
            lines, was_cut = flowed(runs, column.columns_of_text(), LINES_MAX)
            whole = " ".join(run.text for run in runs) if was_cut else ""
            label = Label(region, column.left + TEXT_AT, y, tuple(map(tuple, lines)), whole)
            self.layout.labels.append(label)
            if kind != NOTE:
                self.layout.points.append(PointPlace(column.x, y + LINE / 2, kind))
            y += label.height() + BLOCK_GAP
        return y - BLOCK_GAP

    def _runs_of(self, item: Union[Point, Mark]) -> tuple[list[Run], str]:
        """The text of an event in a lane, and its kind."""
        if isinstance(item, Mark):
            return [Run(item.text, "note" if item.kind == NOTE else "mark")], item.kind
        runs = [Run(f"{item.client}:", "client")] if item.client else []
        runs.append(Run(item.text, "late" if item.kind == LATE else "command"))
        if item.kind == WAITS:
            runs.append(Run("waits", "reply"))
        elif item.reply:
            first, _, rest = f"→ {item.reply}".partition(" ")
            head, _, rest = rest.partition(" ")
            # The arrow does not stand alone at the end of a line.
            runs.append(Run(f"{first} {head}", "reply", len(head) < 24))
            runs += [Run(rest, "reply")] if rest else []
        runs += [
            Run(text_of(self.timeline, tag), f"tag {tag.meaning}", True)
            for tag in tags_of(self.timeline, item.dots(), item.lost_from)
        ]
        return runs, item.kind

    def _transfers(self, transfers: Transfers) -> None:
        if self.shows_times and not self.band_top:
            self._time_ms(transfers.begin_ms)
        for level in self._levels(transfers):
            text_height = max(len(drawn.lines) for drawn in level) * LINE
            for drawn in level:
                self._arrow(drawn, self.y + text_height)
            self.y += text_height + SLOPE + ARROW_GAP

    def _levels(self, transfers: Transfers) -> list[list[_Drawn]]:
        """The arrows that have one height each. Effects that are passed on stand further down."""
        levels: list[list[_Drawn]] = []
        placed: list[tuple[Crossing, int]] = []
        for crossing in transfers.crossings:
            drawn = self._drawn(crossing)
            least = max((at + 1 for one, at in placed if crossing.goes_on(one)), default=0)
            for place in range(least, len(levels)):
                if all(drawn.is_beside(other) for other in levels[place]):
                    levels[place].append(drawn)
                    break
            else:
                place = len(levels)
                levels.append([drawn])
            placed.append((crossing, place))
        return levels

    def _drawn(self, crossing: Crossing) -> _Drawn:
        """An arrow and its text, which stands in the first column that the arrow crosses."""
        via, to = self._column(crossing.via), self._column(crossing.to)
        place = self.columns.index(via)
        beside = self.columns[place + (1 if to.x > via.x else -1)] if via is not to else to
        runs, kind, title = crossing_parts(self.timeline, crossing)
        room = max(20.0, abs(beside.x - via.x) - 30)
        lines, was_cut = flowed(runs, int(room / CHARACTER), ARROW_LINES_MAX)
        if was_cut:
            title = f"{' '.join(run.text for run in runs)} ({title})"
        return _Drawn(via, to, beside, tuple(map(tuple, lines)), kind, title)

    def _arrow(self, drawn: _Drawn, y0: float) -> None:
        """Places an arrow that begins at `y0`; its text stands above it."""
        via, to, beside = drawn.via, drawn.to, drawn.beside
        label = Label(0, 0, 0, drawn.lines)
        left = min(via.x, beside.x) + (abs(beside.x - via.x) - label.width()) / 2
        y = y0 - label.height() + 2
        sign = 1 if to.x > via.x else -1
        self.layout.arrows.append(
            ArrowPlace(
                via.x + sign * 3,
                y0 + 1,
                to.x - sign * 4,
                y0 + SLOPE + 1,
                drawn.kind,
                Label(0, round(left, 1), y, label.lines),
                drawn.title,
            )
        )

    def _mark(self, mark: Mark) -> None:
        if mark.row or self.shows_times:
            if mark.row:
                self._time(mark.row)
            else:
                self._time_ms(mark.when.ms)
        struck = [self._column(region) for region in mark.regions] or self.columns
        first, last = struck[0], struck[-1]
        kind = "cutline" if mark.kind == CUT else "fault" if mark.kind == FAULT else "healline"
        text = cut(mark.text, int((self.layout.width - first.left - TEXT_AT) / CHARACTER))
        label = one_line(0, first.left + TEXT_AT, self.y, text, "mark")
        self.layout.labels.append(label)
        y = self.y + LINE + 3
        end = max(last.x, label.x + label.width()) if first is last else last.x
        self.layout.segments.append(Segment(first.x, y, end, y, kind))
        self.y = y + ROW_GAP

    def _time_ms(self, ms: int) -> None:
        self._time(f"{ms} ms", short_time(ms))

    def _time(self, text: str, short: str = "") -> None:
        if text != self.time_said:
            self.time_said = text
            short = cut(short or text, TIME_COLUMNS)
            title = text if short != text else ""
            self.layout.times.append(one_line(0, 4, self.y, short, "time", title))

    # -- edges of intervals

    def _edge(self, edge: Edge) -> None:
        if isinstance(edge.of, Gap):
            if edge.begins:
                self._say_if_empty()
            self._gap(edge.of, edge.begins)
        elif isinstance(edge.of, Outage):
            kind = "pauses" if edge.of.is_pause else ""
            self._line_becomes(edge.of.region, kind if edge.begins else "runs")
        elif edge.begins:
            self.y += 2
            self.band_top[edge.of] = self.y
            self.empty = edge.of
            self.y += BAND_PAD
            if edge.of.row:
                self._time(edge.of.row)
            self.layout.times.append(one_line(0, 4, self.y + LINE, "Sync", "time"))
        else:
            self._band(edge.of)

    def _band(self, band: Band) -> None:
        top = self.band_top.pop(band)
        struck = [self._column(region) for region in band.regions]
        self._say_if_empty()
        self.y = max(self.y, top + 2 * LINE + BAND_PAD) + 2
        begin = 0
        for place, column in enumerate(struck):  # neighbours share one rectangle
            is_last = place + 1 == len(struck) or (
                self.columns.index(struck[place + 1]) != self.columns.index(column) + 1
            )
            if is_last:
                left, right = struck[begin].left + STRIP / 2, column.right - STRIP / 2
                self.layout.bands.append(
                    Box(round(left, 1), top, round(right - left, 1), self.y - top, "band")
                )
                begin = place + 1
        self.y += ROW_GAP

    def _say_if_empty(self) -> None:
        """Says that nothing was sent in the band that is open, before its links close."""
        if self.empty is not None:
            x = self._column(self.empty.regions[0]).left + TEXT_AT
            self.layout.labels.append(one_line(0, x, self.y, "nothing to send", "note"))
            self.y += LINE
            self.empty = None

    def _gap(self, gap: Gap, begins: bool) -> None:
        self._column(gap.source)
        pair = (gap.source, gap.to)
        self.gaps[pair] = self.gaps.get(pair, 0) + (1 if begins else -1)
        for place in range(len(self.columns) - 1):
            one, other = self.columns[place].region, self.columns[place + 1].region
            closed = [self.gaps.get((one, other), 0) > 0, self.gaps.get((other, one), 0) > 0]
            state = "apart" if all(closed) else "halfapart" if any(closed) else ""
            self._strip_becomes(place, state)

    def _strip_becomes(self, place: int, state: str) -> None:
        """Ends a part of a strip and begins the next one."""
        since, former = self.strips[place]
        if former == state:
            return
        if former and self.y > since:
            x = self.columns[place].right - STRIP / 2
            self.layout.hatches.append(Box(x, since, STRIP, self.y - since, former))
        self.strips[place] = (self.y, state)

    def _line_becomes(self, region: int, state: str) -> None:
        """Ends a part of a lane line and begins the next one."""
        column = self._column(region)
        since, former = self.lines[region]
        if former and self.y > since:
            self.layout.segments.append(
                Segment(column.x, since, column.x, self.y, f"lane {former}")
            )
        self.lines[region] = (self.y, state)

    def _column(self, region: int) -> Column:
        self.timeline.name_of(region)  # ValueError if there is no lane
        return self.by_region[region]
