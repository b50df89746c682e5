"""What one region's groups have still to do with, as far as it is certain: what a trim with ACKED must leave (S5.3).

Two certainties, both on the safe side. An entry may have been given here only if some reply handed its ID out, or somebody announced it as
acknowledged, or the group's floor was moved here by hand. And it is surely pending here if this process handed it out, nobody here has
acknowledged its ID since, no consumer was deleted, nobody announced it, and a create that lived then lives still (S6.5).
"""

from __future__ import annotations

from anabranch.region.engine.replies import ErrorReply, MapReply, Reply
from anabranch.sim.oracle.arguments import Words
from anabranch.sim.oracle.log import Add, Dot
from anabranch.sim.oracle.state import KeyState
from anabranch.sim.oracle.verdicts import Wrong, readable

Group = tuple[bytes, bytes]  # key and name


class Pending:
    """One region's groups. `seen` may hold too much, `surely` too little."""

    def __init__(self) -> None:
        self.seen: dict[Group, set[bytes]] = {}  # IDs that a reply to XREADGROUP has shown
        self.moved: dict[Group, None] = {}  # groups whose floor was moved by hand
        # pending entries → the creates that lived when they were handed out
        self.surely: dict[Group, dict[Dot, list[Dot]]] = {}

    def forget(self) -> None:
        """The process has ended: what was pending may be lost with what was not on its disk (S13.2)."""
        self.surely = {}

    def note(self, words: Words, reply: Reply) -> None:
        """A command has been answered; it is noted at once, in whichever order it will be judged."""
        name = words[0].upper()
        if isinstance(reply, ErrorReply):
            return
        if name == b"XREADGROUP":
            place = next(index for index, word in enumerate(words) if word.upper() == b"GROUP")
            pairs = reply.flat if isinstance(reply, MapReply) else reply
            for pair in pairs if isinstance(pairs, list) else []:
                assert (
                    isinstance(pair, list)
                    and isinstance(pair[0], bytes)
                    and isinstance(pair[1], list)
                )
                seen = self.seen.setdefault((pair[0], words[place + 1]), set())
                seen.update(item[0] for item in pair[1])  # type: ignore[index,misc]
        elif name == b"XGROUP" and words[1].upper() == b"SETID":
            self.moved[(words[2], words[3])] = None
        elif name == b"XCLAIM" and b"LASTID" in [word.upper() for word in words[5:]]:
            self.moved[(words[1], words[2])] = None

    def deliver(self, state: KeyState, group: bytes, entries: Reply) -> None:
        """A command under judgement handed entries out, to be acknowledged."""
        creates = list(state.groups[group])
        surely = self.surely.setdefault((state.key, group), {})
        for item in entries if isinstance(entries, list) else []:
            for place in state.stream:
                if place[3].shown == item:
                    surely[(place[1], place[2])] = creates

    def settle(self, state: KeyState, group: bytes, ids: list[int]) -> None:
        """XACK of these IDs."""
        surely = self.surely.get((state.key, group))
        if surely:
            for one in ids:
                for add in state.with_id(one):
                    surely.pop((add.region, add.counter), None)

    def drop(self, key: bytes, group: bytes) -> None:
        """A consumer was deleted."""
        self.surely.pop((key, group), None)

    def may_be_trimmed(self, state: KeyState, add: Add) -> None:
        """Wrong if some group here has certainly still to do with that entry."""
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
                    f"a trim with ACKED removes {readable(add.shown_id)}, which is pending in {readable(name)}"
                )
            is_above = any(create.is_below(add) for create in creates.values())
            if (
                is_above
                and group not in self.moved
                and add.shown_id not in self.seen.get(group, ())
            ):
                raise Wrong(
                    f"a trim with ACKED removes {readable(add.shown_id)}, which {readable(name)} has not given to anybody"
                )
