"""The value that a step of the driver returns, performed by the process or the simulator.

The idea is `Ready` of etcd-io/raft.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Optional, Union

from anabranch.region.driver.client_connection import ClientConnection
from anabranch.region.engine.rows import Commit
from anabranch.region.storage.history import FindKey, ReadBlocks, ReadRows
from anabranch.region.storage.log import ReadOldest
from anabranch.region.storage.salvage import ReadSalvage
from anabranch.region.storage.schema import Statement
from anabranch.sync.session.events import LoggedEvent
from anabranch.sync.session.log_requests import Request


class DiskTransaction:
    """Statements to run in one transaction; report `Driver.written` or `Driver.failed`.

    At most one transaction is out at a time. `commit` is the commit that it writes; None for a
    slice of a checkpoint.
    """

    def __init__(self, statements: Sequence[Statement], commit: Optional[Commit] = None) -> None:
        self.statements: Final = statements
        self.commit: Final = commit


LogQuestion = Union[Request, ReadOldest, ReadSalvage, FindKey, ReadRows, ReadBlocks]


class LogRead:
    """A read of the log on disk; report `Driver.read` or `Driver.cannot_read`.

    `connection` is the number of the peer connection that needs the answer, 0 for the checkpoint,
    the salvage and histories.
    """

    def __init__(self, connection: int, request: LogQuestion) -> None:
        self.connection: Final = connection
        self.request: Final = request


class Note:
    """A line for the operator's log, with a `level` of `logging`. `event`: its parts."""

    def __init__(self, level: int, text: str, event: LoggedEvent) -> None:
        self.level: Final = level
        self.text: Final = text
        self.event: Final = event


class Work:
    """All actions that are to be performed now."""

    def __init__(self) -> None:
        # Client connections that have requests to their transports.
        self.clients: list[ClientConnection] = []
        self.transaction: Optional[DiskTransaction] = None
        self.reads: list[LogRead] = []
        # Peers to dial: report `Driver.dialled` or `Driver.dial_failed`.
        self.dials: list[int] = []
        # Peer connections to close at once, without sending their remaining messages.
        self.hang_ups: list[int] = []
        self.notes: list[Note] = []
        # Call `Driver.merge` after so many ms; None: nothing waits to be merged, or a merge is
        # already planned.
        self.merge_in_ms: Optional[float] = None
        # DEBUG SLEEP: block the whole process for so many ms.
        self.sleep_ms = 0
        # A burst of writes is on disk: return free memory to the system.
        self.gives_back_memory = False
        # A client sent SHUTDOWN: stop the region.
        self.stop_wanted = False
        # After `Driver.stop`: all state is on disk, or a write failed.
        self.has_stopped = False
