"""Recovery at another worker: a client comes back to a worker that does not have its connection.

The connection stays in its worker, because the objects that an application keeps in it cannot be
sent. Instead, the worker that the client came to passes the frames in both directions, and looks
like a websocket client to the other worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, MutableMapping
from typing import Any, Final
from urllib.parse import urlencode

from alula._wire import OPEN, PING, PONG, VERSION, Frame
from alula.realtime._engine import WEBSOCKET, EngineSession, Work
from alula.realtime._handover import Handover
from alula.realtime._handshake import Handshake

__all__ = ["SessionProxy"]

_MAX_FRAMES: Final = 1_000
_MAX_BYTES: Final = 1_048_576
"""How many frames and bytes may wait for the other worker."""


class SessionProxy:
    """Passes the frames of a session to another worker.

    Args:
        session: The session of the client here.
        handshake: The request that opened it.
        join: The frames with which the client joins.
        accepted: Called when the session need no longer join here.
    """

    def __init__(
        self,
        session: EngineSession,
        handshake: Handshake,
        join: list[Frame],
        accepted: Callable[[], None],
    ) -> None:
        self._session = session
        self._receiver, session.receiver = session.receiver, self
        self._handshake = handshake
        self._accepted = accepted
        self._is_accepted = False
        self._messages: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
        self._bytes = 0
        self._messages.put_nowait({"type": "websocket.connect"})
        for frame in join:
            self.receive(frame)

    def receive(self, frame: Frame, at_once: bool = False) -> None:  # noqa: ARG002  # nothing runs here
        """Pass a frame of the client on."""
        kind = "text" if isinstance(frame, str) else "bytes"
        if self._messages.qsize() < _MAX_FRAMES and self._bytes <= _MAX_BYTES:
            self._bytes += len(frame)
            self._messages.put_nowait({"type": "websocket.receive", kind: frame})
        else:
            self._session.close("transport error")

    def drained(self) -> None:
        """Do nothing: the other worker has the lists that may wait for this."""

    def closed(self, reason: str) -> None:  # noqa: ARG002  # the name of the protocol
        """Tell the other worker that the client has left, so its connection sleeps again."""
        self._accepted()
        self._messages.put_nowait({"type": "websocket.disconnect", "code": 1006})

    async def run(self, handover: Handover, worker_id: str, join: Callable[[], Work]) -> None:
        """Pass frames until either side ends.

        Args:
            handover: Connects to the other worker.
            worker_id: The name of that worker.
            join: Joins here, in case the other worker refuses the websocket.
        """
        handshake = self._handshake
        query = {**handshake.query, "EIO": VERSION, "transport": WEBSOCKET}
        query.pop("sid", None)
        headers = handshake.headers.items()
        scope: dict[str, Any] = {
            "type": "websocket",
            "path": "/",
            "query_string": urlencode(query).encode(),
            "headers": [(name.encode("latin-1"), v.encode("latin-1")) for name, v in headers],
            "client": (handshake.ip, 0) if handshake.ip else None,
        }

        async def refuse(*_: object) -> None:
            """Do nothing: that worker has ended, so the client joins here."""

        await handover.hand_over(worker_id, scope, self._next_message, self._take, refuse)
        if self._is_accepted:
            self._session.close("transport close")
        elif self._session.is_open:
            self._session.receiver = self._receiver
            await join()

    async def _next_message(self) -> MutableMapping[str, Any]:
        message = await self._messages.get()
        self._bytes -= len(message.get("text") or message.get("bytes") or "")
        return message

    async def _take(self, message: MutableMapping[str, Any]) -> None:
        """Handle a message of the other worker."""
        if message["type"] == "websocket.accept":
            self._is_accepted = True
            self._accepted()
        elif message["type"] == "websocket.send":
            text: str | None = message.get("text")
            frame: Frame = message["bytes"] if text is None else text
            if frame == PING:
                self.receive(PONG)  # the client itself is pinged by its session here
            elif isinstance(frame, bytes) or not frame.startswith(OPEN):
                self._session.send(frame)
        elif message["type"] == "websocket.close" and self._is_accepted:
            # Immediately, because the other worker waits to be told that the client has left.
            self._session.close("transport close")
