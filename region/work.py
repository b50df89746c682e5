"""What a step of the driver hands out: one value, which the process and the simulator perform alike (etcd-io/raft's `Ready`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Optional, Union

from anabranch.region.client_connection import ClientConnection
from anabranch.region.engine.rows import Commit
from anabranch.region.storage.log import ReadOldest
from anabranch.region.storage.schema import Statement
from anabranch.sync.log_requests import Request


class DiskTransaction:
    """Statements to run in one transaction; report `Driver.written` or `Driver.failed`.

    At most one is out at a time. `commit`: what is on disk once it is written; None for a slice of a
    checkpoint.
    """

    def __init__(self, statements: Sequence[Statement], commit: Optional[Commit] = None) -> None:
        self.statements: Final = statements
        self.commit: Final = commit


class LogRead:
    """A question to the log on disk; report `Driver.read` or `Driver.cannot_read`.

    `connection` is the number of the peer's connection that it is for; 0: the checkpoint asks.
    """

    def __init__(self, connection: int, request: Union[Request, ReadOldest]) -> None:
        self.connection: Final = connection
        self.request: Final = request


class Note:
    """A line for the operator's log. `level`: as in `logging`."""

    def __init__(self, level: int, text: str) -> None:
        self.level: Final = level
        self.text: Final = text


class Work:
    """Everything that is to be done now."""

    def __init__(self) -> None:
        # Client connections that have something for their transports.
        self.clients: list[ClientConnection] = []
        self.transaction: Optional[DiskTransaction] = None
        self.reads: list[LogRead] = []
        # Peers to dial: report `Driver.dialled` or `Driver.dial_failed`.
        self.dials: list[int] = []
        # Peers' connections to close at once, whatever they still carry.
        self.hang_ups: list[int] = []
        self.notes: list[Note] = []
        # Call `Driver.merge` after so many ms; None: nothing is to be merged, or it is planned.
        self.merge_in_ms: Optional[float] = None
        # DEBUG SLEEP: everything stops for so long.
        self.sleep_ms = 0
        # A burst of writes is on disk: memory may be given back to the system.
        self.gives_back_memory = False
        # A client said SHUTDOWN: the region is to be stopped.
        self.stop_wanted = False
        # After `Driver.stop`: all is on disk, or cannot get there.
        self.has_stopped = False
