"""`express`: an application with services, middleware, routes and servers."""

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
    cast,
    overload,
)

from alula._app import App
from alula._service import ServiceHandle
from alula.express._chain import Handler, Step
from alula.express._request import Request
from alula.express._response import Response
from alula.express._routing import ItemType, Router, flatten, item_type_of, step_of
from alula.express._server import Server
from alula.express._web_application import WebApplication
from alula.types import Paths

if TYPE_CHECKING:
    from starlette.applications import Starlette

__all__ = ["ExpressApplication", "Representation", "express"]

T = TypeVar("T")

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


class ExpressApplication(App[Paths], WebApplication, Generic[Paths]):
    """An `App` with middleware, routes and servers: what `express` makes of an `App`.

    Attributes:
        service_middleware: The middleware around each service that has some.
        representations: By media type: what responds to a GET of all records for clients that ask
            for it by the header ``Accept``.
        transports: Names of what carries calls to the services, such as ``"rest"``. Plugins that
            bring a transport add its name.
        file_routes: By the path of a service whose files have a route of their own,
            ``GET <path>/ID/content``: whether signed URLs open it without credentials.
    """

    def __init__(self, debug: bool | None = None) -> None:
        App.__init__(self, debug)
        self._add_web(None)

    def _add_web(self, existing: Starlette | None) -> None:
        """Set what a web application has beside services and settings."""
        super()._add_web(existing)
        self.representations: dict[str, Representation] = {}
        self.transports: list[str] = []
        self.file_routes: dict[str, bool] = {}
        self.service_middleware: dict[ServiceHandle, ServiceMiddleware] = {}

    def __repr__(self) -> str:
        return f"express({App.__repr__(self)})"

    @overload
    def set(self, name: str, value: object) -> Self: ...
    @overload
    def set(self, name: type[T], value: T) -> Self: ...
    def set(self, name: Any, value: object) -> Self:
        """Set a setting (see `WebApplication.set`)."""
        WebApplication.set(self, name, value)
        return self

    @overload
    def get(self, path: str, /) -> Any: ...
    @overload
    def get(self, path: str, /, *handlers: Handler) -> Self: ...
    def get(self, path: str, /, *handlers: Handler) -> Any:
        """Register a route for GET, or read a setting (see `WebApplication.get`)."""
        return WebApplication.get(self, path, *handlers)

    def use(  # pyright: ignore[reportIncompatibleMethodOverride]  # a path may come first, or not
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
            if not isinstance(item, Router)
            and (isinstance(item, App) or item_type_of(item) is ItemType.SERVICE)
        ]
        if not services:
            if methods is not None or events is not None:
                raise TypeError("methods and events are options of a service; there is none here")
            WebApplication.use(self, *items)
            return self
        if path is None or len(services) > 1:
            given = ", ".join(repr(rest[at]) for at in services)
            raise TypeError(
                f"use() takes a path and one service, not {len(services)} ({given})"
                f" {'without a path' if path is None else 'at one path'}: use(path, service)"
            )
        before, service, after = rest[: services[0]], rest[services[0]], rest[services[0] + 1 :]
        middleware = ServiceMiddleware([*map(step_of, before)], [*map(step_of, after)])
        registered = set(self.services)
        App.use(self, path, service, methods=methods, events=events)
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

    async def unuse(self, path: Paths) -> Any:
        """Take a service away (see `App.unuse`)."""
        self.service_middleware.pop(self.service(path), None)
        return await App.unuse(self, path)

    # -- start and stop ------------------------------------------------------------------------

    async def setup(self, server: Any = None) -> Self:
        """Set the services up (see `App.setup`)."""
        from alula._hub import current_worker  # noqa: PLC0415  # only a start needs it

        was_ready = self.is_ready
        await App.setup(self, server)
        place = current_worker()
        # Once: not by a second call, and not by each worker.
        if not was_ready and (place is None or place.is_first):
            self.channel_registry.check_publishers(self.transports)
        return self

    async def teardown(self) -> Self:
        """Close the server that `listen` has started, and tear the services down.

        Raises:
            Exception: As `App.teardown`.
        """
        await WebApplication.teardown(self)
        await App.teardown(self)
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
                await App.teardown(self)


@overload
def express(app: None = None, existing_app: Starlette | None = None) -> WebApplication: ...
@overload
def express(
    app: App[Paths], existing_app: Starlette | None = None
) -> ExpressApplication[Paths]: ...
def express(app: App | None = None, existing_app: Starlette | None = None) -> WebApplication:
    """Make an `App` an ASGI application, with middleware, routes and a server, and return it.

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
        ValueError: ``app`` is a web application already.
    """
    if app is None:
        web = WebApplication(existing_app)
        web.debug = App().debug  # read from the environment by one rule
        return web
    if not isinstance(app, App):
        raise TypeError(f"express(app): {app!r} is not an alula.App; write express(App())")
    return _made_web(app, existing_app)


def _made_web(app: Any, existing: Starlette | None) -> ExpressApplication:
    """Give an application the class of a web application: it stays one object, with its state."""
    of_user: type[Any] = app.__class__
    if issubclass(of_user, ExpressApplication):
        raise ValueError(f"{app!r} is a web application already")
    if of_user is App:
        app.__class__ = ExpressApplication
    else:  # what a class of the user overrides comes first
        app.__class__ = type(of_user.__name__, (of_user, ExpressApplication), {})
    try:
        app._add_web(existing)  # noqa: SLF001  # of the class above
    except BaseException:
        app.__class__ = of_user
        raise
    return cast("ExpressApplication", app)
