"""The table of blocks is complete: a new block of a page is run, tried elsewhere, or left out."""

from __future__ import annotations

import re

import pytest

from tests.newcomer.pages import PAGES, ROOT, blocks_of
from tests.newcomer.table import OMITTED, RUN, SHOWN, TABLE, TRIED
from tests.newcomer.test_newcomer_live import ran


@pytest.mark.parametrize("page", PAGES)
def test_each_block_has_a_row(page: str) -> None:
    found, rows = blocks_of(page), TABLE.get(page, [])
    if [beginning for beginning, _, _ in rows] == ["*"]:
        assert found
        return
    shown = [f"{page}:{block.line}: {block.title}" for block in found]
    assert len(rows) == len(found), f"{len(rows)} rows, and the blocks {shown}"
    for (beginning, _, _), block in zip(rows, found, strict=True):
        assert block.title.startswith(beginning), f"{page}:{block.line}: {block.title}"


def test_the_rows_are_of_pages_and_say_something() -> None:
    assert set(TABLE) <= set(PAGES)
    for page, rows in TABLE.items():
        for beginning, fate, words in rows:
            assert fate in (RUN, TRIED, SHOWN, OMITTED) and words, (page, beginning)
            if fate == TRIED:
                assert (ROOT / words).is_file(), words
            for folder in re.findall(r"\btests/\w+(?:/\w+\.py)?", words):
                assert (ROOT / folder).exists(), words


def test_what_the_table_runs_is_run() -> None:
    listed = {
        (page, beginning)
        for page, rows in TABLE.items()
        for beginning, fate, _ in rows
        if fate == RUN
    }
    assert ran() == listed
