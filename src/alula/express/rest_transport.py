"""The REST transport: requests whose path names a service call it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from alula.compose import name_of
from alula.express.application import ExpressApplication
from alula.express.chain import Out, Step
from alula.express.middleware.caller import proof_reader
from alula.express.request import Request
from alula.express.response import Response
from alula.express.service_route import Formatter, call_service, send_result
from alula.routes import Found
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
        app.add(Step(proof_reader(app.app), claims=True))
        for step in _transport(app, formatter):
            app.add(step)

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


def _transport(app: ExpressApplication, formatter: Formatter | None) -> tuple[Step, Step]:
    """Return the step of services without middleware of their own, and that of the others."""
    lookup, routes = app.app.routes.find, app.service_routes

    def services(req: Request, res: Response) -> Awaitable[None] | None:
        match = lookup(req.path)
        if match is None or (routes and match[0] in routes):
            return None
        if formatter is None:
            return call_service(match, req, res, answers=True)
        return _serve(match, formatter, req, res)

    def surrounded_services(req: Request, res: Response, next: Out) -> Awaitable[None]:
        match = lookup(req.path) if routes else None
        if match is None:
            return next()
        return routes[match[0]].handle(match, formatter, req, res, next)

    return Step(services, claims=True), Step(surrounded_services)


async def _serve(
    match: Found[ServiceHandle], formatter: Formatter, req: Request, res: Response
) -> None:
    await call_service(match, req, res)
    await send_result(formatter, req, res)
