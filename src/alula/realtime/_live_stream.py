"""One live list as a stream of server-sent events."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from alula._channels import Event
from alula._json_encoding import dumps
from alula._live import ListMessage, LiveList
from alula.realtime._event_stream import (
    RETRY_MILLISECONDS,
    Receive,
    Scope,
    Send,
    send_part,
    start_of_stream,
    stop_later,
    until_either_ends,
)

if TYPE_CHECKING:
    from alula._live import LiveLists

__all__ = ["LiveStream"]

MAX_QUEUED: Final = 100
MAX_QUEUED_BYTES: Final = 256 * 1024
"""How far a client may be behind. Then it gets the whole list once it reads again."""


class LiveStream:
    """Sends the messages of one list: the `Link` of its connection.

    Args:
        heartbeat: Seconds of silence after which it sends a comment.
        last_id: What this client has shown, None if it is new.

    Attributes:
        leave: Called once when it ends, to remove its connection and its list.
        expires: When it ends with ``event: expired``, in seconds since 1970; None for never.
    """

    def __init__(self, heartbeat: float, last_id: str | None) -> None:
        self._heartbeat = heartbeat
        self._last_id = last_id
        self.leave: Callable[[], object] = dict  # there is no connection yet
        self.expires: float | None = None
        self._list: LiveList | None = None
        self._lists: LiveLists | None = None
        self._queue: deque[bytes] = deque()
        self._bytes = 0
        self._is_behind = False
        self._has_news = asyncio.Event()
        self._has_ended = False
        self._last = b""
        self._sending: asyncio.Task[None] | None = None

    @property
    def queued(self) -> int:
        """How many messages wait until the client reads."""
        return len(self._queue)

    def show(self, lists: LiveLists, shown: LiveList, sign: Callable[[bytes], str]) -> None:
        """Say which list it sends.

        Args:
            lists: Those of the application.
            shown: The list.
            sign: Returns what a client shows when it comes back, from a digest of its rows.
        """
        self._lists, self._list, self._sign = lists, shown, sign

    def deliver(self, event: Event) -> None:
        """Ignore an event of a service: a list tells more."""

    def take(self, messages: Sequence[ListMessage]) -> None:
        """Queue the messages of a batch, unless the client is too far behind."""
        if self._is_behind and messages[0].kind not in {"closed", "reset"}:
            return
        assert self._list is not None  # noqa: S101  # for type checkers
        have = self._sign(self._list.digest)
        waits = bool(self._queue)
        for message in messages:
            kind, data = message.kind, dumps(message.body)
            if kind == "snapshot" and have == self._last_id:
                kind, data = "unchanged", b"null"  # it came back, and has all
            block = b"event: " + kind.encode() + b"\ndata: " + data + b"\n"
            if message is messages[-1] and kind != "closed":
                block += b"id: " + have.encode() + b"\n"
            self._queue.append(block + b"\n")
            self._bytes += len(block)
        # A batch of its own may be larger: a client that reads slowly gets the list at last.
        if waits and (len(self._queue) > MAX_QUEUED or self._bytes > MAX_QUEUED_BYTES):
            self._is_behind = True
            self._queue.clear()
            self._bytes = 0
        self._has_news.set()
        if messages[-1].kind == "closed":
            self.end()

    async def close(self, reason: str = "", *, reconnect: bool = True) -> None:  # noqa: ARG002  # browsers come back by themselves
        """End the stream, with the event ``expired`` for that reason."""
        self.end(reason)

    def end(self, reason: str = "") -> None:
        """End the stream; does nothing the second time."""
        if self._has_ended:
            return
        self._has_ended = True
        if reason == "expired":
            self._last = b"event: expired\ndata: null\n\n"
        self._has_news.set()
        if self._sending is not None:
            stop_later(self._sending)
        self.leave()

    async def run(self, _: Scope, receive: Receive, send: Send) -> None:
        """Send the stream until either side ends it."""
        sending = asyncio.create_task(self._send_all(send), name="a live list as a stream")
        self._sending = sending
        if self._has_ended:  # before it ran
            stop_later(sending)
        await until_either_ends(sending, receive, self.expires, self.end)

    async def _send_all(self, send: Send) -> None:
        await send(start_of_stream())
        await send_part(send, f"retry: {RETRY_MILLISECONDS}\n\n".encode())
        while True:
            self._has_news.clear()
            blocks = b"".join(self._queue)
            self._queue.clear()
            self._bytes = 0
            if blocks:
                await send_part(send, blocks)
                continue
            if self._has_ended:
                break
            if self._is_behind and self._lists is not None and self._list is not None:
                self._is_behind = False
                self._lists.catch_up(self._list)
            try:
                async with asyncio.timeout(self._heartbeat):
                    await self._has_news.wait()
            except TimeoutError:
                await send_part(send, b":\n\n")
        await send({"type": "http.response.body", "body": self._last, "more_body": False})
