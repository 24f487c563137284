"""Other ASGI applications: as steps of the chain, and as an application that ours extends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Match

from alula.express._chain import Step
from alula.express._request import Request
from alula.express._response import ASGIApp, Response

__all__ = ["Existing", "asgi_step"]


def asgi_step(app: ASGIApp) -> Step:
    """Return a step that hands requests to an ASGI application, which always answers them."""
    return Step(lambda req, res, _: res.delegate(_below(app, req)))


def _below(app: ASGIApp, req: Request) -> ASGIApp:
    """Return ``app`` with the prefix of the mount moved to ``root_path``, as ASGI has it."""
    if not req.base_url:
        return app
    # ASGI's paths are decoded; base_url is as it was sent.
    root_path = req.scope.get("root_path", "") + unquote(req.base_url)

    async def run(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "root_path": root_path}, receive, send)

    return run


class Existing:
    """A Starlette or FastAPI application that ours extends.

    Ours becomes its innermost middleware. So its own middleware sees every request; its routes
    come first; and where nothing of ours answers either, its own 404, 405 or redirect does.

    Args:
        app: The application that exists.
        inside: Ours: gets every connection that has passed the middleware.

    Raises:
        TypeError: It is no Starlette application.
        RuntimeError: It has served requests already, so nothing can be added.

    Attributes:
        app: The application that exists, with all of its middleware.
        routing: What lies behind ours: its routes, its 404, its exception handlers.
    """

    def __init__(self, app: Any, inside: ASGIApp) -> None:
        if not isinstance(app, Starlette):
            raise TypeError(
                f"express(app, existing_app): {app!r} is no Starlette or FastAPI application;"
                ' mount any other ASGI application: app.use("/path", other)'
            )
        if app.middleware_stack is not None:
            raise RuntimeError(
                f"express(app, existing_app): {app!r} has served requests already; extend it"
                " before it starts"
            )
        self.app = app
        self.routing: ASGIApp = app.router
        self._inside = inside
        app.user_middleware.append(Middleware(self._insert))

    def step(self) -> Step:
        """Return a step that lets the existing application answer where one of its routes fits."""

        def run(req: Request, res: Response, next: Any) -> Any:
            if not any(route.matches(req.scope)[0] is Match.FULL for route in self.app.routes):
                return next()
            res.delegate(self.routing)
            return None

        return Step(run)

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[dict[str, Any]]:
        """Run its lifespan; yields the state that its requests get."""
        async with self.app.router.lifespan_context(self.app) as state:
            yield dict(state or {})

    def _insert(self, app: ASGIApp) -> ASGIApp:
        self.routing = app
        return self._inside
