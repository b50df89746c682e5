"""The table of all settings: name, type, default and bounds.

Flags, TOML keys, environment variables, CONFIG GET/SET and docs derive from it.
"""

from __future__ import annotations

from typing import Optional

from anabranch.region.engine.access_settings import ACCESS
from anabranch.region.engine.client_settings import CLIENTS
from anabranch.region.engine.setting import Setting, Value
from anabranch.region.engine.tls_settings import SYNC_TLS

ALL: list[Setting] = [
    # Streams
    Setting(
        "crdt-xadd-id-uniqueness-mode",
        "strict",
        "Which IDs XADD accepts.",
        choices=["strict", "semi-strict", "liberal"],
        rule="S4.2",
    ),
    Setting(
        "stream-node-max-entries",
        100,
        "Entries in one packed node; 0: no limit.",
        maximum=1 << 16,
        rule="S12.1",
    ),
    Setting(
        "stream-node-max-bytes",
        4096,
        "Bytes in one packed node; 0: no limit.",
        maximum=1 << 30,
        is_bytes=True,
        rule="S12.1",
    ),
    Setting(
        "stream-idmp-duration",
        100,
        "Seconds for which a repeated idempotent add is answered with the first entry's ID, in "
        "every stream without XCFGSET; the region's present value counts, also for pairs that it "
        "already holds.",
        minimum=1,
        maximum=86400,
        rule="S9.1",
    ),
    Setting(
        "stream-idmp-maxsize",
        100,
        "Idempotency pairs of one producer that answer retries, in every stream without XCFGSET; "
        "the region's present value counts, from the producer's next add on.",
        minimum=1,
        maximum=10000,
        rule="S9.3",
    ),
    Setting(
        "crdt-idmp-retired-max",
        100_000,
        "Retired idempotency pairs that the region keeps: those beyond their producer's maxsize, "
        "which answer no retries and still recognise conflicts until they are stable. Above this "
        "limit pairs are forgotten early, and a duplicate may stay.",
        rule="S9.3",
    ),
    # Durability
    Setting(
        "appendfsync",
        "everysec",
        "When a reply leaves: after its commit (always), or at once with a commit within a second "
        "(everysec) or with the next sync round (no).",
        choices=["always", "everysec", "no"],
        rule="S13.2",
    ),
    Setting(
        "crdt-block-max-bytes",
        1 << 20,
        "A block is cut at this size.",
        minimum=1,
        is_bytes=True,
        rule="S1.4",
    ),
    Setting(
        "crdt-unit-max-bytes",
        64 << 20,
        "Most bytes of one MULTI or RENAME.",
        minimum=1,
        is_bytes=True,
        rule="S1.2",
    ),
    Setting(
        "crdt-log-max-bytes",
        1 << 30,
        "Most bytes of the effect log kept for peers; a peer that needs older effects pulls a "
        "snapshot.",
        is_bytes=True,
        rule="S14",
    ),
    Setting(
        "crdt-log-max-effects", 0, "Most effects of the effect log kept for peers; 0: no limit."
    ),
    Setting(
        "crdt-log-tail-max-bytes",
        16 << 20,
        "Most bytes of new blocks kept in memory for connected peers that have yet to read them.",
        minimum=1,
        is_bytes=True,
        mutable=False,
    ),
    Setting(
        "crdt-uncommitted-max-bytes",
        256 << 20,
        "Most bytes that may wait for the disk; above this, writes are refused.",
        minimum=1,
        is_bytes=True,
        rule="S14",
    ),
    Setting(
        "crdt-checkpoint-interval-ms",
        2000,
        "Least time between the beginnings of two checkpoints.",
        minimum=1,
    ),
    Setting(
        "crdt-checkpoint-max-bytes",
        8 << 20,
        "A checkpoint begins early when the log has grown by so many bytes.",
        minimum=1,
        is_bytes=True,
    ),
    Setting(
        "crdt-slice-max-bytes",
        1 << 20,
        "Bytes after which a checkpoint slice ends.",
        minimum=1,
        is_bytes=True,
        mutable=False,
        rule="S13.1",
    ),
    # Sync
    Setting(
        "crdt-sync-interval-ms",
        5,
        "Least time between two sync rounds.",
        maximum=60000,
        rule="S2.5",
    ),
    Setting("crdt-heartbeat-interval-ms", 200, "Time between heartbeats on a link.", minimum=1),
    Setting(
        "crdt-link-silence-ms",
        10000,
        "Time without a message after which a link counts as dead and is dialled again; at least "
        "50 times crdt-heartbeat-interval-ms.",
        minimum=1,
    ),
    Setting(
        "crdt-reconnect-min-ms",
        50,
        "First pause before a link is dialled again.",
        minimum=1,
        mutable=False,
    ),
    Setting(
        "crdt-reconnect-max-ms",
        1000,
        "Longest pause before a link is dialled again.",
        minimum=1,
        mutable=False,
    ),
    Setting(
        "crdt-start-patience-ms",
        2000,
        "Longest time that a start waits for the answers of the other members.",
        mutable=False,
        rule="S13.6",
    ),
    Setting(
        "crdt-snapshot-patience-ms",
        5000,
        "Time without progress on any link after which a region asks for a snapshot.",
        rule="S11.1",
    ),
    Setting(
        "crdt-body-patience-ms",
        200,
        "Time after a header without its block, after which the body is requested.",
        rule="S2.3",
    ),
    Setting(
        "crdt-clock-offset-max-ms",
        500,
        "Most that the clock of a region may differ from those of most other members; a region that"
        " differs more takes no writes, and a clock that is further ahead counts for nothing. 0: no"
        " limit.",
        mutable=False,
        rule="S10.2",
    ),
    Setting(
        "crdt-expiry-grace-ms",
        60000,
        "Time after a deadline in which only the winner's region may issue the removal.",
        rule="S10.3",
    ),
    Setting(
        "crdt-batch-max-bytes",
        1 << 20,
        "Bytes of blocks in one sync message; a larger block is split.",
        minimum=1,
        maximum=8 << 20,
        is_bytes=True,
    ),
    Setting(
        "crdt-window-max-bytes",
        8 << 20,
        "Most bytes sent to a peer and not yet acknowledged.",
        minimum=1,
        is_bytes=True,
    ),
    Setting(
        "crdt-snapshot-max-bytes",
        4 << 30,
        "Most bytes of a staged snapshot that this region accepts.",
        minimum=1,
        is_bytes=True,
    ),
    Setting("crdt-compression", "zstd", "Compression of sync messages.", choices=["zstd", "none"]),
    Setting(
        "crdt-collect-interval-ms",
        500,
        "Time between two searches for data that has become stable and can be dropped.",
        minimum=1,
        rule="S6.2, S9.2, S10.6",
    ),
    Setting(
        "crdt-clock-interval-ms",
        10000,
        "Longest time between two commits of this region's clock while nothing else is written and "
        "no client asks for the stable time.",
        minimum=1,
        rule="S7.7",
    ),
    Setting(
        "crdt-tombstone-alarm",
        100000,
        "Number of group tombstones above which an alarm is raised.",
        rule="S6.2",
    ),
    Setting(
        "crdt-ready-lag-ms",
        10000,
        "How far behind another region `/ready` lets this one be, unless the request says it.",
    ),
    Setting(
        "crdt-metrics-streams-max",
        0,
        "Most streams, and most groups, that have metrics of their own in `/metrics`; 0: none.",
        maximum=10000,
    ),
    # Clients
    *CLIENTS,
    *ACCESS,
    *SYNC_TLS,
    Setting(
        "slowlog-log-slower-than",
        10_000,
        "Microseconds from which on a command enters the slow log (SLOWLOG); 0: every command, -1: "
        "none. Equal commands that follow each other in a pipeline are measured together, and so "
        "are the commands of a transaction.",
        minimum=-1,
    ),
    Setting(
        "slowlog-max-len",
        128,
        "Most entries of the slow log. Above this the oldest entries go. An entry takes at most "
        "some 8 KiB of memory.",
    ),
    Setting("log-format", "text", "Lines of the log.", choices=["text", "json"], mutable=False),
    # Tests of a whole cluster
    Setting(
        "crdt-clock-offset-ms",
        0,
        "Added to the machine's clock, in ms; for tests in which the clocks of regions differ.",
        minimum=-86_400_000,
        maximum=86_400_000,
        mutable=False,
    ),
    Setting(
        "crdt-tape-max-bytes",
        0,
        "Bytes of tapes, the calls of the region as `anabranch judge` reads them, in the folder "
        "`tape` of the data directory; 0: none.",
        is_bytes=True,
        mutable=False,
    ),
    # Settings that cannot change, present because tools ask for them
    Setting("appendonly", "yes", "Always yes: the log is the persistence.", fixed=True),
    Setting("save", "", "Always empty: the log is the persistence.", fixed=True),
    Setting("databases", 1, "Always 1: a region has one keyspace.", fixed=True),
    Setting("maxmemory", 0, "Always 0: a region has no limit and evicts nothing.", fixed=True),
    Setting(
        "maxmemory-policy", "noeviction", "Always noeviction: a region evicts nothing.", fixed=True
    ),
]

BY_NAME: dict[str, Setting] = {setting.name: setting for setting in ALL}


class Settings:
    """The current values, by name.

    `changes` counts changes, so that hot paths can keep copies of values and notice a change.
    `ceilings`: the greatest values that the system allows, by name, as found at the start.
    """

    def __init__(self, values: Optional[dict[str, Value]] = None) -> None:
        self.ceilings: dict[str, int] = {}
        self.values: dict[str, Value] = {setting.name: setting.default for setting in ALL}
        self.changes = 0
        for name, value in (values or {}).items():
            self.set(name, str(value))

    def set(self, name: str, text: str) -> None:
        """Parses and sets a value.

        Raises:
            KeyError: No setting has that name.
            ValueError: The value is wrong. The message names the expected form.
        """
        self.values[name] = BY_NAME[name].parse(text)
        self.changes += 1

    def integer(self, name: str) -> int:
        value = self.values[name]
        assert isinstance(value, int)
        return value

    def text(self, name: str) -> str:
        value = self.values[name]
        assert isinstance(value, str)
        return value


class CachedSettings:
    """Copies of the settings that hot paths read."""

    def __init__(self, settings: Settings) -> None:
        self.id_mode = "strict"
        self.is_always = False
        self.uncommitted_max_bytes = 0
        self.command_max_keys = 0
        self.refresh(settings)

    def refresh(self, settings: Settings) -> None:
        """Copies the current values."""
        self.id_mode = settings.text("crdt-xadd-id-uniqueness-mode")
        self.is_always = settings.text("appendfsync") == "always"
        self.uncommitted_max_bytes = settings.integer("crdt-uncommitted-max-bytes")
        self.command_max_keys = settings.integer("crdt-command-max-keys")
