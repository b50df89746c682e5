"""What the console says of interrupted links and silent regions, and of rates."""

from __future__ import annotations

from typing import Any

from anabranch.console.interruptions import GAP_MS, Interruptions, sides
from anabranch.console.rates import COUNTERS, NONE, Rates

NAMES = ("us", "eu", "ap")


def link(sender: str, receiver: str, **changed: Any) -> dict[str, Any]:
    whole = {"state": "up", "cut_by": [], "behind_ms": 0}
    return {"sender": sender, "receiver": receiver, **whole, **changed}


def mesh(*cut: str, **changed: Any) -> list[dict[str, Any]]:
    """All links of three regions; those named, such as us-eu, are cut in both directions."""
    made = []
    for one in NAMES:
        for other in NAMES:
            is_cut = f"{one}-{other}" in cut or f"{other}-{one}" in cut
            facts = {"state": "down", "cut_by": ["region"], **changed} if is_cut else {}
            made += [link(one, other, **facts)] if one != other else []
    return made


def regions(*down: str) -> list[dict[str, Any]]:
    return [{"name": name, "error": "down" if name in down else None} for name in NAMES]


def test_the_console_remembers_when_it_saw_a_cut() -> None:
    seen = Interruptions()
    seen.note(regions(), mesh(), 1000)
    assert seen.facts(regions(), mesh(), 1000) is None
    cut = mesh("us-eu", "us-ap")
    seen.note(regions(), cut, 5000)
    seen.note(regions(), cut, 9000)
    facts = seen.facts(regions(), cut, 9999)
    assert facts is not None
    assert (facts["since_ms"], facts["is_exact"], facts["lasts_s"]) == (5000, True, 4)
    assert facts["sides"] == [["us"], ["eu", "ap"]] and facts["down"] == []
    assert ["us", "eu", True] in facts["links"] and len(facts["links"]) == 4
    # After the heal, another cut counts anew.
    seen.note(regions(), mesh(), 10_000)
    seen.note(regions(), mesh("us-eu"), 11_000)
    later = seen.facts(regions(), mesh("us-eu"), 11_000)
    assert later is not None and later["since_ms"] == 11_000 and later["sides"] == [list(NAMES)]


def test_a_cut_before_the_first_look_is_as_old_as_the_silence() -> None:
    seen = Interruptions()
    cut = mesh("us-eu", behind_ms=3000)
    seen.note(regions(), cut, 10_000)
    facts = seen.facts(regions(), cut, 10_000)
    assert facts is not None and (facts["since_ms"], facts["is_exact"]) == (7000, False)


def test_a_page_that_connects_anew_forgets_nothing() -> None:
    """Whoever chose another stream during a cut read "at least since", as if it were not seen."""
    seen = Interruptions()
    seen.note(regions(), mesh(), 1000)
    cut = mesh("us-eu", behind_ms=1000)
    seen.note(regions(), cut, 2000)
    seen.pause(3000)
    seen.resume(3000 + GAP_MS)
    seen.note(regions(), cut, 20_000)
    facts = seen.facts(regions(), cut, 20_000)
    assert facts is not None and (facts["since_ms"], facts["is_exact"]) == (2000, True)
    seen.pause(20_000)
    seen.resume(20_001 + GAP_MS)
    seen.note(regions(), cut, 30_000)
    later = seen.facts(regions(), cut, 30_000)
    assert later is not None and (later["since_ms"], later["is_exact"]) == (29_000, False)


def test_a_cut_between_two_looks_was_not_seen() -> None:
    seen = Interruptions()
    seen.note(regions(), mesh(), 1000)
    seen.pause(1000)
    seen.resume(1500)
    cut = mesh("us-eu", behind_ms=400)
    seen.note(regions(), cut, 1500)
    facts = seen.facts(regions(), cut, 1500)
    assert facts is not None and (facts["since_ms"], facts["is_exact"]) == (1100, False)


def test_a_region_that_is_down_is_on_no_side() -> None:
    seen = Interruptions()
    seen.note(regions(), mesh(), 1000)
    lost = [
        {**one, "state": "connecting"} if "ap" in (one["sender"], one["receiver"]) else one
        for one in mesh()
    ]
    seen.note(regions("ap"), lost, 2000)
    facts = seen.facts(regions("ap"), lost, 2000)
    assert facts is not None
    assert (facts["down"], facts["links"], facts["sides"]) == (["ap"], [], [["us", "eu"]])


def test_a_region_that_only_sends_is_a_side_of_its_own() -> None:
    """One direction is not enough to be together."""
    one_way = [one for one in mesh() if one["receiver"] != "us"]
    assert sides(list(NAMES), one_way) == [["us"], ["eu", "ap"]]
    assert sides(list(NAMES), mesh("us-ap")) == [list(NAMES)]


def info(issued: int, merged: int, count: int) -> dict[str, str]:
    return dict(zip(COUNTERS.values(), map(str, (issued, merged, count)), strict=True))


def test_rates_are_those_of_the_last_seconds() -> None:
    rates = Rates()
    assert not rates.note(info(100, 0, 0), 0.0) and rates.now == NONE
    assert not rates.note(info(150, 0, 0), 0.5)
    assert rates.note(info(200, 10, 12345), 1.0)
    assert rates.now == {"issued": 100.0, "merged": 10.0, "merged_bytes": 12000.0}
    rates.note(info(200, 10, 12345), 2.0)
    assert rates.now["issued"] == 50.0
    rates.note(info(200, 10, 12345), 3.0)
    assert rates.now == NONE
    # A region that was started again counts from 0, and one that is silent has no counters.
    rates.note(info(7, 0, 0), 4.0)
    rates.note({}, 5.0)
    assert rates.now == NONE
