"""The lessons in a real Chromium: each is done to its end, on live regions, as a reader does it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.console.browsing import LAPTOP, PHONE, SHOTS, Open, contrast, cut, run
from tests.console.conftest import ConsoleProcess
from tests.support.cluster import LiveCluster
from tests.support.processes import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page

pytestmark = pytest.mark.console

# What the last sentence of a lesson must tell, and the values of `item` that stay in all regions.
ENDINGS = {
    1: ("Both regions hold both entries", ["milk", "tea"]),
    2: ("new stands in every region, and old in none", ["new"]),
    3: ("This create lives", ["job"]),
    4: ("The gap is closed", ["one", "three", "two"]),
    5: ("the entry with the lower ID", ["jam", "tea"]),
    6: ("This time the stream is gone everywhere", []),
    7: ("All regions have applied the same effects", ["detour", "island", "mainland"]),
}
STEPS_MAX = 12


def begin(page: Page, lesson: int) -> None:
    page.click("#tab-lessons")
    page.click(f'[data-lesson="{lesson}"]')
    page.wait_for_selector(".say")


STEP = "Number(document.querySelector('.lesson-story').dataset.step)"


def count(page: Page) -> int:
    """The steps that are done."""
    return int(page.evaluate(STEP))


def do_step(page: Page) -> None:
    """Does what the step says: links by the map, commands by their button and Enter."""
    done = count(page)
    for number in range(page.locator("[data-deed]").count()):
        # The step may end with its last but one deed.
        if count(page) > done:
            return
        deed = page.locator("[data-deed]").nth(number)
        kind = deed.get_attribute("data-deed")
        if kind == "run":
            replies = page.locator("#output .reply").count()
            deed.click()
            page.press("#line", "Enter")
            page.wait_for_function(
                "count => document.querySelectorAll('#output .reply').length > count", arg=replies
            )
            assert page.locator("#output .reply.wrong").count() == 0, page.inner_text("#output")
        elif deed.is_enabled():
            one, other = deed.inner_text().removeprefix("Cut ").removeprefix("Heal ").split(" – ")
            page.click(f'[data-link="{one}-{other}"]')
            if kind == "heal":
                break
            page.wait_for_selector(f'[data-link="{one}-{other}"][data-state="cut"]')
    page.wait_for_function(f"done => {STEP} > done", arg=done)


def do_lesson(page: Page) -> None:
    for _ in range(STEPS_MAX):
        if page.locator('.say b:has-text("Done")').count():
            return
        # Each heal is a deed of its own, because the list changes with the links.
        while page.locator('[data-deed="heal"]').count() > 1:
            left = page.locator('[data-deed="heal"]').count()
            page.locator('[data-deed="heal"]').first.click()
            page.wait_for_function(
                "left => document.querySelectorAll('[data-deed=heal]').length < left", arg=left
            )
        do_step(page)
    raise AssertionError(page.inner_text("#panel"))


def items(cluster: LiveCluster, key: str) -> dict[str, list[str]]:
    found = {}
    for name in cluster.regions:
        with cluster.client(name) as client:
            found[name] = sorted(fields["item"] for _, fields in client.xrange(key))
    return found


@pytest.mark.parametrize("lesson", ENDINGS)
def test_a_lesson_is_done_to_its_end(open_page: Open, cluster: LiveCluster, lesson: int) -> None:
    page = open_page()
    begin(page, lesson)
    key = page.evaluate("location.hash").removeprefix("#")
    assert key.startswith(f"lesson-{lesson}-")
    do_lesson(page)
    told, values = ENDINGS[lesson]
    assert told in page.inner_text(".happened")
    assert items(cluster, key) == dict.fromkeys(cluster.regions, values)
    texts = page.inner_text("#panel")
    assert not [word for word in ("undefined", "NaN", "null", "=>") if word in texts], texts
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"lesson-{lesson}.png")
    if lesson == 2:
        page.click("#lesson-why")
        page.wait_for_selector('.sentences li:has-text("It survived DEL in us")')
    page.click("#lesson-leave")
    page.wait_for_selector(f'[data-lesson="{lesson}"]:has-text("done")')
    # The list is shown while the stream is deleted in one region after the other.
    eventually(
        lambda: items(cluster, key) == {name: [] for name in cluster.regions}, 20, "the deletion"
    )
    page.reload()
    page.click("#tab-lessons")
    page.wait_for_selector(f'[data-lesson="{lesson}"]:has-text("done")')


def test_a_wrong_deed_does_not_end_a_lesson(open_page: Open, cluster: LiveCluster) -> None:
    """The stream is deleted in the middle; the lesson begins again with another stream."""
    page = open_page()
    begin(page, 4)
    do_step(page)
    key = page.evaluate("location.hash").removeprefix("#")
    run(page, "us", f"DEL {key}")
    cut(page, "us-eu")
    page.click("#lesson-again")
    page.wait_for_function("key => location.hash.slice(1) !== key", arg=key)
    assert count(page) == 0
    page.wait_for_selector('[data-link="us-eu"][data-state="up"]')
    do_lesson(page)
    assert "The gap is closed" in page.inner_text(".happened")


# The links are known to be healed before the stream is.
HEALED = """() => import('/page/store.js').then(({set, state}) => {
  const links = state.overview.links.map((link) => ({...link, state: 'up', cut_by: []}));
  const before = state.overview;
  set({overview: {...before, links}});
  const step = document.querySelector('.lesson-story').dataset.step;
  set({overview: before});
  return Number(step);
})"""


def test_a_lesson_waits_for_what_the_heal_brings(open_page: Open) -> None:
    """It told which entry all regions had kept while each still had its own."""
    page = open_page()
    begin(page, 5)
    for _ in range(4):
        do_step(page)
    page.wait_for_selector('td.river.present .entry[data-view="ap"]:has-text("jam")')
    assert page.evaluate(HEALED) == count(page) == 4
    do_lesson(page)
    assert "the entry with the lower ID" in page.inner_text(".happened")


def test_a_lesson_asks_before_it_heals(open_page: Open, cluster: LiveCluster) -> None:
    """To begin a lesson healed every link, whoever had cut it, and for whatever reason."""
    page = open_page()
    cluster.cut("eu", "ap")
    page.wait_for_selector('[data-link="eu-ap"][data-state="cut"]')
    page.click("#tab-lessons")
    page.click('[data-lesson="1"]')
    page.wait_for_selector("#ask[open]")
    text = page.inner_text("#ask")
    assert "ap → eu and eu → ap" in text or "eu → ap and ap → eu" in text
    for refusal in ("#ask-no", "Escape"):
        if refusal == "Escape":
            page.click('[data-lesson="1"]')
            page.wait_for_selector("#ask[open]")
            page.keyboard.press("Escape")
        else:
            page.click(refusal)
        page.wait_for_selector("#ask:not([open])", state="attached")
        assert page.locator("[data-deed]").count() == 0
        assert cluster.links("eu")["ap"] == cluster.links("ap")["eu"] == "down"
    page.click('[data-lesson="1"]')
    page.click("#ask-yes")
    page.wait_for_selector('[data-deed="cut"]')
    page.wait_for_selector('[data-link="eu-ap"][data-state="up"]')
    # Somebody else cuts a link during the lesson: it stays cut at the end.
    cut(page, "us-eu")
    cluster.cut("eu", "ap")
    page.wait_for_selector('[data-link="eu-ap"][data-state="cut"]')
    page.click("#lesson-leave")
    page.wait_for_selector('[data-link="us-eu"][data-state="up"]')
    assert cluster.links("eu")["ap"] == cluster.links("ap")["eu"] == "down"


def test_a_page_that_is_left_leaves_nothing_of_its_lesson(
    open_page: Open, cluster: LiveCluster
) -> None:
    """A lesson whose page was closed left its stream, and the links that were cut in it."""
    page = open_page()
    begin(page, 1)
    do_step(page)
    key = page.evaluate("location.hash").removeprefix("#")
    run(page, "us", f"XADD {key} * item tea")
    page.goto("about:blank")
    links = [("us", "eu"), ("eu", "us"), ("us", "ap"), ("ap", "us")]
    eventually(lambda: all(cluster.links(one)[peer] == "up" for one, peer in links), 20, "the heal")
    gone: dict[str, list[str]] = {name: [] for name in cluster.regions}
    eventually(lambda: items(cluster, key) == gone, 20, "the deletion")


def test_another_stream_and_back(open_page: Open) -> None:
    page = open_page()
    run(page, "us", "XADD other * item x")
    page.wait_for_selector('[data-key="other"]')
    begin(page, 1)
    do_step(page)
    page.click('[data-key="other"]')
    page.wait_for_selector('.problem:has-text("another stream")')
    page.click("text=Back to the lesson's stream")
    page.wait_for_selector(".lesson-closing .problem", state="detached")
    do_lesson(page)


def test_by_keyboard_alone(open_page: Open) -> None:
    page = open_page()
    page.focus("#tab-guide")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.id") == "tab-lessons"
    page.wait_for_selector("[data-lesson]")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.dataset.lesson") == "1"
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-deed]")
    page.focus("[data-deed]")
    page.keyboard.press("Enter")
    # The map shows the first direction of a cut as soon as it is known. This waits for both.
    page.wait_for_selector('[data-deed="cut"]:disabled')
    # The focus went on to the next deed, or to the panel.
    inside = "document.querySelector('#panel').contains(document.activeElement)"
    assert page.evaluate(inside)
    page.locator("[data-deed]:not(:disabled)").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector('code:has-text("item tea")')
    assert page.evaluate(inside)
    for value in ("tea", "milk"):
        page.locator(f'[data-deed]:has-text("{value}")').focus()
        page.keyboard.press("Enter")
        assert value in page.input_value("#line")
        page.keyboard.press("Enter")
    page.wait_for_selector('[data-deed="heal"]')


def test_a_console_that_only_reads_says_so(
    cluster: LiveCluster, open_page: Open, tmp_path: Path
) -> None:
    console = ConsoleProcess(cluster, tmp_path / "console.log", "--read-only")
    try:
        page = open_page(console.url)
        page.click("#tab-lessons")
        page.wait_for_selector('.problem:has-text("--allow-write")')
        assert page.locator("[data-lesson]:not(:disabled)").count() == 0
    finally:
        console.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_contrast_and_layout(open_page: Open, theme: str, size: dict[str, int]) -> None:
    page = open_page(viewport=size, color_scheme=theme)
    page.click("#tab-lessons")
    for name in ("list", "step"):
        low = contrast(page)
        assert low["checked"] > 40 and low["failed"] == []
        wide = page.evaluate(
            "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert wide <= 0
        SHOTS.mkdir(parents=True, exist_ok=True)
        shot = SHOTS / f"lessons-{name}-{theme}-{size['width']}.png"
        page.screenshot(path=shot, full_page=size is PHONE)
        if name == "list":
            begin(page, 1)
            do_step(page)
            do_step(page)
