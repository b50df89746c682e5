"""All effects by dot, read from the blocks that regions have committed."""

from __future__ import annotations

from typing import Optional, Union

from anabranch.crdt import effects as fx
from anabranch.crdt.block import Block, read_effects
from anabranch.crdt.node import decode_fields, names_end
from anabranch.crdt.scan import SAME_NAMES, Scan
from anabranch.crdt.vector import Vector
from anabranch.region.engine.replies import Reply
from anabranch.sim.history import Committed

Dot = tuple[int, int]  # (region_id, counter)


class Add:
    """One add: an entry with its dot. `shown` is the entry as replies show it, `shown_id` its ID.

    `has_clock`: the region chose the ID by its clock (S4.1). `pid` is empty without an idempotency
    pair. `recorded_ms` and `vector` are those of an idempotent add (S9).
    """

    __slots__ = (
        "counter",
        "entry_id",
        "fields",
        "has_clock",
        "iid",
        "key",
        "pid",
        "recorded_ms",
        "region",
        "shown",
        "shown_id",
        "vector",
    )

    def __init__(
        self, region: int, counter: int, key: bytes, entry_id: int, fields: list[bytes]
    ) -> None:
        self.region = region
        self.counter = counter
        self.key = key
        self.entry_id = entry_id
        self.fields = fields
        self.shown_id = b"%d-%d" % (entry_id >> 64, entry_id & 0xFFFFFFFFFFFFFFFF)
        self.shown: list[Reply] = [self.shown_id, [*fields]]
        self.has_clock = False
        self.pid = b""
        self.iid = b""
        self.recorded_ms = 0
        self.vector: Vector = {}

    def token(self) -> bytes:
        """The client's unique mark of the entry, its field `t`; empty without that field."""
        fields = self.fields
        if fields and fields[0] == b"t":
            return fields[1]
        for index in range(0, len(fields), 2):
            if fields[index] == b"t":
                return fields[index + 1]
        return b""


Other = Union[
    fx.RemoveEntries,
    fx.Trim,
    fx.Delete,
    fx.Flush,
    fx.SetId,
    fx.CreateGroup,
    fx.DestroyGroup,
    fx.Acknowledge,
    fx.SetDeadline,
    fx.RemoveObserved,
    fx.Configure,
]
Logged = Union[Add, Other]


def logged(block: Block) -> list[Logged]:
    """The effects of a block, one for each dot: a run of adds becomes separate adds."""
    result: list[Logged] = []
    for effect in read_effects(block):
        if isinstance(effect, fx.AddRun):
            names, key = effect.names, effect.key
            scan = Scan(effect.data, effect.base_counter)
            while scan.step():
                payload = scan.payload()
                if scan.flags & SAME_NAMES:
                    fields = decode_fields(names, payload)
                else:
                    split = names_end(payload)
                    fields = decode_fields(payload[:split], payload[split:])
                result.append(Add(block.origin, scan.counter, key, scan.id(), fields))
        elif isinstance(effect, fx.AddIdempotent):
            fields = decode_fields(effect.names, effect.values)
            add = Add(block.origin, block.first + len(result), effect.key, effect.entry_id, fields)
            add.pid, add.iid, add.recorded_ms, add.vector = (
                effect.pid,
                effect.iid,
                effect.recorded_ms,
                effect.vector,
            )
            result.append(add)
        else:
            result.append(effect)
    return result


def decoded(event: Committed) -> list[tuple[Block, list[Logged]]]:
    """The blocks of a commit with their effects; cached, as several judges ask for one event."""
    global _decoded
    if _decoded[0] is not event:
        _decoded = (event, [(block, logged(block)) for block in event.blocks])
    return _decoded[1]


_decoded: tuple[Optional[Committed], list[tuple[Block, list[Logged]]]] = (None, [])


class EffectLog:
    """Effects by origin and counter.

    A region whose backup was restored may issue lost counters again with other effects: call
    `truncate`, then `append`.
    """

    def __init__(self, regions: tuple[int, ...]) -> None:
        self.effects: dict[int, list[Logged]] = {region: [] for region in regions}
        # How many idempotent adds were appended so far.
        self.pairs = 0

    def last(self, region: int) -> int:
        """The highest known counter of that region."""
        return len(self.effects[region])

    def at(self, region: int, counter: int) -> Logged:
        return self.effects[region][counter - 1]

    def get(self, region: int, counter: int) -> Optional[Logged]:
        known = self.effects[region]
        return known[counter - 1] if 0 < counter <= len(known) else None

    def append(self, region: int, effects: list[Logged]) -> None:
        """Appends a block of that region, which follows the known effects."""
        self.effects[region] += effects
        self.pairs += sum(1 for one in effects if isinstance(one, Add) and one.pid)

    def truncate(self, region: int, counter: int) -> None:
        """Forgets that region's effects above `counter`."""
        del self.effects[region][counter:]
