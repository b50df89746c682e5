"""Idempotent adds that are retried in another region while links are cut for seconds.

Producers add with `XADD … IDMP` in one region and repeat each add in another region, as a client
does whose reply was lost. During a cut neither region knows the other's add, and each producer adds
more than `stream-idmp-maxsize` pairs. After healing every add must stand in the stream once (S9.2,
S9.3).
"""

from __future__ import annotations

import argparse
import collections
import random
import sys
import threading
import time

from anabranch.bench.acceptance.harness import (
    Chaos,
    Figures,
    entries_of,
    require_agreement,
    start_all,
)
from anabranch.cluster.client import RespClient
from anabranch.cluster.regions import ProcessCluster

KEY = "s"
# A producer retries an add after at most RETRY_S_MAX. At most AWAITING_MAX of its adds await their
# retry. A retry after more than maxsize newer pairs would be a new add (S9.3).
RETRY_S_MAX = 0.05
AWAITING_MAX = 10


class Producer(threading.Thread):
    """Adds at a fixed rate, each add in two regions. `acknowledged`: values that were answered."""

    def __init__(self, cluster: ProcessCluster, name: str, adds: int, rate: float, seed: int):
        super().__init__(name=name, daemon=True)
        self.acknowledged: set[bytes] = set()
        self.error: Exception | None = None
        self._cluster = cluster
        self._adds = adds
        self._rate = rate
        self._random = random.Random(seed)

    def run(self) -> None:
        try:
            clients = {name: region.connect() for name, region in self._cluster.regions.items()}
            begun = time.monotonic()
            retries: collections.deque[tuple[float, str, str]] = collections.deque()
            for number in range(self._adds):
                first, second = self._random.sample(sorted(clients), 2)
                self._add(clients[first], f"{self.name}-{number}")
                retry_s = time.monotonic() + self._random.random() * RETRY_S_MAX
                retries.append((retry_s, second, f"{self.name}-{number}"))
                while len(retries) > AWAITING_MAX:
                    _, region, value = retries.popleft()
                    self._add(clients[region], value)
                due_s = begun + (number + 1) / self._rate
                while time.monotonic() < due_s:
                    if retries and retries[0][0] <= time.monotonic():
                        _, region, value = retries.popleft()
                        self._add(clients[region], value)
                    else:
                        time.sleep(0.001)
            for _, region, value in retries:
                self._add(clients[region], value)
            for client in clients.values():
                client.close()
        except Exception as error:
            self.error = error

    def _add(self, client: RespClient, value: str) -> None:
        client.ask("XADD", KEY, "IDMP", self.name, value, "*", "f", value)
        self.acknowledged.add(value.encode())


def retry(seconds: float, rate: float, producers: int, cut_s: float, seed: int) -> Figures:
    """Adds `rate` a second for `seconds`, each in two regions; requires that none stands twice."""
    title = f"{rate:g} idempotent adds a second, each retried, under cuts of {cut_s:g} s"
    figures = Figures(title)
    with ProcessCluster() as cluster:
        start_all(figures, cluster)
        adds = round(seconds * rate / producers)
        threads = [
            Producer(cluster, f"p{number}", adds, rate / producers, seed + number)
            for number in range(producers)
        ]
        with Chaos(cluster, seed, cut_s_max=cut_s, pause_s_max=2.0, cut_s_min=cut_s) as chaos:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        for thread in threads:
            figures.require(f"{thread.name} was answered", thread.error is None, thread.error or "")
        figures.show("adds", adds * producers, f"each sent twice, {chaos.cuts} cuts (seed {seed})")
        require_agreement(figures, cluster)
        for name, region in cluster.regions.items():
            info = region.info()
            figures.show(f"{name}: conflicts", int(info["crdt_idmp_conflicts"]))
            figures.show(f"{name}: pairs forgotten", int(info["crdt_idmp_evicted_early"]))
            values = collections.Counter(fields[1] for _, fields in entries_of(region, KEY))
            twice = sum(1 for count in values.values() if count > 1)
            figures.require(f"{name}: none twice", twice == 0, twice)
            expected = {value for thread in threads for value in thread.acknowledged}
            missing = len(expected - set(values))
            figures.require(f"{name}: none missing", missing == 0, missing)
    return figures


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="anabranch bench acceptance.idempotent_retries", description=__doc__
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=100.0, help="adds a second, all together")
    parser.add_argument("--producers", type=int, default=2)
    parser.add_argument("--cut", type=float, default=5.0, help="seconds that a cut lasts")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    return retry(given.seconds, given.rate, given.producers, given.cut, given.seed).finish()


if __name__ == "__main__":
    sys.exit(main())
