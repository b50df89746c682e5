"""The player of scenarios in a real Chromium: by mouse, by keyboard, in both themes and widths."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.console.browsing import CONTRAST, LAPTOP, PHONE, SHOTS, Open

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page

pytestmark = pytest.mark.console

NAME = "seed-02-delete-meets-add"
DRAWN = """() => {
  const image = document.querySelector('#player-image');
  return image.complete && image.naturalHeight > 0;
}"""


def play(page: Page, name: str = NAME) -> None:
    page.click("#tab-scenarios")
    page.click(f'[data-scenario="{name}"]')
    page.wait_for_selector("#player[open]")
    shown(page, 1)


def shown(page: Page, step: int) -> int:
    """Waits until the drawing of a step is there; returns its height."""
    page.wait_for_function(
        "step => document.querySelector('#player-image')?.src.includes(`step=${step}&`)", arg=step
    )
    page.wait_for_function(DRAWN)
    return int(page.evaluate("document.querySelector('#player-image').naturalHeight"))


def test_a_drawing_grows(open_page: Open) -> None:
    page = open_page()
    play(page)
    assert page.inner_text("#player-title") == "A delete removes only the entries that it observed"
    heights = [shown(page, 1)]
    for step in (2, 3, 4):
        page.click("#player-next")
        heights.append(shown(page, step))
    assert heights == sorted(set(heights))
    current = '.player-rows [aria-current="step"]'
    assert "us: DEL messages" in page.inner_text(current)
    assert "us: DEL messages" in str(page.get_attribute("#player-image", "alt"))
    page.click('.player-rows [data-step="6"]')
    shown(page, 6)
    page.click("#player-back")
    shown(page, 5)
    page.click("#player-play")
    shown(page, 6)
    page.wait_for_selector('#player-play[aria-label="Play"]')
    page.click("#player-close")
    page.wait_for_selector("#player:not([open])", state="attached")


def test_by_keyboard_alone(open_page: Open) -> None:
    page = open_page()
    page.click("#tab-scenarios")
    page.wait_for_selector("[data-scenario]")
    page.focus('#panel input[type="search"]')
    page.keyboard.type("observed")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.dataset.scenario") == NAME
    page.keyboard.press("Enter")
    page.wait_for_selector("#player[open]")
    shown(page, 1)
    for step in (2, 3):
        page.keyboard.press("ArrowRight")
        shown(page, step)
    page.keyboard.press("ArrowLeft")
    shown(page, 2)
    page.keyboard.press("Escape")
    page.wait_for_selector("#player:not([open])", state="attached")
    assert page.evaluate("document.activeElement.dataset.scenario") == NAME


def test_a_file_of_the_reader(open_page: Open, tmp_path: Path) -> None:
    path = tmp_path / "mine <b>.md"
    path.write_text(
        "# Mine\n\n| Time | Region 1 |\n| --- | --- |\n| t1 | `XADD x 1 a <img>` |\n"
        "| t2 | `XLEN x` → 2 |\n"
    )
    # An error that the console answers stands in the console of Chromium, too.
    page = open_page(tolerates="400")
    page.click("#tab-scenarios")
    page.set_input_files('#panel input[type="file"]', path)
    page.wait_for_selector("#player[open]")
    shown(page, 1)
    assert "expected 2" in page.inner_text("#player .problem")
    page.click("#player-close")
    page.wait_for_selector('.scenarios li:first-child [data-scenario]:text-is("Mine")')
    path.write_text("no table")
    page.set_input_files('#panel input[type="file"]', [])
    page.set_input_files('#panel input[type="file"]', path)
    page.wait_for_selector('#player-problem:has-text("no scenario")')


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_contrast_and_layout(open_page: Open, theme: str, size: dict[str, int]) -> None:
    page = open_page(viewport=size, color_scheme=theme)
    page.click("#tab-scenarios")
    page.wait_for_selector("[data-scenario]")
    low = page.evaluate(CONTRAST)
    assert low["checked"] > 40 and low["failed"] == []
    wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert not page.evaluate(wide)
    for part in ("#side", "#panel", "#tabs"):
        assert page.evaluate(f"document.querySelector('{part}').scrollWidth") <= page.evaluate(
            f"document.querySelector('{part}').clientWidth"
        ), part
    page.click(f'[data-scenario="{NAME}"]')
    shown(page, 1)
    page.click('.player-rows [data-step="5"]')
    shown(page, 5)
    low = page.evaluate(CONTRAST)
    assert low["failed"] == []
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"player-{theme}-{size['width']}.png")
