"""The pipelining client, against a server that answers as told."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from anabranch.bench.table.client import Traffic, drive
from anabranch.cluster.errors import ClusterError
from anabranch.region.resp.request import command


class Answers:
    """Answers each line that it receives with the same bytes, on any number of connections."""

    def __init__(self) -> None:
        self.reply = b":1\r\n"
        self.received: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        # A client that found an error closes its connection in the middle of a reply.
        with connection, connection.makefile("rb") as lines, contextlib.suppress(OSError):
            for line in lines:
                self.received.append(line)
                # In two parts, so that a reply may come in two reads.
                connection.sendall(self.reply[:2])
                connection.sendall(self.reply[2:])

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def answers() -> Iterator[Answers]:
    one = Answers()
    yield one
    one.close()


def test_a_request_in_resp() -> None:
    assert command("XLEN", b"key", 12) == b"*3\r\n$4\r\nXLEN\r\n$3\r\nkey\r\n$2\r\n12\r\n"


@pytest.mark.parametrize("clients", [1, 3])
@pytest.mark.parametrize(("mark", "marks"), [(b":", 2), (b"", 8)])
def test_batches_are_sent_in_turn_and_counted(
    answers: Answers, clients: int, mark: bytes, marks: int
) -> None:
    traffic = Traffic([b"a\nb\n", b"c\nd\n", b"e\nf\n"], 2, clients, marks, mark)
    took = drive(answers.port, traffic, 7)
    assert took.seconds > 0
    counts = [answers.received.count(letter) for letter in (b"a\n", b"b\n", b"c\n", b"f\n")]
    assert counts == [3, 3, 2, 2]


@pytest.mark.parametrize("clients", [1, 2])
def test_too_many_marks_are_an_error(answers: Answers, clients: int) -> None:
    with pytest.raises(ClusterError, match="marks too many in the replies"):
        drive(answers.port, Traffic([b"a\n"], 1, clients, 3, b""), 4)


def test_a_closed_connection_is_an_error() -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def close() -> None:
        connection, _ = listener.accept()
        connection.recv(10)
        connection.close()

    threading.Thread(target=close, daemon=True).start()
    with listener, pytest.raises(ClusterError, match="closed the connection"):
        drive(listener.getsockname()[1], Traffic([b"a\n"], 1, 1, 1, b":"), 1)
