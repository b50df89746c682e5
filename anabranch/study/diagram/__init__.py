"""Space-time diagrams: what happened in the regions of a cluster, drawn as SVG.

`draw` makes the text of an SVG file of a `Timeline`. Nothing here reads or writes files, and equal
timelines give equal bytes.

Reading order:

- `model`: a timeline as values.
- `narrowing`: a part of a timeline: one key, or a range of time; and the bound on a drawing's size.
- `texts`: visible text of any bytes, and lines of limited length.
- `stages`: the events of a timeline in order, in groups that are drawn side by side.
- `tags`: the marks of dots: an entry that stays, an entry that was removed, a removal.
- `arrows`: the texts of arrows.
- `places`: the parts of a drawing with their places.
- `layout`: the place of everything in the drawing.
- `ending`: the boxes at the end of the lanes, with the last state of each key.
- `story`: a timeline in words, for readers who do not see the drawing.
- `style`: the style sheet and the legend.
- `svg`: a layout as the text of an SVG file.
"""

from __future__ import annotations

from anabranch.study.diagram.layout import laid_out
from anabranch.study.diagram.model import Timeline
from anabranch.study.diagram.narrowing import EVENTS_MAX, check_size
from anabranch.study.diagram.svg import written


def draw(timeline: Timeline, events_max: int = EVENTS_MAX) -> str:
    """The text of an SVG file that shows the timeline, 800 px wide for up to four regions.

    Raises `TooManyEvents` if the timeline has more than `events_max` events (`narrowing.narrowed`
    makes it smaller), and ValueError if it names a region without a lane.
    """
    check_size(timeline, events_max)
    return written(laid_out(timeline))
