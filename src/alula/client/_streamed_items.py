"""The items of methods that stream, as a client gets them."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import chain
from types import TracebackType
from typing import Any, Generic, Self, TypeVar
from weakref import finalize

from alula.client._codec import Request, Response, Sendable, error_of_json, with_request_error
from alula.client._event_parser import EventParser, StreamedEvent
from alula.client._response_stream import ResponseStream
from alula.client._transport import run_sync
from alula.errors import BadGateway, FrameworkError

__all__ = ["BatchedItems", "EventItems", "ReceivedItems", "SyncItemStream"]

T = TypeVar("T")


class ReceivedItems(AsyncIterator[Any], ABC):
    """The items in a response. It ends the request when it is closed or garbage-collected.

    Args:
        request: The request, for errors.
        response: The response.
    """

    def __init__(self, request: Sendable, response: ResponseStream) -> None:
        self._request = request
        self._response = response
        self._arrived: deque[Any] = deque()
        self._forget = finalize(self, response.close_soon)
        self._forget.atexit = False

    @abstractmethod
    def _values_in(self, part: Any) -> Iterable[Any]:
        """Return what a part of the response has, in its order; `_item` gets each."""

    def _item(self, value: Any) -> Any:
        """Return an item.

        Raises:
            FrameworkError: It is the error that has ended the stream, or no item.
        """
        return value

    async def __anext__(self) -> Any:
        try:
            while not self._arrived:
                part = await self._response.read()
                if not part:
                    raise StopAsyncIteration
                self._arrived.extend(self._values_in(part))
            return self._item(self._arrived.popleft())
        except FrameworkError:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """End the request, without the items that wait."""
        self._arrived.clear()
        await self._response.aclose()


class EventItems(ReceivedItems):
    """The items in server-sent events."""

    def __init__(self, request: Request, response: ResponseStream) -> None:
        super().__init__(request, response)
        self._parser = EventParser(response.max_size)

    def _values_in(self, part: bytes) -> Iterable[StreamedEvent]:
        return self._parser.feed(part)

    def _item(self, value: StreamedEvent) -> Any:
        try:
            item = json.loads(value.data)
        except (ValueError, RecursionError):
            error = BadGateway("the called server sent an item that is not JSON")
            what = f"got an item that is not JSON: {value.data[:200]}"
            raise with_request_error(error, self._request, what) from error.__cause__
        if value.kind == "error":
            headers = self._response.headers
            raise error_of_json(self._request, item, Response(502, headers, b""))
        return item


class BatchedItems(ReceivedItems):
    """The items in lists, such as a socket brings."""

    def _values_in(self, part: list[list[Any]]) -> Iterable[Any]:
        return chain.from_iterable(part)


class SyncItemStream(Iterator[T], Generic[T]):
    """The items of a method that streams, for a synchronous client.

    ``for item in service.ask(data)`` reads them. Leaving the loop ends the request at once if
    nothing else has the stream; ``with`` and `close` end it in any case.

    Args:
        items: The items.

    Examples:
        ```python
        from alula.client import create_sync_client, rest


        def ask(text):
            with create_sync_client().configure(rest("http://localhost:3030")) as client:
                assistant = client.service("assistant", methods=["ask"])
                with assistant.ask({"text": text}) as tokens:
                    for token in tokens:
                        print(token["text"])
        ```
    """

    def __init__(self, items: AsyncIterator[Any]) -> None:
        self._items = items

    def __next__(self) -> T:
        following: Any = anext(self._items)  # a coroutine, for any stream
        try:
            item: T = run_sync(following)
        except StopAsyncIteration:
            raise StopIteration from None
        return item

    def close(self) -> None:
        """End the stream, and its request."""
        close: Any = getattr(self._items, "aclose", None)
        if close is not None:
            run_sync(close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
