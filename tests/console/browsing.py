"""What the tests of the page in Chromium share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Page

PATIENCE_MS = 20_000
LAPTOP = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}
# Screenshots go here, to be looked at.
SHOTS = Path(os.environ.get("ANABRANCH_TEST_SHOTS", "build/console"))
CONTRAST = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")

# No row is lit up because it has just arrived.
STILL = "() => document.getAnimations().every((one) => one.playState !== 'running')"

Open = Callable[..., "Page"]


def contrast(page: Page) -> Any:
    """What CONTRAST finds at a moment at which nothing is lit up."""
    return page.wait_for_function(f"() => ({STILL})() && (\n{CONTRAST})()").json_value()


# What covers an entry that is to be seen: "" if nothing does.
COVERED = """() => {
  for (const entry of document.querySelectorAll('.entry')) {
    const box = entry.getBoundingClientRect();
    const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
    if (y < 0 || y >= innerHeight) continue;
    const top = document.elementFromPoint(x, y);
    if (!entry.contains(top)) return `${entry.dataset.id}: ${top?.outerHTML.slice(0, 80)}`;
  }
  return '';
}"""


def cut(page: Page, link: str) -> None:
    """Cuts both directions of a link by the map.

    A direction is cut after the other one, and meanwhile the map says "cut one way". What is
    written before the second one is cut still passes.
    """
    page.click(f'[data-link="{link}"]')
    page.wait_for_selector(f'[data-link="{link}"]:text-is("cut")')


def run(page: Page, region: str, line: str) -> str:
    """Types a command into the command line; returns what it prints."""
    page.select_option("#where", region)
    before = page.locator("#output .reply").count()
    page.fill("#line", line)
    page.press("#line", "Enter")
    page.wait_for_function(
        "count => document.querySelectorAll('#output .reply').length > count", arg=before
    )
    printed: str = page.locator("#output .reply").last.locator("pre").inner_text()
    return printed
