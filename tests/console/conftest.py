"""Fixtures of the console's tests: one cluster for each file, the console's process, Chromium."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from anabranch import build
from anabranch.cluster.ports import free_ports
from anabranch.cluster.processes import end, spawn
from anabranch.console import login
from tests.console.browsing import LAPTOP, PATIENCE_MS, Open
from tests.support.cluster import LiveCluster, child_env
from tests.support.processes import eventually

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# It opens the page of every console that is a process here.
TOKEN = "a-token-for-tests-of-the-console"

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """Three live regions with open links, for all tests of a file."""
    made = LiveCluster(directory=tmp_path_factory.mktemp("cluster"), cluster="test")
    try:
        made.start_all()
        yield made
    finally:
        made.close()


class ConsoleProcess:
    """A running `anabranch console` over a cluster."""

    def __init__(self, cluster: LiveCluster, log: Path, *extra: str) -> None:
        self.port = free_ports(1)[0]
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = log
        line = [*build.command(), "console", "--listen", f"127.0.0.1:{self.port}", *extra]
        for region in cluster.regions.values():
            line += ["--at", region.address]
        self._line = line
        self.start()

    def start(self) -> None:
        """Starts the process, and waits until it serves."""
        self.log.unlink(missing_ok=True)
        environment = {**child_env(), login.VARIABLE: TOKEN}
        self.process = spawn(self._line, self.log, environment)
        eventually(self._answers, 60, f"the console (its log: {self.log})")

    def _answers(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        return "the console is at" in self.log.read_text()

    def close(self) -> None:
        end(self.process, 20.0)


@pytest.fixture(scope="module")
def console(
    cluster: LiveCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleProcess]:
    """The process of a console over the cluster of the file."""
    one = ConsoleProcess(cluster, tmp_path_factory.mktemp("console") / "console.log")
    try:
        yield one
    finally:
        one.close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A real Chromium. Where something is missing, the test fails with its name."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        pytest.fail("playwright is not installed: run `make test-console`, or pip install it")
    path = next((found for name in CHROMIUM if (found := shutil.which(name))), None)
    if path is None:
        pytest.fail("there is no Chromium: install the package chromium")
    with sync_playwright() as playwright:
        # A root in a container may make no sandbox of its own.
        made = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox"], timeout=100_000
        )
        yield made
        made.close()


@pytest.fixture
def open_page(browser: Browser, console: ConsoleProcess, cluster: LiveCluster) -> Iterator[Open]:
    """Opens pages over empty regions; afterwards the links are whole, and no page had an error."""
    # What the test before wrote behind a cut link may be on its way. A FLUSHALL that has not seen
    # it would leave it, and a page opens with a stream that is there.
    cluster.sync()
    with cluster.client("us") as client:
        client.flushall()
    cluster.sync()
    pages: list[Any] = []
    errors: list[str] = []

    def open_one(
        url: str = console.url, key: str = "", tolerates: str = "nothing", **options: Any
    ) -> Page:
        def note(text: str) -> None:
            if tolerates not in text:
                errors.append(text)

        options.setdefault("viewport", LAPTOP)
        context = browser.new_context(**options)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", lambda one: note(one.text) if one.type == "error" else None)
        page.on("pageerror", lambda error: note(str(error)))
        page.goto(f"{url}/?token={TOKEN}#{key}")
        page.wait_for_selector('#live[data-state="live"]')
        page.wait_for_selector(".card")
        pages.append(context)
        return page

    yield open_one
    for context in pages:
        context.close()
    for one, other in (("us", "eu"), ("us", "ap"), ("eu", "ap")):
        cluster.heal(one, other)
        for name, peer in ((one, other), (other, one)):
            cluster.link(name, peer, "DELAY", 0)
    assert errors == []
