"""Draws a story of three regions as an SVG file that moves, for docs/generate_animation.py.

A story is a list of scenes. Each part of the drawing has an animation that runs over the whole
story, and is to be seen from one moment to another. Where motion is not wanted, or not known, the
last scene stands still.
"""

from __future__ import annotations

from typing import NamedTuple
from xml.sax.saxutils import escape

NAMES = ("us", "eu", "ap")


class Line(NamedTuple):
    """A command that was typed in a region (or a shell: ``$``), or a part of its reply."""

    where: str
    text: str


class Scene(NamedTuple):
    """A part of the story: `lasts_s`, what is typed, and what each region then holds, in order."""

    title: str
    lasts_s: float
    lines: list[Line]
    holds: dict[str, list[tuple[str, str]]]
    is_cut: bool


WIDTH, HEIGHT = 780, 452
BOX_X = {"us": 16, "eu": 272, "ap": 528}
BOX_WIDTH, BOX_Y, ROW = 236, 150, 28
NODE_Y, NODE_R = 108, 20
SHELL_Y, SHELL_ROW = 264, 18
SHELL_COLUMNS = 92
FADE_S = 0.35
# After the beginning of a scene: when effects leave, and when they arrive.
LEAVE_S, ARRIVE_S = 1.2, 2.2

STYLE = """
text{font:13px ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace;fill:var(--ink)}
.t{font:600 17px system-ui,"DejaVu Sans",sans-serif}
.n{font:700 14px system-ui,"DejaVu Sans",sans-serif;text-anchor:middle}
.e{font-size:12px}.s{fill:var(--soft);font-size:12px}.w{font-size:12px}
.us{--hue:var(--h0)}.eu{--hue:var(--h1)}.ap{--hue:var(--h2)}
.node{fill:var(--paper);stroke:var(--hue);stroke-width:3}.n,.o{fill:var(--hue)}
.box{fill:var(--paper);stroke:var(--line)}.bg{fill:var(--ground)}.shell{fill:var(--sunken)}
.up{stroke:var(--good);stroke-width:2.5;fill:none}
.cut{stroke:var(--bad);stroke-width:2.5;stroke-dasharray:3 6;fill:none}
.x{fill:var(--bad);font:700 12px system-ui,"DejaVu Sans",sans-serif;text-anchor:middle}
.plate{fill:var(--ground)}
.gone text{fill:var(--soft)}.gone line{stroke:var(--bad);stroke-width:1}
.moving{fill:var(--hue);stroke:var(--paper);stroke-width:2}
svg{--ink:#17211e;--soft:#52605b;--paper:#fff;--ground:#f3f5f3;--sunken:#e9edea;--line:#cfd7d2;
--good:#1b6e38;--bad:#a8201a;--h0:#1f5fae;--h1:#a14400;--h2:#6b3fa0}
@media (prefers-color-scheme:dark){svg{--ink:#e5ebe8;--soft:#a3b2ac;--paper:#161d1b;
--ground:#0e1312;--sunken:#1f2826;--line:#2e3a37;--good:#7fd29a;--bad:#ff9489;--h0:#82b7f6;--h1:#f3a76c;--h2:#c5a4f1}}
.k,.moving{opacity:0}.last{opacity:1}
"""


class Picture:
    """The parts of the picture, and when each is to be seen."""

    def __init__(self, scenes: list[Scene]) -> None:
        self.scenes = scenes
        self.begins_s = [sum(one.lasts_s for one in scenes[:at]) for at in range(len(scenes) + 1)]
        self.total_s = self.begins_s[-1]
        self.parts: list[str] = []
        self.rules: dict[str, str] = {}

    def percent(self, at_s: float) -> str:
        """A moment of the story as a share of it."""
        return f"{min(max(at_s / self.total_s, 0), 1) * 100:.2f}%"

    def put(self, begin_s: float, end_s: float, inside: str) -> None:
        """Shows `inside` from one moment to another."""
        name = f"k{round(begin_s * 100)}x{round(end_s * 100)}"
        is_last = end_s >= self.total_s
        if begin_s <= 0 and is_last:
            self.parts.append(inside)
            return
        rise, fall = self.percent(begin_s + FADE_S), self.percent(end_s - FADE_S)
        steps = f"0%,{self.percent(begin_s)}{{opacity:0}}{rise}{{opacity:1}}"
        if begin_s <= 0:
            steps = "0%{opacity:1}"
        steps += f"{fall}{{opacity:1}}{self.percent(end_s)},100%{{opacity:0}}"
        self.rule(name, steps)
        last = " last" if is_last else ""
        self.parts.append(f'<g class="k {name}{last}">{inside}</g>')

    def rule(self, name: str, steps: str) -> None:
        """An animation that runs over the whole story, again and again."""
        self.rules[name] = (
            f"@keyframes {name}{{{steps}}}"
            f".{name}{{animation:{name} {self.total_s:g}s linear infinite}}"
        )

    def move(self, begin_s: float, sender: str, receiver: str) -> None:
        """A dot travels from one region to another."""
        name = f"m{round(begin_s * 100)}{sender}{receiver}"
        points = [f"transform:translate({x:g}px,{y:g}px)" for x, y in way(sender, receiver)]
        steps = f"0%,{self.percent(begin_s)}{{opacity:0;{points[0]}}}"
        for at, point in enumerate(points):
            at_s = begin_s + 0.05 + (ARRIVE_S - LEAVE_S) * at / (len(points) - 1)
            steps += f"{self.percent(at_s)}{{opacity:1;{point}}}"
        over = self.percent(begin_s + ARRIVE_S - LEAVE_S + 0.1)
        self.rule(name, f"{steps}{over},100%{{opacity:0;{points[-1]}}}")
        self.parts.append(f'<circle class="moving {sender} {name}" r="7"/>')


def middle(name: str) -> tuple[float, float]:
    """Where the circle of a region stands."""
    return BOX_X[name] + BOX_WIDTH / 2, NODE_Y


def way(sender: str, receiver: str) -> list[tuple[float, float]]:
    """The points at which a dot on its way is, at equal distances in time."""
    (x1, y1), (x2, y2) = middle(sender), middle(receiver)
    if {sender, receiver} != {"us", "ap"}:
        return [(x1, y1), (x2, y2)]
    side, made = (1 if x1 < x2 else -1), []
    for step in range(9):
        t = step / 8
        x = (1 - t) ** 3 * x1 + 3 * (1 - t) * t * (
            (1 - t) * (x1 + 60 * side) + t * (x2 - 60 * side)
        )
        y = ((1 - t) ** 3 + t**3) * (y1 - NODE_R) + 3 * (1 - t) * t * 58
        made.append((round(x + t**3 * x2, 1), round(y, 1)))
    return made


def link(one: str, other: str) -> tuple[str, float, float]:
    """The line of a link, and where its mark stands. That of us and ap passes above eu."""
    (x1, y1), (x2, y2) = middle(one), middle(other)
    if (one, other) == ("us", "ap"):
        return (
            f"M{x1} {y1 - NODE_R}C{x1 + 60} 58 {x2 - 60} 58 {x2} {y2 - NODE_R}",
            (x1 + x2) / 2,
            72,
        )
    return f"M{x1 + NODE_R} {y1}L{x2 - NODE_R} {y2}", (x1 + x2) / 2, y1 + 5


def draw_links(picture: Picture) -> None:
    """The links: whole, and cut while they are."""
    for one, other in (("us", "eu"), ("us", "ap"), ("eu", "ap")):
        path, x, y = link(one, other)
        mark = (
            f'<path class="cut" d="{path}"/><rect class="plate" x="{x - 17}" y="{y - 13}"'
            f' width="34" height="18"/><text class="x" x="{x}" y="{y}">cut</text>'
        )
        for is_cut, begin, end in runs([scene.is_cut and one == "us" for scene in picture.scenes]):
            begin_s, end_s = picture.begins_s[begin], picture.begins_s[end]
            picture.put(begin_s, end_s, mark if is_cut else f'<path class="up" d="{path}"/>')
    for name in NAMES:
        x, y = middle(name)
        picture.parts.append(
            f'<g class="{name}"><circle class="node" cx="{x}" cy="{y}" r="{NODE_R}"/>'
            f'<text class="n" x="{x}" y="{y + 5}">{name}</text></g>'
        )


def runs(states: list[object]) -> list[tuple[object, int, int]]:
    """Equal neighbours together: the state, the first index, and the one after the last."""
    found: list[tuple[object, int, int]] = []
    for at, one in enumerate(states):
        if found and found[-1][0] == one:
            found[-1] = one, found[-1][1], at + 1
        else:
            found.append((one, at, at + 1))
    return found


def draw_entries(picture: Picture) -> None:
    """The boxes of the regions, and each entry in them while it is there, or has just gone."""
    scenes = picture.scenes
    entries = sorted({one for scene in scenes for held in scene.holds.values() for one in held})
    for name in NAMES:
        picture.parts.append(
            f'<rect class="box" x="{BOX_X[name]}" y="{BOX_Y}" width="{BOX_WIDTH}"'
            f' height="{ROW * len(entries) + 14}" rx="6"/>'
        )
        for slot, entry in enumerate(entries):
            states: list[object] = []
            for scene in scenes:
                was = bool(states) and states[-1] != "absent"
                here = entry in scene.holds[name]
                states.append("here" if here else "gone" if was else "absent")
            for state, begin, end in runs(states):
                if state == "absent":
                    continue
                begin_s = picture.begins_s[begin] + delay_s(scenes, begin, name, entry, state)
                ends_later = end < len(scenes)
                end_s = picture.begins_s[end]
                if ends_later:
                    end_s += delay_s(scenes, end, name, entry, states[end]) + FADE_S
                picture.put(begin_s, end_s, row(name, slot, entry, state == "gone"))


def delay_s(
    scenes: list[Scene], at: int, name: str, entry: tuple[str, str], state: object
) -> float:
    """How long after the beginning of a scene an entry comes to a region, or goes from it."""
    typed = [line.where for line in scenes[at].lines if line.where in NAMES]
    removal = [line.where for line in scenes[at].lines if line.text.startswith("DEL")]
    if state == "gone":
        return 0.4 if name in removal else ARRIVE_S
    is_mine = name in typed and origin(entry) == name
    return 0.4 if is_mine else ARRIVE_S


def origin(entry: tuple[str, str]) -> str:
    """The region that added an entry: its number ends the ID."""
    return NAMES[int(entry[0].split("-")[1]) % 1000 - 1]


def row(name: str, slot: int, entry: tuple[str, str], is_gone: bool) -> str:
    """An entry in the box of a region."""
    x, y = BOX_X[name] + 14, BOX_Y + 7 + ROW * slot + 18
    text = f"{entry[0]} item {entry[1]}"
    stroke = f'<line x1="{x + 14}" y1="{y - 4}" x2="{x + 14 + 7.2 * len(text)}" y2="{y - 4}"/>'
    return (
        f'<g class="{origin(entry)}{" gone" if is_gone else ""}">{stroke if is_gone else ""}'
        f'<circle class="o" cx="{x}" cy="{y - 4}" r="4.5"/>'
        f'<text class="e" x="{x + 14}" y="{y}">{escape(text)}</text></g>'
    )


def draw_moves(picture: Picture) -> None:
    """A dot for each region whose effects travel in a scene, to each region that gets something."""
    before: dict[str, list[tuple[str, str]]] = {name: [] for name in NAMES}
    for at, scene in enumerate(picture.scenes):
        for name in NAMES:
            for entry in scene.holds[name]:
                sender = origin(entry)
                if entry not in before[name] and sender != name:
                    picture.move(picture.begins_s[at] + LEAVE_S, sender, name)
        before = scene.holds


def draw_words(picture: Picture) -> None:
    """The title of each scene, and what is typed in it."""
    picture.parts.append(
        f'<rect class="shell" x="16" y="{SHELL_Y}" width="{WIDTH - 32}"'
        f' height="{HEIGHT - SHELL_Y - 16}" rx="6"/>'
    )
    for at, scene in enumerate(picture.scenes):
        begin_s, end_s = picture.begins_s[at], picture.begins_s[at + 1]
        picture.put(
            begin_s, end_s, f'<text class="t" x="16" y="34">{at + 1}. {escape(scene.title)}</text>'
        )
        lines = []
        for n, line in enumerate(scene.lines):
            y = SHELL_Y + 24 + SHELL_ROW * n
            where = f"{line.where}>" if line.where in NAMES else line.where
            lines.append(
                f'<text class="w" x="30" y="{y}" xml:space="preserve">'
                f'<tspan class="s">{escape(where)}</tspan> {escape(line.text)}</text>'
            )
        picture.put(begin_s, end_s, "".join(lines))


def picture_of(scenes: list[Scene]) -> str:
    """The text of the SVG file."""
    picture = Picture(scenes)
    picture.parts.append(f'<rect class="bg" width="{WIDTH}" height="{HEIGHT}" rx="8"/>')
    draw_links(picture)
    draw_entries(picture)
    draw_moves(picture)
    draw_words(picture)
    story = " ".join(scene.title for scene in scenes)
    # Without motion, the last scene is shown.
    moving = "".join(picture.rules.values())
    style = f"{STYLE}@media (prefers-reduced-motion:no-preference){{.last{{opacity:0}}{moving}}}"
    body = "\n".join(picture.parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}"'
        f' height="{HEIGHT}" role="img" aria-labelledby="t d">\n<title id="t">A partition of three'
        f' regions, and its end</title><desc id="d">{escape(story)}</desc>\n'
        f"<style>{style}</style>\n{body}\n</svg>\n"
    )
