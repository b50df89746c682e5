"""Ports at which clients reach the regions of a recorded session, one for each region.

Each connection is a client of the scenario, with a label of its own. Commands of all clients run
one after the other, in the order in which they came. Clients speak RESP2.
"""

from __future__ import annotations

import socketserver
import threading
import time
from collections.abc import Callable
from itertools import count
from typing import Any, Final, Optional

from anabranch.cluster.errors import ClusterError
from anabranch.region.resp.decoder import DecodedReply, ErrorText
from anabranch.region.resp.parser import ProtocolError, RequestParser
from anabranch.sim.scenario.model import CLIENT_MAX
from anabranch.sim.scenario.prompt import FIRST_PORT_LABEL
from anabranch.sim.scenario.refusals import COMMAND_BYTES_MAX, Refused
from anabranch.sim.scenario.session import Blocked, Session

HOST: Final = "127.0.0.1"
_LOOK_S: Final = 0.01
_SIMPLE: Final = frozenset({b"OK", b"QUEUED", b"PONG"})
# Commands of client libraries and monitors, which are answered and not recorded.
_PASSED: Final = frozenset(b"PING ECHO SELECT COMMAND INFO CLIENT TIME".split())


class Proxies:
    """The ports. `lock` guards the session; `tell` shows a line to the user."""

    def __init__(
        self, session: Session, password: Optional[str], tell: Callable[[str], None]
    ) -> None:
        self.session: Final = session
        self.password: Final = password
        self.tell: Final = tell
        self.lock: Final = threading.Lock()
        self._labels: Final = count(FIRST_PORT_LABEL)
        self._servers: dict[int, _Server] = {}

    def open(self) -> dict[int, int]:
        """Opens a port for each region; returns region_id → port."""
        for region in self.session.names:
            server = self._servers[region] = _Server(self, region)
            threading.Thread(target=server.serve_forever, args=(_LOOK_S * 5,), daemon=True).start()
        return {region: server.server_address[1] for region, server in self._servers.items()}

    def close(self) -> None:
        """Accepts no more clients; the session must not be used by the present ones any more."""
        for server in self._servers.values():
            server.shutdown()
            server.server_close()

    def next_label(self) -> int:
        """The label of a new client."""
        return next(self._labels)


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def __init__(self, proxies: Proxies, region: int) -> None:
        self.proxies = proxies
        self.region = region
        super().__init__((HOST, 0), _Connection)


class _Connection(socketserver.BaseRequestHandler):
    """One client's connection, in a thread of its own."""

    server: _Server

    def handle(self) -> None:
        proxies, region = self.server.proxies, self.server.region
        label = proxies.next_label()
        if label > CLIENT_MAX:
            self.request.sendall(b"-ERR a scenario holds at most %d clients\r\n" % CLIENT_MAX)
            return
        parser = RequestParser(COMMAND_BYTES_MAX * 4)
        is_known = proxies.password is None
        try:
            while data := self.request.recv(1 << 16):
                parser.feed(data)
                while (words := parser.next()) is not None:
                    name = words[0].upper()
                    if name == b"AUTH":
                        is_known = words[-1].decode("utf-8", "replace") == proxies.password
                        text = b"+OK\r\n" if is_known else b"-WRONGPASS wrong password\r\n"
                        self.request.sendall(text)
                    elif not is_known:
                        self.request.sendall(b"-NOAUTH Authentication required.\r\n")
                    else:
                        self.request.sendall(self._answer(label, tuple(words)))
        except (OSError, ProtocolError):
            pass  # the client is gone, or does not speak RESP
        finally:
            with proxies.lock:
                proxies.session.hang_up(region, label)

    def _answer(self, label: int, words: tuple[bytes, ...]) -> bytes:
        proxies, region = self.server.proxies, self.server.region
        session = proxies.session
        name = words[0].upper()
        if name == b"HELLO":
            return b"-NOPROTO a recorder speaks RESP2 only\r\n"
        try:
            with proxies.lock:
                if name in _PASSED and not session.is_in_transaction(region, label):
                    return encoded(session.look(region, label, words))
                reply = session.command(region, label, words)
            while isinstance(reply, Blocked):
                time.sleep(_LOOK_S)
                with proxies.lock:
                    session.poll()
                    if (region, label) in session.answers():
                        return encoded(session.take_answer(region, label), words)
        except Refused as error:
            proxies.tell(f"not recorded: {words[0].decode('utf-8', 'replace')}: {error}")
            return encoded(ErrorText(f"ERR {error}"))
        except ClusterError as error:
            proxies.tell(str(error))
            return encoded(ErrorText(f"ERR {error}"))
        return encoded(reply, words)


def encoded(reply: DecodedReply, words: tuple[bytes, ...] = (b"",)) -> bytes:
    """A reply in RESP2. `words` is the command: a nil of some is that of an array."""
    if reply is None:
        is_array = words[0].upper() in (b"XREAD", b"XREADGROUP", b"EXEC")
        return b"*-1\r\n" if is_array else b"$-1\r\n"
    if isinstance(reply, int):
        return b":%d\r\n" % reply
    if isinstance(reply, ErrorText):
        return b"-%s\r\n" % reply.text.encode().replace(b"\r", b" ").replace(b"\n", b" ")
    if isinstance(reply, bytes):
        if reply in _SIMPLE:
            return b"+%s\r\n" % reply
        return b"$%d\r\n%s\r\n" % (len(reply), reply)
    parts: list[Any] = [b"*%d\r\n" % len(reply), *(encoded(one) for one in reply)]
    return b"".join(parts)
