"""Writes docs/images/partition.svg: a partition and its end, as a picture that moves.

Three regions are started on this machine, and do what the picture shows: an entry is added, a
region is cut off, both sides write, the links are healed, and `anabranch explain` gives the reason.
The entries, replies and sentences of the picture are those of this run. The times in IDs are
replaced, and times and effect numbers are left out of the sentences, because they differ from run
to run. So equal behaviour gives equal bytes. docs/animation.py draws.

``python docs/generate_animation.py`` writes the picture. With ``--check`` it only reports whether
the picture is out of date; the exit code is then 1 if it is.
"""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
import time
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.append(str(DOCS.parent))

from animation import NAMES, SHELL_COLUMNS, Line, Scene, picture_of  # noqa: E402

from anabranch import build  # noqa: E402
from anabranch.cluster.processes import wait_until  # noqa: E402
from anabranch.cluster.regions import ProcessCluster  # noqa: E402

TARGET = DOCS / "images" / "partition.svg"
KEY = "orders"
# The first time of an ID in the picture, and the step to the next one (ms).
FIRST_MS, STEP_MS = 1_790_000_000_000, 1000


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
        wait_until(lambda: time.time_ns() // 1_000_000 > newest_ms, 60.0, 0.001)
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
    if not wait_until(lambda: cluster[one].vector() == cluster[other].vector(), 60.0):
        raise SystemExit(f"{one} and {other} do not come to hold the same")


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
