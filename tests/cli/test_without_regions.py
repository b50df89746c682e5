"""The parts of the command line that need no running region."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from anabranch.answers import vector_of
from anabranch.cli import addresses, diff, up
from anabranch.cli.addresses import RegionAddress
from anabranch.cli.client import RegionClient, text
from anabranch.cli.errors import CliError, UsageError
from anabranch.region.option_values import Address


def test_text_shows_bytes_that_are_no_text() -> None:
    assert text([b"a", {b"k": b"\xff"}, 1, None]) == ["a", {"k": "\\xff"}, 1, None]
    assert vector_of([1, 42, 2, 7]) == {1: 42, 2: 7}


def test_cluster_file_round_trip(tmp_path: Path) -> None:
    written = [
        RegionAddress("us", 1, "127.0.0.1:7001", "127.0.0.1:7101", "127.0.0.1:7201"),
        RegionAddress("eu", 7, "127.0.0.1:7002"),
    ]
    addresses.write_file(tmp_path / "cluster.toml", "local", written)
    read = addresses.find(tmp_path, None, None)
    assert [vars(place) for place in read] == [vars(place) for place in written]


def test_the_cluster_file_keeps_the_address_of_toxiproxy(tmp_path: Path) -> None:
    path = tmp_path / "cluster.toml"
    written = [RegionAddress("us", 1, "127.0.0.1:7001")]
    addresses.write_file(path, "local", written, toxiproxy=Address("::1", 8474))
    assert addresses.toxiproxy_address(path, None) == Address("::1", 8474)
    assert len(addresses.find(path, None, None)) == 1


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("regions = ", "it is not valid TOML"),
        ("regions = 3", "it names no regions; it needs a table [[regions]] with name"),
        ("", "it names no regions"),
        ("regions = [1]", "region 1 is no table"),
        ("[[regions]]\nid = 1", "region 1: name must be the name of a region in quotes, not None"),
        ('[[regions]]\nname = "u s"', "name must be the name of a region in quotes, not 'u s'"),
        ('[[regions]]\nname = "us"', "region 1 (us): id must be a number, not None"),
        ('[[regions]]\nname = "us"\nid = 1', "region 1 (us): resp must be HOST:PORT"),
        ('[[regions]]\nname = "us"\nid = 1\nresp = 7', "resp must be HOST:PORT in quotes"),
        ('config = 1\n[[regions]]\nname = "us"', "config must be a path in quotes, not 1"),
        (
            (
                '[[regions]]\nname = "us"\nid = 1\nresp = "h:1"\n'
                '[[regions]]\nname = "us"\nid = 2\nresp = "h:2"'
            ),
            "two regions have the name us",
        ),
    ],
)
def test_a_wrong_cluster_file_is_told_with_the_right_form(
    tmp_path: Path, content: str, told: str
) -> None:
    """Before, the error was that of Python, such as "'int' object is not iterable"."""
    (tmp_path / "cluster.toml").write_text(content)
    with pytest.raises(CliError) as caught:
        addresses.find(tmp_path, None, None)
    assert told in str(caught.value) and "is not a cluster file" in str(caught.value)


def test_ports_that_overlap_are_refused_before_anything_starts() -> None:
    """Before, the last region could not bind, and `up` showed a trace of its log."""
    with pytest.raises(UsageError) as caught:
        up.plan("us,eu,ap", 7001, 7002, 7201)
    assert str(caught.value) == (
        "--sync-port and --resp-port overlap: port 7002 would be that of us and of eu;"
        " each flag needs 3 ports from its first one on"
    )
    with pytest.raises(UsageError, match="--resp-port and --http-port overlap: port 7001"):
        up.plan("us", 7001, 7101, 7001)
    up.plan("us,eu", 7001, 7003, 7005)


def test_regions_are_named_by_name_id_or_other_case() -> None:
    all_places = [RegionAddress("us", 1, "a:1"), RegionAddress("EU", 2, "a:2")]
    assert addresses.named(all_places, "us") is all_places[0]
    assert addresses.named(all_places, "2") is addresses.named(all_places, "eu") is all_places[1]
    with pytest.raises(UsageError, match="no region 'ap' here; there are us, EU"):
        addresses.named(all_places, "ap")


def test_plan_counts_ports_up() -> None:
    planned = up.plan("us=3,eu=5", 7001, 7101, 7201)
    assert [(p.name, p.region_id, p.resp, p.sync, p.http) for p in planned] == [
        ("us", 3, "127.0.0.1:7001", "127.0.0.1:7101", "127.0.0.1:7201"),
        ("eu", 5, "127.0.0.1:7002", "127.0.0.1:7102", "127.0.0.1:7202"),
    ]
    line = up.serve_command(planned[1], planned, Path("d"), ["--id-mode", "liberal"])
    assert line[line.index("--peer") + 1] == "us@127.0.0.1:7101"
    assert line[line.index("--data") + 1] == "d/eu" and line[-1] == "liberal"


class FakeSide:
    """One side of a comparison; `log` holds the (counter, entry ID) pairs of its region log.

    `later`: the vectors, logs and digests after each further look; the last ones stay.
    """

    def __init__(
        self,
        name: str,
        vector: dict[int, int],
        log: list[tuple[int, str]],
        later: Sequence[tuple[dict[int, int], list[tuple[int, str]]]] = (),
        lost: Collection[int] = (),
    ) -> None:
        self.name = name
        self.vector = vector
        self.lost = set(lost)
        self.client = self
        self._log = log
        self._later = list(later)

    def log(self, key: bytes, region_id: int) -> Any:
        return (diff.Entry(counter, one, one.encode()) for counter, one in self._log)

    def looks_again(self) -> bool:
        former = self.vector
        if self._later:
            self.vector, self._log = self._later.pop(0)
        return self.vector != former

    def digest(self, key: bytes) -> str:
        return str(self._log)

    def raw(self, *words: object) -> int:
        return 0

    def call(self, *words: object) -> int:
        return -1


def test_diff_says_why_an_entry_is_on_one_side_only() -> None:
    us = FakeSide("us", {1: 5}, [(1, "1-1"), (2, "2-1"), (5, "5-1")])
    eu = FakeSide("eu", {1: 4}, [(2, "2-1"), (3, "3-1")])
    found = list(diff.compare_logs(cast(diff.Side, us), cast(diff.Side, eu), b"s", 1))
    assert [(one.dot, one.holder.name, one.why({1: "us"}, False)) for one in found] == [
        ((1, 1), "us", "eu has applied a removal of it that us has not received yet"),
        ((1, 3), "eu", "us has applied a removal of it that eu has not received yet"),
        ((1, 5), "us", "eu has not received it yet (it has us's effects up to 4)"),
    ]
    twin = FakeSide("eu", {1: 5}, [])
    (first, *_) = diff.compare_logs(cast(diff.Side, us), cast(diff.Side, twin), b"s", 1)
    assert "divergence" in first.why({}, False)
    assert first.why({}, True) == "the regions have changed while they were compared"
    other = FakeSide("eu", {1: 5}, [(2, "2-1001")])
    others = list(diff.compare_logs(cast(diff.Side, twin), cast(diff.Side, other), b"s", 1))
    assert [one.entry_id for one in others] == ["2-1001"]
    others = list(diff.compare_logs(cast(diff.Side, us), cast(diff.Side, other), b"s", 1))
    assert [(one.dot, one.entry_id, one.has_twin) for one in others[1:3]] == [
        ((1, 2), "2-1", True),
        ((1, 2), "2-1001", True),
    ]
    assert "another entry under this dot" in others[1].why({}, False)
    assert others[1].why({}, False, is_forked=True) == "the two histories are forked"
    told = FakeSide("eu", {1: 4}, [], lost=[1])
    *_, last = diff.compare_logs(cast(diff.Side, us), cast(diff.Side, told), b"s", 1)
    assert last.why({1: "us"}, False) == (
        "eu calls us lost, and has its effects up to 4: it takes no more of them"
    )


def compared(us: FakeSide, eu: FakeSide) -> list[str]:
    found = diff._compare_key(cast(diff.Side, us), cast(diff.Side, eu), b"s", {1: "us"})
    return [] if found is None else found.lines()


def test_diff_while_the_regions_change() -> None:
    """Entries that were removed between two questions were called divergence."""
    entries = [(1, "1-1"), (2, "2-1")]
    removed: list[tuple[int, str]] = [(2, "2-1")]
    # The removal arrives in eu after its log was read.
    us = FakeSide("us", {1: 3}, removed)
    assert compared(us, FakeSide("eu", {1: 2}, entries, [({1: 3}, removed)])) == []
    # Another removal comes meanwhile, and then nothing more.
    us = FakeSide("us", {1: 3}, removed, [({1: 4}, []), ({1: 4}, [])])
    (line,) = compared(us, FakeSide("eu", {1: 3}, removed))
    assert line.endswith("us has applied a removal of it that eu has not received yet")
    # They change all the time.
    us = FakeSide("us", {1: 3}, removed, [({1: n}, []) for n in range(4, 9)])
    (line,) = compared(us, FakeSide("eu", {1: 3}, removed))
    assert line.endswith("the regions have changed while they were compared")
    # They do not change: this is what divergence looks like.
    (line,) = compared(FakeSide("us", {1: 3}, []), FakeSide("eu", {1: 3}, removed))
    assert line.endswith("this is divergence, a fault of anabranch")


def test_an_unreachable_region_is_named() -> None:
    with (
        pytest.raises(CliError, match=r"us at 127\.0\.0\.1:1 is unreachable: connection refused"),
        RegionClient("127.0.0.1:1", "us") as client,
    ):
        client.ping()
