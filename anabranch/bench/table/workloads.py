"""What clients send for the rows that compare rates with redis-server.

Reads use one stream, `READ`, whose IDs and values all have the same width, so that the size of each
reply is known before. redis-benchmark sends the workloads without pipelines; the client of this
package sends all others.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from anabranch.bench.table.client import Traffic, drive
from anabranch.bench.table.servers import RegionServer, Server, answered
from anabranch.region.resp.request import Word, command

ADDED: Final = "s"
READ: Final = "read"
GROUP: Final = "g"
CONSUMER: Final = "c"
VALUE: Final = b"0123456789abcdef"
CLIENTS: Final = 50
READERS: Final = 10
PLACES: Final = 97
"""Batches that begin at different places of a stream, or go to different keys."""
MANY_KEYS: Final = 100
ENTRIES_MAX: Final = 200_000
ENTRIES_MIN: Final = 4_000
_PAGE: Final = 1000
_FILL_PIPELINE: Final = 100
_IDS_A_MS: Final = 10
_FIRST_MS: Final = 1_700_000_000_000


class Workload(NamedTuple):
    """The load of one row."""

    traffic: Callable[[], Traffic]
    batches: int
    """In one run; with `argv`, the commands of one run."""
    prepare: Callable[[Server], None]
    """Brings the server into the state of each run, before that run."""
    argv: Sequence[str] = ()
    """If given, redis-benchmark sends this command over the clients of `traffic`."""


def entry_id(number: int) -> str:
    """The ID of the entry with this number, counted from 0. All IDs have the same width."""
    return f"{_FIRST_MS + number // _IDS_A_MS}-{number % _IDS_A_MS}"


def _entry(number: int = 0) -> bytes:
    """An entry as the replies have it."""
    fields = b"*2\r\n$1\r\nf\r\n$%d\r\n%s\r\n" % (len(VALUE), VALUE)
    one = entry_id(number).encode()
    return b"*2\r\n$%d\r\n%s\r\n" % (len(one), one) + fields


def _page_bytes(count: int) -> int:
    """The size of a reply of XRANGE with so many entries."""
    return len(b"*%d\r\n" % count) + count * len(_entry())


def _read_bytes(count: int) -> int:
    """The size of a reply of XREAD and XREADGROUP with so many entries."""
    return len(b"*1\r\n*2\r\n$%d\r\n%s\r\n" % (len(READ), READ.encode())) + _page_bytes(count)


def fill(server: Server, entries: int) -> None:
    """Makes the stream `READ` of so many entries, if it is not there."""
    if answered(server.port, "XLEN", READ) == entries:
        return
    answered(server.port, "DEL", READ)
    is_region = isinstance(server, RegionServer)
    if is_region:
        server.call("CONFIG", "SET", "crdt-xadd-id-uniqueness-mode", "semi-strict")
    adds = [command("XADD", READ, entry_id(number), "f", VALUE) for number in range(entries)]
    batches = [
        b"".join(adds[first : first + _FILL_PIPELINE])
        for first in range(0, entries, _FILL_PIPELINE)
    ]
    drive(server.port, Traffic(batches, _FILL_PIPELINE, 1, _FILL_PIPELINE), len(batches))
    if is_region:
        server.call("CONFIG", "SET", "crdt-xadd-id-uniqueness-mode", "strict")


def entries_of(scale: float) -> int:
    """The entries of `READ`: whole pages."""
    return max(ENTRIES_MIN, int(ENTRIES_MAX * min(scale, 1.0)) // _PAGE * _PAGE)


def _new_group(entries: int) -> Callable[[Server], None]:
    def prepare(server: Server) -> None:
        fill(server, entries)
        answered(server.port, "XGROUP", "DESTROY", READ, GROUP)
        server.call("XGROUP", "CREATE", READ, GROUP, "0")

    return prepare


def _all_pending(entries: int, again: bool) -> Callable[[Server], None]:
    """All entries are pending. `again`: before each run, because the run acknowledges them."""

    def prepare(server: Server) -> None:
        fill(server, entries)
        pending = answered(server.port, "XPENDING", READ, GROUP)
        if again or not isinstance(pending, list) or pending[0] != entries:
            _new_group(entries)(server)
            read = _group_read(1, _PAGE)()
            drive(server.port, read._replace(clients=1), entries // _PAGE)

    return prepare


def _group_read(pipeline: int, count: int) -> Callable[[], Traffic]:
    one = command("XREADGROUP", "GROUP", GROUP, CONSUMER, "COUNT", count, "STREAMS", READ, ">")
    size = pipeline * _read_bytes(count)
    return lambda: Traffic([one * pipeline], pipeline, READERS, size, b"")


def _acknowledge(entries: int, pipeline: int, ids: int) -> Callable[[], Traffic]:
    def traffic() -> Traffic:
        ones = [
            command("XACK", READ, GROUP, *(entry_id(first + n) for n in range(ids)))
            for first in range(0, entries, ids)
        ]
        batches = [b"".join(ones[at : at + pipeline]) for at in range(0, len(ones), pipeline)]
        return Traffic(batches, pipeline, READERS, pipeline, b":")

    return traffic


def _consumer(entries: int) -> Callable[[], Traffic]:
    def traffic() -> Traffic:
        read = _group_read(1, 100)().batches[0]
        acks = _acknowledge(entries, 1, 100)().batches
        size = _read_bytes(100) + len(b":100\r\n")
        return Traffic([read + ack for ack in acks], 2, 1, size, b"")

    return traffic


def _places(entries: int, count: int) -> list[int]:
    """Numbers of entries from which `count` entries follow, and one more."""
    chance = random.Random(count)
    return [chance.randrange(entries - count - 1) for _ in range(PLACES)]


def _at_places(
    entries: int,
    pipeline: int,
    count: int,
    size: int,
    form: Callable[[int], bytes],
    mark: bytes = b"",
) -> Callable[[], Traffic]:
    """Commands at random places; `form` makes one of the number of an entry."""

    def traffic() -> Traffic:
        places = _places(entries, count)
        batches = [
            b"".join(form(places[(first + n) % PLACES]) for n in range(pipeline))
            for first in range(PLACES)
        ]
        return Traffic(batches, pipeline, READERS, pipeline * size, mark)

    return traffic


def _add(pipeline: int, *words: Word, clients: int = CLIENTS) -> Callable[[], Traffic]:
    one = command("XADD", ADDED, *words)
    return lambda: Traffic([one * pipeline], pipeline, clients, pipeline)


def _add_to_keys(pipeline: int) -> Callable[[], Traffic]:
    def traffic() -> Traffic:
        chance = random.Random(pipeline)
        ones = [command("XADD", f"{ADDED}{n:02}", "*", "f", VALUE) for n in range(MANY_KEYS)]
        batches = [b"".join(chance.choices(ones, k=pipeline)) for _ in range(PLACES)]
        return Traffic(batches, pipeline, CLIENTS, pipeline)

    return traffic


def _mixed(entries: int) -> Callable[[], Traffic]:
    """Each batch ends with a PING, whose reply is the mark."""

    def traffic() -> Traffic:
        add = command("XADD", "m", "*", "f", VALUE)
        rest = command(
            "XREADGROUP", "GROUP", GROUP, CONSUMER, "COUNT", 8, "NOACK", "STREAMS", "m", ">"
        )
        rest += command("XLEN", "m") + command("XINFO", "STREAM", "m") + command("PING")
        places = [entry_id(number) for number in _places(entries, 10)]
        batches = [
            add * 8
            + b"".join(
                command("XRANGE", READ, places[(first + n) % PLACES], "+", "COUNT", 10)
                for n in range(4)
            )
            + rest
            for first in range(PLACES)
        ]
        return Traffic(batches, 16, READERS, 1, b"+")

    return traffic


def _empty(server: Server) -> None:
    answered(server.port, "DEL", ADDED)


def _empty_keys(server: Server) -> None:
    answered(server.port, "DEL", *(f"{ADDED}{n:02}" for n in range(MANY_KEYS)))


def _plain(*argv: str, clients: int, requests: int) -> Workload:
    """XADD without pipelining, by redis-benchmark."""
    words = argv or ("*", "f", VALUE.decode())
    traffic = _add(1, *words, clients=clients)
    return Workload(traffic, requests, _empty, ("XADD", ADDED, *words))


def _adds() -> dict[str, Workload]:
    one: tuple[Word, ...] = ("*", "f", VALUE)
    ten = ["*", *(word for n in range(10) for word in (f"field{n}", VALUE.decode()))]
    large = ["*", "f", "x" * 512]
    return {
        "xadd.c1": _plain(clients=1, requests=25_000),
        "xadd.c50": _plain(clients=CLIENTS, requests=70_000),
        "xadd.p16": Workload(_add(16, *one), 25_000, _empty),
        "xadd.p100": Workload(_add(100, *one), 6_000, _empty),
        "always.c1": _plain(clients=1, requests=2_000),
        "always.c50": _plain(clients=CLIENTS, requests=25_000),
        "always.p16": Workload(_add(16, *one), 12_500, _empty),
        "always.p100": Workload(_add(100, *one), 4_000, _empty),
        "xadd.keys.p16": Workload(_add_to_keys(16), 15_000, _empty_keys),
        "xadd.keys.p100": Workload(_add_to_keys(100), 3_000, _empty_keys),
        "xadd.maxlen.p16": Workload(_add(16, "MAXLEN", "~", 10_000, *one), 20_000, _empty),
        "xadd.fields10.c50": _plain(*ten, clients=CLIENTS, requests=50_000),
        "xadd.fields10.p16": Workload(_add(16, *ten), 8_000, _empty),
        "xadd.bytes512.c50": _plain(*large, clients=CLIENTS, requests=50_000),
        "xadd.bytes512.p16": Workload(_add(16, *large), 10_000, _empty),
    }


def _range(count: int, number: int) -> bytes:
    return command("XRANGE", READ, entry_id(number), "+", "COUNT", count)


def _reverse_range(count: int, number: int) -> bytes:
    return command("XREVRANGE", READ, entry_id(number + count), "-", "COUNT", count)


def _read(count: int, number: int) -> bytes:
    return command("XREAD", "COUNT", count, "STREAMS", READ, entry_id(number))


def _reads(entries: int) -> dict[str, Workload]:
    def filled(server: Server) -> None:
        fill(server, entries)

    found = {}
    for count, pipeline, batches in ((10, 16, 10_000), (100, 1, 30_000), (1000, 1, 5_000)):
        for name, form, size in (
            ("xrange", _range, _page_bytes(count)),
            ("xrevrange", _reverse_range, _page_bytes(count)),
            ("xread", _read, _read_bytes(count)),
        ):
            traffic = _at_places(entries, pipeline, count, size, partial(form, count))
            found[f"{name}.{count}"] = Workload(traffic, batches, filled)
    return found


def _groups(entries: int) -> dict[str, Workload]:
    new, pending = _new_group(entries), _all_pending(entries, False)
    all_again = _all_pending(entries, True)
    # The reply: a cursor, the entries, and no deleted IDs.
    claimed = len(b"*3\r\n$15\r\n\r\n*0\r\n") + len(entry_id(0)) + _page_bytes(100)
    claims = _at_places(
        entries,
        1,
        100,
        claimed,
        lambda n: command("XAUTOCLAIM", READ, GROUP, "d", 0, entry_id(n), "COUNT", 100),
    )
    rows = _at_places(
        entries,
        1,
        100,
        200,
        lambda n: command("XPENDING", READ, GROUP, entry_id(n), "+", 100),
        b"$",
    )
    return {
        "xreadgroup.1": Workload(_group_read(1, 1), min(entries, 60_000), new),
        "xreadgroup.1.p16": Workload(_group_read(16, 1), entries // 16, new),
        "xreadgroup.100": Workload(_group_read(1, 100), entries // 100, new),
        "xack.1": Workload(_acknowledge(entries, 16, 1), entries // 16, all_again),
        "xack.100": Workload(_acknowledge(entries, 1, 100), entries // 100, all_again),
        "xautoclaim.100": Workload(claims, 6_000, pending),
        "xpending.100": Workload(rows, 15_000, pending),
        "consumer.100": Workload(_consumer(entries), entries // 100, new),
    }


def workloads(scale: float) -> dict[str, Workload]:
    """The workloads of all rows that compare rates, by name."""
    entries = entries_of(scale)

    def mixed(server: Server) -> None:
        fill(server, entries)
        answered(server.port, "DEL", "m")
        server.call("XGROUP", "CREATE", "m", GROUP, "0", "MKSTREAM")

    adds_and_reads = {**_adds(), **_reads(entries)}
    adds_and_reads["mixed"] = Workload(_mixed(entries), 8_000, mixed)
    scaled = {
        name: one._replace(batches=max(100, int(one.batches * scale)))
        for name, one in adds_and_reads.items()
    }
    groups = _groups(entries)
    for name in ("xautoclaim.100", "xpending.100"):
        groups[name] = groups[name]._replace(batches=max(50, int(groups[name].batches * scale)))
    return {**scaled, **groups}
