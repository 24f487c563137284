"""Extends a Starlette or FastAPI application that exists: ``express(app, existing_app)``."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from starlette.applications import Starlette
from starlette.middleware import Middleware as StarletteMiddleware
from starlette.routing import Match
from starlette.types import ASGIApp, Receive, Scope, Send

from alula._wire import MESSAGES_EXTENSION
from alula.express._chain import NextFunction, Step
from alula.express._request import Request
from alula.express._response import Response

__all__ = ["ExistingApplication"]

_PASSED: Final = "alula.passed"
"""In a scope: the existing application whose middleware has passed it on to ours."""

_TARGET: Final = "alula.target"
"""In a scope: the endpoint that gets the connection behind the middleware, instead of ours."""


class ExistingApplication:
    """A Starlette or FastAPI application that ours extends.

    Ours becomes its innermost middleware. So its own middleware sees every request, its routes
    come first, and its own 404, 405 or redirect is sent if nothing of ours responds either.

    Args:
        app: The application that exists.
        inside: Ours: gets every connection that has passed the middleware.

    Raises:
        TypeError: It is not a Starlette application.
        RuntimeError: It has served requests already, so nothing can be added.

    Attributes:
        app: The application that exists, with all of its middleware.
        routing: What lies behind ours: its routes, its 404, its exception handlers.
    """

    def __init__(self, app: Starlette, inside: ASGIApp) -> None:
        if not isinstance(app, Starlette):
            raise TypeError(
                f"express(app, existing_app): {app!r} is not a Starlette or FastAPI application;"
                ' mount any other ASGI application: app.use("/path", other)'
            )
        if app.middleware_stack is not None:
            raise RuntimeError(
                f"express(app, existing_app): {app!r} has served requests already; extend it"
                " before it starts"
            )
        self.app = app
        self.routing: ASGIApp = app.router
        self._state: Mapping[str, Any] = {}

        async def enter(scope: Scope, receive: Receive, send: Send) -> None:
            # Changed in place, as Starlette does: middleware outside reads what is set inside.
            scope[_PASSED] = self.app
            target: ASGIApp = scope.pop(_TARGET, inside)
            direct = scope.get("extensions", {}).get(MESSAGES_EXTENSION)
            if direct is not None and (direct.receive, direct.send) != (receive, send):
                # Middleware wants to see the messages, so they must not pass beside it.
                names = scope["extensions"].keys() - {MESSAGES_EXTENSION}
                scope["extensions"] = {name: scope["extensions"][name] for name in names}
            await target(scope, receive, send)

        def insert(routing: ASGIApp) -> ASGIApp:
            self.routing = routing
            return enter

        app.user_middleware.append(StarletteMiddleware(insert))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a connection: its middleware first, then ours, with the state of its lifespan."""
        scope = {**scope}
        if self._state:
            scope["state"] = {**scope.get("state", {}), **self._state}
        await self.app(scope, receive, send)

    def behind_middleware(self, endpoint: ASGIApp) -> ASGIApp:
        """Return an ASGI application that passes the middleware first, then goes to an endpoint.

        An application around ours finds our endpoints by itself, and calls them directly.
        """

        async def run(scope: Scope, receive: Receive, send: Send) -> None:
            if self.has_passed(scope):
                await endpoint(scope, receive, send)
            else:
                await self({**scope, _TARGET: endpoint}, receive, send)

        return run

    def has_passed(self, scope: Scope) -> bool:
        """Tell whether a connection comes from its middleware."""
        return scope.get(_PASSED) is self.app

    def step(self) -> Step:
        """Return a step by which the existing application responds if one of its routes matches."""

        def run(req: Request, res: Response, next: NextFunction) -> Any:
            if not any(route.matches(req.scope)[0] is Match.FULL for route in self.app.routes):
                return next()
            res.delegate(self.routing)
            return None

        return Step(run)

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[Mapping[str, Any]]:
        """Run its lifespan; yields the state that requests get."""
        async with self.app.router.lifespan_context(self.app) as state:
            self._state = dict(state or {})
            yield self._state
