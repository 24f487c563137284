"""The REST transport: requests whose path names a service call it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from alula.express.application import ExpressApplication
from alula.express.request import Request
from alula.express.response import Response
from alula.express.service_route import Formatter, call_service, send_result

__all__ = ["rest"]

Application = TypeVar("Application", bound=ExpressApplication)


def rest(formatter: Formatter | None = None) -> Callable[[Any], None]:
    """Return the plugin that registers the REST transport: ``app.configure(rest())``.

    Services are reached from where it is configured, also those that are registered later. Body
    parsers, and middleware that sets params, come before it.

    Args:
        formatter: ``(req, res)``, plain or asynchronous; answers ``res.data``, for example by
            ``res.format``. None answers JSON.

    Raises:
        TypeError: By the plugin, on anything that is not made by ``express(App())``.
    """

    def configure(app: Any) -> None:
        if not isinstance(app, ExpressApplication):
            raise TypeError(f"rest() configures what express(App()) returns, not {app!r}")
        app.use(_transport(app, formatter))

    return configure


def _transport(app: ExpressApplication, formatter: Formatter | None) -> Any:
    async def services(req: Request, res: Response, next: Any) -> None:
        match = app.lookup(req.path)
        if match is None:
            await next()
            return
        route = app.routes.get(match.value.path)
        if route is None:
            await call_service(match, req, res)
            await send_result(formatter, req, res)
            return

        async def finish(error: Exception | None = None) -> None:
            if error is not None:
                await next(error)
            elif not res.headers_sent:
                await send_result(formatter, req, res)

        await route.handle(match, req, res, finish)

    return services
