"""Counters and measured times for INFO and /metrics, since the start."""

from __future__ import annotations

from anabranch.crdt.effects import Effect
from anabranch.crdt.vector import Vector
from anabranch.region.engine.access_log import AccessLog
from anabranch.region.engine.histogram import Histogram
from anabranch.region.engine.replies import ErrorReply
from anabranch.region.engine.slow_log import SlowLog

# Limit of error codes that are counted separately, because clients can cause new codes.
_CODES_MAX = 128
# The buckets of the times of commands, of transactions on disk, and of sync, in µs.
_COMMAND_US = (1, 1_000_000)
_DISK_US = (100, 10_000_000)
_SYNC_US = (1_000, 60_000_000)


class CommandStatistics:
    """Counters of commands, errors and connections of clients, and the log of slow commands."""

    def __init__(self) -> None:
        self.commands = 0
        self.calls: dict[str, int] = {}
        self.failed: dict[str, int] = {}
        self.rejected: dict[str, int] = {}
        self.errors: dict[str, int] = {}
        self.error_replies = 0
        self.connections = 0
        self.unit_max_bytes_refused = 0
        self.unit_max_commands_refused = 0
        self.command_max_keys_refused = 0
        self.wrong_passwords = 0
        # Time by command: reading the request, executing it, encoding the reply.
        self.times: dict[bytes, Histogram] = {}
        self.slow_log = SlowLog()
        self.access_log = AccessLog()

    def reset(self) -> None:
        """CONFIG RESETSTAT. The slow log and that of wrong passwords stay, as in Redis."""
        slow_log, access_log = self.slow_log, self.access_log
        self.__init__()  # type: ignore[misc]
        self.slow_log, self.access_log = slow_log, access_log

    def count_error(self, reply: ErrorReply) -> None:
        """Counts an error reply by its code."""
        code = reply.message.split(" ", 1)[0]
        self.error_replies += 1
        if code in self.errors or len(self.errors) < _CODES_MAX:
            self.errors[code] = self.errors.get(code, 0) + 1

    def count_time(self, command: bytes, calls: int, time_us: int) -> None:
        """Counts the time that `calls` calls of one command took together."""
        histogram = self.times.get(command)
        if histogram is None:
            histogram = self.times[command] = Histogram(*_COMMAND_US)
        histogram.observe(time_us, calls)


class Traffic:
    """What was exchanged with one peer, over the links in both directions.

    Bytes are those of whole messages, after compression. A round ends when the side that receives
    effects reports that it has further effects of other regions on its disk.
    """

    def __init__(self) -> None:
        self.sent_bytes = 0
        self.sent_messages = 0
        self.sent_rounds = 0
        self.received_bytes = 0
        self.received_messages = 0
        self.received_rounds = 0

    def reset(self) -> None:
        """CONFIG RESETSTAT."""
        self.__init__()  # type: ignore[misc]


def ends_round(before: Vector, after: Vector, holder: int) -> bool:
    """Whether `after`, which region `holder` reports, has effects of others that `before` lacks."""
    for region_id, counter in after.items():
        if region_id != holder and counter > before.get(region_id, 0):
            return True
    return False


class ReplicationStatistics:
    """Counters of merges, snapshots, rounds, conflicts, expiry and protocol errors of peers.

    Also the times of transactions on disk, and of effects on their way from other regions.
    """

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
        # Effects that were merged here, by their class.
        self.merged_by_kind: dict[type[Effect], int] = {}
        # Time of transactions by kind: from the driver's decision until they are on disk.
        self.disk_times: dict[str, Histogram] = {
            "commit": Histogram(*_DISK_US),
            "checkpoint": Histogram(*_DISK_US),
        }
        # Time by region of origin: from a commit there to the commit here.
        self.sync_delays: dict[int, Histogram] = {}

    def count_sync_delay(self, origin: int, delay_ms: int) -> None:
        """Counts how long an effect of `origin` took from its disk to this region's disk."""
        histogram = self.sync_delays.get(origin)
        if histogram is None:
            histogram = self.sync_delays[origin] = Histogram(*_SYNC_US)
        histogram.observe(1000 * delay_ms)

    def reset(self) -> None:
        """CONFIG RESETSTAT."""
        self.__init__()  # type: ignore[misc]
