"""The REST transport: requests whose path names a service call it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from alula.compose import name_of
from alula.express.application import ExpressApplication
from alula.express.chain import Out
from alula.express.request import Request
from alula.express.response import Response
from alula.express.service_route import Formatter, call_service, send_json, send_result
from alula.routes import Match
from alula.service import ServiceHandle

__all__ = ["rest"]


def rest(formatter: Formatter | None = None) -> Callable[[ExpressApplication], None]:
    """Return the plugin that registers the REST transport: ``app.configure(rest())``.

    Services are reached from where it is configured, also those that are registered later. Body
    parsers, and middleware that sets params, come before it.

    Args:
        formatter: ``(req, res)``, plain or asynchronous; answers ``res.data``, for example by
            ``res.format``. None answers JSON.

    Raises:
        TypeError: ``formatter`` is no such function; or, by the plugin, the application is not
            made by ``express(App())``.
    """
    if formatter is not None:
        _check_formatter(formatter)

    def configure(app: ExpressApplication) -> None:
        if not isinstance(app, ExpressApplication):
            raise TypeError(f"rest() configures what express(App()) returns, not {app!r}")
        app.use(_transport(app, formatter))

    return configure


def _check_formatter(formatter: Any) -> None:
    if isinstance(formatter, ExpressApplication):
        raise TypeError("write app.configure(rest()), with brackets")
    if not callable(formatter):
        raise TypeError(f"rest({formatter!r}): a formatter is a function of (req, res)")
    signature = inspect.signature(formatter)
    try:
        signature.bind("req", "res")
    except TypeError:
        raise TypeError(
            f"the formatter {name_of(formatter)} takes {signature}; expected (req, res)"
        ) from None


def _transport(app: ExpressApplication, formatter: Formatter | None) -> Any:
    lookup, routes = app.app.lookup, app.service_routes

    def services(req: Request, res: Response, next: Out) -> Awaitable[None]:
        match = lookup(req.path)
        if match is None:
            return next()
        route = routes.get(match.value) if routes else None
        if route is None:
            return serve(match, req, res)
        return route.handle(match, formatter, req, res, next)

    async def serve(match: Match[ServiceHandle], req: Request, res: Response) -> None:
        await call_service(match, req, res)
        if formatter is None:
            send_json(res)  # the usual case, without a coroutine of its own
        else:
            await send_result(formatter, req, res)

    return services
