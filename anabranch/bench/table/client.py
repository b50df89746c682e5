"""A small pipelining client: it sends request bytes that were made before, and counts replies.

redis-benchmark parses each reply, sends one command for ever, and cannot send a command once. This
client sends any sequence of batches over several connections. A batch is complete when as many
marks have come as its replies contain; a mark is one byte, and without a mark the bytes of the
replies are counted. So it uses little CPU where the server is the one to be measured: 0.02 µs for
a reply to XADD, which `ReplyDecoder` decodes in 0.7 µs.
"""

from __future__ import annotations

import resource
import select
import socket
import struct
import subprocess
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from anabranch.bench.acceptance.harness import benchmark_command
from anabranch.cluster.errors import ClusterError
from anabranch.cluster.ports import HOST

_SILENCE_S_MAX: Final = 60
_BUFFER_BYTES: Final = 1 << 18


class Took(NamedTuple):
    """How long a load took."""

    seconds: float
    client_cpu_s: float


class Traffic(NamedTuple):
    """Batches of commands. The clients send them in turn, and begin again at the end."""

    batches: Sequence[bytes]
    commands: int
    """The commands of one batch."""
    clients: int
    marks: int
    """The marks in the replies to one batch, or their bytes if `mark` is empty."""
    mark: bytes = b"$"


def drive(port: int, traffic: Traffic, batches: int) -> Took:
    """Sends so many batches, each client the next one when its last one is answered.

    ClusterError if replies do not come; an error reply lacks the marks.
    """
    connections = [_connection(port) for _ in range(min(traffic.clients, batches))]
    begun, cpu_begun = time.perf_counter(), time.process_time()
    try:
        if len(connections) == 1:
            _drive_one(connections[0], traffic, batches)
        else:
            _drive_all(connections, traffic, batches)
    finally:
        took = Took(time.perf_counter() - begun, time.process_time() - cpu_begun)
        for connection in connections:
            connection.close()
    return took


def _connection(port: int) -> socket.socket:
    """A blocking connection. The system bounds its waits, which costs no further call."""
    connection = socket.create_connection((HOST, port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(
        socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", _SILENCE_S_MAX, 0)
    )
    return connection


def _drive_one(connection: socket.socket, traffic: Traffic, batches: int) -> None:
    buffer = bytearray(_BUFFER_BYTES)
    requests, mark = traffic.batches, traffic.mark
    count = len(requests)
    for number in range(batches):
        connection.sendall(requests[number % count])
        missing = traffic.marks
        while missing > 0:
            missing -= _received(connection, buffer, mark)
        _check(missing, buffer)


def _drive_all(connections: list[socket.socket], traffic: Traffic, batches: int) -> None:
    buffer = bytearray(_BUFFER_BYTES)
    requests, mark, marks = traffic.batches, traffic.mark, traffic.marks
    count = len(requests)
    poll = select.epoll()
    by_number = {one.fileno(): one for one in connections}
    missing = dict.fromkeys(by_number, marks)
    sent = 0
    for one in connections:
        poll.register(one.fileno(), select.EPOLLIN)
        one.sendall(requests[sent % count])
        sent += 1
    running = len(connections)
    while running:
        ready = poll.poll(_SILENCE_S_MAX)
        if not ready:
            raise ClusterError(f"no reply within {_SILENCE_S_MAX} s; {_end(buffer)}")
        for number, _ in ready:
            one = by_number[number]
            left = missing[number] - _received(one, buffer, mark)
            if left <= 0:
                _check(left, buffer)
                left = marks
                if sent < batches:
                    one.sendall(requests[sent % count])
                    sent += 1
                else:
                    poll.unregister(number)
                    running -= 1
            missing[number] = left
    poll.close()


def _received(connection: socket.socket, buffer: bytearray, mark: bytes) -> int:
    try:
        size = connection.recv_into(buffer)
    except BlockingIOError:
        size = 0
    if size == 0:
        raise ClusterError(f"the server sends no more, or closed the connection; {_end(buffer)}")
    return buffer.count(mark, 0, size) if mark else size


def _check(missing: int, buffer: bytearray) -> None:
    if missing:
        raise ClusterError(f"{-missing} marks too many in the replies; {_end(buffer)}")


def _end(buffer: bytearray) -> str:
    return f"the last replies begin with {bytes(buffer[:200]).rstrip(bytes(1))!r}"


def benchmark(port: int, clients: int, requests: int, argv: Sequence[str]) -> Took:
    """Sends one command again and again with redis-benchmark, without pipelining.

    ClusterError if it fails.
    """
    line = benchmark_command(port, requests, clients, 1)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [*line, "--csv", *argv],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    last = done.stdout.strip().splitlines()[-1:] or [""]
    fields = last[0].split('","')
    if done.returncode != 0 or "rror from server" in done.stdout + done.stderr or len(fields) < 2:
        raise ClusterError(f"redis-benchmark failed: {(done.stdout + done.stderr)[-500:]}")
    return Took(
        requests / float(fields[1].strip('"')),
        after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
    )
