"""The handle of a service: arguments -> context -> hooks -> service -> event."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from itertools import product
from typing import Any, ClassVar, Final, Self, TypeAlias, Unpack, cast

from alula._channels import (
    Channels,
    Publisher,
    PublisherTable,
    Publishing,
    unlisted_event,
)
from alula._context import GivenParams, HookContext, Params
from alula._declared import Checks, Declared, checks_of
from alula._events import EventEmitter, Listener, emit_unless_held, loop_is_running, outcome_of
from alula._item_stream import close_all, is_stream
from alula._service._declared_calls import check_hook, declared_call
from alula._service._live_options import LiveOptions, UsersOf
from alula._service._stream_calls import check_hooks_of_stream, closing_call, streaming_call
from alula._service_object import (
    DeferredSetup,
    Mountable,
    RelatedService,
    ServiceBundle,
    check_mounted,
    check_object,
    custom_events_of,
    read_names,
)
from alula._user_code import describe_frames, name_of, unfit_signature
from alula.errors import MethodNotAllowed
from alula.hooks import Call, Hook, Hookable, HookTable, hook_metadata, watch_params
from alula.types import (
    EVENT_OF_METHOD,
    ID_METHODS,
    METHODS_WITHOUT_DATA,
    STANDARD_METHODS,
    UNSET,
    Id,
    Record,
    Unset,
)

__all__ = ["Given", "RawQuery", "ServiceHandle", "event_records", "owning_handle"]

Given: TypeAlias = Params | Mapping[str, Any] | None
RawQuery: TypeAlias = Mapping[str, Any] | None

_log: Final = logging.getLogger("alula.events")

_NO_CHANNELS: Final = Channels({}, lambda _work, _name: None)
"""Those of clients: a client publishes nothing."""


class ServiceHandle(EventEmitter, Hookable, Publishing):
    """A registered service, called through its hooks and events.

    Every method takes the params last, as `Params`, as a mapping, or as keywords:
    ``await messages.find(query={"$limit": 2})``. Custom methods are methods of the handle as well.

    Attributes:
        app: The application.
        path: Where it is registered, without slashes at the ends.
        service: The object that was registered.
        methods: Names of the methods that clients may call.
        events: Names of the events that it emits.
        publishers: The publisher of each event that has one, those of the application included.
        emitted_by_service: The standard events that the service emits itself.
        record_schema: The JSON Schema of its records, None if unknown.
        mounts: The handles of other applications that mount it.
        secret_ids: Whether its ids are secrets, left out of logs; set by the service's attribute.
        streaming: Names of the methods that stream.
    """

    events: tuple[str, ...]
    mounts: tuple[ServiceHandle, ...] = ()
    publishers: Mapping[str, Publisher]
    emitted_by_service: frozenset[str]
    related_names: frozenset[str] = frozenset()
    live_options: LiveOptions | None = None
    _elsewhere: ClassVar[Mapping[str, str]] = {}
    """Names that callers mistake for params, and what to write instead."""

    def __init__(
        self,
        app: Any,
        path: str,
        service: Any,
        *,
        methods: Iterable[str] | None = None,
        events: Iterable[str] | None = None,
        app_hooks: HookTable | None = None,
        channels: Channels | None = None,
    ) -> None:
        EventEmitter.__init__(self)
        Hookable.__init__(self)
        is_bundle = isinstance(service, ServiceBundle)
        bundle = service if is_bundle else ServiceBundle(service, {})  # pyright: ignore[reportUnknownVariableType]  # of any record
        service, outermost = bundle.service, bundle.outermost
        self.app = app
        self.path = path
        self.service = service
        self.record_schema = bundle.schema
        self.secret_ids = getattr(service, "secret_ids", False) is True
        if isinstance(service, RelatedService):
            self.related_names = service.related_names
        listed, named = read_names("methods", path, methods), read_names("events", path, events)
        if isinstance(service, ServiceHandle):
            listed = service.methods if listed is None else listed
            named = (*service.events, *(named or ()))
            self.emitted_by_service = service.emitted_by_service
            self.record_schema = self.record_schema or service.record_schema
            outermost = {**service.hook_table.enclosing, **outermost}
        else:
            named = custom_events_of(service) if named is None else named
            self.emitted_by_service = frozenset(EVENT_OF_METHOD.values()) & {*named}
        self.events = tuple(dict.fromkeys((*EVENT_OF_METHOD.values(), *named)))
        self.declared: Mapping[str, Declared] = {}
        standard = self._check_methods(listed)
        self._checks = {name: checks_of(each) for name, each in self.declared.items()}
        declared_here = owning_handle(self).declared
        self.streaming = frozenset(name for name, each in declared_here.items() if each.streams)
        self.methods: tuple[str, ...] = standard if listed is None else listed
        self._app_hooks = app_hooks or HookTable()
        self._channels = channels or _NO_CHANNELS
        self._own_publishers = PublisherTable(self, self._check_event)
        self.resolve_publishers()
        self._runs: dict[str, Call] = {}  # by method: the call with hooks and event
        self._setup: DeferredSetup | None = None
        self._callable: tuple[str, ...] = ()
        self._add_methods((*standard, *self.methods))
        first = {**bundle.first}
        for name, declared in self.declared.items():
            first[name] = _undeclared_checks(declared, bundle.first.get(name, ()))
        self.hook_table.enclose(first, bundle.last, outermost)
        self._add_hooks(dict(bundle.hooks))

    def __repr__(self) -> str:
        return f"service {self.path!r}"

    def __getattr__(self, name: str) -> Any:
        # copy, pickle and inspect look for such names on any object, and expect the plain error.
        if name.startswith("_"):
            raise AttributeError(name)
        raise AttributeError(
            f"{self!r} has no method `{name}`; it has {', '.join(self._callable)}."
            " Custom methods are listed: use(path, service, methods=[...])."
            " The object itself is at `.service`"
        )

    async def find(
        self, params: Given = None, *, query: RawQuery = None, **given: Unpack[GivenParams]
    ) -> Any:
        """Return the records that the query selects: a list, or a page."""
        return await self._call("find", None, None, params, query, given)

    async def get(
        self, id: Id, params: Given = None, *, query: RawQuery = None, **given: Unpack[GivenParams]
    ) -> Any:
        """Return one record. Raises `NotFound` where there is none."""
        return await self._call("get", id, None, params, query, given)

    async def create(
        self,
        data: Any,
        params: Given = None,
        *,
        query: RawQuery = None,
        **given: Unpack[GivenParams],
    ) -> Any:
        """Create one record from a mapping, or several from a list of them; return them."""
        return await self._call("create", None, data, params, query, given)

    async def update(
        self,
        id: Id,
        data: Any,
        params: Given = None,
        *,
        query: RawQuery = None,
        **given: Unpack[GivenParams],
    ) -> Any:
        """Replace a record by ``data``; return it."""
        return await self._call("update", id, data, params, query, given)

    async def patch(
        self,
        id: Id,
        data: Any,
        params: Given = None,
        *,
        query: RawQuery = None,
        **given: Unpack[GivenParams],
    ) -> Any:
        """Merge ``data`` into a record, or with id None into all that the query selects."""
        return await self._call("patch", id, data, params, query, given)

    async def remove(
        self, id: Id, params: Given = None, *, query: RawQuery = None, **given: Unpack[GivenParams]
    ) -> Any:
        """Remove a record, or with id None all that the query selects; return what was removed."""
        return await self._call("remove", id, None, params, query, given)

    async def call(
        self,
        method: str,
        id: Id = None,
        data: Any = None,
        params: Given = None,
        *,
        query: RawQuery = None,
        **given: Unpack[GivenParams],
    ) -> Any:
        """Call any method by its name, a custom one too, and return its result.

        Raises:
            MethodNotAllowed: The service has no such method.
            Exception: Whatever hooks and the service raise.
        """
        return await self._call(method, id, data, params, query, given)

    def run(self, context: HookContext) -> Coroutine[Any, Any, None]:
        """Run a call whose context is made: hooks, method, event. It sets ``context.result``.

        Raises:
            MethodNotAllowed: The service has no method ``context.method``.
            RuntimeError: An around hook neither called ``next`` nor set a result.
            Exception: Any that hooks and the service raise.
        """
        method = context.method
        if self._setup is None and (run := self._runs.get(method)) is not None:
            return run(context)
        if method not in self._runs:
            raise MethodNotAllowed(f"{self!r} has no method `{method}`")

        async def run_late() -> None:
            await self.wait_for_setup()
            await self._runs[method](context)

        return run_late()

    async def _call(
        self,
        method: str,
        id: Id,
        data: Any,
        params: Given,
        query: RawQuery,
        given: Mapping[str, Any],
    ) -> Any:
        if params is None and not given:  # most internal calls; saves a look at every param
            call_params = Params()
            if type(query) is dict:
                call_params.query = query.copy()
            elif query is not None:
                call_params = Params(query=query)
        else:
            call_params = Params(params, **(given if query is None else {**given, "query": query}))
            call_params.check_names(f"{self.path}.{method}(...)", self._elsewhere)
        context = HookContext(self.app, self, method, call_params, id, data)
        await self.run(context)
        return context.result

    # -- methods and hooks ---------------------------------------------------------------------

    def hook_methods(self) -> Collection[str]:
        """Return the names of the methods that can have hooks."""
        return self._callable

    def add_innermost(self, hook: Hook, methods: Collection[str]) -> None:
        """Register an around hook directly around methods; see `HookTable.add_innermost`."""
        self.hook_table.add_innermost(hook, methods)
        self.compose_hooks()

    def compose_hooks(self) -> None:
        """Compose hooks and methods again, after hooks or methods changed."""
        tables = self._app_hooks, self.hook_table
        for name, table in product(self.streaming.intersection(self._callable), tables):
            check_hooks_of_stream(table, name, repr(self))
        self._runs = {}
        is_mounted = isinstance(self.service, ServiceHandle)
        is_debugged = getattr(self.app, "debug", False)
        for name, checks in self._checks.items():
            has_hooks = any(table.has_hooks(name) for table in tables)
            self.hook_table.check(name, check_hook(checks) if has_hooks else None)
        for name in self._callable:
            self._runs[name] = _compose_calls(
                self.service,
                name,
                tables,
                self.emit_event,
                is_mounted=is_mounted,
                is_debugged=is_debugged,
                checks=self._checks.get(name),
                streams=name in self.streaming,
            )

    def _check_methods(self, methods: Collection[str] | None) -> tuple[str, ...]:
        """Return the standard methods of the service; raise what `check_object` raises."""
        if isinstance(self.service, ServiceHandle):
            return check_mounted(self.path, self.service, methods)
        standard, self.declared = check_object(self.path, self.service, methods, dir(ServiceHandle))
        return standard

    # The handles of clients call this, too, for methods that they learn of later.
    def _add_methods(self, names: Iterable[str]) -> None:
        self._callable = tuple(dict.fromkeys((*self._callable, *names)))
        for name in self._callable:
            if name not in STANDARD_METHODS:
                setattr(self, name, self._custom_method(name))

    def _custom_method(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def method(
            data: Any = None,
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> Any:
            return await self._call(name, None, data, params, query, given)

        method.__name__, method.__qualname__ = name, f"ServiceHandle.{name}"
        method.__doc__ = f"Call the custom method `{name}` with ``(data, params)``."
        return method

    # -- events --------------------------------------------------------------------------------

    def has_audience(self, event: str) -> bool:
        """Tell whether anybody gets the event of a call, unless the service emits it itself."""
        listeners, mounts, publishers, channels = self._audience
        is_heard = event in listeners or mounts or (event in publishers and channels.is_active)
        return bool(is_heard) and event not in self.emitted_by_service

    def emit_event(self, event: str, context: HookContext) -> None:
        """Emit the event of a call that has succeeded, if anybody gets it.

        A stream of items has no event, because its items need not be records of the service.
        """
        events = context.result_events
        if event != EVENT_OF_METHOD.get(context.method):  # a hook has chosen it
            events = None
        if not any(map(self.has_audience, events or (event,))):
            return
        if is_stream(context.result):  # of another server
            return
        # Now: hooks and callers may change the list while events are held back.
        records = event_records(context)
        if events is None or len(events) != len(records):
            events = [event] * len(records)

        def emit_each() -> None:
            for name, (record, data) in zip(events, records, strict=True):
                if name not in self.emitted_by_service:
                    self._emit_result(name, record, data, context)

        emit_unless_held(context, emit_each)

    def _emit_result(self, event: str, record: object, data: object, context: HookContext) -> None:
        """Emit and publish an event of a call, also at the handles that mount this service."""
        # Not self.emit(): it reaches all outer handles, also the one that this call came through.
        if event in self._listeners:
            EventEmitter.emit(self, event, record, context)
        if event in self.publishers and self.publishes_calls:
            self._channels.publish(self, event, record, data, context)
        for outer in self.mounts:
            if outer is not context.caller:  # it emits after its own hooks
                outer._emit_result(event, record, data, context)  # noqa: SLF001  # same class

    def emit(self, event: str, *values: Any) -> bool:
        """Call the listeners of an event, also those of applications that mount this service.

        The first value reaches the connections that the publisher of the event chooses. It gets the
        second value if that is a `HookContext`, otherwise a context with the event and its result.

        Nobody gets an event that the service does not list: the log says so.

        Raises:
            RuntimeError: A listener is asynchronous and no event loop is running.
        """
        if event not in self.events:
            # Not an error: it would be that of the client whose call emits the event.
            _log.warning("nobody gets an event: %s", unlisted_event(self, event))
        has_listeners = super().emit(event, *values)
        if event in self.publishers:
            self._channels.publish_custom(self, event, values)
        for outer in self.mounts:
            has_listeners = outer.emit(event, *values) or has_listeners
        return has_listeners

    # -- live lists ----------------------------------------------------------------------------

    def live(
        self,
        *,
        depends_on: Iterable[str] | Mapping[str, UsersOf] = (),
        recheck: float | None = None,
        max_rows: int = 1_000,
        pause: float = 0.05,
    ) -> Self:
        """Let clients watch what they may find: who may find a record may have it in a live list.

        Each list is read by a whole `find` of its caller: once when it opens, and again when a
        change may concern it. So hooks of ``find`` run for each of these reads, with
        ``context.params.live`` set. No publisher is needed.

        Args:
            depends_on: Paths of services whose changes change what `find` returns, such as
                memberships: all lists are read again then, at most once a second. As a mapping, by
                path a function of a record that returns the ids of users: if such a record is
                created or removed, only the lists of these users are read.
            recheck: Seconds after which each list is read again whatever happened, for what
                changes without a call. None for never.
            max_rows: How many rows a list may have; a larger page is a 400.
            pause: Seconds between two reads of one list.

        Returns:
            The handle.

        Raises:
            TypeError: ``depends_on`` is one text, or has something else than functions.
            ValueError: The service has no `find`, or one that streams, keeps its events secret, or
                has a method or an event called ``live`` or ``unlive``; or a number is not positive.

        Examples:
            >>> from alula import App
            >>> from alula.adapters.memory import MemoryService
            >>> app = App().use("todos", MemoryService())
            >>> todos = app.service("todos").live()
        """
        given: Mapping[str, UsersOf] = {}
        if isinstance(depends_on, Mapping):
            given = cast("Mapping[str, UsersOf]", depends_on)
        users_of = {path.strip("/"): function for path, function in given.items()}
        if isinstance(depends_on, str) or not all(map(callable, users_of.values())):
            raise TypeError(
                f"{self!r}: live(depends_on={depends_on!r}) takes a list of paths, or a mapping of"
                " paths to functions of a record"
            )
        if "find" not in self._callable:
            raise ValueError(f"{self!r} has no `find`, so it has no live lists")
        if "find" in self.streaming:
            raise ValueError(f"the `find` of {self!r} streams, so it has no live lists")
        if self.secret_events:
            raise ValueError(f"{self!r} keeps its events secret, so it has no live lists")
        taken = {"live", "unlive"} & {*self._callable, *self.events}
        if taken:
            raise ValueError(f"{self!r} has {min(taken)!r} of its own, so it has no live lists")
        numbers = {"recheck": recheck, "max_rows": max_rows, "pause": pause}
        for name, number in numbers.items():
            if number is not None and not number > 0:
                raise ValueError(f"{self!r}: live({name}={number!r}) takes a number above 0")
        self.live_options = LiveOptions(
            tuple(path.strip("/") for path in depends_on), recheck, max_rows, pause, users_of
        )
        return self

    def touch(self, ids: Id | Iterable[Id] = None) -> None:
        """Tell the live lists of all processes that records have changed without a call.

        Args:
            ids: One or several ids; None if it is not known which records have changed.
        """
        listed: list[Id] | None = None
        if ids is not None:
            is_list = isinstance(ids, Iterable) and not isinstance(ids, str | bytes | Mapping)
            listed = [*ids] if is_list else [ids]
        lists = self.app.settings.get("live lists")
        if lists is not None:
            lists.touch(self, listed)
        for outer in self.mounts:  # an application that mounts this one has lists of its own
            outer.touch(listed)

    def tell_lists(
        self,
        event: str,
        ids: Sequence[object] | None,
        records: Sequence[Mapping[str, Any] | None],
    ) -> None:
        """Tell the live lists of this process of a change that each process hears by itself.

        Args:
            event: Such as ``created``.
            ids: Of the records, None for any.
            records: What was stored, each None where that is not known.
        """
        lists = self.app.settings.get("live lists")
        if lists is not None:
            lists.hear_change(self, event, ids, records)
        for outer in self.mounts:
            outer.tell_lists(event, ids, records)

    def resolve_publishers(self) -> None:
        """Look up the publishers of all events again, after one was added here or to the app."""
        if getattr(self.service, "secret_events", False) is True:
            self.secret_events = True
        found = self._channels.resolve(self.path, self.events, self._own_publishers)
        self.publishers = {} if self.secret_events else found
        # As one: of a class with `__getattr__`, Python takes five times as long for an attribute.
        self._audience = (self._listeners, self.mounts, self.publishers, self._channels)
        for outer in self.mounts:
            outer.resolve_publishers()

    def attach(self, outer: ServiceHandle) -> None:
        """Emit the events of this service at ``outer``, too, whose service is this handle."""
        self.mounts += (outer,)
        self.resolve_publishers()  # who hears of an event is kept with them

    def detach(self, outer: ServiceHandle) -> None:
        """Undo `attach`."""
        self.mounts = tuple(handle for handle in self.mounts if handle is not outer)
        self.resolve_publishers()  # as above

    def _check_event(self, event: str) -> None:
        if event not in self.events:
            raise ValueError(unlisted_event(self, event))

    def _check_listener(self, event: str, listener: Listener) -> None:
        if event not in EVENT_OF_METHOD.values():  # the service decides what it emits with these
            return
        if (signature := unfit_signature(listener, "data", "context")) is not None:
            raise TypeError(
                f"the listener {name_of(listener)} for {event!r} of {self!r} takes {signature};"
                " listeners are called with (data, context)"
            )

    # -- setup while the application runs ------------------------------------------------------

    def defer_setup(self, setup: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start the setup of a service registered while the application runs; calls wait for it.

        Without a running event loop, the first call starts it. If it fails, that is logged, the
        calls that wait fail as well, and the next call tries again.
        """

        async def start() -> None:
            await setup()
            self.forget_setup()

        self._setup = DeferredSetup(repr(self), start, self._run_in_background)
        if loop_is_running():
            self._setup.begin()

    async def wait_for_setup(self) -> None:
        """Wait for a deferred setup, if there is one.

        Raises:
            Exception: Any that the setup raises.
        """
        if self._setup is not None:
            await self._setup.wait()

    def forget_setup(self) -> None:
        """Stop waiting for a deferred setup: it is done, or the application was torn down."""
        self._setup = None


def owning_handle(handle: ServiceHandle) -> ServiceHandle:
    """Return the handle in the application that owns a service.

    That is the innermost one where applications mount services of others, else ``handle`` itself.
    """
    while isinstance(handle.service, ServiceHandle):
        handle = handle.service
    return handle


def event_records(context: HookContext) -> Sequence[tuple[Any, Any]]:
    """Return the record of each event of a call, with what clients get instead of it.

    A list of results causes one event for each record. If ``context.dispatch`` is a list of the
    same length, each record has its own item there.
    """
    result: Record | list[Any] | None = context.result
    dispatch: Record | list[Any] | Unset | None = context.dispatch
    if not isinstance(result, list):
        return [(result, result if dispatch is UNSET else dispatch)]
    if dispatch is UNSET:
        return [(record, record) for record in result]
    if isinstance(dispatch, list) and len(dispatch) == len(result):
        return list(zip(result, dispatch, strict=True))
    return [(record, dispatch) for record in result]


# -- the calls of a service's methods, composed once -----------------------------------------------

_Emit: TypeAlias = Callable[[str, HookContext], None]


def _compose_calls(
    service: Any,
    name: str,
    tables: tuple[HookTable, HookTable],
    emit: _Emit,
    *,
    is_mounted: bool,
    is_debugged: bool,
    checks: Checks | None,
    streams: bool,
) -> Call:
    """Return the call of a method, with its hooks and its event.

    Args:
        service: The object behind the service.
        name: The name of the method.
        tables: The hooks of the application, and those of the service.
        emit: Emits the event of a call.
        is_mounted: Whether ``service`` is the handle of another application.
        is_debugged: Whether to warn of params whose names are nearly right.
        checks: What the method declares, None for nothing.
        streams: Whether it streams.
    """
    of_app, own = tables
    if is_mounted:
        call = _forwarding_call(service, name)
    elif checks is None:
        call = _method_call(service, name)
    else:
        method, is_checked = getattr(service, name), own.has_check(name)
        if streams:
            made = streaming_call(method, name, checks, is_checked=is_checked)
        else:
            made = declared_call(method, name, checks, _finish, is_checked=is_checked)
        call = describe_frames(made, _describe_call)
    if is_debugged:
        call = watch_params(call)
    inner = of_app.wrap_innermost(name, own.wrap_innermost(name, call))
    inner = of_app.wrap_changes(name, own.wrap_changes(name, inner))
    # As in FeathersJS: all hooks of the application are outside those of the service.
    composed = own.surround(name, of_app.wrap(name, own.wrap(name, inner)))
    return closing_call(composed) if streams else _emitting_call(composed, emit)


def _unset_result(context: HookContext) -> RuntimeError:
    """Return the error for a call that ended without a result."""
    return RuntimeError(
        f"{context.service!r}, `{context.method}`: context.result is UNSET after the call; set it"
        " to None for an empty result"
    )


def _method_call(service: object, name: str) -> Call:
    """Return the function that calls a method, unless a hook has set the result before.

    Args:
        service: Has the method.
        name: The name of the method.
    """
    method = getattr(service, name)
    has_id = name in ID_METHODS
    has_data = name not in METHODS_WITHOUT_DATA
    may_upsert = name in {"create", "update", "patch"}

    async def call(context: HookContext) -> None:
        if context.result is not UNSET:
            return
        params = context.params
        if has_data:
            data = context.data
            result = method(context.id, data, params) if has_id else method(data, params)
        else:
            result = method(context.id, params) if has_id else method(params)
        if hasattr(result, "__await__"):
            result = await result
        if result is UNSET:
            raise _unset_result(context)
        context.result = result
        if may_upsert:
            _take_outcome(context)

    return describe_frames(call, _describe_call)


def _finish(context: HookContext, result: Any) -> None:
    """Take over a result that is not set, or that may be of an upsert."""
    if result is UNSET:
        raise _unset_result(context)
    context.result = result
    _take_outcome(context)


def _undeclared_checks(declared: Declared, hooks: Sequence[Hook]) -> Sequence[Hook]:
    """Return the hooks of a bundle but its checks of what the method itself declares."""
    names: list[str] = ["query"] if declared.has_query else []
    if declared.data is not UNSET:
        names.append("data")
    return [hook for hook in hooks if not any(name in hook_metadata(hook) for name in names)]


def _take_outcome(context: HookContext) -> None:
    """Set the event of a call to what happened, unless a hook has chosen another one."""
    events = outcome_of(context.result)
    if events is not None and context.event == EVENT_OF_METHOD[context.method]:
        if len(set(events)) == 1:
            context.event = events[0]
        else:
            context.result_events = events


def _describe_call(names: Mapping[str, Any]) -> str:
    context = names["context"]
    return f"`{context.method}` of {context.service!r}"


def _forwarding_call(handle: Mountable, name: str) -> Call:
    """Return the function that calls the same method of another application's handle.

    It takes over ``dispatch`` and ``http`` as well: a hook there may hide a password by them.
    """

    async def call(context: HookContext) -> None:
        if context.result is not UNSET:
            return
        # A copy: hooks of the inner application must not change the params of the outer one.
        params = context.params.copy()
        inner = HookContext(handle.app, handle, name, params, context.id, context.data)
        inner.http, inner.event, inner.caller = context.http, context.event, context.service
        inner.wants_items = context.wants_items
        if context.streams:  # of an earlier attempt
            await close_all(context.streams)
        await handle.run(inner)
        context.http, context.event = inner.http, inner.event
        context.result_events = inner.result_events
        context.result, context.dispatch = inner.result, inner.dispatch
        context.streams = inner.streams

    return call


def _emitting_call(composed: Call, emit: _Emit) -> Call:
    """Return a call that then checks for a result, and emits the event."""

    async def run(context: HookContext) -> None:
        await composed(context)
        if context.result is UNSET:
            raise _unset_result(context)
        if (event := context.event) is not None:
            emit(event, context)

    return run
