"""The services of a client, with hooks and events, as they are called."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

from alula._context import GivenParams, Params
from alula._service import Given, RawQuery, ServiceHandle
from alula.client._connection import RestService
from alula.errors import BadGateway, BadRequest

__all__ = ["ClientService", "Given", "PageOf", "Progress", "RawQuery", "ScalarId", "TypedService"]

T = TypeVar("T", bound=Mapping[str, Any])
ScalarId: TypeAlias = str | int | float
Progress: TypeAlias = Callable[[int, int | None], Any]


Params.declare("connection")


class PageOf(TypedDict, Generic[T]):
    """A page of records of a known type."""

    total: int
    limit: int
    skip: int
    data: list[T]


class ClientService(ServiceHandle):
    """A service of a client: `ServiceHandle`, and what is for clients alone.

    Of the params of a call, ``query``, ``headers`` and ``route`` make the request; ``connection``
    holds what is for the library that sends it: ``timeout``, ``signal``, further ``headers``.
    """

    _elsewhere: ClassVar[Mapping[str, str]] = {
        "timeout": "connection={'timeout': ...}",
        "signal": "connection={'signal': ...}",
    }

    def _check_event(self, event: str) -> None:
        """Refuse slips alone: which other events a server emits, nobody knows here."""
        from difflib import get_close_matches  # noqa: PLC0415  # slow to load, and seldom needed

        if event in self.events or get_close_matches(event, self.events, 1, 0.75):
            super()._check_event(event)

    def declare(self, methods: Iterable[str]) -> None:
        """Add custom methods; those that are there already stay as they are.

        Raises:
            TypeError: ``methods`` is one string.
            ValueError: A method can not have such a name, or the service is not a remote one and
                has none of it.
        """
        if isinstance(methods, str):
            raise TypeError(f"methods of {self!r} are a string; give a list: [{methods!r}]")
        new = tuple(name for name in dict.fromkeys(methods) if name not in self._callable)
        if isinstance(self.service, RestService):
            self.service.declare(name for name in new if not name.startswith("_"))
        self._check_methods(new)
        self.methods += new
        if new:
            self._add_methods(new)
            self.compose_hooks()

    async def iterate(
        self,
        query: Mapping[str, Any] | None = None,
        params: Given = None,
        *,
        page_size: int | None = None,
        progress: Progress | None = None,
    ) -> AsyncIterator[Any]:
        """Yield every record that a query selects, page after page.

        The order has to be the same for every page, so give a ``$sort`` where the server has no
        order of its own.

        Args:
            query: ``$skip`` of it leaves out the first records, ``$limit`` ends after so many.
            params: Further params of every call.
            page_size: How many to ask for at once; the server may give fewer. None leaves that to
                the server.
            progress: Called after each page with the number of records so far and of all, None
                where the server does not tell.

        Raises:
            FrameworkError: As `find` does, and where ``$skip`` or ``$limit`` are no whole numbers.
            BadGateway: The server answers something other than a list or a page.
            ValueError: ``page_size`` is no number of records.
        """
        if page_size is not None and (type(page_size) is not int or page_size < 1):
            raise ValueError(f"page_size is a whole number from 1, not {page_size!r}")
        given = Params(params)
        given.check_names(f"{self.path}.iterate(...)", self._elsewhere)
        selected = {**given.query, **(query or {})}
        skip = _whole_number("$skip", selected.pop("$skip", None)) or 0
        left = _whole_number("$limit", selected.pop("$limit", None))
        done, before = 0, ""
        while left is None or left > done:
            sizes = [size for size in (page_size, left and left - done) if size is not None]
            asked = {"$limit": min(sizes)} if sizes else {}
            page = await self.find(given, query={**selected, **asked, "$skip": skip + done})
            records, total = _read_page(page, skip)
            count = len(records)
            if left is not None:
                records = records[: left - done]  # whatever a server sends
            if total is None and sizes:
                before, told_before = repr(records), before
                if before == told_before:  # a service that knows neither $limit nor $skip
                    return
            done += len(records)
            if progress is not None:
                progress(done, total if left is None or total is None else min(total, left))
            for record in records:
                yield record
            if not records or _is_last(count, sizes, done, total):
                return


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


def _whole_number(name: str, value: Any) -> int | None:
    if value is not None and not str(value).isdecimal():
        raise BadRequest(f"{name} is {value!r}; it has to be a whole number from 0")
    return None if value is None else int(value)


def _is_last(count: int, sizes: list[int], done: int, total: int | None) -> bool:
    """Tell whether nothing follows; a service without pages has more where it gives what it may."""
    if total is None:
        return not sizes or count != min(sizes)
    return done >= total


def _read_page(page: Any, skip: int) -> tuple[list[Any], int | None]:
    """Return the records of a page, and how many there are behind ``skip``, None if it tells none.

    A service without pages answers a list, all records that it may.

    Raises:
        BadGateway: It is neither.
    """
    if isinstance(page, list):
        return page, None
    if isinstance(page, Mapping):
        records, total = page.get("data"), page.get("total")
        if isinstance(records, list) and (total is None or type(total) is int):
            return records, None if total is None else max(0, total - skip)
    raise BadGateway("the called server answered find with neither a list nor a page of records")
