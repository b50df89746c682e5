"""The routes of the console over three real regions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch.console import sessions
from tests.console.conftest import ConsoleProcess
from tests.console.support import Page, opened
from tests.support.cluster import LiveCluster
from tests.support.processes import eventually

pytestmark = pytest.mark.live


@pytest.fixture
def page(cluster: LiveCluster) -> Iterator[Page]:
    """A console that writes, over empty regions with open links."""
    with cluster.client("us") as client:
        client.flushall()
    cluster.sync()
    addresses = {name: region.address for name, region in cluster.regions.items()}
    with opened(addresses) as one:
        yield one


def states(page: Page, key: str) -> dict[str, dict[str, str]]:
    """ID → region → present, removed or absent."""
    rows = page.get("stream", key=key)["rows"]
    return {row["id"]: {name: one["state"] for name, one in row["in"].items()} for row in rows}


def test_overview(page: Page) -> None:
    facts = page.get("overview")
    assert facts["cluster"] == "test" and facts["names"] == {"1": "us", "2": "eu", "3": "ap"}
    assert [one["state"] for one in facts["regions"]] == ["serving"] * 3
    assert len(facts["links"]) == 6 and {one["state"] for one in facts["links"]} == {"up"}
    assert facts["equal"] and all(one["lacks"] == {} for one in facts["regions"])


def test_a_cut_shows_what_each_region_lacks(page: Page, cluster: LiveCluster) -> None:
    (before,) = page.run("us", "XADD k * n before")
    cluster.sync()
    for peer in ("eu", "ap"):
        cluster.cut("us", peer)
    try:
        (mine,) = page.run("us", "XADD k * n mine")
        (theirs,) = page.run("eu", "XADD k * n theirs")
        page.run("us", "XDEL k " + before)
        cluster_ids = [one.strip('"') for one in (before, mine, theirs)]
        eventually(
            lambda: (
                states(page, "k")
                == {
                    cluster_ids[0]: {"us": "removed", "eu": "present", "ap": "present"},
                    cluster_ids[1]: {"us": "present", "eu": "absent", "ap": "absent"},
                    cluster_ids[2]: {"us": "absent", "eu": "present", "ap": "present"},
                }
            ),
            20,
            "the views of a cut",
        )
        overview = page.get("overview")
        lacks = {one["name"]: one["lacks"] for one in overview["regions"]}
        assert lacks["us"] == {"2": 1} and lacks["eu"] == {"1": 2} and not overview["equal"]
        cut = {(one["sender"], one["receiver"]) for one in overview["links"] if one["cut_by"]}
        assert cut == {("us", "eu"), ("eu", "us"), ("us", "ap"), ("ap", "us")}
    finally:
        for peer in ("eu", "ap"):
            cluster.heal("us", peer)
    cluster.sync()
    assert set(map(str, states(page, "k")[cluster_ids[2]].values())) == {"present"}
    row = next(one for one in page.get("stream", key="k")["rows"] if one["id"] == cluster_ids[0])
    assert row["in"]["eu"]["by"].startswith("XDEL in us")


def test_windows_cover_a_stream_without_gap(page: Page, cluster: LiveCluster) -> None:
    with cluster.client("us") as us, cluster.client("eu") as eu:
        added = [client.xadd("big", {"n": n}) for n in range(120) for client in (us, eu)]
    cluster.sync()
    seen: list[str] = []
    before = ""
    while True:
        facts = page.get("stream", key="big", before=before, rows=50)
        seen += [row["id"] for row in facts["rows"]]
        if not facts["has_older"]:
            break
        before = facts["rows"][-1]["id"]
    assert seen == sorted(added, key=lambda one: [int(n) for n in one.split("-")], reverse=True)


def test_an_emptied_stream_shows_what_was_there(page: Page) -> None:
    page.run("us", "XADD gone * a 1")
    page.get("stream", key="gone")
    page.run("us", "DEL gone")
    (row,) = page.get("stream", key="gone", regions="us")["rows"]
    assert row["in"]["us"]["state"] == "removed" and "DEL in us" in row["in"]["us"]["by"]


def test_keys_of_any_bytes(page: Page, cluster: LiveCluster) -> None:
    key = b"\xff\x1b[31m\n<script>\\"
    with cluster.client("us") as client:
        client.xadd(key, {b"\x00\xfe": b"</td>\xe2\x80\xae"})
    cluster.sync()
    (found,) = page.get("keys")["keys"]
    assert found["name"] == "\\xff\\x1b[31m\\n<script>\\\\"
    assert found["entries"] == {"us": 1, "eu": 1, "ap": 1}
    facts = page.get("stream", key=found["name"])
    assert facts["key"] == found["name"] and len(facts["rows"]) == 1
    assert facts["rows"][0]["fields"] == ["\\x00\\xfe", "</td>\\u202e"]
    entry_id = facts["rows"][0]["id"]
    lines = page.get("explain", region="eu", key=found["name"], id=entry_id)["lines"]
    assert f"Entry {entry_id}" in lines[0] and "is there in eu" in lines[0]


def test_long_keys_are_called_by_handles(page: Page, cluster: LiveCluster) -> None:
    """The list held them whole, and no request could hold one of 64 KiB or more."""
    long = [b"long" + end * 100_000 for end in (b"a", b"b", b"\xff")]
    with cluster.client("us", decode_responses=False) as client:
        ids = {key: client.xadd(key, {b"f": b"v"}).decode() for key in long}
    cluster.sync()
    listed = page.get("keys", filter="long")["keys"]
    assert len(str(listed)) < 2000 and len({one["name"] for one in listed}) == 3
    for key, one in zip(sorted(long), listed, strict=True):
        facts = page.get("stream", key=one["name"])
        assert facts["key"] == one["name"]
        assert [row["id"] for row in facts["rows"]] == [ids[key]]
        assert page.get("log", region="eu", key=one["name"])["events"]
    (unknown, _) = listed[0]["name"].split(" ")
    with pytest.raises(AssertionError, match="does not know this long key"):
        page.get("stream", key=unknown)
    with cluster.client("us", decode_responses=False) as client:
        client.delete(*long)


def test_keys_are_filtered_and_bounded(page: Page, cluster: LiveCluster) -> None:
    with cluster.client("us") as client, client.pipeline(transaction=False) as pipe:
        for n in range(250):
            pipe.xadd(f"key-{n:03}", {"a": 1})
        pipe.execute()
    cluster.sync()
    listed = page.get("keys")
    assert len(listed["keys"]) == 200 and not listed["is_whole"] and listed["silent"] == []
    few = page.get("keys", filter="y-01")
    assert [one["name"] for one in few["keys"]] == [f"key-{n:03}" for n in range(10, 20)]
    assert few["is_whole"] and page.get("keys", filter="key-00[12]")["keys"][1]["name"] == "key-002"


def test_groups_and_why_an_acknowledgement_waits(page: Page, cluster: LiveCluster) -> None:
    for n in range(3):
        page.run("us", f"XADD jobs * n {n}")
    page.run("us", "XGROUP CREATE jobs g 0")
    page.run("us", "XREADGROUP GROUP g ann STREAMS jobs >")
    ids = sorted(states(page, "jobs"))
    page.run("us", f"XACK jobs g {ids[1]}")
    cluster.sync()

    def of(name: str) -> list[Any]:
        rows = page.get("stream", key="jobs")["rows"]
        return [row["in"][name]["groups"]["g"] for row in reversed(rows)]

    assert of("us") == [["pending", "ann"], ["done"], ["pending", "ann"]]
    assert of("eu") == [["open"]] * 3
    us = page.get("stream", key="jobs")["regions"][0]
    assert us["groups"][0]["waits"][0]["id"] == ids[0]
    page.run("us", f"XACK jobs g {ids[0]}")
    cluster.sync()
    eventually(lambda: of("eu") == [["acked"], ["acked"], ["open"]], 20, "the announcement")
    story = page.get("group", region="eu", key="jobs", group="g")
    assert "Group g is there in eu." in story["lines"][0]
    assert any("announced what group g" in one["text"] for one in story["events"])


def test_past_and_timeline(page: Page, cluster: LiveCluster) -> None:
    first, second = (page.run("us", f"XADD then * n {n}")[0].strip('"') for n in range(2))
    page.run("us", f"XDEL then {first}")
    steps = page.get("timeline", region="us", key="then")["steps"]
    assert [step["kind"] for step in steps if step["kind"] in ("add", "remove-entries")]
    now = page.get("past", region="us", key="then", until=steps[-1]["at_ms"])
    states_now = {row["id"]: row["in"]["us"]["state"] for row in now["rows"]}
    assert states_now == {first: "removed", second: "present"}
    begin = page.get("past", region="us", key="then", until=steps[0]["at_ms"] - 1)
    assert begin["rows"] == [] and begin["last"] is None
    events = page.get("log", region="us", key="then")["events"]
    assert [one["kind"] for one in events][:3] == ["remove-entries", "add", "add"]


# -- the command line


def test_a_session_is_a_connection(page: Page) -> None:
    assert page.run("us", "MULTI") == ["OK"]
    assert page.run("us", "XADD s * a 1") == ["QUEUED"]
    assert page.run("us", "XLEN s", session="other") == ["(integer) 0"]
    assert page.run("us", "EXEC")[0].startswith('1) "')
    assert page.run("us", "XADD s * a 1")[0].startswith('"')
    assert page.run("us", "WAIT 2 20000") == ["(integer) 2"]


def test_a_command_that_blocks_ends(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    line = "XREAD BLOCK 0 STREAMS none $"
    # PING gets its reply in the usual time.
    with monkeypatch.context() as short:
        short.setattr(sessions, "PATIENCE_S", 0.5)
        status, body = page.post("run", region="us", line=line, session="b")
    assert status == 502 and "no reply within 0.5 s" in body["error"]
    assert page.run("us", "PING", session="b") == ["PONG"]


@pytest.mark.parametrize(
    ("line", "error"),
    [('XADD "s', "is not closed"), ("  ", "no command"), ("x" * (1 << 20 | 1), "at most")],
)
def test_lines_that_are_no_command(page: Page, line: str, error: str) -> None:
    status, body = page.post("run", region="us", line=line, session="s")
    assert status == 400 and error in body["error"]


def test_sessions_are_bounded(page: Page, cluster: LiveCluster) -> None:
    with cluster.client("ap") as client:
        before = len(client.client_list())
        for n in range(sessions.SESSIONS_MAX + 10):
            page.run("ap", "PING", session=f"page {n}")
        eventually(
            lambda: len(client.client_list()) <= before + sessions.SESSIONS_MAX,
            20,
            "the oldest sessions being closed",
        )


def test_mistakes_are_told(page: Page) -> None:
    for name, parameters, error in (
        ("stream", {}, "key is missing"),
        ("stream", {"key": "a\\q"}, "backslash"),
        ("stream", {"key": "k", "before": "x"}, "entry ID"),
        ("stream", {"key": "k", "rows": "501"}, "from 0 to 500"),
        ("stream", {"key": "k", "regions": "mars"}, "there are us, eu, ap"),
        ("explain", {"key": "k"}, "there are us, eu, ap"),
        ("past", {"key": "k", "region": "us", "until": "-1"}, "until must be a number"),
        ("live", {"key": "k", "before": "x"}, "entry ID"),
    ):
        answer = page.client.get(f"/api/{name}", params=parameters, headers=page.headers)
        assert answer.status_code == 400 and error in answer.json()["error"], (name, parameters)
    refused = page.client.get(
        "/api/explain", params={"key": "k", "region": "us", "id": "x"}, headers=page.headers
    )
    assert refused.status_code == 409 and "Invalid stream ID" in refused.json()["error"]


# -- reading only, and passwords


def test_a_reader_reads_and_writes_nothing(page: Page, cluster: LiveCluster) -> None:
    page.run("us", "XADD kept * a 1")
    digest = cluster.digest("us")
    addresses = {name: region.address for name, region in cluster.regions.items()}
    with opened(addresses, allow_write=False) as reader:
        assert reader.run("us", "XLEN kept") == ["(integer) 1"]
        assert reader.run("us", "xinfo stream kept")[0].startswith(" 1# ")
        for line in (
            "XADD kept * a 2",
            "DEL kept",
            "FLUSHALL",
            "CRDT.LINK eu DOWN",
            "CONFIG SET appendfsync no",
            "SHUTDOWN",
            "XINFO",
            "MULTI",
            "XREADGROUP GROUP g c STREAMS kept >",
            '"\\x58ADD" kept * a 2',
        ):
            status, body = reader.post("run", region="us", line=line, session="s")
            assert status == 403 and "only reads" in body["error"], line
    assert cluster.digest("us") == digest and cluster.links("us")["eu"] == "up"


def test_passwords_never_reach_the_page(
    new_cluster: Callable[..., LiveCluster], tmp_path: Path
) -> None:
    secret = "sesam öffne dich"
    cluster = new_cluster(["us"], {"requirepass": secret})
    region = cluster.start("us", wait=False)
    with opened({"us": region.address}, password=secret) as page:
        eventually(
            lambda: page.get("overview")["regions"][0]["state"] in ("starting", "serving"),
            30,
            "the region answering",
        )
        answers = [
            page.client.get("/").text,
            str(page.get("overview")),
            str(page.run("us", "XADD k * a 1")),
            str(page.get("stream", key="k")),
            str(page.get("log", region="us", key="k")),
            str(page.run("us", "CONFIG GET *")),
            str(page.run("us", "CONFIG GET requirepass")),
            str(page.run("us", "INFO everything")),
            str(page.run("us", "CLIENT LIST")),
        ]
        page.run("us", "MULTI")
        page.run("us", "CONFIG GET requirepass")
        answers.append(str(page.run("us", "EXEC")))
    assert "does not show passwords" in answers[5] and "does not show passwords" in answers[6]
    for answer in answers:
        for form in (secret, "sesam", "\\xc3\\xb6ffne"):
            assert form not in answer
    with opened({"us": region.address}, password="wrong") as page:
        (facts,) = page.get("overview")["regions"]
        assert facts["state"] == "unreachable" and "refuses this password" in facts["error"]
        assert "wrong" not in facts["error"] and "--password-file" in facts["error"]
        listed = page.get("keys")
        assert listed["is_whole"] and listed["silent"] == ["us"] and not listed["keys"]
        status, body = page.post("run", region="us", line="PING", session="s")
        assert status == 502 and "password" in body["error"] and "wrong" not in body["error"]


def test_the_removals_of_a_key_that_came_back_are_told(page: Page) -> None:
    """Before, the counts of a new stream equalled those of the old one, and no log was read."""
    page.run("us", "XADD again * a 1")
    page.get("stream", key="again", regions="us")
    page.run("us", "DEL again")
    page.run("us", "XADD again * a 2")
    rows = page.get("stream", key="again", regions="us")["rows"]
    assert [row["in"]["us"]["state"] for row in rows] == ["present", "removed"]
    assert "DEL in us" in rows[1]["in"]["us"]["by"]


def test_the_console_gives_way_to_the_regions(console: ConsoleProcess) -> None:
    """It took the processor from a region that was written to, each time that it looked."""
    niceness = os.getpriority(os.PRIO_PROCESS, console.process.pid)
    assert niceness == min(os.getpriority(os.PRIO_PROCESS, 0) + 10, 19)
    assert os.sched_getscheduler(console.process.pid) == os.SCHED_BATCH
