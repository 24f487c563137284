"""A websocket as the transport of a session.

Three things make it fast. A frame is sent without a task: ASGI's ``send`` runs until it has to
wait, which it seldom does (a trial with a writing task for each connection sent a quarter fewer
events). The task that receives also runs the call that it received; only when the call has to wait,
another task goes on to receive. And where the server has the `MessagesExtension`, a call begins at
once in the name of that task, which wakes up only for a call that waits (bench realtime: 16 % fewer
instructions for each call).
"""

from __future__ import annotations

import asyncio
from asyncio.tasks import _enter_task, _leave_task  # documented in "Extending asyncio"
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from contextvars import Context, copy_context
from typing import Any, Final, TypeAlias

from alula._shares import Turn
from alula._wire import MESSAGES_EXTENSION, Frame, MessagesExtension
from alula.realtime._calls import ENDED, go_on
from alula.realtime._engine import CLIENT_LEFT, WEBSOCKET, Session, Work
from alula.realtime._sockets import Hub

__all__ = ["WebSocket"]

_FRAMES_AT_ONCE: Final = 64
"""How many frames of a client are taken before all others have their turn."""

_Started: TypeAlias = tuple[Work, Any, Context]
"""What has begun, what it waits for, and where it runs."""


class WebSocket:
    """The transport of a session whose client has a websocket.

    Args:
        hub: Runs what has to wait.
        receive: ASGI's.
        send: ASGI's.
        direct: Takes the place of ``receive`` and ``send`` for messages, if the server has it.

    Attributes:
        session: Set before it runs.
    """

    __slots__ = (
        "_closed",
        "_context",
        "_direct",
        "_hub",
        "_receive",
        "_send",
        "_sending",
        "_started",
        "_waiting",
        "session",
    )
    name = WEBSOCKET
    session: Session
    _sending: asyncio.Task[None] | None
    _waiting: asyncio.Task[None] | None  # the task that waits for a message
    _started: _Started | BaseException | None  # goes on in that task, or is raised there

    def __init__(
        self,
        hub: Hub,
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
        direct: MessagesExtension | None = None,
    ) -> None:
        self._hub = hub
        self._receive = receive
        self._send: Any = send
        self._direct = direct
        self._waiting = self._started = None
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sending = None
        # Each call starts with this one: what a call sets must not leak into the next.
        self._context = copy_context()

    # -- frames to the client ------------------------------------------------------------------

    def write(self, frame: Frame) -> bool:
        """Send a frame at once, or as far as the client reads."""
        if self._direct is not None:
            return self._direct.write(frame)
        kind = "text" if isinstance(frame, str) else "bytes"
        return self._write({"type": "websocket.send", kind: frame})

    def wake(self) -> None:
        """The session flushes itself when the sending that waits has ended."""

    def close(self, reason: str) -> None:  # noqa: ARG002  # of the interface
        """Close the websocket; what waits to be sent is lost."""
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None
        if not self._closed.done():
            self._closed.set_result(None)
            # Without the reason: it is the application's, for its own log.
            self._write({"type": "websocket.close", "code": 1000})

    def _write(self, message: MutableMapping[str, Any]) -> bool:
        coroutine: Coroutine[Any, Any, None] = self._send(message)
        try:
            waits_for = coroutine.send(None)
        except StopIteration:
            return True
        except Exception:  # noqa: BLE001  # the client has left: `receive` tells, too
            return False
        self._sending = asyncio.get_running_loop().create_task(self._finish(coroutine, waits_for))
        return False

    async def _finish(self, coroutine: Coroutine[Any, Any, None], waits_for: object) -> None:
        try:
            await go_on(waits_for, coroutine.send, coroutine.throw)
        except Exception:  # noqa: BLE001  # as above
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
        # This task may have been busy with a call while another went on to receive.
        await asyncio.shield(self._closed)

    async def probe(self, seconds: float) -> None:
        """Take over the session of a polling client, if the client asks for it in time."""
        session = self.session
        timer = self._hub.engine.scheduler.call_later(seconds, self.close, "upgrade timeout")
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
                await asyncio.sleep(0)  # `receive` does not wait while frames are there
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
                if not self._closed.done():  # the client has left: nothing is sent to it
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
        """Wait until a call may begin; return what has to wait then.

        Nothing is received meanwhile, so that a client with many calls waits with all of them.
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
        """Take a frame, and run the call that it asks for; return what has to wait.

        Args:
            context: That in which this runs.
            frame: What the client has sent.
        """
        work = self.session.receive(frame, True)
        if work is None:
            return None
        waits_for = next(work.__await__(), ENDED)
        return None if waits_for is ENDED else (work, waits_for, context)

    def _take(self, frame: Frame) -> bool:
        """Take a frame as the task that waits for one; return False if none does."""
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
        """Await the rest of a call, while another task goes on to receive.

        Args:
            started: The call, or what its beginning has raised.
            cancelled: Was raised in this task before it could await the call.
        """
        self._started = None
        if isinstance(started, BaseException):
            raise started
        self._hub.spawn(self._receive_all())
        work, waits_for, context = started
        if cancelled is not None and hasattr(waits_for, "cancel") and waits_for.cancel():
            cancelled = None  # as a task does: what it waits for tells it
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
