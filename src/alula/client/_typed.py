"""Services whose records have a type, for checkers: ``client.service("messages", Message)``.

At run time they are as all others, and records are dicts as always.
"""
# they do what those that they stand for say

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, Unpack, overload

from alula._context import GivenParams
from alula.client._client_service import ClientService, Given, PageOf, Progress, RawQuery
from alula.client._sync_service import SyncService

__all__ = ["TypedService", "TypedSyncService"]

T = TypeVar("T", bound=Mapping[str, Any])
ScalarId: TypeAlias = str | int | float


class TypedService(ClientService, Generic[T]):
    """A `ClientService` whose records have a type."""

    if TYPE_CHECKING:

        async def find(
            self, params: Given = None, *, query: RawQuery = None, **given: Unpack[GivenParams]
        ) -> PageOf[T] | list[T]: ...

        async def get(
            self,
            id: ScalarId,
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> T: ...

        @overload
        async def create(
            self,
            data: Mapping[str, Any],
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> T: ...
        @overload
        async def create(
            self,
            data: Sequence[Mapping[str, Any]],
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> list[T]: ...
        async def create(
            self,
            data: Any,
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> Any: ...

        async def update(
            self,
            id: ScalarId,
            data: Mapping[str, Any],
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> T: ...

        @overload
        async def patch(
            self,
            id: None,
            data: Mapping[str, Any],
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> list[T]: ...
        @overload
        async def patch(
            self,
            id: ScalarId,
            data: Mapping[str, Any],
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> T: ...
        async def patch(
            self,
            id: Any,
            data: Mapping[str, Any],
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> Any: ...

        @overload
        async def remove(
            self,
            id: None,
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> list[T]: ...
        @overload
        async def remove(
            self,
            id: ScalarId,
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> T: ...
        async def remove(
            self,
            id: Any,
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> Any: ...

        def iterate(
            self,
            query: Mapping[str, Any] | None = None,
            params: Given = None,
            *,
            page_size: int | None = None,
            progress: Progress | None = None,
        ) -> AsyncIterator[T]: ...


class TypedSyncService(SyncService, Generic[T]):
    """A `SyncService` whose records have a type."""

    if TYPE_CHECKING:

        def find(
            self, params: Given = None, *, query: RawQuery = None, **given: Unpack[GivenParams]
        ) -> PageOf[T] | list[T]: ...

        def get(
            self,
            id: ScalarId,
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> T: ...

        @overload
        def create(
            self,
            data: Mapping[str, Any],
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> T: ...
        @overload
        def create(
            self,
            data: Sequence[Mapping[str, Any]],
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> list[T]: ...
        def create(
            self,
            data: Any,
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> Any: ...

        def update(
            self,
            id: ScalarId,
            data: Mapping[str, Any],
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> T: ...

        @overload
        def patch(
            self,
            id: None,
            data: Mapping[str, Any],
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> list[T]: ...
        @overload
        def patch(
            self,
            id: ScalarId,
            data: Mapping[str, Any],
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> T: ...
        def patch(
            self,
            id: Any,
            data: Mapping[str, Any],
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> Any: ...

        @overload
        def remove(
            self,
            id: None,
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> list[T]: ...
        @overload
        def remove(
            self,
            id: ScalarId,
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> T: ...
        def remove(
            self,
            id: Any,
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> Any: ...

        def iterate(
            self,
            query: Mapping[str, Any] | None = None,
            params: Given = None,
            *,
            page_size: int | None = None,
            progress: Progress | None = None,
        ) -> Iterator[T]: ...
