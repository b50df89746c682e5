"""The connection to SQLite that writes, with a thread of its own, for asyncio.

The thread does what is asked for, one request after the other. A request is handed over once, there
and back: after each time that the thread has left the interpreter, to wait for a request or for the
disk, it waits until the thread that serves clients lets go of the interpreter. So a transaction is
one request, however many statements it has.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, Final, Optional, Protocol

from anabranch.region.live.sql_safety import WholeCursor, defend

Group = tuple[str, Sequence[tuple[object, ...]]]
"""A statement, and the parameters of each time that it runs."""

Done = Callable[[Any, Optional[BaseException]], None]
"""Takes the result of a request, and its error: None if it succeeded."""

_Work = Callable[[], Any]
_Request = tuple[_Work, Done]


class PlainConnection(Protocol):
    """What a transaction needs of a connection: of the module sqlite3, or of apsw."""

    @property
    def in_transaction(self) -> bool: ...

    def execute(self, sql: str, parameters: Any = ..., /) -> object: ...

    def executemany(self, sql: str, parameters: Any, /) -> object: ...


def transact(plain: PlainConnection, groups: Sequence[Group]) -> None:
    """Runs statements in one transaction; if one fails, none takes effect.

    Args:
        plain: A connection that begins no transaction by itself.
        groups: The statements in order.

    Raises the error of the connection if a statement failed, or the commit.
    """
    if len(groups) == 1 and len(groups[0][1]) == 1:
        # One statement is a transaction of its own.
        plain.execute(groups[0][0], groups[0][1][0])
        return
    plain.execute("BEGIN IMMEDIATE")
    try:
        for sql, parameters in groups:
            if len(parameters) == 1:
                plain.execute(sql, parameters[0])
            else:
                plain.executemany(sql, parameters)
        plain.execute("COMMIT")
    except BaseException:
        if plain.in_transaction:
            plain.execute("ROLLBACK")
        raise


class SqlThread:
    """One connection; its methods raise `sqlite3.Error`."""

    def __init__(self) -> None:
        self._loop: Final = asyncio.get_running_loop()
        # None ends the thread.
        self._requests: Final[SimpleQueue[Optional[_Request]]] = SimpleQueue()
        self._plain: Optional[sqlite3.Connection] = None
        # A process that fails without closing it must not wait for it.
        self.thread: Final = Thread(target=self._run, name="sqlite", daemon=True)
        self.thread.start()

    async def open(self, database: str) -> None:
        """Opens a file. The connection begins no transaction by itself."""

        def connect() -> None:
            self._plain = sqlite3.connect(database, isolation_level=None)
            defend(self._plain)

        try:
            await self._ask(connect)
        except BaseException:
            self._requests.put(None)
            raise

    async def execute_fetchall(self, sql: str, parameters: Sequence[object] = ()) -> list[Any]:
        """Runs one statement; returns its rows."""
        read = partial(self._fetch_all, sql, parameters)
        return list(await self._ask(read))

    def _fetch_all(self, sql: str, parameters: Sequence[object]) -> list[Any]:
        return self._opened().cursor(WholeCursor).execute(sql, parameters).fetchall()

    async def transact(self, groups: Sequence[Group]) -> None:
        """See the function `transact`."""
        await self._ask(lambda: transact(self._opened(), groups))

    def begin_transaction(self, groups: Sequence[Group], done: Done) -> None:
        """Runs statements in one transaction, as `transact` does, and then calls `done`.

        A reply that waits for its commit is two turns of the event loop earlier than with a task
        that awaits `transact`.
        """
        self._requests.put((lambda: transact(self._opened(), groups), done))

    async def close(self) -> None:
        """Closes the connection after what was asked for before, and ends the thread."""
        try:
            await self._ask(self._opened().close)
        finally:
            self._requests.put(None)

    def _opened(self) -> sqlite3.Connection:
        assert self._plain is not None, "the connection is not open"
        return self._plain

    async def _ask(self, work: _Work) -> Any:
        future: asyncio.Future[Any] = self._loop.create_future()
        self._requests.put((work, partial(_answer, future)))
        return await future

    def _run(self) -> None:
        while self._serve_next():
            pass

    def _serve_next(self) -> bool:
        """Does what is asked for next; False if that is to end.

        It is a function of its own, so that statements and rows are let go of after each request.
        """
        request = self._requests.get()
        if request is None:
            return False
        work, done = request
        result, error = None, None
        try:
            result = work()
        except BaseException as raised:
            error = raised
        # The loop is closed if the process ends without waiting for this answer.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(done, result, error)
        return True


def _answer(future: asyncio.Future[Any], result: Any, error: Optional[BaseException]) -> None:
    """Tells a waiting task what has become of its request, unless it was cancelled."""
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
