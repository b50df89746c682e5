"""`anabranch status`: regions, links, vectors, lag, digests.

The report has a width only in a terminal. No value is broken over two lines: a table that is too
wide for the terminal becomes a list with a line for each value.
"""

from __future__ import annotations

import sys
from typing import Any

from anabranch.answers import members_of
from anabranch.cli.addresses import AtOption, ClusterOption, PasswordOption, find
from anabranch.cli.errors import ProblemsTold, WrongPassword
from anabranch.cli.facts import RegionFacts, ask_all, lack
from anabranch.cli.printing import JsonOption, print_json
from anabranch.cli.problems import problems, unasked
from anabranch.cli.terminal import seconds, table, width, wrapped
from anabranch.plural import counted

_DIGEST_DIGITS = 12


def report(regions: list[RegionFacts], width: int | None) -> list[str]:
    """The lines that show the regions, for a terminal of `width` columns; None: of any width."""
    answering = [region for region in regions if not region.error]
    sections = [_regions(regions, width)]
    links = _links(regions, width)
    if links:
        sections.append(links)
    if answering:
        sections.append(
            ["effects on disk, by the region that issued them", *_vectors(answering, width)]
        )
    return "\n\n".join("\n".join(section) for section in sections).split("\n")


def _regions(regions: list[RegionFacts], width: int | None) -> list[str]:
    heads = ["region", "id", "state", "clients", "build", "digest"]
    rows = [
        [
            region.place.name,
            str(region.place.region_id or "?"),
            region.state,
            region.place.resp,
            region.info.get("anabranch_build", ""),
            region.digest[:_DIGEST_DIGITS],
        ]
        for region in regions
    ]
    return table(heads, rows, frozenset({1}), width)


def _links(regions: list[RegionFacts], width: int | None) -> list[str]:
    # Of a region that nobody could name, no link is known.
    regions = [region for region in regions if region.place.region_id]
    rows = [
        [
            receiver.place.name,
            sender.place.name,
            shown_link(receiver, sender),
            str(lack(receiver, sender, regions)),
            _shown_ms(receiver.behind_ms(sender.place.name)),
        ]
        for receiver in regions
        for sender in regions
        if receiver is not sender and not (receiver.error and sender.error)
    ]
    rows += [
        [
            receiver.place.name,
            peer.name,
            _state_of(receiver, peer.name),
            "unknown",
            _shown_ms(receiver.behind_ms(peer.name)),
        ]
        for receiver in regions
        for peer in receiver.peers
        if peer.name not in {region.place.name for region in regions}
    ]
    if not rows:
        return []
    heads = ["region", "receives from", "link", "lacks", "for"]
    return table(heads, rows, frozenset({3, 4}), width)


def _shown_ms(duration_ms: int | None) -> str:
    return "unknown" if duration_ms is None else seconds(str(duration_ms))


def shown_link(receiver: RegionFacts, sender: RegionFacts) -> str:
    """The link by which one region receives from another, in a few words."""
    return "unknown" if receiver.error else _state_of(receiver, sender.place.name)


def _state_of(receiver: RegionFacts, name: str) -> str:
    peer = receiver.peer(name)
    if peer is None or (peer.link == "none" and not peer.lost):
        return "not dialled"
    if peer.lost:
        return "lost"
    link = f"{peer.link} (tls)" if peer.link == "up" and peer.has_tls else peer.link
    return f"{link}, {peer.delay_ms} ms late" if peer.delay_ms else link


def _vectors(regions: list[RegionFacts], width: int | None) -> list[str]:
    """The vector of each region. Lines end between two regions of the vector."""
    names = {region.place.region_id: region.place.name for region in regions}
    for region in regions:
        names.update(members_of(region.info))
    indent = max(len(region.place.name) for region in regions) + 2
    made = []
    for region in regions:
        line = region.place.name.ljust(indent)
        items = [f"{names.get(n, n)}:{counter}" for n, counter in sorted(region.vector.items())]
        for item in items or ["nothing"]:
            if width is not None and len(line) > indent and len(line) + len(item) > width:
                made.append(line.rstrip())
                line = " " * indent
            line += item + "  "
        made.append(line.rstrip())
    return made


def as_json(regions: list[RegionFacts], wrong: list[str], not_asked: list[str]) -> dict[str, Any]:
    """The facts, the problems and the members that were not asked, as JSON for programs."""
    return {"regions": _regions_as_json(regions), "problems": wrong, "not_asked": not_asked}


def _regions_as_json(regions: list[RegionFacts]) -> list[dict[str, Any]]:
    names = {region.place.region_id: region.place.name for region in regions}
    for region in regions:
        names.update(members_of(region.info))
    return [
        {
            "name": region.place.name,
            "region_id": region.place.region_id,
            "resp": region.place.resp,
            "state": region.state,
            "error": region.error or None,
            "vector": {str(k): v for k, v in region.vector.items()},
            "vector_by_name": {names.get(k, str(k)): v for k, v in region.vector.items()},
            "digest": region.digest or None,
            "links": [_link_as_json(region, peer.name, regions) for peer in region.peers],
            "divergence": region.divergence,
        }
        for region in regions
    ]


def _link_as_json(region: RegionFacts, name: str, regions: list[RegionFacts]) -> dict[str, Any]:
    peer = region.peer(name)
    assert peer is not None
    sender = next((other for other in regions if other.place.name == name), None)
    return {
        "from": name,
        "state": peer.link,
        "detail": peer.detail,
        "tls": peer.has_tls,
        "delay_ms": peer.delay_ms,
        "lost": peer.lost,
        "lag": peer.lag,
        "lacks": lack(region, sender, regions).count if sender is not None else None,
        "behind_ms": region.behind_ms(name),
    }


def status(
    json: JsonOption = False,
    cluster: ClusterOption = None,
    at: AtOption = None,
    password: PasswordOption = None,
) -> None:
    """Show regions, links, vectors, lag and digests, and list the problems.

    "lacks" counts the effects of the region in "receives from" that the region in "region" does not
    have on its disk, "for" the time for which it has been behind. A problem is something that an
    operator must act on. Problems are on stderr.

    Exits with 0 if there is no problem, with 1 if there are problems (a region that does not answer
    is one, and so is a member that the cluster file does not name) or no cluster is found, and with
    2 if an argument is wrong. With --at, members whose address was not given are named, and are no
    problem.
    """
    regions = ask_all(find(cluster, at, password, some_down=True), password)
    refused = [region.refused for region in regions if region.refused is not None]
    if len(refused) == len(regions):
        raise WrongPassword.of_all(refused)
    not_asked = unasked(regions)
    wrong = problems(regions)
    if not at:
        wrong += [
            f"{name} is a member, and the cluster file does not name it: add its address, or tell"
            " the others that it is lost (`anabranch member lost`)"
            for name in not_asked
        ]
    if json:
        print_json(as_json(regions, wrong, not_asked))
    else:
        print("\n".join(report(regions, width())))
        if at and not_asked:
            told = f"not asked: {', '.join(not_asked)}; give their addresses with --at, too"
            print("\n".join(["", *wrapped([told], width())]))
    sys.stdout.flush()
    if wrong:
        raise ProblemsTold("\n  ".join([f"{counted(len(wrong), 'problem')}:", *wrong]))
    if not json and len(regions) > 1:
        answering = [region for region in regions if not region.error]
        equal = len({region.digest for region in answering}) == 1
        which = "all regions" if len(answering) == len(regions) else "all regions that answer"
        print(
            f"\n{which} hold the same"
            if equal
            else "\nno problem; the regions do not hold the same yet, effects are under way"
        )
