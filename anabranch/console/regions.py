"""Connections to regions over RESP3, with redis-py. One that failed is made anew when it is used.

Replies are values of bytes, numbers, lists and dicts, as redis-py's RESP3 parser makes them. `text`
turns them into values that can be shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final, Union

import redis
from redis.asyncio.connection import Connection

from anabranch.escapes import shown
from anabranch.region.option_values import Address

Word = Union[str, bytes, int]
PATIENCE_S: Final = 5.0
CONNECT_S: Final = 2.0


class RegionDown(Exception):
    """A region does not answer, or refuses the password. The text says which, and why."""


class Refused(Exception):
    """A region answered with an error; the text is its own, with escapes."""


class Place:
    """An address. Until its region names itself, `region_id` may be 0 and `name` the address."""

    def __init__(self, name: str, region_id: int, address: Address) -> None:
        self.name = name
        self.region_id = region_id
        self.address: Final = address


class Line:
    """One connection to a region; one request at a time."""

    def __init__(self, place: Place, password: str | None, patience_s: float = PATIENCE_S) -> None:
        self._place: Final = place
        self._password: Final = password
        self._patience_s: Final = patience_s
        self._lock: Final = asyncio.Lock()
        self._connection: Connection | None = None

    async def ask(self, *words: Word) -> Any:
        """The reply to one command.

        Raises:
            RegionDown: The region does not answer.
            Refused: It answered with an error.
        """
        (reply,) = await self.ask_all([words])
        if isinstance(reply, Refused):
            raise reply
        return reply

    async def ask_all(self, commands: Sequence[Sequence[Word]]) -> list[Any]:
        """The replies to commands that are sent together; an error is a `Refused` in the list."""
        async with self._lock:
            try:
                async with asyncio.timeout(self._patience_s):
                    connection = await self._connected()
                    for words in commands:
                        await connection.send_command(*words)
                    return [await self._reply(connection) for _ in commands]
            except redis.AuthenticationError:
                does = "refuses this password" if self._password else "asks for a password"
                await self._drop()
                raise RegionDown(
                    f"{self._who()} {does}: start the console with --password-file,"
                    " or set REDISCLI_AUTH"
                ) from None
            except (TimeoutError, redis.TimeoutError):
                await self._drop()
                raise RegionDown(
                    f"{self._who()} did not answer within {self._patience_s:g} s"
                ) from None
            except (redis.RedisError, OSError) as error:
                await self._drop()
                raise RegionDown(f"{self._who()} does not answer: {_cause(error)}") from None
            except BaseException:
                # The replies of a request that was given up must not answer the next one.
                await self._drop()
                raise

    async def close(self) -> None:
        """Closes the connection."""
        async with self._lock:
            await self._drop()

    def _who(self) -> str:
        place = self._place
        return f"{place.name} at {place.address}" if place.region_id else f"{place.address}"

    async def _connected(self) -> Connection:
        if self._connection is None:
            address = self._place.address
            self._connection = Connection(
                host=address.host,
                port=address.port,
                password=self._password,
                protocol=3,
                # `ask_all` bounds the whole request. With a bound of its own, redis-py sends within
                # asyncio.wait_for, which before Python 3.12 can lose a cancellation.
                socket_timeout=None,
                socket_connect_timeout=min(CONNECT_S, self._patience_s),
            )
            await self._connection.connect()  # type: ignore[no-untyped-call]
        return self._connection

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.disconnect(nowait=True)

    @staticmethod
    async def _reply(connection: Connection) -> Any:
        try:
            return await connection.read_response()
        except redis.AuthenticationError:
            raise
        except redis.ResponseError as error:
            return Refused(shown(str(error)))


def _cause(error: Exception) -> str:
    message = str(error).lower()
    if "refused" in message or "111" in message:
        return "connection refused (is it running?)"
    return shown(str(error).rstrip(".")) or type(error).__name__


class Region:
    """One region: a line for short questions, one for histories, and one for the states.

    So a long answer from the log of a region delays neither its state nor the live view.
    """

    def __init__(self, place: Place, password: str | None) -> None:
        self.place: Final = place
        self.password: Final = password
        self.line: Final = Line(place, password)
        self.slow_line: Final = Line(place, password, 20.0)
        self.state_line: Final = Line(place, password, 2.0)

    @property
    def name(self) -> str:
        """The name, or the address of a region that never answered."""
        return self.place.name

    async def close(self) -> None:
        """Closes the connections."""
        for line in (self.line, self.slow_line, self.state_line):
            await line.close()


def text(value: Any) -> Any:
    """A reply with text instead of bytes, with escapes (`escapes.shown`); an error is its text."""
    if isinstance(value, bytes):
        return shown(value)
    if isinstance(value, (list, tuple, set)):
        return [text(item) for item in value]
    if isinstance(value, dict):
        return {text(key): text(item) for key, item in value.items()}
    if isinstance(value, Exception):
        return shown(str(value))
    return value
