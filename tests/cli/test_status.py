"""What `anabranch status` reports: the tables at any width, what regions lack, the problems."""

from __future__ import annotations

import pytest

from anabranch.cli.addresses import RegionAddress
from anabranch.cli.client import PeerFacts
from anabranch.cli.errors import WrongPassword
from anabranch.cli.facts import RegionFacts, lack
from anabranch.cli.problems import problems, unasked
from anabranch.cli.status import as_json, report

LONG = [f"{area}-{n}" for n, area in enumerate(("frankfurt-on-the-main", "oregon-by-the-sea"), 1)]


def facts(
    name: str, region_id: int, vector: dict[int, int], digest: str, **info: str
) -> RegionFacts:
    """The facts of one region, as `status` asks for them."""
    made = RegionFacts(RegionAddress(name, region_id, f"127.0.0.1:{region_id}"))
    made.vector, made.digest, made.info = vector, digest, dict(info)
    return made


def peer(name: str, region_id: int, link: str, lost: int = 0, **fields: object) -> PeerFacts:
    """One row of CRDT.PEERS."""
    return PeerFacts({"name": name, "region_id": region_id, "link": link, "lost": lost, **fields})


def cluster(links: dict[str, str], names: str = "us eu ap") -> list[RegionFacts]:
    """Regions that receive over the links given, such as ``{"us": "eu ap"}``; all links are up."""
    regions = [facts(name, n, {}, "aa") for n, name in enumerate(names.split(), 1)]
    members = ",".join(f"{one.place.name}={one.place.region_id}" for one in regions)
    for region in regions:
        region.info["crdt_members"] = members
        region.peers = [
            peer(
                other.place.name,
                other.place.region_id,
                "up" if other.place.name in links.get(region.place.name, "").split() else "none",
            )
            for other in regions
            if other is not region
        ]
    return regions


FULL = {"us": "eu ap", "eu": "us ap", "ap": "us eu"}
LINE = {"us": "eu", "eu": "us ap", "ap": "eu"}


def gone(region: RegionFacts) -> None:
    """The region does not answer."""
    region.error = f"{region.place.name} at {region.place.resp} is unreachable: connection refused"
    region.peers, region.info, region.vector, region.digest = [], {}, {}, ""


def test_each_side_shows_what_it_lacks_of_the_other() -> None:
    us, eu, ap = regions = cluster(FULL)
    us.vector, eu.vector, ap.vector = {1: 50, 2: 7}, {1: 42, 2: 9}, {1: 50, 2: 9, 3: 1}
    found = {
        (one.place.name, other.place.name): str(lack(one, other, regions))
        for one in regions
        for other in regions
        if one is not other
    }
    assert found == {
        ("us", "eu"): "2",
        ("eu", "us"): "8",
        ("us", "ap"): "1",
        ("ap", "us"): "0",
        ("eu", "ap"): "1",
        ("ap", "eu"): "0",
    }
    assert as_json(regions, [], [])["regions"][0]["links"][0]["lacks"] == 2


def test_what_a_silent_region_lacks_is_bounded_by_what_others_know() -> None:
    us, eu, ap = regions = cluster(FULL)
    us.vector, ap.vector = {1: 50, 2: 7}, {1: 50, 2: 9}
    us.peers[0] = peer("eu", 2, "connecting", lag=12)
    gone(eu)
    assert str(lack(eu, us, regions)) == "at most 12"
    assert str(lack(us, eu, regions)) == "at least 2"
    assert str(lack(ap, eu, regions)) == "unknown"
    assert ["us", "eu", "connecting", "at", "least", "2", "unknown"] in [
        line.split() for line in report(regions, 80)
    ]


def test_a_healthy_cluster_has_no_problems() -> None:
    assert problems(cluster(FULL)) == []


def test_a_line_is_healthy() -> None:
    """us and ap do not dial each other, and receive each other's effects through eu."""
    regions = cluster(LINE)
    assert problems(regions) == []
    assert "us      ap             not dialled      0  unknown" in report(regions, None)


def test_a_region_that_effects_cannot_reach_is_a_problem() -> None:
    assert problems(cluster({"us": "", "eu": "us ap", "ap": "eu"})) == [
        "us can never receive what is written in eu, ap: no chain of links (--peer) leads there"
    ]
    regions = cluster({"us": "", "eu": "us ap", "ap": "eu"})
    assert problems(regions[:2]) == [], "the links of ap are not known"


def test_a_delayed_link_is_no_problem() -> None:
    regions = cluster(FULL)
    regions[0].peers[0] = peer("eu", 2, "up", delay_ms=500)
    assert problems(regions) == []
    assert "us      eu             up, 500 ms late      0  unknown" in report(regions, 80)


def test_a_link_that_is_cut_or_refused_is_a_problem() -> None:
    regions = cluster(FULL)
    regions[0].peers[0] = peer("eu", 2, "down", detail="CRDT.LINK DOWN")
    regions[1].peers[1] = peer("ap", 3, "refused", detail="members: other members")
    regions[2].peers[0] = peer("us", 1, "connecting", detail="no route")
    assert problems(regions) == [
        (
            "us receives nothing from eu: link down: CRDT.LINK DOWN;"
            " `anabranch link heal us eu` opens it"
        ),
        "eu receives nothing from ap: link refused: members: other members",
        "ap receives nothing from us: link connecting: no route",
    ]


def test_a_silent_region_is_one_problem() -> None:
    """Before, the links of all other regions to it were listed, too."""
    us, eu, ap = regions = cluster(FULL)
    us.peers[1] = ap.peers[0] = peer("eu", 2, "connecting")
    eu.peers[1] = peer("ap", 3, "connecting")
    gone(ap)
    us.peers[1] = eu.peers[1] = peer("ap", 3, "connecting")
    assert problems(regions) == [ap.error]


def test_a_region_that_starts_is_no_problem() -> None:
    regions = cluster(FULL)
    regions[2].info["crdt_state"] = "starting"
    regions[0].peers[1] = peer("ap", 3, "connecting")
    assert problems(regions) == []


def test_a_recovery_is_a_problem_if_it_cannot_end_by_itself() -> None:
    _us, eu, ap = regions = cluster(FULL)
    ap.info.update(crdt_state="recovery", crdt_recovery_waiting_for="us,eu")
    assert problems(regions) == []
    gone(eu)
    ap.peers[1] = peer("eu", 2, "connecting")
    assert problems(regions) == [
        eu.error,
        (
            "ap is in recovery and takes no writes: it waits for eu,"
            " to which it has no links in both directions"
        ),
    ]


def test_alarms_are_problems() -> None:
    us, eu, ap = regions = cluster(FULL)
    us.info["crdt_divergence"] = "1"
    eu.info.update(crdt_state="failed", crdt_commit_error="disk full")
    ap.info.update(crdt_tombstone_alarm="1", crdt_idmp_retired_alarm="1")
    us.digest, us.vector, eu.vector, ap.vector = "bb", {1: 1}, {1: 1}, {1: 2}
    found = "\n".join(problems(regions))
    assert "us reports divergence: equal vectors, unequal digests" in found
    assert "eu cannot write to its disk, and refuses writes: disk full" in found
    assert "ap keeps many group tombstones" in found
    assert "ap uses more than half of crdt-idmp-retired-max" in found
    assert "us and eu have equal vectors and unequal digests" in found
    assert len(problems(regions)) == 5


def test_a_digest_that_is_not_told_differs_from_none() -> None:
    """A region on a full disk was said to have another digest than the regions beside it."""
    us, eu, _ap = regions = cluster(FULL)
    us.info.update(crdt_state="failed", crdt_commit_error="disk full")
    us.digest, us.vector, eu.vector = "", {1: 1}, {1: 1}
    assert problems(regions) == ["us cannot write to its disk, and refuses writes: disk full"]


def test_a_region_that_all_others_call_lost_is_no_problem() -> None:
    us, eu, ap = regions = cluster(FULL)
    gone(ap)
    us.peers[1] = eu.peers[1] = peer("ap", 3, "connecting", 1)
    assert problems(regions) == []
    eu.peers[1] = peer("ap", 3, "connecting")
    assert problems(regions) == [ap.error]
    gone(eu)
    us.peers[0] = peer("eu", 2, "connecting")
    assert problems(regions) == [eu.error]
    assert problems([ap]) == [ap.error]


def test_a_lost_region_that_came_back_is_one_problem() -> None:
    """Its refused links say the same as its state, and the others have no problem with it."""
    us, eu, ap = regions = cluster(FULL)
    us.peers[1] = eu.peers[1] = peer("ap", 3, "refused", 1)
    ap.info.update(crdt_state="lost", crdt_called_lost_by="us,eu")
    ap.peers = [peer("us", 1, "refused", detail="lost"), peer("eu", 2, "refused", detail="lost")]
    assert problems(regions) == [
        (
            "ap was said to be lost by us,eu and takes no writes:"
            " `anabranch export ap FILE` saves what only it holds"
        )
    ]


def test_t6_the_word_of_one_member_that_a_region_is_lost_is_a_problem() -> None:
    """Two regions: only one can say it, so the operator is asked."""
    _, _, ap = regions = cluster(FULL)
    ap.info.update(crdt_called_lost_unconfirmed="us")
    assert problems(regions) == [
        (
            "ap was said to be lost by us alone, and goes on taking writes:"
            " `CRDT.MEMBER LOST ap` in ap confirms it, `CRDT.MEMBER KEEP ap` denies it"
        )
    ]


def test_damage_is_a_problem() -> None:
    us, _, _ = regions = cluster(FULL)
    us.info["crdt_damage"] = "row 7 of the log is damaged"
    (found,) = problems(regions)
    assert found.startswith("us met damage in its database: row 7") and "anabranch check" in found


def test_a_wrong_password_is_no_silence() -> None:
    us = facts("us", 1, {}, "")
    us.error, us.error_state = "us asks for a password", WrongPassword.region_state
    assert us.state == "no access" and problems([us]) == [us.error]


@pytest.mark.parametrize("width", [20, 40, 80, 200, None])
def test_no_value_is_broken_over_lines(width: int | None) -> None:
    """At 80 columns the former table broke vectors and names in the middle."""
    names = [*LONG, *(f"{'x' * (20 + n)}-{n}" for n in range(3, 6))]
    regions = cluster({name: " ".join(names) for name in names}, " ".join(names))
    for region in regions:
        region.vector = {n: 1_000_000_000 + n for n in range(1, 6)}
        region.digest = "0123456789abcdef" * 2
        region.info["anabranch_build"] = "interpreted"
    lines = report(regions, width)
    values = [item for line in lines for item in line.split()]
    for region in regions:
        assert values.count(region.place.name) >= 2 * 4 + 1
        assert region.place.resp in values
    assert values.count("0123456789ab") == 5 and values.count("interpreted") == 5
    for n, name in enumerate(names, 1):
        assert values.count(f"{name}:{1_000_000_000 + n}") == 5
    if width is not None and width >= 80:
        assert max(map(len, lines)) <= width
    if width is None:
        # A program reads a region, a link and a vector as one line each.
        assert len(lines) == 1 + 5 + 1 + 1 + 20 + 1 + 1 + 5


def test_records_replace_a_table_that_is_too_wide() -> None:
    regions = cluster(FULL)
    lines = report(regions, 40)
    assert lines[:3] == ["region:   us", "id:       1", "state:    serving"]


def test_the_time_for_which_a_region_is_behind_is_shown() -> None:
    """The report had counts of effects only: nobody could tell a second from an hour."""
    us, _, _ = regions = cluster(FULL)
    us.info["crdt_link2"] = "name=eu,state=up,behind=3,behind_ms=1549"
    assert "us      eu             up        0    1.5 s" in report(regions, None)
    (link, _) = as_json(regions, [], [])["regions"][0]["links"]
    assert link["from"] == "eu" and link["behind_ms"] == 1549


def test_json_has_the_problems_and_names() -> None:
    """A program that read the JSON had to read the problems from stderr, and got ids for names."""
    regions = cluster(FULL)
    regions[0].vector = {1: 50, 3: 7, 9: 1}
    told = as_json(regions, ["eu is gone"], ["sa"])
    assert told["problems"] == ["eu is gone"] and told["not_asked"] == ["sa"]
    assert told["regions"][0]["vector_by_name"] == {"us": 50, "ap": 7, "9": 1}


def test_members_that_were_not_asked_are_known() -> None:
    """The regions of an old cluster file held the same, and the report said that all was well."""
    us, eu, _ = regions = cluster(FULL)
    assert unasked(regions) == [] and unasked([us, eu]) == ["ap"] and unasked([us]) == ["ap", "eu"]
    for region in (us, eu):
        region.peers = [peer("ap", 3, "none", lost=1)]
    assert unasked([us, eu]) == [], "a lost member is not missing"
    gone(us)
    assert unasked([us]) == [], "no region that answers names the members"


def test_every_region_that_refuses_the_password_is_named() -> None:
    """Only the first one was, so the operator corrected one region, and tried again."""
    errors = [WrongPassword([f"{name} at h:1"], was_given=True) for name in ("us", "eu", "ap")]
    assert str(WrongPassword.of_all(errors)).startswith(
        "us at h:1, eu at h:1 and ap at h:1 refuse this password: give the right one with"
    )
    assert "us at h:1 asks for a password:" in str(WrongPassword(["us at h:1"], was_given=False))
