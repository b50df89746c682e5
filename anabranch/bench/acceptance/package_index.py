"""The Debian package index through three regions: each record exactly once, acknowledged once.

Three redis-py clients stream it, a third each, into three regions, while links are cut and healed.
Then one consumer group reads all records in one region, and XRANGE in the others; all must be equal
byte for byte. Records come from ``apt-cache dumpavail``: their fields differ, values run over
several lines and contain UTF-8. A record without a Homepage gets an empty one, so that empty values
are tested, too.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from anabranch.bench.acceptance.harness import (
    Chaos,
    Figures,
    entries_of,
    require_agreement,
    start_all,
)
from anabranch.cluster.errors import ClusterError
from anabranch.cluster.regions import ProcessCluster, RegionProcess

Record = tuple[tuple[bytes, bytes], ...]
"""Fields and values, in order."""

KEY = "packages"
GROUP = "indexer"
ALWAYS_FIELD = b"Homepage"
# Of the redis-py clients.
OPTIONS = {"decode_responses": False, "socket_timeout": 120.0}


def records_of(dump: bytes) -> list[Record]:
    """The records of a package index: blocks of lines, separated by empty lines.

    A line that begins with white space continues the value before it.
    """
    found: list[Record] = []
    for block in dump.split(b"\n\n"):
        fields: list[tuple[bytes, bytes]] = []
        for line in block.split(b"\n"):
            if line[:1] in (b" ", b"\t") and fields:
                name, value = fields[-1]
                fields[-1] = (name, value + b"\n" + line)
            elif line:
                name, colon, value = line.partition(b":")
                if not colon:
                    raise ValueError(f"no field: {line!r}")
                fields.append((name, value.removeprefix(b" ")))
        if fields:
            if all(name != ALWAYS_FIELD for name, _ in fields):
                fields.append((ALWAYS_FIELD, b""))
            found.append(tuple(fields))
    return found


def available() -> bytes:
    """The package index that apt has on this machine; ClusterError without apt."""
    try:
        return subprocess.run(["apt-cache", "dumpavail"], check=True, stdout=subprocess.PIPE).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise ClusterError(f"apt-cache dumpavail does not run here: {error}") from error


class Producer(threading.Thread):
    """Streams records into one region with redis-py, in small pipelines."""

    def __init__(
        self, region: RegionProcess, records: list[Record], batch: int, pause_s: float
    ) -> None:
        super().__init__(name=f"producer {region.name}", daemon=True)
        self.error: Exception | None = None
        self._region = region
        self._records = records
        self._batch = batch
        self._pause_s = pause_s

    def run(self) -> None:
        """The thread's body. An error ends the thread and is kept in `error`."""
        try:
            with self._region.client(**OPTIONS) as client:
                for at in range(0, len(self._records), self._batch):
                    with client.pipeline(transaction=False) as pipeline:
                        for record in self._records[at : at + self._batch]:
                            pipeline.xadd(KEY, dict(record))
                        pipeline.execute()
                    if self._pause_s:
                        time.sleep(self._pause_s)
        except Exception as error:
            self.error = error


def stream(records: list[Record], seed: int, batch: int, pause_s: float) -> Figures:
    """Runs the whole test on a new cluster.

    `pause_s` slows the producers down, so that even a small index meets some cuts.
    """
    figures = Figures(f"{len(records):,} records through three regions")
    wanted = Counter(records)
    figures.show(
        "bytes", sum(len(name) + len(value) for record in records for name, value in record)
    )
    figures.show(
        "values over several lines",
        sum(b"\n" in value for record in records for _, value in record),
    )
    figures.show("empty values", sum(not value for record in records for _, value in record))
    with ProcessCluster() as cluster:
        start_all(figures, cluster)
        producers = [
            Producer(region, records[n::3], batch, pause_s)
            for n, region in enumerate(cluster.regions.values())
        ]
        begun = time.monotonic()
        with Chaos(cluster, seed, cut_s_max=0.5, pause_s_max=0.3) as chaos:
            for producer in producers:
                producer.start()
            for producer in producers:
                producer.join()
        took_s = time.monotonic() - begun
        figures.require(
            "no producer had an error",
            not any(each.error for each in producers),
            [each.error for each in producers if each.error],
        )
        figures.show(
            "streamed in",
            took_s,
            f"s, {len(records) / took_s:,.0f} records a second, {chaos.cuts} cuts (seed {seed})",
        )
        require_agreement(figures, cluster)
        _require_read_by_group(figures, cluster, wanted)
        for name in ("eu", "ap"):
            found = Counter(
                tuple(zip(fields[0::2], fields[1::2], strict=True))
                for _, fields in entries_of(cluster[name], KEY)
            )
            figures.require(
                f"XRANGE in {name}: every record exactly once, byte for byte",
                found == wanted,
                _difference(found, wanted),
            )
    return figures


def _require_read_by_group(
    figures: Figures, cluster: ProcessCluster, wanted: Counter[Record]
) -> None:
    """Reads all records with one group in region us and acknowledges each.

    Then the group must have no entries left in any region.
    """
    found: Counter[Record] = Counter()
    acknowledged = 0
    with cluster["us"].client(**OPTIONS) as client:
        client.xgroup_create(KEY, GROUP, id="0")
        while reply := client.xreadgroup(GROUP, "worker", {KEY: ">"}, count=500):
            entries = next(iter(reply.values()))[0] if isinstance(reply, dict) else reply[0][1]
            for _, fields in entries:
                found[tuple(fields.items())] += 1
            acknowledged += int(client.xack(KEY, GROUP, *(entry_id for entry_id, _ in entries)))
        pending = client.xpending(KEY, GROUP)["pending"]
    figures.require(
        "the group in us: every record exactly once, byte for byte",
        found == wanted,
        _difference(found, wanted),
    )
    figures.require(
        "acknowledged once",
        acknowledged == sum(wanted.values()) and pending == 0,
        f"{acknowledged:,} acknowledged, {pending} pending",
    )
    cluster.level()
    for name in ("eu", "ap"):
        with cluster[name].client(**OPTIONS) as client:
            again = client.xreadgroup(GROUP, "worker", {KEY: ">"}, count=10)
            figures.require(f"nothing is left for the group in {name}", not again, again or 0)


def _difference(found: Counter[Record], wanted: Counter[Record]) -> str:
    missing, extra = wanted - found, found - wanted
    shown = f"{sum(found.values()):,} of {sum(wanted.values()):,}"
    if missing or extra:
        shown += (
            f"; missing {sum(missing.values())}, too many {sum(extra.values())},"
            f" such as {next(iter(missing or extra))[:3]!r}"
        )
    return shown


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="anabranch bench acceptance.package_index", description=__doc__
    )
    parser.add_argument("--file", type=Path, help="an index instead of the one that apt has here")
    parser.add_argument("--seed", type=int, default=10)
    given = parser.parse_args(arguments)
    dump = given.file.read_bytes() if given.file else available()
    return stream(records_of(dump), given.seed, batch=50, pause_s=0.0).finish()


if __name__ == "__main__":
    sys.exit(main())
