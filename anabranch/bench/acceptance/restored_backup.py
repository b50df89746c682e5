"""A region is restored from a copy of its files that lacks its last effects, and is not told.

It must detect that its peers hold more of its effects than it does (S13.6), issue no effect until
it has them back (S13.7), and then continue after them: a counter that was used never gets another
content. The program runs this twice: with all peers reachable, and with one peer frozen for a
while. Meanwhile writes are refused with READONLY, and reads are served.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import threading
import time

from anabranch.answers import vector_of
from anabranch.bench.acceptance.harness import Figures, require_agreement, start_all, wait_for
from anabranch.cluster.errors import ClusterError, ConnectionFailed
from anabranch.cluster.regions import ProcessCluster, RegionProcess
from anabranch.region.resp.decoder import ErrorText

KEY = "s"
US, EU, AP = "us", "eu", "ap"
PATIENCE_S = 120.0

Contents = dict[int, tuple[bytes, ...]]
"""Counter → the contents that `CRDT.LOG` shows of the entry with that dot."""


def contents_of(region: RegionProcess, origin: str) -> Contents:
    """The contents of one region log, by counter."""
    found: Contents = {}
    for row in region.ask("CRDT.LOG", KEY, origin, timeout_s=120.0):
        entry = dict(zip(row[::2], row[1::2], strict=True))
        counter = int(entry[b"counter"])
        if counter in found:
            raise ClusterError(f"CRDT.LOG gives counter {counter} twice")
        found[counter] = (entry[b"id"], *entry[b"fields"])
    return found


class Client(threading.Thread):
    """Writes to the restored region from its first answer on, and records the replies."""

    def __init__(self, region: RegionProcess) -> None:
        super().__init__(name="client", daemon=True)
        self.refusals: list[str] = []
        self.others: list[str] = []
        self.vector_at_first_add: dict[int, int] = {}
        self.added = 0
        self.reads_while_refused = 0
        self._region = region
        self._stopping = threading.Event()

    def run(self) -> None:
        """The thread's body."""
        while not self._stopping.is_set():
            try:
                with self._region.connect(PATIENCE_S) as client:
                    while not self._stopping.is_set():
                        reply = client.call("XADD", KEY, "*", "after", self.added)
                        if isinstance(reply, bytes):
                            if not self.added:
                                self.vector_at_first_add = vector_of(client.ask("CRDT.VECTOR"))
                            self.added += 1
                        elif isinstance(reply, ErrorText) and reply.text.startswith("READONLY"):
                            self.refusals.append(reply.text)
                            self.reads_while_refused += isinstance(client.call("XLEN", KEY), int)
                        else:
                            self.others.append(repr(reply))
                        time.sleep(0.002)
            except ConnectionFailed:
                time.sleep(0.01)

    def stop(self) -> None:
        """Ends the thread."""
        self._stopping.set()
        self.join(PATIENCE_S)


def restore(lost: int, frozen_peer: bool) -> Figures:
    """Runs the test with `lost` effects after the copy; `frozen_peer`: ap is stopped meanwhile."""
    peers = (
        f"{EU} and {AP} reachable"
        if not frozen_peer
        else f"{EU} reachable, {AP} frozen for a while"
    )
    figures = Figures(f"restored from a copy without the last {lost:,} effects, {peers}")
    with ProcessCluster() as cluster:
        start_all(figures, cluster)
        _add(cluster[US], "before", lost)
        cluster.level()
        backup = cluster.directory / "backup"
        cluster.stop(US)
        shutil.copytree(cluster[US].data, backup)
        cluster.start(US)
        _add(cluster[US], "lost", lost)
        known = cluster.level()[1]
        written = contents_of(cluster[EU], US)
        cluster.kill(US)
        shutil.rmtree(cluster[US].data)
        shutil.copytree(backup, cluster[US].data)
        if frozen_peer:
            cluster.pause(AP)
        try:
            client = Client(cluster[US])
            cluster.start(US, wait=False)
            client.start()
            if frozen_peer:
                wait_for(lambda: bool(client.refusals), "a refusal while a peer is frozen")
                # The client reads after its refusal: the answer may still be on its way.
                wait_for(lambda: client.reads_while_refused > 0, "a read while a peer is frozen")
                figures.require(
                    "while a peer is frozen, nothing is issued",
                    _own(cluster[EU]) <= known,
                    _own(cluster[EU]),
                )
                figures.show("reads served meanwhile", client.reads_while_refused)
        finally:
            if frozen_peer:
                cluster.resume(AP)
        wait_for(lambda: client.added >= 100, "100 adds after the recovery")
        client.stop()
        _require_recovered(figures, cluster, client, written, known)
        require_agreement(figures, cluster)
    return figures


def _require_recovered(
    figures: Figures, cluster: ProcessCluster, client: Client, written: Contents, known: int
) -> None:
    text = client.refusals[0] if client.refusals else ""
    figures.show("writes refused", len(client.refusals), text)
    figures.show("adds after it", client.added)
    figures.require("no other error", not client.others, client.others[:3])
    noticed = cluster[US].log.read_text(errors="replace")
    figures.require(
        "detected without a flag",
        bool(client.refusals) or "recover" in noticed.lower(),
        "said so in its log or to clients",
    )
    if client.refusals:
        figures.require("the refusal says why", "in recovery, waiting for" in text, text)
    first = client.vector_at_first_add.get(1, 0)
    figures.require(
        "the first effect comes after all that peers held",
        first > known,
        f"{first:,} after {known:,}",
    )
    cluster.level()
    logs = {name: contents_of(region, US) for name, region in cluster.regions.items()}
    figures.require(
        "no dot has two contents",
        all(log == logs[US] for log in logs.values()),
        f"{len(logs[US]):,} dots in 3 regions",
    )
    changed = [counter for counter, content in written.items() if logs[EU].get(counter) != content]
    figures.require(
        "no dot changed its content", not changed, f"{len(changed)} of {len(written):,}"
    )
    figures.show(
        "state",
        {
            field: value
            for field, value in cluster[US].info().items()
            if "recover" in field or field == "crdt_state"
        },
    )
    figures.show("digest", cluster[US].digest())


def _own(region: RegionProcess) -> int:
    """The number of region us's effects that a region holds."""
    return region.vector().get(1, 0)


def _add(region: RegionProcess, value: str, count: int) -> None:
    with region.connect() as client:
        for number in range(count):
            client.ask("XADD", KEY, "*", value, number)


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="anabranch bench acceptance.restored_backup", description=__doc__
    )
    parser.add_argument("--lost", type=int, default=1000, help="effects after the copy")
    given = parser.parse_args(arguments)
    return max(restore(given.lost, frozen).finish() for frozen in (False, True))


if __name__ == "__main__":
    sys.exit(main())
