"""The problems that `anabranch status` lists: each asks for an act of the operator.

No problem is: a region that starts or recovers by itself, a delayed link, a link that a region does
not have as long as effects have another way, and a region that all others call lost.
"""

from __future__ import annotations

from typing import Final

from anabranch.cli.client import PeerFacts
from anabranch.cli.facts import RegionFacts

# Alarms of INFO, with their meaning and the act that ends them.
_ALARMS: Final = {
    "crdt_tombstone_alarm": (
        "keeps many group tombstones, because a member has been away for long:"
        " start that member, or tell the others that it is lost (`anabranch member lost`)"
    ),
    "crdt_idmp_retired_alarm": (
        "uses more than half of crdt-idmp-retired-max:"
        " raise it, or bring back the member that is away"
    ),
}


# A clock that is set back by less than this is no problem.
_KEPT_AHEAD_MS: Final = 60_000


def problems(regions: list[RegionFacts]) -> list[str]:
    """The problems, a line each; empty if there are none."""
    found = [
        region.error for region in regions if region.error and not is_called_lost(region, regions)
    ]
    for region in regions:
        if not region.error:
            found += _own_problems(region, regions)
            found += _link_problems(region, regions)
    found += _unequal(regions)
    if all(not region.error or is_called_lost(region, regions) for region in regions):
        found += _without_way(regions)
    return found


def unasked(regions: list[RegionFacts]) -> list[str]:
    """The names of members, as the regions that answer know them, that are not among `regions`.

    Members that a region calls lost are left out.
    """
    answering = [region for region in regions if not region.error]
    known = {name for region in answering for name in region.members() if name}
    lost = {peer.name for region in answering for peer in region.peers if peer.lost}
    return sorted(known - lost - {region.place.name for region in regions})


def is_called_lost(region: RegionFacts, regions: list[RegionFacts]) -> bool:
    """Whether every region that answers, and at least one, calls this one lost (S13.8)."""
    lost = [
        {peer.region_id for peer in other.peers if peer.lost}
        for other in regions
        if other is not region and not other.error
    ]
    return bool(lost) and all(region.place.region_id in called for called in lost)


def _own_problems(region: RegionFacts, regions: list[RegionFacts]) -> list[str]:
    name, found = region.place.name, []
    if region.divergence:
        found.append(
            f"{name} reports divergence: equal vectors, unequal digests;"
            " `anabranch diff` shows where, `anabranch repair --from` rebuilds one from the other"
        )
    if region.state == "failed":
        reason = region.info.get("crdt_commit_error", "")
        found.append(f"{name} cannot write to its disk, and refuses writes: {reason}")
    problem = region.info.get("crdt_clock_problem", "")
    if problem:
        found.append(
            f"{name} takes no writes, because its clock is {problem}: set the clock right, or say"
            f" that it is (`anabranch clock trust {name}`)"
        )
    kept_ahead_ms = int(region.info.get("crdt_clock_kept_ahead_ms", "0"))
    if kept_ahead_ms > _KEPT_AHEAD_MS and not problem:
        found.append(
            f"IDs and deadlines in {name} go by a time that is {kept_ahead_ms / 1000:.0f} s ahead"
            " of its clock, which was wrong once: `anabranch clock reset`"
        )
    if region.state == "recovery":
        absent = [one for one in region.waited_for() if not _are_linked(region, one, regions)]
        if absent:
            found.append(
                f"{name} is in recovery and takes no writes: it waits for {', '.join(absent)},"
                " to which it has no links in both directions"
            )
    if region.state == "lost":
        found.append(
            f"{name} was said to be lost by {region.info.get('crdt_called_lost_by', 'others')} and"
            f" takes no writes: `anabranch export {name} FILE` saves what only it holds"
        )
    if by := region.info.get("crdt_called_lost_unconfirmed"):
        found.append(
            f"{name} was said to be lost by {by} alone, and goes on taking writes:"
            f" `CRDT.MEMBER LOST {name}` in {name} confirms it, `CRDT.MEMBER KEEP {name}` denies it"
        )
    if region.info.get("crdt_damage"):
        found.append(
            f"{name} met damage in its database: {region.info['crdt_damage']};"
            " stop it when it suits, and run `anabranch check` on its data directory"
        )
    found += [f"{name} {text}" for field, text in _ALARMS.items() if region.info.get(field) == "1"]
    return found


def _are_linked(region: RegionFacts, name: str, regions: list[RegionFacts]) -> bool:
    """Whether the links between a region and the one with that name are up, as far as known."""
    back = [other for other in regions if other.place.name == name and not other.error]
    return region.link_from(name) == "up" and all(
        other.link_from(region.place.name) == "up" for other in back
    )


def _link_problems(region: RegionFacts, regions: list[RegionFacts]) -> list[str]:
    """The links of a region that are not up, or whose peer runs twice.

    A link from a region that does not answer, or that has just started, says nothing new.
    """
    if region.state == "lost":
        return []  # All its links are refused for that reason, which is a problem of its own.
    quiet = {other.place.name for other in regions if other.error or other.state == "starting"}
    doubles = [
        f"{region.place.name} says: {peer.detail}"
        for peer in region.peers
        if peer.link == "up" and peer.detail
    ]
    return doubles + [
        f"{region.place.name} receives nothing from {peer.name}: link {peer.link}"
        f"{': ' + peer.detail if peer.detail else ''}{_advice(region, peer)}"
        for peer in region.peers
        if peer.link not in ("up", "none")
        and not peer.lost
        and not (peer.link == "connecting" and peer.name in quiet)
    ]


def _advice(region: RegionFacts, peer: PeerFacts) -> str:
    if peer.link != "down":
        return ""
    return f"; `anabranch link heal {region.place.name} {peer.name}` opens it"


def _unequal(regions: list[RegionFacts]) -> list[str]:
    # While commits fail, a region tells no digest.
    told = [region for region in regions if region.digest]
    return [
        f"{one.place.name} and {other.place.name} have equal vectors and unequal digests"
        for n, one in enumerate(told)
        for other in told[n + 1 :]
        if one.vector == other.vector and one.digest != other.digest
    ]


def _without_way(regions: list[RegionFacts]) -> list[str]:
    """The regions that no chain of links leads to from another one.

    Nothing is said unless all members are among `regions`, because links of others are not known.
    """
    answering = {region.place.name: region for region in regions if not region.error}
    members = {name for region in answering.values() for name in region.members() if name} - {
        peer.name for region in answering.values() for peer in region.peers if peer.lost
    }
    if members != answering.keys():
        return []
    sources = {
        name: {peer.name for peer in region.peers if peer.link != "none"}
        for name, region in answering.items()
    }
    found = []
    for name in answering:
        reached, fresh = {name}, {name}
        while fresh:
            fresh = {source for one in fresh for source in sources.get(one, set())} - reached
            reached |= fresh
        missing = [other for other in answering if other not in reached]
        if missing:
            found.append(
                f"{name} can never receive what is written in {', '.join(missing)}:"
                " no chain of links (--peer) leads there"
            )
    return found
