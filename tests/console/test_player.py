"""The player of scenarios: files, frames, drawings, and files of readers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from anabranch.console.player import own_files
from tests.console.support import Page, opened

DELETE_MEETS_ADD = "seed-02-delete-meets-add"
OWN = """# A file of a reader

| Time | Region 1 | Region 2 | Why |
| --- | --- | --- | --- |
| t1 | `XADD x 1 a <b>` | | first |
| t2 | — Sync — | — Sync — | |
| t3 | | `XLEN x` → 1 | eu has it |
"""


@pytest.fixture
def page() -> Iterator[Page]:
    """A page of a console whose region is down: the player needs none."""
    with opened({"us": "127.0.0.1:1"}) as one:
        yield one


def drawing(page: Page, name: str, step: int) -> str:
    response = page.client.get(
        "/api/scenario/drawing", params={"name": name, "step": step, "token": page.guard.token}
    )
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("image/svg+xml")
    # An image of another origin's page would be no use to it, and scripts in it do not run.
    policy = response.headers["content-security-policy"]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"
    assert response.headers["x-content-type-options"] == "nosniff"
    return response.text


def test_a_drawing_shows_what_was_so_at_that_step(page: Page) -> None:
    files = page.get("scenarios")["files"]
    titles = {one["name"]: one["title"] for one in files}
    assert titles[DELETE_MEETS_ADD] == "A delete removes only the entries that it observed"
    assert len(files) > 70
    file = page.get("scenario", name=DELETE_MEETS_ADD)
    assert [step["time"] for step in file["steps"]] == ["t1", "t2", "t3", "t4", "t5", "t6"]
    assert "us: DEL messages" in file["steps"][3]["does"]
    drawings = [drawing(page, DELETE_MEETS_ADD, step) for step in range(1, 7)]
    # The entry is whole until the delete, then only eu has it, then nobody.
    kinds = ["entry in some regions only", "entry or group removed in the end"]
    found = [[kind in one for kind in kinds] for one in drawings]
    assert found == [[True, False], *[[False, False]] * 2, [True, False], *[[False, True]] * 2]
    assert "text goodbye" in drawings[3]
    heights = [int(one.partition('height="')[2].partition('"')[0]) for one in drawings]
    assert heights == sorted(set(heights)), "the drawing grows with each step"
    words = page.get("scenario/frame", name=DELETE_MEETS_ADD, step=6)["words"]
    assert "At the end us and eu hold" in words


@pytest.mark.parametrize("name", ["blocked-readers", "restored-region-waits", "open-links"])
def test_files_whose_commands_wait(page: Page, name: str) -> None:
    """Up to a row in which a command waits, its answer is not there yet."""
    steps = len(page.get("scenario", name=name)["steps"])
    for step in range(1, steps + 1):
        assert page.get("scenario/frame", name=name, step=step)["problem"] == ""
        assert drawing(page, name, step).startswith("<svg")


def test_a_file_of_a_reader(page: Page) -> None:
    status, file = page.post("scenario", name="mine", text=OWN)
    assert status == 200 and file["failures"] == [] and file["title"] == "A file of a reader"
    assert [step["note"] for step in file["steps"]] == ["first", "", "eu has it"]
    assert file["steps"][1]["does"] == ["us, eu tell each other of their effects"]
    assert "&lt;b&gt;" in drawing(page, "mine", 3)
    assert page.get("scenarios")["files"][0] == {"name": "mine", "title": "A file of a reader"}
    # The same name again is a new file, with new drawings.
    status, file = page.post("scenario", name="mine", text=OWN.replace("→ 1", "→ 2"))
    assert status == 200 and "expected 2" in file["failures"][0]
    status, file = page.post("scenario", name=DELETE_MEETS_ADD, text=OWN)
    assert file["name"] == f"{DELETE_MEETS_ADD} (opened)"
    assert page.get("scenario", name=DELETE_MEETS_ADD)["title"] != file["title"]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"name": "x", "text": "no table"}, "no table whose first column is Time"),
        ({"name": "x" * 81, "text": OWN}, "at most 80 characters"),
        ({"name": "x", "text": OWN + " " * 100_000}, "at most 100000 characters"),
        ({"name": 5, "text": OWN}, "name must be a text"),
        ({"name": "x", "text": OWN + "| t4 | `XLEN x` | | |\n" * 201}, "more than 200 steps"),
        ({"name": "x", "text": OWN + "| t4 | wait 61 s | | |\n"}, "waits 61000 ms in all"),
        ({"name": "x", "text": OWN + "| t4 | wait 1000000000 s | | |\n"}, "at most 3600000"),
    ],
)
def test_t18_files_that_are_refused(page: Page, body: dict[str, object], text: str) -> None:
    status, answer = page.post("scenario", **body)
    assert status == 400 and text in answer["error"]


def test_a_console_that_only_reads_runs_no_files_of_readers() -> None:
    with opened({"us": "127.0.0.1:1"}, allow_write=False) as page:
        status, answer = page.post("scenario", name="mine", text=OWN)
        assert status == 403 and "--allow-write" in answer["error"]
        assert drawing(page, DELETE_MEETS_ADD, 1)


def test_requests_without_the_token_get_nothing(page: Page) -> None:
    parameters = {"name": DELETE_MEETS_ADD, "step": "1"}
    for path in ("scenarios", "scenario", "scenario/frame", "scenario/drawing"):
        assert page.client.get(f"/api/{path}", params=parameters).status_code == 403


def test_a_step_that_is_not_there(page: Page) -> None:
    for step in ("7", "-1", "x"):
        response = page.client.get(
            "/api/scenario/frame",
            params={"name": DELETE_MEETS_ADD, "step": step},
            headers=page.headers,
        )
        assert response.status_code == 400, step


def test_every_file_has_steps() -> None:
    for file in own_files().values():
        facts = file.facts()
        assert facts["title"] and facts["steps"] and all(step["does"] for step in facts["steps"])
