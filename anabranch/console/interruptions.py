"""What keeps effects from reaching a region: links that are cut or down, regions that are silent.

A region tells the state of its links and not since when it lasts. So the console remembers when it
first saw a link interrupted. What was so before the console looked has lasted at least as long as
the region has heard nothing new through that link.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

JsonObject = dict[str, Any]
# A page that shows another stream connects anew. So short a time without a look is no gap.
GAP_MS: Final = 3000


class Since(NamedTuple):
    """When an interruption began: `at_ms` (Unix time), or before that unless it is exact."""

    at_ms: int
    is_exact: bool


def is_interrupted(link: JsonObject) -> bool:
    """Whether no effects pass through a link that there should be."""
    return bool(link["cut_by"]) or link["state"] not in ("up", "none")


class Interruptions:
    """The interruptions of a cluster, as far as they were seen. `note` is told of each change."""

    def __init__(self) -> None:
        # For each (sender, receiver), and each (region, ""): None while it is whole.
        self._since: Final[dict[tuple[str, str], Since | None]] = {}
        self._paused_ms: int | None = None

    def pause(self, now_ms: int) -> None:
        """From now on nobody looks at the regions."""
        self._paused_ms = now_ms

    def resume(self, now_ms: int) -> None:
        """Somebody looks again. What broke meanwhile was not seen, and old times are dropped."""
        is_gap = self._paused_ms is None or now_ms - self._paused_ms > GAP_MS
        for at in [at for at, since in self._since.items() if is_gap or since is None]:
            del self._since[at]
        self._paused_ms = None

    def note(self, regions: Iterable[JsonObject], links: Iterable[JsonObject], now_ms: int) -> None:
        """Takes the regions and links of an overview, as they are at `now_ms` (Unix time)."""
        for region in regions:
            self._note((region["name"], ""), bool(region["error"]), 0, now_ms)
        for link in links:
            at = link["sender"], link["receiver"]
            self._note(at, is_interrupted(link), link["behind_ms"], now_ms)

    def _note(self, at: tuple[str, str], is_broken: bool, lasts_ms: int, now_ms: int) -> None:
        if not is_broken:
            self._since[at] = None
        elif self._since.get(at) is None:
            was_whole = at in self._since
            self._since[at] = Since(now_ms if was_whole else now_ms - lasts_ms, was_whole)

    def facts(
        self, regions: list[JsonObject], links: list[JsonObject], now_ms: int
    ) -> JsonObject | None:
        """What the page says of the interruptions; None if there are none.

        `sides` are the groups of regions that reach each other, in both directions and over other
        regions, too. A region that does not answer is in none of them. `links` are the interrupted
        directions between regions that answer.
        """
        down = [region["name"] for region in regions if region["error"]]
        up = [region["name"] for region in regions if not region["error"]]
        between = [link for link in links if link["sender"] in up and link["receiver"] in up]
        broken = [link for link in between if is_interrupted(link)]
        if not down and not broken:
            return None
        # A region that was silent before the console looked: its receivers know since when.
        missed = [link for link in links if link["sender"] in down and is_interrupted(link)]
        places = [(name, "") for name in down]
        places += [(link["sender"], link["receiver"]) for link in [*broken, *missed]]
        known = [since for at in places if (since := self._since.get(at)) is not None]
        since = min(known, default=Since(now_ms, False))
        return {
            "down": down,
            "links": [[link["sender"], link["receiver"], bool(link["cut_by"])] for link in broken],
            "sides": sides(up, between),
            "since_ms": since.at_ms,
            "is_exact": since.is_exact,
            "lasts_s": max(now_ms - since.at_ms, 0) // 1000,
        }


def sides(names: list[str], links: list[JsonObject]) -> list[list[str]]:
    """The groups of regions that reach each other in both directions, in the order of `names`."""
    reached = {name: {name} for name in names}
    passing = [
        (link["sender"], link["receiver"])
        for link in links
        if link["state"] == "up" and not is_interrupted(link)
    ]
    for _ in names:
        for sender, receiver in passing:
            reached[receiver] |= reached[sender]
    made: list[list[str]] = []
    for name in names:
        mine = [one for one in names if one in reached[name] and name in reached[one]]
        if mine not in made:
            made.append(mine)
    return made
