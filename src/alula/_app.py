"""The application: services by path, hooks around all of them, settings, start and stop.

It works without any web server.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, Generic, Self, cast, overload

from alula._app_events import check_app_event, check_app_listener
from alula._channels import Channel, Channels, Connection, Publishing
from alula._events import Listener
from alula._registry import Registry, read_setting
from alula._routes import Match, RouteTable, strip_slashes
from alula._service import AnyTypedService, ServiceHandle, TypedService, check_service_type
from alula._service_object import ServiceBundle, check_takes_no_requests
from alula._shares import Turns
from alula._user_code import did_you_mean
from alula.hooks import Hook, check_hook, compose
from alula.types import UNSET, Paths, RecordType, is_array

__all__ = ["App"]

_log: Final = logging.getLogger("alula")
_LIFECYCLE: Final = ("setup", "teardown")
_OF_THE_WEB: Final = frozenset({"run", "listen", "serve", "post", "put", "patch", "delete", "all"})
_HINT: Final = (
    "middleware and routes belong to a web application: app = express(App()), with"
    " `from alula.express import express`"
)


class App(Registry[ServiceHandle], Publishing, Generic[Paths]):
    """Named services, with hooks around all of them, settings, start and stop.

    For type checkers, ``App[Literal["messages", "users"]]`` has services at these paths only.

    Args:
        debug: Whether clients see the messages of unexpected errors. None reads the environment
            variable ``ALULA_DEBUG``.

    Attributes:
        settings: Settings by name.
        services: Handles by path.
        routes: Finds handles by the path of a request.
        channel_registry: The channels and connections, for transports.
        turns: Divides the time of the event loop among clients, for transports.

    Raises:
        TypeError: ``debug`` is not True, False or None.

    Examples:
        >>> class Messages:
        ...     async def find(self, params):
        ...         return [{"id": 1, "text": "Hello"}]
        >>> app = App().use("messages", Messages())
        >>> asyncio.run(app.service("messages").find())
        [{'id': 1, 'text': 'Hello'}]
    """

    def __init__(self, debug: bool | None = None) -> None:
        super().__init__()
        if debug is None:
            debug = os.environ.get("ALULA_DEBUG", "").lower() in {"1", "true", "yes", "on"}
        elif not isinstance(debug, bool):  # App(__name__), as in Flask, would turn it on
            raise TypeError(f"App(debug) is True, False or None, not {debug!r}; write App()")
        self.debug = debug
        self.routes: RouteTable[ServiceHandle] = RouteTable()
        self._is_ready = False
        self.turns = Turns()
        self.channel_registry = Channels(self.services, self._run_in_background)
        self._own_publishers = self.channel_registry.publishers
        self._lifecycle_hooks: dict[str, list[Hook]] = {name: [] for name in _LIFECYCLE}
        self._is_set_up = False
        # By handle, not by path: a path can be removed and taken by another service meanwhile.
        self._up: dict[ServiceHandle, None] = {}  # in the order of their setup
        # First come, first served: a teardown during a setup waits, and then finds everything up.
        self._lifecycle_lock = asyncio.Lock()
        self._lifecycle_task: asyncio.Task[Any] | None = None

    def __repr__(self) -> str:
        return f"the application ({len(self.services)} services)"

    if not TYPE_CHECKING:  # for type checkers, app.run(3030) is an error

        def __getattr__(self, name: str) -> Any:
            hint = ""
            if name in _OF_THE_WEB:
                hint = (
                    "; it serves no HTTP by itself. Make a web application of it:"
                    " app = express(App()), with `from alula.express import express`"
                )
            # Not self.services: before __init__ has set it, that would end up here again, without
            # an end.
            elif name in self.__dict__.get("services", {}):
                hint = f"; the service is at app.service({name!r})"
            raise AttributeError(
                f"{type(self).__name__} has no attribute {name!r}{hint}", name=name
            )

    def get(self, name: str, /, *handlers: object) -> Any:
        """Return a setting, None if it is not set.

        Raises:
            TypeError: This is a route, which only a web application has.
        """
        if handlers or not isinstance(name, str) or name.startswith("/"):
            raise TypeError(f"get({name!r}, ...) is a route; {_HINT}")
        return read_setting(self.settings, name, debug=self.debug)

    # -- services ------------------------------------------------------------------------------

    def use(
        self,
        path: str,
        service: Any = UNSET,
        *,
        methods: Iterable[str] | None = None,
        events: Iterable[str] | None = None,
    ) -> Self:
        """Register a service, or all services of another application below a path.

        Services of another application run the hooks of both, this one's outside. The other
        application is set up and torn down by its own calls.

        Args:
            path: The name of the service. A segment ``:name`` is a placeholder; its value is in
                ``params.route``.
            service: An object with service methods, or an `App`.
            methods: The methods that clients may call, custom methods included. None opens the
                standard methods of the object; an empty list opens none.
            events: Custom events that it emits.

        Raises:
            TypeError: The object cannot be a service, or it is an application of `express`, whose
                middleware and routes would be left out.
            ValueError: The path is taken, or a listed method does not exist.
        """
        if not isinstance(path, str):
            raise TypeError(f"use(path, service) takes a path first, not {path!r}; {_HINT}")
        if service is UNSET:
            raise TypeError(f"use({path!r}) has no service: use({path!r}, service)")
        path = strip_slashes(path)
        if isinstance(service, App):
            other = cast("App[Any]", service)  # type: ignore[redundant-cast]  # not to pyright
            check_takes_no_requests(path, other)
            if methods is not None or events is not None:
                raise TypeError(
                    f"the services of the application at {path!r} have methods and events of their"
                    " own; give these where the services are registered"
                )
            objects = {f"{path}/{name}": handle for name, handle in other.services.items()}
        else:
            objects = {path: service}
        self._register(
            [
                TypedService(
                    self,
                    strip_slashes(at),
                    registered,
                    methods=methods,
                    events=events,
                    app_hooks=self.hook_table,
                    channels=self.channel_registry,
                )
                for at, registered in objects.items()
            ]
        )
        return self

    def _register(self, handles: list[ServiceHandle]) -> None:
        """Register handles, all of them or none."""
        # All paths first: one that is taken must not leave half of another application mounted.
        for at, handle in enumerate(handles):
            try:
                self.routes.add(handle.path, handle)
            except ValueError as error:
                for added in handles[:at]:
                    self.routes.remove(added.path)
                raise ValueError(f"cannot register a service at {handle.path!r}: {error}") from None
        for handle in handles:
            self.services[handle.path] = handle
            if isinstance(handle.service, ServiceHandle):
                handle.service.attach(handle)
            if self._is_set_up and callable(getattr(handle.service, "setup", None)):
                handle.defer_setup(partial(self._set_up, handle))
            elif self._is_set_up:
                self._up[handle] = None

    @overload
    def service(self, path: Paths) -> ServiceHandle: ...
    @overload
    def service(self, path: Paths, record: type[AnyTypedService]) -> AnyTypedService: ...
    @overload
    def service(
        self, path: Paths, record: type[RecordType] | ServiceBundle[RecordType]
    ) -> TypedService[RecordType]: ...
    def service(
        self, path: Paths, record: type[Any] | ServiceBundle[Any] | None = None
    ) -> ServiceHandle:
        """Return the handle of the service at a path.

        Args:
            path: Its path.
            record: For type checkers: the type of its records, a TypedDict; a class of
                `TypedService`; or what `with_schema` returned for a TypedDict.

        Raises:
            LookupError: There is none.
            TypeError: ``record`` is neither, such as a Pydantic model.
            ValueError: ``record`` declares a custom method that the service does not have, or is
                another service.
        """
        handle = self.services.get(path) or self.services.get(strip_slashes(path))
        if handle is None:
            raise LookupError(f"there is no service at {path!r}{did_you_mean(path, self.services)}")
        if record is not None:
            check_service_type(handle, record)
        return handle

    def lookup(self, path: str) -> Match[ServiceHandle] | None:
        """Return the service, id and route values for the path of a request, None without one."""
        match = self.routes.find(path)
        return None if match is None else Match(*match)

    async def unuse(self, path: Paths) -> Any:
        """Remove a service, tear it down, and return the object that was registered.

        Raises:
            LookupError: There is no service at the path.
        """
        handle = self.service(path)
        # Out of the routes first: new requests get a 404, while listeners of earlier calls still
        # have a service that works.
        del self.services[handle.path]
        self.routes.remove(handle.path)
        if isinstance(handle.service, ServiceHandle):
            handle.service.detach(handle)
        await handle.wait_for_listeners()
        if handle in self._up:
            del self._up[handle]
            await self._call_service("teardown", handle)
            await handle.wait_for_listeners()
        return handle.service

    # -- real time -----------------------------------------------------------------------------

    def channel(self, *names: str | Iterable[str]) -> Channel:
        """Return the channel of one or several names, which may be in lists.

        Raises:
            TypeError: There are none, or one of them is not a string.
        """
        return self.channel_registry.channel(*names)

    @property
    def channels(self) -> list[str]:
        """The names of all channels that somebody is in."""
        return self.channel_registry.names

    def resolve_publishers(self) -> None:
        """Look up the publishers of all services again, after one was added."""
        self.channel_registry.resolve_publishers()

    def add_connection(self, connection: Connection) -> None:
        """Emit ``connection``; transports call this when a client may get events."""
        self.channel_registry.connections[connection.id] = connection
        before = frozenset(self._running)
        super().emit("connection", connection)
        connection._joining = self._running - before  # noqa: SLF001  # for wait_until_joined

    def remove_connection(self, connection: Connection) -> None:
        """Emit ``disconnect`` once, then leave all channels; transports call this on closing."""
        added = self.channel_registry.connections.pop(connection.id, None)
        if added is not None:
            super().emit("disconnect", connection)
        self.channel_registry.leave_all(connection)
        connection.is_open = False
        if connection.sign_in is not None:
            connection.sign_in.forget()

    def emit(self, event: str, *values: Any) -> bool:
        """Call the listeners of an event; ``emit("disconnect", connection)`` closes a connection.

        Raises:
            RuntimeError: A listener is asynchronous and no event loop is running.
        """
        if event == "disconnect" and values and isinstance(values[0], Connection):
            has_listeners = self.has_listeners(event)
            if values[0].id in self.channel_registry.connections:
                self.remove_connection(values[0])
                closing = values[0].close("disconnect", reconnect=False)
                self._run_in_background(closing, "the closing of a connection")
            return has_listeners
        return super().emit(event, *values)

    def _check_event(self, event: str) -> None:
        check_app_event(event)

    def _check_listener(self, event: str, listener: Listener) -> None:
        check_app_listener(event, listener)

    def _add_hooks(self, hooks: dict[str, Any]) -> None:
        """Register hooks; ``setup`` and ``teardown`` are functions of ``(context, next)``."""
        given = {name: hooks.pop(name) for name in _LIFECYCLE if name in hooks}
        listed = {k: list(v) if is_array(v) else [v] for k, v in given.items()}
        for name, functions in listed.items():
            for function in functions:
                check_hook(name, function, repr(self))
        super()._add_hooks(hooks)  # before any of these is registered: it may refuse its own
        for name, functions in listed.items():
            self._lifecycle_hooks[name].extend(functions)

    # -- start and stop ------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """Whether `setup` has finished, and `teardown` has not begun since."""
        return self._is_ready

    async def setup(self, server: object = None) -> Self:
        """Call ``setup(app, path)`` of every service, in the order of their registration.

        A second call waits for the first and does nothing more. A service that is registered
        later is set up then; calls to it wait for that. If a setup fails, those that succeeded are
        torn down again, so that nothing stays open, and ``setup`` can be called again.

        Args:
            server: The server that is running, for `setup` hooks.

        Raises:
            Exception: Any that a service or a `setup` hook raises.
            RuntimeError: A `setup` hook did not await ``next()``, or this is called from within.
        """
        async with self._one_at_a_time():
            if not self._is_set_up:
                self._is_set_up = True  # services registered from here on are set up on their own
                try:
                    await self._run_lifecycle("setup", self._set_up_all, server)
                    self._is_ready = True
                # Not only Exception: a start that is cancelled, as by Ctrl+C, must not leave
                # connections open either.
                except BaseException:
                    self._is_set_up = False
                    await self._wait_for_all_listeners()
                    try:
                        await self._tear_down_all()
                    except Exception:  # noqa: BLE001  # must not hide the first error
                        _log.exception("teardown failed too, after setup had failed")
                    raise
        return self

    async def teardown(self) -> Self:
        """Wait for listeners, then call ``teardown(app, path)`` of services in reverse order.

        If a service fails, the others are still torn down.

        Raises:
            Exception: Any that a service or a `teardown` hook raises; an `ExceptionGroup` if
                several fail.
            RuntimeError: A `teardown` hook did not await ``next()``, or this is called from within.
        """
        async with self._one_at_a_time():
            self._is_ready = False
            was_up, self._is_set_up = self._is_set_up or bool(self._up), False
            await self._wait_for_all_listeners()  # they may still use the services
            if was_up:
                await self._run_lifecycle("teardown", self._tear_down_all, None)
                await self._wait_for_all_listeners()
        return self

    @asynccontextmanager
    async def _one_at_a_time(self) -> AsyncGenerator[None]:
        task = asyncio.current_task()
        if self._lifecycle_task is task:  # it would wait for itself
            raise RuntimeError("setup() and teardown() of an application cannot call each other")
        async with self._lifecycle_lock:
            self._lifecycle_task = task
            try:
                yield
            finally:
                self._lifecycle_task = None

    async def _run_lifecycle(
        self, name: str, core: Callable[[], Awaitable[None]], server: object
    ) -> None:
        reached = False

        async def last(_: object) -> None:
            nonlocal reached
            reached = True
            await core()

        context = SimpleNamespace(app=self, server=server, method=name)
        await compose(self._lifecycle_hooks[name], last)(context)
        # A hook that forgets next() would let a server run on services that are not set up.
        if not reached:
            raise RuntimeError(f"a {name} hook of {self!r} did not await next()")

    async def _set_up_all(self) -> None:
        # A copy, checked again for each service: setups may register and remove services.
        for path, handle in list(self.services.items()):
            if handle not in self._up and self.services.get(path) is handle:
                await self._set_up(handle)
        for handle in list(self.services.values()):
            await handle.wait_for_setup()  # services that a setup registered

    async def _set_up(self, handle: ServiceHandle) -> None:
        await self._call_service("setup", handle)
        self._up[handle] = None

    async def _tear_down_all(self) -> None:
        errors: list[Exception] = []
        # Not a loop over a list: a teardown may remove other services.
        while self._up:
            handle = next(reversed(self._up))
            try:
                await self._call_service("teardown", handle)
            except Exception as error:  # noqa: BLE001  # raised below, after the others
                errors.append(error)
            # After its teardown, and with a default: a teardown may remove its own service.
            self._up.pop(handle, None)
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise ExceptionGroup("several services failed to tear down", errors)

    async def _call_service(self, name: str, handle: ServiceHandle) -> None:
        function: Any = getattr(handle.service, name, None)
        result: Any = function(self, handle.path) if callable(function) else None
        if hasattr(result, "__await__"):
            await result

    async def _wait_for_all_listeners(self) -> None:
        for handle in list(self.services.values()):
            await handle.wait_for_listeners()
            handle.forget_setup()
        await self.wait_for_listeners()
