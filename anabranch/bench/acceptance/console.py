"""The console in a real Chromium: first paint of a large stream, delay of live updates, idle cost.

First paint: from the navigation until the rows of a stream of 100,000 entries stand on the page. A
live update: from before XADD or XDEL is sent until the row is on the page, or struck through, on
one clock. Idle cost: processor time of the console and of one region while a page watches, and
while none does.
"""

from __future__ import annotations

import argparse
import shutil
import socket
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from anabranch import build
from anabranch.bench.harness import Figures, percentile, start_all, wait_for
from anabranch.bench.table.servers import cpu_s
from anabranch.cluster.client import RespClient
from anabranch.cluster.ports import HOST
from anabranch.cluster.processes import end
from anabranch.cluster.regions import ProcessCluster

PAINT_LIMIT_MS = 1000.0
UPDATE_LIMIT_MS = 200.0
IDLE_S = 10.0
CONSOLE_PORT = 17390
TOKEN = "a-token-for-measuring-the-console"
_BATCH = 1000
_PAGES = 5
# Notes when each entry was first on the page, and when it was first struck through.
_OBSERVE = """() => {
  window.seen = {};
  const look = () => {
    const now = performance.timeOrigin + performance.now();
    for (const entry of document.querySelectorAll('td.river .entry')) {
      const cell = entry.parentElement;
      const state = cell.classList.contains('removed') ? 'removed' : cell.classList.contains('present') ? 'present' : '';
      if (state) window.seen[`${entry.dataset.view} ${entry.dataset.id} ${state}`] ??= now;
    }
  };
  new MutationObserver(look).observe(document.getElementById('table'), { childList: true, subtree: true });
}"""  # noqa: E501


def fill(port: int, key: str, entries: int) -> None:
    """Adds entries in pipelines."""
    with RespClient(HOST, port) as client:
        for first in range(0, entries, _BATCH):
            batch = range(first, min(first + _BATCH, entries))
            client.ask_all([("XADD", key, "*", "n", n, "text", f"entry number {n}") for n in batch])


@contextmanager
def console(cluster: ProcessCluster) -> Iterator[subprocess.Popen[bytes]]:
    """A console over the cluster, as a process."""
    line = [*build.command(), "console", "--listen", f"{HOST}:{CONSOLE_PORT}"]
    for region in cluster.regions.values():
        line += ["--at", region.address]
    process = subprocess.Popen(
        line,
        stdout=subprocess.DEVNULL,
        env={**build.environment(), "ANABRANCH_CONSOLE_TOKEN": TOKEN},
    )
    try:
        wait_for(_answers, "the console")
        yield process
    finally:
        end(process, 30.0)


def _answers() -> bool:
    """Whether something takes connections on the console's port."""
    try:
        socket.create_connection((HOST, CONSOLE_PORT), 1).close()
    except OSError:
        return False
    return True


def paints(figures: Figures, browser: Any, key: str, limit_ms: float | None) -> None:
    """Times from the navigation to the first rows, in fresh contexts."""
    found = []
    for _ in range(_PAGES):
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        page = context.new_page()
        page.goto(f"http://{HOST}:{CONSOLE_PORT}/?token={TOKEN}#{key}")
        page.wait_for_selector("td.river.present")
        found.append(
            page.evaluate(
                "() => performance.getEntriesByName('anabranch-painted')"
                ".find((mark) => mark.startTime > 0).startTime"
            )
        )
        context.close()
    figures.show("first paints", " ".join(f"{one:.0f}" for one in found), "ms")
    figures.at_most("first paint, median", statistics.median(found), limit_ms, "ms")


def updates(
    figures: Figures, browser: Any, port: int, key: str, probes: int, limit_ms: float | None
) -> None:
    """Times from a command to the page, in the view of the region itself and of another one."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.goto(f"http://{HOST}:{CONSOLE_PORT}/?token={TOKEN}#{key}")
    page.wait_for_selector("td.river.present")
    page.wait_for_timeout(2000)
    page.evaluate(_OBSERVE)
    sent: dict[str, float] = {}
    with RespClient(HOST, port) as client:
        for n in range(probes):
            at_ms = 1000 * time.time()
            entry = client.ask("XADD", key, "*", "probe", n).decode()
            sent[f"us {entry} present"] = sent[f"eu {entry} present"] = at_ms
            # Both views have it before it is removed, and the next command comes at any moment.
            page.wait_for_function(
                "id => window.seen[`us ${id} present`] && window.seen[`eu ${id} present`]",
                arg=entry,
            )
            page.wait_for_timeout(50 + 17 * (n % 7))
            if n % 3 == 0:
                sent[f"us {entry} removed"] = 1000 * time.time()
                client.call("XDEL", key, entry)
                page.wait_for_timeout(310)
    page.wait_for_timeout(2000)
    seen: dict[str, float] = page.evaluate("window.seen")
    for name, kind in (
        ("add, its own region", "us present"),
        ("add, another region", "eu present"),
    ):
        view, state = kind.split()
        delays = [
            seen[probe] - at_ms
            for probe, at_ms in sent.items()
            if probe.startswith(view) and probe.endswith(state)
        ]
        figures.show(f"{name}: 99 %", percentile(delays, 0.99), "ms")
        figures.at_most(f"{name}: median", statistics.median(delays), limit_ms, "ms")
    delays = [seen[probe] - at for probe, at in sent.items() if probe.endswith("removed")]
    figures.show("removal: 99 %", percentile(delays, 0.99), "ms")
    figures.at_most("removal: median", statistics.median(delays), limit_ms, "ms")
    context.close()


def idle(figures: Figures, browser: Any, pids: dict[str, int], key: str, idle_s: float) -> None:
    """Processor time while one page watches a quiet cluster, and while none does."""
    for name, is_watched in (("no page", False), ("one page", True)):
        context = browser.new_context()
        page = context.new_page()
        if is_watched:
            page.goto(f"http://{HOST}:{CONSOLE_PORT}/?token={TOKEN}#{key}")
            page.wait_for_selector("td.river.present")
            page.wait_for_timeout(3000)
        before = {process: cpu_s(pid) for process, pid in pids.items()}
        time.sleep(idle_s)
        for process, pid in pids.items():
            share = 100 * (cpu_s(pid) - before[process]) / idle_s
            figures.show(f"idle, {name}: {process}", share, "% of a core")
        context.close()


def measure(
    entries: int, probes: int, idle_s: float, paint_ms: float | None, update_ms: float | None
) -> Figures:
    """Runs all measurements on a new cluster. A limit of None: no requirement."""
    from playwright.sync_api import sync_playwright

    figures = Figures(f"the console over a stream of {entries:,} entries")
    with ProcessCluster() as cluster:
        start_all(figures, cluster)
        fill(cluster["us"].resp_port, "large", entries)
        fill(cluster["us"].resp_port, "small", 20)
        with console(cluster) as process, sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            paints(figures, browser, "large", paint_ms)
            paints(figures, browser, "small", paint_ms)
            for key in ("small", "large"):
                figures.show("live updates of", key)
                updates(figures, browser, cluster["us"].resp_port, key, probes, update_ms)
            pids = {"console": process.pid, "region us": cluster["us"].pid()}
            idle(figures, browser, pids, "small", idle_s)
            browser.close()
    return figures


def main(argv: list[str]) -> int:
    """Measures as the flags say; returns 1 if a requirement is not met."""
    parser = argparse.ArgumentParser(
        prog="anabranch bench acceptance.console", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--probes", type=int, default=60)
    options = parser.parse_args(argv)
    found = measure(options.entries, options.probes, IDLE_S, PAINT_LIMIT_MS, UPDATE_LIMIT_MS)
    return found.finish()


PROGRAMS = {"chromium": "chromium"}
"""Programs that must be installed, with the packages that bring them."""
