"""The parts of the command line that need no running region."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from cli import diff, explain, places, status, up
from cli.client import PeerFacts, RegionClient, flat_vector, text
from cli.errors import CliError
from cli.places import Place


def test_text_shows_bytes_that_are_no_text() -> None:
    assert text([b"a", {b"k": b"\xff"}, 1, None]) == ["a", {"k": "\\xff"}, 1, None]
    assert flat_vector([1, 42, 2, 7]) == {1: 42, 2: 7}


def test_cluster_file_round_trip(tmp_path: Path) -> None:
    written = [Place("us", 1, "127.0.0.1:7001", "127.0.0.1:7101", "127.0.0.1:7201"), Place("eu", 7, "127.0.0.1:7002")]
    places.write_file(tmp_path / "cluster.toml", "local", written)
    read = places.find(tmp_path, None, None)
    assert [vars(place) for place in read] == [vars(place) for place in written]


def test_regions_are_named_by_name_id_or_other_case() -> None:
    all_places = [Place("us", 1, "a:1"), Place("EU", 2, "a:2")]
    assert places.named(all_places, "us") is all_places[0]
    assert places.named(all_places, "2") is places.named(all_places, "eu") is all_places[1]
    with pytest.raises(CliError, match="no region 'ap' here; there are us, EU"):
        places.named(all_places, "ap")


def test_plan_counts_ports_up() -> None:
    planned = up.plan("us=3,eu=5", 7001, 7101, 7201)
    assert [(p.name, p.region_id, p.resp, p.sync, p.http) for p in planned] == [
        ("us", 3, "127.0.0.1:7001", "127.0.0.1:7101", "127.0.0.1:7201"),
        ("eu", 5, "127.0.0.1:7002", "127.0.0.1:7102", "127.0.0.1:7202"),
    ]
    line = up.serve_command(planned[1], planned, Path("d"), ["--id-mode", "liberal"])
    assert line[line.index("--peer") + 1] == "us@127.0.0.1:7101"
    assert line[line.index("--data") + 1] == "d/eu" and line[-1] == "liberal"


def test_nested_replies_as_lines() -> None:
    reply = {"key": "s", "entries": [{"id": "1-1", "dot": [1, 2]}, {"id": "2-1", "dot": [1, 3]}], "groups": [], "vector": [1, 2], "x": None}
    assert explain.lines(reply) == [
        "key: s",
        "entries:",
        "  - id: 1-1",
        "    dot: 1  2",
        "  - id: 2-1",
        "    dot: 1  3",
        "groups: (none)",
        "vector: 1  2",
        "x: (none)",
    ]


class FakeSide:
    """A side of a comparison, whose region log is given."""

    def __init__(self, name: str, vector: dict[int, int], log: list[tuple[int, str]]) -> None:
        self.name = name
        self.vector = vector
        self._log = log

    def log(self, key: bytes, region_id: int) -> Any:
        return iter(self._log)


def test_diff_says_why_an_entry_is_on_one_side_only() -> None:
    us = FakeSide("us", {1: 5}, [(1, "1-1"), (2, "2-1"), (5, "5-1")])
    eu = FakeSide("eu", {1: 4}, [(2, "2-1"), (3, "3-1")])
    found = list(diff.compare_logs(cast(diff.Side, us), cast(diff.Side, eu), b"s", 1))
    assert [(one.dot, one.holder.name, one.why({1: "us"})) for one in found] == [
        ((1, 1), "us", "it was removed in what eu has applied; us has not received that removal yet"),
        ((1, 3), "eu", "it was removed in what us has applied; eu has not received that removal yet"),
        ((1, 5), "us", "eu has not received it yet (it has us's effects up to 4)"),
    ]
    twin = FakeSide("eu", {1: 5}, [])
    (first, *_) = diff.compare_logs(cast(diff.Side, us), cast(diff.Side, twin), b"s", 1)
    assert "divergence" in first.why({})


def facts(name: str, region_id: int, vector: dict[int, int], digest: str, **info: str) -> status.RegionFacts:
    made = status.RegionFacts(Place(name, region_id, f"127.0.0.1:{region_id}"))
    made.vector, made.digest, made.info = vector, digest, dict(info)
    return made


def test_status_finds_what_is_wrong() -> None:
    us, eu = facts("us", 1, {1: 5}, "aa"), facts("eu", 2, {1: 3, 2: 1}, "bb")
    assert status.problems([us, eu]) == []
    assert (status.behind(us, [us, eu]), status.behind(eu, [us, eu])) == (1, 2)
    us.peers = [PeerFacts({"name": "eu", "region_id": 2, "link": "refused", "detail": "other members"})]
    eu.info["crdt_divergence"] = "1"
    ap = facts("ap", 3, {}, "", crdt_state="recovery", crdt_recovery_waiting_for="eu")
    gone = facts("sa", 4, {}, "")
    gone.error = "sa at 127.0.0.1:4 is unreachable: connection refused"
    assert status.problems([us, eu, ap, gone]) == [
        "sa at 127.0.0.1:4 is unreachable: connection refused",
        "us receives nothing from eu: link refused: other members",
        "eu reports divergence: equal vectors, unequal digests; `anabranch diff` shows where",
        "ap is in state recovery, waiting for eu",
    ]
    eu.vector = {1: 5}
    assert "us and eu have equal vectors and unequal digests" in status.problems([us, eu])


def test_an_unreachable_region_is_named() -> None:
    with (
        pytest.raises(CliError, match=r"us at 127\.0\.0\.1:1 is unreachable: connection refused"),
        RegionClient("127.0.0.1:1", "us") as client,
    ):
        client.ping()
