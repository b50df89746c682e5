"""The rules that commands and their replies show."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from anabranch.crdt import effects as fx
from anabranch.region.engine.replies import ErrorReply, MapReply, NullArray, Reply, SimpleString
from anabranch.sim.arguments import STRIDE, NotUnderstood, add_request
from anabranch.sim.history import BLOCKING, Ask, Operation, Vector, Words
from anabranch.sim.logged import Add, Logged
from anabranch.sim.replies import entries_by_key
from anabranch.sim.rules import causal_past as p
from anabranch.sim.rules.causal_past import CausalPast
from anabranch.sim.rules.conflicts import Count, Rename

Group = tuple[int, bytes, bytes]
"""(region_id, key, group name): one group's local state in one region."""

_OF_DISK: Final = (b"CRDT.VECTOR", b"CRDT.DIGEST")
_ERRORS: Final = (
    ("ERR full stream IDs", "rule:S4.2"),
    ("ERR The ID specified in XADD", "rule:S4.3"),
    ("ERR The stream has exhausted", "rule:S4.3"),
    ("ERR unknown command", "rule:S10.8"),
    ("READONLY", "rule:S13.8"),
    ("ERR the transaction is larger", "rule:S14"),
    ("ERR the stream has", "rule:S14"),
)


class Delivered:
    """The entries that a group delivered in one region, as entry ID → the region's vector then."""

    def __init__(self) -> None:
        self.all: dict[int, Vector] = {}
        # Of these, the entries that no XACK in this region named.
        self.pending: dict[int, Vector] = {}
        # The highest ID delivered since the last SETID, CREATE, DESTROY or start.
        self.highest = 0
        # The IDs that were delivered before the last SETID.
        self.set_back: frozenset[int] = frozenset()
        # How many XACKs came since the last announcement.
        self.acks = 0
        # Whether a NOACK read came since the last announcement.
        self.without_ack = False


class Commands:
    """Watches operations in the order of their execution and counts the rules they show."""

    def __init__(self, ask: Ask, count: Count) -> None:
        self.ask = ask
        self.count = count
        self.renames: list[Rename] = []
        self.groups: dict[Group, Delivered] = {}
        # (key, IDs) of reads of pending entries (S7.5).
        self.histories: list[tuple[bytes, list[int]]] = []
        # region_id → the start of its process in which its ID mode was changed.
        self._modes: dict[int, int] = {}
        # region_id → the highest stable time that it told.
        self._stable_ms: dict[int, int] = {}
        # Number of a WATCH → the region's vector then.
        self._watches: dict[int, Vector] = {}

    # -- steps

    def executed(self, operation: Operation) -> None:
        """A region has computed a reply."""
        argv, reply = operation.argv, operation.reply
        name = argv[0].upper()
        if operation.waited and name not in BLOCKING:
            self.count("rule:S13.6")
        if name == b"EXEC":
            self._exec(operation)
        elif isinstance(reply, ErrorReply):
            self._refused(operation, reply.message)
        else:
            judge = _JUDGES.get(name)
            if judge is not None:
                judge(self, operation, argv, reply)

    def answered(self, operation: Operation) -> None:
        """The client has the reply."""
        if operation.answered_ms != operation.at_ms:
            if operation.argv[0].upper() in _OF_DISK:
                self.count("rule:S2.4")
            elif operation.always and not operation.waited:
                self.count("rule:S13.2")

    def began(self, region: int) -> None:
        """A process has started: the group state of its last run may be lost."""
        for place, delivered in self.groups.items():
            if place[0] == region:
                delivered.highest = 0
                delivered.set_back = frozenset()
        self._modes.pop(region, None)

    def announced(self, region: int, effect: fx.Acknowledge) -> None:
        """An announcement is on its region's disk."""
        delivered = self.groups.get((region, effect.key, effect.group))
        if delivered is not None:
            if delivered.acks > 1:
                self.count("rule:S8.1")
            if delivered.without_ack:
                self.count("rule:S8.3")
            delivered.acks = 0
            delivered.without_ack = False

    # -- by command

    def _refused(self, operation: Operation, message: str) -> None:
        for beginning, name in _ERRORS:
            if message.startswith(beginning):
                self.count(name)
        if message.startswith("ERR full stream IDs"):
            self._explicit_id(operation)
        elif "bytes wait for its disk" in message:
            self.count("rule:S14")

    def _exec(self, operation: Operation) -> None:
        reply = operation.reply
        if isinstance(reply, NullArray):
            self._watched(operation)
        elif isinstance(reply, list):
            first, last = operation.effects()
            if last > first and not operation.waited:
                self.count("rule:S1.2")

    def _watch(self, operation: Operation, argv: Words, reply: Reply) -> None:
        assert operation.after is not None
        self._watches[operation.number] = operation.after

    def _watched(self, operation: Operation) -> None:
        """EXEC did not run, and only effects of other regions were applied since WATCH (S10.7)."""
        vector = (
            self._watches.get(operation.watched[0], operation.before)
            if operation.watched
            else operation.before
        )
        own = operation.region
        if vector.get(own, 0) == operation.before.get(own, 0) and vector != operation.before:
            self.count("rule:S10.7")

    def _add(self, operation: Operation, argv: Words, reply: Reply) -> None:
        if not isinstance(reply, bytes):
            return
        ms, _, seq = reply.partition(b"-")
        if argv[2] == b"*":
            self._generated(operation, int(ms), int(seq))
            return
        try:
            request = add_request(argv)
        except NotUnderstood:
            return
        if request.kind == "*":
            self._generated(operation, int(ms), int(seq))
        elif request.kind == "ms-seq" or (request.kind == "ms" and seq == b"0"):
            self.count("rule:S4.2")
        if request.kind != "*":
            self._explicit_id(operation)
        if request.pid and operation.effects()[0] > operation.effects()[1]:
            if int(seq) % STRIDE != operation.region:
                self.count("rule:S9.1")
            if b"IDMPAUTO" in argv:
                self.count("rule:S9.5")

    def _generated(self, operation: Operation, ms: int, seq: int) -> None:
        if ms > operation.clock_ms or seq > STRIDE:
            self.count("rule:S4.1")

    def _explicit_id(self, operation: Operation) -> None:
        """A mode that was changed while the region ran took or refused an ID given by a client."""
        if self._modes.get(operation.region) == operation.start:
            self.count("rule:S4.4")

    def _configure(self, operation: Operation, argv: Words, reply: Reply) -> None:
        if argv[1].upper() == b"SET" and b"crdt-xadd-id-uniqueness-mode" in argv:
            self._modes[operation.region] = operation.start

    def _trim(self, operation: Operation, argv: Words, reply: Reply) -> None:
        """Counts a trim with ACKED that left more entries than its threshold (S5.3)."""
        if b"ACKED" not in argv or b"~" in argv or b"LIMIT" in argv or argv[2] != b"MAXLEN":
            return
        threshold = argv[4] if argv[3] == b"=" else argv[3]
        length = self.ask(operation.region, (b"XLEN", argv[1]))
        if isinstance(length, int) and length > int(threshold):
            self.count("rule:S5.3")

    def _rename(self, operation: Operation, argv: Words, reply: Reply) -> None:
        first, last = operation.effects()
        if argv[1] != argv[2] and last > first and not operation.waited:
            self.renames.append(
                Rename((operation.region, first), argv[1], argv[2], last - first + 1)
            )

    # -- reading

    def _range(self, operation: Operation, argv: Words, reply: Reply) -> None:
        if not isinstance(reply, list) or not reply:
            return
        if argv[2][:1] == b"(" or argv[3][:1] == b"(" or b"-" not in argv[2] + argv[3]:
            self.count("rule:S4.5")
        if len(argv) == 6 and len(reply) > int(argv[5]):
            self.count("rule:S7.1")

    def _read(self, operation: Operation, argv: Words, reply: Reply) -> None:
        if argv[1].upper() == b"COUNT":
            for _, ids in entries_of(reply):
                if len(ids) > int(argv[2]):
                    self.count("rule:S7.1")

    def _read_group(self, operation: Operation, argv: Words, reply: Reply) -> None:
        streams = argv.index(b"STREAMS")
        asked = dict(
            zip(
                argv[streams + 1 : (streams + 1 + len(argv)) // 2],
                argv[(streams + 1 + len(argv)) // 2 :],
                strict=True,
            )
        )
        assert operation.after is not None
        for key, ids in entries_of(reply):
            if not ids:
                continue
            if asked[key] != b">":
                self.histories.append((key, ids))
                if argv[4] == b"COUNT" and len(ids) > int(argv[5]):
                    self.count("rule:S7.1")
            else:
                delivered = self._group(operation.region, key, argv[2])
                self._delivered(delivered, ids, operation.after, b"NOACK" in argv[:streams])

    def _delivered(
        self, delivered: Delivered, ids: list[int], vector: Vector, without_ack: bool
    ) -> None:
        if ids[0] < delivered.highest and ids[0] not in delivered.all:
            self.count("rule:S7.3")
        if delivered.set_back and not delivered.set_back.isdisjoint(ids):
            self.count("rule:S7.4")
            delivered.set_back = frozenset()
        delivered.highest = max(delivered.highest, ids[-1])
        for one in ids:
            delivered.all[one] = vector
            if not without_ack:
                delivered.pending[one] = vector
        delivered.without_ack = delivered.without_ack or without_ack

    def _group(self, region: int, key: bytes, group: bytes) -> Delivered:
        place = (region, key, group)
        if place not in self.groups:
            self.groups[place] = Delivered()
        return self.groups[place]

    def _acknowledge(self, operation: Operation, argv: Words, reply: Reply) -> None:
        if isinstance(reply, int) and reply:
            delivered = self._group(operation.region, argv[1], argv[2])
            delivered.acks += 1
            for one in argv[3:]:
                delivered.pending.pop(_id(one), None)

    def _group_command(self, operation: Operation, argv: Words, reply: Reply) -> None:
        if argv[1].upper() in (b"SETID", b"CREATE", b"DESTROY"):
            delivered = self._group(operation.region, argv[2], argv[3])
            delivered.highest = 0
            goes_back = argv[1].upper() == b"SETID" and isinstance(reply, SimpleString)
            delivered.set_back = frozenset(delivered.all) if goes_back else frozenset()

    def _pending(self, operation: Operation, argv: Words, reply: Reply) -> None:
        """XPENDING with a range: the count is the last word, or stands before the consumer."""
        if len(argv) > 5 and isinstance(reply, list):
            count = argv[7 if argv[3] == b"IDLE" else 5]
            if len(reply) > int(count):
                self.count("rule:S7.1")

    def _information(self, operation: Operation, argv: Words, reply: Reply) -> None:
        if argv[1].upper() != b"GROUPS" or not isinstance(reply, list):
            return
        for item in reply:
            flat = item.flat if isinstance(item, MapReply) else item
            assert isinstance(flat, list)
            told = dict(zip(flat[::2], flat[1::2], strict=True))
            if told[b"lag"] and told[b"last-delivered-id"] != b"0-0":
                self.count("rule:S7.6")

    def _stable(self, operation: Operation, argv: Words, reply: Reply) -> None:
        known = self._stable_ms.get(operation.region)
        if isinstance(reply, int):
            self._stable_ms[operation.region] = max(reply, known or 0)
            if known is not None and reply > known:
                self.count("rule:S7.7")

    # -- at the end

    def conclude(self, past: CausalPast, final: Vector) -> None:
        """Counts the rules that need all effects of the run."""
        # key → entry ID → the regions that added it.
        ids: dict[bytes, dict[int, set[int]]] = {}
        for key in past.by_key:
            for dot in past.dots(key, p.ADD):
                add = past.at(dot)
                assert isinstance(add, Add)
                ids.setdefault(key, {}).setdefault(add.entry_id, set()).add(dot[0])
        for key, entries in self.histories:
            logs = [
                origins for one in entries if len(origins := ids.get(key, {}).get(one, set())) == 1
            ]
            if len({region for origins in logs for region in origins}) > 1:
                self.count("rule:S7.5")
        for (region, key, group), delivered in self.groups.items():
            if delivered.all:
                self._ended(past, final, key, group, delivered)
                self._taken_over(past, region, key, group, delivered)

    def _ended(
        self, past: CausalPast, final: Vector, key: bytes, group: bytes, delivered: Delivered
    ) -> None:
        """Counts destroys that reached a region after its group had delivered (S6.5).

        By delete-wins, such a destroy killed every create under which the group had delivered.
        """
        earliest = next(iter(delivered.all.values()))
        for dot in _destroys(past, key, group):
            if earliest.get(dot[0], 0) < dot[1] <= final.get(dot[0], 0):
                self.count("rule:S6.5")

    def _taken_over(
        self, past: CausalPast, region: int, key: bytes, group: bytes, delivered: Delivered
    ) -> None:
        """Counts an announcement of another region that acknowledged entries pending here."""
        if not delivered.pending:
            return
        for dot in past.dots(key, p.ACKNOWLEDGE):
            effect = past.at(dot)
            assert isinstance(effect, fx.Acknowledge)
            if dot[0] == region or effect.group != group:
                continue
            for add in _covered(past, effect):
                vector = delivered.pending.get(add.entry_id)
                if (
                    vector is not None
                    and vector.get(dot[0], 0) < dot[1]
                    and any(vector.get(one, 0) >= n for one, n in effect.creates)
                ):
                    self.count("rule:S8.2")
                    return


def _id(text: bytes) -> int:
    ms, _, seq = text.partition(b"-")
    return (int(ms) << 64) | int(seq or 0) if ms.isdigit() else 0


def entries_of(reply: Reply) -> list[tuple[bytes, list[int]]]:
    """(key, entry IDs) of each stream in a reply of XREAD or XREADGROUP."""
    return [
        (
            key,
            [
                _id(entry[0])
                for entry in entries
                if isinstance(entry, list) and isinstance(entry[0], bytes)
            ],
        )
        for key, entries in entries_by_key(reply)
    ]


def _destroys(past: CausalPast, key: bytes, group: bytes) -> list[tuple[int, int]]:
    """The dots of all effects that destroy groups of a name."""
    named = [
        dot for dot in past.dots(key, p.DESTROY) if getattr(past.at(dot), "group", b"") == group
    ]
    return named + past.dots(key, p.DELETE) + past.dots(p.EVERY_KEY, p.FLUSH)


def _covered(past: CausalPast, effect: fx.Acknowledge) -> Iterable[Add]:
    """The entries that an announcement's spans contain."""
    for region, spans in effect.spans.items():
        for counter in past.by_key[effect.key].get(p.ADD, {}).get(region, ()):
            if spans.contains(counter):
                add: Logged = past.at((region, counter))
                assert isinstance(add, Add)
                yield add


_JUDGES: Final[dict[bytes, Callable[[Commands, Operation, Words, Reply], None]]] = {
    b"XADD": Commands._add,
    b"XTRIM": Commands._trim,
    b"RENAME": Commands._rename,
    b"RENAMENX": Commands._rename,
    b"WATCH": Commands._watch,
    b"CONFIG": Commands._configure,
    b"XRANGE": Commands._range,
    b"XREVRANGE": Commands._range,
    b"XREAD": Commands._read,
    b"XREADGROUP": Commands._read_group,
    b"XACK": Commands._acknowledge,
    b"XGROUP": Commands._group_command,
    b"XINFO": Commands._information,
    b"XPENDING": Commands._pending,
    b"CRDT.STABLE": Commands._stable,
}
