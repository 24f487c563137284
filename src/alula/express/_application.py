"""`express`: the core application and the web application as one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    NamedTuple,
    Self,
    TypeAlias,
    TypeVar,
    Unpack,
    overload,
)

from alula._app import App
from alula._channels import Channel, Channels, Connection, Publishing
from alula._routes import Match
from alula._service import AnyTypedService, ServiceHandle, TypedService
from alula._service_object import ServiceBundle
from alula.express._chain import Step
from alula.express._request import Request
from alula.express._response import Response
from alula.express._routing import ItemType, Router, flatten, item_type_of, step_of
from alula.express._server import Server
from alula.express._web_application import WebApplication
from alula.hooks import HookTable, HookTypes
from alula.types import Paths, RecordType

if TYPE_CHECKING:
    from starlette.applications import Starlette

__all__ = ["ExpressApplication", "Representation", "express"]

AnyListener = TypeVar("AnyListener", bound=Callable[..., Any])

Representation: TypeAlias = Callable[
    [ServiceHandle, Mapping[str, str], Request, Response], Awaitable[None]
]
"""``(handle, route, req, res)``, asynchronous: responds in place of ``find``."""


class ServiceMiddleware(NamedTuple):
    """Middleware around one service.

    Attributes:
        before: Runs before the service; it can set params.
        after: Sees ``res.data`` and ``res.hook``. If it responds and does not go on, the rest is
            skipped, the formatter included.
    """

    before: Sequence[Step]
    after: Sequence[Step]


class ExpressApplication(WebApplication, Publishing, Generic[Paths]):
    """An ASGI application with the interface of the `App` below it.

    For type checkers, it has the paths of that `App`.

    Args:
        app: Holds services, hooks and settings.
        existing: A Starlette or FastAPI application to extend.

    Attributes:
        app: The application below.
        service_middleware: The middleware around each service that has some.
        representations: By media type: what responds to a GET of all records for clients that ask
            for it by the header ``Accept``.
        transports: Names of what carries calls to the services, such as ``"rest"``. Plugins that
            bring a transport add its name.
        file_routes: By the path of a service whose files have a route of their own,
            ``GET <path>/ID/content``: whether signed URLs open it without credentials.
    """

    def __init__(self, app: App[Paths], existing: Starlette | None = None) -> None:
        super().__init__(existing)
        self.app = app
        app.present_as(self)
        self.representations: dict[str, Representation] = {}
        self.transports: list[str] = []
        self.file_routes: dict[str, bool] = {}
        self.settings = app.settings
        self._own_publishers = app.channel_registry.publishers
        self.service_middleware: dict[ServiceHandle, ServiceMiddleware] = {}

    def __repr__(self) -> str:
        return f"express({self.app!r})"

    if not TYPE_CHECKING:  # for type checkers, an unknown attribute stays an error

        def __getattr__(self, name: str) -> Any:
            # Not self.app: before __init__ has set it, that would end up here again.
            app = self.__dict__.get("app")
            known = app is not None and name in app.services
            hint = f"; the service is at app.service({name!r})" if known else ""
            message = f"{type(self).__name__!r} object has no attribute {name!r}{hint}"
            raise AttributeError(message, name=name)

    @property
    def debug(self) -> bool:
        """Whether clients see the messages of unexpected errors: that of the application."""
        return self.app.debug

    @debug.setter
    def debug(self, value: bool) -> None:
        self.app.debug = value

    def use(
        self,
        *items: Any,
        methods: Iterable[str] | None = None,
        events: Iterable[str] | None = None,
    ) -> Self:
        """Register a service at a path, or middleware.

        ``use(path, service)``, ``use(path, before..., service, after...)``, ``use(middleware)``,
        ``use(path, middleware)``, lists of middleware, routers, sub-applications, ASGI
        applications.

        Args:
            items: What to register, behind its path if it has one.
            methods: As in `App.use`.
            events: As in `App.use`.

        Raises:
            TypeError: Something is none of these; the message names it.
            ValueError: The path is taken, or a listed method does not exist.
        """
        path = items[0] if items and isinstance(items[0], str) else None
        rest = flatten(items if path is None else items[1:])
        services = [
            at
            for at, item in enumerate(rest)
            if isinstance(item, App)
            or (not isinstance(item, Router) and item_type_of(item) is ItemType.SERVICE)
        ]
        if not services:
            if methods is not None or events is not None:
                raise TypeError("methods and events are options of a service; there is none here")
            return super().use(*items)
        if path is None or len(services) > 1:
            given = ", ".join(repr(rest[at]) for at in services)
            raise TypeError(
                f"use() takes a path and one service, not {len(services)} ({given})"
                f" {'without a path' if path is None else 'at one path'}: use(path, service)"
            )
        before, service, after = rest[: services[0]], rest[services[0]], rest[services[0] + 1 :]
        middleware = ServiceMiddleware([*map(step_of, before)], [*map(step_of, after)])
        registered = set(self.services)
        self.app.use(path, service, methods=methods, events=events)
        if before or after:
            # Several, if an `App` was mounted with its services.
            added = [self.services[name] for name in self.services.keys() - registered]
            self.service_middleware.update(dict.fromkeys(added, middleware))
        return self

    def add_representation(self, media_type: str, respond: Representation) -> None:
        """Respond to a GET of all records of a service in another form, such as an event stream.

        Args:
            media_type: For clients that prefer it to JSON.
            respond: ``(handle, route, req, res)``, asynchronous. The service offers ``find``.
        """
        self.representations[media_type] = respond

    # -- the interface of the application, delegated one by one ---------------------------------

    @property
    def services(self) -> dict[str, ServiceHandle]:
        """Handles by path."""
        return self.app.services

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
        """Return the handle of a service (see `App.service`)."""
        return self.app.service(path) if record is None else self.app.service(path, record)

    async def unuse(self, path: Paths) -> Any:
        """Take a service away (see `App.unuse`)."""
        self.service_middleware.pop(self.service(path), None)
        return await self.app.unuse(path)

    def lookup(self, path: str) -> Match[ServiceHandle] | None:
        """Return where a request path leads (see `App.lookup`)."""
        return self.app.lookup(path)

    def hooks(self, hooks: object = None, /, **kinds: Unpack[HookTypes]) -> Self:
        """Register hooks around the methods of all services (see `App.hooks`)."""
        self.app.hooks(hooks, **kinds)
        return self

    def around(self, *methods: str) -> Callable[[Any], Any]:
        """Register an around hook for all services."""
        return self.app.around(*methods)

    def before(self, *methods: str) -> Callable[[Any], Any]:
        """Register a before hook for all services."""
        return self.app.before(*methods)

    def after(self, *methods: str) -> Callable[[Any], Any]:
        """Register an after hook for all services."""
        return self.app.after(*methods)

    def error(self, *methods: str) -> Callable[[Any], Any]:
        """Register an error hook for all services."""
        return self.app.error(*methods)

    # -- real time -----------------------------------------------------------------------------

    @property
    def channel_registry(self) -> Channels:
        """The channels and connections, for transports."""
        return self.app.channel_registry

    def channel(self, *names: str | Iterable[str]) -> Channel:
        """Return the channel of one or several names (see `App.channel`)."""
        return self.app.channel(*names)

    @property
    def channels(self) -> list[str]:
        """The names of all channels that somebody is in."""
        return self.app.channels

    def resolve_publishers(self) -> None:
        """Look up the publishers of all services again, after `publish` has added one."""
        self.app.resolve_publishers()

    def add_connection(self, connection: Connection) -> None:
        """Emit ``connection`` (see `App.add_connection`)."""
        self.app.add_connection(connection)

    def remove_connection(self, connection: Connection) -> None:
        """Emit ``disconnect`` once, and leave all channels (see `App.remove_connection`)."""
        self.app.remove_connection(connection)

    @property
    def hook_table(self) -> HookTable:
        """The hooks around the methods of all services."""
        return self.app.hook_table

    @overload
    def on(self, event: str, listener: AnyListener) -> AnyListener: ...
    @overload
    def on(self, event: str) -> Callable[[AnyListener], AnyListener]: ...
    def on(self, event: str, listener: Callable[..., Any] | None = None) -> Callable[..., Any]:
        """Listen to an event of the application."""
        return self.app.on(event) if listener is None else self.app.on(event, listener)

    @overload
    def once(self, event: str, listener: AnyListener) -> AnyListener: ...
    @overload
    def once(self, event: str) -> Callable[[AnyListener], AnyListener]: ...
    def once(self, event: str, listener: Callable[..., Any] | None = None) -> Callable[..., Any]:
        """Listen to an event of the application once."""
        return self.app.once(event) if listener is None else self.app.once(event, listener)

    async def wait_for_listeners(self) -> None:
        """Wait until running listeners have ended (see `App.wait_for_listeners`)."""
        await self.app.wait_for_listeners()

    def off(self, event: str, listener: Callable[..., Any] | None = None) -> None:
        """Stop listening."""
        self.app.off(event, listener)

    def emit(self, event: str, *values: Any) -> bool:
        """Emit an event of the application."""
        return self.app.emit(event, *values)

    def has_listeners(self, event: str) -> bool:
        """Tell whether anybody listens to an event of the application."""
        return self.app.has_listeners(event)

    # -- start and stop ------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """Whether the set-up has finished, and the teardown not begun."""
        return self.app.is_ready

    async def setup(self, server: Any = None) -> Self:
        """Set the services up (see `App.setup`)."""
        from alula._hub import current_worker  # noqa: PLC0415  # only a start needs it

        was_ready = self.app.is_ready
        await self.app.setup(server)
        place = current_worker()
        # Once: not by a second call, and not by each worker.
        if not was_ready and (place is None or place.is_first):
            self.channel_registry.check_publishers(self.transports)
        return self

    async def teardown(self) -> Self:
        """Close the servers that `listen` has started, and tear the services down.

        Raises:
            Exception: As `App.teardown`.
        """
        await super().teardown()
        await self.app.teardown()
        return self

    @asynccontextmanager
    async def _lifespan(self, server: Server | None) -> AsyncGenerator[Mapping[str, Any]]:
        # A service that no request can reach is a mistake that would show as a 404 only.
        reachable = [path for path, handle in self.services.items() if handle.methods]
        if reachable and not self.transports:
            raise RuntimeError(
                f"nothing carries calls to the services {', '.join(map(repr, reachable))}: write"
                " app.configure(rest()), behind the body parsers. Services that only this program"
                " calls are closed to the outside: app.use(path, service, methods=[])"
            )
        for path in reachable:
            if self.endpoints.at(f"/{path}/") is not None:
                raise RuntimeError(
                    f"no request reaches the service {path!r}, since a transport has its path; give"
                    ' the transport another one, such as socketio(path="/live/")'
                )
        for event_server in self.channel_registry.servers:
            path = event_server.path
            if self.endpoints.at(f"{path}/") is None and self.lookup(path) is not None:
                raise RuntimeError(
                    f"the service at {path!r} hides the streams of several services there; give"
                    ' them another path: sse("streams")'
                )
        async with super()._lifespan(server) as state:
            try:
                yield state
            finally:
                await self.app.teardown()


@overload
def express(app: None = None, existing_app: Starlette | None = None) -> WebApplication: ...
@overload
def express(
    app: App[Paths], existing_app: Starlette | None = None
) -> ExpressApplication[Paths]: ...
def express(app: App | None = None, existing_app: Starlette | None = None) -> WebApplication:
    """Make an ASGI application of an `App`, with middleware, routes and a server.

    Examples:
        >>> from alula import App
        >>> from alula.adapters.memory import MemoryService
        >>> from alula.express import express, json, rest
        >>> web = express(App())
        >>> web = web.use(json()).configure(rest()).use("messages", MemoryService())

    Args:
        app: The application. None gives a plain `WebApplication` without services.
        existing_app: A Starlette or FastAPI application to extend. Its middleware sees every
            request and its routes come first; it must not have served requests before.

    Raises:
        TypeError: ``app`` is not an `App`, or ``existing_app`` not a Starlette application.
        RuntimeError: ``existing_app`` has served requests already.
    """
    if app is None:
        web = WebApplication(existing_app)
        web.debug = App().debug  # read from the environment by one rule
        return web
    if not isinstance(app, App):
        raise TypeError(f"express(app): {app!r} is not an alula.App; write express(App())")
    return ExpressApplication(app, existing_app)
