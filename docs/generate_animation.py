"""Writes docs/images/partition.svg: a partition and its end, as a picture that moves.

Three regions are started on this machine, and do what the picture shows: an entry is added, a region
is cut off, both sides write, the links are healed, and `anabranch explain` gives the reason. The
entries, replies and sentences of the picture are those of this run. Only what differs from run to
run is replaced: the times in IDs, and the times and effect numbers in sentences. So equal behaviour
gives equal bytes.

``python docs/generate_animation.py`` writes the picture. With ``--check`` it only reports whether the
picture is out of date; the exit code is then 1 if it is.
"""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

DOCS = Path(__file__).resolve().parent
sys.path.append(str(DOCS.parent))

from anabranch import build  # noqa: E402
from anabranch.cluster.regions import ProcessCluster  # noqa: E402

TARGET = DOCS / "images" / "partition.svg"
NAMES = ("us", "eu", "ap")
KEY = "orders"
# The first time of an ID in the picture, and the step to the next one (ms).
FIRST_MS, STEP_MS = 1_790_000_000_000, 1000


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


# -- the run


class Run:
    """Three regions, and what was typed since the last scene."""

    def __init__(self, cluster: ProcessCluster) -> None:
        self.cluster = cluster
        self.lines: list[Line] = []
        self.scenes: list[Scene] = []
        self.ids: list[str] = []

    def type(self, region: str, *words: str) -> str:
        """Runs a command in a region."""
        reply = self.cluster[region].ask(*words)
        text = reply.decode() if isinstance(reply, bytes) else f"(integer) {reply}"
        self.lines += [Line(region, " ".join(words)), Line("", text)]
        return text

    def add(self, region: str, item: str) -> str:
        """Adds an entry, later by the clock than those before it."""
        newest_ms = int(self.ids[-1].split("-")[0]) if self.ids else 0
        while time.time_ns() // 1_000_000 <= newest_ms:
            time.sleep(0.001)
        self.ids.append(self.type(region, "XADD", KEY, "*", "item", item))
        return self.ids[-1]

    def scene(self, title: str, lasts_s: float, is_cut: bool) -> None:
        """Ends a scene: what was typed since the last one, and what the regions hold now."""
        holds = {}
        for name in NAMES:
            found = self.cluster[name].ask("XRANGE", KEY, "-", "+")
            holds[name] = [(one.decode(), fields[1].decode()) for one, fields in found]
        self.scenes.append(Scene(title, lasts_s, self.lines, holds, is_cut))
        self.lines = []

    def explain(self, region: str, entry_id: str) -> None:
        """Asks all regions why an entry is there; keeps the first sentence and the reasons."""
        line = [*build.command(), "explain", region, KEY, entry_id]
        for name in NAMES:
            line += ["--at", self.cluster[name].address]
        environment = build.environment()
        told = subprocess.run(line, capture_output=True, text=True, check=True, env=environment)
        wanted = [
            sentence
            for sentence in told.stdout.splitlines()
            if re.search(r"^Entry|survived", sentence)
        ]
        self.lines.append(Line("$", f"anabranch explain {region} {KEY} {entry_id}"))
        for sentence in wanted:
            short = re.sub(r" \(effect \d+ of \w+\)|, at [\d-]+ [\d:.]+ \(\d+ ms\)", "", sentence)
            short = short.replace(f" on the clock of {region}", "")
            self.lines += [Line("", part) for part in textwrap.wrap(short, SHELL_COLUMNS)]


def play() -> list[Scene]:
    """Plays the story on live regions; returns its scenes, with the times of the picture."""
    with ProcessCluster(NAMES) as cluster:
        cluster.start_all()
        run = Run(cluster)
        run.add("us", "book")
        cluster.level()
        book = run.ids[0]
        run.scene("A client adds an entry in us. Every region has it a moment later.", 4.5, False)
        for peer in ("eu", "ap"):
            cluster.cut("us", peer)
            run.lines.append(Line("$", f"anabranch link cut us {peer}"))
        run.scene("The links of us are cut. Every region goes on serving.", 3.5, True)
        run.type("us", "DEL", KEY)
        chair = run.add("eu", "chair")
        run.add("us", "lamp")
        cluster_is_level(cluster, "eu", "ap")
        run.scene("Both sides write, and us deletes what it has.", 6.0, True)
        for peer in ("eu", "ap"):
            cluster.heal("us", peer)
        run.lines.append(Line("$", "anabranch link heal"))
        cluster.level()
        title = "The links are healed. All regions hold the same entries, in one order."
        run.scene(title, 5.0, False)
        run.explain("eu", chair)
        run.explain("eu", book)
        run.scene("Why is the chair there, and the book not? The logs tell.", 9.0, False)
        return renamed(run.scenes, run.ids)


def cluster_is_level(cluster: ProcessCluster, one: str, other: str) -> None:
    """Waits until two regions that reach each other hold the same."""
    while cluster[one].vector() != cluster[other].vector():
        time.sleep(0.01)


def renamed(scenes: list[Scene], ids: list[str]) -> list[Scene]:
    """The scenes with the times of the picture in the place of those of the run."""
    to = {
        one: f"{FIRST_MS + STEP_MS * at}-{one.split('-')[1]}" for at, one in enumerate(sorted(ids))
    }

    def text(old: str) -> str:
        for one, new in to.items():
            old = old.replace(one, new)
        return old

    return [
        scene._replace(
            lines=[Line(line.where, text(line.text)) for line in scene.lines],
            holds={
                name: [(to[one], item) for one, item in held] for name, held in scene.holds.items()
            },
        )
        for scene in scenes
    ]


# -- the picture

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
@media (prefers-color-scheme:dark){svg{--ink:#e5ebe8;--soft:#a3b2ac;--paper:#161d1b;--ground:#0e1312;
--sunken:#1f2826;--line:#2e3a37;--good:#7fd29a;--bad:#ff9489;--h0:#82b7f6;--h1:#f3a76c;--h2:#c5a4f1}}
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
        x = (1 - t) ** 3 * x1 + 3 * (1 - t) * t * ((1 - t) * (x1 + 60 * side) + t * (x2 - 60 * side))
        y = ((1 - t) ** 3 + t**3) * (y1 - NODE_R) + 3 * (1 - t) * t * 58
        made.append((round(x + t**3 * x2, 1), round(y, 1)))
    return made


def link(one: str, other: str) -> tuple[str, float, float]:
    """The line of a link, and where its mark stands. That of us and ap passes above eu."""
    (x1, y1), (x2, y2) = middle(one), middle(other)
    if (one, other) == ("us", "ap"):
        return f"M{x1} {y1 - NODE_R}C{x1 + 60} 58 {x2 - 60} 58 {x2} {y2 - NODE_R}", (x1 + x2) / 2, 72
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


def delay_s(scenes: list[Scene], at: int, name: str, entry: tuple[str, str], state: object) -> float:
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


def main(arguments: list[str]) -> int:
    """Writes the picture, or checks it; returns the exit code."""
    wanted = picture_of(play())
    is_current = TARGET.exists() and TARGET.read_text(encoding="utf-8") == wanted
    if is_current:
        return 0
    if "--check" in arguments:
        print("docs/images/partition.svg is out of date: run `make docs`", file=sys.stderr)
        return 1
    TARGET.write_text(wanted, encoding="utf-8")
    print("wrote docs/images/partition.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
