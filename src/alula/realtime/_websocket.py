"""A websocket as the transport of a session.

Two things make it fast. A frame is sent without a task: ASGI's ``send`` runs until it has to wait,
which it seldom does (a trial with a writing task for each connection sent a quarter fewer events).
And the task that receives also runs the call that it received; only when the call has to wait,
another task goes on to receive.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, MutableMapping
from contextvars import Context, copy_context
from typing import Any, Final

from alula._wire import Frame
from alula.realtime._engine import WEBSOCKET, Session, Work
from alula.realtime._sockets import Hub

__all__ = ["WebSocket"]

_FRAMES_AT_ONCE: Final = 64
"""How many frames of a client are taken before all others have their turn."""


class WebSocket:
    """The transport of a session whose client has a websocket.

    Args:
        hub: Runs what has to wait.
        receive: ASGI's.
        send: ASGI's.

    Attributes:
        session: Set before it runs.
    """

    __slots__ = ("_closed", "_context", "_hub", "_receive", "_send", "_sending", "session")
    name = WEBSOCKET
    session: Session
    _sending: asyncio.Task[None] | None

    def __init__(
        self,
        hub: Hub,
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        self._hub = hub
        self._receive = receive
        self._send: Any = send
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sending = None
        # Each call starts with this one: what a call sets must not leak into the next.
        self._context = copy_context()

    # -- frames to the client ------------------------------------------------------------------

    def write(self, frame: Frame) -> bool:
        """Send a frame at once, or as far as the client reads."""
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
            await _go_on(waits_for, coroutine.send, coroutine.throw)
        except Exception:  # noqa: BLE001  # as above
            return
        self._sending = None
        if self.session.transport is self and self.session.is_open:
            self.session.flush()

    # -- frames of the client ------------------------------------------------------------------

    async def run(self) -> None:
        """Receive until the websocket is closed."""
        await self._receive_all()
        # This task may have been busy with a call while another went on to receive.
        await asyncio.shield(self._closed)

    async def probe(self, seconds: float) -> None:
        """Take over the session of a polling client, if the client asks for it in time."""
        session = self.session
        timer = self._hub.engine.scheduler.call_later(seconds, self.close, "upgrade timeout")
        try:
            while session.transport is not self:
                frame = await self._next_frame()
                if frame is None or not session.probe(frame, self):
                    session.probing = False
                    self.close("not an upgrade")
                    return
        finally:
            timer.cancel()
        await self.run()

    async def _receive_all(self) -> None:
        session = self.session
        followed = False

        def follow() -> None:
            nonlocal followed
            followed = True
            self._hub.spawn(self._receive_all())

        received = 0
        while not followed:
            received += 1
            if not received % _FRAMES_AT_ONCE:
                await asyncio.sleep(0)  # `receive` does not wait while frames are there
            # `_next_frame`, without its coroutine for each call.
            message = None if self._closed.done() else await self._receive()
            frame = None if message is None else _frame_of(message)
            if frame is None:
                if not self._closed.done():  # the client has left: nothing is sent to it
                    self._closed.set_result(None)
                session.close("transport close")
                return
            work = session.receive(frame)
            if work is not None:
                await _run_until_it_waits(work, self._context.copy(), follow)

    async def _next_frame(self) -> Frame | None:
        """Return the next frame, None if the websocket is closed."""
        return None if self._closed.done() else _frame_of(await self._receive())


def _frame_of(message: MutableMapping[str, Any]) -> Frame | None:
    if message["type"] != "websocket.receive":
        return None
    text: str | None = message.get("text")
    if text is not None:
        return text
    data: bytes = message["bytes"]
    return data


async def _run_until_it_waits(work: Work, context: Context, follow: Callable[[], None]) -> None:
    """Await a coroutine in a context of its own; call ``follow`` before it waits at first."""
    try:
        waits_for = context.run(work.send, None)
    except StopIteration:
        return
    follow()
    await _go_on(
        waits_for,
        lambda value: context.run(work.send, value),
        lambda error: context.run(work.throw, error),
    )


@types.coroutine
def _go_on(
    waits_for: object, send: Callable[[Any], object], throw: Callable[[BaseException], object]
) -> Generator[Any, Any, None]:
    """Await the rest of a coroutine whose first step was run already.

    Args:
        waits_for: What it waits for.
        send: Runs its next step with a value.
        throw: Runs its next step with an exception.
    """
    while True:
        try:
            value = yield waits_for
        except BaseException as error:  # noqa: BLE001  # it is for the coroutine
            step: Callable[[Any], object] = throw
            value = error
        else:
            step = send
        try:
            waits_for = step(value)
        except StopIteration:
            return
