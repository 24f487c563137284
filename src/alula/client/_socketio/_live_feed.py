"""A live list over socket.io."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

from alula._context import Params
from alula.client._live_list import ListSink, closed_error, is_final
from alula.client._retries import backoff
from alula.client._socketio._session import Answer, SocketRequest
from alula.errors import FrameworkError, Unavailable
from alula.types import is_mapping

__all__ = ["ListConnection", "SocketFeed"]


class ListConnection(Protocol):
    """What a list needs of its connection."""

    async def send_now(self, request: SocketRequest) -> Answer:
        """Send a call, in the event loop of the connection."""
        ...

    def list_request(self, name: str, method: str, data: object, params: Params) -> SocketRequest:
        """Return the packet of a call of ``live`` or ``unlive``."""
        ...

    def add_list(self, path: str, feed: SocketFeed) -> str:
        """Return a new name for a list, whose events go to a feed."""
        ...

    def remove_list(self, path: str, name: str) -> None:
        """Forget a list."""
        ...


class SocketFeed:
    """Brings the messages of one list over a connection that stays open.

    Args:
        connection: The connection.
        name: The path of the service.
        params: Runs the hooks of `find`, and returns its params.
        sink: Takes the messages.
    """

    def __init__(
        self,
        connection: ListConnection,
        name: str,
        params: Callable[[], Awaitable[Params]],
        sink: ListSink,
    ) -> None:
        self._connection = connection
        self._name = name
        self._params = params
        self._sink = sink
        self._request: SocketRequest | None = None  # the call that has opened the list
        self._list: str | None = None
        self._early: list[Mapping[str, Any]] | None = None
        self._is_true = asyncio.Event()  # the list is open, or has failed
        self._opening: asyncio.Task[None] | None = None
        self._was_open = False

    async def open(self) -> None:
        """Open the list (see `ListFeed`)."""
        await self._begin()
        self._was_open = True

    async def settled(self) -> None:
        """Wait until the list has what was written before (see `ListFeed`)."""
        while True:
            await self._is_true.wait()
            if self._sink.error is not None:
                raise self._sink.error
            request = self._connection.list_request(
                self._name, "live", {"settled": True}, await self._params()
            )
            with suppress(Unavailable):  # the list that is opened again has all
                (await self._connection.send_now(request)).read(request)
                return
            await asyncio.sleep(0)  # the connection tells of its end first

    async def close(self) -> None:
        """Close the list (see `ListFeed`)."""
        if self._opening is not None:
            self._opening.cancel()
        request = self._forget()
        if request is not None:
            with suppress(FrameworkError):  # the connection has ended, and the list with it
                await self._connection.send_now(request)

    def end(self) -> None:
        """End the list, because the client is closed."""
        self._forget()
        self._sink.end()
        self._is_true.set()

    # -- what the connection tells -------------------------------------------------------------

    def take(self, message: Mapping[str, Any]) -> None:
        """Take an event of the list."""
        if self._early is not None:
            self._early.append(message)  # it came before the page reached this task
        else:
            self._apply(message)

    def broke(self) -> None:
        """Learn that the connection broke."""
        self._is_true.clear()

    def joined(self, *, recovered: bool) -> None:
        """Learn that there is a connection again.

        Args:
            recovered: Whether the server still has the lists, and tells what they have missed.
        """
        if not self._was_open:
            return  # `open` fails, or still waits for this connection
        if recovered and self._early is None:
            self._is_true.set()
            return
        if self._opening is not None:
            self._opening.cancel()
        self._opening = asyncio.get_running_loop().create_task(self._open_again())

    # -- the list ------------------------------------------------------------------------------

    async def _open_again(self) -> None:
        failures = 0
        while True:
            try:
                await self._begin()
            except FrameworkError as error:
                if is_final(error):
                    self._fail(error)
                    return
            except Exception as error:  # noqa: BLE001  # of a hook; the reader gets it
                self._fail(error)
                return
            else:
                return
            await asyncio.sleep(backoff(failures))
            failures += 1

    async def _begin(self) -> None:
        params = await self._params()
        self._forget()
        path = self._connection.list_request(self._name, "live", {}, params).arguments[1]
        self._list = self._connection.add_list(str(path), self)
        have = self._sink.state.have
        shown = {} if have is None else {"have": have}
        request = self._connection.list_request(
            self._name, "live", {"list": self._list, **shown}, params
        )
        self._request, self._early = request, []
        try:
            page = (await self._connection.send_now(request)).read(request)
            early, self._early = self._early, None
            body: Mapping[str, Any] = page if is_mapping(page) else dict[str, Any]()
            self._sink.state.begin()
            self._sink.take("unchanged" if body.get("unchanged") else "snapshot", body)
        except BaseException:
            self._forget()
            raise
        self._is_true.set()
        for message in early:
            self._apply(message)

    def _apply(self, message: Mapping[str, Any]) -> None:
        kind = str(message.get("kind"))
        if kind == "closed" and self._request is not None:
            self._fail(closed_error(self._request, message))
            return
        try:
            self._sink.take(kind, message)
        except FrameworkError as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._forget()
        self._sink.fail(error)
        self._is_true.set()

    def _forget(self) -> SocketRequest | None:
        """Forget the list; return the call that closes it, None if it is not open."""
        request, self._request, self._early = self._request, None, None
        if request is None or self._list is None:
            return None
        path, name = str(request.arguments[1]), self._list
        self._connection.remove_list(path, name)
        arguments = ["unlive", path, {"list": name}, {}]
        return SocketRequest("unlive", request.url, arguments, repeatable=False)
