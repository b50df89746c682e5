"""A partition on the page, in a real Chromium: the banner, the cards, the map, a phone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.console.browsing import COVERED, LAPTOP, PHONE, Open, contrast, cut, run
from tests.console.conftest import ConsoleProcess
from tests.support.cluster import LiveCluster
from tests.support.processes import eventually

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.console

OTHERS = ("us-eu", "us-ap")


def banner(page: Page, text: str) -> str:
    """Waits until the banner has this text; returns all of it."""
    page.wait_for_selector(f'#banner:has-text("{text}")')
    told: str = page.inner_text("#banner")
    return told


def test_the_banner_tells_of_a_partition(open_page: Open) -> None:
    """Links were red on the map, and nothing said since when, or what waited."""
    page = open_page()
    assert page.locator("#banner").is_hidden()
    run(page, "us", "XADD orders * item seen")
    for link in OTHERS:
        cut(page, link)
    run(page, "us", "XADD orders * item mine")
    run(page, "eu", "XADD orders * item theirs")
    banner(page, "1 effect for us, 1 effect for eu and 1 effect for ap")
    text = banner(page, "Partition: us | eu, ap")
    assert re.search(r" since \d\d:\d\d:\d\d, for \d+ s", text), text
    for name, others in (("us", "eu and ap"), ("eu", "us"), ("ap", "us")):
        card = page.locator(f'.card[data-region="{name}"]')
        assert card.locator(f'.problem:has-text("cut off from {others}")').count() == 1
        assert card.locator(".state").inner_text() == "serving, cut off"
    green = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--good')")
    colours = page.evaluate(
        "() => [...document.querySelectorAll('.card .state')].map((one) => one.computedStyleMap()"
        ".get('color').toString())"
    )
    as_rgb = tuple(int(green.strip()[at : at + 2], 16) for at in (1, 3, 5))
    assert str(as_rgb) not in " ".join(colours).replace("rgb", "")
    for link in OTHERS:
        page.click(f'[data-link="{link}"]')
    page.wait_for_selector("#banner", state="hidden")
    page.wait_for_function("() => document.querySelectorAll('.card.apart').length === 0")


def test_the_banner_tells_of_a_way_round(open_page: Open) -> None:
    page = open_page()
    cut(page, "us-eu")
    text = banner(page, "Link cut: us – eu since")
    assert "Effects take the way round." in text and "Nothing waits." in text
    page.wait_for_selector('.card[data-region="ap"]:not(.apart)')
    assert page.locator(".card.apart").count() == 2


def test_a_cut_that_is_older_than_the_console(
    open_page: Open, cluster: LiveCluster, tmp_path: Path
) -> None:
    """The region knows how long it has heard nothing, so the page does not begin to count at 0."""
    for peer in ("eu", "ap"):
        cluster.cut("us", peer)
    one = ConsoleProcess(cluster, tmp_path / "one.log")
    try:
        page = open_page(one.url)
        text = banner(page, "Partition: us | eu, ap at least since")
        assert ", for at least " in text
        page.context.close()
    finally:
        one.close()


def test_the_banner_tells_of_a_region_that_is_down(open_page: Open, cluster: LiveCluster) -> None:
    page = open_page(tolerates="Failed to load resource")
    cluster.kill("ap")
    try:
        banner(page, "Region down: ap does not answer since")
        run(page, "us", "XADD orders * item later")
        banner(page, "Waiting: 1 effect for ap.")
        assert page.inner_text('[data-link="us-ap"]') == "no answer"
    finally:
        cluster.start("ap")
        cluster.await_links()
    page.wait_for_selector("#banner", state="hidden")


# The boxes on the map that lie upon each other, with these states of the links.
OVERLAPS = """(wanted) => import('/page/store.js').then(({set, state}) => {
  const {regions, links} = state.overview;
  const down = wanted.down ?? [];
  const changed = links.map((link) => {
    const mine = wanted[`${link.sender}-${link.receiver}`] ?? wanted.all ?? {};
    return {...link, cut_by: [], ...mine};
  });
  set({overview: {...state.overview, links: changed, regions: regions.map((region) => (
    {...region, error: down.includes(region.name) ? 'down' : null}))}});
  const boxes = [...document.querySelectorAll('#map .control, #map .node circle')];
  const found = boxes.flatMap((one, at) => boxes.slice(at + 1).filter((other) => {
    const [a, b] = [one.getBoundingClientRect(), other.getBoundingClientRect()];
    return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  }).map((other) => `${one.textContent} / ${other.textContent}`));
  const map = document.querySelector('#map').getBoundingClientRect();
  for (const box of boxes.map((one) => one.getBoundingClientRect())) {
    if (box.left < map.left || box.right > map.right) found.push('beside the map');
  }
  return [boxes.length, found];
})"""
LINKS: list[dict[str, Any]] = [
    {"state": "up", "delay_ms": 0},
    {"state": "up", "delay_ms": 10_000},
    {"state": "up", "delay_ms": 500},
    {"state": "connecting", "delay_ms": 0},
    {"state": "connecting", "delay_ms": 10_000},
    {"state": "unknown", "delay_ms": 0},
    {"state": "none", "delay_ms": 0},
    {"state": "down", "delay_ms": 0, "cut_by": ["region"]},
]


@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_no_label_of_the_map_covers_another(open_page: Open, size: dict[str, int]) -> None:
    """When a region was down, "connecting / unknown" lay upon its neighbour and hid a button."""
    page = open_page(viewport=size)
    for down in ([], ["ap"], ["us", "ap"]):
        for forth in LINKS:
            for back in LINKS:
                wanted = {"all": forth, "down": down}
                wanted |= {"eu-us": back, "ap-us": back, "ap-eu": back}
                count, found = page.evaluate(OVERLAPS, wanted)
                assert count == 6 and found == [], (wanted, found)


def test_lag_and_rates_stand_on_the_cards(open_page: Open, cluster: LiveCluster) -> None:
    page = open_page()
    cluster.link("eu", "us", "DELAY", 700)
    page.wait_for_selector('.card[data-region="eu"] .lag:has-text("0.7 s behind us")')
    with cluster.client("us") as client:

        def moves() -> bool:
            client.xadd("orders", {"item": "x" * 2000})
            us, ap = (
                page.inner_text(f'.card[data-region="{name}"] .paces') for name in ("us", "ap")
            )
            return "writes 0/s" not in us and "writes 0/s" in ap and "kB/s" in ap

        eventually(moves, 60, "rates on the cards")
    page.wait_for_selector('.card[data-region="us"] .rate:text-is("writes 0/s")')
    page.wait_for_selector('.card[data-region="ap"] .rate:text-is("takes in 0/s, 0 B/s")')


def test_an_id_has_a_human_time(open_page: Open) -> None:
    page = open_page()
    added = run(page, "us", "XADD orders * item book").strip('"')
    told = page.evaluate("ms => { const at = new Date(ms); return at.toTimeString().slice(0, 8); }",
        int(added.split("-")[0]))  # fmt: skip
    head = page.locator(f'th.id:has-text("{added}")')
    assert head.locator("time").inner_text().startswith(told)
    assert told in (head.get_attribute("title") or "")


def test_on_a_phone_the_stream_comes_first(open_page: Open) -> None:
    """The map and the cards filled the first screen, and the command line lay upon the entries."""
    page = open_page(viewport=PHONE)
    run(page, "us", "XADD orders * item book")
    for n in range(40):
        page.evaluate(
            "n => import('/page/api.js').then(({post, session}) => post('run',"
            " {region: 'us', line: `XADD orders * item ${n}`, session}))", n,
        )  # fmt: skip
    page.wait_for_function("() => document.querySelectorAll('.entry').length > 30")
    page.evaluate("scrollTo(0, 0)")
    first = page.evaluate("document.querySelector('.entry').getBoundingClientRect().bottom")
    assert first < PHONE["height"]
    order = page.evaluate(
        "() => ['stream', 'regions', 'command'].map((id) =>"
        " document.getElementById(id).getBoundingClientRect().top)"
    )
    assert order == sorted(order)
    # In the order of the document, too, so that the Tab key follows.
    assert page.evaluate(
        "() => document.querySelector('#work').compareDocumentPosition("
        "document.querySelector('#regions')) & Node.DOCUMENT_POSITION_FOLLOWING"
    )
    for scrolled in (0, 300, 900):
        page.evaluate("y => scrollTo(0, y)", scrolled)
        assert page.evaluate(COVERED) == ""
    page.click('#jump button:has-text("Regions")')
    page.wait_for_function(
        "() => document.querySelector('#regions').getBoundingClientRect().top < innerHeight"
    )


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pressed_and_focused_controls_have_contrast(open_page: Open, theme: str) -> None:
    page = open_page(color_scheme=theme)
    run(page, "us", "XADD orders * item book")
    cut(page, "us-eu")
    page.wait_for_selector(".entry")
    page.click("#travel")
    page.wait_for_selector("#when")
    for control in (
        '#travel[aria-pressed="true"]',
        '#views [aria-pressed="true"]',
        "#ghosts",
        "#log",
        "#theme",
        '[data-link="us-eu"]',
        '[data-link="us-ap"]',
        '[data-more="us-eu"]',
        "[data-key][aria-current]",
        "#tab-guide",
        "#filter",
        "#where",
        "#line",
        "#now",
    ):
        # A key was the last that was pressed, so the ring is shown.
        page.keyboard.press("Shift")
        page.focus(control)
        page.hover(control)
        low = contrast(page)
        assert low["checked"] > 40 and low["failed"] == [], control
