"""Who says that a region is lost (S13.8).

The word of one member may be false: it may come from a stranger, or from a member that is broken.
So a region is lost when two say so. One of them may be the region's own operator, who can also take
back all words.
"""

from __future__ import annotations

from typing import Final

_NEEDED: Final = 2


class LostWords:
    """`by`: the members that call this region lost, and the region itself for its operator."""

    def __init__(self, region_id: int) -> None:
        self.by: list[int] = []
        self._region_id: Final = region_id

    @property
    def are_enough(self) -> bool:
        """Whether the region is lost."""
        return len(self.by) >= _NEEDED

    def add(self, by: list[int]) -> bool:
        """Adds words, and returns whether one is new."""
        news = [one for one in by if one not in self.by]
        self.by += news
        return bool(news)

    def remove(self, member: int) -> bool:
        """This member does not call the region lost: it sends effects. Returns whether it did.

        A region that is lost stays lost: the words of others may be true.
        """
        if self.are_enough or member not in self.by:
            return False
        self.by.remove(member)
        return True

    def confirmed(self) -> list[int]:
        """The members that call the region lost, by region_id, if it is lost."""
        return self._members() if self.are_enough else []

    def unconfirmed(self) -> list[int]:
        """The member whose word needs another one, if there is one."""
        return [] if self.are_enough else self._members()

    def _members(self) -> list[int]:
        return sorted(one for one in self.by if one != self._region_id)
