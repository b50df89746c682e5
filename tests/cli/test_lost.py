"""What regions that were said to be lost hold does not count (S13.8)."""

from __future__ import annotations

from typing import Any, cast

import pytest

from anabranch.cli import export, members
from anabranch.cli.addresses import RegionAddress
from anabranch.cli.client import PeerFacts, RegionClient
from anabranch.cli.errors import CliError, Unreachable
from anabranch.cli.lost import lost_regions

US, EU, AP = 1, 2, 3


class FakeRegion:
    """A region that serves or is lost, calls some regions lost, and has a vector."""

    def __init__(
        self, region_id: int, calls_lost: tuple[int, ...] = (), called_by: str = "", eu: int = 0
    ) -> None:
        self.region_id = region_id
        self._calls_lost = calls_lost
        self._called_by = called_by
        self._eu = eu
        self.is_down = False
        self.forked_with: tuple[int, ...] = ()
        self.divergence = "0"

    def __enter__(self) -> FakeRegion:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def info(self, *section: str) -> dict[str, str]:
        if self.is_down:
            raise Unreachable(f"{self.region_id} does not answer")
        # A lost region whose disk fails has another state.
        return {
            "crdt_state": "failed",
            "crdt_called_lost_by": self._called_by,
            "crdt_region_id": str(self.region_id),
            "crdt_divergence": self.divergence,
        }

    def peers(self) -> list[PeerFacts]:
        return [
            PeerFacts(
                {
                    "region_id": one,
                    "name": str(one),
                    "lost": one in self._calls_lost,
                    "link": "forked" if one in self.forked_with else "up",
                }
            )
            for one in (US, EU, AP)
            if one != self.region_id
        ]

    def vector(self) -> dict[int, int]:
        return {EU: self._eu}


def lost(*regions: FakeRegion) -> set[int]:
    return lost_regions(cast("list[RegionClient]", regions))


def test_with_no_other_region_nobody_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command did nothing, without a word and with code 0."""
    monkeypatch.setattr(members, "find", lambda *_: [RegionAddress("us", 1, "a:1")])
    with pytest.raises(CliError, match="no other region to tell that us is gone for good"):
        members.lost("us", yes=True)


def test_a_lost_region_says_so_or_others_say_it() -> None:
    assert lost(FakeRegion(US), FakeRegion(EU)) == set()
    assert lost(FakeRegion(US), FakeRegion(EU, called_by="us")) == {EU}
    assert lost(FakeRegion(US, calls_lost=(EU, AP)), FakeRegion(EU)) == {EU, AP}


def test_what_a_lost_region_calls_lost_counts_for_nothing() -> None:
    assert lost(FakeRegion(EU, calls_lost=(US,), called_by="us"), FakeRegion(US)) == {EU}


def places(monkeypatch: pytest.MonkeyPatch, regions: list[FakeRegion]) -> list[RegionAddress]:
    """The addresses at which these regions answer. A region has its id as its name."""
    by_id = {one.region_id: one for one in regions}

    def client(place: RegionAddress, password: Any) -> FakeRegion:
        return by_id[place.region_id]

    monkeypatch.setattr(RegionAddress, "client", client)
    return [RegionAddress(str(one), one, "") for one in by_id]


def held(monkeypatch: pytest.MonkeyPatch, others: list[FakeRegion]) -> int:
    """What `export` takes as held by these regions, of the effects of eu."""
    eu, *its_others = places(monkeypatch, [FakeRegion(EU), *others])
    wanted = export._wanted(eu, its_others, None)
    assert not wanted.compared
    return wanted.held


def test_regions_that_were_lost_together_do_not_vouch_for_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`export` once wrote nothing: what eu alone had, ap had as well, and both were lost."""
    us, ap = FakeRegion(US, calls_lost=(EU, AP), eu=3), FakeRegion(AP, called_by="us", eu=5)
    assert held(monkeypatch, [us, ap]) == held(monkeypatch, [ap, us]) == 3
    assert held(monkeypatch, [FakeRegion(US, calls_lost=(EU,), eu=3), FakeRegion(AP, eu=5)]) == 5
    with pytest.raises(CliError, match="all other regions were said to be lost, too"):
        held(monkeypatch, [ap])


def test_a_lost_region_need_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """`export` once asked for an answer of every other region, a lost one included."""
    us, ap = FakeRegion(US, calls_lost=(AP,), eu=3), FakeRegion(AP, eu=5)
    ap.is_down = True
    assert held(monkeypatch, [us, ap]) == held(monkeypatch, [ap, us]) == 3
    with pytest.raises(CliError, match="3 does not answer; without it, entries that 3 holds"):
        held(monkeypatch, [FakeRegion(US, eu=3), ap])


def test_a_lost_region_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where entries were compared, those that a lost region holds were once left out."""
    eu, us, ap = FakeRegion(EU), FakeRegion(US, calls_lost=(AP,)), FakeRegion(AP)
    at_eu, *others = places(monkeypatch, [eu, us, ap])
    eu.forked_with = (US,)
    wanted = export._wanted(at_eu, others, None)
    assert [one.region_id for one in wanted.compared] == [US] and not wanted.all_origins
    ap.is_down, eu.forked_with, us.divergence = True, (), "2"
    wanted = export._wanted(at_eu, others, None)
    assert [one.region_id for one in wanted.compared] == [US] and wanted.all_origins
