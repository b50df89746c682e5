"""What all clients share: a thread with redis-py that fails over when a region is silent."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from anabranch.chaos.history import OK, REFUSED, UNKNOWN, History

# A paused region answers nothing: after this time a client tries another one.
TIMEOUT_S: Final = 3.0
# Time that a client spends elsewhere before it tries its home region again.
AWAY_S: Final = 3.0
PAUSE_AFTER_FAILURE_S: Final = 0.1

Reply = TypeVar("Reply")


class Workplace:
    """What the clients of a run share: the addresses of the regions, the history, and the end."""

    def __init__(self, ports: Mapping[str, int], history: History, seed: int) -> None:
        self.ports = dict(ports)
        self.history = history
        self.seed = seed
        self.stop = threading.Event()
        # Set when a region has acknowledged an add.
        self.acknowledged = {name: threading.Event() for name in ports}
        self._replies = 0
        self._lock = threading.Lock()

    def next_reply(self) -> int:
        """A number for a reply of a group."""
        with self._lock:
            self._replies += 1
            return self._replies


def connect(port: int, timeout_s: float = TIMEOUT_S) -> Any:
    """A redis-py client that sends each command once: a retry would add an entry twice."""
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    return redis.Redis(
        host="127.0.0.1",
        port=port,
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        retry=Retry(NoBackoff(), 0),
        decode_responses=True,
        # Values may be any bytes.
        encoding_errors="surrogateescape",
        protocol=2,
    )


class Client(threading.Thread):
    """One client. `home`: the region that it prefers. `error` is set if the thread failed."""

    def __init__(self, place: Workplace, name: str, home: str) -> None:
        super().__init__(name=name, daemon=True)
        self.place: Final = place
        self.history: Final = place.history
        self.home: Final = home
        self.region = home
        self.error: BaseException | None = None
        self.random: Final = random.Random(f"{place.seed}/{name}")
        self._back_s = 0.0
        self._connections: dict[str, Any] = {}

    def act(self) -> None:
        """Does one thing; called again and again until the end."""
        raise NotImplementedError

    def run(self) -> None:
        try:
            while not self.place.stop.is_set():
                self._choose_region()
                self.act()
        except BaseException as error:
            self.error = error
        finally:
            for connection in self._connections.values():
                connection.close()

    def pause(self, mean_s: float) -> None:
        """Thinks for a random time; ends early when the run does."""
        self.place.stop.wait(self.random.expovariate(1 / mean_s))

    def _choose_region(self) -> None:
        if self.region != self.home and self.history.now_s() > self._back_s:
            self.region = self.home

    def fail_over(self) -> None:
        """Goes to another region for a while."""
        others = [name for name in self.place.ports if name != self.region]
        self.region = self.random.choice(others)
        self._back_s = self.history.now_s() + AWAY_S
        self.place.stop.wait(PAUSE_AFTER_FAILURE_S)

    def hang_up(self, region: str) -> None:
        """Drops the connection to a region, as a process that crashes does."""
        connection = self._connections.pop(region, None)
        if connection is not None:
            connection.close()

    def ask(
        self, region: str, question: Callable[[Any], Reply]
    ) -> tuple[str, Reply | None, float, float]:
        """Asks a region with a redis-py client.

        Returns the outcome, the reply if it is OK, and the times before and after.
        """
        import redis

        if region not in self._connections:
            self._connections[region] = connect(self.place.ports[region])
        sent_s = self.history.now_s()
        try:
            reply = question(self._connections[region])
        except redis.exceptions.ResponseError as error:
            return self.refused(error), None, sent_s, self.history.now_s()
        except (redis.exceptions.RedisError, OSError):
            self.hang_up(region)
            return UNKNOWN, None, sent_s, self.history.now_s()
        return OK, reply, sent_s, self.history.now_s()

    def refused(self, error: Exception) -> str:
        """Counts an error with which a region refused; returns that outcome."""
        import redis

        # redis-py takes the code off the errors that it has a class for.
        code = "READONLY " if isinstance(error, redis.exceptions.ReadOnlyError) else ""
        self.history.refusals[f"{code}{error}"[:120]] += 1
        return REFUSED
