"""How long clients wait that come from an address from which wrong passwords came. Sans-IO.

The first `FREE_FAILURES` wrong passwords of an address delay nobody. Each further one lets all
clients of this address that have not given the password wait: `DELAY_MIN_MS`, doubled with every
wrong password, up to `DELAY_MAX_MS`. Their input waits in their connections meanwhile. After the
delay one of them is served at a time, in the order in which they came, until one of them gives
another wrong password. A right password ends the delays of its address. Other addresses, and
clients that have given the password, never wait.

An IPv6 client usually has a network of 64 bits to itself, which counts as one address.
"""

from __future__ import annotations

from collections import OrderedDict
from ipaddress import IPv6Network, ip_address
from typing import Final, Generic, TypeVar

FREE_FAILURES: Final = 10
DELAY_MIN_MS: Final = 10
DELAY_MAX_MS: Final = 1000
# An address is forgotten so long after its last wrong password, or when so many others came later.
FORGET_MS: Final = 600_000
SOURCES_MAX: Final = 1024

Waiter = TypeVar("Waiter")


class _Source(Generic[Waiter]):
    """An address: its wrong passwords, the end of its delay, and its clients that wait."""

    def __init__(self) -> None:
        self.failures = 0
        self.failed_ms = 0
        self.until_ms = 0
        self.waiting: Final[OrderedDict[Waiter, None]] = OrderedDict()


class LoginDelays(Generic[Waiter]):
    """The delays of all addresses. Times are steady times in ms, addresses are HOST:PORT."""

    def __init__(self) -> None:
        # The address whose last wrong password is the oldest comes first.
        self._sources: Final[OrderedDict[str, _Source[Waiter]]] = OrderedDict()
        self._source_of: Final[dict[Waiter, _Source[Waiter]]] = {}
        # Clients that no longer need to wait, because their address was forgotten.
        self._freed: list[Waiter] = []

    def must_wait(self, address: str, waiter: Waiter, now_ms: int) -> bool:
        """Whether a client must wait before its next command. `due` returns it later if so."""
        if not self._sources:
            return False
        source = self._sources.get(source_of(address))
        if source is None or not (now_ms < source.until_ms or source.waiting):
            return False
        source.waiting[waiter] = None
        self._source_of[waiter] = source
        return True

    def waits(self) -> bool:
        """Whether any client waits."""
        return bool(self._source_of or self._freed)

    def due(self, now_ms: int) -> list[Waiter]:
        """Removes and returns the clients whose next command may be executed now."""
        found, self._freed = self._freed, []
        if not self._source_of:
            return found
        for source in self._sources.values():
            if source.waiting and now_ms >= source.until_ms:
                waiter, _ = source.waiting.popitem(last=False)
                del self._source_of[waiter]
                found.append(waiter)
        return found

    def forget(self, waiter: Waiter) -> None:
        """A client is gone."""
        source = self._source_of.pop(waiter, None)
        if source is not None:
            del source.waiting[waiter]

    def failed(self, address: str, now_ms: int) -> None:
        """A client has given a wrong password."""
        name = source_of(address)
        source = self._sources.pop(name, None)
        if source is None:
            source = _Source()
            if len(self._sources) >= SOURCES_MAX:
                self._drop(next(iter(self._sources)))
        elif now_ms - source.failed_ms > FORGET_MS:
            source.failures = 0
        self._sources[name] = source
        source.failures += 1
        source.failed_ms = now_ms
        beyond = source.failures - FREE_FAILURES
        if beyond > 0:
            source.until_ms = now_ms + min(DELAY_MIN_MS << min(beyond - 1, 20), DELAY_MAX_MS)

    def passed(self, address: str) -> None:
        """A client has given the right password."""
        if self._sources and (name := source_of(address)) in self._sources:
            self._drop(name)

    def _drop(self, name: str) -> None:
        for waiter in self._sources.pop(name).waiting:
            del self._source_of[waiter]
            self._freed.append(waiter)


def source_of(address: str) -> str:
    """The host of an address HOST:PORT; of an IPv6 host its network of 64 bits."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        parsed = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if parsed.version == 4:
        return host
    mapped = parsed.ipv4_mapped
    return str(mapped) if mapped is not None else str(IPv6Network((int(parsed), 64), strict=False))
