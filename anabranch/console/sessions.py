"""The command lines of the pages: a connection of its own for each page and region.

So MULTI, WATCH and WAIT mean what they mean in redis-cli. The number of connections is bounded, an
idle one is closed, and a command that does not answer in time loses its connection.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from anabranch.console import replies
from anabranch.console.regions import CONNECT_S, Region
from anabranch.plural import counted
from anabranch.region.resp.decoder import INCOMPLETE, ReplyDecoder, WrongProtocol
from anabranch.region.resp.request import command

PATIENCE_S: Final = 10.0
REPLY_BYTES_MAX: Final = 8 << 20
LINES_MAX: Final = 2000
SESSIONS_MAX: Final = 32
IDLE_S: Final = 300.0
_RECEIVE_BYTES: Final = 1 << 16
_HIDDEN: Final = b"(the console does not show passwords)"


class NoReply(Exception):
    """A command line got no reply. The text says why; the connection is closed."""


class CommandLine:
    """One connection to a region, as redis-cli has it."""

    def __init__(self, region: Region) -> None:
        self._region: Final = region
        self._decoder = ReplyDecoder(replies.MAKERS)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._lock: Final = asyncio.Lock()
        self.used_s = time.monotonic()

    async def run(self, words: list[bytes]) -> replies.Reply:
        """Sends a command and returns its reply. Raises NoReply."""
        async with self._lock:
            self.used_s = time.monotonic()
            try:
                async with asyncio.timeout(PATIENCE_S):
                    return hidden(words, await self._run(words))
            except TimeoutError:
                self.close()
                raise NoReply(
                    f"no reply within {PATIENCE_S:g} s, so the console closed this connection;"
                    " a command that blocks needs a shorter time"
                ) from None
            except (OSError, WrongProtocol) as error:
                self.close()
                raise NoReply(f"{self._region.name}: {error}") from None
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """Closes the connection; the next command opens a new one."""
        streams, self._streams = self._streams, None
        if streams is not None:
            streams[1].close()

    async def _run(self, words: list[bytes]) -> replies.Reply:
        if self._streams is None:
            await self._open()
        return await self._exchange(words)

    async def _open(self) -> None:
        address = self._region.place.address
        async with asyncio.timeout(CONNECT_S):
            self._streams = await asyncio.open_connection(address.host, address.port)
        self._decoder = ReplyDecoder(replies.MAKERS)
        hello = [b"HELLO", b"3"]
        if self._region.password:
            password = self._region.password.encode("utf-8", "surrogateescape")
            hello += [b"AUTH", b"default", password]
        answer = await self._exchange(hello)
        if isinstance(answer, replies.Failure):
            raise OSError("it refuses the password, or asks for one")

    async def _exchange(self, words: list[bytes]) -> replies.Reply:
        assert self._streams is not None
        reader, writer = self._streams
        writer.write(command(*words))
        await writer.drain()
        while (reply := self._decoder.next()) is INCOMPLETE:
            if self._decoder.held_bytes > REPLY_BYTES_MAX:
                self.close()
                raise NoReply(
                    f"the reply has more than {REPLY_BYTES_MAX >> 20} MiB, so the console closed"
                    " this connection; ask for less (COUNT)"
                )
            data = await reader.read(_RECEIVE_BYTES)
            if not data:
                self.close()
                raise NoReply(f"{self._region.name} closed the connection")
            self._decoder.feed(data)
        whole: replies.Reply = reply
        return whole


def hidden(words: list[bytes], reply: replies.Reply) -> replies.Reply:
    """The reply without the password of the region, which CONFIG GET returns."""
    if words[0].upper() not in (b"CONFIG", b"EXEC"):
        return reply
    items = reply.items if isinstance(reply, (replies.Pairs, replies.Members)) else reply
    if isinstance(items, list):
        for index, item in enumerate(items):
            is_value = index > 0 and _text(items[index - 1]).lower() == b"requirepass"
            items[index] = _HIDDEN if is_value and item else hidden(words, item)
    return reply


def _text(value: replies.Reply) -> bytes:
    if isinstance(value, replies.Status):
        return value.text
    return value if isinstance(value, bytes) else b""


def printed(reply: replies.Reply) -> list[str]:
    """The lines of a reply, bounded."""
    made = replies.lines(reply)
    left_out = len(made) - LINES_MAX
    if left_out > 0:
        made[LINES_MAX:] = [f"… {counted(left_out, 'line')} left out"]
    return made


class Sessions:
    """The connections of all pages."""

    def __init__(self) -> None:
        self._lines: Final[dict[tuple[str, int], CommandLine]] = {}

    def line(self, session: str, region: Region) -> CommandLine:
        """The connection of a page to a region; closes idle ones, and the oldest of too many."""
        now_s = time.monotonic()
        at = (session, id(region))
        line = self._lines.pop(at, None) or CommandLine(region)
        for other in [one for one, it in self._lines.items() if now_s - it.used_s > IDLE_S]:
            self._lines.pop(other).close()
        while len(self._lines) >= SESSIONS_MAX:
            self._lines.pop(next(iter(self._lines))).close()
        self._lines[at] = line
        return line

    def close(self) -> None:
        """Closes all connections."""
        for line in self._lines.values():
            line.close()
        self._lines.clear()
