"""The table of members: the regions of the cluster (S1.1), and the lost ones (S13.8)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Optional


class Member:
    """A region of the cluster. Rules about "every member" leave out a `lost` member (S13.8)."""

    def __init__(self, region_id: int, name: str, lost: bool = False) -> None:
        self.region_id: Final = region_id
        self.name: Final = name
        self.lost = lost


def ids_in_row(row: bytes) -> list[int]:
    """The region_ids in a meta row such as ``1,3``. Raises ValueError if they cannot be read."""
    return [int(region_id) for region_id in row.split(b",") if region_id]


class Members:
    """The table of members, equal in all regions. `region_id` and `name` are this region's."""

    def __init__(self, cluster: str, region_id: int, name: str, members: list[Member]) -> None:
        self.cluster: Final = cluster
        self.region_id: Final = region_id
        self.name: Final = name
        self.by_id: dict[int, Member] = {member.region_id: member for member in members}

    def others(self) -> list[int]:
        """The ids of all members except this region and lost members."""
        return [
            member.region_id
            for member in self.by_id.values()
            if member.region_id != self.region_id and not member.lost
        ]

    def stands_in_for(self, region_id: int) -> bool:
        """Whether this region does what a region owes: it is its own, or that of a lost member.

        For a lost member the one with the lowest id does it (S9.2). While not every region calls
        it lost, two may.
        """
        member = self.by_id.get(region_id)
        if region_id == self.region_id or member is None or not member.lost:
            return region_id == self.region_id
        return self.region_id == min([self.region_id, *self.others()])

    def lost(self) -> list[int]:
        """The ids of the lost members."""
        return [member.region_id for member in self.by_id.values() if member.lost]

    def all_lost(self, region_ids: Iterable[int]) -> bool:
        """Whether these are lost members."""
        return all(one in self.by_id and self.by_id[one].lost for one in region_ids)

    def named(self, name: str) -> Optional[Member]:
        """The member with that name; None if there is none."""
        for member in self.by_id.values():
            if member.name == name:
                return member
        return None

    def names_of(self, region_ids: Iterable[int]) -> str:
        """The names of these members for a message, such as ``eu, ap``, by region_id."""
        return ", ".join(self.name_of(region_id) for region_id in sorted(region_ids))

    def name_of(self, region_id: int) -> str:
        """The member's name, or the id as text if it is no member."""
        member = self.by_id.get(region_id)
        return str(region_id) if member is None else member.name
