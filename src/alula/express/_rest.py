"""The REST transport: requests whose path names a service call it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from alula._routes import Found
from alula._service import ServiceHandle
from alula._user_code import name_of
from alula.express._application import ExpressApplication
from alula.express._chain import Out, Step, never
from alula.express._middleware.authenticate import proof_reader
from alula.express._request import Request
from alula.express._response import Response
from alula.express._service_route import Formatter, call_service, is_offered, send_result

__all__ = ["rest"]


def rest(
    formatter: Formatter | None = None, *, cancel_on_disconnect: bool = False
) -> Callable[[ExpressApplication], None]:
    """Return the plugin that registers the REST transport: ``app.configure(rest())``.

    Services are reached from where it is configured, also those that are registered later. Body
    parsers, and middleware that sets params, come before it.

    Args:
        formatter: ``(req, res)``, plain or asynchronous; answers ``res.data``, for example by
            ``res.format``. None answers JSON.
        cancel_on_disconnect: Whether a call is cancelled when its client goes away. Its hooks and
            its method get an ``asyncio.CancelledError`` then, wherever they wait: what they have
            written so far stays. Otherwise a call runs to its end, though nobody gets the result.

    Raises:
        TypeError: ``formatter`` is not such a function; or, by the plugin, the application is not
            made by ``express(App())``.
        RuntimeError: By the plugin: the application has one already.
    """
    if formatter is not None:
        _check_formatter(formatter)

    def configure(app: ExpressApplication) -> None:
        if not isinstance(app, ExpressApplication):
            raise TypeError(f"rest() configures what express(App()) returns, not {app!r}")
        if "rest" in app.transports:  # a second one is never asked, nor is its formatter
            raise RuntimeError("rest() is configured already; one carries all services")
        app.transports.append("rest")
        if cancel_on_disconnect:
            app.add(Step(_cancel_calls, claims=True, concerns=never))
        app.add(Step(proof_reader(app.app), claims=True, concerns=never))
        for step in _transport(app, formatter):
            app.add(step)

    return configure


def _cancel_calls(req: Request, _: Response) -> None:
    req.cancels_calls = True


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

    def is_served(req: Request) -> bool:
        match = lookup(req.path)
        if match is None or (routes and match[0] in routes):
            return False
        return is_offered(match, req)

    def is_surrounded(req: Request) -> bool:
        match = lookup(req.path) if routes else None
        return match is not None and match[0] in routes

    return (
        Step(services, claims=True, concerns=is_served),
        Step(surrounded_services, concerns=is_surrounded),
    )


async def _serve(
    match: Found[ServiceHandle], formatter: Formatter, req: Request, res: Response
) -> None:
    await call_service(match, req, res)
    await send_result(formatter, req, res)
