"""The handle of a service: arguments -> context -> hooks -> service -> event."""

from __future__ import annotations

import inspect
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Mapping,
)
from typing import Any, ClassVar, TypeAlias, Unpack

from alula._bundle import ServiceBundle
from alula._context import GivenParams, HookContext, Params
from alula._late_start import LateStart
from alula._service_object import check_object, custom_events_of, read_names
from alula._user_code import describe_frames, name_of
from alula.errors import MethodNotAllowed
from alula.events import EventEmitter, emit_when_due, loop_is_running
from alula.hooks import Hookable, HookTable
from alula.types import EVENT_OF_METHOD, ID_METHODS, STANDARD_METHODS, UNSET, Id

__all__ = ["Given", "RawQuery", "ServiceHandle", "check_service"]

Given: TypeAlias = Params | Mapping[str, Any] | None
RawQuery: TypeAlias = Mapping[str, Any] | None
Run: TypeAlias = Callable[[HookContext], Coroutine[Any, Any, None]]


def check_service(path: str, service: object, methods: Collection[str] | None) -> tuple[str, ...]:
    """Return the standard methods that an object has.

    Raises:
        TypeError: The object cannot be a service, or a method takes other arguments.
        ValueError: A listed method does not exist, or its name is taken.
    """
    if not isinstance(service, ServiceHandle):
        return check_object(path, service, methods, dir(ServiceHandle))
    has = service.hook_methods()
    for name in methods or ():
        if name not in has:
            raise ValueError(
                f"the service at {path!r} lists the method `{name}`, but {service!r} has none of"
                " that name"
            )
    return tuple(name for name in STANDARD_METHODS if name in has)


class ServiceHandle(EventEmitter, Hookable):
    """A registered service, called through its hooks and events.

    Every method takes the params last, as `Params`, as a mapping, or as keywords:
    ``await messages.find(query={"$limit": 2})``. Custom methods stand beside the standard ones.

    Attributes:
        app: The application.
        path: Where it is registered, without slashes at the ends.
        service: The object that was registered.
        methods: Names of the methods that are open to the outside.
        events: Names of the events that it emits.
        record_schema: What its records are, where it was registered with a schema.
        secret_ids: Whether its ids are secrets, such as tokens, which no log may have. The service
            says so by an attribute of this name.
    """

    events: tuple[str, ...]
    _emitted_by_service: frozenset[str]
    _elsewhere: ClassVar[Mapping[str, str]] = {}
    """How names are spelled that callers take for params, where they belong in another param."""

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
        EventEmitter.__init__(self)
        Hookable.__init__(self)
        self.app = app
        self.path = path
        bundle = service if isinstance(service, ServiceBundle) else _without_hooks(service)
        self.service = service = bundle.service
        self.record_schema = bundle.schema
        self.secret_ids = getattr(service, "secret_ids", False) is True
        listed = read_names("methods", path, methods)
        if listed is None and isinstance(service, ServiceHandle):
            listed = service.methods
        standard = check_service(path, service, listed)
        self.methods: tuple[str, ...] = standard if listed is None else listed
        if isinstance(service, ServiceHandle):
            named = (*service.events, *(read_names("events", path, events) or ()))
            self._emitted_by_service = service._emitted_by_service  # noqa: SLF001
        else:
            own = custom_events_of(service) if events is None else events
            named = read_names("events", path, own) or ()
            self._emitted_by_service = frozenset(EVENT_OF_METHOD.values()) & {*named}
        self.events = tuple(dict.fromkeys((*EVENT_OF_METHOD.values(), *named)))
        self._outer: tuple[ServiceHandle, ...] = ()  # of applications that this one is part of
        self._callable = tuple(dict.fromkeys((*standard, *self.methods)))
        self._app_hooks = app_hooks or HookTable()
        self._runs: dict[str, Run] = {}  # every method with its hooks and its event
        self._quick: dict[str, Run] = {}  # methods without hooks, for calls without an event
        self._late: LateStart | None = None
        for name in self._callable:
            if name not in STANDARD_METHODS:
                setattr(self, name, self._custom_method(name))
        self.hook_table.enclose(bundle.first, bundle.last)
        self._add_hooks(dict(bundle.hooks))

    def __repr__(self) -> str:
        return f"service {self.path!r}"

    def __getattr__(self, name: str) -> Any:
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

    def run(self, context: HookContext) -> Awaitable[None]:
        """Run a call whose context is made: hooks, method, event. ``context.result`` is set then.

        Raises:
            MethodNotAllowed: The service has no method ``context.method``.
            RuntimeError: An around hook neither called ``next`` nor set a result.
            Exception: Whatever hooks and the service raise.
        """
        method = context.method
        if self._late is None:
            quick = self._quick.get(method)
            if quick is not None and context.event is None:
                return quick(context)
        if method not in self._runs:
            raise MethodNotAllowed(f"{self!r} has no method `{method}`")
        return self._runs[method](context) if self._late is None else self._run_late(context)

    async def _run_late(self, context: HookContext) -> None:
        await self.started()
        await self._runs[context.method](context)

    def _complete(self, composed: Run) -> Run:
        """Return a call with what comes behind its hooks: a look at the result, and the event."""

        async def run(context: HookContext) -> None:
            await composed(context)
            result, event = context.result, context.event
            if result is UNSET:
                raise _unset(context)
            if event is not None and (event in self._listeners or self._outer):
                if event in self._emitted_by_service:  # it does so itself, as it has named it
                    return
                items = tuple(result) if isinstance(result, list) else (result,)
                emit_when_due(context, lambda: self._emit_each(event, items, context))

        return run

    def _emit_each(self, event: str, items: tuple[Any, ...], context: HookContext) -> None:
        for item in items:
            super().emit(event, item, context)
            for outer in self._outer:
                if outer is not context.caller:  # which emits it once its own hooks have passed
                    outer.emit(event, item, context)

    def emit(self, event: str, *values: Any) -> bool:
        """Call the listeners of an event, also those of applications that this one is part of.

        Raises:
            RuntimeError: A listener is asynchronous and no event loop is running.
        """
        heard = super().emit(event, *values)
        for outer in self._outer:
            heard = outer.emit(event, *values) or heard
        return heard

    def attach(self, outer: ServiceHandle) -> None:
        """Let listeners of another application's handle hear what happens here.

        Args:
            outer: The handle whose service this one is.
        """
        self._outer += (outer,)

    def detach(self, outer: ServiceHandle) -> None:
        """Undo `attach`."""
        self._outer = tuple(each for each in self._outer if each is not outer)

    def _check_event(self, event: str) -> None:
        if event not in self.events:
            from difflib import get_close_matches  # noqa: PLC0415  # only a slip pays its import

            near = get_close_matches(event, self.events, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ";"
            raise ValueError(
                f"{self!r} emits no event {event!r}{hint} it emits {', '.join(self.events)};"
                f" others are listed: use({self.path!r}, service, events=[{event!r}])"
            )

    def _check_listener(self, event: str, listener: Callable[..., Any]) -> None:
        if event not in EVENT_OF_METHOD.values():  # with what, those who emit it decide
            return
        try:
            signature = inspect.signature(listener)
        except (ValueError, TypeError):  # built-in functions may have none to look at
            return
        try:
            signature.bind("data", "context")
        except TypeError:
            raise TypeError(
                f"the listener {name_of(listener)} for {event!r} of {self!r} takes {signature};"
                " listeners are called with (data, context)"
            ) from None

    def start_late(self, start: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin ``start``, the set-up of a service that was registered late; calls wait for it.

        Where no event loop is running, the first call begins it. Where it fails, that is logged,
        the calls that wait for it fail too, and the next one tries again.
        """

        async def begin() -> None:
            await start()
            self._late = None

        self._late = LateStart(repr(self), begin, self._run_beside)
        if loop_is_running():
            self._late.begin()

    async def started(self) -> None:
        """Wait for the set-up of a service that was registered late.

        Raises:
            Exception: Whatever the set-up raises.
        """
        if self._late is not None:
            await self._late.wait()

    def forget_start(self) -> None:
        """Have no call wait for the set-up any longer."""
        self._late = None

    def hook_methods(self) -> Collection[str]:
        """Return the methods that hooks may be registered for."""
        return self._callable

    def add_innermost(self, hook: Callable[..., Any], methods: Collection[str]) -> None:
        """Register an around hook directly around methods; see `HookTable.add_innermost`."""
        self.hook_table.add_innermost(hook, methods)
        self._hooks_changed()

    def app_hooks_changed(self) -> None:
        """Compose again after the application's hooks changed."""
        self._hooks_changed()

    def _hooks_changed(self) -> None:
        self._runs, self._quick = {}, {}
        for name in self._callable:
            call = _caller(self.service, name)
            composed = self._app_hooks.wrap(name, self.hook_table.wrap(name, call))
            self._runs[name] = self._complete(composed)
            if composed is call:  # there are no hooks
                self._quick[name] = call

    async def _call(
        self,
        method: str,
        id: Id,
        data: Any,
        params: Given,
        query: RawQuery,
        given: Mapping[str, Any],
    ) -> Any:
        if params is None and not given:  # as in most calls from inside
            made = Params()
            if type(query) is dict:
                made.query = query.copy()
            elif query is not None:
                made = Params(query=query)
        else:
            made = (
                Params(params, **given) if query is None else Params(params, query=query, **given)
            )
            made.check_names(f"{self.path}.{method}(...)", self._elsewhere)
        context = HookContext(self.app, self, method, made, id, data)
        await self.run(context)
        return context.result

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


def _without_hooks(service: Any) -> ServiceBundle:
    schema = service.record_schema if isinstance(service, ServiceHandle) else None
    return ServiceBundle(service, {}, schema)


def _caller(service: Any, name: str) -> Run:
    """Return the core of a call: the method itself, unless a hook has set the result before."""
    if isinstance(service, ServiceHandle):
        return _forwarder(service, name)
    method = getattr(service, name)
    has_id = name in ID_METHODS
    has_data = name not in {"find", "get", "remove"}
    is_coroutine = inspect.iscoroutinefunction(method)

    async def call(context: HookContext) -> None:
        if context.result is not UNSET:
            return
        params = context.params
        if has_data:
            data = context.data
            result = method(context.id, data, params) if has_id else method(data, params)
        else:
            result = method(context.id, params) if has_id else method(params)
        if is_coroutine or hasattr(result, "__await__"):
            result = await result
        if result is UNSET:
            raise _unset(context)
        context.result = result

    return describe_frames(call, _described)


def _described(names: Mapping[str, Any]) -> str:
    context = names["context"]
    return f"`{context.method}` of {context.service!r}"


def _unset(context: HookContext) -> RuntimeError:
    return RuntimeError(
        f"{context.service!r}, `{context.method}`: context.result is UNSET after the call; set it"
        " to None where there is nothing to answer"
    )


def _forwarder(handle: ServiceHandle, name: str) -> Run:
    """Return the core of a call to another application's service: a call there.

    What its hooks decide about answer and event counts here too. Without that, a hook there that
    sets ``dispatch`` to keep a password inside would be passed by.
    """

    async def call(context: HookContext) -> None:
        if context.result is not UNSET:
            return
        params = context.params.copy()
        there = HookContext(handle.app, handle, name, params, context.id, context.data)
        there.http, there.event, there.caller = context.http, context.event, context.service
        await handle.run(there)
        context.http, context.event = there.http, there.event
        context.result, context.dispatch = there.result, there.dispatch

    return call
