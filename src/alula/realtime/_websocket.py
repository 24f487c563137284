"""A websocket as the transport of a session.

Three things make it fast:

- A frame is sent without a task: ASGI's ``send`` runs until it has to wait, which is rare. (In a
  trial, a writing task for each connection sent a quarter fewer events.)
- The task that receives also runs the call that it received. Only if the call has to wait, another
  task goes on to receive.
- Alula's own server gives each message to `_take` and has `write`, without messages of ASGI. There
  a call begins in the name of the receiving task, which is only woken up if the call has to wait
  (16 % fewer instructions for a call in `make bench only=realtime`).
"""

from __future__ import annotations

import asyncio
from asyncio.tasks import _enter_task, _leave_task  # documented in "Extending asyncio"
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from alula._shares import Turn
from alula._wire import MESSAGES_EXTENSION, Frame
from alula.realtime._calls import ENDED, go_on
from alula.realtime._engine import CLIENT_LEFT, WEBSOCKET, EngineSession, Work
from alula.realtime._sockets import SocketServer

if TYPE_CHECKING:
    from alula.express._http1.websocket import WebSocketProtocol

__all__ = ["WebSocket"]

_FRAMES_AT_ONCE: Final = 64
"""How many frames of a client are handled before other clients have their turn."""

_Started: TypeAlias = tuple[Work, Any, Context]
"""A call that has begun, the future that it waits for, and the context in which it runs."""


class _Write(Protocol):
    """The type of `WebSocket.write`, since type checkers take a callable there for a method."""

    def __call__(self, frame: Frame) -> bool: ...


class WebSocket:
    """The transport of a session whose client has a websocket.

    Args:
        server: Runs tasks that receive while a call waits.
        receive: ASGI's.
        send: ASGI's.
        direct: The websocket of Alula's own server, None for other servers and behind middleware.

    Attributes:
        session: Set before it runs.
        write: Sends a frame as far as the client reads, as `Transport.write` says.
    """

    __slots__ = (
        "_closed",
        "_context",
        "_direct",
        "_receive",
        "_send",
        "_sending",
        "_server",
        "_started",
        "_waiting",
        "session",
        "write",
    )
    name = WEBSOCKET
    session: EngineSession
    _sending: asyncio.Task[None] | None
    _waiting: asyncio.Task[None] | None  # the task that waits for a message
    _started: _Started | BaseException | None  # goes on in that task, or is raised there

    def __init__(
        self,
        server: SocketServer,
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
        direct: WebSocketProtocol | None = None,
    ) -> None:
        self._server = server
        self._receive = receive
        self._send: Any = send
        self._direct = direct
        self._waiting = self._started = None
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sending = None
        # Each call starts with a copy of this: context variables that it sets are for it alone.
        self._context = copy_context()
        self.write: _Write = self._send_frame if direct is None else direct.write

    # -- frames to the client ------------------------------------------------------------------

    def _send_frame(self, frame: Frame) -> bool:
        kind = "text" if isinstance(frame, str) else "bytes"
        return self._send_now({"type": "websocket.send", kind: frame})

    def wake(self) -> None:
        """Do nothing: the session is flushed when the client reads again."""

    def close(self, reason: str) -> None:  # noqa: ARG002  # of the interface
        """Close the websocket; frames that wait to be sent are lost."""
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None
        if not self._closed.done():
            self._closed.set_result(None)
            # The client does not get the reason, which is for the application's log.
            self._send_now({"type": "websocket.close", "code": 1000})

    def _send_now(self, message: MutableMapping[str, Any]) -> bool:
        """Send a message of ASGI; return False if that has to wait, or failed."""
        coroutine: Coroutine[Any, Any, None] = self._send(message)
        try:
            waits_for = coroutine.send(None)
        except StopIteration:
            return True
        except Exception:  # noqa: BLE001  # the client has left, as `receive` says, too
            return False
        self._sending = asyncio.get_running_loop().create_task(self._finish(coroutine, waits_for))
        return False

    async def _finish(self, coroutine: Coroutine[Any, Any, None], waits_for: object) -> None:
        try:
            await go_on(waits_for, coroutine.send, coroutine.throw)
        except Exception:  # noqa: BLE001  # the client has left
            return
        self._sending = None
        self._flush()

    def _flush(self) -> None:
        if self.session.transport is self and self.session.is_open:
            self.session.flush()

    # -- frames of the client ------------------------------------------------------------------

    async def run(self) -> None:
        """Receive until the websocket is closed."""
        if self._direct is not None:
            self._direct.attach(self._take, self._flush)
        await self._receive_all()
        # This task may have run a call while another one received.
        await asyncio.shield(self._closed)

    async def probe(self, seconds: float) -> None:
        """Replace polling as the transport of a session, if the client asks for it in time."""
        session = self.session
        timer = self._server.engine.scheduler.call_later(seconds, self.close, "upgrade timeout")
        try:
            while session.transport is not self:
                frame = None if self._closed.done() else _frame_of(await self._receive())
                if frame is None or not session.probe(frame, self):
                    session.probing = False
                    self.close("not an upgrade")
                    return
        finally:
            timer.cancel()
        await self.run()

    async def _receive_all(self) -> None:
        task = asyncio.current_task()
        received = 0
        while True:
            received += 1
            if not received % _FRAMES_AT_ONCE:
                await asyncio.sleep(0)  # `receive` does not wait as long as there are frames
            self._waiting = task
            try:
                message = None if self._closed.done() else await self._receive()
            except asyncio.CancelledError as error:
                if self._started is None:
                    raise
                await self._finish_work(self._started, error)
                return
            finally:
                self._waiting = None
            frame = None if message is None else _frame_of(message)
            if frame is not None:
                context = self._context.copy()
                self._started = context.run(self._start, context, frame)
            elif message is None or message["type"] != MESSAGES_EXTENSION:
                if not self._closed.done():  # the client has left
                    self._closed.set_result(None)
                self.session.close(CLIENT_LEFT)
                if self._started is None:
                    return
            if self._started is not None:
                self._started = await self._begin_in_turn(self._started)
            if self._started is not None:
                await self._finish_work(self._started)
                return

    async def _begin_in_turn(
        self, started: _Started | BaseException
    ) -> _Started | BaseException | None:
        """Wait for the turn of a call, and begin it; return it if it then has to wait.

        Nothing is received meanwhile, so a client with many calls waits with all of them.
        """
        if isinstance(started, BaseException):
            return started
        work, waits_for, context = started
        try:
            while isinstance(waits_for, Turn):
                await asyncio.wait([waits_for])
                waits_for = context.run(next, work.__await__(), ENDED)
        except BaseException:
            work.close()
            raise
        return None if waits_for is ENDED else (work, waits_for, context)

    def _start(self, context: Context, frame: Frame) -> _Started | None:
        """Handle a frame, and begin the call that it asks for; return the call if it has to wait.

        Args:
            context: The context in which this runs.
            frame: A frame of the client.
        """
        work = self.session.receive(frame, True)
        if work is None:
            return None
        waits_for = next(work.__await__(), ENDED)
        return None if waits_for is ENDED else (work, waits_for, context)

    def _take(self, frame: Frame) -> bool:
        """Handle a frame in the name of the task that waits for one; return False if none waits."""
        task = self._waiting
        if task is None:
            return False
        loop = asyncio.get_running_loop()
        _enter_task(loop, task)  # `asyncio.timeout` and others ask for the current task
        try:
            context = self._context.copy()
            self._started = context.run(self._start, context, frame)
        except BaseException as error:  # noqa: BLE001  # it is raised in the task
            self._started = error
        finally:
            _leave_task(loop, task)
        if self._started is not None and self._direct is not None:
            self._waiting = None
            self._direct.wake()
        return True

    async def _finish_work(
        self, started: _Started | BaseException, cancelled: BaseException | None = None
    ) -> None:
        """Await the rest of a call, while another task receives.

        Args:
            started: The call, or the exception that its beginning raised.
            cancelled: The exception that cancels this task, None if it is not cancelled.
        """
        self._started = None
        if isinstance(started, BaseException):
            raise started
        self._server.spawn(self._receive_all())
        work, waits_for, context = started
        if cancelled is not None and hasattr(waits_for, "cancel") and waits_for.cancel():
            cancelled = None  # like in a task, the cancelled future raises it
        await go_on(
            waits_for,
            lambda value: context.run(work.send, value),
            lambda error: context.run(work.throw, error),
            cancelled,
        )


def _frame_of(message: MutableMapping[str, Any]) -> Frame | None:
    if message["type"] != "websocket.receive":
        return None
    text: str | None = message.get("text")
    if text is not None:
        return text
    data: bytes = message["bytes"]
    return data
