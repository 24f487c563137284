"""Other ASGI applications as steps of the chain: Starlette, FastAPI, any other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from starlette.routing import Match

from alula.express.chain import Step
from alula.express.request import Request
from alula.express.response import ASGIApp, Response

__all__ = ["asgi_step", "existing_step", "lifespan_of"]


def asgi_step(app: ASGIApp) -> Step:
    """Return a step that hands requests to an ASGI application, which always answers them."""

    async def run(req: Request, res: Response, _: Any) -> None:
        res.delegate(_below(app, req))

    return Step(run)


def existing_step(app: Any) -> Step:
    """Return a step that lets an existing application answer where one of its routes fits.

    Args:
        app: A Starlette or FastAPI application.
    """

    async def run(req: Request, res: Response, next: Any) -> None:
        if any(route.matches(req.scope)[0] is Match.FULL for route in app.routes):
            res.delegate(app)
        else:
            await next()

    return Step(run)


def lifespan_of(app: Any) -> AbstractAsyncContextManager[Any]:
    """Return the lifespan of a Starlette or FastAPI application as a context manager."""
    router = getattr(app, "router", None)
    if router is None:
        return _no_lifespan()
    context: AbstractAsyncContextManager[Any] = router.lifespan_context(app)
    return context


@asynccontextmanager
async def _no_lifespan() -> AsyncIterator[None]:
    yield


def _below(app: ASGIApp, req: Request) -> ASGIApp:
    """Return ``app`` with the prefix of the mount moved to ``root_path``, as ASGI has it."""
    if not req.base_url:
        return app
    root_path = req.scope.get("root_path", "") + req.base_url

    async def run(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "root_path": root_path}, receive, send)

    return run
