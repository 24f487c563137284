"""A pool of asyncpg connections for one event loop and one server.

asyncpg's own pool costs a task and a round trip (``RESET ALL``) for each statement, and logs a
traceback for each attempt to reach a server that is down. Here a connection goes back as it is:
services set nothing on it except inside of transactions. Connections that the application's code
had, or whose statement was cancelled, are reset before the next one gets them. A connection that
is given up has its statement cancelled first.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Final, TypeAlias

import asyncpg

from alula.adapters.sql._drivers._driver import NoFreeConnection
from alula.adapters.sql._errors import is_of_asyncpg

__all__ = ["Connection", "Pool"]

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

MAX_WAIT_SECONDS: Final = 10.0
"""How long a call waits for a connection, even if it has no time limit of its own."""

SECONDS_TO_CLOSE: Final = 5.0
"""How long `Pool.close` waits for connections in use."""

SECONDS_TO_CLOSE_ONE: Final = 1.0
"""How long it waits for the server to close a connection that is not in use."""

SECONDS_TO_RESET: Final = 5.0

SECONDS_TO_CANCEL: Final = 5.0
"""How long the server has to end a statement whose connection is given up."""

# `RESET ALL`, which asyncpg's reset does, leaves the role as it is.
_RESET_ROLE: Final = "reset session authorization; reset role"


class Pool:
    """Connections that are opened when they are needed, at most ``size`` at a time.

    Args:
        connect: Opens a connection.
        size: How many connections there may be.
    """

    def __init__(self, connect: Callable[[], Awaitable[Connection]], size: int) -> None:
        self._connect = connect
        self._size = size
        self._free: list[Connection] = []
        self._open: set[Connection] = set()
        self._connecting = 0
        self._waiting: deque[asyncio.Future[Connection]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()  # the event loop holds weak references only
        self._is_closing = False

    @property
    def in_use(self) -> int:
        """How many connections are not free, those that are being reset included."""
        return len(self._open) + self._connecting - len(self._free)

    def take(self) -> Connection | None:
        """Return a free connection if there is one."""
        while self._free:
            # The last that came back: its caches are warm, and the others may grow old.
            connection = self._free.pop()
            if not connection.is_closed():
                return connection
            self._open.discard(connection)
        return None

    async def acquire(self, seconds: float | None) -> Connection:
        """Return a connection, a new one if none is free and there are fewer than ``size``.

        Args:
            seconds: How long it may take; at most `MAX_WAIT_SECONDS`.

        Raises:
            NoFreeConnection: It took too long.
            Exception: The first connection cannot be opened.
        """
        limit = MAX_WAIT_SECONDS if seconds is None else min(seconds, MAX_WAIT_SECONDS)
        connection = self.take()
        if connection is not None:
            return connection
        if self._is_closing:
            raise NoFreeConnection("the pool of connections is closing")
        future: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._connect_for_those_who_wait()
        try:
            async with asyncio.timeout(limit):
                return await future
        except TimeoutError as error:
            if future.done() and not future.cancelled():  # it came in the same turn of the loop
                return future.result()
            raise NoFreeConnection(
                f"no connection to the database was free within {limit:g} seconds"
            ) from error
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                self.release(future.result())
            raise

    def _connect_for_those_who_wait(self) -> None:
        """Open as many connections as calls wait, up to ``size``."""
        while (
            self._connecting < len(self._waiting)
            and self._connecting + len(self._open) < self._size
        ):
            self._connecting += 1
            self._start(self._add_connection())

    async def _add_connection(self) -> None:
        # In a task of its own: asyncpg logs an error if an attempt to connect is cancelled, and
        # the connection is of use to other calls too.
        try:
            connection = await self._connect()
        except Exception as error:  # noqa: BLE001  # for the callers
            self._connecting -= 1
            if self._open:  # one of these will be free
                return
            waiting, self._waiting = self._waiting, deque()
            for future in waiting:
                if not future.done():
                    future.set_exception(error)
        else:
            self._connecting -= 1
            self._open.add(connection)
            self.release(connection)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def release(self, connection: Connection) -> None:
        """Give back a connection that is as it was."""
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(connection)
                return
        self._free.append(connection)
        if self._is_closing:
            self.discard(connection)

    def release_after(self, connection: Connection, error: BaseException) -> None:
        """Give back a connection whose statement raised an error."""
        if connection.is_closed() or isinstance(error, asyncpg.InternalClientError):
            self.discard(connection)
        elif is_of_asyncpg(error):
            self.release(connection)
        else:  # the statement may still be running: a time limit, a cancelled call
            self.reset(connection)

    def reset(self, connection: Connection) -> None:
        """Give back a connection once it has been reset; the caller does not wait for that."""
        self._start(self._reset(connection))

    async def _reset(self, connection: Connection) -> None:
        try:
            async with asyncio.timeout(SECONDS_TO_RESET):
                await connection.reset()
                await connection.execute(_RESET_ROLE)
        except Exception:  # noqa: BLE001  # whatever it is, such a connection is of no use
            self.discard(connection)
        except BaseException:  # the event loop is being closed, so nothing can wait any more
            connection.terminate()
            self._forget(connection)
            raise
        else:
            self.release(connection)

    def discard(self, connection: Connection) -> None:
        """Close a connection; the caller does not wait for that.

        If a statement is under way on it, even one of another task, the server is asked to cancel
        that first. A server only notices that a connection has gone when its statement ends, and
        until then it would keep the locks and the session.
        """
        if connection in self._free:
            self._free.remove(connection)
        if connection.is_closed():
            self._forget(connection)
        else:
            self._start(self._cancel_and_close(connection, SECONDS_TO_CANCEL))

    async def _cancel_and_close(self, connection: Connection, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await connection.close()  # it sends the cancel request, if one is needed
        except Exception:  # noqa: BLE001  # whatever it is, this closes it
            connection.terminate()
        finally:
            # Only now: until the server has ended its session, it counts as one of `size`.
            self._forget(connection)

    def _forget(self, connection: Connection) -> None:
        self._open.discard(connection)
        self._connect_for_those_who_wait()

    async def close(self) -> None:
        """Close all connections; those in use may finish their statement."""
        self._is_closing = True
        end = asyncio.get_running_loop().time() + SECONDS_TO_CLOSE
        while self._open or self._connecting:
            free, self._free = self._free, []
            for connection in free:
                await self._cancel_and_close(connection, SECONDS_TO_CLOSE_ONE)
            if asyncio.get_running_loop().time() > end:
                for connection in list(self._open):
                    self.discard(connection)
                break
            await asyncio.sleep(0.005 if self._open or self._connecting else 0)
        if self._tasks:
            await asyncio.wait(self._tasks)
