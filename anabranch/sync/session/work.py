"""The tasks that the hub hands to the driver, as one value."""

from __future__ import annotations

from anabranch.sync.session.events import LoggedEvent
from anabranch.sync.session.log_requests import Request


class HubWork:
    """Tasks for the driver, and the calls by which the driver reports their results.

    `requests`: questions to the log, each with the number of its connection; report by
    `Hub.answered`. `dials`: peers to dial; report by `Hub.dial_opened` or `Hub.dial_failed`.
    `closes`: connections to close at once, without sending what they still hold. `events`: lines
    of the operator's log.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[int, Request]] = []
        self.dials: list[int] = []
        self.closes: list[int] = []
        self.events: list[LoggedEvent] = []
