"""Invariant 8: an entry that XACK acknowledged is not delivered or pending in that region again.

Exceptions: SETID went back, XCLAIM FORCE asked for the entry, the group was created anew, or a
crash lost the acknowledgement (S7.4, S8.1, S13.2). An acknowledgement that a crash or a restored
backup may have lost does not count.

Judged from replies alone: entries are known by ID and token, as clients know them. `group_reads`
judges the same rule by definition.
"""

from __future__ import annotations

from typing import Final, Optional

from anabranch.crdt.effects import Delete, DestroyGroup, Flush, RemoveObserved
from anabranch.region.engine.replies import ErrorReply, Reply
from anabranch.sim.checkers.delivery_arguments import ReadRequest, readable
from anabranch.sim.checkers.delivery_tape import Item, Step, TapeChecker
from anabranch.sim.history import Operation, Setup, Vector, Words
from anabranch.sim.oracle.arguments import entry_id, name_of
from anabranch.sim.oracle.log import Add
from anabranch.sim.replies import entries_by_key

Name = tuple[bytes, bytes]
Token = bytes

_READS: Final = (b"XREADGROUP", b"XCLAIM", b"XAUTOCLAIM")


class Seen:
    """The entries of one group in one region that clients saw, as ID → tokens.

    `held`: delivered or claimed. `given`: delivered by `>`. `acknowledged`: by XACK.
    """

    __slots__ = ("acknowledged", "given", "held")

    def __init__(self) -> None:
        self.given: dict[bytes, dict[Token, None]] = {}
        self.held: dict[bytes, dict[Token, None]] = {}
        self.acknowledged: dict[bytes, dict[Token, None]] = {}


class Redelivery(TapeChecker):
    """The judge."""

    name = "redelivery"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.seen: dict[int, dict[Name, Seen]] = {}
        self.vectors: dict[int, Vector] = {}

    # -- the tape

    def happened(self, region: int, item: Item) -> None:
        ended = self._advance(region, item.after)
        event = item.event
        if not isinstance(event, Operation):
            return
        if not event.queued:
            self._operate(event, event.argv, event.reply)
        elif isinstance(event.reply, list):
            for words, reply in zip(event.queued, event.reply, strict=True):
                if ended and name_of(words) in _READS:
                    # The read may have come before or after the command that ended the group.
                    continue
                self._operate(event, words, reply)
            if ended:
                self._end(region, ended)

    def doubted(self, region: int, items: list[Item]) -> None:
        """Forgets deliveries and acknowledgements of these steps, which the crash may have lost.

        A SETID or a forced claim among them may have taken place, so entries may come again.
        """
        for item in items:
            event = item.event
            if isinstance(event, Operation):
                for words in event.commands():
                    name = name_of(words)
                    if name in (
                        b"XREADGROUP",
                        b"XACK",
                        b"XCLAIM",
                        b"XAUTOCLAIM",
                        b"XGROUP DELCONSUMER",
                    ):
                        for seen in self._of(region, words):
                            seen.held.clear()
                    if name == b"XGROUP SETID" or (name == b"XCLAIM" and b"FORCE" in words):
                        for seen in self._of(region, words):
                            seen.given.clear()
                            seen.acknowledged.clear()

    def restarted(self, region: int, past: list[Step]) -> None:
        self.seen.pop(region, None)
        self.vectors[region] = dict(self._vector_of(past))

    def bewildered(self, region: int, vector: Vector) -> None:
        self.seen.pop(region, None)
        self.vectors[region] = dict(vector)

    def _advance(self, region: int, after: Vector) -> list[Optional[Name]]:
        """Forgets groups that the effects may have ended.

        Returns them: (key, group), (key, b"") for all groups of a key, None for all groups.
        """
        before = self.vectors.get(region, {})
        if before == after:
            return []
        self.vectors[region] = after
        facts = self.facts.between(before, after)
        if facts is None:  # some of the effects were never reported
            self.seen.pop(region, None)
            return []
        ended: list[Optional[Name]] = []
        for fact in facts:
            effect = fact[3]
            if isinstance(effect, Flush):
                ended.append(None)
            elif isinstance(effect, (Delete, RemoveObserved)):
                ended.append((effect.key, b""))
            elif isinstance(effect, DestroyGroup):
                ended.append((effect.key, effect.group))
        self._end(region, ended)
        return ended

    def _end(self, region: int, ended: list[Optional[Name]]) -> None:
        groups = self.seen.get(region)
        for one in ended if groups else ():
            assert groups is not None
            for name in list(groups):
                if one is None or (name[0] == one[0] and one[1] in (b"", name[1])):
                    del groups[name]

    def _of(self, region: int, words: Words) -> list[Seen]:
        """The record of each group that a command names."""
        name = name_of(words)
        if name == b"XREADGROUP":
            request = ReadRequest(words)
            names = [(key, request.group) for key in request.keys]
        else:
            names = [(words[2], words[3]) if b" " in name else (words[1], words[2])]
        groups = self.seen.setdefault(region, {})
        return [groups.setdefault(one, Seen()) for one in names]

    # -- commands

    def _operate(self, operation: Operation, words: Words, reply: Reply) -> None:
        if isinstance(reply, ErrorReply):
            return
        name = name_of(words)
        if name == b"XREADGROUP":
            self._read(operation, words, reply)
        elif name == b"XACK":
            self._acknowledge(self._of(operation.region, words)[0], words, reply)
        elif name == b"XCLAIM":
            seen = self._of(operation.region, words)[0]
            if any(word.upper() == b"FORCE" for word in words[6:]):
                self._claim_by_force(seen, reply)
            self._shown(operation, words, words[1], seen, reply)
        elif name == b"XAUTOCLAIM" and isinstance(reply, list):
            self._shown(operation, words, words[1], self._of(operation.region, words)[0], reply[1])
        elif name == b"XPENDING" and len(words) > 3:
            self._pending(operation, words, self._of(operation.region, words)[0], reply)
        elif name == b"XGROUP SETID" and words[4] != b"$":
            self._rewind(self._of(operation.region, words)[0], entry_id(words[4]))

    def _read(self, operation: Operation, words: Words, reply: Reply) -> None:
        request = ReadRequest(words)
        groups = self.seen.setdefault(operation.region, {})
        for key, entries in entries_by_key(reply):
            seen = groups.setdefault((key, request.group), Seen())
            self._shown(operation, words, key, seen, entries)
            if request.ids[request.keys.index(key)] != b">":
                continue
            for text, token in _tokens(entries):
                seen.given.setdefault(text, {})[token] = None
                if request.no_ack:  # never pending, so no XACK counts it
                    seen.held[text].pop(token, None)

    def _shown(
        self, operation: Operation, words: Words, key: bytes, seen: Seen, entries: Reply
    ) -> None:
        """Entries that were delivered, claimed, or shown as pending.

        RENAMEs in two regions may each bring a copy of an entry (S10.1); copies are not judged.
        """
        for text, token in _tokens(entries):
            if token in seen.acknowledged.get(text, ()):
                if sum(add.token() == token for add in self._added(key, text)) <= 1:
                    again = (
                        f"{text.decode()} (token {token.decode()}) "
                        "came again after it was acknowledged here"
                    )
                    self._fail(operation, words, again)
                del seen.acknowledged[text][token]
            seen.held.setdefault(text, {})[token] = None

    def _added(self, key: bytes, text: bytes) -> list[Add]:
        """All adds ever made with that ID under a key."""
        one = entry_id(text)
        return [
            add
            for log in self.facts.adds.get(key, {}).values()
            for add in log
            if add.entry_id == one
        ]

    def _acknowledge(self, seen: Seen, words: Words, reply: Reply) -> None:
        """An XACK. The acknowledged entries are certain only if their number is that of `held`."""
        texts = list(
            dict.fromkeys(
                b"%d-%d" % (one >> 64, one & 0xFFFFFFFFFFFFFFFF) for one in map(entry_id, words[3:])
            )
        )
        held = [(text, token) for text in texts for token in seen.held.pop(text, {})]
        if reply == len(held):
            for text, token in held:
                # `>` still delivers an entry that only XCLAIM FORCE made pending (S7.4).
                if token in seen.given.get(text, ()):
                    seen.acknowledged.setdefault(text, {})[token] = None

    def _claim_by_force(self, seen: Seen, reply: Reply) -> None:
        """XCLAIM FORCE made these entries pending again, by request (S7.4)."""
        for item in reply if isinstance(reply, list) else ():
            text = item[0] if isinstance(item, list) else item
            if isinstance(text, bytes):
                seen.acknowledged.pop(text, None)

    def _pending(self, operation: Operation, words: Words, seen: Seen, reply: Reply) -> None:
        """XPENDING must not show an ID whose adds are all acknowledged."""
        for item in reply if isinstance(reply, list) else ():
            assert isinstance(item, list)
            text = item[0]
            if isinstance(text, bytes) and seen.acknowledged.get(text) and not seen.held.get(text):
                if len(self._added(words[1], text)) == len(seen.acknowledged[text]):
                    self._fail(
                        operation,
                        words,
                        f"{text.decode()} is pending after it was acknowledged here",
                    )

    def _rewind(self, seen: Seen, floor: int) -> None:
        """SETID: the entries above the floor are delivered again (S7.4)."""
        for text in [text for text in seen.given if entry_id(text) > floor]:
            del seen.given[text]
            seen.acknowledged.pop(text, None)

    def _fail(self, operation: Operation, words: Words, text: str) -> None:
        self.fail(
            operation.at_ms,
            operation.region,
            f"{text} (operation {operation.number}: {readable(words)})",
        )


def _tokens(entries: Reply) -> list[tuple[bytes, Token]]:
    """(ID as shown, token) of each entry of a reply that has its fields."""
    found: list[tuple[bytes, Token]] = []
    for item in entries if isinstance(entries, list) else ():
        if (
            isinstance(item, list)
            and len(item) == 2
            and isinstance(item[0], bytes)
            and isinstance(item[1], list)
        ):
            fields = item[1]
            for index in range(0, len(fields), 2):
                token = fields[index + 1]
                if fields[index] == b"t" and isinstance(token, bytes):
                    found.append((item[0], token))
                    break
    return found
