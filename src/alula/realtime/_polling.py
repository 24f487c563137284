"""Long polling: one request waits for frames to the client, others bring frames of the client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any, Final

from alula._shares import Shares
from alula._wire import CLOSE, NOOP, Frame, ProtocolError, decode_payload, encode_payload
from alula.realtime._engine import CLIENT_LEFT, POLLING, EngineSession, Refusal, Scheduler, Work

__all__ = ["Polling", "UnsupportedBody", "read_body"]

_PROBING_SECONDS: Final = 0.1  # how long a request waits while a websocket is tried out

_FRAMES_AT_ONCE: Final = 64
"""How many frames of a request are handled before other clients have their turn."""


class UnsupportedBody(Exception):
    """The body of a request is too large, or has a wrong type; with the status of the response."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


async def read_body(
    receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
    limit: int,
    shares: Shares,
    address: str | None,
) -> bytes:
    """Return the body of a request.

    Args:
        receive: ASGI's.
        limit: How many bytes it may have.
        shares: The bytes that all incomplete bodies may have together.
        address: The address of the client.

    Raises:
        UnsupportedBody: It has too many bytes.
        Refusal: The client has left.
    """
    parts: list[bytes] = []
    size = 0
    try:
        while True:
            message = await receive()
            if message["type"] != "http.request":
                raise Refusal.bad_request()
            part = message.get("body", b"")
            if size + len(part) > limit:
                raise UnsupportedBody(413)
            if not shares.take(address, len(part)):
                raise UnsupportedBody(429)
            size += len(part)
            parts.append(part)
            if not message.get("more_body", False):
                return b"".join(parts)
    finally:
        shares.give_back(address, size)


class Polling:
    """The transport of a session whose client polls.

    Args:
        scheduler: Has the time.

    Attributes:
        session: Set when the session is open.
    """

    name = POLLING
    session: EngineSession

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._waiting: asyncio.Future[None] | None = None
        self._last: list[Frame] = [NOOP]  # for a waiting request if nothing is queued
        self._takes = False

    # -- frames to the client ------------------------------------------------------------------

    def write(self, frame: Frame) -> bool:  # noqa: ARG002  # of the interface
        """Raise an error: the session queues all frames until a request takes them.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError("frames of a polling session are taken, not written")

    def wake(self) -> None:
        """Wake up the waiting request, if there is one."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def close(self, reason: str) -> None:
        """End. The waiting request gets the queued frames and a close packet.

        If a websocket replaces polling, or the client itself has closed the session, it gets a
        noop.
        """
        if reason not in {"upgrade", CLIENT_LEFT}:
            self._last = [*self.session.take_all(), CLOSE]
        self.wake()

    async def next_payload(
        self, receive: Callable[[], Awaitable[MutableMapping[str, Any]]]
    ) -> bytes:
        """Wait for frames; return them as the body of a response.

        Raises:
            Refusal: Another request is waiting already. This ends the session.
        """
        session = self.session
        if self._waiting is not None:
            session.close("transport error")
            raise Refusal.bad_request()
        frames = session.take_all()
        if not frames:
            self._waiting = asyncio.get_running_loop().create_future()
            timer = None
            if session.probing:
                timer = self._scheduler.call_later(_PROBING_SECONDS, self.wake)
            leaves = asyncio.ensure_future(_wait_for_leave(receive))
            leaves.add_done_callback(lambda _: self.wake())
            try:
                await self._waiting
            finally:
                self._waiting = None
                leaves.cancel()
                if timer is not None:
                    timer.cancel()
            # The client has left and would not read the response, so its frames stay queued.
            if leaves.done() and not leaves.cancelled():
                return b""
            frames = session.take_all()
        session.receiver.drained()
        return encode_payload(frames or self._last)

    # -- frames of the client ------------------------------------------------------------------

    async def take_body(
        self, body: Coroutine[Any, Any, bytes], spawn: Callable[[Work], object]
    ) -> list[Frame]:
        """Handle the frames of a request, and return them.

        Args:
            body: Returns the body of the request.
            spawn: Runs the calls.

        Raises:
            Refusal: The body is invalid, or another request is not complete. Both end the session.
            UnsupportedBody: The body is too large.
        """
        if self._takes:
            body.close()
            self.session.close("transport error")
            raise Refusal.bad_request()
        self._takes = True
        try:
            frames = decode_payload(await body)
            for number, frame in enumerate(frames, 1):
                work = self.session.receive(frame)
                if work is not None:
                    spawn(work)
                if not number % _FRAMES_AT_ONCE:
                    await asyncio.sleep(0)
        except ProtocolError as error:
            self.session.close(f"parse error: {error}")
            raise Refusal.bad_request() from None
        finally:
            self._takes = False
        return frames


async def _wait_for_leave(receive: Callable[[], Awaitable[MutableMapping[str, Any]]]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
