"""The services of a synchronous client: the methods of `ClientService`, which block."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Unpack, overload

from alula._context import GivenParams, Params
from alula._item_stream import is_stream
from alula.client._client_service import ClientService, Given, Progress, RawQuery
from alula.client._live_list import SyncLiveList
from alula.client._socketio import ServiceEvents, SyncEventStream
from alula.client._streamed_items import SyncItemStream
from alula.client._transport import run_sync
from alula.types import Id, Page, RecordType, ScalarId

__all__ = ["SyncService", "TypedSyncService"]


class SyncService:
    """A service of a synchronous client. Its hooks and listeners are plain functions.

    Custom methods are methods beside the standard ones.

    Args:
        handle: The `ClientService` that it runs; hooks by decorator: ``service.handle.before()``.
    """

    def __init__(self, handle: ClientService) -> None:
        self.handle = handle

    def __repr__(self) -> str:
        return repr(self.handle)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "handle":
            raise AttributeError(name)
        if name in self.handle.methods:
            return self._custom_method(name)
        # Hooks and events are those of the handle, and so is the message for an unknown name.
        return getattr(self.handle, name)

    @property
    def events(self) -> ServiceEvents[SyncEventStream[Any]]:
        """The names of its events; ``service.events("created")`` is a stream of events."""
        events: ServiceEvents[Any] = self.handle.events
        return events

    def find(
        self, params: Given = None, *, query: RawQuery = None, **given: Unpack[GivenParams]
    ) -> Any:
        """Return the records that the query selects: a list, or a page."""
        return _result_of(self.handle.find(params, query=query, **given))

    def get(
        self, id: Id, params: Given = None, *, query: RawQuery = None, **given: Unpack[GivenParams]
    ) -> Any:
        """Return one record. Raises `NotFound` if it does not exist."""
        return _result_of(self.handle.get(id, params, query=query, **given))

    def create(
        self,
        data: Any,
        params: Given = None,
        *,
        query: RawQuery = None,
        **given: Unpack[GivenParams],
    ) -> Any:
        """Create one record from a mapping, or several from a list of them; return them."""
        return _result_of(self.handle.create(data, params, query=query, **given))

    def update(
        self,
        id: Id,
        data: Any,
        params: Given = None,
        *,
        query: RawQuery = None,
        **given: Unpack[GivenParams],
    ) -> Any:
        """Replace a record by ``data``; return it."""
        return _result_of(self.handle.update(id, data, params, query=query, **given))

    def patch(
        self,
        id: Id,
        data: Any,
        params: Given = None,
        *,
        query: RawQuery = None,
        **given: Unpack[GivenParams],
    ) -> Any:
        """Merge ``data`` into a record, or with id None into all that the query selects."""
        return _result_of(self.handle.patch(id, data, params, query=query, **given))

    def remove(
        self, id: Id, params: Given = None, *, query: RawQuery = None, **given: Unpack[GivenParams]
    ) -> Any:
        """Remove a record, or with id None all that the query selects; return the removed."""
        return _result_of(self.handle.remove(id, params, query=query, **given))

    def call(
        self,
        method: str,
        id: Id = None,
        data: object = None,
        params: Given = None,
        *,
        query: RawQuery = None,
        **given: Unpack[GivenParams],
    ) -> Any:
        """Call any method by its name and return its result."""
        return _result_of(self.handle.call(method, id, data, params, query=query, **given))

    def iterate(
        self,
        query: Mapping[str, Any] | None = None,
        params: Given = None,
        *,
        page_size: int | None = None,
        progress: Progress | None = None,
    ) -> Iterator[Any]:
        """Yield every record that a query selects, page after page (see `ClientService`)."""
        records: Any = self.handle.iterate(query, params, page_size=page_size, progress=progress)
        while True:
            try:
                record = run_sync(anext(records))
            except StopAsyncIteration:
                return
            yield record

    def live(
        self,
        query: Mapping[str, Any] | None = None,
        params: Given = None,
        *,
        id: str | None = None,
    ) -> SyncLiveList[Any]:
        """Return a list that stays what `find` would return: ``with service.live(query)``.

        The before hooks of `find` run whenever it is opened, in a thread of their own. See
        `ClientService.live`.
        """
        handle = self.handle
        service, given = handle.remote(), handle.params_of_list(query, params)

        def params_of_find() -> Awaitable[Params]:
            return asyncio.to_thread(lambda: run_sync(handle.run_hooks_of_find(given)))

        return SyncLiveList(
            id,
            lambda sink: service.connection.list_feed(service.name, params_of_find, sink),
            service.connection.run_feed,
        )

    def _custom_method(self, name: str) -> Callable[..., Any]:
        def method(
            data: object = None,
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> object:
            return self.call(name, None, data, params, query=query, **given)

        method.__name__, method.__qualname__ = name, f"SyncService.{name}"
        method.__doc__ = f"Call the custom method `{name}` with ``(data, params)``."
        return method


def _result_of(call: Coroutine[Any, Any, Any]) -> Any:
    """Run a call and return its result; of a stream, what blocks until the next item is there."""
    result = run_sync(call)
    if not is_stream(result):
        return result
    items: SyncItemStream[Any] = SyncItemStream(result)
    return items


class TypedSyncService(SyncService, Generic[RecordType]):
    """A `SyncService` whose records have a type, for type checkers only."""

    if TYPE_CHECKING:

        @property
        def events(self) -> ServiceEvents[SyncEventStream[RecordType]]: ...

        def find(
            self, params: Given = None, *, query: RawQuery = None, **given: Unpack[GivenParams]
        ) -> Page[RecordType] | list[RecordType]: ...

        def get(
            self,
            id: ScalarId,
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> RecordType: ...

        @overload
        def create(
            self,
            data: Mapping[str, Any],
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> RecordType: ...
        @overload
        def create(
            self,
            data: Sequence[Mapping[str, Any]],
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> list[RecordType]: ...
        def create(
            self,
            data: Mapping[str, Any] | Sequence[Mapping[str, Any]],
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> RecordType | list[RecordType]: ...

        def update(
            self,
            id: ScalarId,
            data: Mapping[str, Any],
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> RecordType: ...

        @overload
        def patch(
            self,
            id: None,
            data: Mapping[str, Any],
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> list[RecordType]: ...
        @overload
        def patch(
            self,
            id: ScalarId,
            data: Mapping[str, Any],
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> RecordType: ...
        def patch(
            self,
            id: Id,
            data: Mapping[str, Any],
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> RecordType | list[RecordType]: ...

        @overload
        def remove(
            self,
            id: None,
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> list[RecordType]: ...
        @overload
        def remove(
            self,
            id: ScalarId,
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> RecordType: ...
        def remove(
            self,
            id: Id,
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> RecordType | list[RecordType]: ...

        def iterate(
            self,
            query: Mapping[str, Any] | None = None,
            params: Given = None,
            *,
            page_size: int | None = None,
            progress: Progress | None = None,
        ) -> Iterator[RecordType]: ...

        def live(
            self,
            query: Mapping[str, Any] | None = None,
            params: Given = None,
            *,
            id: str | None = None,
        ) -> SyncLiveList[RecordType]: ...
