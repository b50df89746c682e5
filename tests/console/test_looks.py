"""The page in eight states, in both themes and widths: pictures to be looked at, in build/.

`make console-looks` makes the 32 pictures again: build/console/looks/<state>-<width>-<theme>.png.
In each state the test measures what can be measured: contrast, and that nothing is too wide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.console.browsing import LAPTOP, PHONE, SHOTS, Open, contrast, cut, run
from tests.support.cluster import LiveCluster

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.console

LOOKS = SHOTS / "looks"
SCENARIO = "seed-02-delete-meets-add"
WIDE = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


def clear(page: Page) -> None:
    """Empties the output of the command line."""
    page.fill("#line", "clear")
    page.press("#line", "Enter")
    page.wait_for_function("() => !document.querySelector('#output').textContent")


def orders(page: Page, key: str) -> list[str]:
    """A stream with entries of all regions, a group, and a removal; returns the IDs."""
    run(page, "us", f"XGROUP CREATE {key} packers 0 MKSTREAM")
    items = [("us", "book"), ("eu", "lamp"), ("us", "chair"), ("ap", "tea"), ("eu", "desk")]
    found = [run(page, one, f"XADD {key} * item {item} price 12").strip('"') for one, item in items]
    page.wait_for_selector(f'td.river.present .entry[data-view="us"][data-id="{found[-1]}"]')
    run(page, "us", f"XREADGROUP GROUP packers ann COUNT 3 STREAMS {key} >")
    run(page, "us", f"XACK {key} packers {found[0]} {found[2]}")
    run(page, "us", f"XDEL {key} {found[1]}")
    page.wait_for_selector(f'td.river.removed .entry[data-view="us"][data-id="{found[1]}"]')
    clear(page)
    return found


def partition(page: Page, key: str) -> str:
    """Cuts us off, and writes on both sides; returns the ID of an entry that us has deleted."""
    found = orders(page, key)
    cut(page, "us-eu")
    cut(page, "us-ap")
    run(page, "us", f"XDEL {key} {found[3]}")
    mine = run(page, "us", f"XADD {key} * item mine price 3").strip('"')
    run(page, "eu", f"XADD {key} * item theirs price 4")
    clear(page)
    page.wait_for_selector(f'td.river.present .entry[data-view="us"][data-id="{mine}"]')
    return found[3]


@contextmanager
def quiet(page: Page, key: str, cluster: LiveCluster) -> Iterator[None]:
    orders(page, key)
    yield


@contextmanager
def partitioned(page: Page, key: str, cluster: LiveCluster) -> Iterator[None]:
    partition(page, key)
    yield


@contextmanager
def region_down(page: Page, key: str, cluster: LiveCluster) -> Iterator[None]:
    orders(page, key)
    cluster.kill("ap")
    try:
        page.wait_for_selector('.card[data-region="ap"] .state[data-state="unreachable"]')
        run(page, "us", f"XADD {key} * item later price 1")
        yield
    finally:
        cluster.start("ap")
        cluster.await_links()


@contextmanager
def dialog(page: Page, key: str, cluster: LiveCluster) -> Iterator[None]:
    orders(page, key)
    page.click('[data-more="us-eu"]')
    page.select_option('select[aria-label="Delay from eu to us"]', "500")
    page.wait_for_selector('#linkbox td:has-text("500 ms late")')
    page.locator('#linkbox tr:has-text("us → eu") button').click()
    page.wait_for_selector('#linkbox button:has-text("heal this direction")')
    yield
    page.keyboard.press("Escape")


@contextmanager
def lesson(page: Page, key: str, cluster: LiveCluster) -> Iterator[None]:
    page.click("#tab-lessons")
    page.click('[data-lesson="1"]')
    page.wait_for_selector('[data-deed="cut"]')
    cut(page, "us-eu")
    cut(page, "us-ap")
    page.wait_for_selector('[data-deed="run"]')
    page.locator('[data-deed="run"]').first.click()
    page.press("#line", "Enter")
    page.wait_for_selector('td.river.present .entry:has-text("tea")')
    yield
    page.click("#lesson-leave")
    page.wait_for_selector("[data-lesson]")


@contextmanager
def past(page: Page, key: str, cluster: LiveCluster) -> Iterator[None]:
    orders(page, key)
    page.click("#travel")
    page.wait_for_selector("#when")
    page.click("#earlier")
    page.wait_for_selector("#earlier:not(:disabled)")
    yield


@contextmanager
def player(page: Page, key: str, cluster: LiveCluster) -> Iterator[None]:
    page.click("#tab-scenarios")
    page.click(f'[data-scenario="{SCENARIO}"]')
    page.wait_for_selector("#player[open]")
    page.click('.player-rows [data-step="5"]')
    page.wait_for_function(
        "() => { const image = document.querySelector('#player-image');"
        " return image.src.includes('step=5&') && image.complete && image.naturalHeight > 0; }"
    )
    yield
    page.click("#player-close")


@contextmanager
def explained(page: Page, key: str, cluster: LiveCluster) -> Iterator[None]:
    removed = partition(page, key)
    page.locator(f'.entry[data-id="{removed}"]').first.click()
    page.wait_for_selector(".sentences")
    yield


STATES: dict[str, Callable[..., object]] = {
    "quiet": quiet,
    "partition": partitioned,
    "region-down": region_down,
    "dialog": dialog,
    "lesson": lesson,
    "past": past,
    "player": player,
    "explain": explained,
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["1440", "390"])
def test_the_page_looks_right(
    open_page: Open, cluster: LiveCluster, state: str, theme: str, size: dict[str, int]
) -> None:
    """Contrast is AA and nothing overflows; the picture is for whoever changes the page."""
    page = open_page(viewport=size, color_scheme=theme, tolerates="Failed to load resource")
    with STATES[state](page, f"orders-{len(theme)}{size['width']}-{state}", cluster):  # type: ignore[attr-defined]
        LOOKS.mkdir(parents=True, exist_ok=True)
        path = LOOKS / f"{state}-{size['width']}-{theme}.png"
        low = contrast(page)
        page.screenshot(path=path, full_page=size is PHONE and state not in ("dialog", "player"))
        assert low["checked"] > 30 and low["failed"] == []
        assert page.evaluate(WIDE) <= 0
