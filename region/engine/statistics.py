"""Counters for INFO and /metrics, since the start."""

from __future__ import annotations

from anabranch.region.engine.replies import ErrorReply

# Limit of error codes that are counted separately, because clients can cause new codes.
_CODES_MAX = 128


class CommandStatistics:
    """Counters of commands, errors and connections of clients."""

    def __init__(self) -> None:
        self.commands = 0
        self.calls: dict[str, int] = {}
        self.failed: dict[str, int] = {}
        self.rejected: dict[str, int] = {}
        self.errors: dict[str, int] = {}
        self.error_replies = 0
        self.connections = 0
        self.unit_max_bytes_refused = 0

    def reset(self) -> None:
        """CONFIG RESETSTAT."""
        self.__init__()  # type: ignore[misc]

    def count_error(self, reply: ErrorReply) -> None:
        """Counts an error reply by its code."""
        code = reply.message.split(" ", 1)[0]
        self.error_replies += 1
        if code in self.errors or len(self.errors) < _CODES_MAX:
            self.errors[code] = self.errors.get(code, 0) + 1


class ReplicationStatistics:
    """Counters of merges, snapshots, rounds, conflicts, expiry and protocol errors of peers."""

    def __init__(self) -> None:
        self.effects_merged = 0
        self.blocks_merged = 0
        self.snapshots_joined = 0
        self.snapshots_cut = 0
        self.gaps = 0
        self.forks = 0
        self.divergences = 0
        self.idmp_conflicts = 0
        self.expired_keys = 0
        self.expired_early = 0
        self.rounds = 0
        self.acknowledgements = 0

    def reset(self) -> None:
        """CONFIG RESETSTAT."""
        self.__init__()  # type: ignore[misc]
