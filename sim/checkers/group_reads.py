"""Invariant 7: group reads skip nothing and repeat only by rule; XREAD's skips are counted.

The groups of each region are computed by definition (`delivery_model`), and replies are compared
with that (S6.3 to S8.2). `>` must deliver exactly the undelivered entries, in order. A read with
an ID must show exactly the pending entries. An announcement may contain only acknowledged entries.
So a skip, a repeat and a false acknowledgement are found at once, or when the groups are drained
at the end.

No judgement is made where the contract leaves the outcome open:

* After a crash, any number of the uncertain local records may have survived (S13.2). Then several
  states are possible, until replies rule some out.
* A reader woken by a merge of several effects may have seen any number of them. It must have
  received the entries that were there before the merge and are still there.
* If an expiry's removal and other regions' effects came in one merge, the groups of that key are
  not judged until they begin anew (S6.5).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Optional

from anabranch.region.engine.replies import ErrorReply, Reply, VerbatimText
from anabranch.sim.checkers import delivery_steps as steps
from anabranch.sim.checkers.delivery_arguments import ReadRequest, fields_of_map, is_null, readable
from anabranch.sim.checkers.delivery_effects import Fact
from anabranch.sim.checkers.delivery_model import Group, Local, Name, RegionModel, text_of
from anabranch.sim.checkers.delivery_tape import READS, Doubt, Item, Step, TapeChecker
from anabranch.sim.checkers.delivery_transactions import LOCAL, owned
from anabranch.sim.checkers.delivery_xread import xread
from anabranch.sim.history import Began, End, Moved, Operation, Setup, Shown, Vector, Words
from anabranch.sim.oracle.arguments import entry_id, name_of
from anabranch.sim.oracle.log import Add
from anabranch.sim.oracle.state import NEVER, KeyState
from anabranch.sim.replies import entries_by_key

ROUND_MS: Final = 90
"""Within this time a region with receivers begins a round: simulated intervals are ≤ 20 ms."""


class GroupReads(TapeChecker):
    """The judge."""

    name = "group_reads"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.models: dict[int, RegionModel] = {}
        # (region_id, group) whose last read was refused (S13.4, S14), so it was not drained.
        self._refused: set[tuple[int, Name]] = set()
        self._is_healed = False
        # region_id → since when (ms) every call of `shown` found a receiver of it.
        self._received_since_ms: dict[int, int] = {}
        # Numbers of blocked reads that were judged at an earlier step than they were reported.
        self._told: set[int] = set()
        self._is_muted = False

    # -- the tape

    def begin(self, event: Began) -> None:
        if event.region not in self.models:
            self.models[event.region] = RegionModel(event.region, self.facts)
        super().begin(event)
        self.models[event.region].forget_reads()

    def happened(self, region: int, item: Item) -> None:
        model = self.models[region]
        if model.is_blind:
            return
        event = item.event
        if isinstance(event, Moved):
            self._move(model, item, event)
            if event.how == "waited":
                # Reads that waited for the end of the start are woken in this step, too.
                self._wake(model, item, model.is_loose)
        elif event.number in self._told:
            self._told.discard(event.number)
        else:
            self._operate(model, event)
            self._wake(model, item)
        if model.problems:
            for text in model.problems:
                self._fail(event.at_ms, region, text)
            model.problems = []

    def doubted(self, region: int, items: list[Item]) -> None:
        """Makes each state between two of these steps a possible state."""
        model = self.models[region]
        found: dict[Name, list[Local]] = {}
        for name in list(model.groups):
            group = model.group(name)
            if group is not None:
                found[name] = [local.copy() for local in group.locals]
        for item in items:
            self.happened(region, item)
            for name in list(model.groups):
                group = model.group(name)
                if group is not None:
                    known = found.setdefault(name, [Local()])
                    known += [
                        local.copy()
                        for local in group.locals
                        if not any(local.equals(one) for one in known)
                    ]
        for name, states in found.items():
            group = model.group(name)
            if group is not None:
                group.branch(states)

    def restarted(self, region: int, past: list[Step]) -> None:
        """Follows the region's past again up to the backup; all of that was judged before."""
        self._is_muted = True
        told, self._told = self._told, set()
        self.models[region] = RegionModel(region, self.facts)
        for step in past:
            if isinstance(step, Item):
                self.happened(region, step)
            elif isinstance(step, Doubt):
                self.doubted(region, step.items)
        self._told = told
        self._is_muted = False

    def bewildered(self, region: int, vector: Vector) -> None:
        """The local records are unknown, so groups that are live now are not judged."""
        model = self.models[region] = RegionModel(region, self.facts)
        model.advance(vector, False, True)
        model.unsettle()

    def _fail(self, at_ms: int, region: int, text: str) -> None:
        if not self._is_muted:
            self.fail(at_ms, region, text)

    # -- steps

    def _move(self, model: RegionModel, item: Item, event: Moved) -> None:
        """Judges reads that timed out before the step, then moves the vector."""
        for read in item.wakes or ():
            operation = read.event
            assert isinstance(operation, Operation)
            if is_null(operation.reply) and self._matches(model, operation):
                self._told.add(operation.number)
        model.begin_step()
        if event.how == "join":
            model.join(event.after)
        else:
            model.advance(event.after, True, item.remerged)

    def _operate(self, model: RegionModel, operation: Operation) -> None:
        """Judges one command or transaction, and applies its effects."""
        assert operation.after is not None
        if operation.waited:
            model.advance(operation.after, True, False)
            if operation.queued:
                # It waited for the end of the start; its effects came with those of others.
                for words in operation.queued:
                    self._unsettle(model, words)
            elif not model.is_blind:
                self._judge(model, operation, operation.argv, operation.reply, model.is_loose)
            return
        model.begin_step()
        model.advance(operation.before, True, False)
        if model.is_blind:
            return
        if not operation.queued:
            self._judge(model, operation, operation.argv, operation.reply, False)
        elif isinstance(operation.reply, list):
            self._transact(model, operation, operation.reply)
        model.advance(operation.after, False, False)

    def _transact(self, model: RegionModel, operation: Operation, replies: list[Reply]) -> None:
        """Judges the commands of a transaction in order, each with its own effects (S1.2)."""
        assert operation.after is not None
        facts: Optional[list[Fact]] = self.facts.between(model.state.vector, operation.after)
        said = list(zip(operation.queued, replies, strict=True))
        done = 0
        for index, (words, reply) in enumerate(said):
            if name_of(words) in LOCAL:
                self._judge(model, operation, words, reply, False)
                continue
            end = -1 if facts is None else owned(words, reply, facts, done, said[index + 1 :])
            if facts is None or end < 0:
                # One of the effects may create a group.
                model.advance(operation.after, False, False)
                for unclear, _ in said[index:]:
                    self._unsettle(model, unclear)
                return
            for fact in facts[done:end]:
                model.apply(fact, True)
            done = end

    def _wake(self, model: RegionModel, item: Item, relaxed: bool = False) -> None:
        """Judges the blocked reads that this step must have woken.

        `relaxed`: they may have been woken in the middle of the step.
        """
        for read in item.wakes or ():
            operation = read.event
            assert isinstance(operation, Operation)
            if (
                operation.number not in self._told
                and not is_null(operation.reply)
                and self._matches(model, operation, relaxed)
            ):
                self._told.add(operation.number)

    def _matches(self, model: RegionModel, operation: Operation, relaxed: bool = False) -> bool:
        """Whether a blocked read may have been answered at this step; then it is applied."""
        if model.is_blind or operation.argv[0].upper() not in READS:
            return False
        muted, self._is_muted = self._is_muted, True
        try:
            return not self._read(model, operation, operation.argv, operation.reply, relaxed, True)
        finally:
            self._is_muted = muted

    def _unsettle(self, model: RegionModel, words: Words) -> None:
        """Marks the groups of a command's keys as unknown in their local state."""
        if name_of(words) in LOCAL and len(words) > 1:
            request = ReadRequest(words).keys if words[0].upper() == b"XREADGROUP" else words[1:3]
            for key in request:
                if key in model.state.keys:
                    model.unsettle(key)

    # -- commands

    def _judge(
        self, model: RegionModel, operation: Operation, words: Words, reply: Reply, relaxed: bool
    ) -> None:
        name = name_of(words)
        if name in READS:
            wrong = self._read(model, operation, words, reply, relaxed, False)
        elif name in _COMMANDS:
            wrong = _COMMANDS[name](self, model, operation, words, reply)
        else:
            return
        if wrong:
            self._fail(
                operation.at_ms,
                model.region,
                f"{wrong} (operation {operation.number}: {readable(words)})",
            )

    def _group(
        self, model: RegionModel, name: Name, reply: Reply, clock_ms: int
    ) -> tuple[Optional[Group], str]:
        """The live group that a command names, and the fault of its reply.

        (None, "") if the reply is an error that does not contradict the state.
        """
        group = model.group(name)
        is_there = group is not None and not model.is_hidden(name[0], clock_ms)
        at = f"group {name[1].decode()} of {name[0].decode()}"
        if isinstance(reply, ErrorReply):
            if is_there and reply.message.startswith(
                ("NOGROUP", "ERR The XGROUP", "ERR no such key")
            ):
                return None, f"{at} is live, but the reply is {reply.message}"
            return None, ""
        return (group, "") if is_there else (None, f"{at} is not live, but the reply is no error")

    def _each(self, name: Name, group: Group, step: Callable[[Local], str]) -> str:
        """Applies a step to each possible state, and drops the states that it contradicts.

        Returns the first fault if it contradicts all of them, else "".
        """
        if group.is_unsure:
            return ""
        wrong = ""
        kept: list[Local] = []
        for local in group.locals:
            text = step(local)
            if text:
                wrong = wrong or text
            else:
                kept.append(local)
        if not kept:
            group.is_unsure = True
            return f"group {name[1].decode()} of {name[0].decode()}: {wrong}"
        group.keep(kept)
        return ""

    def _read(
        self,
        model: RegionModel,
        operation: Operation,
        words: Words,
        reply: Reply,
        relaxed: bool,
        trying: bool,
    ) -> str:
        if words[0].upper() == b"XREAD":
            return xread(model, operation, words, reply, relaxed)
        if isinstance(reply, ErrorReply) and not reply.message.startswith(("NOGROUP", "MISCONF")):
            return ""
        request = ReadRequest(words)
        names = [(key, request.group) for key in request.keys]
        at = [(model.region, name) for name in names]
        if isinstance(reply, ErrorReply) and reply.message.startswith("MISCONF"):
            self._refused.update(at)
            return ""
        self._refused.difference_update(at)
        groups: list[Group] = []
        for name in names:
            group, wrong = self._group(
                model,
                name,
                reply if not isinstance(reply, ErrorReply) else None,
                operation.clock_ms,
            )
            if group is None:
                if isinstance(reply, ErrorReply):
                    return ""
                if (
                    operation.waited
                    and is_null(reply)
                    and (name in model.turned or model.group(name) is not None)
                ):
                    # The read timed out in the moment in which the group ended or was hidden.
                    return ""
                return "" if relaxed and name in model.turned else wrong
            groups.append(group)
        if isinstance(reply, ErrorReply):
            was_gone = relaxed and any(name in model.turned for name in names)
            return "" if was_gone else f"every group is live, but the reply is {reply.message}"
        return self._read_all(
            model, operation, request, groups, entries_by_key(reply), relaxed, trying
        )

    def _read_all(
        self,
        model: RegionModel,
        operation: Operation,
        request: ReadRequest,
        groups: list[Group],
        parts: list[tuple[bytes, list[Reply]]],
        relaxed: bool,
        trying: bool,
    ) -> str:
        """Judges XREADGROUP key by key, and delivers new entries once all keys are right.

        `trying`: a fault changes nothing.
        """
        handed: list[tuple[Group, list[tuple[Local, list[Add]]]]] = []
        done = 0
        for key, text, group in zip(request.keys, request.ids, groups, strict=True):
            entries: list[Reply] = []
            if done < len(parts) and parts[done][0] == key:
                entries = parts[done][1]
                done += 1
            name = (key, request.group)
            if relaxed and entries and name in model.turned:
                # The entries came from the group before it began anew, or after.
                group.is_unsure = True
            if text != b">":
                wrong = self._each(
                    name,
                    group,
                    _history(
                        model.state.keys[key], request, entry_id(text), entries, operation.clock_ms
                    ),
                )
                if wrong:
                    return wrong
            elif not group.is_unsure:
                right, wrong = _right(model, name, group, request, entries, relaxed)
                if wrong:
                    group.is_unsure = not trying
                    return wrong
                handed.append((group, right))
            elif trying:
                return "not known"
        if done < len(parts):
            return f"the reply has key {parts[done][0].decode()} out of order"
        for group, right in handed:
            settled = group.taken | model.dereferenced
            for local, taken in right:
                steps.take(local, taken, request, operation.clock_ms, settled)
            group.keep([local for local, _ in right])
        return ""

    # -- other commands

    def _acknowledge(
        self, model: RegionModel, operation: Operation, words: Words, reply: Reply
    ) -> str:
        name = (words[1], words[2])
        group = model.group(name)
        if isinstance(reply, ErrorReply):
            return ""
        if group is None or model.is_hidden(words[1], operation.clock_ms):
            return (
                ""
                if reply == 0
                else f"{reply!r} acknowledged in a group that is not live in this region"
            )
        return self._each(name, group, lambda local: steps.acknowledge(local, words, reply))

    def _keyed(self, model: RegionModel, operation: Operation, words: Words, reply: Reply) -> str:
        """XPENDING, XCLAIM, XAUTOCLAIM, XGROUP SETID, XGROUP DELCONSUMER, XINFO CONSUMERS."""
        name = name_of(words)
        at = (words[2], words[3]) if b" " in name else (words[1], words[2])
        group, wrong = self._group(model, at, reply, operation.clock_ms)
        if group is None:
            return wrong
        key, clock_ms, vector = model.state.keys[at[0]], operation.clock_ms, model.state.vector
        step: dict[bytes, Callable[[Local], str]] = {
            b"XPENDING": lambda local: steps.pending(local, words, reply, clock_ms),
            b"XCLAIM": lambda local: steps.claim(key, local, words, reply, clock_ms),
            b"XAUTOCLAIM": lambda local: steps.autoclaim(key, local, words, reply, clock_ms),
            b"XGROUP SETID": lambda local: steps.set_id(key, local, words, vector),
            b"XGROUP DELCONSUMER": lambda local: steps.delete_consumer(local, words, reply),
            b"XINFO CONSUMERS": lambda local: steps.consumer_figures(local, reply),
        }
        return self._each(at, group, step[name])

    def _groups(self, model: RegionModel, operation: Operation, words: Words, reply: Reply) -> str:
        """XINFO GROUPS: all live groups, with the number of pending entries and the lag of each."""
        key = model.state.keys.get(words[2])
        hidden = model.is_hidden(words[2], operation.clock_ms)
        if isinstance(reply, ErrorReply):
            is_wrong = key is not None and bool(key.groups) and not hidden
            return f"the key has groups, but the reply is {reply.message}" if is_wrong else ""
        if key is None or hidden or not isinstance(reply, list):
            return f"{reply!r} answered for a key that does not exist"
        names = [fields_of_map(item)[b"name"] for item in reply]
        if names != sorted(key.groups):
            return f"groups {names!r} shown where {sorted(key.groups)!r} live"
        for item, group_name in zip(reply, names, strict=True):
            assert isinstance(group_name, bytes)
            group = model.group((words[2], group_name))
            assert group is not None
            wrong = self._each((words[2], group_name), group, _figures(key, group, item))
            if wrong:
                return wrong
        return ""

    # -- the end

    def healed(self, at_ms: int) -> None:
        self._is_healed = True

    def shown(self, shown: dict[int, Shown]) -> None:
        """Notes since when each region has a receiver; without one it begins no rounds (S2.5)."""
        if not self._is_healed:
            return
        for region, one in shown.items():
            peers = self.setup.ask(region, (b"CRDT.PEERS",))
            assert isinstance(peers, list)
            if any(fields_of_map(peer)[b"receives_from_here"] for peer in peers):
                self._received_since_ms.setdefault(region, one.at_ms)
            else:
                self._received_since_ms.pop(region, None)

    def finish(self, end: End) -> None:
        """All groups are drained: no entry may be undelivered, no announcement may be missing."""
        for region in self.setup.regions:
            tape = self._tape(region)
            for item in tape.take(len(tape.waiting)):
                self.happened(region, item)
            model = self.models[region]
            if (
                end.converged_ms is None
                or region not in end.shown
                or model.is_blind
                or model.state.vector != end.shown[region].vector
            ):
                continue
            for key, state in model.state.keys.items():
                if any(at_ms != NEVER for at_ms in state.deadlines.values()):
                    # The key may be hidden, and a hidden group cannot be drained.
                    continue
                for name in sorted(state.groups):
                    self._finish_group(end, model, (key, name))
            self._finish_late_arrivals(end, model)

    def _finish_group(self, end: End, model: RegionModel, name: Name) -> None:
        group = model.group(name)
        if group is None or group.is_unsure or (model.region, name) in self._refused:
            return
        state = model.state.keys[name[0]]
        at = f"group {name[1].decode()} of {name[0].decode()}"
        left = [local.undelivered(state, group.creates) for local in group.locals]
        if all(left):
            self._fail(
                end.at_ms,
                model.region,
                f"{at}: {text_of(left[0][0])} was never delivered and never acknowledged",
            )
        owed = [steps.announceable(state, group, local) for local in group.locals]
        if (
            all(owed)
            and end.at_ms >= self._received_since_ms.get(model.region, end.at_ms) + ROUND_MS
        ):
            texts = " ".join(map(text_of, owed[0]))
            self._fail(
                end.at_ms, model.region, f"{at}: {texts} acknowledged here, but never announced"
            )

    def _finish_late_arrivals(self, end: End, model: RegionModel) -> None:
        """The region counts the entries that an XREAD may have skipped (S7.2)."""
        if not model.late_is_exact:
            return
        reply = self.setup.ask(model.region, (b"INFO", b"crdt"))
        text = reply.text if isinstance(reply, VerbatimText) else reply
        assert isinstance(text, bytes)
        shown = int(text.split(b"crdt_xread_late_arrivals:")[1].split(b"\r\n")[0])
        if shown != model.late_arrivals:
            self._fail(
                end.at_ms,
                model.region,
                f"{model.late_arrivals} entries came below IDs that XREAD had returned; "
                f"the region counts {shown}",
            )


def _right(
    model: RegionModel,
    name: Name,
    group: Group,
    request: ReadRequest,
    entries: list[Reply],
    relaxed: bool,
) -> tuple[list[tuple[Local, list[Add]]], str]:
    """The possible states that agree with a delivery by `>`, each with the delivered entries.

    The second value is the first fault if no state agrees, else "".
    """
    right: list[tuple[Local, list[Add]]] = []
    first = ""
    for local in group.locals:
        wrong, taken = steps.deliver(model, name, group, local, request, entries, relaxed)
        if not wrong:
            right.append((local, taken))
        first = first or wrong
    return right, "" if right else f"group {name[1].decode()} of {name[0].decode()}: {first}"


def _history(
    key: KeyState, request: ReadRequest, above: int, entries: list[Reply], clock_ms: int
) -> Callable[[Local], str]:
    return lambda local: steps.history(key, local, request, above, entries, clock_ms)


def _figures(key: KeyState, group: Group, item: Reply) -> Callable[[Local], str]:
    return lambda local: steps.group_figures(key, group, local, item)


_Judge = Callable[[GroupReads, RegionModel, Operation, Words, Reply], str]
_COMMANDS: Final[dict[bytes, _Judge]] = {
    b"XACK": GroupReads._acknowledge,
    b"XPENDING": GroupReads._keyed,
    b"XCLAIM": GroupReads._keyed,
    b"XAUTOCLAIM": GroupReads._keyed,
    b"XGROUP SETID": GroupReads._keyed,
    b"XGROUP DELCONSUMER": GroupReads._keyed,
    b"XINFO CONSUMERS": GroupReads._keyed,
    b"XINFO GROUPS": GroupReads._groups,
}
