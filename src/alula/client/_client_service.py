"""The services of a client: their methods, custom methods, pages and hooks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, overload

from alula._context import HookContext, Params
from alula._events import Listener
from alula._service import Given, RawQuery, ServiceHandle
from alula._service import TypedService as CoreTypedService
from alula._user_code import unfit_signature
from alula.client._connection import RemoteService
from alula.client._live_list import LiveList
from alula.client._socketio import EventStream, ServiceEvents, SocketService
from alula.errors import BadGateway, BadRequest
from alula.hooks import HookTable
from alula.types import UNSET, Changes, Found, JSONValue, NewRecord, RecordType

if TYPE_CHECKING:
    from alula._service._typed import Event, ListenerDecorator, Returned

__all__ = ["ClientService", "Given", "Progress", "RawQuery", "TypedService"]

Progress: TypeAlias = Callable[[int, int | None], Any]


Params.declare("connection")


class ClientService(ServiceHandle):
    """A service of a client: a `ServiceHandle` that also declares methods and iterates pages.

    Of the params of a call, ``query``, ``headers`` and ``route`` become part of the request.
    ``connection`` has options for sending it: ``timeout``, ``signal``, further ``headers``.
    """

    events: ServiceEvents[EventStream[Any]]
    """The names of its events; called, a stream: ``service.events("created")``."""

    _elsewhere: ClassVar[Mapping[str, str]] = {
        "timeout": "connection={'timeout': ...}",
        "signal": "connection={'signal': ...}",
    }

    def __init__(
        self,
        app: Any,
        path: str,
        service: Any,
        *,
        methods: Iterable[str] | None = None,
        events: Iterable[str] | None = None,
        app_hooks: HookTable | None = None,
    ) -> None:
        super().__init__(app, path, service, methods=methods, events=events, app_hooks=app_hooks)
        callable_names: ServiceEvents[EventStream[Any]]
        callable_names = ServiceEvents.of(self.events, self._stream)  # pyright: ignore[reportUnknownVariableType]  # of what, the line above says
        self.events = callable_names  # pyright: ignore[reportIncompatibleVariableOverride]  # narrower than in the base, which sets it once
        if isinstance(service, SocketService):
            service.connection.attach(service.name, self)

    def _stream(self, names: tuple[str, ...]) -> object:
        if not isinstance(self.service, SocketService):
            raise RuntimeError(
                f"the events of {self!r} do not arrive here: a server sends them over socket.io,"
                " client.configure(socketio(url)); on(event, listener) hears of the calls of this"
                " client"
            )
        for name in names:
            self._check_event(name)
        return self.service.connection.stream(self.service.name, names)

    def _listen(self, how: str, event: str, listener: Listener | None) -> Listener:
        if listener is None or not isinstance(self.service, SocketService):
            return super()._listen(how, event, listener)
        takes_data_alone = (
            callable(listener)
            and unfit_signature(listener, "data", "context") is not None
            and unfit_signature(listener, "data") is None
        )
        super()._listen(how, event, _DataListener(listener) if takes_data_alone else listener)
        self.service.connection.start()
        return listener

    def _check_event(self, event: str) -> None:
        # A client does not know which events a server emits, so only likely typos are refused.
        from difflib import get_close_matches  # noqa: PLC0415  # slow to load, and seldom needed

        if event in self.events or get_close_matches(event, self.events, 1, 0.75):
            super()._check_event(event)

    def live(  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # a server offers lists, a client reads them
        self,
        query: Mapping[str, Any] | None = None,
        params: Given = None,
        *,
        id: str | None = None,
    ) -> LiveList[Any]:
        """Return a list that stays what `find` would return: ``async with service.live(query)``.

        The before hooks of `find` of this client run whenever the list is opened.

        Args:
            query: The query of the list.
            params: Further params.
            id: The name of the property with the id, if it is neither ``id`` nor ``_id``.

        Raises:
            RuntimeError: It is no service of another server.
        """
        service, given = self.remote(), self.params_of_list(query, params)
        return LiveList(
            id,
            lambda sink: service.connection.list_feed(
                service.name, lambda: self.run_hooks_of_find(given), sink
            ),
        )

    def remote(self) -> RemoteService:
        """Return the service of another server.

        Raises:
            RuntimeError: It is a service of this program.
        """
        if not isinstance(self.service, RemoteService):
            raise RuntimeError(f"{self!r} is a service of this program; it has no live lists here")
        return self.service

    def params_of_list(self, query: Mapping[str, Any] | None, params: Given) -> Params:
        """Return the params of a live list, before hooks."""
        given = Params(params)
        given.check_names(f"{self.path}.live(...)", self._elsewhere)
        given.query = {**given.query, **(query or {})}
        return given

    async def run_hooks_of_find(self, given: Params) -> Params:
        """Run the hooks of `find`, and return the params that its request would have.

        Raises:
            RuntimeError: A hook has set the result itself.
        """
        reached: list[Params] = []

        async def stop(context: HookContext) -> None:
            if context.result is UNSET:
                reached.append(context.params)
                context.result = []

        context = HookContext(self.app, self, "find", given.copy())
        around = self.hook_table.wrap("find", stop)
        await self.app.hook_table.wrap("find", around)(context)
        if not reached:
            raise RuntimeError(f"a hook of {self!r} responds in its place, so it has no live list")
        return reached[0]

    def declare(self, methods: Iterable[str]) -> None:
        """Add custom methods; methods that exist already stay as they are.

        Raises:
            TypeError: ``methods`` is one string.
            ValueError: A method cannot have such a name, or a local service lacks the method.
        """
        if isinstance(methods, str):
            raise TypeError(f"methods of {self!r} are a string; give a list: [{methods!r}]")
        new = tuple(name for name in dict.fromkeys(methods) if name not in self._callable)
        if isinstance(self.service, RemoteService):
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

        Every page needs the same order, so give a ``$sort`` unless the service has a default one.

        Args:
            query: ``$skip`` leaves out the first records, ``$limit`` ends after that many.
            params: Further params of each request.
            page_size: Records per request; the server may send fewer. None leaves it to the server.
            progress: Called after each page with the number of records so far and the total, None
                if the server sends none.

        Raises:
            FrameworkError: As `find`, and if ``$skip`` or ``$limit`` are not whole numbers.
            BadGateway: The response is neither a list nor a page.
            ValueError: ``page_size`` is not a positive whole number.
        """
        if page_size is not None and (type(page_size) is not int or page_size < 1):
            raise ValueError(f"page_size is a whole number from 1, not {page_size!r}")
        base_params = Params(params)
        base_params.check_names(f"{self.path}.iterate(...)", self._elsewhere)
        selected = {**base_params.query, **(query or {})}
        skip = _whole_number("$skip", selected.pop("$skip", None)) or 0
        wanted = _whole_number("$limit", selected.pop("$limit", None))
        done, last_page = 0, ""
        while wanted is None or wanted > done:
            sizes = [size for size in (page_size, wanted and wanted - done) if size is not None]
            limit = {"$limit": min(sizes)} if sizes else {}
            page = await self.find(base_params, query={**selected, **limit, "$skip": skip + done})
            records, total = _read_page(page, skip)
            count = len(records)
            if wanted is not None:
                # A server may ignore $limit.
                records = records[: wanted - done]
            if total is None and sizes:
                this_page = repr(records)
                # A service that ignores $limit and $skip sends the same records for ever.
                if this_page == last_page:
                    return
                last_page = this_page
            done += len(records)
            if progress is not None:
                known_total = total if wanted is None or total is None else min(total, wanted)
                progress(done, known_total)
            for record in records:
                yield record
            # Without a total, a page that is not exactly full is the last one.
            is_last = (not sizes or count != min(sizes)) if total is None else done >= total
            if not records or is_last:
                return


class TypedService(  # pyright: ignore[reportIncompatibleMethodOverride]  # hooks are checked
    CoreTypedService[RecordType, NewRecord, Changes, Found], ClientService
):
    """A `ClientService` whose records have types, as those of `alula.TypedService`."""

    if TYPE_CHECKING:
        events: ServiceEvents[EventStream[RecordType]]  # pyright: ignore[reportIncompatibleVariableOverride]  # as above
        on: ClientListening[RecordType]  # type: ignore[assignment]  # takes listeners of the data alone, too
        once: ClientListening[RecordType]  # type: ignore[assignment]  # as above

        def live(  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # as in `ClientService`
            self,
            query: Mapping[str, Any] | None = None,
            params: Given = None,
            *,
            id: str | None = None,
        ) -> LiveList[RecordType]: ...

        def iterate(
            self,
            query: Mapping[str, Any] | None = None,
            params: Given = None,
            *,
            page_size: int | None = None,
            progress: Progress | None = None,
        ) -> AsyncIterator[RecordType]: ...


if TYPE_CHECKING:

    class ClientListening(Generic[RecordType]):
        """Registers listeners, by call or as a decorator; they may take the data alone."""

        @overload
        def __call__(
            self, event: Event, listener: Callable[[RecordType], Returned]
        ) -> Callable[[RecordType], Returned]: ...
        @overload
        def __call__(
            self, event: Event, listener: Callable[[RecordType, HookContext], Returned]
        ) -> Callable[[RecordType, HookContext], Returned]: ...
        @overload
        def __call__(self, event: Event) -> ListenerDecorator[RecordType]: ...
        def __call__(self, event: str, listener: object = None) -> object: ...


class _DataListener:
    """Calls a listener with the data of an event alone; equals that listener, for ``off``.

    Over socket.io no call was made here that the context could tell of. So the clients of
    FeathersJS pass the data alone, and listeners that are written for them take no more.
    """

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self.__qualname__ = getattr(listener, "__qualname__", type(listener).__qualname__)
        self.__module__ = getattr(listener, "__module__", __name__)

    def __call__(self, data: object, *_: object) -> object:
        result: object = self._listener(data)
        return result

    def __eq__(self, other: object) -> bool:
        return other is self or other == self._listener

    __hash__ = None  # type: ignore[assignment]  # it equals another function


def _whole_number(name: str, value: object) -> int | None:
    if value is None:
        return None
    text = str(value)
    if not text.isdecimal():
        raise BadRequest(f"{name} is {value!r}; it has to be a whole number from 0")
    return int(text)


def _read_page(page: JSONValue, skip: int) -> tuple[list[Any], int | None]:
    """Return the records of a page, and the total behind ``skip``, None without one.

    A service without pagination responds with a list: all records that it may send.

    Raises:
        BadGateway: It is neither.
    """
    if isinstance(page, list):
        return page, None
    if isinstance(page, Mapping):
        records: JSONValue
        records, total = page.get("data"), page.get("total")
        if isinstance(records, list) and (total is None or type(total) is int):
            return records, None if total is None else max(0, total - skip)
    raise BadGateway("the called server sent neither a list nor a page of records")
