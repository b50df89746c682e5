"""Samples the vector of each region during a run, for the lag in the report."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from anabranch.answers import vector_of
from anabranch.chaos.clients import connect
from anabranch.chaos.history import History

EVERY_S = 0.5
# A region that does not answer for this time shows as a gap.
TIMEOUT_S = 1.0


@dataclass(frozen=True)
class Sample:
    """The vector on a region's disk at one moment; None if the region did not answer."""

    at_s: float
    region: str
    vector: dict[int, int] | None


class Observer(threading.Thread):
    """Samples one region until `stop`."""

    def __init__(self, region: str, port: int, history: History) -> None:
        super().__init__(name=f"observer {region}", daemon=True)
        self.samples: list[Sample] = []
        self._region = region
        self._port = port
        self._history = history
        self._over = threading.Event()

    def stop(self) -> None:
        """Ends the sampling."""
        self._over.set()

    def run(self) -> None:
        import redis

        client = connect(self._port, TIMEOUT_S)
        try:
            while not self._over.wait(EVERY_S):
                try:
                    vector = vector_of(client.execute_command("CRDT.VECTOR"))
                except (redis.exceptions.RedisError, OSError):
                    vector = None
                self.samples.append(Sample(self._history.now_s(), self._region, vector))
        finally:
            client.close()


def lags(samples: list[Sample]) -> dict[str, list[tuple[float, int | None]]]:
    """region → (time, effects that it lacks of those that some region had reported by then).

    None in place of the number: the region did not answer.
    """
    newest: dict[int, int] = {}
    found: dict[str, list[tuple[float, int | None]]] = {}
    for sample in sorted(samples, key=lambda one: one.at_s):
        line = found.setdefault(sample.region, [])
        if sample.vector is None:
            line.append((sample.at_s, None))
            continue
        for origin, counter in sample.vector.items():
            newest[origin] = max(counter, newest.get(origin, 0))
        lacking = sum(counter - sample.vector.get(origin, 0) for origin, counter in newest.items())
        line.append((sample.at_s, lacking))
    return found
