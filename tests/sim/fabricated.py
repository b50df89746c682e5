"""Histories made by hand for the judges of histories: commands, replies and effects."""

from __future__ import annotations

from typing import Optional

from anabranch.crdt import effects as fx
from anabranch.crdt.block import Block, BlockWriter, chain_after
from anabranch.crdt.effects import Effect
from anabranch.crdt.ids import parse
from anabranch.crdt.node import encode_names, encode_values
from anabranch.crdt.vector import Vector
from anabranch.region.engine.replies import ErrorReply, MapReply, NullArray, Reply, SimpleString
from anabranch.sim.checkers.acknowledged_adds import AcknowledgedAdds
from anabranch.sim.checkers.digests import Digests
from anabranch.sim.checkers.idempotent_once import IdempotentOnce
from anabranch.sim.checkers.ledger import Ledger
from anabranch.sim.checkers.no_phantoms import NoPhantoms
from anabranch.sim.checkers.no_return import NoReturn
from anabranch.sim.checkers.stable_times import StableTimes
from anabranch.sim.checkers.state import State
from anabranch.sim.checkers.unique_ids import UniqueIds
from anabranch.sim.checkers.vectors import Vectors
from anabranch.sim.history import (
    Began,
    Checker,
    Committed,
    End,
    Moved,
    Operation,
    Setup,
    Shown,
    Stopped,
    Words,
)

SETTINGS = {
    "crdt-xadd-id-uniqueness-mode": "strict",
    "appendfsync": "everysec",
    "stream-idmp-duration": "1",
    "stream-idmp-maxsize": "100",
    "crdt-expiry-grace-ms": "1000",
    "crdt-idmp-retired-max": "100000",
}
STATE_JUDGES: list[type[Checker]] = [
    AcknowledgedAdds,
    NoPhantoms,
    IdempotentOnce,
    UniqueIds,
    Vectors,
    Digests,
    NoReturn,
    StableTimes,
]
OK = SimpleString(b"OK")
KEY = b"k"


class Plain:
    """An add without an idempotency pair, as a region of the story issues it."""

    def __init__(self, entry: str, fields: list[bytes], key: bytes = KEY) -> None:
        self.entry_id = parse(entry.encode())
        self.fields = fields
        self.key = key


Issued = Effect | Plain


class Story:
    """Regions, and the judges that receive their history.

    The time is 1000 ms at first. It moves only when `at` is called.
    """

    def __init__(
        self, regions: int = 2, judges: Optional[list[type[Checker]]] = None, **settings: str
    ) -> None:
        values = {**SETTINGS, **{name.replace("_", "-"): value for name, value in settings.items()}}
        ids = tuple(range(1, regions + 1))
        self.setup = Setup(1, ids, {region: dict(values) for region in ids}, (KEY,), self.ask)
        self.judges = [judge(self.setup) for judge in (STATE_JUDGES if judges is None else judges)]
        self.ledger = Ledger.of(self.setup)
        self.now_ms = 1000
        self.vectors: dict[int, Vector] = {region: {} for region in ids}
        self.disks: dict[int, Vector] = {region: {} for region in ids}
        self.starts = dict.fromkeys(ids, 0)
        self.open: dict[int, list[Issued]] = {region: [] for region in ids}
        self.chains = {region: bytes(16) for region in ids}
        # (region_id, command) → the reply to a judge, if it differs from the naive truth.
        self.answers: dict[tuple[int, Words], Reply] = {}
        self.operations = 0
        for region in ids:
            self.begin(region, "first", {})

    def tell(self, event: str, value: object) -> None:
        for judge in self.judges:
            getattr(judge, event)(value)

    def found(self) -> list[str]:
        """The names of the judges that found a violation, each once, ascending."""
        return sorted(
            {violation.checker for judge in self.judges for violation in judge.violations}
        )

    def texts(self) -> str:
        return "\n".join(str(violation) for judge in self.judges for violation in judge.violations)

    # -- processes

    def begin(self, region: int, how: str, vector: Vector) -> None:
        self.starts[region] += 1
        self.vectors[region] = dict(vector)
        self.disks[region] = dict(vector)
        self.open[region] = []
        self.tell(
            "began",
            Began(region, self.starts[region], how, self.starts[region], dict(vector), self.now_ms),
        )

    def stop(self, region: int, how: str) -> None:
        self.tell(
            "stopped",
            Stopped(region, self.starts[region], how, dict(self.disks[region]), self.now_ms),
        )

    def crash(self, region: int, how: str = "kill", vector: Optional[Vector] = None) -> None:
        """Ends the process and starts another. It finds `vector`; None: what was on the disk."""
        self.stop(region, how)
        self.begin(region, how, self.disks[region] if vector is None else vector)

    # -- steps

    def vector(self, region: int) -> Vector:
        return dict(self.vectors[region])

    def _issue(self, region: int, effects: tuple[Issued, ...]) -> tuple[Vector, Vector]:
        before = self.vectors[region]
        after = dict(before)
        if effects:
            after[region] = after.get(region, 0) + len(effects)
        self.vectors[region] = after
        self.open[region] += effects
        return before, after

    def command(
        self,
        region: int,
        command: str | Words,
        reply: Reply,
        *effects: Issued,
        queued: tuple[Words, ...] = (),
        client: int = 1,
        always: bool = False,
        answered: bool = True,
        floor_ms: int = 0,
    ) -> Operation:
        """A command that issued these effects, and its reply."""
        words = (
            tuple(word.encode() for word in command.split())
            if isinstance(command, str)
            else command
        )
        before, after = self._issue(region, effects)
        self.operations += 1
        operation = Operation(
            self.operations,
            client,
            region,
            self.starts[region],
            words,
            queued,
            self.now_ms,
            self.now_ms,
            before,
            always,
        )
        operation.floor_ms = floor_ms
        operation.after = after
        operation.reply = reply
        operation.has_reply = True
        self.tell("executed", operation)
        if answered and not always:
            self.answer(operation)
        return operation

    def answer(self, operation: Operation) -> None:
        operation.answered_ms = self.now_ms
        self.tell("answered", operation)

    def add(self, region: int, entry: str, token: str = "", always: bool = False) -> Operation:
        """XADD * for which the region chose this ID."""
        token = token or entry
        return self.command(
            region,
            f"XADD k * t {token}",
            entry.encode(),
            Plain(entry, [b"t", token.encode()]),
            always=always,
        )

    def tick(self, region: int, *effects: Issued) -> None:
        """The region issues effects without a command."""
        before, after = self._issue(region, effects)
        self.tell(
            "moved",
            Moved(
                region, self.starts[region], "tick", before, after, self.now_ms, self.now_ms, False
            ),
        )

    def commit(self, region: int) -> None:
        """The effects that the region has issued go to its disk in one block."""
        blocks: list[Block] = []
        issued, self.open[region] = self.open[region], []
        if issued:
            last = self.vectors[region][region]
            writer = BlockWriter(region, last - len(issued) + 1, 100, 4096)
            for effect in issued:
                if isinstance(effect, Plain):
                    one = effect.entry_id
                    names, values = (
                        encode_names(effect.fields[::2]),
                        encode_values(effect.fields[1::2]),
                    )
                    writer.add(effect.key, one >> 64, one & ((1 << 64) - 1), names, values)
                else:
                    writer.put(effect)
            body = writer.body()
            self.chains[region] = chain_after(self.chains[region], body)
            blocks.append(Block(region, writer.first, last, body, self.chains[region]))
        self.disks[region] = dict(self.vectors[region])
        self.tell(
            "committed",
            Committed(region, self.starts[region], dict(self.vectors[region]), blocks, self.now_ms),
        )

    def merge(self, source: int, target: int, how: str = "merge", *effects: Issued) -> None:
        """`target` receives all that is on the disk of `source`, then issues these effects."""
        before = self.vectors[target]
        after = {
            region: max(before.get(region, 0), self.disks[source].get(region, 0))
            for region in sorted({**before, **self.disks[source]})
        }
        self.vectors[target] = after
        self._issue(target, effects)
        self.tell(
            "moved",
            Moved(
                target,
                self.starts[target],
                how,
                before,
                self.vectors[target],
                self.now_ms,
                self.now_ms,
                after.get(target, 0) > before.get(target, 0),
            ),
        )

    def sync(self) -> None:
        """Every region commits, then receives all effects of all others and commits them."""
        for region in self.vectors:
            self.commit(region)
        for source in self.vectors:
            for target in self.vectors:
                if source != target:
                    self.merge(source, target)
                    self.commit(target)

    def at(self, now_ms: int) -> None:
        self.now_ms = now_ms

    # -- looking

    def ask(self, region: int, words: Words) -> Reply:
        """The reply of a region to a judge: that of `answers`, else the naive truth."""
        if (region, words) in self.answers:
            return self.answers[(region, words)]
        return truth(self, region, words)

    def show(self, **digests: bytes) -> dict[int, Shown]:
        """All regions show vector and digest. By default equal vectors have equal digests."""
        shown = {
            region: Shown(
                region,
                dict(vector),
                digests.get(f"r{region}", repr(sorted(vector.items())).encode()),
                self.now_ms,
            )
            for region, vector in self.vectors.items()
        }
        self.tell("shown", shown)
        return shown

    def finish(self) -> list[str]:
        """Ends the run. Returns the names of the judges that found a violation."""
        self.tell("finish", End(10, 1000, self.now_ms, self.show()))
        return self.found()


def truth(story: Story, region: int, words: Words) -> Reply:
    """The right reply to each command that judges ask."""
    if words[0] == b"TIME":
        return [b"%d" % (story.now_ms // 1000), b"%d" % (story.now_ms % 1000 * 1000)]
    if words[0] == b"INFO":
        return b"# CRDT\r\ncrdt_gaps:0\r\ncrdt_disk_vector:\r\ncrdt_stable_vector:\r\n"
    last = story.ledger.log.last
    vector = {one: min(up, last(one)) for one, up in story.vectors[region].items()}
    state = story.ledger.state_at(vector) or State()
    key = state.key(words[-1] if words[0] == b"XINFO" else words[1])
    is_here = key.is_present() and not key.is_hidden(story.now_ms)
    if words[0] == b"XRANGE":
        return [place[3].shown for place in key.stream] if is_here else []
    if not is_here:
        return ErrorReply("ERR no such key")
    return [MapReply([b"name", group]) for group in sorted(key.groups)]


def idempotent(
    story: Story, region: int, entry: str, token: str, pid: bytes = b"p", iid: bytes = b"1"
) -> fx.AddIdempotent:
    """The effect of an XADD with IDMP that the region runs now."""
    fields = [b"t", token.encode()]
    names, values = encode_names(fields[::2]), encode_values(fields[1::2])
    return fx.AddIdempotent(
        KEY, parse(entry.encode()), names, values, pid, iid, story.now_ms, story.vector(region)
    )


NIL = NullArray()
