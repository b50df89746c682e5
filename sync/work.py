"""What the hub hands out to be done, as one value."""

from __future__ import annotations

from anabranch.sync.log_requests import Request


class HubWork:
    """`requests`: questions to the log, each with the number of its connection; report `Hub.answered`.

    `dials`: peers to dial; report `Hub.dial_opened` or `Hub.dial_failed`. `closes`: connections to
    close at once, whatever they still carry. `notes`: lines for the operator.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[int, Request]] = []
        self.dials: list[int] = []
        self.closes: list[int] = []
        self.notes: list[str] = []
