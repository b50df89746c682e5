"""The blocks of README.md and docs/ that `table` runs, pasted as a whole in the order of a reader.

A reader starts a cluster in an empty folder. Only ports differ from the pages, and times and the
IDs that regions generate.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from anabranch import build
from anabranch.cluster.ports import free_row
from anabranch.cluster.processes import end
from tests.newcomer.pages import ROOT, Block, blocks_of
from tests.support import console
from tests.support.cluster import child_env
from tests.support.processes import eventually

PATIENCE_S = 60.0
REGIONS = ("us", "eu", "ap")
REPAIR, RUN_PAGE = "docs/operations-repair.md", "docs/operations-run.md"
SCENARIOS, WATCH, LEARN = "docs/scenarios.md", "docs/operations-watch.md", "docs/learn/README.md"

# The steps of the tests below: page and beginning of a block.
_steps: set[tuple[str, str]] = set()


def step(page: str, beginning: str) -> tuple[str, str]:
    """Notes that a block is run."""
    _steps.add((page, beginning))
    return page, beginning


def ran() -> set[tuple[str, str]]:
    """All blocks that the tests of this file run."""
    return _steps


class Newcomer:
    """A folder with a cluster of `anabranch up`, and a terminal there."""

    def __init__(self, folder: Path) -> None:
        for program in ("redis-cli", "curl"):
            if shutil.which(program) is None:
                pytest.fail(f"{program} is not installed: install redis-tools and curl")
        self.folder = folder
        self.base = free_row(10)
        programs = folder / "bin"
        programs.mkdir()
        for name, line in (
            ("anabranch", build.command()),
            ("python", [sys.executable, *(["-P"] if "-P" in build.command() else [])]),
        ):
            (programs / name).write_text(f'#!/bin/sh\nexec {" ".join(line)} "$@"\n')
            (programs / name).chmod(0o755)
        # Paths on the pages are those of a checkout.
        (folder / "anabranch").symlink_to(ROOT / "anabranch")
        self._environment = {**child_env(), "PATH": f"{programs}:{os.environ['PATH']}"}
        if "PYTHONPATH" not in self._environment and "-P" not in build.command():
            self._environment["PYTHONPATH"] = str(ROOT)
        self.output = folder / "up.out"
        self.up: subprocess.Popen[bytes] | None = None

    def start(self, page: str, beginning: str) -> None:
        """Pastes the block that starts the cluster, in a terminal of its own."""
        (line,) = self.block(page, beginning).text.split("\n")[:1]
        assert line == "anabranch up"
        ports = ["--resp-port", self.base, "--sync-port", self.base + 3]
        ports += ["--http-port", self.base + 6, "--console-port", self.base + 9]
        with self.output.open("wb") as output:
            self.up = subprocess.Popen(
                [str(self.folder / "bin" / "anabranch"), "up", *map(str, ports)],
                cwd=self.folder,
                env=self._environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        eventually(lambda: "3 regions are up" in self.output.read_text(), PATIENCE_S, "up")

    def stop(self) -> None:
        """Ctrl-C in that terminal."""
        if self.up is not None:
            self.up.send_signal(signal.SIGINT)
            assert self.up.wait(PATIENCE_S) == 0, self.output.read_text()
            assert "all regions stopped" in self.output.read_text()

    def block(self, page: str, beginning: str) -> Block:
        """The block of a page that begins so."""
        (found,) = [one for one in blocks_of(page) if one.title.startswith(beginning)]
        return found

    def mapped(self, text: str) -> str:
        """`text` with the ports of this cluster."""
        text = re.sub(r"\b700([123])\b", lambda one: str(self.base + int(one[1]) - 1), text)
        text = re.sub(r"\b720([123])\b", lambda one: str(self.base + 5 + int(one[1])), text)
        return text.replace("7300", str(self.base + 9))

    def shell(self, text: str, code: int = 0, stdin: str | None = None) -> str:
        """Runs a text in the shell, which must end with `code`; returns what it prints."""
        done = subprocess.run(
            ["bash", "-c", self.mapped(text)],
            input=stdin,
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=self._environment,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == code, f"{text}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout

    def paste(self, page: str, beginning: str, change: Callable[[str], str] = str) -> str:
        """Pastes a block as a whole; a console block must print what it shows."""
        block = self.block(page, beginning)
        if block.kind != "console":
            return self.shell("set -e\n" + change(block.text))
        (commands,) = console.blocks(f"```console\n{block.text}```")
        text = "\n".join(line if shown else f"{line} >/dev/null" for line, shown in commands)
        printed = self.shell(f"set -e\n{text}")
        expected = "\n".join(line for _, shown in commands for line in shown)
        assert console.unified(printed) == console.unified(expected), f"{page}: {block.title}"
        return printed

    def serves(self, line: str, greeting: str) -> None:
        """Runs a line that serves until Ctrl-C, and ends it once it has said so."""
        output = self.folder / "served.out"
        with output.open("wb") as file:
            served = subprocess.Popen(
                ["bash", "-c", f"exec {self.mapped(line)}"],
                cwd=self.folder,
                env=self._environment,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        try:
            eventually(
                lambda: greeting in output.read_text() or served.poll() is not None,
                PATIENCE_S,
                greeting,
            )
            assert served.poll() is None, output.read_text()
        finally:
            end(served, PATIENCE_S)

    def saved(self, page: str, beginning: str, name: str) -> None:
        """Saves a block as a file."""
        (self.folder / name).write_text(self.block(page, beginning).text)


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Newcomer]:
    one = Newcomer(tmp_path)
    try:
        yield one
    finally:
        if one.up is not None:
            end(one.up, PATIENCE_S)


START = step(RUN_PAGE, "anabranch up")
ORDERS = step("README.md", "$ redis-cli --raw -p 7001 XADD orders")
CUT = step("README.md", "$ anabranch link cut us eu")
LOOK = step("README.md", "$ anabranch status")
JOBS = step("README.md", "import redis")
IMPORTS = step("README.md", "from anabranch.crdt import ids")
EXPLAIN = step("docs/explain.md", "anabranch explain us orders")
STATUS = step(WATCH, "region  id  state")
READY = step(WATCH, "curl -i")
IDMP = step("docs/pipeline.md", "XCFGSET copies")
RIDES = step("docs/rocket-rides.md", "CRDT.LOG rocket-rides-log")
DRAW = step(SCENARIOS, "anabranch log orders --svg")
CONSOLE = step("docs/console.md", "anabranch console --cluster")
FILE_MADE = step(RUN_PAGE, "anabranch cluster show")
WHATIF = step(REPAIR, "anabranch whatif region-lost eu")
TRUST = step(REPAIR, "anabranch clock trust ap")
RESET = step(REPAIR, "anabranch clock reset")
BACKUP = step(REPAIR, "anabranch backup us us.backup")
EXPORT = step(REPAIR, "anabranch export ap ap.resp")
LOST = step(REPAIR, "anabranch member lost ap")
CHECK = step(REPAIR, "anabranch check anabranch-data/us")


@pytest.mark.live
@pytest.mark.timeout(240)
def test_readme_and_operations(newcomer: Newcomer) -> None:
    one = newcomer
    one.start(*START)
    for page, beginning in (ORDERS, CUT, LOOK):
        one.paste(page, beginning)
    for (page, beginning), shown in ((JOBS, "b'do': b'this'"), (IMPORTS, "")):
        assert shown in one.shell("python -", stdin=one.mapped(one.block(page, beginning).text))
    entry = one.shell("redis-cli --raw -p 7001 XRANGE orders - +").split()[0]
    told = one.paste(*EXPLAIN, lambda text: text.replace("1790000000000-2", entry))
    assert entry in told and "XADD in eu" in told
    headings = [line.split() for line in one.block(*STATUS).text.splitlines() if line[:6].isalpha()]
    lines = [line.split() for line in one.shell("anabranch status").splitlines()]
    assert len(headings) == 3 and all(heading in lines for heading in headings)
    ready = one.paste(*READY)
    assert ready.startswith("HTTP/1.1 200") and '"ready": true' in ready
    one.shell("redis-cli -p 7001 XADD copies '*' f v")
    for page, beginning in (IDMP, RIDES):
        line = one.block(page, beginning).text.strip().replace("(1790000000000-2", "'(179-2'")
        assert "ERR" not in one.shell(f"redis-cli -p 7001 {line}")
    moment = int(entry.split("-")[0])
    times = {
        "1795446309250-1": entry,
        "1795446309250": str(moment - 60_000),
        "1795446312000": str(moment + 60_000),
    }
    drawing = one.block(*DRAW).text
    for shown, real in times.items():
        assert shown in drawing
        drawing = drawing.replace(shown, real)
    one.shell(f"set -e\n{drawing}")
    assert (one.folder / "orders.svg").read_text().startswith("<svg")
    one.paste(*FILE_MADE)
    assert "effects on disk" in one.shell("anabranch status --cluster cluster.toml")
    for line in one.block(*CONSOLE).text.splitlines():
        # The console of `up` has the port that the page shows.
        one.serves(f"{line} --listen 127.0.0.1:{free_row(1)}", "the console is at http://")
    assert "If eu vanished now" in one.paste(*WHATIF)
    assert "\nerrors: 0" in one.paste(*EXPORT).replace("\r", "")
    assert one.paste(*TRUST) == "ap: takes its clock for right\n"
    told = one.shell(f"yes | {one.block(*RESET).text}")
    assert [told.count(f"{name}: goes on from what its clock reads") for name in REGIONS] == [1] * 3
    backup, restore = one.block(*BACKUP).text.splitlines()
    one.shell(backup)
    told = one.shell(f"yes | {one.block(*LOST).text}")
    assert "ap" in told
    one.stop()
    # A region stops before its files are checked, and a restore needs an empty directory.
    check, _repair = one.block(*CHECK).text.split("\n")[:2]
    assert "sound" in one.shell(check.strip())
    shutil.move(one.folder / "anabranch-data" / "us", one.folder / "former")
    one.shell(restore)
    assert "sound" in one.shell(check.strip())


LEARN_UP = step(LEARN, "anabranch up")
FUNCTIONS = step(LEARN, "us() { redis-cli")
SEED = step(LEARN, "anabranch scenario run anabranch/sim/scenarios/seed-02")
RECORD = step(SCENARIOS, "anabranch scenario record")
SESSION = step(SCENARIOS, "record> us> XADD")
FILE = step(SCENARIOS, "id-mode: semi-strict")
SCENARIO = step(SCENARIOS, "anabranch scenario run  ")
SVG = step(SCENARIOS, "anabranch scenario run my-scenario.md --svg")


@pytest.mark.live
@pytest.mark.timeout(240)
def test_the_book_and_scenarios(newcomer: Newcomer) -> None:
    one = newcomer
    one.start(*LEARN_UP)
    setup = one.block(*FUNCTIONS).text
    names = one.shell(f"{setup}\nfor r in us eu ap; do $r INFO crdt | grep crdt_region_name; done")
    assert re.findall(r"name:(\w+)", names) == ["us", "eu", "ap"]
    assert "passed" in one.paste(*SEED)
    # The session of the page is piped into the command.
    lines = one.block(*SESSION).text.splitlines()
    typed = [line.removeprefix("record> ") for line in lines if line.startswith("record> ")]
    shown = "\n".join(line for line in lines if not line.startswith("record> "))
    command = one.block(*RECORD).text
    printed = one.shell(command, stdin="\n".join(typed) + "\n")
    assert console.unified(printed) == console.unified(shown)
    one.saved(*FILE, "my-scenario.md")
    live = one.block(*SCENARIO).text.splitlines()[-1]
    one.shell("redis-cli -p 7001 FLUSHALL")
    assert "passed" in one.shell(live)
    drawn = one.block(*SVG).text.splitlines()[0]
    one.shell(drawn)
    assert (one.folder / "my-scenario.svg").read_text().startswith("<svg")
    one.stop()
