"""A live list over HTTP, as a stream of server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from alula._context import Params
from alula.client._codec import Request, Response
from alula.client._event_parser import EventParser, StreamedEvent
from alula.client._live_list import ListSink, closed_error, is_final
from alula.client._retries import backoff
from alula.client._send_options import SILENCE
from alula.errors import BadGateway, FrameworkError, Unavailable
from alula.types import is_mapping

__all__ = ["StreamConnection", "StreamFeed"]


class StreamConnection(Protocol):
    """What a list needs of its connection."""

    def stream_request(self, name: str, params: Params, have: str | None) -> Request:
        """Return the request of the stream of a list."""
        ...

    async def stream(self, request: Request, take: Callable[[bytes], object]) -> Response:
        """Send a request, and pass the parts of a successful response on as they arrive."""
        ...

    def read(self, request: Request, response: Response) -> object:
        """Return the result in a response; raises the error in it."""
        ...

    @property
    def max_event(self) -> int:
        """The largest event, in bytes."""
        ...


class StreamFeed:
    """Brings the messages of one list over one stream after another.

    Args:
        connection: The connection.
        name: The path of the service.
        params: Runs the hooks of `find`, and returns its params.
        sink: Takes the messages.
    """

    def __init__(
        self,
        connection: StreamConnection,
        name: str,
        params: Callable[[], Awaitable[Params]],
        sink: ListSink,
    ) -> None:
        self._connection = connection
        self._name = name
        self._params = params
        self._sink = sink
        self._following: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._streams = 0  # how many have begun
        self._pages: dict[asyncio.Future[None], int] = {}  # who waits for the page of which stream
        self._failures = 0

    async def open(self) -> None:
        """Open the list (see `ListFeed`)."""
        page = self._next_page()
        self._following = asyncio.get_running_loop().create_task(self._follow())
        try:
            await page
        except BaseException:
            await self.close()
            raise

    async def settled(self) -> None:
        """Wait until the list has what was written before (see `ListFeed`).

        No other request tells what a stream has seen. So another stream begins, whose page is read
        behind the writes.
        """
        if self._sink.error is not None:
            raise self._sink.error
        if self._reading is None:
            return  # it was closed
        page = self._next_page()
        self._reading.cancel()
        await page

    async def close(self) -> None:
        """Close the list (see `ListFeed`)."""
        tasks = [task for task in (self._following, self._reading) if task is not None]
        self._following = self._reading = None
        for task in tasks:
            task.cancel()
        # Of those who wait for a page, each gets the failure of the list already.
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tell_pages(None)

    @property
    def is_open(self) -> bool:
        """Whether the list was opened, and not closed."""
        return self._following is not None

    async def end(self) -> None:
        """End the list, because the client is closed."""
        self._sink.end()
        await self.close()

    def _next_page(self) -> asyncio.Future[None]:
        page: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pages[page] = self._streams + 1
        return page

    def _tell_pages(self, number: int | None, error: Exception | None = None) -> None:
        """Tell those who wait for the page of a stream, or all of them, that it is there."""
        for page, wanted in [*self._pages.items()]:
            if number is None or wanted <= number:
                del self._pages[page]
                if page.done():
                    continue  # nobody waits for it any more
                if error is None:
                    page.set_result(None)
                else:
                    page.set_exception(error)

    async def _follow(self) -> None:
        """Read one stream after another, until the list ends."""
        while True:
            reading = self._reading = asyncio.get_running_loop().create_task(self._read())
            await asyncio.wait([reading])
            if reading.cancelled():
                continue  # by `settled`, which does not wait longer
            error = reading.exception()
            if isinstance(error, Exception):
                is_open = self._sink.state.is_open
                if not is_open or not isinstance(error, FrameworkError) or is_final(error):
                    self._sink.fail(error)
                    self._tell_pages(None, error)
                    return
            await asyncio.sleep(backoff(self._failures))
            self._failures += 1

    async def _read(self) -> None:
        """Read one stream to its end."""
        self._streams += 1
        number, sink = self._streams, self._sink
        request = self._connection.stream_request(self._name, await self._params(), sink.state.have)
        parser = EventParser(self._connection.max_event)
        sink.state.begin()
        silence = asyncio.timeout(SILENCE)

        def take(part: bytes) -> None:
            silence.reschedule(asyncio.get_running_loop().time() + SILENCE)
            for event in parser.feed(part):
                self._take(request, event)
                self._failures = 0
                self._tell_pages(number)

        try:
            async with silence:
                response = await self._connection.stream(request, take)
        except TimeoutError:
            raise Unavailable("the stream of the list was silent for too long") from None
        if response.status != 200 or not sink.state.is_open:
            self._connection.read(request, response)
            raise BadGateway("the called server sent no stream of events")

    def _take(self, request: Request, event: StreamedEvent) -> None:
        """Take an event.

        Raises:
            FrameworkError: The list has ended, or it is no event of a list.
        """
        if event.kind == "expired":
            return  # the next stream has another token, or is refused
        try:
            body = json.loads(event.data)
        except ValueError:
            raise BadGateway("the response of the called server is not a live list") from None
        given: dict[str, Any] = {**body} if is_mapping(body) else {}
        if event.kind == "closed":
            raise closed_error(request, given)
        if event.id is not None:
            given["have"] = event.id
        self._sink.take(event.kind, given)
