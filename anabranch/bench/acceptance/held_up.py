"""How long one command, pipeline or snapshot of a client or peer keeps other clients waiting.

A process sends PINGs one after another, while one client asks for as much as one command can ask
for: hundreds of thousands of entries, IDs, keys or queued commands. The last cases join a snapshot
of many keys in a second region. For each PING the process notes how long it took, and how long the
region's thread worked meanwhile. The longest work counts: other load on the machine lengthens a
wait, but not the work. Each case runs some times, and the least of its longest works counts.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from anabranch.bench.harness import Figures, show_build, wait_for
from anabranch.cluster.client import RespClient
from anabranch.cluster.errors import ClusterError
from anabranch.cluster.ports import HOST
from anabranch.cluster.regions import ProcessCluster, RegionProcess
from anabranch.region.resp.request import Word, command

COUNT: Final = 100_000
ROUNDS: Final = 3
LIMIT_MS: Final = 50.0
# The defaults of `crdt-command-max-keys` and `crdt-unit-max-commands`.
COMMAND_KEYS: Final = 10_000
UNIT_COMMANDS: Final = 20_000
PATIENCE_S: Final = 300.0
_BATCH: Final = 5_000
_PAUSE_S: Final = 0.0002
_REST_S: Final = 0.2
_END: Final = b"the reply before this one is whole"
_SETTINGS: Final = {
    "crdt-log-max-effects": "100",
    "crdt-checkpoint-interval-ms": "500",
    "crdt-snapshot-patience-ms": "500",
}

Words = Sequence[Word]
_ADD: Final[Words] = ("XADD", "s", "*", "f", "v")


class Case:
    """A case: `prepare` readies the region, out of the measurement, and returns what to send."""

    def __init__(self, name: str, prepare: Callable[[RespClient], list[Words]]) -> None:
        self.name: Final = name
        self.prepare: Final = prepare


class Longest:
    """The longest wait of a PING and, of another one perhaps, the longest work meanwhile, in ms."""

    def __init__(self, wait_ms: float, work_ms: float) -> None:
        self.wait_ms: Final = wait_ms
        self.work_ms: Final = work_ms


def _longest(region: RegionProcess, work: Callable[[], object]) -> Longest:
    """The longest wait and work of a PING, from before `work` until after it."""
    ours, theirs = multiprocessing.Pipe()
    pinger = multiprocessing.get_context("fork").Process(
        target=_ping, args=(region.resp_port, region.pid(), theirs), daemon=True
    )
    pinger.start()
    ours.recv()
    try:
        work()
        time.sleep(_REST_S)
    finally:
        ours.send("stop")
    wait_s, work_ns = ours.recv()
    pinger.join()
    return Longest(1000 * wait_s, work_ns / 1e6)


def _ping(port: int, process_id: int, results: Connection) -> None:
    """Runs in a process until it is told to stop; sends the longest wait and work."""
    # CPU in ns of the thread that serves clients, which is the first one.
    times = Path(f"/proc/{process_id}/task/{process_id}/schedstat")
    wait_s, work_ns = 0.0, 0
    with RespClient(HOST, port, PATIENCE_S) as client:
        client.call("PING")
        results.send("ready")
        while not results.poll():
            begun, before_ns = time.perf_counter(), int(times.read_text().split()[0])
            client.call("PING")
            wait_s = max(wait_s, time.perf_counter() - begun)
            work_ns = max(work_ns, int(times.read_text().split()[0]) - before_ns)
            time.sleep(_PAUSE_S)
    results.recv()
    results.send((wait_s, work_ns))


def _exchange(port: int, request: bytes) -> bytes:
    """Sends bytes, reads all replies without decoding them, and returns the first bytes of them."""
    ending = b"$%d\r\n%b\r\n" % (len(_END), _END)
    first = last = b""
    # Two threads, because a region reads on only while its replies leave.
    with (
        socket.create_connection((HOST, port), PATIENCE_S) as client,
        ThreadPoolExecutor(1, "sender") as sender,
    ):
        sender.submit(client.sendall, request + command("ECHO", _END))
        while not last.endswith(ending):
            piece = client.recv(1 << 20)
            if not piece:
                raise ClusterError(f"the region hung up after {last!r}")
            first = first or piece[:100]
            last = (last + piece)[-len(ending) :]
    return first


def _add(client: RespClient, key: str, count: int) -> list[bytes]:
    """Adds entries to a stream; returns their IDs."""
    found: list[bytes] = []
    while len(found) < count:
        some = min(_BATCH, count - len(found))
        found += client.ask_all([("XADD", key, "*", "field", "value")] * some)
    return found


def _group(client: RespClient, count: int) -> list[bytes]:
    """A new stream `s` with a group `g` that has read nothing; returns the IDs."""
    found = _add(client, "s", count)
    client.ask("XGROUP", "CREATE", "s", "g", 0)
    return found


def _pending(client: RespClient, count: int) -> list[bytes]:
    """A new stream `s` whose entries are all pending in its group `g`, in a random order."""
    found = _group(client, count)
    for _ in range(0, count, _BATCH):
        client.ask("XREADGROUP", "GROUP", "g", "c", "COUNT", _BATCH, "STREAMS", "s", ">")
    random.Random(1).shuffle(found)
    return found


def _keys(client: RespClient, count: int) -> list[str]:
    """Keys of one entry each."""
    names = [f"key:{number}" for number in range(count)]
    for start in range(0, count, _BATCH):
        client.ask_all([("XADD", name, "*", "f", "v") for name in names[start : start + _BATCH]])
    return names


def _transaction(count: int) -> list[Words]:
    return [("MULTI",), *[_ADD] * count, ("EXEC",)]


def _cases_of_keys(count: int) -> Iterator[Case]:
    """The cases of `count` keys, and of as many as one command may name by default."""

    def after(name: str, *words: Word) -> Case:
        return Case(name, lambda client: _then(_keys(client, count), *words))

    def read(client: RespClient, keys: int) -> list[Words]:
        return [("XREAD", "STREAMS", *_keys(client, keys), *[0] * keys)]

    def read_group(client: RespClient, keys: int) -> list[Words]:
        names = _keys(client, keys)
        for start in range(0, keys, _BATCH):
            some = names[start : start + _BATCH]
            client.ask_all([("XGROUP", "CREATE", name, "g", 0) for name in some])
        return [("XREADGROUP", "GROUP", "g", "c", "STREAMS", *names, *[">"] * keys)]

    for keys in dict.fromkeys([count, min(count, COMMAND_KEYS)]):
        yield Case(f"XREAD of {keys:,} keys", partial(read, keys=keys))
        yield Case(f"XREADGROUP of {keys:,} keys", partial(read_group, keys=keys))
        yield Case(f"DEL of {keys:,} keys", partial(_of_keys, name="DEL", keys=keys))
        yield Case(f"EXISTS of {keys:,} keys", partial(_of_keys, name="EXISTS", keys=keys))
    yield after(f"KEYS of {count:,}", "KEYS", "*")
    yield after(f"SCAN COUNT {count:,}", "SCAN", 0, "COUNT", count)
    yield after("INFO everything", "INFO", "everything")
    yield after(f"FLUSHALL of {count:,} keys", "FLUSHALL")


def _of_keys(client: RespClient, name: str, keys: int) -> list[Words]:
    return [(name, *_keys(client, keys))]


def _then(made: object, *words: Word) -> list[Words]:
    """One command, after something was made."""
    return [words]


def _cases_of_entries(count: int) -> Iterator[Case]:
    """The cases of one stream of ten times `count` entries, and of commands that queue or add."""
    many = 10 * count

    def after(name: str, *words: Word) -> Case:
        return Case(name, lambda client: _then(_add(client, "s", many), *words))

    yield Case("nothing", lambda client: [])
    for adds in dict.fromkeys([4 * count, min(4 * count, UNIT_COMMANDS), min(count, 10_000)]):
        yield Case(f"EXEC of {adds:,} adds", partial(lambda client, n: _transaction(n), n=adds))
    yield Case(f"a pipeline of {count:,} adds to one key", lambda client: [_ADD] * count)
    yield Case(
        f"a pipeline of {count:,} adds to as many keys",
        lambda client: [("XADD", f"key:{number}", "*", "f", "v") for number in range(count)],
    )
    yield after(f"DEL of a stream of {many:,} entries", "DEL", "s")
    yield after(f"XTRIM of {many:,} entries", "XTRIM", "s", "MAXLEN", 0)
    yield after(f"XRANGE of {many:,} entries", "XRANGE", "s", "-", "+")
    yield after(f"XREVRANGE of {many:,} entries", "XREVRANGE", "s", "+", "-")
    yield after(f"XREAD of {many:,} entries", "XREAD", "STREAMS", "s", 0)


def _cases_of_groups(count: int) -> Iterator[Case]:
    """The cases of one stream of `count` entries, which are pending in its group."""
    most = 8 * count // 10

    def after(name: str, *words: Word) -> Case:
        return Case(name, lambda client: _then(_pending(client, count), *words))

    def some(name: str, *words: Word, last: tuple[Word, ...] = ()) -> Case:
        what = f"{name} of {most:,} IDs in random order"
        return Case(what, lambda client: [(name, *words, *_pending(client, count)[:most], *last)])

    yield some("XACK", "s", "g")
    yield some("XDEL", "s")
    yield some("XCLAIM", "s", "g", "d", 0, last=("JUSTID",))
    yield Case(
        f"XREADGROUP of {count:,} entries",
        lambda client: _then(
            _group(client, count), "XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">"
        ),
    )
    yield after(f"XPENDING of {count:,} entries", "XPENDING", "s", "g", "-", "+", count)
    yield after(
        f"XAUTOCLAIM of {count:,} entries", "XAUTOCLAIM", "s", "g", "d", 0, 0, "COUNT", count
    )
    with_pending = f"with {count:,} pending entries"
    yield after(f"XGROUP DELCONSUMER {with_pending}", "XGROUP", "DELCONSUMER", "s", "g", "c")
    yield after(f"XGROUP DESTROY {with_pending}", "XGROUP", "DESTROY", "s", "g")


def _run_case(figures: Figures, region: RegionProcess, case: Case, rounds: int) -> list[Longest]:
    found: list[Longest] = []
    answer = b""
    for _ in range(rounds):
        with region.connect(PATIENCE_S) as client:
            client.ask("FLUSHALL")
            request = b"".join(command(*words) for words in case.prepare(client))
        _await_quiet(region)

        def work(request: bytes = request) -> None:
            nonlocal answer
            answer = _exchange(region.resp_port, request)

        found.append(_longest(region, work))
    if answer.startswith(b"-"):
        is_limit = b"crdt-command-max-keys" in answer
        figures.require(f"{case.name} is refused by a limit", is_limit, answer.split(b"\r\n")[0])
    return found


def _await_quiet(region: RegionProcess) -> None:
    """Waits until everything is in a checkpoint, so that none runs during a measurement."""

    def is_saved() -> bool:
        info = region.info()
        return info["rdb_changes_since_last_save"] == "0" and info["crdt_uncommitted_bytes"] == "0"

    wait_for(is_saved, "a complete checkpoint", PATIENCE_S)


def _joined(cluster: ProcessCluster) -> int:
    return int(cluster["eu"].info()["crdt_snapshots_joined"])


def _join(cluster: ProcessCluster, count: int, is_new: bool) -> Longest:
    """The longest wait and work at eu while it joins a snapshot of so many keys of us.

    With `is_new`, eu has none of the keys; otherwise it has all, and each has one entry more in us.
    """
    us, eu = cluster["us"], cluster["eu"]
    with us.connect(PATIENCE_S) as client:
        client.ask("FLUSHALL")
        if not is_new:
            _keys(client, count)
        cluster.level(PATIENCE_S)
        cluster.cut("us", "eu")
        _keys(client, count)
        client.ask_all([("XADD", "tail", "*", "f", "v")] * 200)
    _await_quiet(us)
    _await_quiet(eu)
    wait_for(lambda: int(us.info()["crdt_log_effects"]) <= 200, "the end of the log", PATIENCE_S)
    before = _joined(cluster)

    def heal() -> None:
        cluster.heal("us", "eu")
        wait_for(lambda: eu.vector() == us.vector(), "equal vectors", PATIENCE_S)

    longest = _longest(eu, heal)
    if _joined(cluster) == before:
        raise ClusterError("eu caught up without a snapshot")
    return longest


def run(count: int, rounds: int, only: str, limit_ms: float | None) -> Figures:
    """Runs the cases whose names contain `only`. A limit of None: no requirement."""
    figures = Figures(f"the longest work while a PING waits: {count:,} keys or entries")
    with ProcessCluster(["us", "eu"], settings=_SETTINGS) as cluster:
        cluster.start_all()
        show_build(figures, cluster["us"])
        cluster.cut("us", "eu")
        for case in (*_cases_of_entries(count), *_cases_of_keys(count), *_cases_of_groups(count)):
            if only in case.name:
                _show(figures, case.name, _run_case(figures, cluster["us"], case, rounds), limit_ms)
        for is_new in (True, False):
            name = f"join of a snapshot of {count:,} {'new' if is_new else 'changed'} keys"
            if only in name:
                cluster.heal("us", "eu")
                _show(
                    figures, name, [_join(cluster, count, is_new) for _ in range(rounds)], limit_ms
                )
    return figures


def _show(figures: Figures, name: str, found: list[Longest], limit_ms: float | None) -> None:
    waits = ", ".join(f"{one.wait_ms:.1f}" for one in sorted(found, key=lambda one: one.wait_ms))
    work_ms = min(one.work_ms for one in found)
    figures.at_most(f"{name} (waits of {waits} ms)", work_ms, limit_ms, "ms")


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="anabranch bench acceptance.held_up", description=__doc__)
    parser.add_argument("--count", type=int, default=COUNT, help="keys, entries or commands")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", default="", help="cases whose names contain this")
    given = parser.parse_args(arguments)
    return run(given.count, given.rounds, given.only, LIMIT_MS).finish()
