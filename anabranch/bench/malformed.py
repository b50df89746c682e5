"""Mutations of RESP against a live region: it must not crash, hang or leak memory.

Each mutation is a pipeline of valid commands with a few random faults, on a new connection that is
then closed for writing. The region must answer the commands that it understands, and end the
connection. Between batches it must answer PING, and the keys of the mutations are flushed, so that
resident memory after the second half can be compared with that after the first. Memory that a
region fills up to a bound is filled beforehand.
"""

from __future__ import annotations

import argparse
import os
import random
import socket
import time
from collections import Counter

from anabranch.bench.harness import Figures, await_saved, resident_bytes
from anabranch.cluster.client import RespClient
from anabranch.cluster.errors import ConnectionFailed
from anabranch.cluster.ports import HOST
from anabranch.cluster.regions import ProcessCluster, RegionProcess
from anabranch.region.resp.request import command

BATCH = 500
WARM_UP_REMOVALS = 5000
# A tail of the log that is full after the warm-up. With the usual size it fills up for an hour.
FLAGS = {"crdt-log-tail-max-bytes": "1mb"}
WARM_UP_BYTES = 20
CONNECTION_PATIENCE_S = 20.0
GROWTH_MAX = 0.05
# Connections come from several loopback addresses, because one address has too few ports.
SOURCES = [f"127.0.0.{n}" for n in range(1, 17)]

_COMMANDS: list[list[bytes]] = [
    line.split()
    for line in [
        b"PING",
        b"PING hello",
        b"ECHO something",
        b"HELLO 3",
        b"HELLO 2",
        b"MULTI",
        b"EXEC",
        b"DISCARD",
        b"WATCH a",
        b"QUIT",
        b"INFO",
        b"COMMAND COUNT",
        b"SELECT 0",
        b"CONFIG GET *",
        b"CLIENT LIST",
        b"CLIENT SETNAME me",
        b"CLIENT REPLY SKIP",
        b"XADD a * field value",
        b"XADD a MAXLEN ~ 100 * f 1 g 2",
        b"XADD b NOMKSTREAM 1-1 f v",
        b"XLEN a",
        b"XRANGE a - + COUNT 10",
        b"XREVRANGE a + - COUNT 3",
        b"XREAD COUNT 5 STREAMS a b 0 0",
        b"XREAD BLOCK 20 STREAMS a $",
        b"XREAD BLOCK 0 STREAMS nothing 0",
        b"XGROUP CREATE a g $ MKSTREAM",
        b"XREADGROUP GROUP g c COUNT 2 STREAMS a >",
        b"XACK a g 1-1 2-2",
        b"XPENDING a g - + 10",
        b"XCLAIM a g c 0 1-1 2-2 JUSTID",
        b"XAUTOCLAIM a g c 0 0 COUNT 5",
        b"XGROUP DESTROY a g",
        b"XINFO STREAM a FULL",
        b"XINFO GROUPS a",
        b"XTRIM a MAXLEN 50",
        b"XDEL a 1-1 2-2",
        b"XSETID a 9-9",
        b"DEL a b",
        b"EXISTS a b",
        b"TYPE a",
        b"EXPIRE b 100",
        b"TTL b",
        b"RENAME b c",
        b"KEYS *",
        b"SCAN 0 COUNT 10",
        b"CRDT.VECTOR",
        b"CRDT.DIGEST a",
        b"CRDT.PEERS",
        b"CRDT.LOG a 1",
        b"CRDT.LOGS a",
        b"CRDT.SPLIT a 1 0 100 BYTES 100",
        b"CRDT.NODES a 1 0 100 BYTES 100",
        b"CRDT.EXPLAIN c",
    ]
]
_NUMBERS = [
    *b"-1 0 00 1 2 10 1048577 99999999 2147483648 1e3".split(),
    *(b"-9223372036854775808", b"9223372036854775808", b""),
]
_NOISE = [
    *(b"\r", b"\n", b"\r\n", b"$", b"*", b":", b"+", b"-", b"\0", b"\xff", b'"', b"'", b"("),
    *(b"*3\r\n", b"$5\r\n", b"*-1\r\n", b"~1\r\n"),
]


def pipeline(chance: random.Random) -> bytes:
    """A few valid commands, as multibulk or inline requests."""
    parts = []
    for _ in range(chance.randint(1, 5)):
        words = list(chance.choice(_COMMANDS))
        if chance.random() < 0.1:
            words[-1] = chance.choice(
                [b"", b"\r\n", b"x" * 300, bytes(chance.randrange(256) for _ in range(20))]
            )
        if chance.random() < 0.2:
            parts.append(b" ".join(words) + b"\r\n")
        else:
            parts.append(command(*words))
    return b"".join(parts)


def mutated(data: bytes, chance: random.Random) -> bytes:
    """`data` with one to four faults."""
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(data) + 1)
        fault = chance.randrange(7)
        if fault == 0:
            data = data[:place] + bytes([chance.randrange(256)]) + data[place + 1 :]
        elif fault == 1:
            data = data[:place] + data[place + chance.randint(1, 8) :]
        elif fault == 2:
            data = data[:place] + chance.choice(_NOISE) + data[place:]
        elif fault == 3:
            data = data[:place]
        elif fault == 4:
            data = data[:place] + data[max(0, place - chance.randint(1, 40)) :]
        elif fault == 5:
            data = _number_changed(data, place, chance)
        else:
            data = (
                data[:place]
                + bytes(chance.randrange(256) for _ in range(chance.randint(1, 30)))
                + data[place:]
            )
    return data


def _number_changed(data: bytes, place: int, chance: random.Random) -> bytes:
    """`data` with another number in the next line that gives a length."""
    start = min(
        (found for found in (data.find(b"*", place), data.find(b"$", place)) if found >= 0),
        default=-1,
    )
    stop = data.find(b"\r", start)
    if start < 0 or stop < 0:
        return data
    return data[: start + 1] + chance.choice(_NUMBERS) + data[stop:]


def exchange(region: RegionProcess, source: str, data: bytes, chance: random.Random) -> str:
    """Sends `data` on a new connection, sometimes in two parts, and reads the answer.

    It reads until the connection ends, and returns how it ended.
    """
    try:
        with socket.create_connection(
            (HOST, region.resp_port), CONNECTION_PATIENCE_S, (source, 0)
        ) as connection:
            cut = chance.randrange(len(data) + 1) if chance.random() < 0.3 else len(data)
            connection.sendall(data[:cut])
            if cut < len(data):
                time.sleep(0.0005)
                connection.sendall(data[cut:])
            if chance.random() < 0.02:
                return "left without reading"
            connection.shutdown(socket.SHUT_WR)
            answer = b""
            while piece := connection.recv(1 << 16):
                answer = (answer + piece)[-200:]
    except TimeoutError:
        return "HUNG"
    except OSError:
        return "reset"
    return "protocol error" if b"-ERR Protocol error" in answer else "answered"


def fill_bounded_memory(region: RegionProcess) -> None:
    """Fills the memory that a region fills up to a bound: newest removals, newest rows of the log.

    So the region is in the state of one that has run for a while. Each entry is removed at once, so
    no free memory is left in which a leak could hide.
    """
    commands = [("XADD", "warm-up", "*", "f", b"x" * WARM_UP_BYTES), ("DEL", "warm-up")]
    with region.connect(CONNECTION_PATIENCE_S) as client:
        for _ in range(WARM_UP_REMOVALS):
            client.ask_all(commands)


def _answers_ping(client: RespClient) -> bool:
    try:
        return client.call("PING") == b"PONG"
    except ConnectionFailed:
        return False


def attack(mutations: int, seed: int, growth_max: float | None) -> Figures:
    """Runs `mutations` connections. `growth_max`: limit of the growth of memory; None: no limit."""
    figures = Figures(f"{mutations:,} malformed pipelines, seed {seed}")
    chance = random.Random(seed)
    ends: Counter[str] = Counter()
    resident: list[int] = []
    answers = True
    with ProcessCluster(["us"], settings=FLAGS) as cluster:
        region = cluster.start("us")
        if growth_max is not None:
            fill_bounded_memory(region)
        with region.connect(CONNECTION_PATIENCE_S) as client:
            for number in range(1, mutations + 1):
                ends[
                    exchange(
                        region, chance.choice(SOURCES), mutated(pipeline(chance), chance), chance
                    )
                ] += 1
                if number % BATCH == 0 or number == mutations:
                    answers = _answers_ping(client)
                    if not answers:
                        break
                    client.call("FLUSHALL")
                if number in (mutations // 2, mutations):
                    await_saved(region)
                    resident.append(resident_bytes(region.pid()))
        log = region.log.read_text(errors="replace")
        figures.require("the process lives", region.running)
        figures.require(
            "no traceback in its log",
            "Traceback" not in log,
            f"{log.count('Traceback')} tracebacks",
        )
        if "Traceback" in log:
            figures.show("the first traceback", log[log.index("Traceback") :][:1500])
    figures.require("PING answered throughout", answers, f"{ends.total():,} pipelines")
    figures.require("every connection ended", ends["HUNG"] == 0, dict(ends))
    if answers:
        growth = resident[-1] / resident[0] - 1
        figures.show("VmRSS after the first half", resident[0] / (1 << 20), "MiB")
        figures.show("VmRSS after the second half", resident[-1] / (1 << 20), "MiB")
        if growth_max is not None:
            figures.require(
                f"growth at most {growth_max:.0%}", growth <= growth_max, f"{growth:+.1%}"
            )
    return figures


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="anabranch bench malformed", description=__doc__)
    parser.add_argument("--mutations", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pure", action="store_true", help="the interpreted build")
    given = parser.parse_args(arguments)
    if given.pure:
        os.environ["ANABRANCH_PURE"] = "1"
    return attack(given.mutations, given.seed, GROWTH_MAX).finish()
