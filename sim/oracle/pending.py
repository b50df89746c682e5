"""The entries that a trim with ACKED must leave in one region, as far as they are certain (S5.3).

The region's group state is not visible from outside, so two estimates on the safe side are kept:

- `seen` may hold too many entries. An entry may have been given here only if a reply showed its
  ID, a region announced it as acknowledged, or a command moved the group's floor here.
- `surely` may hold too few. An entry is certainly pending here if this process delivered it, no
  command here has acknowledged its ID since, no consumer was deleted, no region announced it,
  and a create that was live at the delivery is live still (S6.5).
"""

from __future__ import annotations

from anabranch.region.engine.replies import ErrorReply, Reply
from anabranch.sim.oracle.arguments import Words
from anabranch.sim.oracle.log import Add, Dot
from anabranch.sim.oracle.state import KeyState
from anabranch.sim.oracle.verdicts import Wrong, readable
from anabranch.sim.replies import entries_by_key

Group = tuple[bytes, bytes]  # (key, group name)


class Pending:
    """The groups of one region. `seen` may hold too many entries, `surely` too few."""

    def __init__(self) -> None:
        # The IDs that replies of XREADGROUP have shown.
        self.seen: dict[Group, set[bytes]] = {}
        # Groups whose floor a command moved.
        self.moved: dict[Group, None] = {}
        # Pending entries → the creates that were live at the delivery.
        self.surely: dict[Group, dict[Dot, list[Dot]]] = {}

    def forget(self) -> None:
        """The process has ended: deliveries that were not on its disk may be lost (S13.2)."""
        self.surely = {}

    def note(self, words: Words, reply: Reply) -> None:
        """A command has been answered; called at the reply, before the command is judged."""
        name = words[0].upper()
        if isinstance(reply, ErrorReply):
            return
        if name == b"XREADGROUP":
            place = next(index for index, word in enumerate(words) if word.upper() == b"GROUP")
            for key, entries in entries_by_key(reply):
                seen = self.seen.setdefault((key, words[place + 1]), set())
                seen.update(item[0] for item in entries)  # type: ignore[index,misc]
        elif name == b"XGROUP" and words[1].upper() == b"SETID":
            self.moved[(words[2], words[3])] = None
        elif name == b"XCLAIM" and b"LASTID" in [word.upper() for word in words[5:]]:
            self.moved[(words[1], words[2])] = None

    def deliver(self, state: KeyState, group: bytes, entries: Reply) -> None:
        """A delivery without NOACK, called when the command is judged."""
        creates = list(state.groups[group])
        surely = self.surely.setdefault((state.key, group), {})
        for item in entries if isinstance(entries, list) else []:
            for place in state.stream:
                if place[3].shown == item:
                    surely[(place[1], place[2])] = creates

    def settle(self, state: KeyState, group: bytes, ids: list[int]) -> None:
        """An XACK of these IDs, called when the command is judged."""
        surely = self.surely.get((state.key, group))
        if surely:
            for one in ids:
                for add in state.with_id(one):
                    surely.pop((add.region, add.counter), None)

    def drop(self, key: bytes, group: bytes) -> None:
        """A consumer was deleted: its group's entries are not certainly pending any more."""
        self.surely.pop((key, group), None)

    def may_be_trimmed(self, state: KeyState, add: Add) -> None:
        """Raises Wrong if the entry is certainly pending, or not given, in a group here."""
        for name, creates in state.groups.items():
            announced = any(
                region == add.region and start < add.counter <= end
                for region, start, end in state.announced.get(name, ())
            )
            if announced:
                continue
            group = (state.key, name)
            delivered = self.surely.get(group, {}).get((add.region, add.counter))
            if delivered is not None and any(dot in creates for dot in delivered):
                raise Wrong(
                    f"a trim with ACKED removes {readable(add.shown_id)}, "
                    f"which is pending in {readable(name)}"
                )
            is_above = any(create.is_below(add) for create in creates.values())
            if (
                is_above
                and group not in self.moved
                and add.shown_id not in self.seen.get(group, ())
            ):
                raise Wrong(
                    f"a trim with ACKED removes {readable(add.shown_id)}, "
                    f"which {readable(name)} has not given"
                )
