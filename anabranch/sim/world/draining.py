"""Reads every group to its end in every region after convergence, as its consumers would.

An entry that was skipped shows then.
"""

from __future__ import annotations

from typing import Final

from anabranch.region.engine.replies import ErrorReply, MapReply, Reply
from anabranch.sim.history import Operation, Words
from anabranch.sim.load.client import Client
from anabranch.sim.plan import ClientPlan
from anabranch.sim.world.world import World

FIRST_NUMBER: Final = 900
_READS_MAX: Final = 1000


class Drainer(Client):
    """Reads groups with `>` in one region."""

    def __init__(self, number: int, region: int) -> None:
        super().__init__(
            ClientPlan(number, "drainer", region, (), 0), (region,), lambda _: "strict"
        )
        self.empty = False
        self.reply: Reply = None

    def answered(self, operation: Operation) -> None:
        """Notes the reply, and whether a read returned no entries."""
        self.reply = operation.reply
        self.empty = not isinstance(operation.reply, list) or not operation.reply


def drain(world: World) -> None:
    """Reads every existing group to its end, in every region."""
    for region_id in [region.region_id for region in world.remaining()]:
        drainer = Drainer(FIRST_NUMBER + region_id, region_id)
        world.clients[drainer.number] = drainer
        for key in world.keys:
            for group in groups(world.ask(region_id, (b"XINFO", b"GROUPS", key))):
                _read_all(
                    world,
                    drainer,
                    (
                        b"XREADGROUP",
                        b"GROUP",
                        group,
                        b"drainer",
                        b"COUNT",
                        b"20",
                        b"STREAMS",
                        key,
                        b">",
                    ),
                )


def _read_all(world: World, drainer: Drainer, command: Words) -> None:
    drainer.empty = False
    for _ in range(_READS_MAX):
        world.send(drainer, [command])
        for _ in range(100):  # under `always` the answer waits for a commit
            if not world.unanswered(drainer):
                break
            world.scheduler.run_until(world.scheduler.now_ms + 5)
        if drainer.empty:
            return
    world.fault_found(f"a group is read without end: {command!r}")


def groups(reply: Reply) -> list[bytes]:
    """The group names in a reply to XINFO GROUPS; none for a key that does not exist."""
    if isinstance(reply, ErrorReply) or not isinstance(reply, list):
        return []
    names: list[bytes] = []
    for item in reply:
        flat = item.flat if isinstance(item, MapReply) else item
        assert isinstance(flat, list) and isinstance(flat[1], bytes)
        names.append(flat[1])
    return names
