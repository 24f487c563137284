"""Websockets on granian: messages that are too large, closes with a code, and denials."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Final

from starlette.types import Message, Scope

from alula.errors import FrameworkError
from alula.express._granian.connections import Peer
from alula.express._granian.sendable import Proto, checked_head, checked_part

__all__ = ["SERVICE_RESTART", "WebSocket"]

# Close codes of websockets: RFC 6455, 7.4.1, and the registry of IANA.
_ABNORMAL: Final = 1006
_MESSAGE_TOO_BIG: Final = 1009
SERVICE_RESTART: Final = 1012

_PAUSE_SECONDS: Final = 0.1


class WebSocket:
    """A websocket under way.

    Args:
        peer: The client.
        proto: granian's.
        max_message: Bytes that a message may have.

    Attributes:
        peer: As given.
        task: In which the application runs.
        is_cut: Whether it was ended here; what the application sends from then on is refused.
    """

    __slots__ = (
        "_close_code",
        "_closing",
        "_denial",
        "_has_ended",
        "_max_message",
        "_proto",
        "_receiving",
        "is_cut",
        "peer",
        "task",
    )

    task: asyncio.Task[None]

    def __init__(self, peer: Peer, proto: Proto, max_message: int) -> None:
        self.peer = peer
        self.is_cut = False
        self._proto = proto
        self._max_message = max_message
        self._receiving: asyncio.Future[Message] | None = None
        self._has_ended = False
        self._close_code = _ABNORMAL
        self._closing: asyncio.Task[None] | None = None
        self._denial: tuple[Message, int | None] | None = None  # its head, and the announced length

    async def receive(self) -> Message:
        """Return the next message; one that is too large is the last."""
        if self._has_ended:
            # An application that asks again and again must not keep the event loop busy.
            await asyncio.sleep(_PAUSE_SECONDS)
        elif not self.is_cut:
            self._receiving = asyncio.ensure_future(self._proto.receive())
            try:
                message = await self._receiving
            except asyncio.CancelledError:
                task: Any = asyncio.current_task()
                if not self.is_cut or task.cancelling():
                    raise
            else:
                if message["type"] == "websocket.disconnect":
                    self._close_code = message["code"]
                elif message["type"] == "websocket.connect" or not self._is_too_large(message):
                    return message
                else:
                    self.close(_MESSAGE_TOO_BIG)
        self._has_ended = True
        return {"type": "websocket.disconnect", "code": self._close_code}

    def _is_too_large(self, message: Message) -> bool:
        # UTF-8 may take up to four bytes for a character; most texts are far from that.
        text = message.get("text")
        size = len(message["bytes"]) if text is None else len(text)
        if text is not None and size <= self._max_message < 4 * size:
            size = len(text.encode())
        return size > self._max_message

    async def send(self, message: Message) -> None:
        """Take a message of the application.

        Raises:
            OSError: The websocket is closed.
            RuntimeError: granian cannot send the message, or the length of a body is not the
                announced one.
        """
        if self.is_cut:
            raise OSError("the websocket is closed")
        kind = message["type"]
        if kind == "websocket.close":
            self.close(message.get("code", 1000), message.get("reason"))
        elif kind == "websocket.http.response.start":
            self._denial = checked_head(message, has_body=True)
        elif kind == "websocket.http.response.body":
            if self._denial is None:
                raise RuntimeError(f"the ASGI message {kind!r} is out of turn")
            head, length = self._denial
            part, _ = checked_part(message, length)
            if part["more_body"]:
                raise RuntimeError(
                    "granian denies a websocket with one message alone; send the whole body in it"
                )
            await self._proto.send(head)
            await self._proto.send(part)
        else:
            name = message.get("subprotocol")
            if name is not None and not (
                isinstance(name, str) and name.isascii() and name.isprintable()
            ):
                raise RuntimeError(f"the subprotocol {name!r} cannot be sent")
            # In a coroutine: real time runs its first step by itself.
            await self._proto.send(message)

    def close(self, code: int, reason: str | None = None) -> None:
        """Close it; what the application sends from now on is refused."""
        if self.is_cut:
            return
        self.is_cut, self._close_code = True, code

        async def close() -> None:
            if self._receiving is not None:
                # granian sends nothing before a `receive` that waits has ended.
                self._receiving.cancel()
            message = {"type": "websocket.close", "code": code, "reason": reason or ""}
            await self._proto.send(message)

        self._closing = asyncio.create_task(close())

    def rest(self, _scope: Scope) -> None:
        """Return None: nothing is left that somebody has to take."""

    def end(self) -> Awaitable[None] | None:
        """Return what waits until the client is told: granian would close without the code."""
        return self._closing

    async def cut(self, _error: FrameworkError) -> None:
        """Drop what is sent from now on; its client has been told, if it reads."""
        self.is_cut = True
