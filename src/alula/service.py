"""The handle of a service: arguments -> context -> hooks -> service -> event."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from typing import Any, TypeAlias

from alula.context import HookContext, Params
from alula.errors import MethodNotAllowed
from alula.events import EventEmitter
from alula.hooks import Hookable, HookTable
from alula.types import EVENT_OF_METHOD, ID_METHODS, STANDARD_METHODS, UNSET, Id

__all__ = ["ServiceHandle", "check_service"]

Given: TypeAlias = Params | Mapping[str, Any] | None
Run: TypeAlias = Callable[[HookContext], Coroutine[Any, Any, None]]


def check_service(path: str, service: object, methods: Collection[str] | None) -> tuple[str, ...]:
    """Return the standard methods that an object has.

    Raises:
        TypeError: The object can not be a service.
        ValueError: A listed method does not exist, or its name is taken.
    """
    if isinstance(service, type):
        raise TypeError(
            f"the service at {path!r} is the class {service.__name__}; register an instance:"
            f" {service.__name__}()"
        )
    if isinstance(service, Mapping) or service is None:
        raise TypeError(
            f"the service at {path!r} is {service!r}; a service is an object with methods"
        )
    found = tuple(name for name in STANDARD_METHODS if callable(getattr(service, name, None)))
    listed = methods or ()
    if isinstance(listed, str):
        raise TypeError(
            f"methods of the service at {path!r} is a string; give a list: [{listed!r}]"
        )
    for name in listed:
        if name not in STANDARD_METHODS and (name.startswith("_") or hasattr(ServiceHandle, name)):
            raise ValueError(f"the service at {path!r} lists `{name}`; that name is Alula's own")
        if not callable(getattr(service, name, None)):
            raise ValueError(
                f"the service at {path!r} lists the method `{name}`, but {type(service).__name__}"
                " has none of that name"
            )
    if not found and not listed:
        raise TypeError(
            f"the object at {path!r} ({type(service).__name__}) has no service method;"
            f" define one of {', '.join(STANDARD_METHODS)},"
            " or list custom ones: use(path, service, methods=[...])"
        )
    return found


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
    """

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
        self.service = service
        listed = None if methods is None else tuple(methods)
        standard = check_service(path, service, listed)
        self.methods: tuple[str, ...] = standard if listed is None else listed
        self.events = (
            *EVENT_OF_METHOD.values(),
            *(events or getattr(service, "events", None) or ()),
        )
        self._callable = tuple(dict.fromkeys((*standard, *self.methods)))
        self._app_hooks = app_hooks or HookTable()
        self._runs: dict[str, Run] = {}
        self._starting: Callable[[], Awaitable[None]] | None = None
        for name in self._callable:
            if name not in STANDARD_METHODS:
                setattr(self, name, _CustomMethod(self, name))
        self._hooks_changed()

    def __repr__(self) -> str:
        return f"service {self.path!r}"

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"{self!r} has no method `{name}`; it has {', '.join(self._callable)}."
            " Custom methods are listed: use(path, service, methods=[...])."
            " The object itself is at `.service`"
        )

    async def find(self, params: Given = None, /, **given: Any) -> Any:
        """Return the records that the query selects: a list, or a page."""
        return await self.call("find", params=Params(params, **given))

    async def get(self, id: Id, params: Given = None, /, **given: Any) -> Any:
        """Return one record. Raises `NotFound` where there is none."""
        return await self.call("get", id, params=Params(params, **given))

    async def create(self, data: Any, params: Given = None, /, **given: Any) -> Any:
        """Create one record from a mapping, or several from a list of them; return them."""
        return await self.call("create", None, data, Params(params, **given))

    async def update(self, id: Id, data: Any, params: Given = None, /, **given: Any) -> Any:
        """Replace a record by ``data``; return it."""
        return await self.call("update", id, data, Params(params, **given))

    async def patch(self, id: Id, data: Any, params: Given = None, /, **given: Any) -> Any:
        """Merge ``data`` into a record, or with id None into all that the query selects."""
        return await self.call("patch", id, data, Params(params, **given))

    async def remove(self, id: Id, params: Given = None, /, **given: Any) -> Any:
        """Remove a record, or with id None all that the query selects; return what was removed."""
        return await self.call("remove", id, params=Params(params, **given))

    async def call(
        self, method: str, id: Id = None, data: Any = None, params: Params | None = None
    ) -> Any:
        """Call any method by its name and return its result.

        Raises:
            MethodNotAllowed: The service has no such method.
            Exception: Whatever hooks and the service raise.
        """
        context = HookContext(self.app, self, method, params or Params(), id, data)
        await self.run(context)
        return context.result

    async def run(self, context: HookContext) -> None:
        """Run a call whose context is made: hooks, method, event. ``context.result`` is set then.

        Raises:
            MethodNotAllowed: The service has no method ``context.method``.
            RuntimeError: An around hook neither called ``next`` nor set a result.
            Exception: Whatever hooks and the service raise.
        """
        await self.started()
        composed = self._runs.get(context.method)
        if composed is None:
            raise MethodNotAllowed(f"{self!r} has no method `{context.method}`")
        await composed(context)
        if context.result is UNSET:
            raise RuntimeError(
                f"{self!r}, `{context.method}`: an around hook neither awaited next() nor set"
                " context.result"
            )
        if context.event is not None and context.event in self._listeners:
            several = isinstance(context.result, list)
            for item in context.result if several else (context.result,):
                self.emit(context.event, item, context)

    async def started(self) -> None:
        """Wait for the set-up of a service that was registered late."""
        if self._starting is not None:
            await self._starting()

    def start_late(self, start: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Have calls wait for ``start``, the set-up of a service that was registered late."""
        running: list[asyncio.Task[None]] = []

        async def once() -> None:
            if not running:
                running.append(asyncio.ensure_future(start()))
            await asyncio.shield(running[0])
            self._starting = None

        self._starting = once

    def hook_methods(self) -> Collection[str]:
        """Return the methods that hooks may be registered for."""
        return self._callable

    def _hooks_changed(self) -> None:
        self._runs = {
            name: self._app_hooks.wrap(
                name, self.hook_table.wrap(name, _caller(self.service, name))
            )
            for name in self._callable
        }

    def app_hooks_changed(self) -> None:
        """Compose again after the application's hooks changed."""
        self._hooks_changed()


class _CustomMethod:
    """A custom method of a handle: ``await messages.archive(data, params)``."""

    def __init__(self, handle: ServiceHandle, name: str) -> None:
        self._handle = handle
        self._name = name

    async def __call__(self, data: Any = None, params: Given = None, /, **given: Any) -> Any:
        return await self._handle.call(self._name, None, data, Params(params, **given))


def _caller(service: Any, name: str) -> Run:
    """Return the core of a call: the method itself, unless a hook has set the result before."""
    method = getattr(service, name)
    has_id = name in ID_METHODS
    has_data = name not in {"find", "get", "remove"}
    is_coroutine = inspect.iscoroutinefunction(method)

    async def call(context: HookContext) -> None:
        if context.result is not UNSET:
            return
        if has_id:
            result = (
                method(context.id, context.data, context.params)
                if has_data
                else method(context.id, context.params)
            )
        else:
            result = method(context.data, context.params) if has_data else method(context.params)
        if is_coroutine or hasattr(result, "__await__"):
            result = await result
        context.result = result

    return call
