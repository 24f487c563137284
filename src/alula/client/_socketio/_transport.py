"""The connection in an event loop: opens websockets, and opens the next one when one breaks."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from alula.client._connection import StoredSignIn
from alula.client._response_stream import AsyncResponseStream
from alula.client._retries import backoff
from alula.client._send_options import SendOptions
from alula.client._socketio._arriving_items import ArrivingItems
from alula.client._socketio._errors import NotConnected, not_connected, refused
from alula.client._socketio._session import (
    LEAVE,
    Answer,
    Refused,
    Session,
    SessionEnded,
    SocketRequest,
    Subscriber,
)
from alula.client._socketio._settings import SocketSettings
from alula.client._transport import AsyncTransport
from alula.errors import FrameworkError

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

__all__ = ["Listener", "SocketioTransport"]

_log: Final = logging.getLogger("alula.client")

_STABLE: Final = 5.0  # seconds after which a connection is not one of a series of failures
_MAX_WAITING_CALLS: Final = 1_000

Outcome = Answer | FrameworkError | None


class Listener(Subscriber, Protocol):
    """Whom a transport tells what happens."""

    def connected(self, *, recovered: bool, again: bool) -> None:
        """Hear that the connection is ready.

        Args:
            recovered: Whether no event was missed since the last one.
            again: Whether there was one before.
        """
        ...

    def disconnected(self, reason: str) -> None:
        """Hear that the connection broke."""
        ...

    def refused(self, error: FrameworkError) -> None:
        """Hear that the server refuses the connection."""
        ...


class SocketioTransport(AsyncTransport[SocketRequest, Answer | AsyncResponseStream]):
    """Sends calls over one websocket, and opens another one whenever it breaks.

    Args:
        settings: How to connect.
        listener: Whom it tells of events.
    """

    def __init__(self, settings: SocketSettings, listener: Listener) -> None:
        self._settings = settings
        self._listener = listener
        self._session = Session(self, settings.auth, settings.max_size)
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: deque[asyncio.Future[FrameworkError | None]] = deque()
        self._written = asyncio.Event()
        self._was_ready = False
        self._ready_at: float | None = None
        self._attempts = 0
        self._problem = "nothing was tried yet"

    @property
    def is_ready(self) -> bool:
        """Whether there is a connection that takes calls."""
        return self._session.is_ready

    # -- what the session tells ----------------------------------------------------------------

    def event(self, path: str, name: str, data: object) -> None:
        """Pass an event on."""
        self._listener.event(path, name, data)

    def stored_sign_in(self) -> StoredSignIn | None:
        """Return the sign-in to renew."""
        return self._listener.stored_sign_in()

    def has_frames(self) -> None:
        """Write them."""
        self._written.set()

    # -- calls ---------------------------------------------------------------------------------

    async def exchange(
        self, request: SocketRequest, options: SendOptions
    ) -> Answer | AsyncResponseStream:
        """Send a call and return the answer, or its stream; wait for the connection if need be.

        Raises:
            NotConnected: There was none in time.
            Unavailable: It broke before the answer.
            PayloadTooLarge: The server takes no such large call.
            TypeError: An option is unknown, or a value cannot be sent.
        """
        if options.extra:
            raise TypeError(
                f"params.connection has {', '.join(options.extra)}; the options of a call over"
                " socket.io are timeout and signal"
            )
        self.start()
        request.is_sent = False
        # Before it waits: what cannot be sent fails at once, and later changes are not sent.
        encoded = self._session.encode(request)
        loop = asyncio.get_running_loop()
        while True:
            await self._wait_for_connection(request)
            settled: asyncio.Future[Outcome] = loop.create_future()
            self._session.send(request, encoded, _settle(settled))
            self._written.set()
            try:
                outcome = await settled
            except asyncio.CancelledError:
                _leave_stream(settled)
                raise
            finally:
                self._session.forget(encoded[0])
            if isinstance(outcome, FrameworkError):
                raise outcome
            if outcome is not None and isinstance(items := outcome.result, ArrivingItems):
                stream = AsyncResponseStream(request, 200, {}, options, items.read, items.close)
                return self.watch(stream)
            if outcome is not None:
                return outcome
            # The connection broke under a call that changes nothing: once more, as browsers do.
            request.repeatable = request.is_sent = False

    def late(self, request: SocketRequest, seconds: float | None) -> FrameworkError:
        """Return the error for a late response, or for a connection that never came."""
        if request.is_sent:
            return super().late(request, seconds)
        return not_connected(request, self._what_was_tried(seconds))

    async def open(self, request: SocketRequest) -> None:
        """Wait until the connection is ready.

        Args:
            request: What waits, for errors.

        Raises:
            NotConnected: It took too long.
            FrameworkError: The server refused the connection.
        """
        self.start()
        await self._wait_for_connection(request)

    async def _wait_for_connection(self, request: SocketRequest) -> None:
        # A loop: the connection may break again before this task goes on.
        while not self._session.is_ready:
            await self._wait_for_change(request)

    async def _wait_for_change(self, request: SocketRequest) -> None:
        if len(self._waiting) >= _MAX_WAITING_CALLS:
            raise not_connected(
                request, f"{len(self._waiting)} calls wait for a connection already"
            )
        seconds = self._settings.connect_timeout
        waiting: asyncio.Future[FrameworkError | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        try:
            async with asyncio.timeout(seconds):
                refusal = await waiting
        except TimeoutError:
            failure = not_connected(request, self._what_was_tried(seconds))
            raise failure from failure.__cause__
        finally:
            with suppress(ValueError):  # it is not there any more
                self._waiting.remove(waiting)
        if refusal is not None:
            failure = refused(request, refusal)
            raise failure from failure.__cause__

    def _what_was_tried(self, seconds: float | None) -> str:
        times = "once" if self._attempts == 1 else f"{self._attempts} times"
        return (
            f"no connection to {self._settings.shown_url} in {seconds} seconds; tried {times},"
            f" at last: {self._problem}"
        )

    def _release(self, refusal: FrameworkError | None) -> None:
        """Let the calls that wait go on, or fail."""
        waiting, self._waiting = self._waiting, deque()
        for future in waiting:
            if not future.done():
                future.set_result(refusal)

    # -- the connection ------------------------------------------------------------------------

    def start(self) -> None:
        """Connect in the background, unless that was begun."""
        loop = asyncio.get_running_loop()
        # A client may outlive an event loop, and what waits in the old one never goes on.
        if self._task is None or self._task.done() or self._loop is not loop:
            self._loop = loop
            self._session = Session(self, self._settings.auth, self._settings.max_size)
            self._waiting.clear()
            self._written = asyncio.Event()
            self._was_ready = False
            self._attempts = 0
            name = f"alula: {self._settings.shown_url}"
            self._task = loop.create_task(self._stay_connected(), name=name)

    async def _stay_connected(self) -> None:
        """Open one connection after the other, with pauses that grow."""
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            self._ready_at = None
            self._attempts += 1
            try:
                await self._run_connection()
            except Exception as error:  # noqa: BLE001  # whatever it is, another one may be better
                self._problem = f"{type(error).__name__}: {error}".removesuffix(": ")
                if isinstance(error, Refused):
                    self._problem = f"refused: {error}"
                    self._listener.refused(error.error)
                    # What waits for a connection must not wait for one that is not wanted.
                    self._release(error.error)
            # A server that ends each connection at once must not be asked ten times a second.
            if self._ready_at is not None and loop.time() - self._ready_at > _STABLE:
                failures = 0
            # The first failure of a series is enough: an outage must not fill a log.
            level = logging.DEBUG if failures else logging.WARNING
            shown = self._settings.shown_url
            _log.log(level, "no connection to %s (%s); trying again", shown, self._problem)
            await asyncio.sleep(backoff(failures))
            failures += 1

    async def _run_connection(self) -> None:
        """Open a websocket and serve it to its end, which is always an exception."""
        from alula.client._socketio._websocket import open_websocket  # noqa: PLC0415  # an extra

        loop, session = asyncio.get_running_loop(), self._session
        ready_until = loop.time() + self._settings.connect_timeout
        async with asyncio.timeout_at(ready_until):
            websocket = await open_websocket(self._settings)
        session.opened()
        writer = loop.create_task(self._write(websocket))
        is_ready, reason = False, "this client closed the connection"
        try:
            while True:
                async with asyncio.timeout_at(
                    loop.time() + session.silence if is_ready else ready_until
                ):
                    frame = await websocket.recv()
                session.receive(frame)
                if session.frames:
                    self._written.set()
                if session.is_ready and not is_ready:
                    is_ready, self._ready_at = True, loop.time()
                    again, self._was_ready, self._attempts = self._was_ready, True, 0
                    self._listener.connected(recovered=session.recovered, again=again)
                    self._release(None)
        except TimeoutError:
            reason = "the server was silent for too long"
            raise SessionEnded(reason) from None
        except asyncio.CancelledError:
            with suppress(Exception):  # the server learns of it from the end of the connection, too
                await websocket.send(LEAVE)
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise
        finally:
            await _end(writer)
            session.closed(reason)
            if is_ready:
                self._listener.disconnected(reason)
            await websocket.close()

    async def _write(self, websocket: ClientConnection) -> None:
        """Write the frames of the session as they come."""
        # One task: the attachments of a packet must follow it, also if a write has to wait.
        with suppress(Exception):  # the reader gets the same error, and ends the connection
            while True:
                await self._written.wait()
                self._written.clear()
                while self._session.frames:
                    await websocket.send(self._session.frames.popleft())

    async def close(self) -> None:
        """Close the connection; the next call opens a new one."""
        await self.end_streams()
        task, self._task = self._task, None
        if task is not None and self._loop is asyncio.get_running_loop():
            await _end(task)
            self._release(NotConnected("the client was closed"))


def _leave_stream(settled: asyncio.Future[Outcome]) -> None:
    """Leave the stream of a call whose caller is cancelled before it gets the answer."""
    if settled.done() and not settled.cancelled():
        outcome = settled.result()
        if isinstance(outcome, Answer) and isinstance(outcome.result, ArrivingItems):
            outcome.result.leave()


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


def _settle(future: asyncio.Future[Outcome]) -> Callable[[Outcome], None]:
    def settle(outcome: Outcome) -> None:
        if not future.done():
            future.set_result(outcome)

    return settle
